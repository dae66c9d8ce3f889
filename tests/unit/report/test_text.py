"""The text report: verdict first, nothing cut, nothing unknown passed off as zero."""

from __future__ import annotations

import io
import math
import re
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hroof.errors import UsageError
from hroof.findings import findings
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report import say
from hroof.report.cells import (
    bound_cell,
    bytes_cell,
    flop_cell,
    headroom_cell,
    intensity_cell,
    legend,
    ranking,
    rate_cell,
    share_cell,
    source_cell,
    time_of,
    without_flop,
)
from hroof.report.grid import Grid, show
from hroof.report.text import MAX_FINDINGS, render
from hroof.roofline import Point, points
from hroof.units import MemoryLevel

WIDE = 200
SECTIONS = [
    "What to change first", "By layer, most time first",
    "Launches of no FLOP, by their bytes (bytes and rates are of all launches of a row)", "Phases",
    "Totals of a step", "Ceilings", "Coverage, in shares of the launch time", "Caveats",
]  # fmt: skip


def point(profile: Profile, machine: Machine | None, **key: str) -> Point:
    return next(p for p in points(profile, machine, tuple(key)) if dict(p.key) == key)


def section(text: str, title: str) -> str:
    """What stands under a heading, up to the next blank line."""
    return text.split(f"\n{title}\n", 1)[1].split("\n\n", 1)[0]


class TestOrder:
    def test_the_verdict_comes_first_then_every_section(
        self, profile: Profile, machine: Machine
    ) -> None:
        text = render(profile, machine, width=WIDE)
        assert "Verdict: small" in text.splitlines()[0]
        places = [text.index(f"\n{title}\n") for title in SECTIONS]
        assert places == sorted(places)

    def test_rows_are_ranked_by_time(self, profile: Profile, machine: Machine) -> None:
        rows = section(render(profile, machine, width=WIDE), "By layer, most time first")
        names = re.findall(r"^(fc1|fc2|Net|\(no layer\))", rows, flags=re.MULTILINE)
        assert names == ["fc1", "fc2", "Net", "(no layer)"]

    def test_phases_stand_in_the_order_of_a_step(self, profile: Profile, machine: Machine) -> None:
        rows = section(render(profile, machine, width=WIDE), "Phases").splitlines()[2:]
        assert [row.split()[0] for row in rows] == [
            "forward",
            "loss",
            "backward",
            "optimizer",
            "data",
        ]

    def test_grouping_keys_become_columns(self, profile: Profile, machine: Machine) -> None:
        text = render(profile, machine, by=("layer", "phase"), width=WIDE)
        header = section(text, "By layer, phase, most time first").splitlines()[0]
        assert header.split()[:2] == ["layer", "phase"]

    def test_an_unknown_key_is_refused(self, profile: Profile) -> None:
        with pytest.raises(UsageError):
            render(profile, None, by=("module",))


class TestNothingIsCut:
    @pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 160, 250])
    def test_lines_fit_and_words_survive(
        self, profile: Profile, machine: Machine, width: int
    ) -> None:
        text = render(profile, machine, width=width)
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        joined = re.sub(r"[\s│]+", "", text)
        for word in ("fc1", "matrixfp32", "275µs", "12.1MFLOP", "9.29", "15.1", "M/C/C/P", "119µs"):
            assert word in joined

    def test_a_narrow_terminal_is_told(self, profile: Profile, machine: Machine) -> None:
        text = render(profile, machine, width=60)
        assert "(narrow terminal: 60 columns; as a table this needs" in text

    def test_long_names_stay_whole(self, build: SimpleNamespace) -> None:
        name = "model." + ".".join(f"layer{i}" for i in range(30))
        text = render(Profile.from_rows([build.row(name, "forward", "mm", 1)]), None, width=50)
        assert name in text.replace("\n", "")

    def test_names_are_no_markup(self, build: SimpleNamespace) -> None:
        name = "gemm<[bold red]float[/]> :smile:"
        rows = [build.row("a", "forward", "mm", 1, kernel=name)]
        assert name in render(Profile.from_rows(rows), None, by=("kernel",), width=WIDE)

    def test_the_rest_is_counted_not_hidden(self, profile: Profile, machine: Machine) -> None:
        text = render(profile, machine, top=1, width=WIDE)
        assert "and 3 more rows (99.0 µs, 26.5 % of the time; --top 0 shows all)." in text
        assert "more rows" not in render(profile, machine, top=0, width=WIDE)

    def test_the_width_of_the_terminal_is_the_default(
        self, profile: Profile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "70")
        assert max(map(len, render(profile, None).splitlines())) <= 70


