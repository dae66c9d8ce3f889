"""Fused attention: scaled dot products in every library form, and the fused transformer layers.

Forward is two matrix products, q·kᵀ and scores·v: ``B · H · Sq · Sk · (Dq + Dv)`` multiply-adds with the query
heads H. The fused backward kernels compute the scores again, which makes five products, 2.5 times the forward
(for Dq = Dv). A causal mask is not discounted in nominal FLOP; in least FLOP it halves them. The softmax is
vector work by convention.
"""

from __future__ import annotations

from typing import Any

from hroof.traffic import MatrixShape
from hroof_torch.counting import weights
from hroof_torch.counting.rules.flop import (
    Call,
    Flop,
    UncountableError,
    gemm,
    matrix,
    rule,
    size,
    vector,
)


def scores_needed(queries: int, keys: int, causal: bool) -> float:
    """Scores of one head that a direct implementation must compute.

    Half of them under a causal mask of equally many queries and keys. With unequal numbers the mask starts at
    the first key: query i sees i + 1 keys.
    """
    if not causal:
        return float(queries * keys)
    if queries == keys:
        return queries * keys / 2
    full = max(queries - keys, 0)
    triangle = min(queries, keys)
    return triangle * (triangle + 1) / 2 + full * keys


def attention(
    q: Any,
    heads: int,
    sizes: tuple[int, int, int, int],
    *,
    causal: bool = False,
    backward: bool = False,
) -> Flop:
    """Work of fused attention.

    Args:
        q: Tensor whose dtype and device say what computes.
        heads: Query heads of the whole batch, B · H.
        sizes: Queries, keys, features of q and k, features of v.
        causal: Masked above the diagonal.
        backward: The gradient: scores again, then dV, dP, dQ, dK.
    """
    queries, keys, dq, dv = sizes
    per_score = 3 * dq + 2 * dv if backward else dq + dv
    scores = heads * queries * keys
    needed = heads * scores_needed(queries, keys, causal)
    shape = MatrixShape(heads, queries, keys, per_score, q.dtype.itemsize)
    products = matrix(q, scores * per_score, least=needed * per_score, shape=shape)
    return products + vector(q.dtype, scores, weights.SOFTMAX, least=needed)


def _heads_before_length(call: Call, backward: bool) -> Flop:
    """Operands (..., H, S, D)."""
    q, k, v = call["query"], call["key"], call["value"]
    sizes = (q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1])
    heads = size(q.shape[:-2])
    return attention(q, heads, sizes, causal=bool(call["is_causal"]), backward=backward)


@rule(
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
    "scaled_dot_product_attention",
)
def _forward(call: Call) -> Flop:
    return _heads_before_length(call, backward=False)


@rule(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_fused_attention_overrideable_backward",
)
def _backward(call: Call) -> Flop:
    return _heads_before_length(call, backward=True)


def _length_before_heads(call: Call, causal: bool, backward: bool) -> Flop:
    """Operands (B, S, H, D); packed sequences of several lengths do not tell their work by their shapes."""
    packed = ("cum_seq_q", "cu_seqlens_q", "cum_seq_k", "seqstart_q")
    if any(call[name] is not None for name in packed):
        raise UncountableError("packed sequences: their lengths are data")
    q, k, v = call["query"], call["key"], call["value"]
    sizes = (q.shape[1], k.shape[1], q.shape[3], v.shape[3])
    return attention(q, q.shape[0] * q.shape[2], sizes, causal=causal, backward=backward)


@rule("_flash_attention_forward", "_flash_attention_forward_no_dropout_inplace")
def _flash(call: Call) -> Flop:
    return _length_before_heads(call, bool(call["is_causal"]), False)


@rule("_flash_attention_backward")
def _flash_backward(call: Call) -> Flop:
    return _length_before_heads(call, bool(call["is_causal"]), True)


@rule("_efficient_attention_forward")
def _efficient(call: Call) -> Flop:
    return _length_before_heads(call, bool(call["custom_mask_type"]), False)


@rule("_efficient_attention_backward")
def _efficient_backward(call: Call) -> Flop:
    return _length_before_heads(call, bool(call["custom_mask_type"]), True)


def _linear(x: Any, rows: int, inputs: int, outputs: int) -> Flop:
    return gemm(x, 1, rows, outputs, inputs) + vector(x.dtype, rows * outputs, 1.0)


def _self_attention(q: Any, k: Any, width: int, heads: int) -> Flop:
    """Projections of q, k and v, attention, projection of the result."""
    if q.is_nested or k.is_nested:
        raise UncountableError("nested tensors: their lengths are data")
    rows, other = size(q.shape[:-1]), size(k.shape[:-1])
    batch, queries, keys = q.shape[0], q.shape[1], k.shape[1]
    sizes = (queries, keys, width // heads, width // heads)
    projections = _linear(q, rows, width, 2 * width) + _linear(q, other, width, 2 * width)
    return projections + attention(q, batch * heads, sizes)


@rule("_native_multi_head_attention")
def _multi_head_attention(call: Call) -> Flop:
    return _self_attention(call["query"], call["key"], call["embed_dim"], call["num_head"])


@rule("_transformer_encoder_layer_fwd")
def _encoder_layer(call: Call) -> Flop:
    x, width = call["src"], call["embed_dim"]
    flop = _self_attention(x, x, width, call["num_heads"])
    rows, hidden = size(x.shape[:-1]), call["ffn_weight_1"].shape[0]
    flop += _linear(x, rows, width, hidden) + _linear(x, rows, hidden, width)
    activation = weights.PER_OUTPUT["gelu" if call["use_gelu"] else "relu"]
    norms = 2 * weights.PER_OUTPUT["native_layer_norm"] + 2.0
    return flop + vector(x.dtype, rows * hidden, activation) + vector(x.dtype, rows * width, norms)


@rule("_triton_scaled_dot_attention")
def _triton(call: Call) -> Flop:
    q, k, v = call["q"], call["k"], call["v"]
    return attention(q, size(q.shape[:-2]), (q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]))


@rule("_transform_bias_rescale_qkv")
def _rescale(call: Call) -> Flop:
    """A bias for q, k and v, and a factor for q."""
    qkv = call["qkv"]
    return vector(qkv.dtype, qkv.numel(), 4.0 / 3.0)
