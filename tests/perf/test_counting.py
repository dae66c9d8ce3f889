"""What counting costs, as ratios of step times within one run. Nothing is ever timed while it counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from hroof_torch.counting import count_step

pytestmark = pytest.mark.perf


class Passing(TorchDispatchMode):
    """Passes every op on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def training(width: int, batch: int, layers: int) -> Callable[[], object]:
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers))
    )
    x, optimizer = torch.randn(batch, width), torch.optim.AdamW(model.parameters())

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def ratios(step: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Best counted over best plain step, and over best step with a mode that only passes on."""

    def passing() -> None:
        with Passing():
            step()

    def counting() -> None:
        count_step(step)

    best = [float("inf")] * 3
    for _ in range(rounds):
        for index, run in enumerate((step, passing, counting)):
            began = time.perf_counter()
            run()
            best[index] = min(best[index], time.perf_counter() - began)
    return best[2] / best[0], best[2] / best[1]


def test_tiny_kernels() -> None:
    """The worst case: kernels of microseconds, every shape seen for the first time."""
    step = training(128, 64, 4)
    step()
    over_plain, over_passing = ratios(step, 30)
    assert over_plain < 15
    assert over_passing < 10


def test_real_kernels() -> None:
    step = training(1024, 512, 4)
    step()
    over_plain, _ = ratios(step, 5)
    assert over_plain < 1.5
