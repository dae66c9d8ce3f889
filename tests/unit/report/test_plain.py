"""Foreign names: nothing reaches a terminal raw, nothing runs in a spreadsheet."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report import brief, text
from hroof.report.export import to_frame, write
from hroof.report.plain import MAX_NAME, clipped, csv_text, no_formula, visible

EVIL = "a\x1b[31mred\nline\t\u202eback"
SHOWN = r"a\x1b[31mred\nline\t\u202eback"
LONG = "model." + ".".join(f"layer{i}" for i in range(20))


def run_of(build: SimpleNamespace, name: str) -> Profile:
    row = build.row(name, "forward", name, 30, **build.flop(matrix_fp32=1e6))
    run = {"name": name, "device": "cpu", "warnings": [name], "device_name": name}
    return Profile.from_rows([row | {"step": step} for step in range(3)], run)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain é 漢 – ≥ …", "plain é 漢 – ≥ …"),
        ("narrow\u202fspace", "narrow\u202fspace"),
        (EVIL, SHOWN),
        ("\r\x00\x9b\ud800", r"\r\x00\x9b\ud800"),
    ],
)
def test_control_characters_become_escapes(raw: str, shown: str) -> None:
    assert visible(raw) == shown


@pytest.mark.parametrize("render", [brief.render, text.render])
@pytest.mark.parametrize("width", [30, 250])
def test_no_report_holds_raw_control_characters(
    build: SimpleNamespace, machine: Machine, render: object, width: int
) -> None:
    assert callable(render)
    for by in (("layer",), ("op", "layer")):
        said = render(run_of(build, EVIL), machine, by=by, width=width)
        assert not set(said) & set("\x1b\t\r\u202e")
        assert r"\x1b[31mred\nline" in said.replace("\n", "").replace("│", "").replace(" ", "")


@pytest.mark.parametrize("render", [brief.render, text.render])
def test_long_names_are_clipped_in_tables(build: SimpleNamespace, render: object) -> None:
    assert callable(render)
    said = render(run_of(build, LONG), None, width=250)
    row = next(
        line for line in said.splitlines() if line.startswith("model.layer0") and "µs" in line
    )
    name = row.split()[0]
    assert len(name) == MAX_NAME
    assert name.endswith("layer18.layer19")
    assert name.count("…") == 1


def test_files_for_programs_have_the_whole_name(build: SimpleNamespace) -> None:
    assert list(to_frame(run_of(build, LONG))["layer"]) == [LONG]


@given(st.text(max_size=120), st.integers(3, 60))
def test_clipped_text_fits(raw: str, limit: int) -> None:
    short = clipped(raw, limit)
    assert cell_len(short) <= limit
    assert short == raw or "…" in short


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_cell_is_never_a_formula(build: SimpleNamespace, tmp_path: Path, start: str) -> None:
    name = f"{start}cmd()"
    shown = "'" + name.replace("\r", r"\r")
    assert no_formula(name) == shown
    path = write(run_of(build, name), None, tmp_path / "out.csv", ("layer",))
    with path.open(newline="", encoding="utf-8") as stream:
        (row,) = csv.DictReader(stream)
    assert row["layer"] == shown
    assert float(row["time [s]"]) == pytest.approx(30e-6)
    assert list(to_frame(run_of(build, name))["layer"]) == [name]


def test_other_cells_stay_as_they_are() -> None:
    assert [no_formula(text) for text in ("", "a=b", "(no layer)")] == ["", "a=b", "(no layer)"]


def test_a_table_as_csv_holds_no_formula_and_stays_as_it_is() -> None:
    frame = pd.DataFrame({"layer": ["=1+1", None, "fc"], "time [s]": [-1.0, float("nan"), 2.0]})
    before = frame.copy()
    assert csv_text(frame) == "layer,time [s]\n'=1+1,-1.0\n,\nfc,2.0\n"
    pd.testing.assert_frame_equal(frame, before)
