"""Several measurements of this machine after another: how far each ceiling spreads, and that none is impossible.

The numbers are printed (``pytest -m perf -s``). ``HROOF_RUNS`` says how many runs there are, ``HROOF_FULL=1`` that each
is a full one.
"""

from __future__ import annotations

import os
import statistics

import pytest

pytest.importorskip("torch")

from hroof.ceilings import checks, measure
from hroof.integration import load
from hroof.machine import Machine
from hroof.units import percent, si

pytestmark = pytest.mark.perf

QUICK_SECONDS, FULL_SECONDS = 10.0, 60.0


@pytest.fixture(scope="module")
def runs() -> list[Machine]:
    """The machines of all runs; those in which other programs took the cores do not count."""
    count, quick = int(os.environ.get("HROOF_RUNS", "3")), not os.environ.get("HROOF_FULL")
    measured = [measure(load("torch"), "cpu", quick=quick) for _ in range(count)]
    quiet = [machine for machine in measured if not any(checks.busy(machine))]
    if len(quiet) < 2:
        pytest.skip(f"this machine is busy: {measured[0].warnings[0]}")
    return quiet


def rates(machine: Machine) -> dict[str, float]:
    """Every rate of a machine by name; the launch cost as launches per second."""
    found = {str(level): ceiling.rate for level, ceiling in machine.bandwidths.items()}
    found |= {"_".join(pair): ceiling.rate for pair, ceiling in machine.peaks.items()}
    found |= {name: ceiling.rate for name, ceiling in machine.others.items()}
    cost = machine.launch_cost
    return found | ({} if cost is None else {"launches": 1 / cost.rate})


def test_every_run_finds_the_same_ceilings(runs: list[Machine]) -> None:
    assert len({frozenset(rates(machine)) for machine in runs}) == 1


def test_how_far_each_ceiling_spreads(runs: list[Machine]) -> None:
    print(f"\n{len(runs)} runs of {statistics.median(m.facts['seconds'] for m in runs):.1f} s")
    print(f"{'ceiling':24} {'lowest':>12} {'median':>12} {'highest':>12} {'spread':>8}")
    for name in rates(runs[0]):
        values = sorted(rates(machine)[name] for machine in runs)
        middle = statistics.median(values)
        shown = "".join(f" {si(value, '/s'):>12}" for value in (values[0], middle, values[-1]))
        print(f"{name:24}{shown} {percent((values[-1] - values[0]) / middle):>8}")
        assert values[-1] < 3 * values[0], f"{name} differs threefold between runs"


def test_no_run_has_an_impossible_order_of_levels(runs: list[Machine]) -> None:
    assert [list(checks.level_order(machine.bandwidths)) for machine in runs] == [[]] * len(runs)


def test_no_run_exceeds_what_the_cores_can_do(runs: list[Machine]) -> None:
    assert [checks.too_fast(machine) for machine in runs] == [{}] * len(runs)


def test_a_run_keeps_to_its_time(runs: list[Machine]) -> None:
    for machine in runs:
        most = QUICK_SECONDS if machine.facts["quick"] else FULL_SECONDS
        assert machine.facts["seconds"] < most
