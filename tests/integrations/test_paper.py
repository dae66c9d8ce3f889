"""The scripts about the paper: on a small invented measurement always, on the authors' files where they are."""

from __future__ import annotations

import gzip
import importlib
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from hroof.readers import profile_of, read

SCRIPTS = Path(__file__).parents[2] / "examples" / "paper"
HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream",'
    '"Section Name","Metric Name","Metric Unit","Metric Value"'
)
Launch = tuple[str, dict[str, float]]


@pytest.fixture(scope="module")
def scripts() -> Iterator[tuple[ModuleType, ModuleType]]:
    """The two scripts as modules, importable by their own names only as long as the tests run."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("deepcam"), importlib.import_module("figures")
    finally:
        sys.path.remove(str(SCRIPTS))
        for name in ("deepcam", "figures"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def deepcam(scripts: tuple[ModuleType, ModuleType]) -> ModuleType:
    return scripts[0]


# --- an invented measurement ----------------------------------------------------------------------


def write(
    deepcam: ModuleType, folder: Path, launches: list[Launch], *, shuffled: bool = False
) -> None:
    """One file per metric as the authors have them: chatter, then a table in long form."""
    folder.mkdir(parents=True)
    for number, metric in enumerate(deepcam.METRICS):
        # Another launch order in every second file, as TensorFlow has it.
        order = launches[::-1] if shuffled and number % 2 else launches
        lines = [
            f'"{i}","7","python","127.0.0.1","{kernel}","2020-Jun-10 06:03:51","1","7",'
            f'"Command line profiler metrics","{metric}","{unit(metric)}","{values.get(metric, 0)}"'
            for i, (kernel, values) in enumerate(order)
        ]
        chatter = ["==PROF== Connected to process 7 (python)", "step is 5, loss 0.25"]
        text = "\n".join([*chatter, HEADER, *lines]) + "\n"
        (folder / f"out.{metric}.gz").write_bytes(gzip.compress(text.encode()))


def unit(metric: str) -> str:
    if "bytes" in metric:
        return "byte"
    if metric.endswith("per_second"):
        return "cycle/second"
    return "cycle" if "cycles" in metric else "inst"


def launch(deepcam: ModuleType, kernel: str, cycles: float, rate: float, **more: float) -> Launch:
    """A launch; ``tensor``, ``h`` and ``f`` count instructions (add, multiply, FMA each once)."""
    values = {deepcam.CYCLES: cycles, deepcam.RATE: rate, deepcam.TENSOR: more.get("tensor", 0)}
    values |= {metric: more.get(level, 0) for level, metric in deepcam.LEVELS.items()}
    values |= {metric: more.get("h", 0) for metric in deepcam.HALF}
    values |= {metric: more.get("f", 0) for metric in deepcam.SINGLE}
    return kernel, values


def torch_like(deepcam: ModuleType) -> list[Launch]:
    """Five launches of three kernels; of the relu one launch computes and one does not."""
    relu = "void relu_kernel<float, 4>(int, float*)"
    return [
        launch(
            deepcam, "volta_h884gemm_64x64_nn", 2000, 1e6, tensor=1000, l1=9000, l2=400, dram=20
        ),
        launch(deepcam, relu, 1000, 1e6, l1=800, l2=800, dram=800),
        launch(deepcam, relu, 3000, 1.5e6, h=60, l1=160, l2=160, dram=160),
        launch(deepcam, "void nchwToNhwcKernel<float>(int)", 500, 1e6, l1=50, l2=50, dram=50),
        launch(
            deepcam,
            "volta_h884gemm_64x64_nn",
            2000,
            1e6,
            tensor=1000,
            f=5,
            l1=1000,
            l2=600,
            dram=80,
        ),
    ]


def test_the_authors_convention_by_hand(deepcam: ModuleType, tmp_path: Path) -> None:
    write(deepcam, tmp_path / "PT-fp32-O1-Adam-fw-123456", torch_like(deepcam))
    tables = deepcam.load(tmp_path)
    assert list(tables) == ["PT-fp32-O1-Adam-fw"]
    found = deepcam.totals(deepcam.work(tables["PT-fp32-O1-Adam-fw"], deepcam.AUTHORS))
    assert (found["names"], found["launches"]) == (3, 5)
    assert (found["zero_names"], found["zero_launches"]) == (1, 1)
    assert found["tensor"] == 512 * 2000
    assert found["fp16"] == 60 * (1 + 1 + 2)
    assert found["fp32"] == 5 * (1 + 1 + 2)
    # 4000 cycles at 1 MHz, 4000 at the mean of 1 and 1.5 MHz, 500 at 1 MHz
    assert found["time"] == pytest.approx(4e-3 + 4000 / 1.25e6 + 5e-4, rel=1e-12)
    assert found["zero_time"] == pytest.approx(5e-4, rel=1e-12)
    assert found["best_rate"] == pytest.approx((512 * 2000 + 20) / 4e-3, rel=1e-12)
    assert found["ai_dram"] == pytest.approx((512 * 2000 + 240 + 20) / 1110, rel=1e-12)


def test_the_corrected_convention_by_hand(deepcam: ModuleType, tmp_path: Path) -> None:
    write(deepcam, tmp_path / "PT-fp32-O1-Adam-fw", torch_like(deepcam))
    rows = deepcam.load(tmp_path)["PT-fp32-O1-Adam-fw"]
    found = deepcam.totals(deepcam.work(rows, deepcam.CORRECTED))
    assert found["zero_launches"] == 2
    assert found["fp16"] == 60 * (2 + 2 + 4)
    assert found["time"] == pytest.approx(2e-3 + 1e-3 + 2e-3 + 5e-4 + 2e-3, rel=1e-12)
    assert found["zero_time"] == pytest.approx(1.5e-3, rel=1e-12)


def test_a_backward_by_subtraction(deepcam: ModuleType, tmp_path: Path) -> None:
    """The last launches of each kernel, in each file's own order; kernels of the forward alone vanish."""
    gemm, pad, update = (
        "volta_h884gemm_64x64_nn",
        "void PadInput<float>(int)",
        "void adam<float>(int)",
    )
    forward = [launch(deepcam, gemm, 100, 1e6, tensor=1), launch(deepcam, pad, 10, 1e6)]
    both = [
        launch(deepcam, gemm, 100, 1e6, tensor=1),
        launch(deepcam, gemm, 200, 2e6, tensor=2),
        launch(deepcam, update, 40, 1e6, f=3),
        launch(deepcam, gemm, 400, 1e6, tensor=4),
        launch(deepcam, update, 50, 1e6, f=4),
    ]
    write(deepcam, tmp_path / "TF-fp32-batch2-fw-amp", forward)
    write(deepcam, tmp_path / "TF-fp32-batch2-fwbw-amp", both)
    tables = deepcam.load(tmp_path)
    rows = tables["TF-fp32-batch2-bw-amp"].set_index("kernel")
    assert sorted(rows.index) == sorted([gemm, update])
    assert rows.loc[gemm, "launches"] == 2
    assert rows.loc[gemm, deepcam.TENSOR] == 6
    assert rows.loc[gemm, deepcam.CYCLES] == 600
    assert rows.loc[gemm, deepcam.RATE] == 1.5e6
    assert rows.loc[update, deepcam.CYCLES] == 90
    parts = [tables[f"TF-fp32-batch2-{part}-amp"] for part in ("fw", "bw")]
    whole = sum(deepcam.totals(deepcam.work(part, deepcam.AUTHORS))["flop"] for part in parts)
    assert whole == 512 * 7 + 4 * 7


