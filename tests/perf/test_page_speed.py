"""The speed and the size of reports of 100,000 launches and 1,000 layers, without the time that importing takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import hroof
from hroof.compare import compare
from hroof.profile import Profile
from hroof.report import brief, export
from hroof.report.compared import text as compared_text
from tests.perf.large import large_machine, large_profile

pytestmark = pytest.mark.perf

LAUNCHES, LAYERS = 100_000, 1_000
SECONDS, BYTES = 2.0, 2_000_000
"""What the page of such a run may take, of one core of the project's machine."""
BUSY = "HROOF_PERF_BUSY"
"""Set it to measure beside other programs all the same: caches that are shared cost up to half as much again."""


@pytest.fixture(scope="module", autouse=True)
def quiet() -> None:
    """Skips on a machine whose cores have other work."""
    cores = os.cpu_count() or 1
    if os.getloadavg()[0] > cores + 0.5 and not os.environ.get(BUSY):
        pytest.skip(f"this machine is busy: {os.getloadavg()[0]:.1f} programs on {cores} cores")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = large_profile(LAYERS, LAUNCHES).save(tmp_path_factory.mktemp("large") / "run")
    large_machine().save(folder / "machine.json")
    return folder


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Everything that is imported late, and the fonts, once: with a small run."""
    folder = tmp_path_factory.mktemp("small")
    small = large_profile(10, 60, 2)
    export.write(small, large_machine(), folder / "page.html")
    brief.render(small, large_machine())
    Profile.load(small.save(folder / "run"))
    compared_text.render(compare(small, small))


def seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """The processor time of the best round: other programs on the machine count for nothing."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def test_the_page(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    load = seconds(lambda: Profile.load(run))
    took = seconds(lambda: hroof.load(run).report(page, force=True))
    size = page.stat().st_size
    print(f"\nload {load:.2f} s, page with the text report {took:.2f} s, {size / 1e6:.2f} MB")
    assert took < SECONDS
    assert size < BYTES


def test_the_text(run: Path) -> None:
    took = seconds(lambda: hroof.load(run).report())
    print(f"\ntext {took:.2f} s")
    assert took < SECONDS / 2


def test_the_comparison(run: Path, tmp_path: Path) -> None:
    other = large_profile(LAYERS, LAUNCHES, seed=1).save(tmp_path / "other")

    def both() -> str:
        roofs = large_machine()
        found = compare(
            Profile.load(run), Profile.load(other), base_machine=roofs, new_machine=roofs
        )
        return compared_text.render(found)

    took = seconds(both)
    print(f"\ncomparison {took:.2f} s")
    assert took < SECONDS


def test_tables(run: Path) -> None:
    loaded = hroof.load(run)
    took = seconds(lambda: (loaded.layers, loaded.kernels, loaded.points("layer,phase")))
    print(f"\nthree tables {took:.2f} s")
    assert took < SECONDS / 2
