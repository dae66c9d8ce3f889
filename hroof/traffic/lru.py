"""Caches that drop the least recently used bytes: what an op stream moves across each of them.

**Order within an op.** An op streams through all its buffers in lockstep: at the fraction x of its
run it is at the fraction x of each. One that touches less of a buffer than earlier ops did touches
the front of it.

**Hits.** Take the byte at offset o of a segment s that op j touched last and op k touches next.
Between the two touches pass, each distinct byte once:

* B, what ops strictly between them touched;
* of J, the other bytes that op j touched and nobody since, those after the byte: (1 - o/n_j)·J;
* of K, the other operands of op k that nobody touched since op j, those before it: (o/n_k)·K;
* all of s, since each of its bytes comes after o in op j or before o in op k,

with n_j and n_k the bytes of the buffer that the two ops touch. A fully associative cache of C
bytes that drops the least recently used byte still holds this one exactly when (Mattson et al.
1970)

    d(o) = |s| + B + (1 - o/n_j)·J + (o/n_k)·K  <=  C

On average over s, d is |s| + B + J/2 + K/2. Since d is linear in o, what a cache still holds of s
is one interval: hits are partial exactly where they are in a real LRU cache. A cyclic stream over
more than C has J = K and hits nothing, as there. Every cache is taken to see every touch, so that a
larger cache misses a subset of what a smaller one misses.

**Writes.** Caches write back, and allocate on a write without a fetch: a pure write never reads. A
dirty byte is written back when it has left the cache before its next touch, at the charge of the op
that *wrote* it; what is overwritten while resident never leaves. The price is that an op answers
for evictions that later ops cause; the gain is that a larger cache moves no more than a smaller
one for each op, and not only for the sum.

**Limits.** Reuse within an op is perfect. There is no associativity, prefetch, streaming store or
fetch on a write miss; distinct buffers never overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hroof.traffic.stream import Operand


def crossing(
    ops: Sequence[Sequence[Operand]], capacities: Sequence[float], *, warm: bool
) -> list[list[float]]:
    """Bytes that each op fetches into each cache or wrote there and that leave it dirty.

    Args:
        ops: The operands of each op of one step; no buffer twice in one op.
        capacities: Bytes of the caches, smallest first.
        warm: Count the second of two runs, otherwise the first, with a final write-back.

    Returns:
        One list per cache, with the bytes of each op.
    """
    caches = _Caches(capacities, period=len(ops), length=len(ops) * (2 if warm else 1))
    for op in ops:
        caches.run(op)
    if not warm:
        caches.flush()
        return caches.charges
    # Late evictions of what the first run wrote are settled in the second, exactly as those of the
    # second would be in a third. So what is charged from here on is one whole period.
    caches.charges = caches.no_charges()
    for op in ops:
        caches.run(op)
    return caches.charges


_NEVER = -1
_CLEAN = -1

_Interval = tuple[float, float]
_Window = tuple[float, float, float]
"""B, J and K of the module's formula since one time; J and K hold the segment itself as well."""


@dataclass(slots=True)
class _Segment:
    """Neighbouring bytes of a buffer with one history.

    Attributes:
        start: Offset of the first byte.
        end: Offset behind the last byte.
        last: When they were touched last (``_NEVER``: not yet).
        span: Bytes of the buffer that were touched then.
        writer: When they were written, if they are still dirty in some cache (``_CLEAN``: in none).
        dirty: Per cache the offsets that are still dirty in it; nothing when clean.
    """

    start: float
    end: float
    last: int
    span: float
    writer: int = _CLEAN
    dirty: list[_Interval] = field(default_factory=list)

    def cut(self, start: float, end: float) -> _Segment:
        """The part between two offsets."""
        dirty = [_common(part, (start, end)) for part in self.dirty]
        return _Segment(start, end, self.last, self.span, self.writer, dirty)

    def continues(self, before: _Segment) -> bool:
        """Whether nothing but the place tells this segment from the one before it."""
        pairs = zip(before.dirty, self.dirty, strict=True)
        return self.writer == before.writer and all(
            first[1] == second[0] or (first[0] == first[1] and second[0] == second[1])
            for first, second in pairs
        )

    def absorb(self, following: _Segment) -> None:
        """Take in the segment that continues this one."""
        pairs = zip(self.dirty, following.dirty, strict=True)
        self.end = following.end
        self.dirty = [
            (first[0], second[1] if first[1] == second[0] else first[1]) for first, second in pairs
        ]


