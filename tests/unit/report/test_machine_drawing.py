"""The figures of a machine, tested on the artists they are made of."""

from __future__ import annotations

import builtins
import dataclasses
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from hroof.errors import MissingError, OutputError, UsageError
from hroof.machine import Ceiling, Machine, Sweep
from hroof.report.chart import figure, machine_figure, machine_roofline, svg, sweep
from hroof.units import MemoryLevel, Pipe, Precision

L1, L2, L3, DRAM = MemoryLevel
M32, M64 = (Pipe.MATRIX, Precision.FP32), (Pipe.MATRIX, Precision.FP64)
NOT_A_NUMBER = re.compile(r"(?<![\w.])[-+]?(nan|inf|infinity)(?![\w.])", re.IGNORECASE)


@pytest.fixture
def small() -> Machine:
    """100 GFLOP/s; 80 GB/s at L1 and 20 GB/s at DRAM; a sweep of six sizes."""
    return Machine(
        "small cpu",
        peaks={M32: Ceiling(1e11, how="measured"), M64: Ceiling(5e10)},
        bandwidths={L1: Ceiling(8e10), DRAM: Ceiling(2e10, how="measured")},
        caches={L1: 32_000},
        sweep=Sweep(
            sizes=(4_000, 8_000, 30_000, 60_000, 500_000, 2_000_000),
            rates=(80e9, 82e9, 81e9, 22e9, 20e9, 20e9),
            kernel="read",
            plateaus=((81e9, 31_000), (20e9, 2_000_000)),
        ),
    )


@pytest.fixture
def gpu() -> Machine:
    """Many peaks that lie close, with a data sheet."""
    rates = {"fp64": 6e13, "tf32": 4.3e14, "bf16": 7.9e14, "fp16": 7.85e14, "fp8": 1.5e15}
    peaks = {(Pipe.MATRIX, Precision(name)): Ceiling(rate) for name, rate in rates.items()}
    peaks |= {(Pipe.VECTOR, Precision.FP32): Ceiling(6.2e13, how="measured")}
    return Machine(
        "NVIDIA H200",
        "cuda:0",
        peaks=peaks,
        bandwidths={L1: Ceiling(3e13), L2: Ceiling(1e13), DRAM: Ceiling(4.3e12)},
    )


def texts_of(artists: Any) -> list[str]:
    legend = artists.axes.get_legend()
    found = [text.get_text() for text in artists.axes.texts]
    return found + ([text.get_text() for text in legend.get_texts()] if legend else [])


# --- Roofline -----------------------------------------------------------------------------------


def test_roofs_are_lines_at_their_rates(small: Machine) -> None:
    artists = machine_roofline(small)
    assert list(artists.roofs) == ["l1", "dram", "matrix_fp32", "matrix_fp64"]
    assert list(artists.roofs["matrix_fp64"].get_ydata()) == [5e10, 5e10]
    slope = artists.roofs["dram"].get_xydata()
    assert slope[-1] == pytest.approx([5.0, 1e11])
    assert artists.markers == {} and artists.labels == {}


def test_measured_and_reachable_are_solid_and_the_rest_dashed(small: Machine, gpu: Machine) -> None:
    peaks = {M32: Ceiling(1e11, how="counter peak"), M64: Ceiling(5e10, how="datasheet")}
    roofs = machine_roofline(dataclasses.replace(small, peaks=peaks)).roofs
    assert [roofs[key].get_linestyle() for key in ("l1", "matrix_fp32", "matrix_fp64")] == [
        "-", "--", "--",
    ]  # fmt: skip
    sheets = {
        key: line for key, line in machine_roofline(gpu).roofs.items() if key.startswith("sheet-")
    }
    assert sheets and {line.get_linestyle() for line in sheets.values()} == {"--"}


def test_every_ridge_point_is_marked(small: Machine) -> None:
    artists = machine_roofline(small)
    lines: list[Any] = list(artists.axes.lines)
    marks = {tuple(map(float, line.get_xydata()[0])) for line in lines if line.get_marker() == "o"}
    assert marks == {(1.25, 1e11), (5.0, 1e11), (0.625, 5e10), (2.5, 5e10)}


def test_the_legend_has_the_ridge_points_and_what_at_least_means(small: Machine) -> None:
    texts = [" ".join(text.split()) for text in texts_of(machine_roofline(small))]
    assert "Ridge points in FLOP/byte" in texts
    assert "matrix FP32: L1 1.25, DRAM 5.00" in texts
    assert any(text.startswith("≥ framework-reachable") for text in texts)
    assert "Dashed: data sheet" not in texts


def test_the_legend_has_the_data_sheet(gpu: Machine) -> None:
    texts = texts_of(machine_roofline(gpu))
    assert "Dashed: data sheet" in texts
    assert "DRAM 4.80 TB/s" in texts


def test_where_all_is_measured_nothing_is_at_least(small: Machine) -> None:
    machine = Machine(
        "m",
        peaks={M32: Ceiling(1e11, how="measured")},
        bandwidths={DRAM: Ceiling(2e10, how="measured")},
    )
    assert not any("≥" in text for text in texts_of(machine_roofline(machine)))


