"""The summary in Markdown: what a reader of a job's page needs, and no name that does harm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hroof.errors import UsageError
from hroof.findings import Finding, findings, verdict, warnings
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report import export, gfm
from hroof.report.markdown import caveats, first_findings, render
from hroof.roofline import points

HOSTILE = (
    "<script>alert(1)</script>", "a|b", "`x`", "\x1b[2J\x1b[31m", "\u202eevil", "x" * 10_000,
    "line\nbreak", "[l](javascript:x)", "=1+1", "@me", "",
)  # fmt: skip


def table_of(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("|")]


def finding(saves: float, title: str = "t") -> Finding:
    return Finding("launch", title, (), saves, 0.5, "Do it.", "nothing", "high")


def test_it_says_what_the_report_says(profile: Profile, machine: Machine) -> None:
    said = render(profile, machine)
    whole = verdict(profile, machine)
    for text in (whole.text, whole.why, whole.next):
        assert gfm.plain(text) in said
    first = findings(profile, machine)[0]
    assert gfm.plain(first.action) in said
    assert said.startswith("## hroof: small\n")
    assert "Ops without a rule: `sort`." in said


def test_rows_with_most_time_come_first(profile: Profile, machine: Machine) -> None:
    lines = table_of(render(profile, machine))
    names = [point.key["layer"] for point in points(profile, machine)]
    assert [line.split("`")[1] for line in lines[2:]] == names
    assert "| 275 µs | 73.5 % |" in lines[2]
    assert "matrix fp32 90 %" in lines[2]


def test_only_some_rows(profile: Profile, machine: Machine) -> None:
    said = render(profile, machine, top=1)
    assert len(table_of(said)) == 3
    assert "and 3 more rows (99.0 µs, 26.5 %)." in said
    assert len(table_of(render(profile, machine, top=0))) == 6


@pytest.mark.parametrize("by", [("phase",), ("layer", "phase"), ("op",), ()])
def test_other_groups(profile: Profile, machine: Machine, by: tuple[str, ...]) -> None:
    said = render(profile, machine, by=by, top=0)
    assert len(table_of(said)) == 2 + len(points(profile, machine, by))


def test_wrong_keys_are_refused(profile: Profile) -> None:
    with pytest.raises(UsageError, match="colour"):
        render(profile, None, by=("colour",))


def test_without_ceilings_there_are_times_only(profile: Profile) -> None:
    said = render(profile, None)
    assert said.splitlines()[2].startswith("**⚠ No verdict")
    assert "headroom" not in table_of(said)[0]
    assert "What to change first" not in said
    assert "There are no ceilings" in said


def test_a_run_without_launches(build: Any, machine: Machine) -> None:
    said = render(Profile.from_rows([], build.run()), machine)
    assert "No launch was captured." in said
    assert table_of(said) == []


def test_caveats_are_those_of_the_report(build: Any, machine: Machine) -> None:
    partial = build.other(status="partial", status_reason="it *stopped*")
    said = render(partial, machine)
    assert all(gfm.plain(text) in said for text in warnings(partial, machine))
    assert "it &#42;stopped&#42;" in said
    assert caveats([]) == ""
    assert "1 caveat<" in caveats(["one"])
    assert "2 caveats<" in caveats(["one", "two"])


def test_findings() -> None:
    assert first_findings([]) == ""
    said = first_findings([finding(2e-3, "<b>"), finding(0.0), finding(0.0)], 2)
    assert "1. **2.00 ms**: Do it. &#60;b&#62;\n2. Do it. t\n" in said
    assert "and 1 more." in said


def test_names_do_no_harm(build: Any, machine: Machine) -> None:
    rows = [
        row | {"layer": name, "op": name, "launch_id": 100 * number + row["launch_id"]}
        for number, name in enumerate(HOSTILE)
        for row in build.rows((1.0,))
        if row["layer"] == "fc1"
    ]
    run = build.run() | {"name": "<b>|\x1b[2J", "device_name": "<i>|", "layers": []}
    said = render(Profile.from_rows(rows, run), machine, by=("layer", "op"), top=0)
    assert all(line.isprintable() for line in said.replace("\u200b", "").splitlines())
    assert {line.count("|") for line in table_of(said)} == {9}
    outside = re.sub(r"`[^`|\n]*`", "", said)
    for harm in ("<script", "<b>", "<i>", "@me", "](", "`"):
        assert harm not in outside
    assert len(said) < 30_000


def test_as_a_file(profile: Profile, machine: Machine, tmp_path: Path) -> None:
    path = export.write(profile, machine, tmp_path / "summary.md", ("phase",))
    assert path.read_text(encoding="utf-8") == render(profile, machine, by=("phase",))