class TestHonesty:
    def test_without_a_machine_there_are_times_only_and_it_says_so(self, profile: Profile) -> None:
        text = render(profile, None, width=WIDE)
        assert "No verdict" in text
        assert "Measured times only" in text
        assert "headroom  " not in text
        assert "None. Measure them once with: hroof ceilings" in text
        assert "275 µs" in text

    def test_uncounted_ops_are_named_with_their_share(
        self, profile: Profile, machine: Machine
    ) -> None:
        assert re.search(r"no FLOP rule: sort +5\.9 %", render(profile, machine, width=WIDE))

    def test_where_the_time_rests(self, profile: Profile, machine: Machine) -> None:
        assert re.search(r"rests on the root +6\.2 %", render(profile, machine, width=WIDE))

    def test_matrix_and_elementwise_flop_apart(self, profile: Profile, machine: Machine) -> None:
        rows = section(render(profile, machine, width=WIDE), "Totals of a step")
        assert re.search(r"matrix FLOP +15\.0 MFLOP", rows)
        assert re.search(r"elementwise FLOP +111 kFLOP", rows)
        assert re.search(r"integer operations +2\.00 MOP", rows)
        assert re.search(r"bytes at L1 +≥ 1\.7\d MB", rows)
        assert re.search(r"bytes at DRAM +~ 1\.03 MB", rows)

    def test_ceilings_with_how(self, profile: Profile, machine: Machine) -> None:
        rows = section(render(profile, machine, width=WIDE), "Ceilings")
        assert re.search(r"matrix fp32 +100 GFLOP/s +3\.0 % +5 +framework-reachable +mm 1024", rows)
        assert re.search(r"matrix int8 +500 GOP/s", rows)
        assert "vector and matrix work share one unit" in rows

    def test_notes_of_ceilings_stand_once_with_their_names(
        self, profile: Profile, build: SimpleNamespace
    ) -> None:
        noted = Ceiling(1e9, note="Reads are counted.")
        roofs = {MemoryLevel.L1: noted, MemoryLevel.L2: noted}
        text = render(profile, build.machine(bandwidths=roofs, launch_cost=noted), width=WIDE)
        assert "\nL1, L2, launch: Reads are counted.\n" in text

    def test_warnings_and_notes_stand_under_caveats(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", 5, **build.flop(matrix_fp32=1e6))]
        text = render(Profile.from_rows(rows), build.machine(), width=WIDE)
        caveats = section(text, "Caveats")
        assert "a: Above the compute roof: 2.00 times the peak." in caveats
        assert "A fused multiply-add is 2 FLOP" in caveats
        assert "! 0.500" in text

    def test_a_note_that_rows_share_stands_once(self, build: SimpleNamespace) -> None:
        rows = [build.row(n, "forward", "mm", 5, **build.flop(matrix_fp64=1e6)) for n in ("a", "b")]
        text = render(Profile.from_rows(rows), build.machine(), width=WIDE)
        assert text.count("No ceiling for matrix fp64") == 1
        assert "a, b: No ceiling for matrix fp64" in text

    def test_every_finding_stands_there(self, profile: Profile, machine: Machine) -> None:
        """The short report promises the rest of them with --full."""
        ranked = findings(profile, machine)
        assert len(ranked) > MAX_FINDINGS
        said = section(render(profile, machine, width=4000), "What to change first")
        for place, finding in enumerate(ranked, 1):
            assert f"{place}. [{finding.severity}] {finding.title}" in said

    def test_a_run_without_findings(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "exp", 13, bytes_l1=1.0)]
        rows = [row | {"source_flop": "missing"} for row in rows]
        text = render(
            Profile.from_rows(rows, {"ops_without_rule": []}), Machine("none"), width=WIDE
        )
        assert "found no count" in section(text, "What to change first")
        quiet = render(Profile.from_rows([]), Machine("none"), width=WIDE)
        assert section(quiet, "What to change first") == "Nothing was found."


