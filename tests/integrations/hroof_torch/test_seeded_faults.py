"""Precision and recall of the rules: small real programs with one fault each, and the same ones without it.

The programs run; each op then counts with its time in the fastest step, and a surprise counts where a longer run shows
it again, so that other programs on the computer change little. What bounds an op follows from its counts and from
ceilings with round numbers, so that the computer does not matter either.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from hroof.findings import findings
from hroof.machine import Machine
from hroof.profile import Profile
from tests.integrations.hroof_torch import seeded

pytestmark = pytest.mark.usefixtures("only_optimizers_of_this_test")

FOUND: dict[tuple[str, str], tuple[set[str], set[str], set[str]]] = {}
"""(Program, faulty or clean) → kinds that were found, that have to be, that may be."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads wait for each other where the computer has other things to do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def profile(step: seeded.Step) -> Profile:
    return seeded.quiet(seeded.profile_of(step))


def steady(step: seeded.Step, machine: Machine, expected: set[str]) -> set[str]:
    """What is found in a program; where that is not what is expected, what a longer run finds of both."""
    found = seeded.claims(profile(step), machine)
    if found == expected:
        return found
    again = seeded.claims(seeded.quiet(seeded.profile_of(step, steps=12)), machine)
    return (found | expected) & again


def note(name: str, which: str, found: set[str], wanted: set[str], allowed: set[str]) -> None:
    FOUND[name, which] = found, wanted, allowed


@pytest.mark.parametrize("name", seeded.PAIRS)
def test_a_fault_is_found_and_its_absence_is_not(name: str) -> None:
    pair = seeded.PAIRS[name]
    allowed = {pair.kind, *pair.beside}
    faulty = steady(pair.faulty(), pair.machine, allowed)
    clean = steady(pair.clean(), pair.machine, set())
    note(name, "faulty", faulty, {pair.kind}, allowed)
    note(name, "clean", clean, set(), set())
    assert pair.kind in faulty
    assert pair.kind not in clean


def test_a_rank_with_more_work_is_found() -> None:
    small = profile(seeded.trainer(seeded.linears(2, 256), seeded.constant(512, 256)))
    large = profile(seeded.trainer(seeded.linears(2, 256), seeded.constant(2048, 256)))
    uneven = seeded.claims(seeded.two_ranks(small, large), seeded.MACHINE)
    even = seeded.claims(seeded.two_ranks(small, small), seeded.MACHINE)
    note("ranks", "faulty", uneven, {"imbalance"}, {"imbalance"})
    note("ranks", "clean", even, set(), set())
    assert "imbalance" in uneven
    assert "imbalance" not in even


def test_precision_and_recall_over_all_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """The last test of the file: what the others have found, together."""
    if len(FOUND) < 2 * (len(seeded.PAIRS) + 1):
        pytest.skip("only some of the programs ran")
    right = sum(len(found & allowed) for found, _, allowed in FOUND.values())
    wrong = {key: found - allowed for key, (found, _, allowed) in FOUND.items() if found - allowed}
    wanted = sum(len(wanted) for _, wanted, _ in FOUND.values())
    hit = sum(len(found & wanted) for found, wanted, _ in FOUND.values())
    precision = right / (right + sum(map(len, wrong.values())))
    with capsys.disabled():
        print(f"\n{len(FOUND)} programs: precision {precision:.3f}, recall {hit / wanted:.3f}")
        for (name, which), kinds in wrong.items():
            print(f"  beside the point in {name} ({which}): {', '.join(sorted(kinds))}")
    assert hit == wanted
    assert precision >= 0.8


def test_the_loader_that_a_program_waits_for_is_timed() -> None:
    run = seeded.profile_of(seeded.unpacking(), skip=2, steps=2).run
    assert all(0 < step["loading"] < step["wall"] for step in run["steps"])


def test_without_a_loader_no_wait_is_noted() -> None:
    run = seeded.profile_of(seeded.no_own_op(), skip=2, steps=1)
    assert "loading" not in run.run["steps"][0]
    assert not [f for f in findings(run, seeded.MACHINE) if f.kind == "data"]
