"""The speed of reading ncu's tables, as ratios to pandas within one run."""

from __future__ import annotations

import gzip
import io
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hroof.readers import ncu_csv

pytestmark = pytest.mark.perf

LAUNCHES, METRICS = 4000, 240
UNITS = ("byte", "nsecond", "inst", "cycle", "sector", "cycle/second", "%", "warp")
"""Two of eight columns have decimals, as in a raw page of all sections."""
HEADER = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
SHAPE = ["Block Size", "Grid Size", "Device", "CC"]
KERNELS = [
    f"void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_{at}<float>, "
    "std::array<char *, (unsigned long)3>>(int, at::native::CUDAFunctor_add<float>, std::array<char *, 3>)"
    for at in range(80)
]


def line(fields: Sequence[object]) -> str:
    return ",".join(f'"{field}"' for field in fields) + "\n"


def number(draw: random.Random, unit: str, *, grouped: bool) -> str:
    """A number as ncu prints it in base units; one in three is zero."""
    value = draw.randrange(10 ** draw.randrange(1, 9)) * (draw.random() > 0.33)
    decimals = 2 if unit in ("%", "cycle/second") and value else 0
    return f"{value:,.{decimals}f}" if grouped else f"{value:.{decimals}f}"


def raw_page(*, grouped: bool) -> bytes:
    """A raw page, its digits grouped or not."""
    draw = random.Random(7)
    names = [f"unit{at}__counter_{at}.sum" for at in range(METRICS)]
    units = [UNITS[at % len(UNITS)] for at in range(METRICS)]
    text = io.StringIO()
    text.write(line([*HEADER, *SHAPE, *names]) + line([""] * 11 + units))
    for at in range(LAUNCHES):
        first = [at, 42, "python3.11", "127.0.0.1", draw.choice(KERNELS), 1, 7]
        shape = ["(128, 1, 1)", f"({draw.randrange(1, 99)}, 1, 1)", 0, "8.0"]
        text.write(line([*first, *shape, *(number(draw, unit, grouped=grouped) for unit in units)]))
    return text.getvalue().encode()


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Skips on a machine whose cores have other work: reading uses several, pandas one."""
    cores = os.cpu_count() or 1
    if os.getloadavg()[0] > cores + 0.5:
        pytest.skip(f"this machine is busy: {os.getloadavg()[0]:.1f} programs on {cores} cores")


def medians(*ways: Callable[[], Any], rounds: int = 7) -> list[float]:
    """The median time of each way, in seconds; they take turns."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, own in zip(ways, times, strict=True):
            start = time.perf_counter()
            way()
            own.append(time.perf_counter() - start)
    return [statistics.median(own[1:]) for own in times]


@pytest.mark.parametrize(
    ("grouped", "least"), [(False, 0.8), (True, 0.5)], ids=["plain", "thousands"]
)
def test_a_raw_page_is_read_about_as_fast_as_pandas_reads_it(
    tmp_path: Path, grouped: bool, least: float
) -> None:
    """Separators of thousands cost a pass of their own, since pandas takes them for granted."""
    path = tmp_path / "raw.csv"
    path.write_bytes(raw_page(grouped=grouped))
    thousands = "," if grouped else None
    ours, theirs = medians(
        lambda: ncu_csv.read([path]),
        lambda: pd.read_csv(path, skiprows=[1], engine="c", thousands=thousands),
    )
    rate = LAUNCHES * METRICS / ours
    print(
        f"\n{rate / 1e6:.1f} million values per second; {theirs / ours:.2f} times the speed of pandas"
    )
    assert theirs / ours > least


METRIC_FILES = [f"unit__counter_{at}.sum" for at in range(10)] + [
    "sm__cycles_elapsed.avg.per_second"
]
LONG = [
    *HEADER[:5],
    "Kernel Time",
    "Context",
    "Stream",
    "Section Name",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
]


def one_metric(name: str, seed: int) -> bytes:
    """A file of one metric, after lines of a program; the order of launches depends on the seed."""
    draw = random.Random(1)
    kernels = [draw.choice(KERNELS) for _ in range(LAUNCHES)]
    random.Random(seed).shuffle(kernels)
    text = io.StringIO()
    text.write("==PROF== Connected to process 42\nepoch 0\n" + line(LONG))
    for at, kernel in enumerate(kernels):
        name_of = f"{kernel} [with {kernel}]"  # names of templates have hundreds of letters
        stamp = [42, "python3.7", "127.0.0.1", name_of, "2020-Jun-09 13:48:55", 1, 7]
        text.write(line([at, *stamp, "Command line", name, "inst", draw.randrange(10**9)]))
    return text.getvalue().encode()


def by_hand(paths: Sequence[Path]) -> pd.DataFrame:
    """What people write: find the header, sum each metric by kernel name, put the metrics side by side."""
    whole = None
    for path in paths:
        with gzip.open(path, "rt") as file:
            lines = file.readlines()
        start = next(at for at, text in enumerate(lines) if "Host Name" in text)
        table = pd.read_csv(io.StringIO("".join(lines[start:])))
        name = table["Metric Name"][0]
        sums = table.groupby("Kernel Name")["Metric Value"].sum().rename(name).reset_index()
        whole = sums if whole is None else whole.merge(sums, on="Kernel Name")
    assert whole is not None
    return whole


@pytest.mark.parametrize("shuffled", [False, True], ids=["same order", "other order"])
def test_joining_files_is_faster_than_by_hand(tmp_path: Path, shuffled: bool) -> None:
    paths = []
    for at, name in enumerate(METRIC_FILES):
        paths.append(tmp_path / f"{name}.csv.gz")
        paths[-1].write_bytes(gzip.compress(one_metric(name, at if shuffled else 0), mtime=0))
    ours, theirs = medians(lambda: ncu_csv.read(paths), lambda: by_hand(paths), rounds=5)
    rate = LAUNCHES * len(paths) / ours
    print(
        f"\n{rate / 1e6:.2f} million values per second; {theirs / ours:.2f} times the speed of pandas"
    )
    assert theirs / ours > 1.0
    assert bool(ncu_csv.read(paths).launches["aggregate"].all()) == shuffled
