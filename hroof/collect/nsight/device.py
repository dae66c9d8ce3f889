"""Which GPU a program will see, as the driver's own tool tells it."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

_DRIVER = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
_SECONDS = 30.0
_QUERIES = ("index,uuid,compute_cap,name", "index,uuid,name")


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        index: Its number.
        uuid: Its lasting name.
        capability: Compute capability, e.g. ``9.0``; empty where the driver is too old to tell.
        name: As it is sold.
    """

    index: str
    uuid: str
    capability: str
    name: str


def has_driver() -> bool:
    """Whether the library of the CUDA driver can be loaded here."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError:
        return False
    return True


def first_gpu(env: Mapping[str, str] | None = None) -> Gpu | None:
    """The first GPU that a program sees; None where there is none or nvidia-smi does not tell.

    Args:
        env: Environment of the program, whose ``CUDA_VISIBLE_DEVICES`` counts; by default that of this process.
    """
    found = os.environ if env is None else env
    gpus = _gpus()
    wanted = found.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    visible = [gpu for gpu in gpus if wanted and wanted in (gpu.index, gpu.uuid[: len(wanted)])]
    return next(iter(visible or gpus), None)


def _gpus() -> list[Gpu]:
    for query in _QUERIES:
        lines = _asked(query)
        rows = [[field.strip() for field in line.split(",", query.count(","))] for line in lines]
        found = [row for row in rows if len(row) == query.count(",") + 1]
        if found:
            return [Gpu(row[0], row[1], row[2] if len(row) > 3 else "", row[-1]) for row in found]
    return []


def _asked(query: str) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
