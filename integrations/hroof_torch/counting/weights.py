"""The published convention: FLOP per element of everything that is not matrix work.

Nothing here is measured. Simple arithmetic, comparisons that select a value (ReLU, clamp, maximum) and one
evaluation of a special function count 1; a composed function counts the simple operations of its textbook
form. An in-place op counts like its out-of-place form, a ``_foreach_`` op like the op on every tensor of the
list. ``alpha`` of ``add`` and ``sub`` is not counted. Complex numbers: see ``COMPLEX``.
"""

from __future__ import annotations

from hroof_torch.counting.words import words


def _table(text: str) -> dict[str, float]:
    """Lines of ``weight: op op op`` as a mapping op → weight."""
    table: dict[str, float] = {}
    for line in text.strip().splitlines():
        weight, names = line.split(":")
        table |= {name: float(weight) for name in names.split()}
    return table


PER_OUTPUT = _table(
    """
    1: add sub rsub mul div floor_divide remainder fmod neg abs sign sgn reciprocal sqrt rsqrt square pow
    1: float_power exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
    1: atanh atan2 erf erfc erfinv special_erfcx lgamma digamma polygamma i0 special_i0e special_ndtri sinc
    1: ceil floor round trunc frac maximum minimum fmax fmin clamp clamp_min clamp_max hypot angle rad2deg
    1: deg2rad heaviside relu hardtanh threshold leaky_relu _prelu_kernel rrelu_with_noise hardshrink
    1: softshrink threshold_backward leaky_relu_backward hardtanh_backward hardshrink_backward
    1: softshrink_backward hardsigmoid_backward rrelu_with_noise_backward conj_physical nan_to_num
    1: cumsum cumprod cummax cummin linspace arange range logspace gcd lcm ldexp copysign
    2: native_dropout native_dropout_backward _fused_dropout xlogy special_xlog1py addr logit_backward
    2: _prelu_kernel_backward _masked_scale nextafter
    3: multilabel_margin_loss_backward
    3: addcmul addcdiv lerp sigmoid sigmoid_backward tanh_backward elu elu_backward celu softplus
    3: softplus_backward hardsigmoid logit polar mse_loss_backward smooth_l1_loss_backward logcumsumexp
    3: huber_loss_backward renorm glu_jvp special_entr
    4: silu hardswish hardswish_backward log_sigmoid_forward glu logaddexp logaddexp2 _softmax
    4: _log_softmax _softmax_backward_data _log_softmax_backward_data _masked_softmax _safe_softmax
    4: _masked_softmax_backward soft_margin_loss_backward _fused_rms_norm softmax log_softmax
    5: glu_backward log_sigmoid_backward binary_cross_entropy_backward linalg_cross special_log_ndtr
    6: silu_backward mish multi_margin_loss_backward
    8: gelu native_layer_norm native_group_norm
    10: mish_backward
    14: gelu_backward
    1: upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
    1: _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward
    1: _upsample_nearest_exact3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward
    1: adaptive_avg_pool3d_backward
    3: upsample_linear1d
    9: upsample_bilinear2d _upsample_bilinear2d_aa
    21: upsample_trilinear3d
    35: upsample_bicubic2d _upsample_bicubic2d_aa
    30: grid_sampler_2d _grid_sampler_2d_cpu_fallback
    60: grid_sampler_3d
    """
)
"""FLOP per element of the first result."""

PER_INPUT = _table(
    """
    1: sum nansum mean prod amax amin max min argmax argmin trace cumulative_trapezoid col2im unfold_backward
    1: segment_reduce _amp_foreach_non_finite_check_and_unscale_ adaptive_max_pool2d adaptive_max_pool3d
    1: _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d
    1: reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward
    1: replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward
    1: max_pool2d_with_indices_backward max_pool3d_with_indices_backward
    1: adaptive_max_pool2d_backward adaptive_max_pool3d_backward fractional_max_pool2d_backward
    1: fractional_max_pool3d_backward embedding_dense_backward
    1: _amp_update_scale_
    2: norm linalg_vector_norm aminmax
    3: logsumexp mse_loss dist _weight_norm_interface multi_margin_loss multilabel_margin_loss_forward
    3: upsample_linear1d_backward
    4: var std var_mean std_mean smooth_l1_loss huber_loss soft_margin_loss linalg_norm
    6: binary_cross_entropy _weight_norm_interface_backward
    8: binary_cross_entropy_with_logits
    9: upsample_bilinear2d_backward _upsample_bilinear2d_aa_backward
    10: _fused_rms_norm_backward
    11: native_group_norm_backward
    14: native_layer_norm_backward
    21: upsample_trilinear3d_backward
    35: upsample_bicubic2d_backward _upsample_bicubic2d_aa_backward
    50: grid_sampler_2d_backward
    100: grid_sampler_3d_backward
    """
)
"""FLOP per element of the first tensor argument (of the largest one for the weight norm)."""

