"""The report of a machine alone: what the text and the page say, for every kind of machine."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hroof.errors import MissingError
from hroof.machine import Ceiling, Machine, Sweep
from hroof.report import ceilings
from hroof.report.ceilings import (
    blocks,
    ceilings_grid,
    conditions,
    notes,
    others_grid,
    page,
    ridge_grid,
    text,
)
from hroof.report.machine_scene import SweepScene, sweep_scene
from hroof.units import MemoryLevel, Pipe, Precision

L1, L2, L3, DRAM = MemoryLevel
M32, I8 = (Pipe.MATRIX, Precision.FP32), (Pipe.MATRIX, Precision.INT8)
HOSTILE = "</title></style></svg><script>alert(1)</script>{{ 7 * 7 }}\x1b[31m"
VOID = {"meta", "input", "br", "img", "link", "hr"}


@pytest.fixture
def machine() -> Machine:
    """A CPU with everything that a measurement may have."""
    return Machine(
        "small cpu",
        peaks={
            M32: Ceiling(1e11, "measured", "mm 1024", 9.5e10, 0.03, 40, "Dense.", clock=3e9),
            I8: Ceiling(4e11, kernel="_int_mm"),
        },
        bandwidths={
            L1: Ceiling(8e10, kernel="fold", note="Reads are counted."),
            DRAM: Ceiling(2e10, kernel="sum", note="Reads are counted."),
        },
        launch_cost=Ceiling(1.5e-6, kernel="neg_"),
        others={
            "dram copy": Ceiling(1.4e10, kernel="copy_", note="Write-allocate counted."),
            "vector_fp32 no fma": Ceiling(5e10),
            "matrix_int8 burst": Ceiling(5e11),
        },
        caches={L1: 32_000},
        shared_pipes=True,
        facts={
            "threads": 1,
            "quick": False,
            "seconds": 12.345678,
            "clock": 2.5e9,
            "own_share": 0.981,
            "load": 0.25,
            "affinity": None,
            "versions": {"torch": "2.13", "python": "3.11"},
            "caches": [{"level": "l1", "size": 32_000, "sharers": 1}],
            "environment": {"OMP_NUM_THREADS": "1"},
            "limits": {},
        },
        warnings=("fp64 is a lower bound.",),
        sweep=Sweep(
            sizes=(4_000, 8_000, 30_000, 60_000, 500_000, 2_000_000),
            rates=(80e9, 82e9, 81e9, 22e9, 20e9, 20e9),
            kernel="read",
            plateaus=((81e9, 31_000), (20e9, 2_000_000)),
        ),
    )


def scene_of(machine: Machine) -> SweepScene:
    scene = sweep_scene(machine)
    assert scene is not None
    return scene


# --- content ------------------------------------------------------------------------------------


def test_every_ceiling_has_a_row_with_its_unit(machine: Machine) -> None:
    rows = {row[0]: row[1] for row in ceilings_grid(machine).rows}
    assert rows == {
        "matrix FP32": "100 GFLOP/s",
        "matrix INT8": "400 GOP/s",
        "L1": "80.0 GB/s",
        "DRAM": "20.0 GB/s",
        "launch": "1.50 µs",
    }


def test_a_row_has_everything_that_is_known(machine: Machine) -> None:
    grid = ceilings_grid(machine)
    assert grid.headers == [
        "ceiling", "rate", "spread", "samples", "clock", "how", "kernel",
    ]  # fmt: skip
    assert list(grid.rows[0]) == [
        "matrix FP32", "100 GFLOP/s", "3.0 %", "40", "3.00 GHz", "measured", "mm 1024",
    ]  # fmt: skip
    assert list(grid.rows[1][2:5]) == ["–"] * 3


def test_without_a_clock_there_is_no_column_of_it(machine: Machine) -> None:
    assert "clock" not in ceilings_grid(dataclasses.replace(machine, peaks={})).headers


def test_rates_beside_the_ceilings_have_units_by_their_names(machine: Machine) -> None:
    others = {**machine.others, "launch from a graph": Ceiling(1e-6), "oddity": Ceiling(12.0)}
    rows = {row[0]: row[1] for row in others_grid(dataclasses.replace(machine, others=others)).rows}
    assert rows == {
        "dram copy": "14.0 GB/s",
        "vector_fp32 no fma": "50.0 GFLOP/s",
        "matrix_int8 burst": "500 GOP/s",
        "launch from a graph": "1.00 µs",
        "oddity": "12.0",
    }


def test_ridge_points_are_a_table(machine: Machine) -> None:
    grid = ridge_grid(machine)
    assert list(grid.headers) == ["peak", "L1", "DRAM"]
    assert grid.rows == [["matrix FP32", "1.25", "5.00"]]


def test_a_note_is_told_once_with_all_that_it_is_about(machine: Machine) -> None:
    assert notes(machine) == {
        "Dense.": ["matrix FP32"],
        "Reads are counted.": ["L1", "DRAM"],
        "Write-allocate counted.": ["dram copy"],
    }


def test_conditions_are_the_facts_that_fit_a_line(machine: Machine) -> None:
    assert conditions(machine) == [
        "threads 1 · quick no · seconds 12.3 s · clock 2.50 GHz · own share 98.1 % · load 0.250",
        "versions: torch 2.13, python 3.11",
        "environment: OMP_NUM_THREADS 1",
    ]
    assert conditions(Machine("nothing")) == []


# --- text ---------------------------------------------------------------------------------------


def test_the_text_has_its_sections_in_order(machine: Machine) -> None:
    found = text(machine, width=140)
    wanted = [
        "Ceilings of small cpu (cpu)",
        "Vector and matrix work share one unit.",
        "L1, DRAM: Reads are counted.",
        "Rates beside the ceilings",
        "Ridge points",
        "Bandwidth over the working set per thread",
        "L1 81.0 GB/s up to 31.0 kB",
        "Kernel: read",
        "Doubts",
        "• fp64 is a lower bound.",
        "Conditions",
        "A fused multiply-add is 2 FLOP",
    ]
    places = [found.index(part) for part in wanted]
    assert places == sorted(places)
    assert found.endswith(".\n") and not found.startswith("\n")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(machine: Machine, width: int) -> None:
    assert max(map(len, text(machine, width=width).splitlines())) <= width


def test_a_machine_without_anything_says_so() -> None:
    found = text(Machine("nothing", "cuda:0"), width=100)
    assert "Ceilings of nothing (cuda:0)" in found
    assert "None was measured." in found
    for absent in ("Rates beside", "Ridge points", "working set", "Doubts", "Conditions"):
        assert absent not in found


def test_missing_numbers_are_dashes_never_nan(machine: Machine) -> None:
    assert not re.search(r"\bnan\b", text(machine, width=140), re.IGNORECASE)


def test_names_cannot_move_the_cursor(machine: Machine) -> None:
    found = text(dataclasses.replace(machine, name=HOSTILE, warnings=(HOSTILE,)), width=140)
    assert "\x1b" not in found


def test_colour_is_asked_for(machine: Machine) -> None:
    assert "\x1b[" in text(machine, width=100, color=True)
    assert "\x1b[" not in text(machine, width=100)


# --- blocks -------------------------------------------------------------------------------------


def test_blocks_fall_as_the_bandwidth_does(machine: Machine) -> None:
    *rows, scale = blocks(scene_of(machine), 60)
    bodies = [row.split("│")[1] for row in rows]
    assert [len(body) for body in bodies] == [len(bodies[0])] * 8
    heights = [
        sum("▁▂▃▄▅▆▇█".find(body[at]) + 1 for body in bodies) for at in range(len(bodies[0]))
    ]
    assert heights[-1] > 0
    assert heights[0] > 2 * heights[-1]
    assert scale.split() == ["4.00", "kB", "2.00", "MB"]


def test_blocks_have_the_highest_and_the_lowest_rate(machine: Machine) -> None:
    rows = blocks(scene_of(machine), 60)
    assert rows[0].strip().startswith("82.0 GB/s │")
    assert rows[7].startswith("20.0 GB/s │")


@pytest.mark.parametrize("width", [13, 20, 45, 300])
def test_blocks_fit_the_width_as_far_as_they_can(machine: Machine, width: int) -> None:
    *rows, _ = blocks(scene_of(machine), width)
    assert max(map(len, rows)) <= max(width, 12)
    assert max(map(len, rows)) <= 11 + 72


def test_columns_are_even_on_a_logarithmic_scale(machine: Machine) -> None:
    sizes = (1_000, 2_000, 4_000, 1_024_000)
    sparse = dataclasses.replace(scene_of(machine), sizes=sizes, rates=(8e9, 8e9, 8e9, 1e9))
    columns = ceilings._columns(sparse, 101)
    assert len(columns) == 101
    middle = 100 * (2 + 10) / 2 / 10  # half way between the last two sizes
    assert columns.count(8e9) == pytest.approx(middle, abs=1)


def test_blocks_of_a_single_point(machine: Machine) -> None:
    one = dataclasses.replace(scene_of(machine), sizes=(4_000,), rates=(1e9,))
    *rows, scale = blocks(one, 80)
    assert {row.split("│")[1] for row in rows} == {"█" * 69}
    assert scale.split() == ["4.00", "kB", "4.00", "kB"]


# --- page ---------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """A page taken apart; fails where an element is not closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())


