"""Rules of everything but matrix products and convolutions, each against a count by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from hroof.units import Pipe, Precision, Source  # noqa: E402
from hroof_keras.counting import (  # noqa: E402
    Buffers,
    has_rule,
    plain,
    weights,
    work_of,
)
from hroof_keras.counting.flop import RULES, rule  # noqa: E402
from hroof_keras.counting.names import MOVES, NOTHING, VIEWS  # noqa: E402
from hroof_keras.counting.rules.optimizers import UPDATES  # noqa: E402
from hroof_keras.counting.rules.registry import find_rule  # noqa: E402
from hroof_keras.graph.nodes import TensorSpec  # noqa: E402
from tests.integrations.hroof_keras.counting.made import node, work  # noqa: E402
from tests.integrations.hroof_keras.counting.traced import gradient, one, trace  # noqa: E402

MATRIX, VECTOR = Pipe.MATRIX, Pipe.VECTOR
FP32 = (VECTOR, Precision.FP32)


# --- names


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("MatMul", "MatMul"),
        ("_FusedConv2D", "FusedConv2D"),
        ("_MklFusedMatMul", "FusedMatMul"),
        ("_MklNativeFusedConv2D", "FusedConv2D"),
        ("_MklNativeConv2DBackpropFilterWithBias", "Conv2DBackpropFilterWithBias"),
        ("_Arg", "Arg"),
        ("_", "_"),
    ],
)
def test_plain_names(op: str, expected: str) -> None:
    assert plain(op) == expected


def test_no_op_is_in_two_tables() -> None:
    tables = [VIEWS, NOTHING, MOVES, set(weights.PER_OUTPUT), set(weights.PER_INPUT), set(RULES)]
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}


def test_every_name_in_the_tables_is_an_op_of_tensorflow() -> None:
    """A misspelt name would be a rule that never applies."""
    from tensorflow.python.framework import op_def_registry

    internal = frozenset(
        {
            # Made by Grappler or by oneDNN's rewriting under prefixes that are stripped here.
            *("FusedMatMul", "FusedConv2D", "FusedConv3D", "FusedDepthwiseConv2dNative"),
            *("FusedBatchMatMulV2", "FusedBatchMatMul", "Conv2DWithBias", "MatMulWithBias"),
            *("PadWithConv2D", "PadWithFusedConv2D", "Conv2DBackpropFilterWithBias"),
            *("PadWithConv2DBackpropFilter", "PadWithConv2DBackpropFilterWithBias"),
            *("FusedBatchNormEx", "FusedBatchNormGradEx", "FusedHardSwish", "Swish", "LayerNorm"),
            "UnaryOpsComposition",
        }
    )
    tables: list[Any] = [VIEWS, NOTHING, MOVES, weights.PER_OUTPUT, weights.PER_INPUT, RULES]
    names = {name for table in tables for name in table} - internal
    unknown = {
        name
        for name in names
        if not any(op_def_registry.get(f"{prefix}{name}") for prefix in ("", "_", "Resource"))
    }
    assert unknown == set()


def test_an_op_has_one_rule() -> None:
    with pytest.raises(ValueError, match="MatMul has two rules"):
        rule("MatMul")(lambda call: call)  # type: ignore[arg-type, return-value]


def test_an_op_without_a_rule_is_missing_never_zero() -> None:
    assert not has_rule("Svd")
    counted = work("Svd", (4, 4), out=[(4,), (4, 4), (4, 4)])
    assert (counted.nominal, counted.least, counted.source) == (None, None, Source.MISSING)
    assert (counted.bytes_read, counted.bytes_written) == (64, 16 + 128)
    assert math.isnan(counted.flop())


# --- elementwise and reductions


@pytest.mark.parametrize(
    ("op", "weight"),
    [
        *(("AddV2", 1), ("Mul", 1), ("Maximum", 1), ("SquaredDifference", 2), ("Sigmoid", 3)),
        *(("TanhGrad", 3), ("Softmax", 4), ("Relu", 1), ("Erf", 1), ("Elu", 3), ("RsqrtGrad", 3)),
    ],
)
def test_weights_apply_per_element_of_the_result(op: str, weight: float) -> None:
    binary = op in ("AddV2", "Mul", "Maximum", "SquaredDifference", "TanhGrad", "RsqrtGrad")
    counted = work(op, (3, 4), *([(3, 4)] if binary else []), out=(3, 4))
    assert counted.nominal == {FP32: weight * 12}
    assert counted.least == {FP32: 12}
    assert counted.source is Source.CONVENTION


def test_broadcasting_counts_the_result() -> None:
    assert work("Mul", (3, 1), (4,)).nominal == {FP32: 12}


def test_booleans_compute_nothing_and_integers_no_flop() -> None:
    assert work("Less", (3,), (3,)).nominal == {}
    assert work("All", TensorSpec((3,), "bool"), out=TensorSpec((), "bool")).nominal == {}
    assert work("AddV2", (3,), (3,), T=tf.int64).nominal == {(VECTOR, Precision.INT32): 3}


def test_complex_numbers() -> None:
    for op, factor in (("Mul", 6), ("AddV2", 2), ("RealDiv", 11)):
        assert work(op, (3,), (3,), T=tf.complex64).flop() == 3 * factor
    assert work("Exp", (3,), T=tf.complex128).nominal == {(VECTOR, Precision.FP64): 12}


def test_reductions_count_what_they_read() -> None:
    counted = work("Sum", (3, 4), TensorSpec((1,), "int32"), constants={1: [0]})
    assert counted.nominal == {FP32: 12}
    assert (counted.bytes_read, counted.bytes_written) == (48, 16)
    assert work("L2Loss", (3, 4)).nominal == {FP32: 24}
    assert work("BiasAddGrad", (3, 4)).bytes_written == 16


def test_sums_of_gradients() -> None:
    counted = work("AddN", (3, 4), (3, 4), (3, 4))
    assert counted.nominal == counted.least == {FP32: 24}
    assert (counted.bytes_read, counted.bytes_written) == (144, 48)


def test_a_sum_of_lists_is_missing() -> None:
    """What of a list is set only the data tells."""
    buffers = Buffers()
    counted = work("AddN", None, None, T=tf.variant, buffers=buffers)
    assert counted.source is Source.MISSING
    assert math.isnan(counted.bytes_read)
    assert "adds lists" in next(iter(buffers.faults))


def test_composed_ops_count_as_they_would_alone() -> None:
    counted = work("_UnaryOpsComposition", (3, 4), op_names=["Neg", "Sigmoid"])
    assert counted.nominal == {FP32: 48}
    assert counted.least == {FP32: 12}
    assert work("_UnaryOpsComposition", (3, 4), op_names=["Origami"]).nominal is None


def test_shapes_that_are_not_known_are_missing() -> None:
    buffers = Buffers()
    counted = work("AddV2", None, None, buffers=buffers)
    assert counted.nominal is None
    assert math.isnan(counted.bytes_read)
    assert math.isnan(counted.bytes_written)
    assert counted.touch.accesses == ()
    assert list(buffers.faults) == [
        "AddV2: its FLOP cannot be counted (the shape of its result is not known)"
    ]


def test_a_fault_in_counting_is_noted_not_raised() -> None:
    buffers = Buffers()
    broken = work("MatMul", (3,), (4,), buffers=buffers)
    assert broken.nominal is None
    assert "MatMul: its FLOP cannot be counted (ValueError" in next(iter(buffers.faults))
    without_inputs = work_of(node("AssignVariableOp", 0), [], [], buffers)
    assert math.isnan(without_inputs.bytes_read)
    assert any("its bytes cannot be counted" in fault for fault in buffers.faults)


# --- norms and losses


def test_batch_norm() -> None:
    x, c = (2, 3, 3, 4), (4,)
    assert work("FusedBatchNormV3", x, c, c, (0,), (0,), is_training=True).flop() == 8 * 72
    assert work("FusedBatchNormV3", x, c, c, c, c, is_training=False).flop() == 4 * 72
    counted = work("FusedBatchNormGradV3", x, x, c, c, c, (0,))
    assert counted.flop() == 11 * 72
    assert counted.bytes_written == 4 * (72 + 8)
    fused = work(
        "_FusedBatchNormEx",
        x,
        c,
        c,
        c,
        c,
        x,
        is_training=False,
        num_side_inputs=1,
        activation_mode="Relu",
    )
    assert fused.flop() == (4 + 2) * 72


def test_work_space_of_a_library_is_not_traffic() -> None:
    """The last result of a batch norm on a GPU, and the last input of its gradient."""
    x, c, reserve = (2, 3, 3, 4), (4,), (1000,)
    forward = work("FusedBatchNormV3", x, c, c, (0,), (0,), out=[x, c, c, c, c, reserve])
    assert forward.bytes_written == 4 * (72 + 4 * 4)
    backward = work("FusedBatchNormGradV3", x, x, c, c, c, reserve)
    assert backward.bytes_read == 4 * (144 + 3 * 4)


def test_losses_with_their_gradient() -> None:
    """Softmax and its gradient, 4 per logit each; loss and gradient of a target, 1 each."""
    sparse = work("SparseSoftmaxCrossEntropyWithLogits", (5, 7), TensorSpec((5,), "int64"))
    assert sparse.flop() == 8 * 35 + 2 * 5
    assert (sparse.bytes_read, sparse.bytes_written) == (4 * 35 + 8 * 5, 4 * 5 + 4 * 35)
    assert work("SoftmaxCrossEntropyWithLogits", (5, 7), (5, 7)).flop() == 11 * 35


def test_local_response_normalization() -> None:
    assert work("LRN", (1, 2, 2, 3), depth_radius=2).flop() == 12 * (5 + 5)


# --- pools


@given(st.integers(4, 9), st.integers(1, 3), st.integers(1, 3), st.sampled_from(["SAME", "VALID"]))
@settings(max_examples=40)
def test_pools_count_taps(length: int, taps: int, stride: int, padding: str) -> None:
    x = (2, length, length, 3)
    y = tf.nn.max_pool2d(tf.ones(x), taps, stride, padding)
    attrs: dict[str, Any] = {
        "ksize": [1, taps, taps, 1],
        "strides": [1, stride, stride, 1],
        "padding": padding,
    }
    for op in ("MaxPool", "AvgPool"):
        counted = work(op, x, **attrs)
        assert counted.flop() == int(tf.size(y)) * taps**2
        assert counted.bytes_written == 4 * int(tf.size(y))


def test_pools_in_three_dimensions_and_with_channels_first() -> None:
    attrs: dict[str, Any] = {
        "ksize": [1, 2, 2, 2, 1],
        "strides": [1, 2, 2, 2, 1],
        "padding": "VALID",
    }
    assert work("MaxPool3D", (1, 4, 4, 4, 3), **attrs).flop() == 8 * 3 * 8
    first: dict[str, Any] = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "padding": "VALID"}
    counted = work("MaxPool", (1, 3, 4, 4), data_format="NCHW", **first)
    assert (counted.flop(), counted.bytes_written) == (4 * 3 * 4, 4 * 12)


def test_gradients_of_pools() -> None:
    x, y = (1, 4, 4, 3), (1, 2, 2, 3)
    attrs: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    greatest = work("MaxPoolGrad", x, y, y, **attrs)
    assert greatest.flop() == 12
    assert (greatest.bytes_read, greatest.bytes_written) == (4 * (48 + 24), 4 * 48)
    sizes = TensorSpec((4,), "int32")
    average = work("AvgPoolGrad", sizes, y, constants={0: x}, **attrs)
    assert average.flop() == 12 * 4
    assert (average.bytes_read, average.bytes_written) == (48, 192)
    places = TensorSpec(y, "int64")
    assert work("MaxPoolGradWithArgmax", x, y, places, **attrs).flop() == 12
    sized = TensorSpec((4,), "int32")
    later = work("MaxPoolV2", x, sized, sized, out=y, constants={1: [1, 2, 2, 1], 2: [1, 2, 2, 1]})
    assert later.flop() == 12 * 4


# --- optimizers


@pytest.mark.parametrize("op", UPDATES)
def test_fused_optimizers(op: str) -> None:
    """Per element: the loop's weight; least is one per element of everything that is written."""
    update = UPDATES[op]
    sparse = op.startswith("Sparse")
    inputs: list[Any] = [None] * update.states + [()] * (update.gradient - update.states) + [(5, 4)]
    inputs += [TensorSpec((5,), "int64")] if sparse else []
    counted = work(f"Resource{op}", *inputs)
    assert counted.nominal == {FP32: update.weight * 20}
    assert counted.least == {FP32: update.states * 20}
    assert counted.bytes_written == 80 * update.states
    assert counted.bytes_read == 80 * (update.states + 1) + 40 * sparse


