"""Runs as large as one likes, made up: what the reports of a long training step have to cope with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hroof.machine import Ceiling, Machine
from hroof.profile import Profile, bytes_column, flop_column, source_column
from hroof.units import MemoryLevel, Pipe, Precision

BF16, F32 = (Pipe.MATRIX, Precision.BF16), (Pipe.VECTOR, Precision.FP32)
LEVELS = (MemoryLevel.L1, MemoryLevel.L2, MemoryLevel.DRAM)
KERNELS = [
    f"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_{at}<float>>(int)"
    for at in range(60)
]
PHASES = ("forward", "backward", "optimizer")


def layer_names(count: int) -> list[str]:
    """Names as those of a transformer: blocks of ten layers."""
    block = ("norm1", "attn.qkv", "attn.scores", "attn.proj", "residual1")
    parts = [*block, "norm2", "mlp.fc1", "mlp.act", "mlp.fc2", "residual2"]
    return [f"model.blocks.{at // 10}.{parts[at % 10]}" for at in range(count)]


def large_profile(
    layers: int = 1000, launches: int = 100_000, steps: int = 4, *, seed: int = 0
) -> Profile:
    """A run on a device, counted by hardware.

    Args:
        layers: Layers that have launches.
        launches: Launches of all steps together.
        steps: Captured steps, which launch the same.
        seed: Other durations.
    """
    draw = np.random.default_rng(1)
    noise = np.random.default_rng(seed)
    per = launches // steps
    names = layer_names(layers)
    once = {
        "layer": draw.permutation(np.arange(per) % layers),
        "phase": np.arange(per) * len(PHASES) // per,
        "kernel": draw.integers(0, len(KERNELS), per),
        "kind": draw.choice(3, per, p=[0.3, 0.5, 0.2]),  # a product, elementwise work, a copy
        "work": draw.lognormal(0, 1, per),
    }
    every = {name: np.tile(column, steps) for name, column in once.items()}
    duration = 2e-6 + 2e-5 * every["work"] * noise.uniform(0.95, 1.05, per * steps)
    columns: dict[str, Any] = {
        "launch_id": np.arange(per * steps),
        "step": np.repeat(np.arange(steps), per),
        "device": "cuda:0",
        "stream": 7,
        "layer": np.array(names, dtype=object)[every["layer"]],
        "layer_type": np.array(["Norm", "Linear", "Dropout"], dtype=object)[every["layer"] % 3],
        "phase": np.array(PHASES, dtype=object)[every["phase"]],
        "op": np.array([f"aten::op{at}" for at in range(40)], dtype=object)[every["kernel"] % 40],
        "kernel": np.array(KERNELS, dtype=object)[every["kernel"]],
        "start": np.cumsum(duration) - duration,
        "duration": duration,
        **{source_column(name): "counter" for name in ("time", "flop", *LEVELS)},
    }
    for convention in ("nominal", "least"):
        columns[flop_column(convention, *BF16)] = (
            np.where(every["kind"] == 0, 5e8, 0) * every["work"]
        )
        columns[flop_column(convention, *F32)] = np.where(every["kind"] < 2, 1e6, 0) * every["work"]
    for at, level in enumerate(LEVELS):
        columns[bytes_column(level)] = 8e6 * every["work"] / (at + 1)
    run = {
        "name": "large", "framework": "torch", "device": "cuda:0", "status": "complete",
        "steps": [{"step": at, "wall": float(duration.sum()) / steps * 1.1} for at in range(steps)],
        "layers": [{"name": "", "type": "Model", "depth": 0, "parameters": 10 * layers}]
        + [{"name": n, "type": "Linear", "depth": n.count("."), "parameters": 10} for n in names],
    }  # fmt: skip
    return Profile.from_rows(pd.DataFrame(columns), run)


def large_machine() -> Machine:
    """A device on which most of it is bound by memory."""
    bandwidths = zip(LEVELS, (12e12, 4e12, 1.5e12), strict=True)
    return Machine(
        "large device",
        "cuda:0",
        {BF16: Ceiling(200e12, how="measured"), F32: Ceiling(19e12, how="measured")},
        {level: Ceiling(rate, how="measured") for level, rate in bandwidths},
        Ceiling(3e-6, how="measured"),
    )
