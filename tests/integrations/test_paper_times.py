"""The script about arXiv 2009.04598: on a small invented table always, on the authors' results where they are.

HROOF_PAPER_TABLES names the folder of the tables.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from hroof.report.charts.timed import Timed

SCRIPT = Path(__file__).parents[2] / "examples" / "paper" / "timed.py"
PEAK, FP32, BANDWIDTH, LAUNCH = 106.49e12, 15.1582e12, 828.8e9, 4.2e-6


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paper_timed", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- an invented table ----------------------------------------------------------------------------


def invented() -> pd.DataFrame:
    """A product in FP16, the same in FP32, and one that is all launches."""
    columns = (
        "Precision", "Batch Size", "Pass", "CUDA Time", "Invocations", "FP32 FLOPs", "FP16 FLOPs",
        "TC FLOPs", "FLOPs", "DRAM AI",
    )  # fmt: skip
    rows = [
        ("FP16", 16, "forward", 2e-4, 5, 0.0, 0.0, 1.0649e10, 1.0649e10, 1000.0),
        ("FP32", 16, "forward", 1e-3, 5, 1.5158e10, 0.0, 0.0, 1.5158e10, 1000.0),
        ("FP32", 32, "forward", 1e-3, 250, 1e6, 0.0, 0.0, 1e6, 2.0),
        ("FP32", 16, "backward", 1e-3, 9, 1e9, 0.0, 0.0, 1e9, 10.0),
    ]
    return pd.DataFrame(rows, columns=list(columns))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    invented().to_csv(tmp_path / "timebased_gemm-pt.csv", index=False)
    return tmp_path


def spots(script: ModuleType, folder: Path, convention: str) -> dict[str, Timed]:
    scene = script.scene(script.tables(folder)["gemm"], "forward", convention)
    return {one.name: one for one in scene.spots}


def test_the_authors_hold_everything_against_one_peak(script: ModuleType, folder: Path) -> None:
    found = spots(script, folder, "authors")
    assert set(found) == {"pt.16-FP16", "pt.16-FP32", "pt.32-FP32"}
    assert found["pt.16-FP16"].slowdown == pytest.approx(2.0)
    assert found["pt.16-FP32"].slowdown == pytest.approx(1e-3 * PEAK / 1.5158e10)  # 7.03


def test_corrected_each_precision_has_its_own(script: ModuleType, folder: Path) -> None:
    found = spots(script, folder, "corrected")
    assert found["pt.16-FP16"].slowdown == pytest.approx(2.0)
    assert found["pt.16-FP32"].slowdown == pytest.approx(1.0, rel=1e-4)
    assert found["pt.16-FP32"].balance == pytest.approx(FP32 / BANDWIDTH)
    assert found["pt.32-FP32"].bound == "launch"


def test_pictures_are_written(
    script: ModuleType, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([str(folder), str(tmp_path / "out")]) == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["gemm-backward.png", "gemm-forward.png"]
    assert capsys.readouterr().out.count("\n") == 2


def test_a_folder_without_tables_is_refused(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([str(tmp_path), str(tmp_path / "out")]) == 3
    assert "README.md" in capsys.readouterr().err


def test_a_missing_column_is_named(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = invented().drop(columns="DRAM AI")
    table.to_csv(tmp_path / "timebased_gemm-pt.csv", index=False)
    assert script.main([str(tmp_path), str(tmp_path / "out")]) == 3
    assert "'DRAM AI'" in capsys.readouterr().err


# --- the authors' results -------------------------------------------------------------------------

# Base cases of the paper: op, pass, precision, framework → ms, launches, GFLOP, intensity at HBM, GFLOP/s,
# share of the time that the launches alone take.
PUBLISHED = {
    ("conv2d", "forward", "FP16", "pt"): (0.225, 5, 3.63, 36.7, 16128, 0.09),
    ("conv2d", "forward", "FP16", "tf2"): (0.317, 3, 3.71, 45.9, 11690, 0.04),
    ("conv2d", "forward", "FP32", "tf1"): (0.947, 6, 3.72, 8.6, 3924, 0.03),
    ("conv2d", "backward", "FP16", "tf2"): (2.314, 25, 47.70, 80.5, 20612, 0.05),
    ("conv2d", "backward", "FP32", "pt"): (0.881, 10, 7.18, 34.0, 8148, 0.05),
    ("rnn1d", "forward", "FP16", "pt"): (0.232, 36, 0.00245, 15.2, 10.6, 0.65),
    ("rnn1d", "forward", "FP32", "tf1"): (1.060, 277, 0.00596, 7.5, 5.6, 1.10),
    ("rnn1d", "backward", "FP16", "tf1"): (2.566, 659, 0.02096, 18.6, 8.2, 1.08),
    ("rnn1d", "backward", "FP32", "tf2"): (2.347, 596, 0.01313, 6.5, 5.6, 1.07),
}
BASE = {"conv2d": "3x3x64x64-2-16", "rnn1d": "16-16-32-16"}


@pytest.fixture(scope="module")
def published(script: ModuleType) -> dict[str, pd.DataFrame]:
    folder = os.environ.get("HROOF_PAPER_TABLES")
    if not folder:
        pytest.skip("HROOF_PAPER_TABLES is not set: the tables are not here")
    tables: dict[str, pd.DataFrame] = script.tables(Path(folder))
    return tables


def charts(script: ModuleType, published: dict[str, pd.DataFrame]) -> Iterator[tuple[Any, ...]]:
    for op, table in published.items():
        for phase in ("forward", "backward"):
            yield op, phase, table[table["Pass"] == phase]


def test_every_row_is_drawn_where_the_table_says(
    script: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    rows = 0
    for op, phase, table in charts(script, published):
        scene = script.scene(published[op], phase, "authors")
        found = {one.name: one for one in scene.spots}
        assert len(found) == len(table)
        for row in table.to_dict("records"):
            one = found[script.name_of(row)]
            assert one.complexity == pytest.approx((row["GB HBM"] * 1e9, row["FLOPs"]), rel=1e-6)
            assert one.flop / one.time / 1e9 == pytest.approx(row["GFLOP/s"], rel=1e-6)
            assert one.intensity == pytest.approx(row["DRAM AI"], rel=1e-6)
            assert one.launch_time == pytest.approx(row["launch_floor_us"] * 1e-6, rel=1e-6)
            bound = max(row["FLOPs"] / PEAK, row["GB HBM"] * 1e9 / BANDWIDTH)
            assert one.slowdown == pytest.approx(row["CUDA Time"] / bound, rel=1e-6)
            bytes_at, flop_at = one.at_time
            assert max(bytes_at / BANDWIDTH, flop_at / PEAK) == pytest.approx(row["CUDA Time"])
            assert one.corner == pytest.approx(
                (BANDWIDTH * LAUNCH * row["Invocations"], PEAK * LAUNCH * row["Invocations"])
            )
            rows += 1
    assert rows == 3 * (40 + 48)


@pytest.mark.parametrize("case", PUBLISHED)
def test_the_base_cases(
    case: tuple[str, str, str, str], script: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    op, phase, precision, framework = case
    scene = script.scene(published[op], phase, "authors")
    (one,) = [s for s in scene.spots if s.name == f"{framework}.{BASE[op]}-{precision}"]
    milliseconds, launches, gflop, intensity, rate, share = PUBLISHED[case]
    assert one.time * 1e3 == pytest.approx(milliseconds, abs=5e-4)
    assert one.launches == launches
    assert one.flop / 1e9 == pytest.approx(gflop, rel=2e-3)
    assert one.intensity == pytest.approx(intensity, abs=0.05)
    assert one.flop / one.time / 1e9 == pytest.approx(rate, rel=6e-3)
    assert (one.launch_time or 0.0) / one.time == pytest.approx(share, abs=0.005)


def test_lstm_of_tensorflow_lies_on_its_launch_box_and_that_of_pytorch_within(
    script: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    shares: dict[str, list[float]] = {}
    for phase in ("forward", "backward"):
        for one in script.scene(published["rnn1d"], phase, "authors").spots:
            assert one.bound == "launch"
            shares.setdefault(one.group, []).append((one.launch_time or 0.0) / one.time)
    medians = {name: round(float(pd.Series(found).median()), 2) for name, found in shares.items()}
    assert medians == {"pt": 0.69, "tf1": 1.08, "tf2": 1.06}


def test_one_peak_for_all_makes_fp32_look_seven_times_too_slow(
    script: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    """What the correction changes: compute-bound FP32 rows by the ratio of the peaks, the others by less."""
    ratios = []
    for phase in ("forward", "backward"):
        scenes = [script.scene(published["conv2d"], phase, c) for c in ("authors", "corrected")]
        theirs, ours = ({one.name: one for one in scene.spots} for scene in scenes)
        for name in theirs:
            if name.endswith("FP32"):
                ratios.append(theirs[name].slowdown / ours[name].slowdown)
                assert ours[name].slowdown >= 0.95
    assert max(ratios) == pytest.approx(PEAK / FP32, rel=0.01)
    assert min(ratios) >= 1


def test_the_chart_of_a_published_table(
    script: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    artists = script.draw("rnn1d", published["rnn1d"], "forward", "corrected")
    assert len(artists.names) == 72
    assert len(artists.flop_times) == 3
    for name, marker in zip(artists.names, artists.complexity, strict=True):
        x, y = marker.get_offsets()[0]
        assert x > 0, name
        assert y > 0, name
