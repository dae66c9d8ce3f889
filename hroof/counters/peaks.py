"""The machine that a report itself describes: what each unit can sustain, times the clock it ran at.

A peak is ``<metric>.sum.peak_sustained`` (per cycle, all units together) × the clock of that unit in the same launch,
so it is a theoretical ceiling at the profiled clock. Matrix peaks are those without structured sparsity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from hroof.counters.chips import Chip, Pair, table, work_metrics
from hroof.counters.clock import APART, CLOCK
from hroof.counters.columns import Columns, Floats
from hroof.counters.matrix import source_precision
from hroof.counters.request import PEAK
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision, si

if TYPE_CHECKING:
    import pandas as pd

_KHZ_BELOW = 1e8
_SECTOR = 32
_LINE = 128
_BITS_PER_BYTE = 8
_TRANSFERS = 2
_PATH = "sm__ops_path_tensor_"
_SPARSE_RATIO = 2.0
_NEVER_SPARSE = (Precision.FP64, Precision.INT1)
_FFMA = "sm__sass_thread_inst_executed_op_ffma_pred_on"
_SM_COUNT = "device__attribute_multiprocessor_count"
_BUS = "device__attribute_global_memory_bus_width"
_MEMORY_CLOCK = "device__attribute_memory_clock_rate"
_NOMINAL_CLOCK = "device__attribute_clock_rate"

_WAYS: Mapping[MemoryLevel, tuple[tuple[str, float], ...]] = {
    MemoryLevel.L1: (
        ("l1tex__t_bytes", 1),
        ("derived__l1tex__lsu_writeback_bytes_mem_lgds", 1),
        ("derived__l1tex__lsu_writeback_bytes_mem_lg", 1),
        ("l1tex__lsu_writeback_active_mem_lgds", _LINE),
        ("l1tex__lsu_writeback_active_mem_lg", _LINE),
    ),
    MemoryLevel.L2: (
        ("lts__t_bytes", 1),
        ("derived__lts__lts2xbar_bytes", 1),
        ("lts__lts2xbar_cycles_active", _SECTOR),
    ),
    MemoryLevel.DRAM: (("dram__bytes", 1),),
}
"""Where the bytes per cycle of a level stand, best first, and the bytes per count."""


def machine(
    counters: pd.DataFrame, chip: Chip | None, name: str = "", device: str = "cuda:0"
) -> Machine | None:
    """The ceilings that a report carries.

    Args:
        counters: As in ``Raw.counters``, the launches of one device.
        chip: The chip; None where it is not known.
        name: Name of the device.
        device: Device as the framework calls it.

    Returns:
        None where the report has neither rates nor the facts they follow from.
    """
    columns = Columns(counters)
    peaks = dict(_matrix_peaks(columns, chip)) | dict(_vector_peaks(columns, chip))
    bandwidths = dict(_bandwidths(columns))
    derived = dict(_derived_peaks(columns, chip)) if chip is not None else {}
    streams = dict(_derived_bandwidths(columns, chip)) if chip is not None else {}
    if not (peaks or bandwidths or derived or streams):
        return None
    return Machine(
        name=name or (chip.name if chip is not None else "GPU"),
        device=device,
        peaks=derived | peaks,
        bandwidths=streams | bandwidths,
        facts=_facts(columns, chip),
        warnings=tuple(_warnings(columns, chip, set(peaks) | set(derived))),
    )


# --- peaks that the report states ---------------------------------------------------------------


def _per_cycle(columns: Columns, metric: str) -> Floats | None:
    unit, _, rest = metric.partition("__")
    for spelling in (metric, f"smsp__{rest}") if unit == "sm" else (metric,):
        found = columns.get(spelling + PEAK)
        if found is not None:
            return found
    return None


def _ceiling(rate: Floats | None, clock: Floats, metric: str, note: str = "") -> Ceiling | None:
    """The median over launches of a rate per cycle × the clock of the same launch."""
    if rate is None:
        return None
    values = rate * clock
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return None
    low, middle, high = np.percentile(values, (25, 50, 75)).tolist()
    at = si(float(np.nanmedian(clock)), "Hz")
    return Ceiling(
        middle,
        how="counter peak",
        kernel=metric,
        median=middle,
        spread=(high - low) / middle,
        samples=len(values),
        note=f"theoretical, at {at}" + (f"; {note}" if note else ""),
    )


def _best(ceilings: list[Ceiling | None]) -> Ceiling | None:
    known = [ceiling for ceiling in ceilings if ceiling is not None]
    return max(known, key=lambda ceiling: ceiling.rate, default=None)


def _vector_peaks(columns: Columns, chip: Chip | None) -> Iterator[tuple[Pair, Ceiling]]:
    for pair, metrics in work_metrics(chip).items():
        if pair[0] is Pipe.VECTOR:
            best = _best([
                _ceiling(_scaled(_per_cycle(columns, metric), flop), columns.clock, metric)
                for metric, flop in metrics.items()
            ])  # fmt: skip
            if best is not None:
                yield pair, best


def _scaled(rate: Floats | None, factor: float) -> Floats | None:
    return None if rate is None else rate * factor


def _matrix_peaks(columns: Columns, chip: Chip | None) -> Iterator[tuple[Pair, Ceiling]]:
    """Per precision the highest dense rate of any instruction and result format."""
    stated: dict[Precision, list[tuple[str, Floats | None]]] = {}
    for name in sorted(columns.names):
        if name.startswith(_PATH) and name.endswith(PEAK):
            precision = _of_name(name)
            if precision is not None:
                stated.setdefault(precision, []).append((name, columns.get(name)))
    factor = dense_factor(columns, chip)
    for precision, entries in stated.items():
        best = _best(list(_dense(entries, precision, columns.clock, factor)))
        if best is not None:
            yield (Pipe.MATRIX, precision), best


def _of_name(name: str) -> Precision | None:
    source = name.removeprefix(_PATH).removesuffix(PEAK).partition("src_")[2]
    for cut in ("_sparsity", "_dst"):
        source = source.partition(cut)[0]
    return source_precision(source)


def _dense(
    entries: list[tuple[str, Floats | None]], precision: Precision, clock: Floats, factor: float
) -> Iterator[Ceiling | None]:
    """Dense rates: those that say so, else of names without a suffix what is known to be dense."""
    said = [(name, rate) for name, rate in entries if "_sparsity_off" in name]
    if said and any(rate is not None for _, rate in said):
        for name, rate in said:
            yield _ceiling(rate, clock, name.removesuffix(PEAK))
        return
    for name, rate in entries:
        if "_sparsity_on" in name:
            yield _ceiling(
                _scaled(rate, 1 / _SPARSE_RATIO), clock, name.removesuffix(PEAK), _HALVED
            )
        elif precision in _NEVER_SPARSE:
            yield _ceiling(rate, clock, name.removesuffix(PEAK))
        elif math.isfinite(factor):
            note = _HALVED if factor < 1 else ""
            yield _ceiling(_scaled(rate, factor), clock, name.removesuffix(PEAK), note)


_HALVED = "half of the stated rate, which is that of structured sparsity"


def dense_factor(columns: Columns, chip: Chip | None) -> float:
    """What makes an un-suffixed matrix peak a dense one: 1, or 1/2 where it is the sparse rate; NaN if not known.

    All un-suffixed names of a chip are alike, so FP16 tells: its dense rate per SM is known, and the number of SMs
    follows from the FP32 peak or from the device.
    """
    if chip is None or not chip.matrix:
        return math.nan
    if chip.capability and float(chip.capability) < _FIRST_SPARSE:
        return 1.0
    sms = _sm_count(columns, chip)
    stated = [_per_cycle(columns, metric) for metric in _half_metrics(chip)]
    highest = max((_median(rate) for rate in stated if rate is not None), default=math.nan)
    ratio = highest / (sms * chip.dense)
    for factor in (1.0, 1 / _SPARSE_RATIO):
        if math.isclose(ratio * factor, 1.0, rel_tol=APART):
            return factor
    return math.nan


_FIRST_SPARSE = 8.0


def _half_metrics(chip: Chip) -> list[str]:
    return list(work_metrics(chip).get((Pipe.MATRIX, Precision.FP16), {}))


def _median(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else math.nan


def _fact(columns: Columns, *names: str) -> float:
    found = (columns.get(name) for name in names)
    return next((_median(values) for values in found if values is not None), math.nan)


def _sm_count(columns: Columns, chip: Chip) -> float:
    count = _fact(columns, _SM_COUNT)
    if math.isfinite(count):
        return count
    stated = _per_cycle(columns, _FFMA)
    return math.nan if stated is None else _median(stated) / chip.ffma


def _bandwidths(columns: Columns) -> Iterator[tuple[MemoryLevel, Ceiling]]:
    for level, ways in _WAYS.items():
        clock = columns.first(table()["clocks"][level])
        if level is MemoryLevel.L1:  # runs at the clock of its SM
            clock = columns.coalesce((clock, columns.clock))
        for metric, size in ways:
            ceiling = _ceiling(_scaled(columns.get(metric + PEAK), size), clock, metric)
            if ceiling is not None:
                yield level, ceiling
                break


# --- peaks that follow from what the device is --------------------------------------------------


def _derived_peaks(columns: Columns, chip: Chip) -> Iterator[tuple[Pair, Ceiling]]:
    """SMs × FLOP per SM and clock of this chip × the clock of the launches."""
    sms = _sm_count(columns, chip)
    per_sm: dict[Pair, float] = {
        (Pipe.VECTOR, Precision.FP32): 2 * chip.ffma,
        (Pipe.VECTOR, Precision.FP64): 2 * chip.dfma,
    }
    if chip.full_rate:
        listed = work_metrics(chip)
        dense = {(Pipe.MATRIX, q): chip.dense * times for q, times in _OF_DENSE.items()}
        per_sm |= {pair: flop for pair, flop in dense.items() if pair in listed}
    for pair, flop in per_sm.items():
        note = f"{flop:g} FLOP per SM and clock of {chip.name}"
        ceiling = _ceiling(np.full(columns.rows, sms * flop), columns.clock, "", note)
        if ceiling is not None:
            yield pair, ceiling


_OF_DENSE = {
    Precision.TF32: 0.5, Precision.FP16: 1.0, Precision.BF16: 1.0, Precision.FP8: 2.0, Precision.INT8: 2.0,
}  # fmt: skip
"""Matrix rates by format, in FP16 rates: GV100, GA100 and GH100 have them in common."""


def _derived_bandwidths(columns: Columns, chip: Chip) -> Iterator[tuple[MemoryLevel, Ceiling]]:
    """L1: SMs × bytes per SM and clock. DRAM: two transfers of the bus's width per memory clock."""
    l1 = np.full(columns.rows, _sm_count(columns, chip) * chip.l1)
    ceiling = _ceiling(l1, columns.clock, "", f"{chip.l1:g} B per SM and clock of {chip.name}")
    if ceiling is not None:
        yield MemoryLevel.L1, ceiling
    if not chip.dram:
        return
    width = _fact(columns, _BUS)
    rate = np.full(columns.rows, width / _BITS_PER_BYTE * _TRANSFERS)
    nominal = np.full(columns.rows, _hertz(_fact(columns, _MEMORY_CLOCK)))
    clock = columns.coalesce((columns.get(table()["clocks"][MemoryLevel.DRAM]), nominal))
    ceiling = _ceiling(rate, clock, "", f"from a bus of {width:g} bits")
    if ceiling is not None:
        yield MemoryLevel.DRAM, ceiling


