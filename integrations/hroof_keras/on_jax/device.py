"""The processor as JAX uses it: its caches, for the traffic model, and what a report says of it."""

from __future__ import annotations

from hroof.ceilings import host
from hroof.integration import Device


def cpu() -> Device:
    """Describe the processor; JAX runs the instructions of a program on a pool with a thread for each core."""
    cpus = host.usable_cpus()
    caches, source = host.find_caches(cpus)
    matrix_unit = "amx_tile" in host.cpu_flags()
    facts = {
        "threads": len(cpus),
        "cores": len(cpus),
        "affinity": host.ranges(cpus),
        "clock_limits": host.clock_limits(cpus),
        "cpu": host.cpu_model(),
        "matrix_unit": matrix_unit,
        "caches": [host.cache_fact(cache) for cache in caches],
        "cache_source": source,
    }
    totals = {cache.level: cache.total for cache in caches}
    return Device("cpu", host.cpu_model(), totals, shared_pipes=not matrix_unit, facts=facts)
