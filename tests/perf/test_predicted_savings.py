"""What a finding says could be saved at most, and what repairing the fault saves.

Each pair of programs of the seeded faults that do the same work runs under a region once, then both run plainly in
turns. The saving that is measured is the difference of the fastest steps of each turn, its median over the turns. Both
savings are given as shares of the step, since other programs slow a whole run down. The table:

    python -m pytest -m perf tests/perf/test_predicted_savings.py -s
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

from hroof.findings import findings  # noqa: E402
from hroof.machine import Machine  # noqa: E402
from hroof.run import ceilings_of  # noqa: E402

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)  # last, so that an installed hroof is the one that is tested

from tests.integrations.hroof_torch import seeded  # noqa: E402

if TYPE_CHECKING:
    from hroof.findings import Finding

pytestmark = pytest.mark.perf

TURNS = 5
BLOCK = 0.2
"""Seconds of processor time that a program runs before it is the other one's turn."""
PAIRS = {name: pair for name, pair in seeded.PAIRS.items() if pair.same_work}
WELL_BELOW = 1.3
"""A limit holds where no more than this many times is saved: times of two runs differ."""
ENOUGH = 5


@dataclass(frozen=True)
class Saving:
    """One repaired fault.

    Attributes:
        before: Seconds a step with the fault.
        after: Without it.
        predicted: Share of the step that the finding says could be saved at most; None where there was no finding.
    """

    before: float
    after: float
    predicted: float | None

    @property
    def measured(self) -> float:
        """Share of the step that the repair saves."""
        return 1 - self.after / self.before


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Two threads wait for each other where the computer has other things to do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def machine() -> Machine:
    """Ceilings of this computer, with one thread."""
    return ceilings_of(seeded.profile_of(seeded.plain(), steps=1), print, quick=True)


def fastest(step: seeded.Step) -> float:
    """The fastest of the steps of a block, of two at least.

    Processor time: with one thread and nothing to wait for, it is the wall time of a step that nobody stops.
    """
    times: list[float] = []
    while len(times) < 2 or sum(times) < BLOCK:
        begin = time.process_time()
        step()
        times.append(time.process_time() - begin)
    return min(times)


def predicted(pair: seeded.Pair, machine: Machine) -> float | None:
    """Share of the step that the finding of a program with a fault says could be saved."""
    profile = seeded.quiet(seeded.profile_of(pair.faulty()))
    step = statistics.median(step["wall"] for step in profile.run["steps"])
    found: list[Finding] = [f for f in findings(profile, machine) if f.kind == pair.kind]
    return max((finding.saves / step for finding in found), default=None)


def saving(pair: seeded.Pair, machine: Machine) -> Saving:
    """Run both programs of a pair."""
    faulty, clean = pair.faulty(), pair.clean()
    turns = [(fastest(faulty), fastest(clean)) for _ in range(TURNS + 1)][1:]
    before, after = (statistics.median(times) for times in zip(*turns, strict=True))
    return Saving(before, after, predicted(pair, machine))


def test_predicted_and_measured_savings(machine: Machine) -> None:
    found = {name: saving(pair, machine) for name, pair in PAIRS.items()}
    titles = f"{'fault':22}{'finding':16}{'before':>11}{'after':>11}{'at most':>9}{'saved':>8}"
    print(f"\n{titles}  saved ÷ at most")
    for name, each in found.items():
        limit = float("nan") if each.predicted is None else each.predicted
        times = f"{1e3 * each.before:8.2f} ms{1e3 * each.after:8.2f} ms"
        shares = f"{limit:9.0%}{each.measured:8.0%}  {each.measured / limit:.2f}"
        print(f"{name:22}{PAIRS[name].kind:16}{times}{shares}")
    held = [
        name
        for name, each in found.items()
        if each.predicted is not None and 0 < each.measured <= WELL_BELOW * each.predicted
    ]
    assert len(held) >= ENOUGH, held
