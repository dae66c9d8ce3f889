"""Classes of modules that bring a ``__call__`` of their own, which a wrapper of ``nn.Module.__call__`` may not see."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import nn

Call = Callable[..., Any]


def own_calls() -> list[type[nn.Module]]:
    """Every class below ``nn.Module`` that defines ``__call__`` itself, traced graphs apart."""
    found = []
    seen: set[type[nn.Module]] = set()
    todo = list(type.__subclasses__(nn.Module))
    while todo:
        kind = todo.pop()
        if kind in seen or issubclass(kind, torch.fx.GraphModule):
            continue
        seen.add(kind)
        todo += type.__subclasses__(kind)
        if isinstance(vars(kind).get("__call__"), FunctionType):
            found.append(kind)
    return found


def wrap_own_calls(
    kinds: list[type[nn.Module]], wrap: Callable[[Call], Call]
) -> Callable[[], None]:
    """Put ``wrap`` around the ``__call__`` of each class.

    Returns:
        What puts the originals back.
    """
    originals = [(kind, vars(kind)["__call__"]) for kind in kinds]
    for kind, original in originals:
        kind.__call__ = wrap(original)

    def restore() -> None:
        for kind, original in originals:
            kind.__call__ = original

    return restore