def test_a_level_without_traffic_has_no_intensity(deepcam: ModuleType, tmp_path: Path) -> None:
    write(deepcam, tmp_path / "a", [launch(deepcam, "fma_only", 100, 1e6, f=4, l1=8, l2=2)])
    found = deepcam.totals(deepcam.work(deepcam.load(tmp_path)["a"], deepcam.CORRECTED))
    assert (found["ai_l1"], found["ai_l2"]) == (2.0, 8.0)
    assert math.isnan(found["ai_dram"])


def test_another_launch_order_gives_sums_by_name(deepcam: ModuleType, tmp_path: Path) -> None:
    launches = torch_like(deepcam)
    write(deepcam, tmp_path / "one" / "TF-fp32-batch1-fw-noamp", launches, shuffled=True)
    write(deepcam, tmp_path / "two" / "TF-fp32-batch1-fw-noamp", launches)
    shuffled, ordered = (
        deepcam.load(tmp_path / part)["TF-fp32-batch1-fw-noamp"] for part in ("one", "two")
    )
    assert (len(shuffled), len(ordered)) == (3, 5)
    assert deepcam.totals(deepcam.work(shuffled, deepcam.AUTHORS)) == pytest.approx(
        deepcam.totals(deepcam.work(ordered, deepcam.AUTHORS)), rel=1e-12
    )
    # What is lost: the launch without FLOP among those of the same name.
    assert deepcam.totals(deepcam.work(shuffled, deepcam.CORRECTED))["zero_launches"] == 1


