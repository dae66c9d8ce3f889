"""Bytes that cross each memory level, from the best counter that each launch has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hroof.counters.chips import Chip
from hroof.counters.columns import Columns, Floats
from hroof.units import MemoryLevel

_SECTOR = 32
_LINE = 128
_SINCE_LGDS = 9.0
_SINCE_LG = 7.5

Way = Callable[[Columns], Floats | None]


@dataclass
class Traffic:
    """Bytes by level, NaN where not known, and sentences for the reader."""

    bytes: dict[MemoryLevel, Floats]
    notes: list[str]


def traffic(columns: Columns, chip: Chip | None) -> Traffic:
    """The bytes of every launch. Counters of bytes go before sectors, of 32 bytes each.

    Shared memory is in none of them, nor is a level that the chip does not count.
    """
    result = Traffic({}, [])
    for level, ways in _WAYS.items():
        total = np.full(columns.rows, np.nan)
        for way, note in ways(chip):
            column = way(columns)
            if column is None:
                continue
            filled = np.isnan(total) & ~np.isnan(column)
            total = np.where(filled, column, total)
            if note and filled.any():
                result.notes.append(note)
        if not np.isnan(total).all():
            result.bytes[level] = total
    if chip is not None and not chip.dram:
        result.notes.append(
            f"{chip.name} shares the memory of its CPU and has no DRAM counters: DRAM bytes are missing."
        )
    return result


# --- ways to the bytes --------------------------------------------------------------------------


def _of(metric: str, size: int = 1) -> Way:
    def way(columns: Columns) -> Floats | None:
        count = columns.count(metric)
        return None if count is None else count * size

    return way


def _sum(first: str, second: str, size: int = 1) -> Way:
    def way(columns: Columns) -> Floats | None:
        one, other = columns.count(first), columns.count(second)
        return None if one is None or other is None else (one + other) * size

    return way


def _l1(chip: Chip | None) -> Iterator[tuple[Way, str]]:
    yield _of("l1tex__t_bytes"), ""
    yield _of("l1tex__t_sectors", _SECTOR), ""
    for unit in _writebacks(chip):
        note = (
            f"L1 bytes are {unit} × 128 B, as in NVIDIA's own Roofline: what L1 returned to the cores"
            f"{', shared memory not included' if unit.endswith('_mem_lg') else ''}."
        )
        yield _of(unit, _LINE), note
        yield _of(f"derived__{unit.replace('_active', '_bytes')}"), note


def _writebacks(chip: Chip | None) -> list[str]:
    """The counters that NVIDIA's sections take for L1: by chip, since the narrower are not on all."""
    names = [f"l1tex__lsu_writeback_active{end}" for end in ("_mem_lgds", "_mem_lg", "")]
    if chip is None:
        return names[:2]
    newest = not chip.capability
    capability = np.inf if newest else float(chip.capability)
    return (
        names[:1]
        if capability >= _SINCE_LGDS
        else names[1:2]
        if capability >= _SINCE_LG
        else names[2:]
    )


def _l2(chip: Chip | None) -> Iterator[tuple[Way, str]]:
    note = "L2 bytes are lts__lts2xbar_cycles_active × 32 B, as in NVIDIA's own Roofline: what L2 returned."
    yield _of("lts__t_bytes"), ""
    yield _of("lts__t_sectors", _SECTOR), ""
    yield _of("lts__lts2xbar_cycles_active", _SECTOR), note
    yield _of("derived__lts__lts2xbar_bytes"), note


def _dram(chip: Chip | None) -> Iterator[tuple[Way, str]]:
    yield _of("dram__bytes"), ""
    yield _sum("dram__bytes_read", "dram__bytes_write"), ""
    yield _sum("dram__bytes_op_read", "dram__bytes_op_write"), ""
    yield _of("dram__sectors", _SECTOR), ""
    yield _sum("dram__sectors_read", "dram__sectors_write", _SECTOR), ""
    if chip is not None and not chip.dram:
        note = "DRAM bytes are sectors of system memory that L2 did not hold × 32 B."
        yield _of("lts__t_sectors_aperture_sysmem_lookup_miss", _SECTOR), note


_WAYS: dict[MemoryLevel, Callable[[Chip | None], Iterator[tuple[Way, str]]]] = {
    MemoryLevel.L1: _l1,
    MemoryLevel.L2: _l2,
    MemoryLevel.DRAM: _dram,
}
