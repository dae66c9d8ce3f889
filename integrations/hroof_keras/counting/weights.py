"""The published convention for TensorFlow's ops: FLOP per element of everything that is not matrix work.

It is the convention of ``hroof_torch`` under TensorFlow's names, so that the same layer counts the same in
both; a test compares the two. Simple arithmetic, comparisons that select a value (ReLU, maximum) and one
evaluation of a special function count 1; a composed function counts the simple operations of its textbook
form. Complex numbers: see ``COMPLEX``.
"""

from __future__ import annotations


def _table(text: str) -> dict[str, float]:
    """Lines of ``weight: op op op`` as a mapping op → weight."""
    table: dict[str, float] = {}
    for line in text.strip().splitlines():
        weight, names = line.split(":")
        table |= {name: float(weight) for name in names.split()}
    return table


PER_OUTPUT = _table(
    """
    1: Add AddV2 Sub Mul Div RealDiv TruncateDiv FloorDiv FloorMod Mod TruncateMod Neg Abs ComplexAbs Sign
    1: Reciprocal Inv Sqrt Rsqrt Square Pow Exp Expm1 Log Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh
    1: Asinh Acosh Atanh Atan2 Erf Erfc Erfinv Ndtri Lgamma Digamma Polygamma Zeta Igamma Igammac Betainc
    1: BesselI0 BesselI0e BesselI1 BesselI1e Ceil Floor Round Rint Maximum Minimum ClipByValue Angle Conj
    1: Relu Relu6 LeakyRelu ReluGrad Relu6Grad LeakyReluGrad BiasAdd BiasAddV1 Cumsum Cumprod LinSpace
    1: Range MulNoNan DivNoNan ResizeNearestNeighborGrad
    2: SquaredDifference SqrtGrad Xlogy Xlog1py Xdivy NextAfter
    3: Sigmoid SigmoidGrad TanhGrad Elu EluGrad Selu SeluGrad Softplus SoftplusGrad Softsign RsqrtGrad
    3: InvGrad ReciprocalGrad CumulativeLogsumexp
    4: Softmax LogSoftmax SoftsignGrad Swish FusedHardSwish
    5: Cross
    9: ResizeBilinear
    35: ResizeBicubic
    """
)
"""FLOP per element of the first result."""

PER_INPUT = _table(
    """
    1: Sum Mean Prod Max Min ArgMax ArgMin BiasAddGrad MirrorPadGrad
    1: UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
    1: SegmentSum SegmentMean SegmentMax SegmentMin SegmentProd SegmentSumV2 SegmentMaxV2 SegmentMinV2
    1: SegmentProdV2
    2: L2Loss EuclideanNorm
    8: LayerNorm
    9: ResizeBilinearGrad
    35: ResizeBicubicGrad
    """
)
"""FLOP per element of the first input."""

FUSED = {
    "BiasAdd": 1.0,
    "BinaryAdd": 1.0,
    "Add": 1.0,
    "Mul": 1.0,
    "Relu": 1.0,
    "Relu6": 1.0,
    "LeakyRelu": 1.0,
    "Tanh": 1.0,
    "Elu": 3.0,
    "Sigmoid": 3.0,
    "Swish": 4.0,
    "_MklSwish": 4.0,
    "_FusedHardSwish": 4.0,
    "FusedBatchNorm": 4.0,
    "Mish": 6.0,
    "_MklFusedMish": 6.0,
    "GeluExact": 8.0,
    "GeluApproximate": 8.0,
}
"""FLOP per element of the result of what is fused onto matrix work, by the name in ``fused_ops``."""

BATCH_NORM_TRAINING = 8.0
BATCH_NORM_INFERENCE = 4.0
BATCH_NORM_BACKWARD = 11.0
"""Per element of the input."""
SOFTMAX_LOSS = 8.0
"""Per logit of the ops that give a loss and its gradient together: log-softmax and its gradient, 4 each."""
SPARSE_TARGET = 2.0
"""Per target of such an op: the loss and its gradient, 1 each."""
DENSE_TARGET = 3.0
"""Per logit where the targets are distributions: product and sum, and the scaled gradient."""
LSTM_CELL = 22.0
LSTM_CELL_BACKWARD = 30.0
GRU_CELL = 18.0
GRU_CELL_BACKWARD = 24.0
RNN_CELL = 2.0
RNN_CELL_BACKWARD = 4.0
"""Gates of one hidden unit and time step: sums of the two products, activations, state update."""
ADAM = 13.0
ADAM_AMSGRAD = 1.0
SGD = 1.0
SGD_MOMENTUM = 2.0
ADAGRAD = 8.0
RMSPROP = 11.0
ADADELTA = 16.0
ADAMAX = 10.0
FTRL = 12.0
"""Per parameter element, equal to what the loop of simple ops counts."""
FFT_COMPLEX = 5.0
FFT_REAL = 2.5
"""Estimate: 5·N·log2 N for a complex transform of N points in all, half of it for real data."""

COMPLEX = {
    "Add": 2.0,
    "AddV2": 2.0,
    "AddN": 2.0,
    "BiasAdd": 2.0,
    "Sub": 2.0,
    "Neg": 2.0,
    "Sum": 2.0,
    "Mean": 2.0,
    "Mul": 6.0,
    "Div": 11.0,
    "RealDiv": 11.0,
}
COMPLEX_OTHER = 4.0
"""Real operations per counted operation on complex numbers; a complex multiply-add is 8 FLOP."""
