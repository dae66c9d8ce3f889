"""Redraw the results of "Time-Based Roofline for Deep Learning Performance Analysis" (arXiv 2009.04598).

Run it with: python examples/paper/timed.py FOLDER OUT [--convention authors|corrected]

FOLDER holds tables timebased_<op>-<framework>*.csv, one row per shape, pass and precision; README.md beside this script
names their columns. OUT gets a picture for each op and pass, of all frameworks together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.report.chart import TimeArtists, times
from hroof.report.charts.backend import save_as
from hroof.report.charts.timed import TimeScene, compose_times
from hroof.roofline import Point, points
from hroof.units import MemoryLevel, Pipe, Precision

AUTHORS, CORRECTED = "authors", "corrected"
SHAPE = (
    "Kernel Shape", "Stride Size", "Batch Size", "Time Steps", "Features", "Hidden Size", "Precision",
)  # fmt: skip
"""Columns that tell the rows of one table apart, beside the pass."""
NEEDED = (
    "Precision", "Pass", "CUDA Time", "Invocations", "FP32 FLOPs", "FP16 FLOPs", "TC FLOPs", "FLOPs",
    "DRAM AI",
)  # fmt: skip
TENSOR = (Pipe.MATRIX, Precision.FP16)


def machine(convention: str) -> Machine:
    """The V100 with the one peak that the paper uses; corrected: with the measured peak of each precision, too."""
    peaks = {TENSOR: Ceiling(106.49e12, how="given", note="a formula: 80 × 1024 × 1.3 GHz")}
    if convention == CORRECTED:
        peaks[Pipe.VECTOR, Precision.FP32] = Ceiling(15.1582e12, how="measured")
        peaks[Pipe.VECTOR, Precision.FP16] = Ceiling(29.1816e12, how="measured")
    return Machine(
        "V100",
        device="cuda:0",
        peaks=peaks,
        bandwidths={MemoryLevel.DRAM: Ceiling(828.8e9, how="measured")},
        launch_cost=Ceiling(4.2e-6, how="given", note="assumed"),
    )


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of all frameworks by op, with a column that names the framework.

    Raises:
        ValueError: A table lacks a column.
    """
    found: dict[str, list[pd.DataFrame]] = {}
    for path in sorted(folder.glob("timebased_*.csv")):
        op, framework = path.stem.removeprefix("timebased_").split("-")[:2]
        table = pd.read_csv(path)
        lacking = [name for name in NEEDED if name not in table.columns]
        if lacking:
            raise ValueError(f"{path.name} has no column {lacking[0]!r}.")
        found.setdefault(op, []).append(table.assign(framework=framework))
    return {op: pd.concat(parts, ignore_index=True) for op, parts in found.items()}


def name_of(row: Mapping[str, object]) -> str:
    """``pt.3x3x64x64-2-16-FP16``: the framework, which gives the colour, and the shape."""
    parts = [row[name] for name in SHAPE if name in row and row[name] == row[name]]
    shape = "-".join(str(int(p)) if isinstance(p, float) else str(p) for p in parts)
    return f"{row['framework']}.{shape}"


def profile(table: pd.DataFrame, convention: str) -> Profile:
    """The rows of a table as a run: a row is all launches of one call of the op."""
    rows = []
    for row in table.to_dict("records"):
        by_unit = {
            "matrix_fp16": row["TC FLOPs"],
            "vector_fp16": row["FP16 FLOPs"],
            "vector_fp32": row["FP32 FLOPs"],
        }
        if convention == AUTHORS:  # all FLOP against one peak
            by_unit = {"matrix_fp16": row["FLOPs"]}
        rows.append(
            {
                "layer": name_of({str(key): value for key, value in row.items()}),
                "phase": row["Pass"],
                "duration": row["CUDA Time"],
                "launches": float(row["Invocations"]),
                "aggregate": True,
                "bytes_dram": row["FLOPs"] / row["DRAM AI"],
                "source_time": "counter",
                "source_flop": "counter",
                "source_dram": "counter",
                **{
                    f"flop_{kind}_{unit}": flop
                    for unit, flop in by_unit.items()
                    for kind in ("nominal", "least")
                },
            }
        )
    return Profile.from_rows(rows)


def found(table: pd.DataFrame, phase: str, convention: str) -> list[Point]:
    """The points of one op and pass."""
    chosen = table[table["Pass"] == phase]
    return points(profile(chosen, convention), machine(convention), ("layer",))


def scene(table: pd.DataFrame, phase: str, convention: str) -> TimeScene:
    """What the chart of one op and pass shows."""
    return compose_times(found(table, phase, convention), machine(convention))


def draw(op: str, table: pd.DataFrame, phase: str, convention: str) -> TimeArtists:
    """The chart of one op and pass."""
    title = f"{op}, {phase} ({convention} convention)"
    return times(found(table, phase, convention), machine(convention), title=title)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw what is there; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the tables")
    parser.add_argument("out", type=Path, help="folder of the pictures")
    parser.add_argument("--convention", choices=(AUTHORS, CORRECTED), default=AUTHORS)
    chosen = parser.parse_args(arguments)
    try:
        there = tables(chosen.folder)
    except ValueError as error:
        print(f"{error} See README.md beside this script.", file=sys.stderr)
        return 3
    if not there:
        here = "see README.md beside this script"
        print(f"{chosen.folder} holds no timebased_*.csv: {here}.", file=sys.stderr)
        return 3
    chosen.out.mkdir(parents=True, exist_ok=True)
    for op, table in there.items():
        for phase in sorted(set(table["Pass"])):
            path = chosen.out / f"{op}-{phase}.png"
            print(save_as(draw(op, table, phase, chosen.convention).figure, path, "png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
