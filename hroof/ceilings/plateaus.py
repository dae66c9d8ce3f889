"""Plateaus of bandwidth over the working set: which levels a curve shows, and how large they are.

Two ways. ``blind`` knows nothing but the curve: it finds the plateaus and where each one ends.
``guided`` knows the sizes of the caches and reads one rate for each level off the curve; few points are
enough for it, and disturbed ones do not lead it astray, so it comes first wherever sizes are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from hroof.units import MemoryLevel

Curve = npt.NDArray[np.float64]

MOST_LEVELS = 4
_FINEST, _COARSEST = 16, 1
_FLAT = 0.3
_REACH = 0.5
_PENALTY = 0.026
_SHORTEST = 0.75
_SAME = 1.2
_ABOVE_LOWER, _BELOW_OWN = 2.0, 0.85
_FIRST_LEVEL = 8.0
_OUTSIDE = 6.0
_NEAR = 2.0
_ENOUGH = 4
_FEWEST_POINTS = 3


@dataclass(frozen=True, slots=True)
class Plateau:
    """A part of the curve in which the bandwidth does not depend on the size.

    Attributes:
        rate: B/s, the median over the plateau.
        first: Bytes of its smallest size.
        last: Bytes of its largest size: the capacity of what feeds it; for the outermost the end of the curve.
    """

    rate: float
    first: int
    last: int


# --- without knowledge --------------------------------------------------------------------------


def blind(
    sizes: Sequence[int], rates: Sequence[float], *, most: int = MOST_LEVELS
) -> tuple[Plateau, ...]:
    """Find the plateaus of a curve from nothing but the curve.

    1. Bring the curve onto a regular grid of log2 of the size.
    2. Take the median of three neighbours, which removes a single point that is too high.
    3. Take the running maximum from the right, since disturbance only ever lowers a rate.
    4. Keep what falls by less than 0.3 octaves of bandwidth per octave of size.
    5. Split that into constant pieces: the least sum of squares plus a penalty for each piece.
    6. Drop pieces that are shorter than 0.75 octaves, at the end of the curve half of that.
    7. Join neighbours whose rates differ by less than a factor of 1.2.

    Args:
        sizes: Bytes, rising.
        rates: B/s; NaN and anything else that is no positive number is left out.
        most: So many plateaus at most; the ones that differ least are joined.

    Returns:
        From the cores outwards, each slower than the one before; none where the curve has no plateau.

    Raises:
        ValueError: There is not one rate for each size.
    """
    known = _known(sizes, rates)
    if len(known) < _FEWEST_POINTS:
        return ()
    x, y = np.log2(np.array(known)).T
    per_octave = _points_per_octave(x)
    grid = x[0] + np.arange(math.floor((x[-1] - x[0]) * per_octave + 1e-6) + 1) / per_octave
    envelope = _falling(_median_of_three(np.interp(grid, x, y)))
    pieces = [
        piece
        for start, stop in _runs(_slope(envelope, per_octave) < _FLAT)
        for piece in _constant_pieces(envelope, start, stop, _PENALTY * per_octave)
        if _long_enough(piece, len(grid), per_octave)
    ]
    pieces = _joined(envelope, pieces, most)
    return _plateaus(grid, envelope, pieces)


def _known(sizes: Sequence[int], rates: Sequence[float]) -> list[tuple[int, float]]:
    """The points that have a rate, by rising size.

    Raises:
        ValueError: There is not one rate for each size.
    """
    if len(sizes) != len(rates):
        raise ValueError(f"there are {len(sizes)} sizes and {len(rates)} rates")
    pairs = sorted(zip(sizes, rates, strict=True))
    return [(size, rate) for size, rate in pairs if size > 0 and math.isfinite(rate) and rate > 0]


def _points_per_octave(x: Curve) -> int:
    """How fine a grid is worth while: as fine as the curve is, so that a spike stays a single point."""
    spacing = float(np.median(np.diff(x)))
    return min(max(round(1 / spacing), _COARSEST), _FINEST) if spacing > 0 else _COARSEST


def _median_of_three(y: Curve) -> Curve:
    """At the two ends, where a third is missing, the lower of two."""
    inner = np.median(np.stack([y[:-2], y[1:-1], y[2:]]), axis=0)
    return np.concatenate([[min(y[:2])], inner, [min(y[-2:])]])


def _falling(y: Curve) -> Curve:
    """The running maximum from the right."""
    return np.maximum.accumulate(y[::-1])[::-1]


def _slope(envelope: Curve, per_octave: int) -> Curve:
    """Octaves of bandwidth lost per octave of size, over half an octave on each side."""
    reach = max(round(_REACH * per_octave), 1)
    index = np.arange(len(envelope))
    low, high = np.maximum(index - reach, 0), np.minimum(index + reach, len(envelope) - 1)
    slope: Curve = (envelope[low] - envelope[high]) * per_octave / (high - low)
    return slope


def _runs(kept: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Start and stop of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(int)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _constant_pieces(y: Curve, start: int, stop: int, penalty: float) -> list[tuple[int, int]]:
    """Split ``y[start:stop]`` into constant pieces, by dynamic programming over the last cut."""
    total = np.concatenate([[0.0], np.cumsum(y)])
    square = np.concatenate([[0.0], np.cumsum(y * y)])
    least, cut = [0.0], [start]
    for end in range(start + 1, stop + 1):
        begin = np.arange(start, end)
        sums, squares = total[end] - total[begin], square[end] - square[begin]
        costs = np.array(least) + squares - sums * sums / (end - begin) + penalty
        best = int(np.argmin(costs))
        least.append(float(costs[best]))
        cut.append(start + best)
    pieces = []
    while stop > start:
        pieces.append((cut[stop - start], stop))
        stop = cut[stop - start]
    return pieces[::-1]


def _long_enough(piece: tuple[int, int], count: int, per_octave: int) -> bool:
    start, stop = piece
    shortest = _SHORTEST / 2 if stop == count else _SHORTEST
    return (stop - start) >= max(shortest * per_octave, 2)


def _joined(envelope: Curve, pieces: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Join neighbours, the nearest first, until all differ enough and there are few enough."""
    kept = list(pieces)
    while len(kept) > 1:
        levels = [_level(envelope, piece) for piece in kept]
        steps = [near - far for near, far in pairwise(levels)]
        least = int(np.argmin(steps))
        if steps[least] >= math.log2(_SAME) and len(kept) <= most:
            break
        kept[least : least + 2] = [(kept[least][0], kept[least + 1][1])]
    return kept


