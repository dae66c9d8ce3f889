"""Working sets: how much memory a kernel must touch so that one level, and no other, feeds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hroof.ceilings.host import Cache
from hroof.units import MemoryLevel

_FRACTIONS = (0.45, 0.6, 0.75)
_ABOVE_LOWER = 1.6
_BELOW_OWN = 0.9
_SMALL, _FAR_SMALLER = 4, 4
_ROOM = 2.0
_MEGABYTE = 1024**2
_ASSUMED_CACHE = 64 * _MEGABYTE
_WINDOW = 16 * _MEGABYTE
_WINDOW_PER_THREAD = 1 * _MEGABYTE
_OVER_CACHE = 8
ENOUGH_OVER_CACHE = 6
_SHARE_OF_MEMORY = 4


@dataclass(frozen=True, slots=True)
class WorkingSets:
    """Sizes that lie in one cache level.

    Attributes:
        level: The level.
        sizes: Bytes that each thread touches, smallest first.
        each: Every thread may have data of its own; otherwise the threads must share the same
            data to stay inside the level.
    """

    level: MemoryLevel
    sizes: tuple[int, ...]
    each: bool


def working_sets(caches: Sequence[Cache]) -> tuple[WorkingSets, ...]:
    """Three or four sizes per cache level, nearest level first.

    They lie at 0.45, 0.6 and 0.75 of the way from 1.6 × the nearer level to 0.9 × the level itself,
    which its sharing cores divide where that leaves room. Several sizes, because a fixed one meets
    associativity, neighbours and prefetchers; the best of them counts. A level that is far larger than the nearer one
    has a fourth, small one of 4 × the nearer level: a virtual machine often has only a part of the last cache.

    Args:
        caches: Distinct levels, in any order.

    Returns:
        A level that is no larger than the nearer one is left out.
    """
    nearest_first = sorted(caches, key=lambda cache: list(MemoryLevel).index(cache.level))
    lower = 0
    sets = []
    for cache in nearest_first:
        own = _between(cache, lower)
        if own is not None:
            sets.append(own)
        lower = cache.size
    return tuple(sets)


def _between(cache: Cache, lower: int) -> WorkingSets | None:
    low = _ABOVE_LOWER * lower
    whole = _BELOW_OWN * cache.size
    divided = whole / max(cache.sharers, 1)
    each = divided >= _ROOM * low
    high = divided if each else whole
    if high <= low:
        return None
    sizes = [int(low + share * (high - low)) for share in _FRACTIONS]
    small = _SMALL * lower
    if 0 < small < sizes[0] / _FAR_SMALLER:
        sizes.insert(0, small)
    return WorkingSets(cache.level, tuple(sizes), each)


@dataclass(frozen=True, slots=True)
class Windows:
    """Memory that a DRAM kernel walks through, one window per call.

    Attributes:
        count: How many windows.
        size: Bytes of one window.
        enough: All windows together are more than six times the last cache, so that a window has
            left it when its turn comes again.
    """

    count: int
    size: int
    enough: bool


def dram_windows(last_cache: int | None, available: int | None, threads: int) -> Windows:
    """Plan the windows for DRAM: eight times the last cache, at most a quarter of the free memory.

    Args:
        last_cache: Bytes of the last cache level, all instances; None where unknown (64 MiB taken).
        available: Bytes of free memory; None where unknown.
        threads: Threads that share a window.
    """
    last_cache = last_cache or _ASSUMED_CACHE
    window = max(_WINDOW, _WINDOW_PER_THREAD * threads)
    wanted = max(_OVER_CACHE * last_cache, 4 * window)
    total = wanted if available is None else min(wanted, available // _SHARE_OF_MEMORY)
    window = max(min(window, total // 4), _MEGABYTE)
    count = max(total // window, 2)
    return Windows(count, window, count * window > ENOUGH_OVER_CACHE * last_cache)
