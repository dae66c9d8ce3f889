"""The labels of ncu's details page that stand for a metric with certainty.

Which metric a label shows depends on its section and, where versions of ncu disagree, on its unit. The
pairs are those of ncu 2022.3 and 2024.1, which print both the label and the name, and of the sections
that NVIDIA documents. Labels whose meaning has changed are not here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_KNOWN: Mapping[tuple[str, str], str] = {
    ("Achieved Occupancy", "%"): "sm__warps_active.avg.pct_of_peak_sustained_active",
    ("Block Size", ""): "launch__block_size",
    ("Compute (SM) Throughput", "%"): "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ("DRAM Bandwidth", "byte/second"): "dram__bytes.sum.per_second",
    ("DRAM Frequency", "hertz"): "dram__cycles_elapsed.avg.per_second",
    ("DRAM Throughput", "%"): "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    ("Duration", "second"): "gpu__time_duration.sum",
    ("Dynamic Shared Memory Per Block", "byte/block"): "launch__shared_mem_per_block_dynamic",
    ("Elapsed Cycles", "cycle"): "gpc__cycles_elapsed.max",
    ("Grid Size", ""): "launch__grid_size",
    ("L1/TEX Cache Throughput", "%"): "l1tex__throughput.avg.pct_of_peak_sustained_active",
    ("L1/TEX Hit Rate", "%"): "l1tex__t_sector_hit_rate.pct",
    ("L2 Cache Throughput", "%"): "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    ("L2 Hit Rate", "%"): "lts__t_sector_hit_rate.pct",
    ("Memory Frequency", "hertz"): "dram__cycles_elapsed.avg.per_second",
    ("Memory Throughput", "%"): "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ("Memory Throughput", "byte/second"): "dram__bytes.sum.per_second",
    ("Registers Per Thread", "register/thread"): "launch__registers_per_thread",
    ("SM Active Cycles", "cycle"): "sm__cycles_active.avg",
    ("Static Shared Memory Per Block", "byte/block"): "launch__shared_mem_per_block_static",
    ("Theoretical DRAM Bytes Accessible", "byte/cycle"): "dram__bytes.sum.peak_sustained",
    ("Theoretical Occupancy", "%"): "sm__maximum_warps_per_active_cycle_pct",
    ("Threads", "thread"): "launch__thread_count",
    ("Waves Per SM", ""): "launch__waves_per_multiprocessor",
}
"""Metric by label and dimension."""

_CLOCKS = {
    "GPU Speed Of Light Roofline Chart": "sm__cycles_elapsed.avg.per_second",
    "": "gpc__cycles_elapsed.avg.per_second",
}
"""What ``SM Frequency`` is, by section: the same clock, in different passes."""

_EXECUTED = re.compile(
    r"Predicated-On ([DF](?:ADD|MUL|FMA)) Thread Instructions Executed(?: Per Cycle)?"
)
_PEAK = re.compile(r"Theoretical Predicated-On ([DF]FMA) Thread Instructions Executed")


def metric(section: str, label: str, unit: str) -> str | None:
    """The metric that a label stands for; None where that is not certain.

    Args:
        section: The section of the row.
        label: What stands in the column ``Metric Name``.
        unit: The unit of the row.
    """
    if label == "SM Frequency":
        return _CLOCKS.get(section, _CLOCKS[""]) if dimension(unit) == "hertz" else None
    for pattern, form in (
        (_EXECUTED, "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"),
        (_PEAK, "sm__sass_thread_inst_executed_op_{}_pred_on.sum.peak_sustained"),
    ):
        found = pattern.fullmatch(label)
        if found and unit == "inst/cycle":
            return form.format(found[1].lower())
    return _KNOWN.get((label, dimension(unit)))


def dimension(unit: str) -> str:
    """A unit without its scale, in the longer spelling; ``hertz`` for cycles per second."""
    above, *below = unit.split("/")
    parts = [_unscaled(above), *map(_unscaled, below)]
    text = "/".join(parts)
    return "hertz" if text in ("cycle/second", "hz") else text


def _unscaled(part: str) -> str:
    part = re.sub(r"^[KMGT](?=byte|hz|cycle)", "", part)
    return "second" if re.fullmatch(r"[num]?(?:second|s)", part) else part