def _hertz(rate: float) -> float:
    """A clock of the device's attributes, which are kilohertz: no such clock is below 100 MHz."""
    return rate * 1e3 if rate < _KHZ_BELOW else rate


# --- facts and doubts ---------------------------------------------------------------------------


def _facts(columns: Columns, chip: Chip | None) -> dict[str, float | str]:
    facts: dict[str, float | str] = {} if chip is None else {"chip": chip.name}
    found = {
        CLOCK: _median(columns.clock),
        "clock_nominal": _hertz(_fact(columns, _NOMINAL_CLOCK)),
        "clock_dram": _median(columns.first(table()["clocks"][MemoryLevel.DRAM])),
        "sms": _fact(columns, _SM_COUNT),
    }
    return facts | {key: value for key, value in found.items() if math.isfinite(value)}


def _warnings(columns: Columns, chip: Chip | None, peaks: set[Pair]) -> Iterator[str]:
    clocks = columns.clock[~np.isnan(columns.clock)]
    if len(clocks) and clocks.max() > clocks.min() * (1 + APART):
        yield (
            f"The SM clock of the launches was between {si(clocks.min(), 'Hz')} and {si(clocks.max(), 'Hz')}: the "
            "ceilings are those at its median."
        )
    if not len(clocks):
        yield "The report holds no SM clock, so it gives no compute ceiling."
    stated = {
        precision
        for name in columns.names
        if name.startswith(_PATH) and name.endswith(PEAK) and (precision := _of_name(name))
    }
    left = [q.value for q in Precision if q in stated and (Pipe.MATRIX, q) not in peaks]
    if left and len(clocks):
        yield (
            f"The matrix peaks of {', '.join(left)} are left out: whether the report states dense or sparse rates "
            "is not known on this chip."
        )
    if chip is not None and chip.matrix and not stated and not chip.full_rate:
        yield "The report holds no matrix peak, so matrix work has no ceiling."