def test_the_page_is_whole_and_says_what_the_text_says(machine: Machine) -> None:
    found = Elements(page(machine))
    for part in (
        "Ceilings of small cpu",
        "matrix FP32 100 GFLOP/s 3.0 % 40 3.00 GHz measured mm 1024",
        "dram copy 14.0 GB/s",
        "L1, DRAM: Reads are counted.",
        "Plateaus of the sweep: L1 81.0 GB/s up to 31.0 kB, DRAM 20.0 GB/s up to 2.00 MB.",
        "fp64 is a lower bound.",
        "versions: torch 2.13, python 3.11",
    ):
        assert part in found.text


def test_the_page_has_both_figures(machine: Machine) -> None:
    found = Elements(page(machine))
    ids = {attributes.get("id") for _, attributes in found.tags}
    assert {"roof-dram", "roof-matrix_fp32", "sweep", "plateau-l1", "cache-l1"} <= ids
    assert "Roofline and sweep" in found.text
    alone = Elements(page(dataclasses.replace(machine, sweep=None)))
    assert "Roofline and sweep" not in alone.text and "Plateaus" not in alone.text


def test_the_page_refers_to_nothing_outside_it(machine: Machine) -> None:
    source = page(machine)
    assert len(source) < 1_000_000
    for _, attributes in Elements(source).tags:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"https?:|@import|url\((?!#)", source)


