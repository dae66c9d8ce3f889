"""Counters to work as a whole: columns, sources, notes; and the solved cases."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hroof.counters import Work, by_name, chip, metrics, work
from hroof.profile import SCHEMA, conform

NAN = math.nan


def test_columns_are_those_of_the_launch_table(count: SimpleNamespace) -> None:
    frame = pd.DataFrame({name: [4.0, 8.0] for name in metrics(by_name("H100"))})
    columns = count.worked(frame, "9.0").columns
    assert set(columns) <= set(SCHEMA)
    whole = conform(columns)
    assert whole["source_time"].tolist() == ["counter", "counter"]
    assert whole["source_l3"].tolist() == ["missing", "missing"]


def test_the_index_is_kept() -> None:
    frame = pd.DataFrame({"gpu__time_duration.sum": [1.0, 2.0]}, index=[7, 3])
    result = work(frame, None, ["a", "b"])
    assert result.columns.index.tolist() == result.clock.index.tolist() == [7, 3]


@pytest.mark.parametrize("paths", [True, False])
def test_every_list_gives_everything_back(paths: bool) -> None:
    """What is asked for on a chip is enough for time, FLOP and the bytes that it counts."""
    frame = pd.DataFrame({name: [1e6] for name in metrics(by_name("V100"), paths=paths)})
    columns = work(frame, chip("7.0"), ["k"]).columns
    assert columns.notna().all(axis=None)
    assert (columns.filter(like="source_") == "counter").all(axis=None)
    assert {"bytes_l1", "bytes_l2", "bytes_dram", "duration"} <= set(columns)


def test_the_cheap_list_gives_time_and_dram() -> None:
    frame = pd.DataFrame({name: [1e6] for name in metrics(by_name("A100"), cheap=True)})
    columns = work(frame, chip("8.0"), ["k"]).columns
    assert set(columns) == {"duration", "bytes_dram", "source_time", "source_flop", "source_dram"}
    assert columns["source_flop"].tolist() == ["missing"]


def test_the_clock_is_kept(count: SimpleNamespace) -> None:
    frame = count.table(**{"sm__cycles_elapsed.avg.per_second": [1.3e9, NAN]})
    clock = count.worked(frame).clock.to_numpy()
    np.testing.assert_array_equal(clock, [1.3e9, NAN])


def test_an_empty_table(count: SimpleNamespace) -> None:
    result = work(pd.DataFrame(), None, [])
    assert (len(result.columns), len(result.clock)) == (0, 0)


def test_a_sum_of_launches_reads_as_one_row(count: SimpleNamespace) -> None:
    one = {"sm__cycles_elapsed.avg": 500.0, "sm__cycles_elapsed.avg.per_second": 1e9}
    sums = {"sm__cycles_elapsed.avg": 1500.0, "sm__cycles_elapsed.avg.per_second": 1e9}
    single = count.worked(count.table(ffma=2, pipe=1, **one), "7.0")
    triple = count.worked(count.table(ffma=6, pipe=3, **sums), "7.0")
    for column in ("duration", "flop_nominal_vector_fp32", "flop_least_matrix_fp16"):
        (once,), (thrice,) = count.values(single, column), count.values(triple, column)
        assert thrice == pytest.approx(3 * once)


def test_levels_in_the_wrong_order_are_told(count: SimpleNamespace) -> None:
    frame = count.table(
        **{
            "l1tex__t_bytes.sum": [1000, 1000, 1000, 0],
            "lts__t_bytes.sum": [1020, 3200, 100, 0],
            "dram__bytes.sum": [10, 6400, NAN, 0],
        }
    )
    notes = count.worked(frame, kernels=["near", "odd", "fine", "none"]).notes
    told = [note for note in notes if "more bytes cross" in note]
    assert [note.split(". ")[0] for note in told] == [
        "1 launch (odd): more bytes cross L2 than L1",
        "1 launch (odd): more bytes cross DRAM than L2",
    ]


def test_notes_name_few_kernels(count: SimpleNamespace) -> None:
    result = count.worked(
        count.table(ffma=[1] * 5, pipe=[1] * 5), kernels=["a", "b", "c", "d" * 99, "a"]
    )
    assert any(note.startswith("5 launches (a, b, c, …): FLOP unknown") for note in result.notes)


def test_notes_write_names_short(count: SimpleNamespace) -> None:
    names = ["void at::native::vectorized_elementwise_kernel<4, Fill<float>>(int)", "x" * 99, ""]
    result = count.worked(count.table(ffma=[1] * 3, pipe=[1] * 3), kernels=names)
    (note,) = [note for note in result.notes if "FLOP unknown" in note]
    assert note.startswith(f"3 launches (vectorized_elementwise_kernel, {'x' * 59}…): FLOP unknown")
    nameless = count.worked(count.table(ffma=1, pipe=1), kernels=[""])
    assert any(note.startswith("1 launch: FLOP unknown") for note in nameless.notes)


# --- solved cases -------------------------------------------------------------------------------


def read(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """A raw page: names of metrics, a row of units, thousands commas; times become seconds."""
    raw = pd.read_csv(path / "input.csv", dtype=str, keep_default_na=False)
    units, rows = raw.iloc[0], raw.iloc[1:].reset_index(drop=True)
    scale = {"nsecond": 1e-9}
    frame = pd.DataFrame(
        {
            name: rows[name].map(number) * scale.get(units[name], 1.0)
            for name in raw.columns[raw.columns.tolist().index("CC") + 1 :]
        }
    )
    return frame, rows["Kernel Name"].tolist()


def number(text: str) -> float:
    try:
        return sum(float(part.replace(",", "")) for part in text.split(";"))
    except ValueError:
        return NAN


def case(folder: Path) -> tuple[Work, list[str], dict[str, object]]:
    frame, kernels = read(folder)
    expected = json.loads((folder / "expected.json").read_text())["expect"]
    return work(frame, chip("8.0"), kernels), kernels, expected


def total(result: Work) -> pd.Series:
    return result.columns.filter(like="flop_nominal").sum(axis=1, min_count=1)


def test_case_55_matrix_work(solved: Callable[[str], Path]) -> None:
    result, _, expected = case(solved("55"))
    flop = total(result)
    for row, kernel in enumerate(expected["kernels"]):  # type: ignore[arg-type,var-annotated]
        if kernel["flops"] is None:
            assert np.isnan(flop[row])
            continue
        assert flop[row] == kernel["flops"]
        assert result.columns["flop_nominal_matrix_fp16"][row] == kernel["tensor_flops"]
        assert (result.columns["source_flop"][row] == "predicted") is kernel["estimated"]
    assert flop[0] / result.columns["bytes_dram"][0] == pytest.approx(expected["ai_dram_0"])


def test_case_56_bytes(solved: Callable[[str], Path]) -> None:
    result, kernels, expected = case(solved("56"))
    flop = total(result)
    for row, kernel in enumerate(kernels):
        for level, intensity in expected["ai"][kernel].items():  # type: ignore[index]
            assert flop[row] / result.columns[f"bytes_{level}"][row] == pytest.approx(intensity)
    told = [note for note in result.notes if "more bytes cross" in note]
    assert all(name in note for note in told for name in expected["order_note_for"])  # type: ignore[attr-defined]
    assert len(told) == 2


def test_case_48_sums_over_launches(solved: Callable[[str], Path]) -> None:
    result, _, expected = case(solved("48"))
    assert result.columns["duration"].sum() == pytest.approx(expected["time_ns"] * 1e-9)  # type: ignore[operator]
    assert total(result).sum() == expected["flops"]
    assert result.columns["bytes_dram"].sum() == expected["dram_bytes"]


def test_case_49_missing_is_missing(solved: Callable[[str], Path]) -> None:
    result, kernels, expected = case(solved("49"))
    flop, columns = total(result), result.columns
    with np.errstate(divide="ignore"):
        found = dict(zip(kernels, (flop / columns["bytes_dram"]).tolist(), strict=True))
    for kernel, intensity in expected["ai_dram"].items():  # type: ignore[attr-defined]
        if intensity == "no-dram-traffic":
            assert columns["bytes_dram"][kernels.index(kernel)] == 0
        elif isinstance(intensity, dict):  # either is right, with a note
            assert math.isnan(found[kernel])
            assert any(kernel in note for note in result.notes)
        elif intensity is None:
            assert math.isnan(found[kernel])
        else:
            assert found[kernel] == pytest.approx(intensity)
    assert columns["bytes_dram"].sum() == expected["known_dram_bytes_total"]
    assert columns["bytes_dram"].notna().sum() == expected["launches_with_known_dram"]
