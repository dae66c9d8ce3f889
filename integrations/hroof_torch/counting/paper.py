"""Counting on paper: a whole training step on tensors without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode

from hroof_torch.counting.mode import CountedOp, CountingMode
from hroof_torch.tracking.keras_layers import random_without_seeds

Where = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def _nowhere(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    return None


def count_step(step: Callable[[], object], where: Where = _nowhere) -> list[CountedOp[Any]]:
    """Run a step once and count its ops.

    Args:
        step: Runs the step.
        where: Attribution of each op; see ``CountingMode``.

    Returns:
        The ops in the order in which they ran.
    """
    ops: list[CountedOp[Any]] = []
    with CountingMode(ops.append, where):
        step()
    return ops


def on_paper(
    build: Callable[[], Callable[[], object]], where: Where = _nowhere, *, warm_up: int = 0
) -> list[CountedOp[Any]]:
    """Count a step of a model that need not fit into this machine.

    Args:
        build: Makes model, data and optimizer and returns the step; runs on fake tensors. A dtype is set by
            ``torch.set_default_dtype`` while building: ``module.to(dtype)`` does not work there.
        where: Attribution of each op; see ``CountingMode``.
        warm_up: Steps to run before the counted one. The first step differs from the later ones: it makes
            the state of the optimizer.

    Returns:
        The ops of one step, equal to those of a real run on a CPU.
    """
    with FakeTensorMode(), random_without_seeds():
        step = build()
        for _ in range(warm_up):
            step()
        return count_step(step, where)