def test_positions_of_gradients_are_those_of_tensorflow() -> None:
    from tensorflow.python.framework import op_def_registry

    for op, update in UPDATES.items():
        arguments = [argument.name for argument in op_def_registry.get(f"Resource{op}").input_arg]
        assert arguments[update.gradient] in ("grad", "delta"), op
        assert all(name.islower() for name in arguments[: update.states])


def test_keras_optimizers_are_simple_ops() -> None:
    """A fused kernel and the ops that Keras writes count the same order of work: 13 for Adam."""
    import keras

    variable = keras.Variable(tf.ones((5, 4)))
    optimizer = keras.optimizers.Adam()
    optimizer.build([variable])
    nodes = trace(lambda g: optimizer.apply([g], [variable]), (5, 4))
    large = [
        item.work().flop(VECTOR)
        for item in nodes
        if any(spec and spec.shape == (5, 4) for spec in (*item.inputs, *item.outputs))
    ]
    assert 9 * 20 <= sum(large) <= 13 * 20


# --- recurrent layers


@pytest.mark.parametrize(
    ("mode", "gates", "cell"), [("lstm", 4, 22), ("gru", 3, 18), ("rnn_tanh", 1, 2)]
)
def test_cudnn_layers_by_hand(mode: str, gates: int, cell: float) -> None:
    """Two layers, 5 steps, batch 3, 4 features, 6 units. From the definition of the op; not run on a GPU."""
    counted = work(
        "CudnnRNNV3",
        *((5, 3, 4), (2, 3, 6), (2, 3, 6), (999,), TensorSpec((3,), "int32")),
        rnn_mode=mode,
        direction="unidirectional",
    )
    per_step = gates * 6 * (4 + 6) + gates * 6 * (6 + 6)
    assert counted.flop(MATRIX) == 2 * 15 * per_step
    assert counted.flop(VECTOR) == cell * 15 * 2 * 6
    assert counted.bytes_written == 4 * (15 * 6 + 36 + 36)