class TestOddRuns:
    @pytest.mark.parametrize("width", [20, 80, WIDE])
    def test_nothing_captured(self, machine: Machine, width: int) -> None:
        for ceilings in (None, machine):
            text = render(Profile.from_rows([]), ceilings, width=width)
            assert "No verdict" in text
            assert "No launch" in text

    def test_everything_unknown(self, machine: Machine) -> None:
        text = render(Profile.from_rows([{"op": "mm"}, {"op": None}]), machine, width=WIDE)
        assert "nan" not in text.lower().split()
        assert "inf" not in text.lower().split()

    def test_no_grouping_key(self, profile: Profile, machine: Machine) -> None:
        assert "all" in section(
            render(profile, machine, by=(), width=WIDE), "By nothing, most time first"
        )

    def test_a_device_and_how_as_objects(self, build: SimpleNamespace) -> None:
        run = build.run() | {
            "device": {"name": "small cpu"},
            "how": {"work": "counted", "time": "clock"},
        }
        text = render(Profile.from_rows(build.rows(), run), build.machine(), width=WIDE)
        assert "device small cpu" in text
        assert "how: time clock, work counted" in text

    def test_the_name_of_the_chip_and_how_work_was_counted(self, build: SimpleNamespace) -> None:
        run = build.run() | {"device_name": "small cpu", "counting": "in a live step"}
        text = render(Profile.from_rows(build.rows(), run), build.machine(), width=WIDE)
        assert "device small cpu, cpu · 3 captured steps" in text
        assert "counted in a live step" in text

    def test_colour_changes_no_word(self, profile: Profile, machine: Machine) -> None:
        plain = render(profile, machine, width=WIDE)
        colored = render(profile, machine, width=WIDE, color=True)
        assert "\x1b[" in colored
        assert "\x1b[" not in plain
        stripped = re.sub(r"\x1b\[[0-9;]*m", "", colored)
        assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()


number = st.one_of(st.none(), st.just(0.0), st.floats(1e-12, 1e15))
row = st.fixed_dictionaries(
    {
        "layer": st.one_of(
            st.none(), st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]))
        ),
        "duration": number,
        "flop_nominal_matrix_fp32": number,
        "flop_least_matrix_fp32": number,
        "flop_least_vector_fp64": number,
        "flop_nominal_matrix_int8": number,
        "bytes_l1": number,
        "bytes_l2": number,
        "step": st.integers(-1, 2),
    }
)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(row, max_size=6), width=st.integers(20, 220), ceilings=st.booleans())
def test_any_table_gives_a_report(
    build: SimpleNamespace, rows: list[dict[str, object]], width: int, ceilings: bool
) -> None:
    profile = Profile.from_rows(rows, {"name": "any"})
    text = render(profile, build.machine() if ceilings else None, width=width)
    assert text.endswith("\n")
    assert "Verdict" in text


