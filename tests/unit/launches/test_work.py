"""The value that a count is: sums, shares, what is missing."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hroof.launches import Work
from hroof.traffic import Access, Touch
from hroof.units import Pipe, Precision, Source

MATRIX, VECTOR = (Pipe.MATRIX, Precision.BF16), (Pipe.VECTOR, Precision.FP32)
ONE = Touch((Access(1, 8.0, True, False),))
TWO = Touch((Access(2, 4.0, False, True),))
PRODUCT = Work(
    {MATRIX: 100.0, VECTOR: 5.0}, {MATRIX: 50.0, VECTOR: 5.0}, 8.0, 0.0, Source.COUNTED, ONE
)
SUM = Work({VECTOR: 7.0}, {VECTOR: 7.0}, 0.0, 4.0, Source.CONVENTION, TWO)
UNKNOWN = Work(None, None, 3.0, 2.0, Source.MISSING)
VIEW = Work({}, {}, 0.0, 0.0, Source.COUNTED, is_view=True)


def test_flop_by_pipe() -> None:
    assert PRODUCT.flop() == 105
    assert PRODUCT.flop(Pipe.MATRIX) == 100
    assert PRODUCT.flop(Pipe.VECTOR) == 5
    assert VIEW.flop() == 0
    assert math.isnan(UNKNOWN.flop())


def test_total() -> None:
    total = Work.total([PRODUCT, SUM])
    assert total.nominal == {MATRIX: 100.0, VECTOR: 12.0}
    assert total.least == {MATRIX: 50.0, VECTOR: 12.0}
    assert (total.bytes_read, total.bytes_written) == (8.0, 4.0)
    assert total.source is Source.CONVENTION
    assert total.touch.accesses == (*ONE.accesses, *TWO.accesses)
    assert not total.is_view


def test_a_total_is_missing_where_a_part_is() -> None:
    total = Work.total([PRODUCT, UNKNOWN])
    assert total.nominal is None and total.least is None
    assert total.source is Source.MISSING
    assert total.bytes_read == 11.0


def test_a_total_of_nothing() -> None:
    total = Work.total([])
    assert (total.nominal, total.bytes_read, total.source) == ({}, 0, Source.COUNTED)
    assert not total.is_view


def test_a_total_of_views_is_one() -> None:
    assert Work.total([VIEW, VIEW]).is_view
    assert not Work.total([VIEW, SUM]).is_view


def test_shares_add_up() -> None:
    parts = [PRODUCT.scaled(share) for share in (0.25, 0.75)]
    total = Work.total(parts)
    assert (total.nominal, total.least) == (PRODUCT.nominal, PRODUCT.least)
    assert (total.bytes_read, total.source) == (PRODUCT.bytes_read, PRODUCT.source)


def test_a_share_of_the_unknown_is_unknown() -> None:
    share = UNKNOWN.scaled(0.5)
    assert share.nominal is None
    assert share.bytes_read == 1.5


def test_a_count_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SUM.bytes_read = 1.0  # type: ignore[misc]
