"""A few small pictures compared with kept ones, without any text: fonts differ between machines.

With HROOF_NEW_BASELINES=1 in the environment the pictures are written anew; look at them before keeping them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hroof.machine import Ceiling, Machine
from hroof.report.chart import Spot, phases, roofline, times
from hroof.roofline import Point
from hroof.units import MemoryLevel, Pipe, Precision, Source

KEPT = Path(__file__).parent / "baselines"
L1, DRAM = MemoryLevel.L1, MemoryLevel.DRAM
V32, M32 = (Pipe.VECTOR, Precision.FP32), (Pipe.MATRIX, Precision.FP32)
NAN = float("nan")
DPI = 40
TOLERANCE = 4.0
"""Root of the mean square of the difference, of 255: what another version of the renderer may change."""

Draw = Callable[..., Any]


def machine() -> Machine:
    return Machine(
        "small cpu",
        peaks={M32: Ceiling(1e12), V32: Ceiling(1e11, how="datasheet")},
        bandwidths={L1: Ceiling(1e12), DRAM: Ceiling(5e10)},
        launch_cost=Ceiling(1e-5),
    )


def point(name: str, phase: str, time: float, pair: Any = M32, **changes: Any) -> Point:
    values: dict[str, Any] = {
        "key": {"layer": name, "phase": phase}, "launches": 10.0, "time": time, "time_spread": NAN,
        "flop": {pair: 1e9}, "least_flop": {pair: 1e9}, "nbytes": {L1: 1e7, DRAM: 2e6},
        "bound": None, "bound_share": NAN, "attainable_time": None, "fused_time": None,
        "bounded_time": 0.0, "uncounted_time": 0.0, "zero_flop_launches": 0.0,
        "sources": {"l1": Source.COUNTED, "dram": Source.PREDICTED},
    }  # fmt: skip
    return Point(**values | changes)


def step(slower: float = 1.0) -> list[Point]:
    """One group per phase, far apart."""
    return [
        point("fc", "forward", 2e-3),
        point("fc", "backward", 8e-3 * slower, nbytes={L1: 1e9, DRAM: 1e8}),
        point("fc", "optimizer", 1e-2, V32, nbytes={L1: 8e9, DRAM: 4e8}),
    ]


def spots() -> list[Spot]:
    """Two groups, one above a roof, and two that only move bytes."""
    both = {"sources": {L1: Source.COUNTED, DRAM: Source.PREDICTED}}
    return [
        Spot("a", 2e11, {L1: 1.0, DRAM: 20.0}, 8e-3, group="forward", **both),  # type: ignore[arg-type]
        Spot("b", 9e11, {L1: 0.2, DRAM: 9.0}, 2e-3, group="backward", **both),  # type: ignore[arg-type]
        Spot("c", 0.0, {}, 2e-3, group="data", missing="0 FLOP", byte_rate={L1: 1e10, DRAM: 1e9}),
    ]


DRAWN: dict[str, Draw] = {
    "roofline": lambda: roofline(spots(), machine()),
    "dark": lambda: roofline(spots(), machine(), style="dark"),
    "paper": lambda: roofline(spots(), machine(), style="paper"),
    "times": lambda: times(step(), machine()),
    "phases": lambda: phases(step(), machine()),
}


def pixels(artists: Any) -> Any:
    """The picture without texts, and without what depends on how wide they are."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    figure = artists.figure
    for text in figure.findobj(Text):
        text.set_visible(False)
    for axes in figure.axes:
        if axes.get_legend() is not None:
            axes.get_legend().remove()
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(float)


def distance(first: Any, second: Any) -> float:
    return float(np.sqrt(np.mean((first - second) ** 2)))


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_as_it_was(name: str) -> None:
    from matplotlib.image import imread, imsave

    drawn, path = pixels(DRAWN[name]()), KEPT / f"{name}.png"
    if os.environ.get("HROOF_NEW_BASELINES"):
        imsave(path, drawn.astype(np.uint8))
    kept = np.round(imread(path)[..., :3] * 255).astype(float)
    assert kept.shape == drawn.shape
    assert distance(kept, drawn) <= TOLERANCE
    assert path.stat().st_size < 20_000


def test_a_marker_elsewhere_is_noticed() -> None:
    kept, moved = (pixels(times(step(slower), machine())) for slower in (1.0, 30.0))
    assert kept.shape == moved.shape
    assert distance(kept, moved) > TOLERANCE
