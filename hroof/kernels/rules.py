"""The rules that sort kernels into families by name: readable data, the first match wins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from hroof.kernels.communication import COMMUNICATION


class Family(StrEnum):
    """What a kernel does, as people speak of it."""

    GEMM = "GEMM"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    RNN = "RNN"
    FFT = "FFT"
    LINEAR_ALGEBRA = "linear algebra"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    LOSS = "loss"
    POOLING = "pooling"
    RESAMPLING = "resampling"
    GATHER = "embedding, gather, scatter"
    REDUCTION = "reduction"
    SORT = "sort and scan"
    ELEMENTWISE = "elementwise"
    RANDOM = "random"
    OPTIMIZER = "optimizer"
    LAYOUT = "layout change"
    COPY = "copy, cast, fill"
    COMMUNICATION = "communication"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and the family of the names that it takes.

    Attributes:
        family: The family.
        pattern: A kernel's is searched in the name, whatever the case of its letters; an op's takes the whole name.
        example: A name that this rule takes and no earlier one.
    """

    family: Family
    pattern: re.Pattern[str]
    example: str


def _rule(family: Family, example: str, pattern: str) -> Rule:
    return Rule(family, re.compile(pattern, re.IGNORECASE | re.VERBOSE), example)


# What only moves in the kernels that TorchInductor writes: a name of these words alone is no arithmetic.
_MOVED = "_to_copy|clone|copy|fill|zeros?|ones|full|empty|lift_fresh|detach|_?unsafe_view|view|expand|like|new"
_LAID = (
    rf"{_MOVED}|permute|transpose|t|cat|stack|constant_pad_nd|im2col|unsqueeze|squeeze|reshape|select"
    "|slice|split|roll"
)