def test_cudnn_layers_in_both_directions() -> None:
    counted = work(
        "CudnnRNNV2",
        (5, 3, 4),
        (4, 3, 6),
        (4, 3, 6),
        (999,),
        rnn_mode="lstm",
        direction="bidirectional",
    )
    per_step = 2 * (4 * 6 * (4 + 6) + 4 * 6 * (12 + 6))
    assert counted.flop(MATRIX) == 2 * 15 * per_step


def test_cudnn_layers_with_projection() -> None:
    """Six units projected to two: gates see the projected state, and the projection is a product of its own."""
    counted = work(
        "CudnnRNNV2", (5, 3, 4), (1, 3, 2), (1, 3, 6), (99,), rnn_mode="lstm", num_proj=2
    )
    assert counted.flop(MATRIX) == 2 * 15 * (4 * 6 * (4 + 2) + 6 * 2)


def test_the_gradient_multiplies_twice() -> None:
    shapes: list[Any] = [(5, 3, 4), (1, 3, 6), (1, 3, 6), (999,), TensorSpec((3,), "int32")]
    shapes += [(5, 3, 6), (1, 3, 6), (1, 3, 6), (5, 3, 6), (1, 3, 6), (1, 3, 6), (77,), (77,)]
    counted = work("CudnnRNNBackpropV3", *shapes, out=shapes[:4], rnn_mode="lstm")
    assert counted.flop(MATRIX) == 2 * 2 * 15 * 4 * 6 * 10
    assert counted.flop(VECTOR) == 30 * 15 * 6
    assert counted.bytes_read == sum(spec_bytes(known) for known in shapes[:11])
    assert work("CudnnRNNV2", *shapes[:4], rnn_mode="transformer").nominal is None


