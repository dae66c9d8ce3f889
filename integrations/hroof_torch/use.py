"""Whether a program computes with PyTorch, or has only imported it."""

from __future__ import annotations

import gc

from torch import nn
from torch.optim import Optimizer


def in_use() -> bool:
    """Whether there is a module with parameters, or an optimizer; it takes a look at every object that is alive."""
    # The class is not asked for through the object: some stand in for another one, and load it when asked.
    return any(
        issubclass(type(value), Optimizer)
        or (issubclass(type(value), nn.Module) and _has_parameters(value))
        for value in gc.get_objects()
    )


def _has_parameters(module: nn.Module) -> bool:
    """Of its own: those of its children are seen with them; a module half made has none."""
    return bool(vars(module).get("_parameters"))
