"""One convention of work in every framework: the same op counts the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tf = pytest.importorskip("tensorflow")

from torch.nn import functional as F  # noqa: E402

from hroof.launches import Work  # noqa: E402
from hroof.units import Pipe  # noqa: E402
from hroof_keras.counting import weights as keras_weights  # noqa: E402
from hroof_keras.counting.names import MOVES, NOTHING, VIEWS  # noqa: E402
from hroof_torch.counting import count_step  # noqa: E402
from hroof_torch.counting import weights as torch_weights  # noqa: E402
from tests.integrations.hroof_keras.counting.traced import trace  # noqa: E402

PER_OUTPUT = {
    "AddV2": "add",
    "Sub": "sub",
    "Mul": "mul",
    "RealDiv": "div",
    "FloorDiv": "floor_divide",
    "FloorMod": "remainder",
    "TruncateMod": "fmod",
    "Neg": "neg",
    "Abs": "abs",
    "Sign": "sign",
    "Reciprocal": "reciprocal",
    "Sqrt": "sqrt",
    "Rsqrt": "rsqrt",
    "Square": "square",
    "Pow": "pow",
    "Exp": "exp",
    "Expm1": "expm1",
    "Log": "log",
    "Log1p": "log1p",
    "Sin": "sin",
    "Tanh": "tanh",
    "TanhGrad": "tanh_backward",
    "Sigmoid": "sigmoid",
    "SigmoidGrad": "sigmoid_backward",
    "Erf": "erf",
    "Erfc": "erfc",
    "Lgamma": "lgamma",
    "Ceil": "ceil",
    "Round": "round",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "ClipByValue": "clamp",
    "Relu": "relu",
    "ReluGrad": "threshold_backward",
    "LeakyRelu": "leaky_relu",
    "LeakyReluGrad": "leaky_relu_backward",
    "Elu": "elu",
    "EluGrad": "elu_backward",
    "Softplus": "softplus",
    "SoftplusGrad": "softplus_backward",
    "Softmax": "_softmax",
    "LogSoftmax": "_log_softmax",
    "Swish": "silu",
    "FusedHardSwish": "hardswish",
    "Xlogy": "xlogy",
    "NextAfter": "nextafter",
    "Cumsum": "cumsum",
    "CumulativeLogsumexp": "logcumsumexp",
    "LinSpace": "linspace",
    "Cross": "linalg_cross",
    "Angle": "angle",
    "Conj": "conj_physical",
    "ResizeNearestNeighborGrad": "upsample_nearest2d_backward",
    "ResizeBilinear": "upsample_bilinear2d",
    "ResizeBicubic": "upsample_bicubic2d",
}
PER_INPUT = {
    "Sum": "sum",
    "Mean": "mean",
    "Prod": "prod",
    "Max": "amax",
    "ArgMax": "argmax",
    "L2Loss": "norm",
    "EuclideanNorm": "linalg_vector_norm",
    "MirrorPadGrad": "reflection_pad2d_backward",
    "UnsortedSegmentSum": "embedding_dense_backward",
    "ResizeBilinearGrad": "upsample_bilinear2d_backward",
    "ResizeBicubicGrad": "upsample_bicubic2d_backward",
}
NO_FLOP = {
    "Cast": "_to_copy",
    "ConcatV2": "cat",
    "Pack": "stack",
    "PadV2": "constant_pad_nd",
    "MirrorPad": "reflection_pad2d",
    "GatherV2": "index_select",
    "SelectV2": "where",
    "Equal": "eq",
    "Less": "lt",
    "LogicalAnd": "logical_and",
    "IsFinite": "isfinite",
    "All": "all",
    "Fill": "full",
    "ZerosLike": "zeros_like",
    "OneHot": "one_hot",
    "ReverseV2": "flip",
    "Roll": "roll",
    "TopKV2": "topk",
    "Tile": "repeat",
    "RandomUniform": "rand",
    "StatelessRandomNormalV2": "randn",
    "ResizeNearestNeighbor": "upsample_nearest2d",
}
CONSTANTS = [
    *("BATCH_NORM_TRAINING", "BATCH_NORM_INFERENCE", "BATCH_NORM_BACKWARD", "LSTM_CELL"),
    *("LSTM_CELL_BACKWARD", "GRU_CELL", "GRU_CELL_BACKWARD", "RNN_CELL", "RNN_CELL_BACKWARD"),
    *("ADAM", "ADAM_AMSGRAD", "SGD", "SGD_MOMENTUM", "ADAGRAD", "FFT_COMPLEX", "FFT_REAL"),
    "COMPLEX_OTHER",
]
COMPOSED = {
    "SquaredDifference": ("sub", "square"),
    "SqrtGrad": ("mul", "div"),
    "RsqrtGrad": ("pow", "mul", "mul"),
    "ReciprocalGrad": ("neg", "mul", "mul"),
    "Softsign": ("abs", "add", "div"),
    "Xdivy": ("div", "mul"),
}
"""Ops that PyTorch has only as several: they count as those together."""


@pytest.mark.parametrize(("ours", "theirs"), PER_OUTPUT.items())
def test_weights_per_result(ours: str, theirs: str) -> None:
    assert keras_weights.PER_OUTPUT[ours] == torch_weights.PER_OUTPUT[theirs]


@pytest.mark.parametrize(("ours", "theirs"), PER_INPUT.items())
def test_weights_per_input(ours: str, theirs: str) -> None:
    assert keras_weights.PER_INPUT[ours] == torch_weights.PER_INPUT[theirs]


@pytest.mark.parametrize(("ours", "theirs"), NO_FLOP.items())
def test_what_computes_nothing(ours: str, theirs: str) -> None:
    assert ours in MOVES | NOTHING | VIEWS
    assert theirs in torch_weights.ZERO


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    assert getattr(keras_weights, name) == getattr(torch_weights, name)


@pytest.mark.parametrize(("ours", "theirs"), COMPOSED.items())
def test_composed_weights(ours: str, theirs: tuple[str, ...]) -> None:
    together = sum(torch_weights.PER_OUTPUT[name] for name in theirs)
    assert keras_weights.PER_OUTPUT[ours] == together


def test_complex_numbers() -> None:
    for ours, theirs in (("AddV2", "add"), ("Mul", "mul"), ("RealDiv", "div"), ("Sum", "sum")):
        assert keras_weights.COMPLEX[ours] == torch_weights.COMPLEX[theirs]


def test_losses_together_with_their_gradient() -> None:
    together = torch_weights.PER_OUTPUT["_log_softmax"]
    together += torch_weights.PER_OUTPUT["_log_softmax_backward_data"]
    assert together == keras_weights.SOFTMAX_LOSS


def test_activations_that_are_fused_in() -> None:
    fused = keras_weights.FUSED
    for ours, theirs in (
        *(("Relu", "relu"), ("Elu", "elu"), ("Tanh", "tanh"), ("Sigmoid", "sigmoid")),
        *(("GeluExact", "gelu"), ("_MklSwish", "silu"), ("Mish", "mish")),
    ):
        assert fused[ours] == torch_weights.PER_OUTPUT[theirs]


# --- the same layer in both


def ones(*shape: int) -> Any:
    return torch.ones(shape, requires_grad=True)


def in_torch(step: Callable[[], Any]) -> Work:
    return Work.total(op.work for op in count_step(step))


def in_tensorflow(function: Callable[..., Any], *arguments: Any) -> Work:
    return Work.total(item.work() for item in trace(function, *arguments))


@pytest.mark.parametrize(
    ("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 2), (1, 2, 1), (3, 2, 2)]
)
def test_convolutions(stride: int, dilation: int, groups: int) -> None:
    """No padding, which the two name differently; nominal and least work."""
    x, w = ones(2, 4, 13, 11), ones(6, 4 // groups, 3, 3)
    left = in_torch(lambda: F.conv2d(x, w, None, stride, 0, dilation, groups))
    right = in_tensorflow(
        lambda x, w: tf.nn.conv2d(x, w, stride, "VALID", dilations=dilation),
        *((2, 13, 11, 4), (3, 3, 4 // groups, 6)),
    )
    assert (left.nominal, left.least) == (right.nominal, right.least)
    assert left.bytes_written == right.bytes_written


def test_padding_taps() -> None:
    """Same padding of an odd kernel at stride 1 is one zero on either side."""
    left = in_torch(lambda: F.conv2d(ones(2, 3, 8, 8), ones(5, 3, 3, 3), None, 1, 1))
    right = in_tensorflow(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), (2, 8, 8, 3), (3, 3, 3, 5))
    assert (left.nominal, left.least) == (right.nominal, right.least)


def test_pools() -> None:
    left = in_torch(lambda: F.max_pool2d(ones(2, 3, 9, 9).detach(), 3, 2))
    right = in_tensorflow(lambda x: tf.nn.max_pool2d(x, 3, 2, "VALID"), (2, 9, 9, 3))
    assert (left.nominal, left.least) == (right.nominal, right.least)


def test_a_dense_layer_with_its_loss_and_gradient() -> None:
    """Logits of 5 classes for 7 samples: products, bias, and a cross-entropy, forward and backward."""
    x, w, b = ones(7, 3), ones(3, 5), ones(5)
    targets = torch.zeros(7, dtype=torch.int64)

    def step() -> None:
        torch.autograd.grad(F.cross_entropy(torch.addmm(b, x, w), targets), [x, w, b])

    def graph(x: Any, w: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w, b])
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.zeros(7, tf.int64), tf.nn.bias_add(tf.matmul(x, w), b)
            )
            loss = tf.reduce_mean(losses)
        return tape.gradient(loss, [x, w, b])

    left, right = in_torch(step), in_tensorflow(graph, (7, 3), (3, 5), (5,))
    assert left.flop(Pipe.MATRIX) == right.flop(Pipe.MATRIX) == 3 * 2 * 7 * 3 * 5
    # TensorFlow has the mean and the scaling of the gradient as ops of their own: a few per sample.
    assert 0 <= right.flop(Pipe.VECTOR) - left.flop(Pipe.VECTOR) <= 7 * (5 + 4)
