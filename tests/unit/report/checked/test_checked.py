"""A checked run as text, Markdown and JSON: every limit, harmless names, the schema."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from hroof.budgets import Budget, Check, Verdict, check, losses
from hroof.errors import OutputError
from hroof.profile import Profile
from hroof.report.checked import cells, choice, export, markdown, text

BUDGET = {
    "step": {
        "time": {"max": "350 us"},
        "headroom": {"max": 4, "tolerance": "10 %"},
        "launches": {"max": 5},
        "flop": {"equals": "15 MFLOP"},
        "peak_memory": {"max": "4 GB"},
        "share_with_flop": {"min": "99 %", "tolerance": "5 %"},
    },
    "layer": {"fc*": {"backward": {"time": {"max": "1 ms"}}, "together": True}},
    "op": {"conv": {"launches": {"max": 1}}},
}
HOSTILE = (
    "<script>alert(1)</script>", "a|b", "`x`", "\x1b[2J\x1b[31m", "\u202eevil", "x" * 10_000,
    "line\nbreak", "[red]rich[/red]", "=1+1", "@me", "",
)  # fmt: skip


@pytest.fixture
def checked(profile: Profile, build: Any) -> Check:
    """Some limits of every outcome."""
    return check(profile, Budget.read(BUDGET, name="budget.toml"), machine=build.machine())


@pytest.fixture
def regressed(profile: Profile, build: Any) -> Check:
    """A slower run against a baseline."""
    return check(build.other({"fc1": 3.0}, name="slow"), losses(0.05), baseline=profile)


@pytest.fixture
def hostile(build: Any) -> Check:
    """Layers whose names are meant to do harm, and a run that has such a name."""
    rows = [
        row | {"layer": name, "launch_id": 100 * number + row["launch_id"]}
        for number, name in enumerate(HOSTILE)
        for row in build.rows((1.0,))
        if row["layer"] == "fc1"
    ]
    profile = Profile.from_rows(rows, build.run() | {"name": "<b>\x1b[2J|run", "layers": []})
    limits = {"layer": {"*": {"launches": {"max": 1}}, "\x1b[2J|gone`<i>": {"time": {"max": 1}}}}
    return check(profile, Budget.read(limits, name="b|\x1b.toml"), machine=build.machine())


class TestCells:
    def test_limits(self, checked: Check) -> None:
        found = {row.limit.quantity.name: cells.limit_cell(row) for row in checked.rows[:6]}
        assert found == {
            "time": "≤ 350.0 µs",
            "headroom": "≤ 4 + 10 %",
            "launches": "≤ 5",
            "flop": "= 15,000,000 FLOP",
            "peak_memory": "≤ 4.000 GB",
            "share_with_flop": "≥ 99.00 % − 5 %",
        }

    def test_limits_of_a_baseline(self, regressed: Check) -> None:
        found = {row.limit.quantity.name: cells.limit_cell(row) for row in regressed.rows}
        assert found["time"] == "≤ 374.0 µs + 5 %"
        assert found["share_unattributed"] == "≤ 1.76 % + 5 points"
        assert found["share_with_flop"] == "≥ 94.01 % − 5 points"

    def test_values_noise_and_verdicts(self, checked: Check) -> None:
        found = {row.limit.quantity.name: cells.facts_of(row)[1:] for row in checked.rows[:6]}
        assert found == {
            "time": ["374.0 µs", "± 68 µs", "measured", "within noise"],
            "headroom": ["2.011", "± 0.37", "measured, ceilings", "ok"],
            "launches": ["11", "–", "captured", "over by 120 %"],
            "flop": ["≥ 15,111,000 FLOP", "–", "convention", "over by 0.74 %"],
            "peak_memory": ["–", "–", "–", "unknown"],
            "share_with_flop": ["94.01 %", "–", "measured", "over by 0.038 points"],
        }

    def test_a_limit_of_nothing_is_missed_by_no_share(self, profile: Profile) -> None:
        found = check(profile, Budget.read({"step": {"launches": {"max": 0}}}))
        assert cells.verdict_cell(found.rows[0]) == "over"

    def test_kernels_have_short_names_and_long_names_no_middle(self, build: Any) -> None:
        kernel = (
            "void at::native::elementwise_kernel<4, at::native::FillFunctor<float>>(int, float)"
        )
        rows = [row | {"kernel": kernel, "layer": "x" * 10_000} for row in build.rows()]
        limits = {key: {"*": {"launches": {"max": 1}}} for key in ("kernel", "layer")}
        found = check(Profile.from_rows(rows, build.run()), Budget.read(limits))
        names = [cells.names_of(row)[0] for row in found.rows]
        assert names[0] == "kernel elementwise_kernel"
        assert len(names[1]) < 70
        assert export.to_json(found)["rows"][0]["name"] == kernel

    def test_a_run_without_steps_scatters_nowhere(self, build: Any) -> None:
        rows = [row | {"step": -1} for row in build.rows((1.0,))]
        found = check(
            Profile.from_rows(rows, build.run()), Budget.read({"step": {"time": {"max": 1}}})
        )
        assert cells.noise_rule(found).startswith("Values are sums over the whole run")
        assert cells.noise_cell(found.rows[0]) == "–"

    def test_the_rule_of_noise(self, checked: Check, regressed: Check) -> None:
        assert "median of 3 captured steps. " in cells.noise_rule(checked)
        assert "(of the baseline: 3)" in cells.noise_rule(regressed)
        strict = Check(checked.facts, checked.budget, checked.rows, strict=True)
        assert "is over budget all the same" in cells.noise_rule(strict)


class TestText:
    def test_every_limit_has_a_line_and_failures_come_first(self, checked: Check) -> None:
        said = text.render(checked, width=160)
        lines = [line for line in said.splitlines() if line.startswith(("step ", "layer", "op"))]
        assert len(lines) == len(checked.rows) == 8
        verdicts = [row.verdict for row in choice.chosen(checked)]
        assert verdicts == sorted(verdicts, key=choice.ORDER.index)
        assert "layer fc* (2 together) in backward  time" in said

    def test_notes_stand_once_with_what_they_are_about(self, checked: Check) -> None:
        notes = choice.notes(choice.chosen(checked))
        assert "op conv: launches: the run has no op of this name." in notes
        assert len(notes) == len(set(notes))

    def test_of_many_limits_some_are_shown_and_the_others_counted(self, checked: Check) -> None:
        said = text.render(checked, top=1, width=160)
        assert "and 2 more over budget, 1 more unknown, 1 more ok (--top 0 shows all)." in said
        assert len(choice.chosen(checked, 1)) == 4
        assert choice.chosen(checked, 0) == choice.chosen(checked)
        assert choice.left_out(checked, choice.chosen(checked)) == ""
        assert re.search(r"step +peak_memory", said)
        assert "op conv" not in said.split("Limits:")[1]

    def test_a_narrow_terminal_loses_nothing(self, checked: Check) -> None:
        narrow = text.render(checked, width=40)
        assert max(map(len, narrow.splitlines())) <= 40
        for row in checked.rows:
            assert cells.limit_cell(row) in " ".join(narrow.split())

    def test_without_the_frame(self, checked: Check) -> None:
        framed, bare = (
            text.render(checked, width=160),
            text.render(checked, width=160, framed=False),
        )
        assert framed.endswith(bare)
        assert "Why:" not in bare

    def test_names_do_no_harm(self, hostile: Check) -> None:
        said = text.render(hostile, width=120)
        assert all(line.isprintable() for line in said.splitlines())
        assert r"\x1b[2J" in said
        assert "[red]rich[/red]" in said


class TestMarkdown:
    def test_every_limit_has_a_row(self, checked: Check) -> None:
        said = markdown.render(checked)
        rows = [line for line in said.splitlines() if line.startswith(("| ✅", "| ❌", "| ❔"))]
        assert len(rows) == len(checked.rows)
        assert said.startswith("## ❌ hroof check: small\n")
        assert "| ❌ | `step` | `launches` | ≤ 5 | 11 |" in said
        assert "What to change first" in said

    def test_many_that_are_kept_are_folded_away(self, profile: Profile, build: Any) -> None:
        few = {"launches": {"max": 100}, "flop": {"max": 1e12}}
        limits: dict[str, Any] = {"layer": {"*": few}, "phase": {"*": few}}
        kept = check(profile, Budget.read(limits))
        assert "Limits that are kept" not in markdown.render(kept)
        failing = check(profile, Budget.read(limits | {"step": {"launches": {"max": 1}}}))
        said = markdown.render(failing)
        assert "Limits that are kept</summary>" in said
        assert said.index("| `launches` |") < said.index("<details>")

    def test_names_do_no_harm(self, hostile: Check) -> None:
        said = markdown.render(hostile)
        assert all(line.isprintable() for line in said.replace("\u200b", "").splitlines())
        table = [line for line in said.splitlines() if line.startswith("|")]
        assert {line.count("|") for line in table} == {9}
        outside = re.sub(r"`[^`|]*`", "", said)  # within a span of code nothing is markup
        for harm in ("<script", "<b>", "<i>", "@me", "\x1b", "`"):
            assert harm not in outside


class TestJson:
    @pytest.mark.parametrize("which", ["checked", "regressed", "hostile"])
    def test_it_has_the_form_that_the_schema_says(
        self, request: pytest.FixtureRequest, which: str
    ) -> None:
        found = request.getfixturevalue(which)
        said = json.loads(json.dumps(export.to_json(found), allow_nan=False))
        jsonschema.validate(said, export.JSON_SCHEMA)
        assert len(said["rows"]) == len(found.rows) == sum(said["counts"].values())

    def test_numbers_are_in_base_units_and_missing_is_null(self, checked: Check) -> None:
        rows = {row["quantity"]: row for row in export.to_json(checked)["rows"][:6]}
        assert rows["time"]["limit"] == {
            "kind": "max", "value": pytest.approx(350e-6), "tolerance": 0.0, "bound": pytest.approx(350e-6),
        }  # fmt: skip
        assert rows["time"]["value"] == pytest.approx(374e-6)
        assert rows["time"]["steps"] == pytest.approx([340e-6, 374e-6, 408e-6])
        assert rows["peak_memory"]["value"] is None
        assert rows["peak_memory"]["verdict"] == "unknown"
        assert rows["flop"]["lower_bound"] is True

    def test_what_a_row_is_about(self, checked: Check) -> None:
        together, absent = export.to_json(checked)["rows"][6:]
        assert (together["name"], together["together"], together["phase"]) == ("fc*", 2, "backward")
        assert (absent["name"], absent["pattern"], absent["key"]) == (None, "conv", "op")

    def test_the_baseline(self, regressed: Check) -> None:
        said = export.to_json(regressed)
        assert (said["run"], said["baseline"], said["budget"]) == (
            "slow",
            "small",
            "baseline ± 5 %",
        )
        assert said["rows"][0]["baseline"] == pytest.approx(374e-6)
        assert said["verdict"]["verdict"] == "over budget"

    def test_every_verdict_is_counted(self, checked: Check) -> None:
        counts = export.to_json(checked)["counts"]
        assert set(counts) == set(map(str, Verdict))
        assert not any(math.isnan(count) for count in counts.values())


class TestFiles:
    def test_a_file(self, checked: Check, tmp_path: Path) -> None:
        path = export.write_markdown(checked, tmp_path / "sub" / "check.md")
        assert path.read_text(encoding="utf-8") == markdown.render(checked)
        with pytest.raises(OutputError, match="exists already"):
            export.write_markdown(checked, path)
        path.write_text("mine")
        export.write_markdown(checked, path, force=True)
        assert path.read_text(encoding="utf-8") == markdown.render(checked)

    def test_the_page_of_a_job_is_added_to(
        self, checked: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        page = tmp_path / "summary"
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
        found = export.job_summary()
        assert found == page
        page.write_text("before\n")
        export.append(checked, page)
        export.append(checked, page)
        once = f"{markdown.render(checked)}\n"
        assert page.read_text(encoding="utf-8") == f"before\n{once}{once}"

    @pytest.mark.parametrize("value", [None, ""])
    def test_no_job(self, monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        if value is not None:
            monkeypatch.setenv("GITHUB_STEP_SUMMARY", value)
        assert export.job_summary() is None

    def test_a_page_that_cannot_be_written(self, checked: Check, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match="GITHUB_STEP_SUMMARY"):
            export.append(checked, tmp_path)
