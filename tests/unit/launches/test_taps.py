"""Taps that meet an input element, by enumeration."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from hroof.launches.taps import valid_taps


@given(
    *(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5)),
    *(st.integers(1, 4), st.integers(-3, 5), st.integers(1, 3), st.integers(1, 3)),
)
@settings(max_examples=400)
def test_by_enumeration(
    inputs: int, outputs: int, kernel: int, stride: int, padding: int, dilation: int, spacing: int
) -> None:
    """An element lies at every ``spacing``-th place; taps and outputs are tried one by one."""
    elements = {place * spacing for place in range(inputs)}
    pairs = itertools.product(range(outputs), range(kernel))
    expected = sum(o * stride - padding + k * dilation in elements for o, k in pairs)
    assert valid_taps(inputs, outputs, kernel, stride, padding, dilation, spacing) == expected


def test_no_padding_needs_every_tap() -> None:
    assert valid_taps(10, 8, 3, 1, 0, 1) == 24
    assert valid_taps(10, 10, 3, 1, 1, 1) == 28