def _common(one: _Interval, other: _Interval) -> _Interval:
    """The intersection; an empty one has its place within the second interval."""
    start = min(max(one[0], other[0]), other[1])
    return start, max(start, min(one[1], other[1]))


def _joined(segments: list[_Segment]) -> list[_Segment]:
    """Seamless neighbours made one, so that a buffer keeps few segments."""
    joined = segments[:1]
    for segment in segments[1:]:
        if segment.continues(joined[-1]):
            joined[-1].absorb(segment)
        else:
            joined.append(segment)
    return joined


class _Recency:
    """Bytes by the time they were touched last: a tree of sums with fan-out 64.

    O(log n) to add and to sum; wide and not binary because Python adds up a slice of a list fast.
    """

    def __init__(self, length: int) -> None:
        self._levels = [[0.0] * max(length, 1)]
        while len(self._levels[-1]) > 64:
            self._levels.append([0.0] * (len(self._levels[-1]) + 63 >> 6))

    def add(self, time: int, nbytes: float) -> None:
        """Add bytes that were touched at this time."""
        for level in self._levels:
            level[time] += nbytes
            time >>= 6

    def at(self, time: int) -> float:
        """Bytes touched then and not since."""
        return self._levels[0][time]

    def after(self, time: int) -> float:
        """Distinct bytes touched since then."""
        total, first = 0.0, time + 1
        for level in self._levels:
            block = first + 63 >> 6
            total += sum(level[first : block << 6])
            first = block
        return total