def test_a_missing_metric_is_named(
    deepcam: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(deepcam, tmp_path / "PT-fp32-O1-Adam-fw", torch_like(deepcam))
    (tmp_path / "PT-fp32-O1-Adam-fw" / f"out.{deepcam.TENSOR}.gz").unlink()
    assert deepcam.main([str(tmp_path)]) == 3
    assert deepcam.TENSOR in capsys.readouterr().err


@pytest.mark.parametrize("which", [0, 1])
def test_without_files_each_script_says_so(
    which: int, scripts: tuple[ModuleType, ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    assert scripts[which].main([]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "README.md" in said.err


def test_a_folder_without_such_files_is_refused(
    deepcam: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("nothing here\n", encoding="utf-8")
    assert deepcam.main([str(tmp_path)]) == 3
    assert "holds no folder" in capsys.readouterr().err


@pytest.mark.parametrize("convention", ["authors", "corrected"])
def test_the_report(
    convention: str, deepcam: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PT-fp32-O0-Adam-fw", "PT-fp32-O1-Adam-fw", "PT-fp32-O1-Adam-opt"):
        write(deepcam, tmp_path / name, torch_like(deepcam))
    assert deepcam.main([str(tmp_path), "--convention", convention]) == 0
    said = capsys.readouterr().out
    assert f"Convention: {convention}" in said
    assert ("GiFLOP/s" in said) == (convention == "authors")
    assert ("1 / 5" in said) == (convention == "authors")
    assert "nchwToNhwcKernel" in said
    assert "layout change" in said
    assert "PT-fp32-O0-Adam-fw → O1: 1.00 times as fast with 1.00 times the FLOP" in said
    assert "PT-fp32-O1-Adam-opt: 5 launches of 4.20 µs are 21.0 µs" in said


def test_the_figures(
    scripts: tuple[ModuleType, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deepcam, figures = scripts
    write(deepcam, tmp_path / "raw" / "PT-fp32-O1-Adam-fw", torch_like(deepcam))
    out = tmp_path / "figures"
    assert figures.main([str(tmp_path / "raw"), str(out)]) == 0
    assert [path.name for path in out.iterdir()] == ["PT-fp32-O1-Adam-fw.png"]
    assert capsys.readouterr().out.count("Not drawn") == len(figures.FIGURES) - 1


def test_the_corrected_roofs_follow_the_clock(scripts: tuple[ModuleType, ModuleType]) -> None:
    deepcam, figures = scripts
    rows = pd.DataFrame({deepcam.RATE: [1.2e9, 1.4e9], "launches": [1.0, 3.0]})
    bandwidths, peaks = figures.roofs(rows, deepcam.CORRECTED)
    assert peaks["FP32"] == pytest.approx(80 * 128 * 1.35e9)
    assert peaks["Tensor Core"] == pytest.approx(80 * 1024 * 1.35e9)
    assert bandwidths["l1"] == pytest.approx(80 * 128 * 1.35e9)
    assert bandwidths["dram"] == 828.76e9
    assert figures.roofs(rows, deepcam.AUTHORS)[1]["FP32"] == 15.1582e12


# --- the authors' files ---------------------------------------------------------------------------

# Facts of arXiv 2009.05257 and of the tables that its authors published with it: kernel names, launches,
# zero-AI launches, time in ms, zero-AI share of the time in %, GFLOP, Tensor Core share of FLOP in %,
# mean and best TFLOP/s (decimal), GB through L1, L2 and HBM.
PUBLISHED = {
    "PT-fp32-O0-Adam-fw": (35, 633, 363, 170.53, 11.30, 1184.6, 0.0, 6.95, 12.89, 129.3, 94.3, 53.4),
    "PT-fp32-O0-Adam-bw": (54, 1424, 689, 400.61, 6.09, 2321.3, 0.0, 5.79, 12.44, 443.0, 237.6, 84.2),
    "PT-fp32-O1-Adam-fw": (45, 797, 437, 104.18, 10.14, 1370.4, 82.4, 13.15, 81.34, 61.0, 40.2, 21.8),
    "PT-fp32-O1-Adam-bw": (70, 1575, 609, 228.34, 5.20, 3047.1, 88.1, 13.34, 86.39, 203.3, 106.8, 43.5),
    "PT-fp32-O1-Adam-opt": (7, 2709, 0, 16.99, 0.0, 2.0, 0.0, 0.12, 0.38, 5.4, 5.2, 5.3),
    "TF-fp32-batch1-fw-noamp": (36, 465, 278, 763.62, 3.11, 4393.2, 0.0, 5.75, 12.87, 302.6, 178.4, 74.4),
    "TF-fp32-batch2-fw-amp": (52, 556, 304, 199.97, 20.38, 9394.7, 99.5, 46.98, 83.87, 198.9, 152.4, 54.1),
    "TF-fp32-batch2-fwbw-amp": (107, 5125, 2134, 602.35, 16.73, 29071.9, 99.6, 48.26, 93.45, 557.9, 498.8, 171.4),
    "TF-fp32-batch2-bw-amp": (79, 4573, 1833, 402.18, 14.90, 19677.2, 99.7, 48.93, 93.45, 359.0, 346.4, 117.2),
}  # fmt: skip
DIGITS = (0, 0, 0, 2, 2, 1, 1, 2, 2, 1, 1, 1)
# To the last bit of the sums: FLOP, and bytes through L1, L2 and HBM.
EXACT = {
    "PT-fp32-O1-Adam-fw": (1370374809861, 60968846272, 40160301920, 21827093984),
    "PT-fp32-O1-Adam-opt": (2032424864, 5419653120, 5225882112, 5281776704),
    "TF-fp32-batch2-bw-amp": (19677202359304, 359011237312, 346436360032, 117178139104),
}


@pytest.fixture(scope="module")
def published(deepcam: ModuleType) -> dict[str, pd.DataFrame]:
    corpus = os.environ.get("HROOF_CORPUS")
    if not corpus:
        pytest.skip("HROOF_CORPUS is not set: the authors' raw files are not here")
    tables: dict[str, pd.DataFrame] = deepcam.load(Path(corpus) / "deepcam")
    return tables


def test_every_configuration_is_there(published: dict[str, pd.DataFrame]) -> None:
    assert set(published) == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_authors_tables(
    name: str, deepcam: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    t = deepcam.totals(deepcam.work(published[name], deepcam.AUTHORS))
    got = (
        t["names"], t["launches"], t["zero_launches"], t["time"] * 1e3, 100 * t["zero_time"] / t["time"],
        t["flop"] / 1e9, 100 * t["tensor"] / t["flop"], t["rate"] / 1e12, t["best_rate"] / 1e12,
        t["l1"] / 1e9, t["l2"] / 1e9, t["dram"] / 1e9,
    )  # fmt: skip
    assert tuple(round(v, n) for v, n in zip(got, DIGITS, strict=True)) == PUBLISHED[name]


@pytest.mark.parametrize("name", EXACT)
def test_work_to_the_last_digit(
    name: str, deepcam: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    t = deepcam.totals(deepcam.work(published[name], deepcam.AUTHORS))
    assert (t["flop"], t["l1"], t["l2"], t["dram"]) == pytest.approx(EXACT[name], rel=1e-9)


def test_shares_of_flop(deepcam: ModuleType, published: dict[str, pd.DataFrame]) -> None:
    """Tensor Core, FP32, FP16 in percent, with AMP O1."""
    for name, expected in {
        "PT-fp32-O1-Adam-fw": (82.36, 16.89, 0.75),
        "PT-fp32-O1-Adam-bw": (88.12, 9.84, 2.04),
    }.items():
        t = deepcam.totals(deepcam.work(published[name], deepcam.AUTHORS))
        shares = tuple(round(100 * t[key] / t["flop"], 2) for key in ("tensor", "fp32", "fp16"))
        assert shares == expected


def test_launches_without_flop_by_launch(
    deepcam: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    """By launch two more are found than by name, in one region; time differs by 0.11 % at most."""
    for name, rows in published.items():
        ours, theirs = (
            deepcam.totals(deepcam.work(rows, c)) for c in (deepcam.CORRECTED, deepcam.AUTHORS)
        )
        more = 2 if name == "PT-fp32-O1-Adam-fw" else 0
        assert ours["zero_launches"] == theirs["zero_launches"] + more
        assert ours["time"] == pytest.approx(theirs["time"], rel=1.1e-3)
        assert ours["fp16"] == pytest.approx(2 * theirs["fp16"])
        assert (ours["tensor"], ours["fp32"]) == pytest.approx((theirs["tensor"], theirs["fp32"]))


TOP: dict[str, list[tuple[Any, ...]]] = {
    # share of the time in %, launches, TFLOP/s, AI at L1, L2, HBM, part of the kernel's name
    "TF-fp32-batch2-fw-amp": [
        (33.1, 8, 83.9, 62.8, 85.5, 924, "hmma_implicit_gemm_fprop"),
        (9.5, 12, 74.1, 85, 136, 598, "256x128_ldg8_relu"),
        (7.3, 3, 83.8, 60, 63, 321, "128x128_ldg8_dgrad"),
    ],
    "TF-fp32-batch2-bw-amp": [
        (22.0, 21, 88.9, 66, 70, 671, "128x128_ldg8_dgrad"),
        (19.9, 11, 88.9, 95, 95, 591, "256x128_ldg8_wgrad"),
    ],
    "PT-fp32-O1-Adam-fw": [(23.1, 3, 8.15, 15, 32, 1005, "implicit_convolve_sgemm")],
    "PT-fp32-O1-Adam-bw": [(28.7, 1, 1.24, 1.0, 4.8, 1584, "dgrad2d_grouped_direct_kernel")],
}


@pytest.mark.parametrize("name", TOP)
def test_top_kernels(name: str, deepcam: ModuleType, published: dict[str, pd.DataFrame]) -> None:
    found = deepcam.work(published[name], deepcam.AUTHORS)
    names = deepcam.by_name(found)
    for (kernel, row), expected in zip(names.iterrows(), TOP[name], strict=False):
        share, launches, rate, l1, l2, dram, part = expected
        assert part in str(kernel)
        assert row["launches"] == launches
        assert 100 * row["time"] / found["time"].sum() == pytest.approx(share, abs=0.05)
        assert row["flop"] / row["time"] / 1e12 == pytest.approx(rate, rel=6e-3)
        for level, intensity in (("l1", l1), ("l2", l2), ("dram", dram)):
            assert row["flop"] / row[level] == pytest.approx(intensity, rel=0.04)


def test_the_subtraction_is_consistent(
    deepcam: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    """Forward plus derived backward is the run of both, to less than 0.1 %."""
    fw, bw, both = (
        deepcam.totals(deepcam.work(published[f"TF-fp32-batch2-{part}-amp"], deepcam.AUTHORS))
        for part in ("fw", "bw", "fwbw")
    )
    for key in ("flop", "time", "launches"):
        assert fw[key] + bw[key] == pytest.approx(both[key], rel=1e-3)


@pytest.mark.parametrize(
    "name", ["PT-fp32-O0-Adam-bw", "PT-fp32-O1-Adam-opt", "TF-fp32-batch1-fw-noamp"]
)
def test_an_import_says_the_same(
    name: str, deepcam: ModuleType, published: dict[str, pd.DataFrame]
) -> None:
    """The script's few formulas and those by which hroof imports the files agree."""
    files = sorted((Path(os.environ["HROOF_CORPUS"]) / "deepcam" / name).iterdir())
    launches = profile_of(read(files), {})[0].launches
    ours = deepcam.totals(deepcam.work(published[name], deepcam.CORRECTED))
    assert launches["launches"].sum() == ours["launches"]
    assert launches["duration"].sum() == pytest.approx(ours["time"], rel=1e-9)
    assert launches["flop_nominal_vector_fp32"].sum() == pytest.approx(ours["fp32"], rel=1e-9)
    for level in ("l1", "l2", "dram"):
        assert launches[f"bytes_{level}"].sum() == pytest.approx(ours[level], rel=1e-9)


def test_every_kernel_has_a_family(deepcam: ModuleType, published: dict[str, pd.DataFrame]) -> None:
    for name, rows in published.items():
        table = deepcam.families(deepcam.work(rows, deepcam.AUTHORS))
        assert "other" not in table.index, name
        assert {"convolution", "elementwise"} & set(table.index)


def test_the_figures_of_the_paper(
    scripts: tuple[ModuleType, ModuleType], published: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    deepcam, figures = scripts
    at_hand = [name for name in figures.FIGURES if name in published]
    assert len(at_hand) == 6
    path = figures.draw(at_hand[0], published[at_hand[0]], deepcam.AUTHORS, tmp_path / "a.png")
    assert path.stat().st_size > 10_000
