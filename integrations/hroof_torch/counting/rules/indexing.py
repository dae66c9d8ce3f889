"""Sparse access that also computes: sums of rows, scattered additions, losses of targets."""

from __future__ import annotations

from hroof_torch.counting.rules.flop import NO_FLOP, Call, Flop, rule, vector


@rule("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def _bag(call: Call) -> Flop:
    """One addition per element of every row that is looked up; a product more with weights per sample."""
    table, rows = call["weight"], call["indices"].numel()
    weight = 1.0 if call["per_sample_weights"] is None else 2.0
    return vector(table.dtype, rows * table.shape[1], weight)


@rule("_embedding_bag_dense_backward", "_embedding_bag_backward")
def _bag_backward(call: Call) -> Flop:
    grad, rows = call["grad"], call["indices"].numel()
    return vector(grad.dtype, rows * grad.shape[1], 1.0)


@rule("_embedding_bag_per_sample_weights_backward")
def _bag_weights_backward(call: Call) -> Flop:
    grad, rows = call["grad"], call["indices"].numel()
    return vector(grad.dtype, rows * grad.shape[1], 2.0)


@rule("index_put", "_index_put_impl", "_unsafe_index_put")
def _index_put(call: Call) -> Flop:
    """Additions where it accumulates, else a copy."""
    if not call["accumulate"]:
        return NO_FLOP
    return vector(call["self"].dtype, indexed_elements(call), 1.0)


@rule("_unsafe_masked_index_put_accumulate")
def _masked_put(call: Call) -> Flop:
    values = call["values"]
    return vector(values.dtype, values.numel(), 1.0)


def indexed_elements(call: Call) -> int:
    """Elements of ``self`` that a list of index tensors selects.

    Integer indices are broadcast together; what they do not cover stays whole. A boolean mask selects as many
    as the values hold, which only its data tells; the values are taken for that.
    """
    import torch

    source, indices = call["self"], list(call["indices"])
    present = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in present):
        return int(call.first("values").numel()) if call["values"] is not None else source.numel()
    selected = torch.broadcast_shapes(*(index.shape for index in present)).numel()
    whole = indices + [None] * (source.dim() - len(indices))
    for length, index in zip(source.shape, whole, strict=True):
        selected *= length if index is None else 1
    return int(selected)


@rule("index_add", "index_reduce")
def _index_add(call: Call) -> Flop:
    source = call["source"]
    return vector(source.dtype, source.numel(), 1.0)


@rule("scatter_add", "scatter_reduce")
def _scatter_add(call: Call) -> Flop:
    index = call["index"]
    return vector(call["self"].dtype, index.numel(), 1.0)


@rule("index_select_backward", "gather_backward", "embedding_sparse_backward")
def _sparse_gradient(call: Call) -> Flop:
    grad = call["grad"]
    return vector(grad.dtype, grad.numel(), 1.0)


@rule("nll_loss_forward", "nll_loss2d_forward", "nll_loss_backward", "nll_loss2d_backward")
def _nll(call: Call) -> Flop:
    """Per target: weighting and summing, or their gradient."""
    target = call["target"]
    return vector(call["self"].dtype, target.numel(), 1.0)
