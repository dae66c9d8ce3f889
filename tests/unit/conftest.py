"""A small synthetic run and machine that the unit tests share."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.units import MemoryLevel, Pipe, Precision

V32, M32 = "vector_fp32", "matrix_fp32"
STEP_SCALE = (1.0, 1.1, 1.2)
"""How much slower each captured step is than the first."""


def flop(**pairs: float) -> dict[str, float]:
    """Nominal and least FLOP of a row by pair, e.g. ``flop(matrix_fp32=1e6)``."""
    return {f"flop_{kind}_{pair}": v for pair, v in pairs.items() for kind in ("nominal", "least")}


def build_row(
    layer: str | None, phase: str, op: str, microseconds: float, **more: Any
) -> dict[str, Any]:
    """One row; ``source_flop`` and ``source_l1`` default to counted."""
    row = {
        "layer": layer,
        "phase": phase,
        "op": op,
        "duration": microseconds * 1e-6,
        "launches": 1.0,
        "recompute": False,
        "device": "cpu",
        "source_time": "measured",
        "source_flop": "counted",
        "source_l1": "counted" if "bytes_l1" in more else "missing",
        "source_dram": "predicted" if "bytes_dram" in more else "missing",
    }
    return row | more


def step_rows() -> list[dict[str, Any]]:
    """One step of a two-layer net ``Net(fc1, fc2)`` trained with a fused optimizer."""
    big, small = flop(matrix_fp32=4e6), flop(matrix_fp32=1e6)
    zero = flop(vector_fp32=0.0)
    linear = {"layer_type": "Linear"}
    return [
        build_row("fc1", "forward", "mm", 60, bytes_l1=3e5, bytes_dram=2e5, **big, **linear),
        build_row("fc1", "forward", "copy", 10, bytes_l1=1e5, bytes_dram=1e5, **zero, **linear),
        build_row("Net", "forward", "relu", 12, bytes_l1=8e4, layer_type="Net",
                  **flop(vector_fp32=1e4) | {"source_flop": "convention"}),
        build_row("fc2", "forward", "mm", 15, bytes_l1=8e4, bytes_dram=8e4, **small, **linear),
        build_row("fc2", "forward", "int_mm", 8, bytes_l1=2e4, **flop(matrix_int8=2e6), **linear),
        build_row("Net", "loss", "nll", 9, bytes_l1=1e3, layer_type="Net",
                  **flop(vector_fp32=1e3) | {"source_flop": "convention"}),
        build_row("fc2", "backward", "mm", 30, bytes_l1=1.6e5, bytes_dram=1.5e5,
                  **flop(matrix_fp32=2e6), **linear),
        build_row("fc1", "backward", "mm", 130, bytes_l1=6e5, bytes_dram=5e5,
                  **flop(matrix_fp32=8e6), **linear),
        build_row("fc1", "backward", "sort", 20, **linear | {"source_flop": "missing"}),
        build_row("fc1", "optimizer", "adamw", 30, launches=0.75, bytes_l1=3e5,
                  **flop(vector_fp32=7.5e4), **linear, launch_id=90),
        build_row("fc2", "optimizer", "adamw", 10, launches=0.25, bytes_l1=1e5,
                  **flop(vector_fp32=2.5e4), **linear, launch_id=90),
        build_row(None, "data", "to", 6, bytes_l1=4e3, **zero),
    ]  # fmt: skip


def build_rows(scales: tuple[float, ...] = STEP_SCALE) -> list[dict[str, Any]]:
    """The step, once per scale, each slower by its scale; starts follow one another."""
    rows, start = [], 0.0
    for step, scale in enumerate(scales):
        for number, row in enumerate(step_rows()):
            duration = row["duration"] * scale
            launch = row.pop("launch_id", number) + 100 * step
            rows.append(
                row | {"step": step, "duration": duration, "start": start, "launch_id": launch}
            )
            start += duration
    return rows


def build_run() -> dict[str, Any]:
    """What ``run.json`` would hold for the small run."""
    return {
        "name": "small",
        "framework": "none",
        "device": "cpu",
        "schedule": {"skip": 5, "steps": 3},
        "steps": [{"step": i, "wall": 4e-4 * scale} for i, scale in enumerate(STEP_SCALE)],
        "how": "synthetic",
        "status": "complete",
        "warnings": [],
        "layers": [
            {"name": "Net", "type": "Net", "depth": 0, "parameters": 50},
            {"name": "fc1", "type": "Linear", "depth": 1, "parameters": 40},
            {"name": "fc2", "type": "Linear", "depth": 1, "parameters": 10},
        ],
        "ops_without_rule": ["sort"],
    }


def build_profile() -> Profile:
    """Three steps of the two-layer net."""
    return Profile.from_rows(build_rows(), build_run())


def build_other(
    factors: Mapping[str, float] | None = None,
    names: Mapping[str, str] | None = None,
    scales: tuple[float, ...] = STEP_SCALE,
    **run: Any,
) -> Profile:
    """The small run as it might be another time.

    Args:
        factors: Layer → how many times as long it takes.
        names: Layer → another name.
        scales: How much slower each captured step is.
        run: What its ``run.json`` holds beside or instead of that of the small run.
    """
    rows = build_rows(scales)
    for row in rows:
        name = str(row["layer"])
        row["duration"] *= (factors or {}).get(name, 1.0)
        row["layer"] = (names or {}).get(name, row["layer"])
    steps = [{"step": i, "wall": 4e-4 * scale} for i, scale in enumerate(scales)]
    layers = [
        {**layer, "name": (names or {}).get(layer["name"], layer["name"])}
        for layer in build_run()["layers"]
    ]
    return Profile.from_rows(rows, build_run() | {"steps": steps, "layers": layers} | run)


def build_machine(**changes: Any) -> Machine:
    """A CPU whose vector and matrix work share the cores: 100 GFLOP/s, 10 GB/s DRAM."""
    how: dict[str, Any] = {"how": "framework-reachable", "samples": 5, "spread": 0.03}
    values: dict[str, Any] = {
        "name": "small cpu",
        "device": "cpu",
        "peaks": {
            (Pipe.VECTOR, Precision.FP32): Ceiling(20e9, kernel="add", **how),
            (Pipe.MATRIX, Precision.FP32): Ceiling(100e9, kernel="mm 1024", **how),
            (Pipe.MATRIX, Precision.BF16): Ceiling(400e9, kernel="mm bf16 1024", **how),
            (Pipe.MATRIX, Precision.INT8): Ceiling(500e9, kernel="int mm", **how),
        },
        "bandwidths": {
            MemoryLevel.L1: Ceiling(80e9, kernel="bmm", **how),
            MemoryLevel.DRAM: Ceiling(10e9, kernel="add", **how),
        },
        "launch_cost": Ceiling(2e-6, how="measured", kernel="empty add", samples=5),
        "shared_pipes": True,
    }
    return Machine(**values | changes)


@pytest.fixture
def profile() -> Profile:
    """Three steps of a two-layer net, with every odd kind of row."""
    return build_profile()


@pytest.fixture
def machine() -> Machine:
    """A small CPU."""
    return build_machine()


@pytest.fixture
def rows() -> pd.DataFrame:
    """The launch table of the small run."""
    return build_profile().launches


@pytest.fixture(scope="session")
def build() -> SimpleNamespace:
    """The builders above, for tests that need other rows or another machine."""
    return SimpleNamespace(
        flop=flop,
        row=build_row,
        rows=build_rows,
        run=build_run,
        profile=build_profile,
        other=build_other,
        machine=build_machine,
    )