def spec_bytes(known: Any) -> float:
    return float(known.nbytes if isinstance(known, TensorSpec) else 4 * math.prod(known))


def test_block_lstm() -> None:
    shapes: list[Any] = [TensorSpec((), "int64"), (5, 3, 4), (3, 6), (3, 6), (10, 24)]
    assert work("BlockLSTMV2", *shapes, out=(5, 3, 6)).flop(MATRIX) == 2 * 15 * 240
    cell = work("LSTMBlockCell", (3, 4), (3, 6), (3, 6), (10, 24), out=(3, 6))
    assert (cell.flop(MATRIX), cell.flop(VECTOR)) == (2 * 3 * 240, 22 * 3 * 6)
    back = work("BlockLSTMGradV2", *shapes, out=(5, 3, 4))
    assert back.flop(MATRIX) == 4 * 15 * 240


# --- transforms and factorisations


def test_transforms() -> None:
    counted = work("FFT2D", (2, 8, 4), T=tf.complex64, Tcomplex=tf.complex64)
    assert counted.nominal == {FP32: 5 * 64 * (3 + 2)}
    sizes = TensorSpec((1,), "int32")
    real = one("RFFT", lambda x: tf.signal.rfft(x, [16]), (3, 10))
    assert real.work().flop() == 2.5 * 48 * 4
    back = one("IRFFT", lambda x: tf.signal.irfft(tf.cast(x, tf.complex64), [16]), (3, 9))
    assert back.work().flop() == 2.5 * 48 * 4
    assert work("RFFT", (3, 16), sizes, out=(3, 9), Tcomplex=tf.complex64).flop() == 2.5 * 48 * 4
    wide = work("FFT", (8,), T=tf.complex128, Tcomplex=tf.complex128)
    assert wide.nominal == {(VECTOR, Precision.FP64): 5 * 8 * 3}


