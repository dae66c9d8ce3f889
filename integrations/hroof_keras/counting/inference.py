"""Shapes of results from shapes of inputs, for the ops that matter.

Used where no consumer of a result tells its shape. What does not follow from shapes, attributes and constant
inputs alone stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hroof_keras.counting import weights
from hroof_keras.counting.flop import Call, Shape, UncountableError
from hroof_keras.counting.names import VIEWS, plain, words
from hroof_keras.counting.reshaping import SHAPERS
from hroof_keras.counting.rules.convolution import channels_first, spatial, steps_of
from hroof_keras.counting.rules.einsum import label_lengths, parse
from hroof_keras.counting.rules.matrix import broadcast
from hroof_keras.graph.nodes import Node, TensorSpec

Specs = list[TensorSpec | None]
Infer = Callable[[Call], Sequence[Shape]]

_BOOLEAN = words(
    """
    Equal NotEqual Less LessEqual Greater GreaterEqual ApproximateEqual LogicalAnd LogicalOr LogicalNot
    IsNan IsInf IsFinite All Any InTopK InTopKV2
    """
)
_TYPE_ATTRIBUTES = {
    "Cast": "DstT",
    "ArgMax": "output_type",
    "ArgMin": "output_type",
    "Shape": "out_type",
    "Size": "out_type",
    "BatchMatMulV3": "Tout",
    "Range": "Tidx",
    "Bitcast": "type",
    "ComplexAbs": "Tout",
    "Real": "Tout",
    "Imag": "Tout",
    "Angle": "Tout",
    "Complex": "Tout",
    "RFFT": "Tcomplex",
    "RFFT2D": "Tcomplex",
    "RFFT3D": "Tcomplex",
    "IRFFT": "Treal",
    "IRFFT2D": "Treal",
    "IRFFT3D": "Treal",
    "FFT": "Tcomplex",
    "FFT2D": "Tcomplex",
    "FFT3D": "Tcomplex",
    "Gather": "Tparams",
    "GatherV2": "Tparams",
    "GatherNd": "Tparams",
}
"""Attribute that names the type of the result, where it is not ``T`` or ``dtype``."""

_BINARY = words(
    """
    Add AddV2 Sub Mul Div RealDiv TruncateDiv FloorDiv FloorMod Mod TruncateMod Pow Maximum Minimum Atan2
    SquaredDifference MulNoNan DivNoNan Xlogy Xlog1py Xdivy NextAfter Zeta Igamma Igammac Polygamma Complex
    Equal NotEqual Less LessEqual Greater GreaterEqual ApproximateEqual LogicalAnd LogicalOr
    BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift
    """
)
_NOT_ELEMENTWISE = frozenset(
    {"Range", "LinSpace", "ClipByValue", "ResizeBilinear", "ResizeBicubic"}
)
_LIKE_FIRST = words(
    """
    Cast ZerosLike OnesLike LogicalNot IsNan IsInf IsFinite Copy CheckNumerics CheckNumericsV2 Invert Reverse
    ReverseV2 ReverseSequence Roll AddN AccumulateNV2 Real Imag Identity IdentityN StopGradient Snapshot
    PreventGradient Enter Exit NextIteration MatrixBandPart TensorScatterUpdate TensorScatterAdd
    TensorScatterSub TensorStridedSliceUpdate Cholesky MatrixInverse FFT FFT2D FFT3D IFFT IFFT2D IFFT3D
    FusedBatchNormGrad MaxPoolGrad MaxPool3DGrad MaxPoolGradWithArgmax MaxPoolGradV2 LRN EnsureShape LayerNorm
    ClipByValue QuantizeV2 Dequantize RandomShuffle UnaryOpsComposition
    """
)


def output_specs(node: Node, inputs: Sequence[TensorSpec | None]) -> Specs:
    """Shapes and types of the results of a node; an unknown one is None, and so is the end of the list."""
    call = Call(node, plain(node.op), inputs, ())
    noted = _noted(call)
    try:
        shapes = noted or _shapes(call)
    except (UncountableError, IndexError, KeyError, ValueError):
        return []
    return [TensorSpec(shape, _dtype(call, port)) for port, shape in enumerate(shapes)]


def _noted(call: Call) -> list[Shape]:
    """Static shapes that TensorFlow noted in the node, if it noted all of them."""
    if "_output_shapes" not in call.node.attrs:
        return []
    noted = call.node.attrs["_output_shapes"].list.shape
    if any(item.unknown_rank or any(dim.size < 0 for dim in item.dim) for item in noted):
        return []
    return [tuple(dim.size for dim in item.dim) for item in noted]


def _dtype(call: Call, port: int) -> str:
    if call.op in _BOOLEAN:
        return "bool"
    if call.op == "MaxPoolWithArgmax" and port == 1:
        return call.dtype("Targmax")
    if call.op.startswith("FusedBatchNorm") and port > 0:
        return call.dtype("U")
    if call.op in ("TopK", "TopKV2") and port == 1:
        return "int32"
    listed = call.node.dtypes("T")
    if listed:
        return listed[min(port, len(listed) - 1)]
    return call.dtype(*([_TYPE_ATTRIBUTES[call.op]] if call.op in _TYPE_ATTRIBUTES else []))


def _shapes(call: Call) -> Sequence[Shape]:
    op = call.op
    if op in _RULES:
        return _RULES[op](call)
    if op in SHAPERS:
        return SHAPERS[op](call)
    if op in _BINARY:
        return [broadcast(call.shape(0), call.shape(1))]
    if op in ("Select", "SelectV2", "Betainc"):
        return [broadcast(call.shape(0), call.shape(1), call.shape(2))]
    if op in ("IdentityN",):
        return [call.shape(position) for position in range(len(call.node.inputs))]
    if op.endswith("Grad") and op in weights.PER_OUTPUT:
        return [broadcast(call.shape(0), call.shape(1))]
    if op in _LIKE_FIRST or (op in weights.PER_OUTPUT and op not in _NOT_ELEMENTWISE):
        return [call.shape(0)]
    if op in VIEWS and call.inputs and op not in ("Switch", "Merge", "ReadVariableOp"):
        return [call.shape(0)]
    return []


def _matmul(call: Call) -> Sequence[Shape]:
    a, b = call.shape(0), call.shape(1)
    m = a[1] if call.node.flag("transpose_a") else a[0]
    return [(m, b[0] if call.node.flag("transpose_b") else b[1])]


def _batch_matmul(call: Call) -> Sequence[Shape]:
    a, b = call.shape(0), call.shape(1)
    m = a[-1] if call.node.flag("adj_x") else a[-2]
    n = b[-2] if call.node.flag("adj_y") else b[-1]
    return [(*broadcast(a[:-2], b[:-2]), m, n)]


def _einsum(call: Call) -> Sequence[Shape]:
    shapes = [call.shape(position) for position in range(len(call.node.inputs))]
    operands, result = parse(call.node.text("equation"), [len(shape) for shape in shapes])
    lengths = label_lengths(operands, shapes)
    return [tuple(lengths[label] for label in result)]


def _images(call: Call, batch: int, positions: Shape, channels: int) -> Shape:
    if channels_first(call):
        return (batch, channels, *positions)
    return (batch, *positions, channels)


def _convolution(call: Call) -> Sequence[Shape]:
    if call.op.startswith("PadWith"):
        raise UncountableError("its padding is fused in")
    x, kernel = call.shape(0), call.shape(1)
    positions = steps_of(call, len(x)).outputs(spatial(call, x), kernel[:-2])
    depthwise = "Depthwise" in call.op
    channels = kernel[-2] * kernel[-1] if depthwise else kernel[-1]
    return [_images(call, x[0], positions, channels)]


def _pool(call: Call) -> Sequence[Shape]:
    x = call.shape(0)
    kernel = spatial(call, call.node.integers("ksize"))
    positions = steps_of(call, len(x), dilated=False).outputs(spatial(call, x), kernel)
    channels = x[1] if channels_first(call) else x[-1]
    pooled = _images(call, x[0], positions, channels)
    return [pooled, pooled] if call.op == "MaxPoolWithArgmax" else [pooled]


def _constant(position: int) -> Infer:
    def infer(call: Call) -> Sequence[Shape]:
        """The shape is the value of a constant input."""
        values = call.ints(position)
        if values is None or any(value < 0 for value in values):
            raise UncountableError("the shape of its result is not a constant")
        return [values]

    return infer


def _filter_gradient(call: Call) -> Sequence[Shape]:
    shapes = _constant(1)(call)
    dy = call.shape(2)
    channels = dy[1] if channels_first(call) else dy[-1]
    return [*shapes, (channels,)] if call.op.endswith("WithBias") else shapes


def _channels(call: Call, position: int = 0) -> int:
    shape = call.shape(position)
    return shape[1] if channels_first(call) else shape[-1]


def _batch_norm(call: Call) -> Sequence[Shape]:
    """The last result is work space of a library, none on a CPU."""
    channel = (_channels(call),)
    return [call.shape(0), channel, channel, channel, channel, (0,)]


def _batch_norm_gradient(call: Call) -> Sequence[Shape]:
    channel = (_channels(call),)
    return [call.shape(0), channel, channel, (0,), (0,)]


def _loss(call: Call) -> Sequence[Shape]:
    logits = call.shape(0)
    return [logits[:-1], logits]


def _bias_gradient(call: Call) -> Sequence[Shape]:
    return [(_channels(call),)]


def _reduction(call: Call) -> Sequence[Shape]:
    shape, axes = call.shape(0), call.ints(1)
    if axes is None:
        raise UncountableError("its axes are not constant")
    reduced = {axis % len(shape) for axis in axes} if shape else set()
    if call.node.flag("keep_dims"):
        return [tuple(1 if axis in reduced else n for axis, n in enumerate(shape))]
    return [tuple(n for axis, n in enumerate(shape) if axis not in reduced)]


def _segments(call: Call) -> Sequence[Shape]:
    """Rows of the data by segment; the number of segments is a constant input."""
    count = call.ints(2)
    if count is None:
        raise UncountableError("the number of its segments is not a constant")
    return [(*count, *call.shape(0)[len(call.shape(1)) :])]


def _cudnn(call: Call) -> Sequence[Shape]:
    x, state = call.shape(0), call.shape(1)
    directions = 2 if call.node.text("direction") == "bidirectional" else 1
    return [(*x[:2], directions * state[-1]), state, call.shape(2)]


def _range(call: Call) -> Sequence[Shape]:
    start, limit, step = (call.ints(position) for position in range(3))
    if start is None or limit is None or step is None:
        raise UncountableError("its limits are not constant")
    return [(len(range(start[0], limit[0], step[0])),)]


def _no_shape(call: Call) -> Sequence[Shape]:
    return [()]


def _rank(call: Call) -> Sequence[Shape]:
    return [(len(call.shape(0)),)]


def _real_transform(call: Call) -> Sequence[Shape]:
    shape, asked = call.shape(0), call.ints(1)
    if asked is None:
        raise UncountableError("its length is not a constant")
    last = asked[-1] if call.op.startswith("I") else asked[-1] // 2 + 1
    return [(*shape[: -len(asked)], *asked[:-1], last)]


def _qr(call: Call) -> Sequence[Shape]:
    *batch, m, n = call.shape(0)
    k = max(m, n) if call.node.flag("full_matrices") else min(m, n)
    inner = m if call.node.flag("full_matrices") else k
    return [(*batch, m, inner), (*batch, inner, n)]


def _known(rules: dict[str, Infer]) -> dict[str, Infer]:
    return {name: infer for names, infer in rules.items() for name in names.split()}


_RULES: dict[str, Infer] = _known(
    {
        "MatMul FusedMatMul SparseMatMul": _matmul,
        "BatchMatMul BatchMatMulV2 BatchMatMulV3 FusedBatchMatMulV2": _batch_matmul,
        "Einsum": _einsum,
        "Conv2D Conv3D FusedConv2D FusedConv3D DepthwiseConv2dNative": _convolution,
        "FusedDepthwiseConv2dNative Conv2DWithBias PadWithConv2D PadWithFusedConv2D": _convolution,
        "Conv2DBackpropInput Conv3DBackpropInputV2": _constant(0),
        "DepthwiseConv2dNativeBackpropInput AvgPoolGrad AvgPool3DGrad": _constant(0),
        "Conv2DBackpropFilter Conv3DBackpropFilterV2 Conv2DBackpropFilterWithBias": _filter_gradient,
        "DepthwiseConv2dNativeBackpropFilter": _filter_gradient,
        "MaxPool MaxPool3D AvgPool AvgPool3D MaxPoolWithArgmax": _pool,
        "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormEx": _batch_norm,
        "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3": _batch_norm_gradient,
        "SparseSoftmaxCrossEntropyWithLogits SoftmaxCrossEntropyWithLogits": _loss,
        "BiasAddGrad": _bias_gradient,
        "Sum Mean Prod Max Min All Any ArgMax ArgMin EuclideanNorm": _reduction,
        "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd": _segments,
        "CudnnRNN CudnnRNNV2 CudnnRNNV3": _cudnn,
        "Range": _range,
        "L2Loss Size Rank": _no_shape,
        "Shape": _rank,
        "RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D": _real_transform,
        "Qr": _qr,
    }
)
