"""Draw the figures of "Hierarchical Roofline Performance Analysis for Deep Learning Applications".

Run it with: python examples/paper/figures.py FOLDER OUT [--convention authors|corrected]

FOLDER is that of deepcam.py; OUT gets a picture for each of the paper's eight figures whose configuration is there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from deepcam import (  # type: ignore[import-not-found]  # the script beside this one
    AUTHORS,
    CONVENTIONS,
    CORRECTED,
    RATE,
    Convention,
    by_name,
    load_or_say,
    options,
    work,
)

from hroof.units import percent, si

FIGURES = {
    "TF-fp32-batch2-fw-amp": "TensorFlow forward, FP32 with AMP, batch 2",
    "TF-fp32-batch2-bw-amp": "TensorFlow backward, FP32 with AMP, batch 2",
    "TF-fp16-batch2-bw-noamp": "TensorFlow backward, manual FP16, batch 2",
    "PT-fp32-O1-Adam-fw": "PyTorch forward, AMP O1",
    "PT-fp32-O1-Adam-bw": "PyTorch backward, AMP O1",
    "PT-fp32-O1-Adam-opt": "PyTorch optimizer (Adam), AMP O1",
    "PT-fp32-O2-Adam-bw": "PyTorch backward, AMP O2",
    "PT-fp32-O0-Adam-bw": "PyTorch backward, FP32 (O0)",
}
"""The eight figures, by configuration."""

COLOURS = {"l1": "blue", "l2": "red", "dram": "green"}
LABELS = {"l1": "L1", "l2": "L2", "dram": "HBM"}


def roofs(rows: pd.DataFrame, convention: Convention) -> tuple[dict[str, float], dict[str, float]]:
    """Bandwidths in B/s and peaks in FLOP/s of the V100.

    The authors draw results of the Empirical Roofline Toolkit (1.42 to 1.50 GHz) and, for L1 and the Tensor Cores,
    formulas. Corrected: what the SM's clock drives is a formula at the clock of the profile; L2 and HBM stay.
    """
    bandwidths = {"l1": 14336e9, "l2": 2996.77e9, "dram": 828.76e9}
    peaks = {"Tensor Core": 106.496e12, "FP16": 29.1816e12, "FP32": 15.1582e12}
    if convention is AUTHORS:
        return bandwidths, peaks
    clock = float((rows[RATE] * rows["launches"]).sum() / rows["launches"].sum())
    sms, per_clock = 80, {"Tensor Core": 1024, "FP16": 256, "FP32": 128}
    at_clock = {name: sms * flop * clock for name, flop in per_clock.items()}
    return bandwidths | {"l1": sms * 128 * clock}, at_clock


def draw(name: str, rows: pd.DataFrame, convention: Convention, path: Path) -> Path:
    """One figure in the style of the paper: three circles per kernel name, as large as its time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.67, 6.6))
    axes = figure.subplots()
    found = work(rows, convention)
    names = by_name(found)
    drawn = names[names["flop"] > 0]
    for level, colour in COLOURS.items():
        axes.scatter(
            drawn["flop"] / drawn[level],
            drawn["flop"] / drawn["time"] / convention.giga,
            s=np.maximum(260 * drawn["time"], 3) ** 2,
            facecolors="none",
            edgecolors=colour,
            label=LABELS[level],
        )
    draw_roofs(axes, *roofs(rows, convention))
    axes.set(xscale="log", yscale="log", xlim=(1e-2, 10**3.5), ylim=(1, 687_500))
    axes.set_xlabel("Arithmetic Intensity [FLOP/Byte]")
    unit = "GFLOP/s" if convention is CORRECTED else "GFLOP/s; points: 1024³, roofs: 10⁹"
    axes.set_ylabel(f"Performance [{unit}]")
    axes.legend(loc="upper left")
    hidden = found[found["flop"] == 0]
    axes.set_title(
        f"{FIGURES.get(name, name)}\nwithout FLOP, hence not drawn: {hidden['launches'].sum():.0f} of "
        f"{found['launches'].sum():.0f} launches, "
        f"{percent(hidden['time'].sum() / found['time'].sum())} of the time",
        fontsize=12,
    )
    figure.savefig(path, dpi=100)
    return path


def draw_roofs(axes: Any, bandwidths: Mapping[str, float], peaks: Mapping[str, float]) -> None:
    """Bandwidths up to the highest peak, peaks from the highest bandwidth on; in GFLOP/s."""
    top = max(peaks.values()) / 1e9
    for level, bandwidth in bandwidths.items():
        slope = bandwidth / 1e9
        axes.plot([1e-3, top / slope], [1e-3 * slope, top], color="black", linewidth=2)
        axes.text(
            0.1,
            0.112 * slope,
            f"{LABELS[level]} {si(bandwidth, 'B/s', 4)}",
            rotation=30,
            rotation_mode="anchor",
        )
    for label, peak in peaks.items():
        start = peak / max(bandwidths.values())
        axes.plot([start, 10**3.5], [peak / 1e9] * 2, color="black", linewidth=2)
        axes.text(10**3.45, peak / 1e9 * 1.05, f"{label} {si(peak, 'FLOP/s')}", ha="right")


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw what can be drawn and say what cannot; returns the exit status."""
    parser = options(__doc__)
    parser.add_argument(
        "out", nargs="?", type=Path, default=Path("."), help="folder of the figures"
    )
    chosen = parser.parse_args(arguments)
    tables = load_or_say(chosen.folder)
    if isinstance(tables, int):
        return tables
    chosen.out.mkdir(parents=True, exist_ok=True)
    convention = CONVENTIONS[chosen.convention]
    for name, title in FIGURES.items():
        if name in tables:
            print(draw(name, tables[name], convention, chosen.out / f"{name}.png"))
        else:
            print(f"Not drawn: {title}; {name} is not in {chosen.folder}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
