"""A comparison for other programs: JSON by its schema, CSV, files by their suffix."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pandas as pd
import pytest

from hroof.compare import Comparison, compare
from hroof.errors import OutputError, UsageError
from hroof.files import json_ready
from hroof.profile import Profile
from hroof.report.compared.export import JSON_SCHEMA, to_frame, to_json, write


def validate(value: dict[str, Any]) -> None:
    jsonschema.validate(value, JSON_SCHEMA, cls=jsonschema.Draft202012Validator)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, float):
        yield value


class TestJson:
    def test_it_is_what_the_schema_says(self, compared: Comparison) -> None:
        jsonschema.Draft202012Validator.check_schema(JSON_SCHEMA)
        validate(to_json(compared))

    @pytest.mark.parametrize("lacking", ["verdict", "layers", "schema", "conditions"])
    def test_the_schema_refuses_what_lacks_a_key(self, compared: Comparison, lacking: str) -> None:
        value = to_json(compared)
        del value[lacking]
        with pytest.raises(jsonschema.ValidationError):
            validate(value)

    def test_the_schema_refuses_another_version(self, compared: Comparison) -> None:
        with pytest.raises(jsonschema.ValidationError):
            validate(to_json(compared) | {"schema": 2})

    def test_there_is_neither_nan_nor_infinity(self, compared: Comparison, build: Any) -> None:
        rows = [row | {"duration": math.nan} for row in build.rows()]
        paper = compare(Profile.from_rows(rows), Profile.from_rows(rows))
        for found in (compared, paper):
            value = to_json(found)
            assert all(map(math.isfinite, numbers(value)))
            json.dumps(value, allow_nan=False)
        validate(to_json(paper))

    def test_a_row(self, compared: Comparison) -> None:
        rows = {row["base"]: row for row in to_json(compared)["layers"]["rows"]}
        fc1 = rows["fc1"]
        assert fc1["time"] == pytest.approx({"base": 275e-6, "new": 550e-6, "delta": 275e-6})
        assert fc1["time_by_phase"]["backward"]["delta"] == pytest.approx(165e-6)
        assert (fc1["new"], fc1["matched_by"], fc1["change"]) == ("fc1", "name", "slower")
        assert fc1["bytes"]["l1"]["delta"] == 0
        assert fc1["work"] == "same work"

    def test_what_is_gone_has_no_name_and_no_time_in_the_new_run(
        self, compared: Comparison
    ) -> None:
        (gone,) = [r for r in to_json(compared)["phases"]["rows"] if r["new"] is None]
        assert (gone["base"], gone["time"]["new"], gone["change"]) == ("loss", 0, "gone")
        assert gone["headroom"]["new"] is None

    @pytest.mark.parametrize("table", ["phases", "layers", "kernels"])
    def test_rows_add_up_to_the_total(self, compared: Comparison, table: str) -> None:
        value = to_json(compared)
        deltas = [row["time"]["delta"] for row in value[table]["rows"]]
        total = value["total"]["time"]["delta"]
        assert math.fsum(deltas) + value[table]["rest"] == pytest.approx(total)

    def test_the_runs_and_the_verdict(self, compared: Comparison) -> None:
        value = to_json(compared)
        assert (value["base"]["name"], value["new"]["name"]) == ("small", "changed")
        assert value["base"]["steps"] == 3
        assert value["base"]["machine"] == "small cpu"
        assert value["verdict"]["change"] == "slower"
        assert value["undisturbed"] == {"base": None, "new": 3e-4, "delta": None}
        assert value["wall"]["change"] == "within noise"
        assert value["kernels"]["key"] == "op"

    def test_hostile_names_stay_names(
        self, hostile: Callable[[str], Comparison], name: str
    ) -> None:
        value = json.loads(json.dumps(to_json(hostile(name))))
        validate(value)
        assert name in {row["base"] for row in value["layers"]["rows"]}


class TestFrame:
    def test_all_rows_and_the_step(self, compared: Comparison) -> None:
        frame = to_frame(compared)
        assert list(frame["table"].unique()) == ["step", "phase", "layer", "op"]
        assert len(frame) == 1 + sum(map(len, compared.tables().values()))

    def test_numbers_are_those_of_the_rows(self, compared: Comparison) -> None:
        frame = to_frame(compared)
        row = frame[(frame["table"] == "layer") & (frame["base"] == "fc1")].iloc[0]
        assert row["time_delta [s]"] == pytest.approx(275e-6)
        assert row["bytes_l1_base [B]"] == row["bytes_l1_new [B]"]
        assert math.isnan(row["bytes_l2_delta [B]"])

    def test_the_columns_are_the_same_for_every_comparison(
        self, compared: Comparison, build: Any
    ) -> None:
        bare = Profile.from_rows([{"kernel": "k", "duration": 1.0}])
        assert list(to_frame(compared).columns) == list(to_frame(compare(bare, bare)).columns)


class TestWrite:
    def test_json(self, compared: Comparison, tmp_path: Path) -> None:
        path = write(compared, tmp_path / "a.json")
        assert json.loads(path.read_text(encoding="utf-8")) == json_ready(to_json(compared))

    def test_csv(self, compared: Comparison, tmp_path: Path) -> None:
        text = write(compared, tmp_path / "a.csv").read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert rows[0]["table"] == "step"
        assert {row["change"] for row in rows} == {"faster", "slower", "within noise", "gone"}

    def test_parquet(self, compared: Comparison, tmp_path: Path) -> None:
        frame = pd.read_parquet(write(compared, tmp_path / "a.parquet"))
        assert len(frame) == len(to_frame(compared))

    def test_text(self, compared: Comparison, tmp_path: Path) -> None:
        text = write(compared, tmp_path / "a.txt").read_text(encoding="utf-8")
        assert "Caveats" in text
        assert "--top 0" not in text

    @pytest.mark.parametrize(
        ("name", "start"), [("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")]
    )
    def test_charts(self, compared: Comparison, tmp_path: Path, name: str, start: bytes) -> None:
        assert write(compared, tmp_path / name).read_bytes().startswith(start)

    def test_html(self, compared: Comparison, tmp_path: Path) -> None:
        assert write(compared, tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!DOC")

    def test_another_suffix_is_refused(self, compared: Comparison, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"a\.docx") as caught:
            write(compared, tmp_path / "a.docx")
        assert ".html" in caught.value.remedy

    def test_a_file_is_replaced_only_with_force(self, compared: Comparison, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_text("mine")
        with pytest.raises(OutputError, match="exists already"):
            write(compared, path)
        assert path.read_text() == "mine"
        write(compared, path, force=True)
        assert path.read_text() != "mine"

    def test_no_cell_of_a_table_is_a_formula(
        self, hostile: Callable[[str], Comparison], name: str, tmp_path: Path
    ) -> None:
        text = write(hostile(name), tmp_path / "a.csv").read_bytes().decode()
        assert "\r" not in text
        rows = list(csv.reader(io.StringIO(text, newline="")))
        names = [cell for row in rows[1:] for cell in row[1:3]]
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in names)
        assert len({len(row) for row in rows}) == 1
