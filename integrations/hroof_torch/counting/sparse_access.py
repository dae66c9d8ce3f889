"""Bytes of ops that touch only some elements of an argument: lookups, gathers, scatters, target losses.

A lookup is charged per index: two equal indices read their row twice. That is an upper bound of the distinct
rows, which only the data tells, and exact when all indices differ; it never exceeds the whole table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hroof_torch.counting.operands import Meter, Traffic
from hroof_torch.counting.rules.flop import Call
from hroof_torch.counting.rules.indexing import indexed_elements

Rule = Callable[[Call, Traffic, Meter], None]
RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def _limit(side: dict[tuple[Any, ...], float], meter: Meter, tensor: Any, elements: float) -> None:
    """Charge only so many elements of a tensor."""
    for key, nbytes in meter.parts(tensor):
        side[key] = min(nbytes, float(elements * tensor.element_size()))


def _drop(side: dict[tuple[Any, ...], float], meter: Meter, tensor: Any) -> None:
    for key, _ in meter.parts(tensor):
        side.pop(key, None)


def _written(call: Call) -> bool:
    """Whether the op works in place on its first argument."""
    return any(argument.name == "self" and argument.written for argument in call.info.arguments)


def _is_out_of_place_scatter(call: Call) -> bool:
    """Scatters that return a new tensor copy the whole of ``self`` first."""
    return not _written(call)


@_rule("embedding")
def _embedding(call: Call, traffic: Traffic, meter: Meter) -> None:
    table = call["weight"]
    _limit(traffic.read, meter, table, call["indices"].numel() * table.shape[-1])


@_rule("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(call: Call, traffic: Traffic, meter: Meter) -> None:
    _embedding(call, traffic, meter)


@_rule("index_select", "gather", "take", "take_along_dim")
def _gather(call: Call, traffic: Traffic, meter: Meter) -> None:
    _limit(traffic.read, meter, call["self"], call.out.numel())


@_rule("index", "_unsafe_index", "masked_select")
def _index(call: Call, traffic: Traffic, meter: Meter) -> None:
    _limit(traffic.read, meter, call["self"], call.out.numel())


@_rule("index_put", "_index_put_impl", "_unsafe_index_put")
def _index_put(call: Call, traffic: Traffic, meter: Meter) -> None:
    _scatter(call, traffic, meter, indexed_elements(call), bool(call["accumulate"]))


@_rule("scatter")
def _scatter_values(call: Call, traffic: Traffic, meter: Meter) -> None:
    _scatter(call, traffic, meter, call["index"].numel(), call["reduce"] is not None)


@_rule("scatter_add", "scatter_reduce")
def _scatter_add(call: Call, traffic: Traffic, meter: Meter) -> None:
    _scatter(call, traffic, meter, call["index"].numel(), True)


@_rule("index_add", "index_reduce")
def _index_add(call: Call, traffic: Traffic, meter: Meter) -> None:
    _scatter(call, traffic, meter, call["source"].numel(), True)


@_rule("index_copy", "index_fill")
def _index_copy(call: Call, traffic: Traffic, meter: Meter) -> None:
    target = call["self"]
    rows = call["index"].numel()
    length = target.shape[call["dim"]] if target.dim() else 1
    _scatter(call, traffic, meter, target.numel() // max(length, 1) * rows, False)


def _scatter(
    call: Call, traffic: Traffic, meter: Meter, elements: float, accumulates: bool
) -> None:
    """In place, only the addressed elements are written, and read where they are added to."""
    if _is_out_of_place_scatter(call):
        return
    target = call["self"]
    _limit(traffic.written, meter, target, elements)
    if accumulates:
        _limit(traffic.read, meter, target, elements)
    else:
        _drop(traffic.read, meter, target)


@_rule("embedding_dense_backward")
def _embedding_backward(call: Call, traffic: Traffic, meter: Meter) -> None:
    """Zero the whole table, then read, add and write one row per index."""
    rows = float(call["grad_output"].numel() * call["grad_output"].element_size())
    for key, nbytes in meter.parts(call.out):
        traffic.read[key] = rows
        traffic.written[key] = nbytes + rows


@_rule("nll_loss_forward", "nll_loss2d_forward")
def _nll_forward(call: Call, traffic: Traffic, meter: Meter) -> None:
    """One log-probability per target."""
    _limit(traffic.read, meter, call["self"], call["target"].numel())


@_rule("nll_loss_backward", "nll_loss2d_backward")
def _nll_backward(call: Call, traffic: Traffic, meter: Meter) -> None:
    """The log-probabilities themselves are not needed; their gradient is zeroed and set."""
    _drop(traffic.read, meter, call["self"])


@_rule("convolution_backward")
def _convolution_backward(call: Call, traffic: Traffic, meter: Meter) -> None:
    """The gradient of the input needs the weight, that of the weight the input."""
    wants_input, wants_weight, _ = call["output_mask"]
    if not wants_input:
        _drop(traffic.read, meter, call["weight"])
    if not wants_weight:
        _drop(traffic.read, meter, call["input"])


@_rule("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_")
def _fused_optimizer(call: Call, traffic: Traffic, meter: Meter) -> None:
    """Gradients are written back only where they are unscaled; buffers of SGD are read after the first step."""
    if call["grad_scale"] is None:
        for gradient in call["grads"]:
            _drop(traffic.written, meter, gradient)
    if call["is_first_step"]:
        for buffer in call["momentum_buffer_list"]:
            _drop(traffic.read, meter, buffer)


@_rule("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm")
def _batch_norm(call: Call, traffic: Traffic, meter: Meter) -> None:
    """Running statistics are updated in training, which these schemas do not say."""
    if call["training"]:
        for name in ("running_mean", "running_var"):
            if call[name] is not None:
                traffic.written.update(meter.parts(call[name]))


@_rule("mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn")
def _recurrent(call: Call, traffic: Traffic, meter: Meter) -> None:
    """Work space is a matter of the library, not of the layer."""
    for extra in call.outputs[3:]:
        _drop(traffic.written, meter, extra)


@_rule("mkldnn_rnn_layer_backward")
def _recurrent_backward(call: Call, traffic: Traffic, meter: Meter) -> None:
    """The two bias gradients are tensors of their own, although on paper one stands for both."""
    seen: set[int] = set()
    for place, gradient in enumerate(call.outputs):
        if id(gradient) in seen:
            for key, nbytes in meter.parts(gradient):
                traffic.written[(*key, place)] = nbytes
        seen.add(id(gradient))