class TestCells:
    def test_marks_say_where_bytes_come_from(self, profile: Profile, machine: Machine) -> None:
        fc1 = point(profile, machine, layer="fc1")
        assert bytes_cell(fc1, MemoryLevel.L1) == "≥ 1.30 MB"
        assert bytes_cell(fc1, MemoryLevel.DRAM) == "~ 800 kB"
        assert bytes_cell(fc1, MemoryLevel.L2) == "–"
        assert rate_cell(fc1, MemoryLevel.DRAM) == "~ 2.91 GB/s"
        assert rate_cell(fc1, MemoryLevel.L2) == "–"

    def test_bytes_that_nobody_counted_are_no_rate(self, build: SimpleNamespace) -> None:
        row = build.row("a", "forward", "mm", 1, bytes_l1=0.0)
        counted = points(Profile.from_rows([row]))[0]
        assert rate_cell(counted, MemoryLevel.L1) == "–"
        known = points(Profile.from_rows([row | {"source_l1": "counter"}]))[0]
        assert rate_cell(known, MemoryLevel.L1) == "0 B/s"

    def test_a_few_integer_operations_are_no_row(self, build: SimpleNamespace) -> None:
        def shown(op: float) -> int:
            work = build.flop(matrix_fp32=1e6, vector_int32=op)
            found = points(Profile.from_rows([build.row("a", "forward", "mm", 1, **work)]))
            return len(without_flop(found, ("layer",), 1.0).rows)

        assert (shown(900.0), shown(1e5)) == (0, 1)

    def test_counters_need_no_mark_unless_some_rows_lack_them(self, build: SimpleNamespace) -> None:
        counted = build.row("a", "forward", "mm", 1, bytes_l2=1e3, source_l2="counter")
        whole = points(Profile.from_rows([counted]))[0]
        part = points(Profile.from_rows([counted, build.row("a", "forward", "mm", 1)]))[0]
        assert bytes_cell(whole, MemoryLevel.L2) == "1.00 kB"
        assert bytes_cell(part, MemoryLevel.L2) == "≥ 1.00 kB"

    def test_bytes_at_least_make_an_intensity_at_most(
        self, profile: Profile, machine: Machine
    ) -> None:
        fc1 = point(profile, machine, layer="fc1")
        assert intensity_cell(fc1, MemoryLevel.L1) == "≤ 9.29"
        assert intensity_cell(fc1, MemoryLevel.DRAM) == "~ 15.1"
        assert intensity_cell(fc1, MemoryLevel.L3) == "–"

    def test_flop(self, profile: Profile, machine: Machine) -> None:
        assert flop_cell(point(profile, machine, layer="fc1")) == "≥ 12.1 MFLOP"
        assert flop_cell(point(profile, machine, op="sort")) == "–"
        assert flop_cell(point(profile, machine, op="copy")) == "0 FLOP"
        assert flop_cell(point(profile, machine, op="int_mm")) == "0 FLOP + 2.00 MOP"

    def test_bounds(self, profile: Profile, machine: Machine) -> None:
        assert bound_cell(point(profile, machine, layer="fc1")) == "matrix fp32 90 %"
        assert bound_cell(point(profile, machine, op="sort")) == "–"
        assert headroom_cell(point(profile, machine, layer="fc1")) == "1.89"
        assert headroom_cell(point(profile, machine, op="sort")) == "–"

    def test_sources(self, profile: Profile, machine: Machine) -> None:
        levels = [MemoryLevel.L1, MemoryLevel.DRAM]
        assert source_cell(point(profile, machine, layer="fc1"), levels) == "M/C/C/P"
        assert source_cell(point(profile, machine, layer="Net"), levels) == "M/V/C/–"
        text = legend(points(profile, machine))
        assert text.startswith("Sources of time/FLOP/L1/DRAM: K counter")

    def test_a_share_of_nothing_is_a_dash(self) -> None:
        assert share_cell(1.0, 0.0) == "–"
        assert share_cell(1.0, 4.0) == "25.0 %"

    def test_every_row_has_a_cell_per_header(self, profile: Profile, machine: Machine) -> None:
        for by in (("layer",), (), ("layer", "phase")):
            for ceilings in (machine, None):
                found = points(profile, ceilings, by)
                for grid in (ranking(found, by, 1.0, ceilings), without_flop(found, by, 1.0)):
                    assert grid.rows
                    assert {len(cells) for cells in grid.rows} == {len(grid.headers)}

    def test_shares_of_the_rows_add_up(self, build: SimpleNamespace) -> None:
        rows = [
            build.row(layer, "forward", "mm", t, step=step)
            for layer, times in (("a", (1, 5, 9)), ("b", (9, 1, 5)))
            for step, t in enumerate(times)
        ]
        found = points(Profile.from_rows(rows))
        assert time_of(found) == pytest.approx(10e-6)
        grid = ranking(found, ("layer",), time_of(found), None)
        assert [row[3] for row in grid.rows] == ["50.0 %", "50.0 %"]

    def test_work_without_flop_shows_its_rates(self, profile: Profile, machine: Machine) -> None:
        grid = without_flop(points(profile, machine, ("op",)), ("op",), 374e-6)
        rows = {cells[0]: dict(zip(grid.headers, cells, strict=True)) for cells in grid.rows}
        assert set(rows) == {"copy", "int_mm", "to"}
        assert rows["copy"]["B/s DRAM"] == "~ 9.09 GB/s"
        assert rows["int_mm"]["OP/s"] == "227 GOP/s"
        assert rows["to"]["launches/s"] == "152 k"

    def test_no_time_no_rates(self) -> None:
        empty = Profile.from_rows(
            [{"kernel": "empty", "duration": 0.0, "flop_least_vector_fp32": 0.0}]
        )
        grid = without_flop(points(empty, None, ("kernel",)), ("kernel",), 0.0)
        assert grid.rows == [["empty", "1", "–", "–", "1", "0 s", "–", "–"]]

    def test_of_a_layer_that_computes_only_the_rest_counts(self, build: SimpleNamespace) -> None:
        """Longest first: a layer whose copies take 3 µs of its 9, one whose copy takes 4 of 5."""
        parts = [("a", 6, 10.0), ("a", 3, 0.0), ("b", 1, 10.0), ("b", 4, 0.0)]
        rows = [
            build.row(layer, "forward", "op", time, flop_nominal_vector_fp32=flop)
            for layer, time, flop in parts
        ]
        grid = without_flop(points(Profile.from_rows(rows)), ("layer",), 20e-6)
        assert [cells[:6] for cells in grid.rows] == [
            ["b", "1", "4.00 µs", "20.0 %", "2", "5.00 µs"],
            ["a", "1", "3.00 µs", "15.0 %", "2", "9.00 µs"],
        ]


