"""What Nsight Compute is asked for on a chip: exactly the metrics that the formulas need."""

from __future__ import annotations

from collections.abc import Iterator

from hroof.counters.chips import Chip, is_listed, table, work_metrics
from hroof.units import MemoryLevel, Pipe

PEAK = ".sum.peak_sustained"
SUM = ".sum"


def metrics(
    one: Chip | None, *, peaks: bool = True, cheap: bool = False, paths: bool = True
) -> tuple[str, ...]:
    """The metrics to ask for, as ``--metrics`` takes them.

    Args:
        one: The chip; None asks only for what every chip but those without DRAM counters has: no matrix work.
        peaks: Also ask for the rates that the chip can sustain and the clocks of its memory, of which a machine is
            made; they are constants and clocks.
        cheap: Only the time, the clock and the DRAM bytes.
        paths: The ncu lists operations of the matrix units (``sm__ops_path_tensor_…``): 2024.1 does, 2022.3 does
            not. Otherwise instructions are counted, from which FLOP follow only where the shape of the instruction
            is known.

    Returns:
        Full names with suffix, each once, in a fixed order.
    """
    names = [*table()["time"]["metrics"], *_bytes(one, cheap)]
    if not cheap:
        names += [metric + SUM for metric in _work(one, paths)]
    if peaks:
        names += _peaks(one, cheap, paths)
    return tuple(dict.fromkeys(names))


def _levels(one: Chip | None, cheap: bool) -> list[MemoryLevel]:
    levels = [MemoryLevel.DRAM] if cheap else [MemoryLevel.L1, MemoryLevel.L2, MemoryLevel.DRAM]
    return [level for level in levels if level is not MemoryLevel.DRAM or one is None or one.dram]


def _bytes(one: Chip | None, cheap: bool) -> list[str]:
    return [table()["bytes"][level] + SUM for level in _levels(one, cheap)]


def _work(one: Chip | None, paths: bool) -> Iterator[str]:
    for (pipe, _), counted in work_metrics(one).items():
        if paths or pipe is Pipe.VECTOR:
            yield from counted
    if not paths and (one is None or one.matrix):
        for metric, where in table()["instructions"].items():
            if is_listed(where, one):
                yield metric


def _peaks(one: Chip | None, cheap: bool, paths: bool) -> Iterator[str]:
    for level in _levels(one, cheap):
        yield table()["bytes"][level] + PEAK
        yield table()["clocks"][level]
    if cheap:
        return
    for (pipe, _), counted in work_metrics(one).items():
        for metric in counted:
            if (pipe is Pipe.MATRIX and paths) or "fma" in metric:
                yield metric + PEAK