class _Caches:
    """Caches of all capacities, smallest first, while a stream runs through them.

    Attributes:
        charges: Per cache and op of the stream the bytes that cross the level below.
    """

    def __init__(self, capacities: Sequence[float], period: int, length: int) -> None:
        self._capacities = capacities
        self._period = period
        self._now = 0
        self._recency = _Recency(length)
        self._buffers: dict[int, list[_Segment]] = {}
        self.charges = self.no_charges()

    def no_charges(self) -> list[list[float]]:
        """A table of zeros."""
        return [[0.0] * self._period for _ in self._capacities]

    def run(self, op: Sequence[Operand]) -> None:
        """Let the next op touch its operands."""
        touched = [self._take(operand) for operand in op]
        sizes: dict[int, float] = {}
        for segments in touched:
            for segment in segments:
                sizes[segment.last] = sizes.get(segment.last, 0.0) + segment.end - segment.start
        windows = self._windows(sizes)
        for operand, segments in zip(op, touched, strict=True):
            for segment in segments:
                window = windows[segment.last]
                if len(segments) > 1 or operand.buffer in self._buffers:
                    rest = self._buffers.get(operand.buffer, [])
                    window = _own_order(segment, segments, rest, window)
                self._meet(segment, operand, window)
            self._leave(operand, segments)
        for last, size in sizes.items():
            if last != _NEVER:
                self._recency.add(last, -size)
        self._recency.add(self._now, sum(sizes.values()))
        self._now += 1

    def flush(self) -> None:
        """Write back whatever is dirty."""
        for segments in self._buffers.values():
            for segment in segments:
                for place, part in enumerate(segment.dirty):
                    self.charges[place][segment.writer % self._period] += part[1] - part[0]

    def _take(self, operand: Operand) -> list[_Segment]:
        """Cut the front of a buffer out of what is known about it."""
        known, nbytes = self._buffers.pop(operand.buffer, []), operand.nbytes
        end = known[-1].end if known else 0.0
        if end == nbytes:
            return known
        if end < nbytes:
            return [*known, _Segment(end, nbytes, _NEVER, nbytes)]
        count = next(i for i, segment in enumerate(known) if segment.end >= nbytes)
        split = known[count]
        rest = [] if split.end == nbytes else [split.cut(nbytes, split.end)]
        self._buffers[operand.buffer] = rest + known[count + 1 :]
        return [*known[:count], split.cut(split.start, nbytes)]

    def _windows(self, sizes: dict[int, float]) -> dict[int, _Window]:
        """The window since each time at which an operand was touched last."""
        windows: dict[int, _Window] = {}
        fresh = 0.0
        for last in sorted(sizes):
            fresh += sizes[last]
            if last == _NEVER:
                windows[last] = (math.inf, 0.0, 0.0)
            else:
                windows[last] = (self._recency.after(last), self._recency.at(last), fresh)
        return windows

    def _meet(self, segment: _Segment, operand: Operand, window: _Window) -> None:
        """Charge what the caches no longer hold of a segment that is touched again."""
        size = segment.end - segment.start
        first, final = _distances(segment, operand.nbytes, window)
        index = self._now % self._period
        for place, capacity in enumerate(self._capacities):
            if first <= capacity and final <= capacity:
                break  # every larger cache holds it as well
            held = _held(segment, first, final, capacity)
            if operand.read:
                self.charges[place][index] += size - (held[1] - held[0])
            if segment.writer != _CLEAN:
                self._write_back(segment, place, held)

    def _write_back(self, segment: _Segment, place: int, held: _Interval) -> None:
        """Charge the dirty bytes that one cache no longer holds to their writer."""
        dirty = segment.dirty[place]
        if dirty[0] < dirty[1]:
            still = _common(dirty, held) if held[0] < held[1] else held
            lost = (dirty[1] - dirty[0]) - (still[1] - still[0])
            self.charges[place][segment.writer % self._period] += lost
            segment.dirty[place] = still
            if place == len(self._capacities) - 1 and still[0] == still[1]:
                segment.writer, segment.dirty = _CLEAN, []

    def _leave(self, operand: Operand, segments: list[_Segment]) -> None:
        """Put the front of a buffer back, touched now."""
        now, nbytes = self._now, operand.nbytes
        if operand.written:
            dirty = [(0.0, nbytes)] * len(self._capacities)
            segments = [_Segment(0.0, nbytes, now, nbytes, now, dirty)]
        else:
            for segment in segments:
                segment.last, segment.span = now, nbytes
            if len(segments) > 1:
                segments = _joined(segments)
        self._buffers[operand.buffer] = segments + self._buffers.get(operand.buffer, [])


def _own_order(
    segment: _Segment, touched: list[_Segment], rest: list[_Segment], window: _Window
) -> _Window:
    """The window with what lies behind a segment in its own buffer put behind it, not beside it.

    Of the bytes that this op touches, older ones come after the segment, so they do not count; those
    that it leaves alone came after the segment in the op that touched both, so they count in full.
    """
    between, left, fresh = window
    older = sum(other.end - other.start for other in touched if other.last < segment.last)
    alone = sum(other.end - other.start for other in rest if other.last == segment.last)
    return between + alone, left - alone, fresh - older


def _distances(segment: _Segment, nbytes: float, window: _Window) -> tuple[float, float]:
    """Bytes d that pass between the last touch and this one, at the start and the end of a segment.

    Args:
        segment: What is touched again.
        nbytes: Bytes of its buffer that the op touches.
        window: B, J and K since the last touch.
    """
    start, end, span = segment.start, segment.end, segment.span
    size = end - start
    base, left, fresh = size + window[0], window[1] - size, window[2] - size
    first = base + (1 - start / span) * left + start / nbytes * fresh
    final = base + (1 - end / span) * left + end / nbytes * fresh
    return first, final


def _held(segment: _Segment, first: float, final: float, capacity: float) -> _Interval:
    """Offsets with d <= C, where d goes linearly from ``first`` to ``final``, not all of them."""
    start, end = segment.start, segment.end
    if first > capacity and final > capacity:
        return start, start
    cross = start + (end - start) * (capacity - first) / (final - first)
    return (start, cross) if first <= capacity else (cross, end)