@pytest.mark.parametrize(
    ("op", "shapes", "flop"),
    [
        ("Cholesky", [(2, 6, 6)], 2 * 6**3 / 3),
        ("MatrixInverse", [(6, 6)], 2 * 6**3),
        ("MatrixDeterminant", [(6, 6)], 2 * 6**3 / 3),
        ("MatrixTriangularSolve", [(6, 6), (6, 5)], 6**2 * 5),
        ("MatrixSolve", [(6, 6), (6, 5)], 2 * 6**3 / 3 + 2 * 36 * 5),
        ("Qr", [(8, 6)], 2 * 36 * (8 - 2)),
    ],
)
def test_factorisations(op: str, shapes: list[Any], flop: float) -> None:
    counted = work(op, *shapes, out=(6, 6))
    assert counted.nominal == {(MATRIX, Precision.FP32): flop}
    assert counted.source is Source.CONVENTION


# --- scattered work


def test_scattered_updates() -> None:
    indices = TensorSpec((5,), "int32")
    for op in ("ResourceScatterAdd", "TensorScatterSub"):
        assert work(op, None, indices, (5, 4), out=(9, 4)).flop() == 20
    assert work("ScatterNd", TensorSpec((5, 1), "int32"), (5, 4), out=(9, 4)).flop() == 20
    assert work("UnsortedSegmentSum", (5, 4), indices, out=(9, 4)).flop() == 20
    assert work("SparseSegmentSum", (9, 4), indices, indices, out=(3, 4)).flop() == 20
    assert work("ResourceScatterUpdate", None, indices, (5, 4)).nominal == {}


def test_traced_gradients_have_rules() -> None:
    """Every node of these gradients is known."""
    function = gradient(
        lambda x: (
            tf.reduce_sum(tf.nn.softmax(tf.math.unsorted_segment_sum(x, [0, 1, 0], 2)))
            + tf.reduce_mean(tf.gather(x, [2, 2, 1]))
            + tf.reduce_logsumexp(tf.nn.gelu(x))
            + tf.norm(x)
            + tf.reduce_max(tf.math.cumsum(x))
        )
    )
    nodes = trace(function, (3, 4))
    assert {item.node.op for item in nodes if find_rule(plain(item.node.op)) is None} == set()
