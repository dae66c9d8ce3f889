"""The text of a comparison: what it says first, what it names in any case, and hostile names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from hroof.compare import Change, Comparison, Difference, compare
from hroof.compare.noise import RULE
from hroof.findings import warnings
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.compared import cells
from hroof.report.compared.text import CONVENTIONS, cards, caveats, render


def words(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


class TestHead:
    def test_the_verdict_comes_first(self, compared: Comparison) -> None:
        text = render(compared, width=120)
        lines = text.splitlines()
        assert "Verdict: small (BASE) → changed (NEW)" in lines[0]
        assert "NEW takes 1." in lines[1]
        assert "Why:" in text
        assert "Next:" in text

    def test_both_runs_have_their_card(self, compared: Comparison) -> None:
        text = words(render(compared, width=160))
        assert f"BASE {cards(compared)[0]}" in text
        assert f"NEW {cards(compared)[1]}" in text
        assert cards(compared)[0] == (
            "small · none · (cpu) · 3 captured steps · launches 374 µs, wall 440 µs · 15.1 MFLOP"
        )

    def test_what_differs_is_said_before_the_tables(self, profile: Profile, build: Any) -> None:
        text = render(compare(profile, build.other(device_name="another cpu")), width=120)
        assert text.index("The machines differ") < text.index("By phase")

    def test_nothing_is_said_where_nothing_differs(
        self, profile: Profile, machine: Machine, build: Any
    ) -> None:
        found = compare(profile, build.other(), base_machine=machine, new_machine=machine)
        assert "What differs beside the times" not in render(found, width=120)


class TestTables:
    def test_the_step_stands_above_its_phases(self, compared: Comparison) -> None:
        lines = render(compared, width=160).splitlines()
        start = lines.index("By phase, largest change first")
        assert lines[start + 3].startswith("whole step")
        assert lines[start + 4].startswith("backward")

    def test_the_largest_change_comes_first(self, compared: Comparison) -> None:
        lines = render(compared, width=160).splitlines()
        start = lines.index("By layer, largest change first")
        assert lines[start + 3].split()[0] == "fc1"
        assert "slower" in lines[start + 3]

    def test_what_is_cut_is_counted_and_timed(self, compared: Comparison) -> None:
        text = words(render(compared, top=1, width=160))
        assert "and 3 more (1 faster, 2 within noise), Δ -9.90 µs; --top 0 shows all." in text
        assert "more (" not in render(compared, top=0, width=160)

    def test_new_and_gone_ones_are_named_even_where_the_table_is_cut(
        self, compared: Comparison
    ) -> None:
        text = words(render(compared, top=1, width=160))
        assert "Only in BASE: loss." in text
        assert "Only in BASE: nll." in text

    def test_the_sums_are_told(self, compared: Comparison) -> None:
        text = words(render(compared, width=160))
        assert (
            "All: 1 faster -9.90 µs, 1 slower +275 µs, 2 within noise 0 s; together +265 µs."
            in text
        )

    def test_everything_on_request(self, compared: Comparison) -> None:
        text = render(compared, full=True, width=200)
        assert "Δ launches Δ FLOP Δ L1 Δ DRAM headroom Δ headroom matched by" in words(text)
        assert "Caveats" in text
        assert "Caveats" not in render(compared, width=200)

    def test_a_narrow_terminal_gets_paragraphs(self, compared: Comparison) -> None:
        text = render(compared, width=40)
        assert "(narrow terminal: 40 columns; as a table" in text.replace("\n", " ")
        assert max(map(len, text.splitlines())) <= 40

    @pytest.mark.parametrize(
        ("width", "left_out"),
        [(110, ""), (80, "work"), (70, "work, × as fast"), (60, "work, × as fast, headroom")],
    )
    def test_a_terminal_that_is_a_little_too_narrow_gets_fewer_columns(
        self, profile: Profile, machine: Machine, build: Any, width: int, left_out: str
    ) -> None:
        new = build.other({"fc1": 2.0})
        text = render(compare(profile, new, base_machine=machine, new_machine=machine), width=width)
        assert max(map(len, text.splitlines())) <= width
        said = f"(narrow terminal: without {left_out})"
        assert (said in text) == bool(left_out)
        assert "as a table this needs" not in text

    def test_without_ceilings_there_is_no_headroom(self, profile: Profile, build: Any) -> None:
        text = render(compare(profile, build.other()), width=160)
        assert "headroom" not in text[text.index("By phase") : text.index("How to read it")]

    def test_the_rule_and_the_conventions_are_told(self, compared: Comparison) -> None:
        text = words(render(compared, width=140))
        assert words(RULE) in text
        assert words(CONVENTIONS) in text

    def test_colours_only_on_request(self, compared: Comparison) -> None:
        assert "\x1b[" not in render(compared, width=120)
        assert "\x1b[" in render(compared, width=120, color=True)


class TestCells:
    def test_a_row_that_is_gone_has_dashes(self, compared: Comparison) -> None:
        (gone,) = [row for row in compared.phases if row.change is Change.GONE]
        assert cells.times(gone) == ["9.90 µs", "–", "-9.90 µs"]
        assert cells.headrooms(gone).endswith("→ –")

    def test_signed_numbers(self) -> None:
        assert [cells.signed_number(x) for x in (1.5, -1.5, 0.0, math.nan)] == [
            "+1.50", "-1.50", "0", "–",
        ]  # fmt: skip

    def test_a_row_that_was_not_matched_by_name_says_how(
        self, profile: Profile, build: Any
    ) -> None:
        found = compare(profile, build.other(names={"fc1": "first"}))
        assert "fc1 → first (by shape)" in cells.named(found.layers)
        assert "fc2" in cells.named(found.layers)

    def test_kernels_have_short_names_where_these_tell_them_apart(self) -> None:
        name = (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
        )
        run = Profile.from_rows([{"kernel": name, "step": 0, "duration": 1e-6}])
        assert cells.named(compare(run, run).kernels) == [
            "vectorized_elementwise_kernel (FillFunctor)"
        ]

    def test_sums_name_what_is_not_known(self, profile: Profile, build: Any) -> None:
        rows = [r | ({"duration": math.nan} if r["layer"] == "fc2" else {}) for r in build.rows()]
        found = compare(profile, Profile.from_rows(rows, build.run()))
        assert "not known -69.3 µs; together -69.3 µs." in cells.sums(found, found.layers)
        assert cells.sums(found, ()) == "not known -69.3 µs; together -69.3 µs."

    def test_without_any_time_there_is_no_sum(self, build: Any) -> None:
        rows = [row | {"duration": math.nan} for row in build.rows()]
        run = Profile.from_rows(rows, build.run())
        found = compare(run, run)
        assert cells.sums(found, found.layers) == ""
        assert "No verdict on time" in render(found, width=120)


def test_caveats_are_told_once_for_both(profile: Profile, build: Any) -> None:
    found = compare(profile, build.other(warnings=["odd"]))
    texts = caveats(*(warnings(side.profile, side.machine) for side in (found.base, found.new)))
    assert [text for text in texts if "odd" in text] == ["NEW: odd"]
    assert sum(text.startswith("Both: There are no ceilings") for text in texts) == 1
    assert len(texts) == len(set(texts))
    assert caveats([], []) == ["None."]


@pytest.mark.parametrize("full", [False, True])
def test_hostile_names_are_harmless(
    hostile: Callable[[str], Comparison], name: str, full: bool
) -> None:
    text = render(hostile(name), width=100, full=full, top=0)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert max(map(len, text.splitlines())) <= 100


def test_rows_are_those_of_the_tables(compared: Comparison) -> None:
    names = {row.name for rows in compared.tables().values() for row in rows}
    text = render(compared, top=0, width=200)
    assert all(name in text for name in names)


def test_levels_are_those_of_any_row(compared: Comparison) -> None:
    rows: list[Difference] = list(compared.layers)
    assert [level.label for level in cells.levels_of(rows)] == ["L1", "DRAM"]
    assert cells.levels_of([]) == []
