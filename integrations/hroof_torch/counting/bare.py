"""Calls made up from names and shapes alone, for ops whose other arguments do not change their work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hroof_torch.counting import weights
from hroof_torch.counting.overloads import overloads
from hroof_torch.counting.schema import Argument, Kind, OpInfo, base_name
from hroof_torch.counting.signature import DTYPES, Shape, Signature, list_position
from hroof_torch.counting.template import Spec, Template
from hroof_torch.counting.words import words

Entry = tuple[Shape, str]

_NUMBERS: dict[str, Any] = {"double": 1.0, "long int": 1, "bool": True, "c10::complex<double>": 1j}

_NOT_BY_SHAPE = words(
    """
    cumsum cumprod cummax cummin logcumsumexp linspace arange range logspace glu glu_backward polar
    renorm native_group_norm linalg_cross polygamma _fused_rms_norm _masked_softmax
    _masked_softmax_backward
    """
)
_BY_SHAPE = words(
    """
    mm bmm addmm baddbmm addbmm mv addmv dot vdot _int_mm _softmax _log_softmax
    _softmax_backward_data _log_softmax_backward_data native_layer_norm native_layer_norm_backward
    mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward
    binary_cross_entropy binary_cross_entropy_backward nll_loss_forward nll_loss_backward
    nll_loss2d_forward nll_loss2d_backward copy clone fill zero eq ne lt le gt ge where masked_fill
    logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not bitwise_xor isnan isinf
    isfinite zeros_like ones_like full_like normal uniform bernoulli embedding linalg_vector_norm
    norm _fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_
    _amp_foreach_non_finite_check_and_unscale_
    """
)
_FOREACH_REDUCTIONS = frozenset({"norm", "max"})


def by_shape_alone(name: str) -> bool:
    """Whether shapes decide the work of an op, whatever its other arguments are."""
    base, foreach = base_name(name)
    if base in _NOT_BY_SHAPE or "sample" in base:
        return False
    if foreach:
        return base in weights.PER_OUTPUT or base in weights.ZERO or base in _FOREACH_REDUCTIONS
    if base in ("norm", "linalg_vector_norm"):
        return False
    return base in weights.PER_OUTPUT or base in _BY_SHAPE


def bare_templates(name: str, signature: Signature) -> Iterator[Template]:
    """Calls that fit a name and a signature, the likeliest first."""
    if not by_shape_alone(name):
        return
    for info in overloads(name):
        if not info.composite:
            template = _template(info, signature)
            if template is not None:
                yield template


def _template(info: OpInfo, signature: Signature) -> Template | None:
    bound = _bind_singles(info, [entry for entry in signature if list_position(entry[1]) is None])
    lists = _bind_lists(info, signature)
    if bound is None or lists is None:
        return None
    values = {**bound, **lists}
    args: list[Any] = []
    kwargs: list[tuple[str, Any]] = []
    keyword_only = {raw.name for raw in info.function._schema.arguments if raw.kwarg_only}
    for argument in info.arguments:
        value = values.get(argument.name)
        if argument.kind is Kind.OTHER:
            value = _filler(info, argument, values)
        if argument.name in keyword_only:
            kwargs.append((argument.name, value))
        else:
            args.append(value)
    return Template(info.function, tuple(args), tuple(kwargs))


def _spec(entry: Entry, first: Entry) -> Any:
    """A tensor, or a number: a scalar of Python's dtypes beside a tensor of another dtype is taken for one."""
    shape, dtype = entry
    if list_position(dtype) is not None:
        return Spec(shape, torch.get_default_dtype(), None, "cpu")
    if shape == () and first[0] != () and dtype != first[1] and dtype in _NUMBERS:
        return _NUMBERS[dtype]
    return Spec(shape, DTYPES[dtype], None, "cpu")


def _bind_singles(info: OpInfo, entries: list[Entry]) -> dict[str, Any] | None:
    """Tensors to arguments: required ones first, then optional ones from the left."""
    places = [argument for argument in info.holders if argument.kind is Kind.TENSOR]
    required = [place for place in places if not place.type.startswith("Optional")]
    spare = len(entries) - len(required)
    if spare < 0 or len(entries) > len(places):
        return None
    chosen = []
    for place in places:
        optional = place not in required
        if optional and spare == 0:
            continue
        spare -= optional
        chosen.append(place)
    return {
        place.name: _spec(entry, entries[0]) for place, entry in zip(chosen, entries, strict=True)
    }


def _bind_lists(info: OpInfo, signature: Signature) -> dict[str, tuple[Any, ...]] | None:
    """Tensors of lists to the arguments at their places; a list without tensors is empty."""
    lists: dict[str, tuple[Any, ...]] = {
        place.name: () for place in info.holders if place.kind is Kind.TENSORS
    }
    for entry in signature:
        position = list_position(entry[1])
        if position is None:
            continue
        name = info.positional[position] if position < len(info.positional) else ""
        if name not in lists:
            return None
        lists[name] = (*lists[name], _spec(entry, entry))
    needed = [place for place in info.holders if place.kind is Kind.TENSORS]
    return lists if not needed or lists[needed[0].name] else None


def _filler(info: OpInfo, argument: Argument, values: dict[str, Any]) -> Any:
    """A value for an argument that does not change the work."""
    special = {"weight_decay": 0.0, "dim": -1, "reduction": 1, "half_to_float": False}
    if argument.name in special:
        return special[argument.name]
    if argument.name == "amsgrad":
        return bool(values.get("max_exp_avg_sqs"))
    if argument.name == "momentum":
        return 0.9 if values.get("momentum_buffer_list") else 0.0
    if argument.name == "normalized_shape":
        return list(values["weight"].shape)
    if argument.name == "output_mask":
        return [True] * 3
    if argument.name == "input_dtype":
        return values["output"].dtype
    if not argument.required:
        return info.defaults[argument.name]
    return _PLAIN.get(argument.type)


_PLAIN: dict[str, Any] = {"number": 1, "float": 0.5, "int": 1, "bool": False, "str": "none"}
