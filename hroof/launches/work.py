"""The work of one op: FLOP by pipe and precision, bytes, and what it touches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hroof.traffic import Touch
from hroof.units import Pipe, Precision, Source

Unit = tuple[Pipe, Precision]
Counts = dict[Unit, float]

NO_TOUCH = Touch(())
"""An op without buffers to follow."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one op must compute and move.

    Attributes:
        nominal: FLOP by the published convention (FMA = 2, padding taps and masked scores counted). An empty
            mapping is an op that computes nothing; None is an op without a FLOP rule, never zero.
        least: FLOP that a direct implementation must execute: half for causal attention, no padding taps,
            one per element for elementwise work, reductions and normalisation. None like ``nominal``.
        bytes_read: Bytes of the distinct elements that must be read.
        bytes_written: Bytes of the distinct elements that must be written.
        source: ``COUNTED`` for exact FLOP (matrix work and ops that compute nothing), ``CONVENTION`` for
            weights per element, ``MISSING`` without a rule. An op with matrix work is ``COUNTED``: its
            bias or softmax part, on the vector pipe, still follows the convention.
        touch: Buffers and matrix shape, for the traffic model. A buffer is the address of its storage, or a
            number of its own for tensors without data.
        is_view: Every result only aliases an input; nothing moves.
    """

    nominal: Counts | None
    least: Counts | None
    bytes_read: float
    bytes_written: float
    source: Source
    touch: Touch = NO_TOUCH
    is_view: bool = False

    def flop(self, pipe: Pipe | None = None) -> float:
        """Σ nominal FLOP (and integer operations) of one pipe or of both; NaN without a rule."""
        if self.nominal is None:
            return float("nan")
        return sum(value for (unit, _), value in self.nominal.items() if pipe in (None, unit))

    def scaled(self, share: float) -> Work:
        """A share of this work; buffers stay as they are."""
        return Work(
            _scaled(self.nominal, share),
            _scaled(self.least, share),
            self.bytes_read * share,
            self.bytes_written * share,
            self.source,
            self.touch,
            self.is_view,
        )

    @staticmethod
    def total(works: Iterable[Work]) -> Work:
        """The sum: as well known as its worst part, and missing where a part has no rule."""
        parts = list(works)
        accesses = tuple(access for work in parts for access in work.touch.accesses)
        return Work(
            _summed(work.nominal for work in parts),
            _summed(work.least for work in parts),
            sum(work.bytes_read for work in parts),
            sum(work.bytes_written for work in parts),
            max((work.source for work in parts), key=list(Source).index, default=Source.COUNTED),
            Touch(accesses),
            bool(parts) and all(work.is_view for work in parts),
        )


def _scaled(counts: Mapping[Unit, float] | None, share: float) -> Counts | None:
    return None if counts is None else {unit: value * share for unit, value in counts.items()}


def _summed(many: Iterable[Counts | None]) -> Counts | None:
    total: Counts = {}
    for counts in many:
        if counts is None:
            return None
        for unit, value in counts.items():
            total[unit] = total.get(unit, 0.0) + value
    return total
