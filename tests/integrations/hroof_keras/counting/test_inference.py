"""Inferred shapes of results, against those that TensorFlow infers for the same nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from hroof_keras.counting import output_specs, plain  # noqa: E402
from hroof_keras.graph.nodes import TensorSpec  # noqa: E402
from tests.integrations.hroof_keras.counting.made import attribute, node  # noqa: E402
from tests.integrations.hroof_keras.counting.traced import gradient, trace  # noqa: E402

X, Y = (2, 6, 8, 4), (2, 6, 8, 4)

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "elementwise": (lambda x, y: tf.nn.relu(x + y) * tf.sigmoid(x) - tf.exp(y) / x, (X, (8, 4))),
    "comparisons": (lambda x, y: tf.where(x > y, tf.cast(x, tf.float64), 0.0), (X, X)),
    "integers": (lambda x: tf.bitwise.bitwise_and(tf.cast(x, tf.int32), 3), (X,)),
    "checks": (lambda x: tf.debugging.check_numerics(x, "x"), (X,)),
    "product": (lambda x, y: tf.matmul(x, y, transpose_b=True), ((3, 4), (5, 4))),
    "product of the transposed": (
        lambda x, y: tf.matmul(x, y, transpose_a=True),
        ((4, 3), (4, 5)),
    ),
    "batch of products": (lambda x, y: tf.matmul(x, y), ((2, 1, 3, 4), (5, 4, 6))),
    "adjoint products": (
        lambda x, y: tf.matmul(x, y, transpose_a=True, transpose_b=True),
        ((2, 4, 3), (2, 6, 4)),
    ),
    "einsum": (lambda x, y: tf.einsum("bqhd,bkhd->bhqk", x, y), (X, (2, 5, 8, 4))),
    "einsum with an ellipsis": (lambda x, y: tf.einsum("...i,ij->...j", x, y), (X, (4, 3))),
    "reductions": (
        lambda x: [
            tf.reduce_sum(x, [0, -1]),
            tf.reduce_mean(x, 1, keepdims=True),
            tf.reduce_max(x),
            tf.reduce_any(x > 0, 2),
            tf.argmax(x, -1),
            tf.nn.l2_loss(x),
        ],
        (X,),
    ),
    "dense gradient": (gradient(lambda x, w, b: tf.nn.bias_add(x @ w, b)), ((5, 3), (3, 4), (4,))),
    "elementwise gradients": (
        gradient(
            lambda x: sum(
                f(x)
                for f in (
                    *(tf.tanh, tf.sigmoid, tf.sqrt, tf.math.rsqrt, tf.nn.relu, tf.nn.elu),
                    *(tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.nn.relu6, tf.nn.leaky_relu),
                    tf.math.reciprocal,
                )
            )
        ),
        (X,),
    ),
    "convolutions": (
        lambda x, w, d: [
            tf.nn.conv2d(x, w, 2, "SAME"),
            tf.nn.conv2d(x, w, 1, "VALID", dilations=2),
            tf.nn.conv2d(x, w, 1, [[0, 0], [1, 2], [0, 3], [0, 0]]),
            tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "VALID"),
        ],
        (X, (3, 3, 2, 6), (3, 3, 4, 2)),
    ),
    "convolution in three dimensions": (
        lambda x, w: tf.nn.conv3d(x, w, [1, 2, 1, 1, 1], "SAME"),
        ((1, 4, 5, 6, 2), (2, 2, 2, 2, 3)),
    ),
    "pools": (
        lambda x: [
            tf.nn.max_pool2d(x, 2, 2, "VALID"),
            tf.nn.avg_pool2d(x, 3, 2, "SAME"),
            *tf.nn.max_pool_with_argmax(x, 2, 2, "SAME"),
        ],
        (X,),
    ),
    "gradients of pools": (
        gradient(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID") + tf.nn.avg_pool2d(x, 2, 2, "VALID")),
        (X,),
    ),
    "losses": (
        lambda x: [
            tf.nn.sparse_softmax_cross_entropy_with_logits([1, 2, 0], x),
            tf.nn.softmax_cross_entropy_with_logits(tf.zeros((3, 7)), x),
            tf.nn.softmax(x),
            tf.nn.log_softmax(x),
        ],
        ((3, 7),),
    ),
    "reshaping": (
        lambda x: [
            tf.reshape(x, (4, -1)),
            tf.expand_dims(x, -2),
            tf.squeeze(tf.expand_dims(x, 1), 1),
            tf.transpose(x, (3, 0, 2, 1)),
            tf.tile(x, (1, 2, 1, 3)),
            tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]]),
            tf.broadcast_to(x, (3, 2, 6, 8, 4)),
        ],
        (X,),
    ),
    "joining and cutting": (
        lambda x, y: [
            tf.concat([x, y], 2),
            tf.stack([x, y], 1),
            *tf.unstack(x, axis=0),
            *tf.split(x, 2, 3),
            *tf.split(x, [1, 3, 4], 2),
            tf.slice(x, [0, 1, 2, 0], [2, -1, 3, 4]),
        ],
        (X, Y),
    ),
    "slices": (
        lambda x: [
            x[:, 1:-1],
            x[..., ::2],
            x[0, :, tf.newaxis, 3],
            x[:, ::-1, 2:100],
            x[1],
            x[..., 0],
            x[-1:, 2:4, ..., 1],
        ],
        (X,),
    ),
    "lookups": (
        lambda x: [
            tf.gather(x, [1, 0, 1], axis=0),
            tf.gather(x, [[1, 0], [2, 3]], axis=3),
            tf.gather(x, [[0, 1], [2, 2]], axis=1, batch_dims=1),
            tf.gather_nd(x, [[0, 1], [1, 2]]),
            tf.one_hot([1, 2], 5),
            *tf.math.top_k(x, 2),
            tf.math.unsorted_segment_sum(x, [3, 0], 5),
        ],
        (X,),
    ),
    "random": (
        lambda x: [
            x + tf.random.uniform((2, 6, 8, 4)),
            tf.random.stateless_normal((3, 4), (1, 2)),
        ],
        (X,),
    ),
    "made": (lambda x: [tf.fill((2, 3), 1.0), tf.range(3, 20, 4), tf.zeros_like(x)], (X,)),
    "blocks": (lambda x: [tf.nn.space_to_depth(x, 2), tf.nn.depth_to_space(x, 2)], (X,)),
    "transforms": (
        lambda x: [
            tf.signal.rfft(x, [16]),
            tf.signal.irfft(tf.cast(x, tf.complex64), [6]),
            tf.signal.fft2d(tf.cast(x, tf.complex64)),
            tf.signal.rfft2d(x),
        ],
        (X,),
    ),
    "factorisations": (
        lambda x: [tf.linalg.cholesky(x), tf.linalg.inv(x), *tf.linalg.qr(x)],
        ((2, 4, 4),),
    ),
    "tall factorisation": (lambda x: tf.linalg.qr(x), ((2, 6, 4),)),
    "full factorisation": (lambda x: tf.linalg.qr(x, full_matrices=True), ((6, 4),)),
    "norm": (
        lambda x: tf.raw_ops.FusedBatchNormV3(
            x=x, scale=tf.ones(4), offset=tf.zeros(4), mean=[], variance=[]
        )[:3],
        (X,),
    ),
    "complex": (lambda x: tf.math.real(tf.complex(x, x)) + tf.abs(tf.complex(x, x)), (X,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_tensorflow(name: str) -> None:
    function, shapes = FUNCTIONS[name]
    checked = set()
    for item in trace(function, *shapes):
        inferred = output_specs(item.node, item.inputs)
        if item.inputs and inferred:
            known = [spec for spec in item.outputs if spec is not None and spec.shape is not None]
            if len(known) == len(item.outputs):
                assert inferred[: len(known)] == known, item.node
                checked.add(plain(item.node.op))
    assert checked, "nothing was inferred"


UNINFERRED = frozenset(
    {
        # Their results are as many or as large as the data says, or only reference something.
        *("Placeholder", "Const", "ReadVariableOp", "NoOp", "ShapeN", "BroadcastGradientArgs"),
        *("StatelessRandomGetKeyCounter", "DynamicStitch", "Assert", "LogicalAnd"),
        # Where the shape is computed while the function runs.
        *("Reshape", "Slice"),
    }
)


def test_nothing_common_is_left_out() -> None:
    """Of all nodes of the functions above, those with inputs and results of known shape."""
    missed = set()
    for function, shapes in FUNCTIONS.values():
        for item in trace(function, *shapes):
            known = [spec for spec in item.outputs if spec is not None and spec.shape is not None]
            if known and item.inputs and not output_specs(item.node, item.inputs):
                missed.add(item.node.op)
    assert missed <= UNINFERRED, missed


def test_what_does_not_follow_from_shapes_is_unknown() -> None:
    x = TensorSpec((4, 6), "float32")
    assert output_specs(node("Reshape", 2), [x, TensorSpec((2,), "int32")]) == []
    assert output_specs(node("Sum", 2), [x, TensorSpec((1,), "int32")]) == []
    assert output_specs(node("Relu", 1), [None]) == []
    assert output_specs(node("Relu", 1), [TensorSpec(None, "float32")]) == []
    assert output_specs(node("AddV2", 2), [x, TensorSpec((5,), "float32")]) == []
    assert output_specs(node("NeverHeardOf", 1), [x]) == []


def test_shapes_that_tensorflow_noted_in_the_node_win() -> None:
    noted = tf.compat.v1.AttrValue()
    shape = noted.list.shape.add()
    for length in (3, 5):
        shape.dim.add().size = length
    made = node("NeverHeardOf", 1)
    attrs = {**made.attrs, "_output_shapes": noted, "T": attribute(tf.int64)}
    made = type(made)("n", "NeverHeardOf", ("i:0",), attrs)
    assert output_specs(made, [None]) == [TensorSpec((3, 5), "int64")]
    noted.list.shape.add().dim.add().size = -1
    assert output_specs(made, [None]) == []