def test_ids_are_unique(machine: Machine) -> None:
    ids = [one["id"] for _, one in Elements(page(machine)).tags if "id" in one]
    assert len(ids) == len(set(ids))


def test_hostile_names_stay_text(machine: Machine) -> None:
    odd = dataclasses.replace(
        machine,
        name=HOSTILE,
        warnings=(HOSTILE,),
        facts={HOSTILE: HOSTILE},
        others={HOSTILE: Ceiling(1.0, kernel=HOSTILE, note=HOSTILE)},
        sweep=dataclasses.replace(machine.sweep, kernel=HOSTILE) if machine.sweep else None,
    )
    source = page(odd)
    found = Elements(source)
    assert not any(tag == "script" for tag, _ in found.tags)
    assert "{{ 7 * 7 }}" in found.text
    assert "\x1b" not in source


def test_a_machine_without_anything_has_a_page() -> None:
    found = Elements(page(Machine("nothing")))
    assert found.text.count("None was measured.") == 1
    assert "None: a ridge point needs a peak and a bandwidth." in found.text


def test_without_matplotlib_the_page_says_why_there_is_no_figure(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(machine: Machine) -> Any:
        raise MissingError("matplotlib cannot be imported.", "Install <it>.")

    monkeypatch.setattr(ceilings, "machine_figure", absent)
    found = Elements(page(machine))
    assert "matplotlib cannot be imported. Install <it>." in found.text
    assert not any(tag == "svg" for tag, _ in found.tags)


def test_the_figure_is_written_to_a_file(machine: Machine, tmp_path: Path) -> None:
    assert ceilings.figure(machine, tmp_path / "m.svg").read_text().startswith("<?xml")
