"""Shapes, sizes and element types of HLO values."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("keras")

from hroof_keras.counting.flop import precision_of
from hroof_keras.graph.nodes import ITEMSIZE
from hroof_keras.hlo.shapes import Shape, dtype_name
from tests.integrations.hroof_keras.hlo.made import f32, shape, tuple_of


def test_sizes_and_bytes() -> None:
    assert (f32(2, 3).size, f32(2, 3).nbytes) == (6, 24.0)
    assert (f32().size, f32().nbytes) == (1, 4.0)
    assert (shape("bfloat16", 5).nbytes, shape("int4", 5).nbytes) == (10.0, 2.5)
    assert shape("token").nbytes == 0
    assert math.isnan(shape("unknown", 2).nbytes)


def test_tuples_add_up_and_are_as_large_as_their_first_array() -> None:
    both = tuple_of(f32(2, 3), tuple_of(shape("int8", 7), f32(1)))
    assert both.nbytes == 24 + 7 + 4
    assert (both.size, both.first) == (6, f32(2, 3))
    assert dict(both.leaves()) == {(0,): f32(2, 3), (1, 0): shape("int8", 7), (1, 1): f32(1)}
    assert both.at((1, 0)) == shape("int8", 7)
    assert dict(f32(4).leaves()) == {(): f32(4)}


def test_an_empty_tuple_holds_nothing() -> None:
    assert (tuple_of().nbytes, list(tuple_of().leaves())) == (0.0, [])
    assert tuple_of().first == Shape("token")


def test_types_have_the_bytes_that_they_have_in_graphs() -> None:
    """Numbers of four bits are packed in XLA, not in TensorFlow."""
    for number in range(1, 40):
        name = dtype_name(number)
        if name in ITEMSIZE and not name.endswith("int4"):
            assert Shape(name).itemsize == ITEMSIZE[name], name


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [
        ("float8_e4m3", "fp8"),
        ("float8_e3m4", "fp8"),
        ("float4_e2m1fn", "fp4"),
        ("bfloat16", "bf16"),
        ("complex128", "fp64"),
        ("uint4", "int4"),
        ("int64", "int32"),
    ],
)
def test_precisions(dtype: str, precision: str) -> None:
    assert precision_of(dtype).value == precision
