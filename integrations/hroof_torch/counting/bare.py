"""Calls made up from names and shapes alone, for ops whose other arguments do not change their work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hroof_torch.counting import weights
from hroof_torch.counting.overloads import overloads
from hroof_torch.counting.schema import Argument, Kind, OpInfo, base_name
from hroof_torch.counting.signature import DTYPES, LIST, Signature
from hroof_torch.counting.template import Spec, Template
from hroof_torch.counting.words import words

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
    singles = [entry for entry in signature if entry[1] != LIST]
    listed = [_spec(entry) for entry in signature if entry[1] == LIST]
    bound = _bind_singles(info, singles)
    lists = _bind_lists(info, listed)
    if bound is None or lists is None:
        return None
    values = {**bound, **lists}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    keyword_only = {raw.name for raw in info.function._schema.arguments if raw.kwarg_only}
    for argument in info.arguments:
        value = values.get(argument.name)
        if argument.kind is Kind.OTHER:
            value = _filler(info, argument, values)
        if argument.name in keyword_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return Template(info.function, tuple(args), tuple(kwargs.items()))


def _spec(entry: tuple[tuple[int, ...], str]) -> Spec:
    shape, dtype = entry
    known = torch.get_default_dtype() if dtype == LIST else DTYPES[dtype]
    return Spec(shape, known, None, "cpu")


def _bind_singles(info: OpInfo, entries: list[tuple[tuple[int, ...], str]]) -> Any:
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
    return {place.name: _spec(entry) for place, entry in zip(chosen, entries, strict=True)}


def _bind_lists(info: OpInfo, specs: list[Spec]) -> Any:
    """Tensors of lists to list arguments, equally many to each; the lists that may be empty are tried so."""
    places = [argument for argument in info.holders if argument.kind is Kind.TENSORS]
    if not places:
        return {} if not specs else None
    empty = [place for place in places if place.name in ("max_exp_avg_sqs", "momentum_buffer_list")]
    for left_out in ([], empty) if empty else ([],):
        filled = [place for place in places if place not in left_out]
        length, rest = divmod(len(specs), len(filled))
        parts = [specs[i * length : (i + 1) * length] for i in range(len(filled))]
        if not rest and _belong_together(filled, parts):
            bound = {place.name: part for place, part in zip(filled, parts, strict=True)}
            return {**bound, **{place.name: [] for place in left_out}}
    return None


def _belong_together(places: list[Argument], parts: list[list[Spec]]) -> bool:
    """Whether lists have the shapes of the first one (counters of steps are scalars)."""
    first = [spec.shape for spec in parts[0]]
    return bool(first) and all(
        [spec.shape for spec in part] == ([()] * len(first) if "step" in place.name else first)
        for place, part in zip(places, parts, strict=True)
    )


def _filler(info: OpInfo, argument: Argument, values: dict[str, Any]) -> Any:
    """A value for an argument that does not change the work."""
    special = {"dim": -1, "reduction": 1, "half_to_float": False}
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
