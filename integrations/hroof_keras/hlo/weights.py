"""FLOP per element of HLO instructions by the published convention.

It is the convention of ``hroof_keras.counting.weights`` under the names of HLO; a test compares the two. Simple
arithmetic, a comparison that selects a value and one evaluation of a special function count 1. Moving,
comparing, converting and drawing count nothing.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_SIMPLE = """
    abs negate sign add subtract multiply divide remainder maximum minimum clamp power sqrt rsqrt cbrt
    exponential exponential-minus-one log log-plus-one sine cosine tan asin acos atan sinh cosh tanh
    asinh acosh atanh atan2 erf ceil floor round-nearest-afz round-nearest-even iota
"""

PER_ELEMENT: dict[str, float] = dict.fromkeys(words(_SIMPLE), 1.0) | {"logistic": 3.0}
"""FLOP per element of the result; operations on integers are counted as such."""

COMPLEX = {
    "add": "Add",
    "subtract": "Sub",
    "negate": "Neg",
    "multiply": "Mul",
    "divide": "Div",
}
"""Ops whose factor for complex numbers holds for an instruction; the others have the common factor."""

FREE = words(
    """
    parameter constant tuple get-tuple-element bitcast after-all add-dependency opt-barrier domain
    get-dimension-size set-dimension-size partition-id replica-id async-update
    async-done copy-done all-gather-done all-reduce-done collective-permute-done send-done recv-done
    """
)
"""Instructions that neither compute nor move anything themselves."""

MOVES = words(
    """
    bitcast-convert broadcast reshape dynamic-reshape transpose copy copy-start slice dynamic-slice
    dynamic-update-slice concatenate pad reverse gather select compare convert reduce-precision
    stochastic-convert and or not xor shift-left shift-right-logical shift-right-arithmetic popcnt
    count-leading-zeros is-finite real imag complex sort topk rng rng-bit-generator
    rng-get-and-update-state infeed outfeed send recv all-gather all-gather-start all-reduce
    all-reduce-start all-to-all ragged-all-to-all collective-permute collective-permute-start
    collective-broadcast reduce-scatter
    """
)
"""Instructions that move, compare, order, draw or exchange, and compute no FLOP."""
