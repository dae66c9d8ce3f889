"""Small tables in the forms that ncu prints, with numbers of our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

IDENTITY = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
SHAPE = ["Block Size", "Grid Size", "Device", "CC"]
LONG = ["Section Name", "Metric Name", "Metric Unit", "Metric Value"]
PUSH = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
START = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"

Metrics = Mapping[str, tuple[str, Sequence[object]]]
"""By metric: its unit, and its values."""


def line(fields: Sequence[object]) -> str:
    """Fields as ncu prints them: all in quotes, quotes doubled."""
    return ",".join('"' + str(field).replace('"', '""') + '"' for field in fields) + "\n"


def launch(at: int, kernel: str, nvtx: Sequence[str] = (), process: int = 42) -> list[object]:
    """The columns that say which launch it is."""
    shape = ["(128, 1, 1)", f"({at + 1}, 1, 1)", "0", "8.0"]
    return [at, process, "python3", "127.0.0.1", *nvtx, kernel, "1", "7", *shape]


def raw_text(kernels: Sequence[str], metrics: Metrics, *, process: int = 42) -> str:
    """A raw page: one row per launch, units in the second row."""
    text = line([*IDENTITY, *SHAPE, *metrics])
    text += line([""] * 11 + [unit for unit, _ in metrics.values()])
    for at, kernel in enumerate(kernels):
        values = [column[at] for _, column in metrics.values()]
        text += line([*launch(at, kernel, process=process), *values])
    return text


def long_text(kernels: Sequence[str], metrics: Metrics, *, process: int = 42) -> str:
    """What ``--metrics`` prints: one row per launch and metric."""
    text = line([*IDENTITY, *SHAPE, *LONG])
    for at, kernel in enumerate(kernels):
        for name, (unit, column) in metrics.items():
            row = launch(at, kernel, process=process)
            text += line([*row, "Command line profiler metrics", name, unit, column[at]])
    return text


def nvtx_text(rows: Sequence[tuple[str, str, str]]) -> str:
    """A raw page with NVTX columns, from (push/pop cell, start/end cell, kernel); times 1 ns, 2 ns, …."""
    header = [*IDENTITY[:4], PUSH, START, *IDENTITY[4:], *SHAPE, "gpu__time_duration.sum"]
    text = line(header) + line([""] * 13 + ["nsecond"])
    for at, (push, start, kernel) in enumerate(rows):
        text += line([*launch(at, kernel, (push, start)), at + 1])
    return text


@pytest.fixture
def raw_page() -> Callable[..., str]:
    """Makes a raw page of kernels and metrics."""
    return raw_text


@pytest.fixture
def long_page() -> Callable[..., str]:
    """Makes a long table of kernels and metrics."""
    return long_text


@pytest.fixture
def nvtx_page() -> Callable[..., str]:
    """Makes a raw page with NVTX columns."""
    return nvtx_text


@pytest.fixture
def row() -> Callable[[Sequence[object]], str]:
    """Makes one line of a table."""
    return line


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of text or bytes."""

    def write(content: str | bytes, name: str = "out.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def block() -> Callable[..., str]:
    """Makes a block of an NVTX cell, e.g. ``"<default domain>:fc:none:none:none:none:none:none"``."""

    def make(name: str, domain: str = "<default domain>", message: Any = "none") -> str:
        return f'"{domain}:{name}:none:none:none:none:ASCII:{message}"'

    return make
