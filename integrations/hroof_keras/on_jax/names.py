"""From the name that JAX gives an op to what it serves.

``jit(train_step)/transpose(jvp(block0))/att/query/dot_general`` is backward work of the layer ``block0.att.query``:
the path holds the name scopes, with the transformations that were applied around the first of them. Differentiation
is ``jvp``, its transposition the backward pass; functions, loops and branches stand in between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.names import Place

_WRAPPED = re.compile(r"(\w+)\((.*)\)")
_FUNCTIONS = frozenset({"jit", "pjit", "xla_call", "shard_map", "custom_jvp", "custom_vjp"})
"""What stands around the name of a function, which is no scope."""

_FORWARD, _BACKWARD = "jvp", "transpose"
_LOSS = "compile_loss"


@dataclass(frozen=True, slots=True)
class Path:
    """A name taken apart.

    Attributes:
        scopes: Name scopes, loops and branches, outermost first; the primitive is the last one.
        transformations: What was applied, such as ``jvp`` and ``transpose``.
    """

    scopes: tuple[str, ...]
    transformations: frozenset[str]


def path_of(name: str) -> Path:
    """Take a name, or a stack of name scopes, apart."""
    scopes: list[str] = []
    applied: set[str] = set()
    for component in name.split("/"):
        rest: str = component
        while (match := _WRAPPED.fullmatch(rest)) is not None:
            if match[1] in _FUNCTIONS:
                rest = ""
                break
            applied.add(match[1])
            rest = match[2]
        if rest:
            scopes.append(rest)
    return Path(tuple(scopes), frozenset(applied))


class JaxNames:
    """Reads names.

    Args:
        layers: The layers by the scopes that were noted for them.
    """

    def __init__(self, layers: LayerMap) -> None:
        self._layers = layers
        self._scopes = frozenset(layers.scopes)

    def place(self, name: str) -> Place | None:
        """What the name of an op tells; None where it tells nothing."""
        path = path_of(name)
        if not name.startswith("jit("):
            return None
        differentiated = bool({_FORWARD, _BACKWARD} & path.transformations)
        phase = Phase.BACKWARD if _BACKWARD in path.transformations else Phase.FORWARD
        if path.scopes[:1] == (_LOSS,):
            return Place(phase if phase is Phase.BACKWARD else Phase.LOSS, LOSS, "scope")
        scope = self._scope(path.scopes)
        if scope:
            mark = self._layers.find(scope)
            return None if mark is None else Place(phase, mark.layer, "scope")
        if path.scopes and path.scopes[0] in self._layers.optimizers:
            return Place(Phase.OPTIMIZER, None, "scope")
        return Place(phase, None, "scope") if differentiated else None

    def _scope(self, scopes: Sequence[str]) -> list[str]:
        """The innermost noted scope; what is no scope of a layer lies in between and is left out."""
        found: list[str] = []
        for scope in scopes[:-1]:
            if "/".join((*found, scope)) in self._scopes:
                found.append(scope)
        return found
