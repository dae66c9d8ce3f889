"""Tables of counters in few words."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hroof.counters import Work, chip, work

VECTOR = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
PATH = "sm__ops_path_tensor_src_{}.sum"
PIPE = "sm__inst_executed_pipe_tensor.sum"
OPCODE = "sass__inst_executed_per_opcode_with_modifier_all:{}"


def table(**columns: Any) -> pd.DataFrame:
    """Short names become metrics: ``ffma``, ``src_fp16``, ``pipe``; others stay. A number is a single row."""
    short = {"pipe": PIPE, "time": "gpu__time_duration.sum"}
    frame = {}
    for name, values in columns.items():
        arithmetic = name.rstrip("2") in (
            "fadd",
            "fmul",
            "ffma",
            "dadd",
            "dmul",
            "dfma",
            "hadd",
            "hmul",
            "hfma",
        )
        path = PATH.format(name.removeprefix("src_")) if name.startswith("src_") else None
        metric = VECTOR.format(name) if arithmetic else path or short.get(name, name)
        frame[metric] = values if isinstance(values, list) else [values]
    return pd.DataFrame(frame, dtype="float64")


def worked(
    frame: pd.DataFrame, capability: str = "8.0", kernels: Sequence[str] = (), device: str = ""
) -> Work:
    """The work of a table, on the chip of a capability; without one on an unknown chip."""
    return work(frame, chip(capability, device), list(kernels) or ["k"] * len(frame))


def values(result: Work, column: str) -> list[float | None]:
    """A column as numbers, None for missing; all None where there is no such column."""
    if column not in result.columns:
        return [None] * len(result.columns)
    return [None if np.isnan(value) else value for value in result.columns[column].tolist()]


@pytest.fixture
def count() -> SimpleNamespace:
    """Helpers of this file, for tests."""
    return SimpleNamespace(
        table=table,
        worked=worked,
        values=values,
        opcode=OPCODE.format,
        pipe=PIPE,
        vector=VECTOR.format,
    )


@pytest.fixture
def solved() -> Callable[[str], Path]:
    """The folder of a solved case, by its number."""
    root = os.environ.get("HROOF_CASES")
    if not root:
        pytest.skip("HROOF_CASES is not set: the solved cases lie outside the repository")
    return lambda number: next(Path(root).glob(f"{number}-*"))
