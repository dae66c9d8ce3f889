"""Exports: one stable JSON object, flat tables with units, files that appear whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hroof.errors import OutputError, UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.charts.choice import Choice
from hroof.report.export import JSON_SCHEMA, to_frame, to_json, write

DESIGN_KEYS = {"schema", "run", "machine", "coverage", "totals", "rows", "findings"}
DESIGN_ROW = {
    "launches", "time", "flop", "flop_by", "bytes", "intensity", "flop_rate", "bound",
    "attainable_time", "headroom", "zero_flop_launches", "sources",
}  # fmt: skip


def check(report: dict[str, Any]) -> None:
    jsonschema.validate(report, JSON_SCHEMA, cls=jsonschema.Draft202012Validator)
    text = json.dumps(report, allow_nan=False)
    assert json.loads(text) == report


class TestJson:
    def test_the_schema_is_a_schema(self) -> None:
        jsonschema.Draft202012Validator.check_schema(JSON_SCHEMA)

    @pytest.mark.parametrize(
        "by", [("layer",), (), ("op", "phase"), ("block", "recompute"), ("step",)]
    )
    def test_every_report_fits_the_schema(
        self, profile: Profile, machine: Machine, by: tuple[str, ...]
    ) -> None:
        for ceilings in (machine, None):
            report = to_json(profile, ceilings, by)
            check(report)
            assert report["by"] == list(by)
            assert all(set(by) <= set(row) for row in report["rows"])

    def test_nothing_captured_fits_too(self, machine: Machine) -> None:
        check(to_json(Profile.from_rows([]), machine))
        check(to_json(Profile.from_rows([]), None))

    def test_the_schema_refuses_what_is_not_in_it(self, profile: Profile) -> None:
        report = to_json(profile)
        for wrong in (report | {"more": 1}, {k: v for k, v in report.items() if k != "rows"}):
            with pytest.raises(jsonschema.ValidationError):
                check(wrong)

    def test_the_promised_keys(self, profile: Profile, machine: Machine) -> None:
        report = to_json(profile, machine)
        assert set(report) >= DESIGN_KEYS
        assert set(report["rows"][0]) >= DESIGN_ROW | {"layer"}
        assert set(report["coverage"]) >= {"time_attributed", "time_with_flop", "ops_without_rule"}
        assert set(report["rows"][0]["sources"]) == {"time", "flop", "l1", "l2", "l3", "dram"}

    def test_values_of_a_row(self, profile: Profile, machine: Machine) -> None:
        row = to_json(profile, machine)["rows"][0]
        assert row["layer"] == "fc1"
        assert row["time"] == pytest.approx(275e-6)
        assert row["flop"] == pytest.approx(12.075e6)
        assert row["flop_by"] == pytest.approx({"matrix_fp32": 12e6, "vector_fp32": 7.5e4})
        assert row["bytes"] == pytest.approx({"l1": 1.3e6, "dram": 8e5})
        assert row["intensity"]["dram"] == pytest.approx(12.075 / 0.8)
        assert row["bound"] == "matrix fp32"
        assert row["zero_flop_launches"] == 1
        assert row["sources"]["dram"] == "predicted"
        assert row["sources"]["l2"] == "missing"

    def test_missing_is_null(self, profile: Profile, machine: Machine) -> None:
        rows = {row["op"]: row for row in to_json(profile, machine, ("op",))["rows"]}
        for name in (
            "flop",
            "flop_rate",
            "bound",
            "attainable_time",
            "headroom",
            "recoverable_time",
        ):
            assert rows["sort"][name] is None
        assert rows["sort"]["flop_by"] == {}
        assert rows["copy"]["flop"] == 0

    def test_run_and_machine_are_as_saved(self, profile: Profile, machine: Machine) -> None:
        report = to_json(profile, machine)
        assert report["run"] == profile.run
        assert Machine.from_json(report["machine"]) == machine
        assert to_json(profile, None)["machine"] is None

    def test_flags_reach_the_reader(self, build: SimpleNamespace) -> None:
        rows = [build.row("a", "forward", "mm", 5, **build.flop(matrix_fp32=1e6))]
        report = to_json(Profile.from_rows(rows), build.machine())
        assert report["rows"][0]["notes"][0].startswith("Above the compute roof")
        assert report["verdict"]["supported"] is False

    def test_an_integer_op_is_no_flop(self, profile: Profile, machine: Machine) -> None:
        report = to_json(profile, machine, ("op",))
        row = next(row for row in report["rows"] if row["op"] == "int_mm")
        assert (row["flop"], row["integer_op"]) == (0, 2e6)
        assert report["totals"]["integer_op"] == 2e6

    def test_numpy_and_nan_in_the_run_become_plain(self, build: SimpleNamespace) -> None:
        run = build.run() | {"loss": math.nan, "model_flop": pd.Series([1.0]).iloc[0]}
        report = to_json(Profile.from_rows(build.rows(), run), build.machine())
        check(report)
        assert report["run"]["loss"] is None
        assert report["run"]["model_flop"] == 1.0

    def test_an_unknown_key_is_refused(self, profile: Profile) -> None:
        with pytest.raises(UsageError):
            to_json(profile, None, ("module",))


number = st.one_of(st.none(), st.just(0.0), st.floats(1e-12, 1e15))
row = st.fixed_dictionaries(
    {
        "layer": st.sampled_from([None, "a", "b.0"]),
        "op": st.sampled_from([None, "mm"]),
        "duration": number,
        "start": number,
        "flop_nominal_matrix_fp32": number,
        "flop_least_matrix_fp32": number,
        "flop_nominal_vector_int32": number,
        "bytes_l1": number,
        "step": st.integers(-1, 2),
    }
)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(row, max_size=6), ceilings=st.booleans())
def test_any_table_gives_valid_json_and_csv(
    build: SimpleNamespace, rows: list[dict[str, object]], ceilings: bool
) -> None:
    profile, machine = Profile.from_rows(rows), build.machine() if ceilings else None
    check(to_json(profile, machine, ("layer", "op")))
    text = to_frame(profile, machine, ("layer", "op")).to_csv(index=False)
    assert not {"nan", "inf", "-inf"} & set(text.lower().replace("\n", ",").split(","))


class TestFrame:
    def test_headers_carry_units(self, profile: Profile, machine: Machine) -> None:
        frame = to_frame(profile, machine)
        plain = {"layer", "bound", "notes"}
        for name in frame.columns:
            assert name.endswith("]") or name in plain or name.startswith("source_")
        assert {"time [s]", "bytes_dram [B]", "flop_matrix_int8 [OP]", "flop_rate [FLOP/s]"} <= set(
            frame
        )

    def test_columns_are_the_same_for_every_run(self, profile: Profile, machine: Machine) -> None:
        full, empty = to_frame(profile, machine), to_frame(Profile.from_rows([]), None)
        assert list(full.columns) == list(empty.columns)
        assert list(full.dtypes) == list(empty.dtypes) or empty.empty

    def test_values_are_those_of_the_json(self, profile: Profile, machine: Machine) -> None:
        frame, rows = to_frame(profile, machine), to_json(profile, machine)["rows"]
        assert frame["layer"].tolist() == [row["layer"] for row in rows]
        assert frame["time [s]"].tolist() == [row["time"] for row in rows]
        assert frame["headroom [1]"].tolist() == [row["headroom"] for row in rows]

    def test_missing_is_nan(self, profile: Profile, machine: Machine) -> None:
        frame = to_frame(profile, machine, ("op",)).set_index("op")
        assert frame["flop [FLOP]"].isna().to_dict()["sort"]
        assert frame["flop [FLOP]"].to_dict()["copy"] == 0


class TestWrite:
    @pytest.mark.parametrize("suffix", [".json", ".csv", ".parquet", ".txt", ".JSON"])
    @pytest.mark.parametrize("empty", [False, True])
    def test_every_kind(
        self, profile: Profile, machine: Machine, tmp_path: Path, suffix: str, empty: bool
    ) -> None:
        path = tmp_path / "folder" / f"report{suffix}"
        written = write(
            Profile.from_rows([]) if empty else profile, None if empty else machine, path
        )
        assert written == path
        assert path.stat().st_size > 0
        assert [p.name for p in path.parent.iterdir()] == [path.name]

    def test_json_reads_back(self, profile: Profile, machine: Machine, tmp_path: Path) -> None:
        path = write(profile, machine, tmp_path / "r.json", ("phase",))
        assert json.loads(path.read_text()) == to_json(profile, machine, ("phase",))

    def test_csv_reads_back(self, profile: Profile, machine: Machine, tmp_path: Path) -> None:
        path = write(profile, machine, tmp_path / "r.csv", ("op",))
        rows = {r["op"]: r for r in csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))}
        assert float(rows["copy"]["bytes_dram [B]"]) == 1e5
        assert rows["sort"]["flop [FLOP]"] == ""
        assert "nan" not in path.read_text().lower().split(",")

    def test_parquet_reads_back(self, profile: Profile, machine: Machine, tmp_path: Path) -> None:
        path = write(profile, machine, tmp_path / "r.parquet")
        frame = pd.read_parquet(path)
        assert frame["time [s]"].tolist() == to_frame(profile, machine)["time [s]"].tolist()

    def test_text_holds_every_row(self, build: SimpleNamespace, tmp_path: Path) -> None:
        rows = [build.row(f"layer{i}", "forward", "mm", 1) for i in range(40)]
        text = write(Profile.from_rows(rows), None, tmp_path / "r.txt").read_text(encoding="utf-8")
        assert all(f"layer{i} " in text for i in range(40))

    def test_text_is_a_string_or_a_path(
        self, profile: Profile, machine: Machine, tmp_path: Path
    ) -> None:
        assert write(profile, machine, str(tmp_path / "r.json")) == tmp_path / "r.json"

    def test_an_existing_file_is_kept_unless_forced(
        self, profile: Profile, machine: Machine, tmp_path: Path
    ) -> None:
        path = tmp_path / "r.json"
        path.write_text("mine")
        with pytest.raises(OutputError, match="exists already"):
            write(profile, machine, path)
        assert path.read_text() == "mine"
        write(profile, machine, path, force=True)
        assert json.loads(path.read_text())["schema"] == 1

    @pytest.mark.parametrize("name", ["report", "report.xlsx", "report.json.bak"])
    def test_an_unknown_suffix_is_refused(
        self, profile: Profile, tmp_path: Path, name: str
    ) -> None:
        with pytest.raises(
            UsageError, match=r"\.json, \.csv, \.parquet, \.txt, \.md, \.html, \.png"
        ):
            write(profile, None, tmp_path / name)
        assert list(tmp_path.iterdir()) == []

    def test_an_unknown_key_is_refused_before_anything_is_written(
        self, profile: Profile, tmp_path: Path
    ) -> None:
        with pytest.raises(UsageError, match="grouping key"):
            write(profile, None, tmp_path / "r.json", ("module",))
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_in_the_way(self, profile: Profile, tmp_path: Path) -> None:
        (tmp_path / "r.json").mkdir()
        with pytest.raises(OutputError):
            write(profile, None, tmp_path / "r.json", force=True)

    def test_a_file_where_a_folder_should_be(self, profile: Profile, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(OutputError):
            write(profile, None, tmp_path / "file" / "r.csv")


class TestDispatch:
    """Charts and HTML are drawn by their own modules; here only that they are asked."""

    def module(self, monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
        module = ModuleType(f"hroof.report.{name}")
        for key, value in members.items():
            setattr(module, key, value)
        monkeypatch.setitem(sys.modules, f"hroof.report.{name}", module)

    @pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
    def test_charts(
        self, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
    ) -> None:
        def draw_file(given: Profile, machine: Any, path: Path, by: Any, choice: Choice) -> None:
            assert given is profile
            assert path.suffix == suffix
            path.write_text(f"{choice.kind} by {','.join(by)}")

        self.module(monkeypatch, "chart", draw_file=draw_file)
        path = write(profile, None, tmp_path / f"r{suffix}", ("phase",))
        assert path.read_text() == "roofline by phase"
        write(profile, None, path, ("op",), force=True, chart=Choice("time"))
        assert path.read_text() == "time by op"

    def test_html(self, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.module(monkeypatch, "html", render=lambda p, m, by: f"<p>µ {','.join(by)}</p>")
        path = write(profile, None, tmp_path / "r.html", ("op",))
        assert path.read_text(encoding="utf-8") == "<p>µ op</p>"

    @pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".html", b"<!")])
    def test_the_real_ones(
        self, profile: Profile, machine: Machine, tmp_path: Path, suffix: str, start: bytes
    ) -> None:
        path = write(profile, machine, tmp_path / f"r{suffix}")
        assert path.read_bytes().lstrip().startswith(start)

    def test_a_failed_chart_leaves_no_file(
        self, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def draw_file(*_: Any) -> None:
            raise RuntimeError("no fonts")

        self.module(monkeypatch, "chart", draw_file=draw_file)
        with pytest.raises(RuntimeError, match="no fonts"):
            write(profile, None, tmp_path / "r.png")
        assert list(tmp_path.iterdir()) == []
