"""The rules that sort TensorFlow's ops into families by name: the first match wins."""

from __future__ import annotations

import re

from hroof.kernels.rules import Family, Rule


def _rule(family: Family, example: str, names: str) -> Rule:
    """One rule; oneDNN's and fused forms, gradients and versions go with the plain op."""
    alternatives = "|".join(names.split())
    pattern = rf"_?(?:Mkl)?(?:Native)?_?(?:Fused)?(?:{alternatives})(?:Grad\w*|Backprop\w*|Ex|V\d)*"
    return Rule(family, re.compile(pattern), example)


TENSORFLOW_RULES: tuple[Rule, ...] = (
    _rule(Family.COMMUNICATION, "CollectiveReduceV2", r"Collective\w+ Nccl\w+"),
    _rule(Family.ATTENTION, "FusedAttention", r"\w*Attention"),
    _rule(Family.CONVOLUTION, "_MklNativeFusedConv2D", r"\w*Conv\d[Dd](?:Native)?\w*"),
    _rule(Family.RNN, "CudnnRNN", r"CudnnRNN\w* (?:Block)?(?:LSTM|GRU)\w*"),
    _rule(Family.OPTIMIZER, "ResourceApplyAdam", r"(?:Resource)?(?:Sparse)?Apply[A-Z]\w+"),
    _rule(Family.LOSS, "SparseSoftmaxCrossEntropyWithLogits", r"\w*CrossEntropyWithLogits \w*Loss"),
    _rule(Family.SOFTMAX, "LogSoftmax", r"(?:Log)?Softmax"),
    _rule(Family.NORMALISATION, "FusedBatchNormGradV3", r"\w*(?:Batch|Layer|Instance)Norm LRN"),
    _rule(Family.POOLING, "_MklNativeMaxPoolGrad", r"(?:Max|Avg)Pool(?:3D)?"),
    _rule(Family.RESAMPLING, "ResizeBilinear", r"Resize[A-Z]\w+"),
    _rule(Family.FFT, "RFFT2D", r"(?:I?R?FFT)(?:[23]D)?"),
    _rule(Family.LINEAR_ALGEBRA, "Cholesky", r"Cholesky Qr Svd Lu MatrixInverse Matrix\w*Solve"),
    _rule(Family.GEMM, "_MklNativeFusedMatMul", r"(?:Batch|Sparse)?MatMul Einsum"),
    _rule(
        Family.RANDOM, "StatelessRandomUniformV2", r"(?:Stateless|Stateful)?(?:Random|Truncated)\w+"
    ),
    _rule(
        Family.GATHER,
        "GatherV2",
        r"(?:Resource)?Gather(?:Nd)? \w*Scatter\w* OneHot (?:Unsorted|Sparse)?Segment\w+",
    ),
    _rule(Family.SORT, "TopKV2", r"TopK Unique\w* Cum(?:sum|prod) Where Bincount"),
    _rule(
        Family.LAYOUT,
        "StridedSliceGrad",
        r"""
        Reshape Transpose Concat Split(?:V)? Pack Unpack (?:Strided)?Slice Squeeze ExpandDims Tile (?:Mirror)?Pad
        Reverse BroadcastTo Roll SpaceToBatchND BatchToSpaceND
        """,
    ),
    _rule(
        Family.COPY,
        "ReadVariableOp",
        r"Cast Identity(?:N)? ReadVariableOp Assign(?:VariableOp)? Fill ZerosLike OnesLike Const Range Bitcast",
    ),
    _rule(
        Family.REDUCTION, "BiasAddGrad", r"Sum Mean Max Min Prod All Any Arg(?:Max|Min) BiasAddGrad"
    ),
    _rule(
        Family.ELEMENTWISE,
        "AssignAddVariableOp",
        r"""
        Add(?:N)? Sub Mul(?:NoNan)? (?:Real|Floor|X)?Div(?:NoNan|ide)? Xdivy Pow R?[Ss]qrt Square(?:dDifference)? Neg
        Exp(?:m1)? Log(?:1p)? (?:Hard)?Tanh Sigmoid Relu6? LeakyRelu [ES]?elu Gelu Swish Softplus Softsign Erf[c]?
        BiasAdd Select Greater(?:Equal)? Less(?:Equal)? (?:Not)?Equal Logical\w+ Maximum Minimum ClipByValue Abs Sign
        Round Floor Ceil Mod FloorMod Reciprocal Inv Cos Sin Tan Atan2? Is(?:Nan|Inf|Finite) Assign(?:Add|Sub)VariableOp
        """,
    ),
)
"""Ops of TensorFlow; one that is not here, and an instruction of a compiled cluster, is of the family ``other``."""
