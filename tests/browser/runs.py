"""Runs for the browser: a small transformer with blocks, levels, formats, and work without FLOP."""

from __future__ import annotations

from typing import Any

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.units import MemoryLevel, Pipe, Precision

WIDTHS = {"attn.qkv": 3, "attn.proj": 1, "mlp.0": 4, "mlp.2": 4}
PHASES = {"forward": 1.0, "backward": 2.0}


def _row(layer: str, phase: str, op: str, microseconds: float, **more: Any) -> dict[str, Any]:
    return {
        "layer": layer, "phase": phase, "op": op, "duration": microseconds * 1e-6, "device": "cpu",
        "source_time": "measured", "source_flop": "counted", "source_l1": "counted",
        "source_dram": "predicted" if "bytes_dram" in more else "missing",
    } | more  # fmt: skip


def _flop(pair: str, value: float) -> dict[str, float]:
    return {f"flop_{kind}_{pair}": value for kind in ("nominal", "least")}


def _block(number: int, slower: float) -> list[dict[str, Any]]:
    rows, block = [], f"blocks.{number}"
    for phase, factor in PHASES.items():
        for name, width in WIDTHS.items():
            pair = "matrix_bf16" if name.startswith("attn") else "matrix_fp32"
            work = _flop(pair, 2e7 * width * factor)
            traffic = {"bytes_l1": 8e5 * width * factor, "bytes_dram": 3e5 * width * factor}
            time = 400 * width * factor * slower
            rows.append(_row(f"{block}.{name}", phase, "mm", time, **work, **traffic))
        norm = _flop("vector_fp32", 4e5 * factor)
        traffic = {"bytes_l1": 1e6 * factor, "bytes_dram": 9e5 * factor}
        rows.append(_row(f"{block}.ln1", phase, "layer_norm", 130 * factor, **norm, **traffic))
        rows.append(_row(f"{block}.ln1", phase, "copy_", 60 * factor, bytes_l1=5e5 * factor,
                         bytes_dram=4e5 * factor, **_flop("vector_fp32", 0.0)))  # fmt: skip
    update = _flop("vector_fp32", 2e5)
    rows.append(_row(f"{block}.mlp.0", "optimizer", "adamw", 210, bytes_l1=2e6, **update))
    return rows


def rows(blocks: int = 3, slower: float = 1.0) -> list[dict[str, Any]]:
    """One step of the transformer; each block is a little slower than the one before."""
    found = [row for n in range(blocks) for row in _block(n, slower * (1 + 0.1 * n))]
    found.append(_row("GPT", "loss", "nll", 40, bytes_l1=1e4, **_flop("vector_fp32", 1e4)))
    return found


def transformer(blocks: int = 3, **run: Any) -> Profile:
    """Three steps of it."""
    everything, start = [], 0.0
    for step, slower in enumerate((1.0, 1.05, 1.1)):
        for row in rows(blocks, slower):
            everything.append(row | {"step": step, "start": start})
            start += row["duration"]
    layers = [{"name": "GPT", "type": "GPT", "depth": 0, "parameters": 9}] + [
        {"name": f"blocks.{n}.{name}", "type": "Linear", "depth": 3, "parameters": 1}
        for n in range(blocks)
        for name in WIDTHS
    ]
    wall = start / 3
    facts = {
        "name": "tiny-gpt", "program": ["python", "train.py"], "framework": "torch", "device": "cpu",
        "schedule": {"skip": 5, "steps": 3}, "how": {"time": "profiler", "work": "counted"},
        "steps": [{"step": n, "wall": 1.3 * wall} for n in range(3)], "status": "complete",
        "undisturbed_step": 1.2 * wall, "layers": layers, "warnings": [],
    }  # fmt: skip
    return Profile.from_rows(everything, facts | run)


def machine(**changes: Any) -> Machine:
    """Two formats, two levels; one roof from a data sheet."""
    how: dict[str, Any] = {"how": "framework-reachable", "samples": 5, "spread": 0.03}
    values: dict[str, Any] = {
        "name": "small cpu", "device": "cpu",
        "peaks": {
            (Pipe.VECTOR, Precision.FP32): Ceiling(60e9, kernel="add", **how),
            (Pipe.MATRIX, Precision.FP32): Ceiling(120e9, kernel="mm", **how),
            (Pipe.MATRIX, Precision.BF16): Ceiling(480e9, kernel="mm", **how | {"how": "datasheet"}),
        },
        "bandwidths": {
            MemoryLevel.L1: Ceiling(300e9, kernel="bmm", **how),
            MemoryLevel.DRAM: Ceiling(20e9, kernel="add", **how),
        },
        "launch_cost": Ceiling(2e-6, how="measured", kernel="empty add", samples=5),
        "shared_pipes": True,
    }  # fmt: skip
    return Machine(**values | changes)
