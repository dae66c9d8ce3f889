"""Matching: which layer of one run is which of the other, by name, then by shape, then by order."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from hroof.roofline import captured, missing_name, points
from hroof.units import Phase

if TYPE_CHECKING:
    from hroof.profile import Profile

WRAPPERS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Parts of names that wrappers of PyTorch put in (data parallel, compiled, sharded, checkpointed)."""
SAME_TYPES = (
    ("linear", "dense"),
    ("batchnormalization", "batchnorm1d", "batchnorm2d", "batchnorm3d", "syncbatchnorm"),
    ("layernormalization", "layernorm"),
    ("groupnormalization", "groupnorm"),
    ("maxpooling1d", "maxpool1d"),
    ("maxpooling2d", "maxpool2d"),
    ("averagepooling2d", "avgpool2d"),
    ("globalaveragepooling2d", "adaptiveavgpool2d"),
    ("conv2dtranspose", "convtranspose2d"),
    ("activation", "relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "leakyrelu", "elu"),
)
"""Names of one kind of layer in PyTorch and in Keras, folded."""
COUNTED_APART = frozenset({"batchnormalization"})
"""Types whose parameters frameworks count in two ways: Keras with the moving averages, PyTorch without."""
_DIGITS = 3


class How(StrEnum):
    """How two groups were found to be the same."""

    NAME = "name"
    ROOT = "root"
    SHAPE = "shape"
    PARAMETERS = "parameters"
    ORDER = "order"
    NONE = "unmatched"


@dataclass(frozen=True)
class Layer:
    """What a layer is known by.

    Attributes:
        name: Qualified name.
        type: Folded class, the same for PyTorch and Keras; empty where not known.
        parameters: How many; None where not known.
        flop: Nominal FLOP of its forward work per step, to three digits; None where not known or zero.
        nbytes: Bytes of its forward work per launch at the level nearest to the cores, to three digits, or None.
        root: The model itself.
    """

    name: str
    type: str = ""
    parameters: int | None = None
    flop: float | None = None
    nbytes: float | None = None
    root: bool = False


Pairs = list[tuple[str | None, str | None, How]]
_Signature = Callable[[Layer], Hashable | None]


def match_names(base: Iterable[str], new: Iterable[str]) -> Pairs:
    """Pair equal names; the others stand alone, those of ``base`` first."""
    before, after = dict.fromkeys(base), dict.fromkeys(new)
    pairs: Pairs = [(name, name, How.NAME) for name in before if name in after]
    pairs += [(name, None, How.NONE) for name in before if name not in after]
    return pairs + [(None, name, How.NONE) for name in after if name not in before]


def match_layers(base: Sequence[Layer], new: Sequence[Layer]) -> Pairs:
    """Pair layers; every layer of both runs is in exactly one pair.

    The rules go from certain to likely; within a rule the first of a kind goes with the first of the other run. The
    other order of the runs gives the same pairs.

    Args:
        base: In the order of the model.
        new: In the order of the model.
    """
    left, right = list(base), list(new)
    pairs: Pairs = []
    for how, signature, even in _RULES:
        found = list(_by(left, right, signature, even=even))
        pairs += [(a.name, b.name, how) for a, b in found]
        paired = {a.name for a, _ in found}, {b.name for _, b in found}
        left = [one for one in left if one.name not in paired[0]]
        right = [one for one in right if one.name not in paired[1]]
    alone: Pairs = [(one.name, None, How.NONE) for one in left]
    return pairs + alone + [(None, one.name, How.NONE) for one in right]


def _by(
    left: Sequence[Layer], right: Sequence[Layer], signature: _Signature, *, even: bool
) -> Iterable[tuple[Layer, Layer]]:
    """Layers of the same signature, in order; with ``even`` only where both runs have equally many."""
    ours, theirs = _sorted(left, signature), _sorted(right, signature)
    for kind, layers in ours.items():
        others = theirs.get(kind, [])
        if not even or len(layers) == len(others):
            yield from zip(layers, others, strict=False)


def _sorted(layers: Iterable[Layer], signature: _Signature) -> dict[Hashable, list[Layer]]:
    kinds: dict[Hashable, list[Layer]] = {}
    for layer in layers:
        kind = signature(layer)
        if kind is not None:
            kinds.setdefault(kind, []).append(layer)
    return kinds


def _whole(*facts: Hashable | None) -> Hashable | None:
    """Facts as one signature; None where one of them is not known."""
    return None if any(fact is None or fact == "" for fact in facts) else facts


def _sized(one: Layer) -> Hashable | None:
    return None if one.type in COUNTED_APART else _whole(one.type, one.parameters or None)


_RULES: tuple[tuple[How, _Signature, bool], ...] = (
    (How.NAME, lambda one: one.name, True),
    (How.NAME, lambda one: _unwrapped(one.name), True),
    (How.ROOT, lambda one: one.root or None, True),
    (How.SHAPE, lambda one: _whole(one.type, one.parameters, one.flop, one.nbytes), False),
    (How.SHAPE, lambda one: _whole(one.type, one.parameters, one.flop), False),
    (How.SHAPE, lambda one: _whole(one.type, one.flop), False),
    (How.PARAMETERS, _sized, False),
    (How.ORDER, lambda one: _whole(one.type), True),
)


def _unwrapped(name: str) -> str:
    """The name without the parts that wrappers put in."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def folded(kind: str) -> str:
    """One spelling for one kind of layer."""
    plain = "".join(char for char in kind.casefold() if char.isalnum())
    return next((names[0] for names in SAME_TYPES if plain in names), plain)


def layers_of(profile: Profile) -> list[Layer]:
    """The layers that have launches, in the order of the model, else of their first launch.

    Args:
        profile: A run.
    """
    launches = captured(profile.launches)
    told = {str(e.get("name", "")): e for e in profile.run.get("layers") or () if _is_layer(e)}
    roots = {
        str(e.get(key)) for e in told.values() if e.get("depth") == 0 for key in ("name", "type")
    }
    typed = launches[launches["layer"].notna()].drop_duplicates("layer")
    types = dict(zip(typed["layer"].astype(str), typed["layer_type"].astype(object), strict=True))
    work = _forward(profile)
    order = {name: place for place, name in enumerate(dict.fromkeys((*told, *types)))}
    return [
        Layer(
            name=name,
            type=folded(_type(types.get(name), told.get(name))),
            parameters=_count(told.get(name, {}).get("parameters")),
            flop=work.get(name, (None, None))[0],
            nbytes=work.get(name, (None, None))[1],
            root=name in roots,
        )
        for name in sorted(types, key=lambda name: (name not in told, order[name]))
    ] + [Layer(missing_name("layer"))] * int(launches["layer"].isna().any())


def _is_layer(entry: Any) -> bool:
    return isinstance(entry, Mapping)


def _type(seen: Any, told: Mapping[str, Any] | None) -> str:
    return seen if isinstance(seen, str) else str((told or {}).get("type") or "")


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _forward(profile: Profile) -> dict[str, tuple[float | None, float | None]]:
    """FLOP and bytes of the forward work of each layer."""
    found = points(profile, None, ("layer", "phase"), where={"phase": Phase.FORWARD.value})
    return {
        point.key["layer"]: (
            _rounded(point.total_flop),
            _rounded(next(iter(point.nbytes.values()), math.nan) / (point.launches or math.nan)),
        )
        for point in found
    }


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) and value > 0 else None