def test_the_legend_lies_on_the_page(gpu: Machine) -> None:
    artists = machine_roofline(gpu)
    artists.figure.canvas.draw()
    legend: Any = artists.axes.get_legend()
    box = legend.get_window_extent()
    width, height = artists.figure.bbox.size
    assert box.x1 <= width and 0 <= box.y0 < box.y1 <= height


def test_labels_of_many_close_peaks_do_not_overlap(gpu: Machine) -> None:
    artists = machine_roofline(gpu)
    artists.figure.canvas.draw()
    boxes = {
        text.get_text(): text.get_window_extent()
        for text in artists.axes.texts
        if "FLOP/s" in text.get_text()
    }
    assert len(boxes) == 6
    for first, second in combinations(boxes.values(), 2):
        assert not (
            first.x0 < second.x1 and second.x0 < first.x1
            and first.y0 < second.y1 and second.y0 < first.y1
        )  # fmt: skip


def test_a_machine_without_ceilings_is_an_empty_chart() -> None:
    artists = machine_roofline(Machine("nothing"))
    assert artists.roofs == {}
    assert artists.axes.get_legend() is None


# --- sweep --------------------------------------------------------------------------------------


def test_the_curve_has_every_point(small: Machine) -> None:
    artists = sweep(small)
    assert small.sweep is not None
    assert tuple(artists.curve.get_xdata()) == small.sweep.sizes
    assert tuple(artists.curve.get_ydata()) == small.sweep.rates


def test_axes_of_the_sweep_are_logarithmic_and_labelled(small: Machine) -> None:
    axes = sweep(small).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "Working set per thread [B]",
        "Bandwidth [B/s]",
    )
    ticks = axes.xaxis.get_major_formatter()
    assert [ticks(value, 0) for value in (1e4, 1e6, 1e9)] == ["10 k", "1 M", "1 G"]


def test_plateaus_are_named_lines(small: Machine) -> None:
    artists = sweep(small)
    assert list(artists.plateaus) == ["l1", "dram"]
    assert artists.plateaus["dram"].get_xydata().tolist() == [[31_000, 20e9], [2_000_000, 20e9]]
    assert {"L1 81.0 GB/s", "DRAM 20.0 GB/s"} <= set(texts_of(artists))


def test_known_caches_are_verticals(small: Machine) -> None:
    artists = sweep(small)
    assert list(artists.caches) == [L1]
    assert list(artists.caches[L1].get_xdata()) == [32_000, 32_000]
    assert "L1 32.0 kB" in texts_of(artists)


def test_ceilings_of_the_best_kernels_are_dotted(small: Machine) -> None:
    artists = sweep(small)
    assert list(artists.ceilings) == ["l1", "dram"]
    assert list(artists.ceilings["l1"].get_ydata()) == [8e10, 8e10]
    assert artists.ceilings["l1"].get_linestyle() == ":"


def test_the_caption_says_what_was_swept_and_what_is_doubtful(small: Machine) -> None:
    odd = dataclasses.replace(small, caches={L1: 32_000_000})
    assert "Kernel: read" in sweep(odd).caption
    assert "hypervisor" in sweep(odd).caption
    assert "hypervisor" not in sweep(small).caption


def test_without_a_sweep_the_figure_says_so(small: Machine) -> None:
    artists = sweep(dataclasses.replace(small, sweep=None))
    assert artists.curve is None
    assert "No sweep was measured." in texts_of(artists)


def test_drawn_on_axes_of_the_caller(small: Machine) -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert sweep(small, ax=axes).axes is axes
    other = Figure().subplots()
    assert machine_roofline(small, ax=other).axes is other


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "start"), [("m.png", b"\x89PNG"), ("m.svg", b"<?xml"), ("m.PDF", b"%PDF")]
)
def test_files_of_every_format(small: Machine, tmp_path: Path, name: str, start: bytes) -> None:
    path = figure(small, tmp_path / name)
    assert path == tmp_path / name
    assert path.read_bytes().startswith(start)


def test_the_figure_has_the_roofline_and_the_sweep(small: Machine) -> None:
    both = machine_figure(small).figure
    assert [axes.get_xlabel() for axes in both.axes] == [
        "Arithmetic intensity [FLOP/byte]",
        "Working set per thread [B]",
    ]
    alone = machine_figure(dataclasses.replace(small, sweep=None)).figure
    assert len(alone.axes) == 1


def test_the_same_machine_gives_the_same_bytes(small: Machine, tmp_path: Path) -> None:
    first, second = figure(small, tmp_path / "a.svg"), figure(small, tmp_path / "b.svg")
    assert first.read_bytes() == second.read_bytes()
    assert not NOT_A_NUMBER.search(re.sub(r"<path.*?/>", "", first.read_text(), flags=re.DOTALL))


def test_names_are_no_markup(small: Machine) -> None:
    odd = dataclasses.replace(small, name="<b>$\\frac{$ & \x1b[31m")
    assert svg(machine_figure(odd), text=True).count("<b>") == 0


def test_another_ending_is_refused(small: Machine, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'m\.gif'"):
        figure(small, tmp_path / "m.gif")


def test_a_folder_that_is_not_there_is_an_error(small: Machine, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("")
    with pytest.raises(OutputError):
        figure(small, target / "m.png")


def test_without_matplotlib_there_is_a_remedy(
    small: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'", name=name)
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    for draw in (machine_roofline, sweep, machine_figure):
        with pytest.raises(MissingError, match="pip install matplotlib"):
            draw(small)