class TestGrid:
    def shown(self, grid: Grid, width: int) -> str:
        from rich.console import Console

        stream = io.StringIO()
        show(Console(file=stream, width=width), grid)
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())

    def test_a_table_where_it_fits(self) -> None:
        text = self.shown(Grid(["name", "time"], [["a", "1 s"], ["b", "20 s"]]), 40)
        assert text.splitlines() == ["name  time", "──────────", "a      1 s", "b     20 s"]

    def test_paragraphs_where_it_does_not(self) -> None:
        grid = Grid(["name", "time", "bound", "rate"], [["a", "1 s", "DRAM", "5 GB/s"]])
        assert self.shown(grid, 22).splitlines() == [
            "(narrow terminal: 22",
            "columns; as a table",
            "this needs 25)",
            "a",
            "  time 1 s",
            "  bound DRAM",
            "  rate 5 GB/s",
        ]

    def test_facts_share_a_line_while_they_fit(self) -> None:
        grid = Grid(["name", "a", "b", "c"], [["x" * 40, "1", "2", "3"]])
        assert self.shown(grid, 30).splitlines()[-1] == "  a 1 · b 2 · c 3"

    def test_several_names(self) -> None:
        grid = Grid(["layer", "phase", "time"], [["a" * 20, "b", "1 s"]], names=2)
        assert f"{'a' * 20} · b" in self.shown(grid, 25)


class TestSay:
    def test_to_standard_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        say("µ\n")
        assert capsys.readouterr() == ("", "µ\n")

    def test_poor_encodings_and_closed_streams_cost_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
        say("a µ")
        assert raw.getvalue() == b"a ?\n"
        sys.stderr.close()
        say("lost")
        monkeypatch.setattr(sys, "stderr", None)
        say("lost")


def test_a_whole_report_has_no_nan(profile: Profile, machine: Machine) -> None:
    for by in (("layer",), ("op",), ("step",), ("kernel",)):
        words = render(profile, machine, by=by, width=WIDE).lower().split()
        assert "nan" not in words
        assert "inf" not in words
    assert math.isnan(points(profile, machine, ("op",))[-1].time_spread) is False
