"""What the figures of a machine show, before anything is drawn."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from itertools import pairwise

import pytest

from hroof.ceilings.datasheets import datasheet
from hroof.machine import Ceiling, Machine, Sweep
from hroof.report.machine_scene import (
    machine_scene,
    ridge_lines,
    ridge_points,
    ridges,
    sheet_lines,
    sweep_scene,
)
from hroof.report.scene import Roof
from hroof.units import MemoryLevel, Pipe, Precision

L1, L2, L3, DRAM = MemoryLevel
V32, M32 = (Pipe.VECTOR, Precision.FP32), (Pipe.MATRIX, Precision.FP32)
M64, M16, I8 = (
    (Pipe.MATRIX, Precision.FP64),
    (Pipe.MATRIX, Precision.BF16),
    (Pipe.MATRIX, Precision.INT8),
)
SWEEP = Sweep(
    sizes=(4_000, 8_000, 30_000, 60_000, 500_000, 2_000_000),
    rates=(80e9, 82e9, 81e9, 22e9, 20e9, 20e9),
    kernel="read",
    threads=2,
    plateaus=((81e9, 31_000), (20e9, 2_000_000)),
)


def small(**changes: object) -> Machine:
    """100 GFLOP/s; 80 GB/s at L1 and 20 GB/s at DRAM."""
    values: dict[str, object] = {
        "name": "small cpu",
        "peaks": {
            V32: Ceiling(1e11, how="measured"),
            M32: Ceiling(1e11, how="measured"),
            M64: Ceiling(5e10),
        },
        "bandwidths": {L1: Ceiling(8e10), DRAM: Ceiling(2e10, how="measured")},
        "caches": {L1: 64_000},
        "facts": {"threads": 2},
        "sweep": SWEEP,
    }
    return Machine(**values | changes)  # type: ignore[arg-type]


def roofs(machine: Machine) -> Mapping[str, Roof]:
    return {roof.key: roof for roof in machine_scene(machine).roofs}


# --- Roofline -----------------------------------------------------------------------------------


def test_every_bandwidth_and_every_floating_point_peak_is_a_roof() -> None:
    peaks = {**small().peaks, I8: Ceiling(9e12), M16: Ceiling(2e11)}
    found = roofs(small(peaks=peaks))
    assert list(found) == ["l1", "dram", "matrix_bf16", "vector_fp32", "matrix_fp32", "matrix_fp64"]
    assert [roof.sloped for roof in found.values()] == [True, True, False, False, False, False]


def test_more_peaks_than_a_run_would_show() -> None:
    peaks = {(pipe, q): Ceiling(1e12 + n * 1e11) for n, q in enumerate(Precision) for pipe in Pipe}
    floats = sum(pair[1].is_float for pair in peaks)
    assert len(roofs(small(peaks=peaks))) == floats + 2


def test_roofs_meet() -> None:
    found = roofs(small())
    assert found["dram"].ridge == pytest.approx(5.0)
    assert found["l1"].at(found["l1"].ridge or 0.0) == pytest.approx(1e11)
    assert found["matrix_fp64"].ridge == pytest.approx(5e10 / 8e10)


def test_what_is_only_reachable_is_labelled_as_at_least() -> None:
    found = roofs(small())
    assert found["l1"].label == "L1 ≥ 80.0 GB/s"
    assert found["dram"].label == "DRAM 20.0 GB/s"
    assert found["matrix_fp64"].label == "matrix FP64 ≥ 50.0 GFLOP/s"


def test_peaks_that_read_the_same_share_a_label() -> None:
    found = roofs(small())
    assert found["vector_fp32"].label == "vector FP32, matrix FP32 100 GFLOP/s"
    assert found["matrix_fp32"].label == ""


def test_precisions_of_one_pipe_share_its_name() -> None:
    pairs = [M32, (Pipe.VECTOR, Precision.BF16), V32, M16]
    found = roofs(small(peaks={pair: Ceiling(1e11) for pair in pairs}))
    labels = [roof.label for roof in found.values() if not roof.sloped]
    assert labels == ["vector FP32/BF16, matrix FP32/BF16 ≥ 100 GFLOP/s", "", "", ""]


def test_peaks_of_the_same_rate_but_other_evidence_do_not() -> None:
    peaks = {V32: Ceiling(1e11, how="measured"), M32: Ceiling(1e11)}
    assert all(roofs(small(peaks=peaks))[key].label for key in ("vector_fp32", "matrix_fp32"))


@pytest.mark.parametrize(
    ("how", "solid"),
    [
        ("measured", True),
        ("framework-reachable", True),
        ("counter peak", False),
        ("datasheet", False),
    ],
)
def test_only_what_was_measured_is_solid(how: str, solid: bool) -> None:
    peaks = {M32: Ceiling(1e11, how=how)}  # type: ignore[arg-type]
    found = roofs(small(peaks=peaks))["matrix_fp32"]
    assert found.measured is solid
    assert (f"({how})" in found.label) is not solid


def test_the_main_ridge_is_that_of_the_slowest_memory_and_the_highest_peak() -> None:
    assert machine_scene(small()).ridge == pytest.approx((5.0, 1e11))
    assert machine_scene(small(peaks={})).ridge is None
    assert machine_scene(small(bandwidths={})).ridge is None


def test_every_ridge_lies_in_the_frame() -> None:
    machine = small(bandwidths={L1: Ceiling(3e13), DRAM: Ceiling(1e10)})
    scene = machine_scene(machine)
    for x, y in ridge_points(machine):
        assert scene.xlim[0] < x < scene.xlim[1]
        assert scene.ylim[0] < y < scene.ylim[1]


@pytest.mark.parametrize(
    "changes", [{"peaks": {}}, {"bandwidths": {}}, {"peaks": {}, "bandwidths": {}}]
)
def test_a_machine_that_lacks_something_has_a_frame(changes: dict[str, object]) -> None:
    scene = machine_scene(small(**changes))
    for low, high in (scene.xlim, scene.ylim):
        assert 0 < low < high < math.inf


def test_rates_that_no_axis_can_show_are_left_out() -> None:
    found = roofs(small(peaks={M32: Ceiling(math.inf), M64: Ceiling(1e10)}))
    assert "matrix_fp32" not in found and "matrix_fp64" in found


# --- data sheet ---------------------------------------------------------------------------------


@pytest.fixture
def gpu() -> Machine:
    """A card whose data sheet is known."""
    return Machine(
        "NVIDIA H200", "cuda:0", peaks={M16: Ceiling(8e14)}, bandwidths={DRAM: Ceiling(4.2e12)}
    )


def test_the_data_sheet_is_dashed_beside_the_measured_roofs(gpu: Machine) -> None:
    sheet = datasheet(gpu.name, gpu.device)
    assert sheet is not None
    found = roofs(gpu)
    assert found["matrix_bf16"].measured and found["matrix_bf16"].used
    printed = found["sheet-matrix_bf16"]
    assert (printed.rate, printed.measured, printed.used) == (sheet.peaks[M16].rate, False, False)
    assert found["sheet-dram"].rate == sheet.bandwidths[DRAM].rate


def test_sheet_roofs_have_their_labels_in_the_legend(gpu: Machine) -> None:
    assert all(not roof.label for key, roof in roofs(gpu).items() if key.startswith("sheet-"))
    lines = sheet_lines(gpu)
    assert lines[0].startswith("DRAM ")
    assert any("BF16" in line and "FLOP/s" in line for line in lines)


def test_slopes_reach_up_to_the_sheet(gpu: Machine) -> None:
    found = roofs(gpu)
    top = max(roof.rate for roof in found.values() if not roof.sloped)
    assert found["dram"].at(found["dram"].ridge or 0.0) == pytest.approx(top)
    assert machine_scene(gpu).ridge == pytest.approx((8e14 / 4.2e12, 8e14))


def test_an_unknown_device_has_no_sheet() -> None:
    assert sheet_lines(small()) == []
    assert not any(key.startswith("sheet-") for key in roofs(small()))


# --- ridge points -------------------------------------------------------------------------------


def test_ridges_are_the_machine_balances() -> None:
    found = dict(ridges(small()))
    assert found["vector FP32, matrix FP32"] == pytest.approx({L1: 1.25, DRAM: 5.0})
    assert found["matrix FP64"] == pytest.approx({L1: 0.625, DRAM: 2.5})
    assert list(found) == ["vector FP32, matrix FP32", "matrix FP64"]


def test_ridges_in_words() -> None:
    assert ridge_lines(small()) == [
        "vector FP32, matrix FP32: L1 1.25, DRAM 5.00",
        "matrix FP64: L1 0.625, DRAM 2.50",
    ]


def test_without_bandwidths_there_are_no_ridges() -> None:
    machine = small(bandwidths={})
    assert (ridges(machine), ridge_lines(machine), ridge_points(machine)) == ([], [], [])


# --- sweep --------------------------------------------------------------------------------------


def test_a_machine_without_a_sweep_has_no_figure_of_it() -> None:
    assert sweep_scene(small(sweep=None)) is None
    assert sweep_scene(small(sweep=Sweep((), ()))) is None
    assert sweep_scene(small(sweep=Sweep((4096,), (math.nan,)))) is None


def test_a_sweep_has_its_points_plateaus_and_caches() -> None:
    scene = sweep_scene(small())
    assert scene is not None
    assert (scene.sizes, scene.rates) == (SWEEP.sizes, SWEEP.rates)
    assert scene.caches == {L1: 32_000}
    assert [(step.key, step.rate) for step in scene.steps] == [("l1", 81e9), ("dram", 20e9)]
    assert [step.label for step in scene.steps] == ["L1 81.0 GB/s", "DRAM 20.0 GB/s"]
    assert [(near.last, far.first) for near, far in pairwise(scene.steps)] == [(31_000, 31_000)]


def test_points_that_cannot_be_drawn_are_left_out() -> None:
    rates = (math.nan, 82e9, 0.0, 22e9, math.inf, 20e9)
    scene = sweep_scene(small(sweep=dataclasses.replace(SWEEP, rates=rates)))
    assert scene is not None
    assert scene.sizes == (8_000, 60_000, 2_000_000)


def test_a_plateau_that_is_no_known_level_has_no_name() -> None:
    steps = ((81e9, 31_000), (40e9, 200_000), (20e9, 2_000_000))
    scene = sweep_scene(small(sweep=dataclasses.replace(SWEEP, plateaus=steps)))
    assert scene is not None
    assert [step.key for step in scene.steps] == ["l1", "plateau 2", "dram"]
    assert scene.steps[1].label == "40.0 GB/s"


def test_ceilings_span_the_sizes_of_their_level() -> None:
    scene = sweep_scene(small())
    assert scene is not None
    assert [(one.key, one.rate, one.first, one.last) for one in scene.ceilings] == [
        ("l1", 8e10, 0.0, 32_000),
        ("dram", 2e10, 32_000, 2_000_000),
    ]


def test_everything_lies_in_the_frame_of_the_sweep() -> None:
    scene = sweep_scene(small(caches={L1: 64_000, L3: 40_000_000}))
    assert scene is not None
    for size in (*scene.sizes, *scene.caches.values()):
        assert scene.xlim[0] < size < scene.xlim[1]
    for rate in (*scene.rates, *(one.rate for one in scene.ceilings)):
        assert scene.ylim[0] < rate < scene.ylim[1]


def test_it_says_what_was_swept() -> None:
    scene = sweep_scene(small())
    assert scene is not None
    assert scene.about == "Kernel: read; 2 threads, each with a set of this size."
    assert scene.each == "thread"
    one = sweep_scene(small(sweep=dataclasses.replace(SWEEP, threads=1, kernel="")))
    assert one is not None
    assert one.about == "Kernel: not stated; 1 thread, each with a set of this size."


def test_doubts_belong_to_the_sweep() -> None:
    scene = sweep_scene(small(caches={L1: 64_000_000}))
    assert scene is not None
    assert any("falls at 31.0 kB" in text for text in scene.doubts)
