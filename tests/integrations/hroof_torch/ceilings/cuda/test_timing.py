"""Timing on a GPU: warm-up, batches, pauses, looks at the device; with a clock that only kernels advance."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch")

from hroof_torch.ceilings.cuda import timing  # noqa: E402
from hroof_torch.ceilings.cuda.nvml import Look  # noqa: E402

WARM_UP, LONGEST = 0.1, 0.5


@pytest.mark.parametrize(
    ("seconds", "launches"), [(1e-3, 10), (6e-3, 2), (1.0, 1), (0.0, 2000), (1e-7, 2000)]
)
def test_a_batch_takes_ten_milliseconds(seconds: float, launches: int) -> None:
    assert timing.batch_size(seconds) == launches


def test_a_batch_may_have_another_length() -> None:
    assert timing.batch_size(1e-2, 0.2) == 20
    assert timing.batch_size(1e-2, 0.0) == 1


def test_a_call_is_one_batch_and_counts_its_work(card: Any) -> None:
    call, work = card.timer().batched("copy", card.kernel(2e-3), 100.0)
    assert work == 500.0
    begun = card.now
    call()
    assert card.now - begun == pytest.approx(1e-2)


def test_an_idle_device_works_for_a_tenth_of_a_second_first(card: Any) -> None:
    timer = card.timer()
    assert timer.settle(card.kernel(1e-3)) == pytest.approx(1e-3)
    assert WARM_UP <= card.now < 1.2 * WARM_UP


def test_a_device_that_was_just_at_work_is_warm(card: Any) -> None:
    timer = card.timer()
    timer.settle(card.kernel(1e-3))
    begun = card.now
    timer.settle(card.kernel(1e-3))
    assert card.now - begun < 0.02


def test_a_device_that_paused_is_cold_again(card: Any) -> None:
    timer = card.timer()
    timer.settle(card.kernel(1e-3))
    card.sleep(1.0)
    begun = card.now
    timer.settle(card.kernel(1e-3))
    assert card.now - begun >= WARM_UP


def test_a_clock_that_rises_is_waited_for(card: Any) -> None:
    def launch() -> None:
        card.launch("rising", 1e-3 if card.now > 0.25 else 5e-3 - 15e-3 * card.now)

    assert card.timer().settle(launch) == pytest.approx(1e-3)
    assert card.now > 0.25


def test_a_kernel_that_never_becomes_steady_is_waited_for_half_a_second(card: Any) -> None:
    def launch() -> None:
        card.launch("unsteady", 1e-3 * 1.05 ** len(card.launches))

    card.timer().settle(launch)
    assert LONGEST <= card.now < LONGEST + 0.2


def test_a_kernel_longer_than_the_warm_up_runs_only_a_few_times(card: Any) -> None:
    card.timer().settle(card.kernel(2.0))
    assert len(card.launches) == 2


def test_a_burst_follows_a_pause(card: Any) -> None:
    timer = card.timer()
    timer.batched("burst", card.kernel(1e-3), 1.0, pause=0.2)
    assert card.slept == [0.2]
    timer.batched("usual", card.kernel(1e-3), 1.0)
    assert card.slept == [0.2]


def test_a_batch_may_be_long(card: Any) -> None:
    call, work = card.timer().batched("mm", card.kernel(1e-2), 1.0, batch=0.2)
    assert work == pytest.approx(20, abs=1)
    begun = card.now
    call()
    assert card.now - begun == pytest.approx(0.2, abs=0.011)


def test_every_call_waits_for_the_device(card: Any) -> None:
    waited: list[tuple[str, int]] = []
    timer = timing.Timer(
        "cuda:1",
        clock=card.clock,
        elapsed=card.elapsed,
        wait=lambda device: waited.append((device, len(card.launches))),
    )
    call, _ = timer.batched("copy", card.kernel(5e-3), 1.0)
    before = len(card.launches)
    call()
    assert waited == [("cuda:1", before + 2)]


class Gpu:
    """Answers with a look at a given clock."""

    def __init__(self, card: Any) -> None:
        self.card = card
        self.asked: list[int] = []

    def look(self) -> Look:
        self.asked.append(len(self.card.launches))
        return Look(clock=1.5e9)

    def utilization(self) -> float:
        return 0.25


def test_the_device_is_looked_at_while_it_works_but_not_often(card: Any) -> None:
    gpu = Gpu(card)
    timer = card.timer(gpu)
    assert timer.utilization == 0.25
    call, _ = timer.batched("mm", card.kernel(0.015625), 1.0)
    before = len(card.launches)
    for _ in range(11):
        call()
    assert timer.looks == {"mm": [Look(clock=1.5e9)] * 3}
    assert gpu.asked == [before + 1, before + 5, before + 9]


def test_without_nvml_nothing_is_looked_at(card: Any) -> None:
    timer = card.timer()
    call, _ = timer.batched("mm", card.kernel(1e-2), 1.0)
    call()
    assert timer.looks == {} and timer.utilization is None


class Event:
    """A CUDA event on a clock that launches advance."""

    now = 0.0
    made: ClassVar[list[bool]] = []

    def __init__(self, enable_timing: bool) -> None:
        self.made.append(enable_timing)

    def record(self) -> None:
        self.at = Event.now

    def synchronize(self) -> None:
        self.seen = True

    def elapsed_time(self, end: Event) -> float:
        assert end.seen
        return (end.at - self.at) * 1e3


class Guard:
    """In place of ``torch.cuda.device``."""

    entered: ClassVar[list[str]] = []

    def __init__(self, device: str) -> None:
        self.device = device

    def __enter__(self) -> None:
        self.entered.append(self.device)

    def __exit__(self, *error: object) -> None:
        pass


def test_events_time_launches_on_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "cuda", SimpleNamespace(Event=Event, device=Guard))

    def launch() -> None:
        Event.now += 0.25

    assert timing.elapsed(launch, 3, "cuda:1") == pytest.approx(0.75)
    assert Guard.entered == ["cuda:1"] and Event.made == [True, True]