BATCH_NORM_TRAINING = 8.0
BATCH_NORM_INFERENCE = 4.0
BATCH_NORM_BACKWARD = 11.0
SOFTMAX = 4.0
"""Also per score inside a fused attention op, forward and backward."""
LSTM_CELL = 22.0
LSTM_CELL_BACKWARD = 30.0
GRU_CELL = 18.0
GRU_CELL_BACKWARD = 24.0
RNN_CELL = 2.0
RNN_CELL_BACKWARD = 4.0
"""Gates of one hidden unit and time step: sums of the two products, activations, state update."""
ADAM = 13.0
ADAM_AMSGRAD = 1.0
WEIGHT_DECAY = 1.0
SGD = 1.0
SGD_MOMENTUM = 2.0
ADAGRAD = 8.0
"""Per parameter element, equal to what the loop of simple ops counts."""
FFT_COMPLEX = 5.0
FFT_REAL = 2.5
"""Estimate: 5·N·log2 N for a complex transform of N points in all, half of it for real data."""

COMPLEX = {
    "add": 2.0,
    "sub": 2.0,
    "rsub": 2.0,
    "neg": 2.0,
    "sum": 2.0,
    "mean": 2.0,
    "mul": 6.0,
    "div": 11.0,
}
COMPLEX_OTHER = 4.0
"""Real operations per counted operation on complex numbers; a complex multiply-add is 8 FLOP."""

ZERO = words(
    """
    copy clone _to_copy fill zero zeros zeros_like ones ones_like full full_like new_zeros new_ones
    new_full empty empty_like empty_strided empty_permuted empty_quantized new_empty
    new_empty_strided scalar_tensor eye tril triu tril_indices triu_indices cat stack _stack concat
    hstack vstack constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d pixel_shuffle pixel_unshuffle
    channel_shuffle native_channel_shuffle im2col unfold_copy roll flip fliplr flipud rot90 repeat
    repeat_interleave tile block_diag diag_embed diagonal_scatter slice_scatter select_scatter
    as_strided_scatter slice_backward select_backward diagonal_backward masked_scatter
    masked_scatter_backward masked_fill masked_select where index gather take take_along_dim
    index_select index_copy index_fill _unsafe_index _unsafe_masked_index scatter nonzero
    nonzero_static argwhere embedding one_hot eq ne lt le gt ge equal isnan isinf isfinite isposinf
    isneginf isin isclose allclose signbit logical_and logical_or logical_not logical_xor
    bitwise_and bitwise_or bitwise_not bitwise_xor bitwise_left_shift bitwise_right_shift __and__
    __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ any all is_nonzero count_nonzero
    sort argsort topk kthvalue median nanmedian mode msort unique_dim _unique _unique2
    unique_consecutive bincount histc searchsorted bucketize randperm randint randint_like rand
    rand_like randn randn_like uniform normal normal_functional bernoulli multinomial random
    exponential geometric log_normal cauchy poisson binomial _standard_gamma upsample_nearest1d
    upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
    _upsample_nearest_exact3d max_unpool2d max_unpool3d lift lift_fresh lift_fresh_copy detach_copy
    alias_copy view_copy expand_copy _reshape_copy _pin_memory pin_memory is_pinned
    _local_scalar_dense item resize resize_as set _efficientzerotensor record_stream combinations
    cartesian_prod _pack_padded_sequence _pack_padded_sequence_backward _pad_packed_sequence
    _fused_sdp_choice complex view_as_real_copy view_as_complex_copy split_copy
    split_with_sizes_copy unbind_copy _chunk_cat _assert_async _functional_assert_async
    _assert_tensor_metadata _assert_scalar embedding_renorm _coalesce coalesce to_dense _to_dense
    to_sparse _to_sparse _nested_tensor_from_mask_left_aligned _nested_tensor_from_mask
    is_same_size _indices _values dequantize put narrow_copy sym_size sym_stride sym_numel
    sym_storage_offset sym_is_contiguous is_contiguous is_strides_like_format
    is_non_overlapping_and_dense stride size numel dim _linalg_check_errors
    _is_all_true _is_any_true _dim_arange promote_types result_type
    _has_compatible_shallow_copy_type
    """
)
"""Ops that move, compare, order or draw, and compute no FLOP."""