RULES: tuple[Rule, ...] = (
    _rule(Family.COMMUNICATION, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", COMMUNICATION),
    # TorchInductor's kernels: the kind of loop comes first in the name, the fused ops after it.
    _rule(Family.OPTIMIZER, "triton_for_fused__fused_adam_0", r"^triton_for_.*(adam|sgd)"),
    _rule(Family.ATTENTION, "triton_tem_fused_flex_attention_3", r"^triton_tem_.*(attention|flex)"),
    _rule(Family.CONVOLUTION, "triton_tem_fused_convolution_relu_7", r"^triton_tem_.*conv"),
    _rule(Family.GEMM, "triton_tem_fused_addmm_gelu_2", r"^triton_(tem|mm)"),
    _rule(Family.SOFTMAX, "triton_per_fused__softmax_add_5", r"^triton_(red|per)_.*softmax"),
    _rule(
        Family.NORMALISATION,
        "triton_red_fused_native_layer_norm_backward_11",
        r"^triton_(red|per)_.*(layer|batch|group|rms)_norm",
    ),
    _rule(Family.REDUCTION, "triton_red_fused_add_mean_mul_1", r"^triton_(red|per)_"),
    _rule(
        Family.GATHER,
        "triton_poi_fused_embedding_0",
        r"^triton_poi_fused_(embedding|index|gather)",
    ),
    _rule(Family.COPY, "triton_poi_fused__to_copy_4", rf"^triton_poi_fused_(({_MOVED})_)+\d+$"),
    _rule(
        Family.LAYOUT, "triton_poi_fused_clone_permute_8", rf"^triton_poi_fused_(({_LAID})_)+\d+$"
    ),
    _rule(Family.ELEMENTWISE, "triton_poi_fused_convolution_relu_3", r"^triton_(poi|for)_"),
    # One thing, whatever else the name says
    _rule(Family.COPY, "reshape_and_cache_flash_kernel", r"reshape_and_cache"),
    _rule(
        Family.ATTENTION,
        "flash_fwd_splitkv_combine_kernel",
        r"""attention | attn | fmha | sdpa | flash_?(fwd|bwd|fprop|bprop|mla) | paged_?kv | splitkv
            | mergestates""",
    ),
    _rule(
        Family.OPTIMIZER,
        "FusedAdamMathFunctor",
        r"adam | lamb(?!da) | sgd | ada(grad|delta|factor) | rms_?prop | momentum",
    ),
    _rule(Family.RNN, "LSTM_elementWise_fp", r"lstm | gru(?!p) | (?<!t)rnn(?!_t)"),
    _rule(
        Family.RANDOM,
        "fused_dropout_kernel_vec",
        r"""dropout | philox | bernoulli | distribution_ | random | curand
            | (uniform|normal|exponential|cauchy)_(and|kernel)""",
    ),
    _rule(
        Family.LOSS,
        "nll_loss_forward_reduce_cuda_kernel_2d",
        r"""nll_?loss | NLLCriterion | cross_?entropy | xentropy | ctc_?loss
            | (mse|smooth_l1|huber|kl_div|bce)_?(loss|kernel)""",
    ),
    _rule(Family.SOFTMAX, "softmax_warp_forward", r"soft_?max | GenerateNormalizedProb"),
    _rule(
        Family.NORMALISATION,
        "bn_fw_tr_1C11_kernel_NCHW",
        r"""(batch|layer|group|instance|rms)_?norm | (^|_)bn_?(fw|bw)_ | rowwise_?moments
            | gamma_?beta | ComputeFusedParams | ComputeInternalGradients | cuCompute(Part)?Grad
            | local_?response_?norm | (?<![a-z])lrn""",
    ),
    _rule(
        Family.POOLING, "max_pool_forward_nchw", r"pool(?!ed_) | adaptive_average_(gradinput|pool)"
    ),
    _rule(
        Family.RESAMPLING,
        "upsample_bilinear2d_out_frame",
        r"upsample | resize | interpolat | grid_?sample",
    ),
    _rule(Family.FFT, "regular_fft_factor", r"fft"),
    _rule(
        Family.GATHER,
        "indexSelectLargeIndex",
        r"""(?<!rotary_)embedding | gather | scatter | lookup | indexing_backward | one_?hot
            | index_?(select|add|put|copy|func|kernel|elementwise) | take_(put_)?kernel
            | compute_grad_weight | routing | moe_?align""",
    ),
    # Convolution before GEMM and layout: cuDNN's kernels are implicit GEMMs and name the layouts they read.
    _rule(
        Family.CONVOLUTION,
        "volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
        r"""conv(?!er) | fprop | dgrad | wgrad | winograd | depthwise
            | (\d|_[shd])cudnn_ | compute\w*OffsetsKernel""",
    ),
    _rule(
        Family.GEMM,
        "ampere_sgemm_128x64_nn",
        r"""gemm | gemv | matmul | (^|_)b?mm(_|$) | split_?k_?reduce | nvjet | ^Cijk_ | cublas
            | fused_moe | (^|_)dot_kernel | reduce_1Block | (sy(rk|r2k)|tr[sm]m)_""",
    ),
    _rule(
        Family.LINEAR_ALGEBRA,
        "getrf_pivot",
        r"cholesky | (^|_)(ge|po|sy|or)(trf|qrf|evd|gqr|vd)(_|\d|$) | trsv | householder",
    ),
    _rule(
        Family.SORT,
        "DeviceRadixSortOnesweepKernel",
        r"""sort | top_?k | radix | scan | cum(sum|prod) | unique | histogram | bincount | nonzero
            | select_?if | DeviceSelect""",
    ),
    _rule(Family.ELEMENTWISE, "masked_fill_kernel", r"masked_fill | index_?fill"),
    _rule(
        Family.LAYOUT,
        "nchwToNhwcKernel",
        r"""n[cdhw]{3,4}to | n[cdhw]{3,4}2n | transpose | permut | im2col | col2im | vol2col | col2vol
            | concat | (^|_)cat(_|array) | PadInput | TensorPadding | (^|_)pad(_|ding)
            | SwapDimension | Shuffl | S2B | (space|batch|depth)_?to_?(space|batch|depth)
            | slice | slicing | split(?!k) | (^|_)(tile|roll|flip|repeat|stack)(_|\d|$) | reorder
            | swizzle | Tensor(Reverse|Broadcasting|Chipping|Layout) | unfold | tri[lu]_""",
    ),
    _rule(
        Family.COPY,
        "direct_copy_kernel_cuda",
        r"""mem(cpy|set) | copy | fill | (^|_)zero(_|$) | set_?zero | cast_ | _cast | convert
            | conversion | quant | arange | linspace | scalar_constant | Tensor(Assign|Generator)""",
    ),
    _rule(
        Family.REDUCTION,
        "lean_reduction_kernel",
        r"""reduc | (^|_)(sum|mean|prod|var|std|amax|amin|any|all)_(kernel|functor) | (Mean|Norm)Ops
            | arg_?(max|min) | aminmax | (lp|l1|l2)_?norm | CleanupSegments | finite_?check""",
    ),
    _rule(
        Family.ELEMENTWISE,
        "vectorized_elementwise_kernel",
        r"""element_?wise | pointwise | cwise | multi_tensor_apply | EigenMetaKernel | ForAgent
            | relu | gelu | silu | swish | sigmoid | tanh | softplus | activation | act_and_mul | bias
            | rotary | (^|_)rope(_|$) | scale | scal_kernel | axp(b)?y | scalar_ | broadcast | epilogue
            | (^|_)(add|sub|mul|div|pow|exp|sqrt|rsqrt|neg|abs|sin|cos|clamp|where|lerp)(_|$)
            | threshold | addc(mul|div) | ^loop_ | ^fusion | vec(tor)?_?add""",
    ),
)
"""Kernels: searched in the display name. A family's rules may stand in several places."""
