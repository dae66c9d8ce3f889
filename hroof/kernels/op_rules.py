"""The rules that sort a framework's ops into families by name: the first match wins.

An op's name is matched as a whole, without namespace, overload and the mark of an in-place op; a backward form goes
with its forward one.
"""

from __future__ import annotations

import re

from hroof.kernels.rules import Family, Rule


def _rule(family: Family, example: str, names: str) -> Rule:
    """One rule of the names and patterns of names between the blanks of a text."""
    alternatives = "|".join(names.split())
    return Rule(family, re.compile(rf"(?:{alternatives})(?:_(?:backward|forward)\w*)?"), example)


OP_RULES: tuple[Rule, ...] = (
    _rule(
        Family.COMMUNICATION,
        "c10d::allreduce_",
        r"(?:c10d|_c10d_functional|nccl|gloo)\b.* \w*all_?reduce\w* all_?gather\w* reduce_scatter\w*",
    ),
    _rule(
        Family.ATTENTION,
        "aten::_scaled_dot_product_flash_attention",
        r"\w*attention\w* _transformer_encoder_layer_fwd _transform_bias_rescale_qkv _fused_sdp_choice",
    ),
    _rule(
        Family.CONVOLUTION,
        "aten::convolution_backward",
        r"\w*convolution\w* \w*conv\dd\w* \w*conv_(?:tbc|transpose\dd|depthwise\dd|dilated\dd)\w*",
    ),
    _rule(Family.RNN, "aten::_thnn_fused_lstm_cell", r"\w*(?:lstm|gru|rnn)(?!p)\w*"),
    _rule(
        Family.OPTIMIZER,
        "aten::_fused_adamw_",
        r"_fused_(?:adamw?|sgd|adagrad)\w* Optimizer\.step\S*",
    ),
    _rule(Family.SOFTMAX, "aten::_log_softmax", r"\w*softmax\w*"),
    _rule(
        Family.NORMALISATION,
        "aten::native_layer_norm",
        r"\w*(?:batch|layer|group|instance|rms|weight)_norm\w* renorm",
    ),
    _rule(
        Family.LOSS,
        "aten::nll_loss_forward",
        r"\w*_loss(?:2d)? (?:binary_)?cross_entropy\w*",
    ),
    _rule(Family.POOLING, "aten::max_pool2d_with_indices", r"\w*pool\dd\w*"),
    _rule(
        Family.RESAMPLING,
        "aten::upsample_bilinear2d",
        r"_?upsample_\w+ _?grid_sampler\w* affine_grid_generator interpolate max_unpool\dd",
    ),
    _rule(Family.FFT, "aten::_fft_r2c", r"_?fft_\w+"),
    _rule(
        Family.LINEAR_ALGEBRA,
        "aten::linalg_qr",
        r"_?linalg_(?!vector_norm|norm|cross)\w+ cholesky\w* triangular_solve lu_\w+",
    ),
    _rule(
        Family.GEMM,
        "aten::addmm",
        r"""
        \w*mm _addmm_activation (?:add)?mv v?dot \w*matmul \w*linear(?:_pointwise)? bilinear _trilinear einsum
        kron addr ger outer _?[cp]dist _euclidean_dist
        """,
    ),
    _rule(
        Family.RANDOM,
        "aten::native_dropout",
        r"""
        \w*dropout\w* (?:rand|normal|uniform)\w* bernoulli multinomial exponential geometric log_normal cauchy
        poisson binomial _standard_gamma
        """,
    ),
    _rule(
        Family.GATHER,
        "aten::embedding_dense",
        r"""
        _?embedding\w* one_hot _?(?:unsafe_)?(?:masked_)?index(?:_\w+)? gather (?:masked_)?scatter(?:_add|_reduce)?
        take\w* put masked_select segment_reduce
        """,
    ),
    _rule(
        Family.SORT,
        "aten::topk",
        r"""
        (?:arg|m)?sort topk kthvalue (?:nan)?median mode \w*unique\w* bincount hist\w* searchsorted bucketize
        nonzero\w* argwhere (?:log)?cum\w+
        """,
    ),
    _rule(
        Family.LAYOUT,
        "aten::cat",
        r"""
        cat _?stack concat [hv]stack _chunk_cat \w+_pad\dd constant_pad_nd pad \w*shuffle pixel_unshuffle im2col
        col2im unfold(?:_copy)? roll flip\w* rot90 repeat\w* tile block_diag tri[lu](?:_indices)? diag\w*
        \w+_scatter (?:slice|select|diagonal|split\w*|unbind|narrow|view|expand|permute|transpose)(?:_copy)? t chunk
        contiguous as_strided \w*reshape\w* _unsafe_view (?:un)?squeeze detach alias view_as_\w+ (?:un)?flatten
        movedim cartesian_prod combinations _pack_padded_sequence _pad_packed_sequence
        """,
    ),
    _rule(
        Family.COPY,
        "aten::copy_",
        r"""
        copy _to_copy to clone fill zero \w*(?:zeros|ones|full|empty)(?:_\w+)? scalar_tensor eye a?range linspace
        logspace lift\w* \w+_copy _?pin_memory _local_scalar_dense item (?:de)?quantize\w* \w*to_dense \w*to_sparse\w*
        _?coalesce complex Mem(?:cpy|set).*
        """,
    ),
    _rule(
        Family.REDUCTION,
        "aten::sum",
        r"""
        (?:nan)?(?:sum|mean) prod amax amin max min argmax argmin aminmax linalg_(?:vector_)?norm norm dist logsumexp
        (?:var|std)(?:_mean)? any all count_nonzero _is_(?:all|any)_true allclose is_nonzero trace
        _amp_foreach_non_finite_check_and_unscale
        """,
    ),
    _rule(
        Family.ELEMENTWISE,
        "aten::add_.Tensor",
        r"""
        add sub rsub mul div true_divide floor_divide remainder fmod neg abs sgn sign reciprocal r?sqrt square pow
        float_power exp exp2 expm1 log log2 log10 log1p a?(?:sin|cos|tan)h? atan2 erf erfc erfinv special_\w+ lgamma
        digamma polygamma i0 sinc ceil floor round trunc frac maximum minimum fmax fmin clamp\w* hypot angle rad2deg
        deg2rad heaviside \w*relu\w* hardtanh threshold \w*shrink nan_to_num gcd lcm ldexp copysign nextafter xlogy
        logit _masked_scale _amp_update_scale addcmul addcdiv lerp sigmoid [ecs]elu softplus hardsigmoid polar silu
        hardswish log_sigmoid glu\w* logaddexp2? linalg_cross mish gelu eq ne lt le gt ge equal signbit
        is(?:nan|inf|finite|posinf|neginf|in|close) logical_\w+ bitwise_\w+ __i?(?:and|or|xor|lshift|rshift)__
        masked_fill where real imag conj\w*
        """,
    ),
)
"""Framework ops; an op that is not here is of the family ``other``."""