def _level(envelope: Curve, piece: tuple[int, int]) -> float:
    return float(np.median(envelope[slice(*piece)]))


def _plateaus(
    grid: Curve, envelope: Curve, pieces: Sequence[tuple[int, int]]
) -> tuple[Plateau, ...]:
    """A plateau ends at the last size that lies nearer to it than to the next one."""
    levels = [_level(envelope, piece) for piece in pieces]
    found = []
    for index, (start, _) in enumerate(pieces):
        last = len(grid) - 1
        if index + 1 < len(pieces):
            middle = (levels[index] + levels[index + 1]) / 2
            last = int(np.flatnonzero(envelope > middle)[-1])
        found.append(Plateau(2 ** levels[index], round(2 ** grid[start]), round(2 ** grid[last])))
    return tuple(found)


# --- with known sizes ---------------------------------------------------------------------------


def used_sizes(
    sizes: Sequence[int], caches: Mapping[MemoryLevel, int]
) -> dict[MemoryLevel, tuple[int, ...]]:
    """Which sizes of a sweep tell the rate of which level; those between two levels tell none.

    A cache is told by the sizes from twice the nearer cache to 0.85 of its own. Where no nearer one is
    known though there must be one, they begin at an eighth of its own. Where it is hardly larger than the
    nearer one, so that nothing lies between, the largest size within 0.85 of its own tells it. DRAM is
    told by sizes beyond six times the last cache, where hardly a hit is left.

    Args:
        sizes: Bytes, rising.
        caches: Bytes of each cache, in the same sense as ``sizes``: per thread or of all together.
    """
    found: dict[MemoryLevel, tuple[int, ...]] = {}
    lower = 0
    for level, own in _ordered(caches):
        low = _ABOVE_LOWER * lower if lower or level is MemoryLevel.L1 else own / _FIRST_LEVEL
        inside = [size for size in sizes if size <= _BELOW_OWN * own]
        found[level] = tuple(size for size in inside if size >= low)
        if _ABOVE_LOWER * lower > _BELOW_OWN * own:
            found[level] = tuple(inside[-1:])
        lower = own
    if lower:
        found[MemoryLevel.DRAM] = tuple(size for size in sizes if size > _OUTSIDE * lower)
    return {level: used for level, used in found.items() if used}


def _ordered(caches: Mapping[MemoryLevel, int]) -> list[tuple[MemoryLevel, int]]:
    """The caches that have a size, nearest to the cores first."""
    return [(level, caches[level]) for level in MemoryLevel if caches.get(level, 0) > 0]


