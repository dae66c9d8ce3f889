"""A clock that only kernels advance, kernels of a known rate, and an integration made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.integration import CeilingKernel, Device
from hroof.machine import Ceiling
from hroof.units import MemoryLevel, Pipe, Precision

CACHES = {MemoryLevel.L1: 32_768, MemoryLevel.L2: 1_048_576}


class FakeClock:
    """Stands still until a kernel runs."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeIntegration:
    """An integration that offers given kernels, and counts what it is asked."""

    FRAMEWORK = "fake"

    def __init__(self, kernels: Sequence[CeilingKernel | Exception], **facts: Any) -> None:
        self.kernels = kernels
        self.facts = facts
        self.searches = 0

    def device(self, name: str | None = None) -> Device:
        return Device(name or "cpu", "fake chip", CACHES, shared_pipes=True, facts=self.facts)

    def ceiling_kernels(self, device: Device) -> Iterator[CeilingKernel]:
        self.searches += 1
        for kernel in self.kernels:
            if isinstance(kernel, Exception):
                raise kernel
            yield kernel


@pytest.fixture
def clock() -> FakeClock:
    """A clock that only kernels advance."""
    return FakeClock()


def speeds_of(rate: float | Sequence[float]) -> Callable[[int], float]:
    """The rate of a kernel's n-th call; the last one given stays."""
    rates = [rate] if isinstance(rate, int | float) else list(rate)
    return lambda call: rates[min(call, len(rates) - 1)]


@pytest.fixture
def fake(clock: FakeClock) -> SimpleNamespace:
    """Builders of kernels, of an integration that offers them, and of ceilings."""

    def kernel(
        name: str, rate: float | Sequence[float], work: float = 1e6, **what: Any
    ) -> CeilingKernel:
        speed = speeds_of(rate)
        calls = 0

        def call() -> None:
            nonlocal calls
            clock.now += work / speed(calls)
            calls += 1

        return CeilingKernel(name, prepare=lambda: (call, work), **what)

    def level(name: str, rate: float | Sequence[float], where: MemoryLevel) -> CeilingKernel:
        return kernel(name, rate, what="bandwidth", level=where)

    def peak(
        name: str, rate: float | Sequence[float], precision: Precision, pipe: Pipe = Pipe.MATRIX
    ) -> CeilingKernel:
        return kernel(name, rate, what="peak", pipe=pipe, precision=precision)

    def failing(name: str, error: Exception, **what: Any) -> CeilingKernel:
        def prepare() -> Any:
            raise error

        return CeilingKernel(name, prepare=prepare, **what)

    return SimpleNamespace(
        kernel=kernel,
        level=level,
        peak=peak,
        failing=failing,
        integration=FakeIntegration,
        ceiling=lambda rate, **more: Ceiling(rate, **({"median": rate, "spread": 0.01} | more)),
    )
