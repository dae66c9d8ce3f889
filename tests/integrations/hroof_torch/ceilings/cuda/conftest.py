"""A GPU that is made up: its description, a clock that only its kernels advance, launches that are only noted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.integration import Device  # noqa: E402
from hroof_torch import ceilings  # noqa: E402
from hroof_torch.ceilings.cuda import memory as ceilings_cuda_memory  # noqa: E402
from hroof_torch.ceilings.cuda import timing as ceilings_cuda_timing  # noqa: E402
from hroof_torch.ceilings.cuda import vector as ceilings_cuda_vector  # noqa: E402


def properties(major: int = 9, minor: int = 0, **more: Any) -> SimpleNamespace:
    """What ``torch.cuda.get_device_properties`` says about the GPU."""
    said = {
        "name": "made-up GPU",
        "multi_processor_count": 100,
        "total_memory": 80 * 1024**3,
        "L2_cache_size": 50 * 1024**2,
    }
    return SimpleNamespace(major=major, minor=minor, **(said | more))


def described(major: int = 9, minor: int = 0, **more: Any) -> Device:
    """The GPU as hroof describes it."""
    return ceilings._cuda(0, properties(major, minor, **more))


@dataclasses.dataclass
class Card:
    """A GPU whose memory is that of the computer, and whose kernels take the time that the test says.

    Attributes:
        device: Its description.
        now: Its clock, in seconds.
        seconds: Of one launch, by name of the kernel.
        launches: Every launch so far.
        built: Every kernel that was made ready: name, (blocks, threads), arguments, whether it prefers L1.
        slept: Seconds of pauses.
        waits: Seconds of one synchronisation.
    """

    device: Device
    now: float = 0.0
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    launches: list[str] = dataclasses.field(default_factory=list)
    built: list[tuple[str, tuple[int, int], tuple[Any, ...], bool]] = dataclasses.field(
        default_factory=list
    )
    slept: list[float] = dataclasses.field(default_factory=list)
    waits: float = 0.0

    def launch(self, name: str, seconds: float = 1e-3) -> None:
        """One launch passes."""
        self.launches.append(name)
        self.now += self.seconds.get(name, seconds)

    def kernel(self, seconds: float, name: str = "kernel") -> Callable[[], None]:
        """A launch that takes some seconds."""
        return lambda: self.launch(name, seconds)

    def clock(self) -> float:
        """Seconds."""
        return self.now

    def elapsed(self, launch: Callable[[], object], times: int, device: str) -> float:
        """In place of CUDA events; what is not launched through the card takes a millisecond."""
        begun = self.now
        for _ in range(times):
            before = self.now
            launch()
            self.now += 1e-3 if self.now == before else 0.0
        return self.now - begun

    def wait(self, device: str) -> None:
        """In place of a synchronisation."""
        self.now += self.waits

    def sleep(self, seconds: float) -> None:
        """A pause."""
        self.slept.append(seconds)
        self.now += seconds

    def timer(self, gpu: Any = None) -> ceilings_cuda_timing.Timer:
        """A timer of this card."""
        return ceilings_cuda_timing.Timer(
            self.device.device,
            gpu,
            clock=self.clock,
            elapsed=self.elapsed,
            wait=self.wait,
            sleep=self.sleep,
        )


@pytest.fixture
def gpu() -> Callable[..., Device]:
    """Describes a made-up GPU: ``gpu(major, minor, **properties)``."""
    return described


@pytest.fixture
def gpu_properties() -> Callable[..., SimpleNamespace]:
    """Properties of a made-up GPU, as PyTorch gives them."""
    return properties


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    """A small GPU of compute capability 9.0 whose kernels are noted instead of launched."""
    small = described(multi_processor_count=4, L2_cache_size=1024**2, total_memory=1024**3)
    card = Card(dataclasses.replace(small, device="cpu"))

    class Launcher:
        def __init__(
            self,
            device: Device,
            name: str,
            shape: tuple[int, int],
            arguments: Sequence[Any],
            *,
            prefer_l1: bool = False,
        ) -> None:
            card.built.append((name, shape, tuple(arguments), prefer_l1))
            self._name = name

        def __call__(self) -> None:
            card.launch(self._name)

    for module in (ceilings_cuda_memory, ceilings_cuda_vector):
        monkeypatch.setattr(module, "Launcher", Launcher)
    return card