def guided(
    sizes: Sequence[int], rates: Sequence[float], caches: Mapping[MemoryLevel, int]
) -> dict[MemoryLevel, float]:
    """Read the rate of each level off a curve, by the sizes of the caches.

    A cache has the second highest rate of its sizes, so that a single point that is too high does no
    harm, with fewer than four of them the highest; DRAM the median of the upper half.

    Args:
        sizes: Bytes.
        rates: B/s.
        caches: Bytes of each cache, in the same sense as ``sizes``.

    Returns:
        B/s for each level that the sizes can tell.

    Raises:
        ValueError: There is not one rate for each size.
    """
    curve = dict(_known(sizes, rates))
    return {
        level: _rate(level, sorted(curve[size] for size in used))
        for level, used in used_sizes(list(curve), caches).items()
    }


def _rate(level: MemoryLevel, rising: Sequence[float]) -> float:
    if level is MemoryLevel.DRAM:
        return float(np.median(rising[len(rising) // 2 :]))
    return rising[-2] if len(rising) >= _ENOUGH else rising[-1]


# --- names --------------------------------------------------------------------------------------


def named(
    plateaus: Sequence[Plateau], caches: Mapping[MemoryLevel, int]
) -> dict[MemoryLevel, Plateau]:
    """Which level each plateau is.

    As many plateaus as levels are the levels in their order, whatever the sizes: those that a hypervisor
    tells may be wrong. So are levels nearer than the first stated one, if there is a plateau for each
    of them. Otherwise the outermost is DRAM if it reaches beyond twice the last cache, and
    the others are the order-preserving choice that lies best within the stated sizes. Without any sizes
    the outermost is DRAM and the others are caches from L1 on.

    Args:
        plateaus: From the cores outwards.
        caches: Bytes of each cache, in the same sense as the plateaus; empty where none is known.

    Returns:
        The levels found. A single plateau is no level where no cache is known, since it may as well be
        the most that the kernel can do.
    """
    stated = _ordered(caches)
    inner = list(plateaus[:-1])
    if not stated:
        nearest = list(MemoryLevel)[: len(MemoryLevel) - 1]
        found = dict(zip(nearest, inner, strict=False))
        return found | {MemoryLevel.DRAM: plateaus[-1]} if inner else {}
    last = list(MemoryLevel).index(stated[-1][0]) + 1
    for levels in ([level for level, _ in stated], list(MemoryLevel)[:last]):
        if len(levels) == len(inner):
            return dict(zip([*levels, MemoryLevel.DRAM], plateaus, strict=True))
    if plateaus and plateaus[-1].last > _ABOVE_LOWER * stated[-1][1]:
        return _fitting(inner, stated) | {MemoryLevel.DRAM: plateaus[-1]}
    return _fitting(plateaus, stated)


def _fitting(
    plateaus: Sequence[Plateau], stated: Sequence[tuple[MemoryLevel, int]]
) -> dict[MemoryLevel, Plateau]:
    """Caches for plateaus, both in their order, so that as many octaves as can be lie where they should."""
    edges = [0.0, *(math.log2(size) for _, size in stated)]
    ranges = list(zip((level for level, _ in stated), pairwise(edges), strict=True))
    count = min(len(plateaus), len(ranges))
    choices = (
        list(zip(some, others, strict=True))
        for some in combinations(ranges, count)
        for others in combinations(plateaus, count)
    )
    best = max(choices, key=lambda pairs: sum(_overlap(one, edge) for (_, edge), one in pairs))
    return {level: one for (level, _), one in best}


def _overlap(plateau: Plateau, edge: tuple[float, float]) -> float:
    """Octaves of the plateau that lie between two sizes, given as log2."""
    low, high = max(math.log2(plateau.first), edge[0]), min(math.log2(plateau.last), edge[1])
    return max(high - low, 0.0)


def unexplained_knees(plateaus: Sequence[Plateau], caches: Mapping[MemoryLevel, int]) -> list[int]:
    """Sizes at which the bandwidth falls though no stated cache is of that size within a factor of 2.

    Nothing is said about sizes below the first stated cache where that is not L1: nearer ones are not stated.

    Args:
        plateaus: From the cores outwards.
        caches: Bytes of each cache, in the same sense as the plateaus.
    """
    stated = _ordered(caches)
    if not stated:
        return []
    nearest, size = stated[0]
    lowest = 0 if nearest is MemoryLevel.L1 else size
    return [
        plateau.last
        for plateau in plateaus[:-1]
        if plateau.last > lowest
        and not any(1 / _NEAR <= plateau.last / own <= _NEAR for _, own in stated)
    ]
