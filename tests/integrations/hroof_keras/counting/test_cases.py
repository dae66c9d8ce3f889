"""What users of other tools met, in its form for TensorFlow: one policy for elementwise ops, zero-FLOP ops stay."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from hroof.launches import Work  # noqa: E402
from hroof.units import Pipe, Precision, Source  # noqa: E402
from tests.integrations.hroof_keras.counting.made import work  # noqa: E402

SIX = (2, 3)
ARITHMETIC = ("AddV2", "Sub", "Mul", "RealDiv")


def expected(number: str) -> dict[str, Any]:
    """The right answers of a solved case; skips where there is none."""
    folder = os.environ.get("HROOF_CASES")
    if not folder:
        pytest.skip("HROOF_CASES is not set: the solved cases lie outside the repository")
    (path,) = Path(folder).glob(f"{number}-*/expected.json")
    answers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["expect"]
    return answers


def elementwise(op: str) -> Work:
    return work(op, SIX, SIX, out=SIX)


def copied() -> Work:
    return work("Transpose", (1000, 1000), out=(1000, 1000), constants={1: [1, 0]})


def int8_product() -> Work:
    return work("MatMul", (10, 20), (20, 30), out=(10, 30), T=tf.int32)


@pytest.mark.parametrize("op", ARITHMETIC)
def test_simple_arithmetic_is_one_flop_per_element_whatever_the_op(op: str) -> None:
    counted = elementwise(op)
    assert counted.nominal == counted.least == {(Pipe.VECTOR, Precision.FP32): 6.0}
    assert counted.source is Source.CONVENTION


def test_case_24_one_policy_for_elementwise_ops() -> None:
    right = expected("24")
    works = [elementwise(op) for op in ARITHMETIC]
    assert sum(each.flop(Pipe.VECTOR) for each in works) in right["elementwise_flops_any_of"]
    assert sum(each.flop(Pipe.MATRIX) for each in works) == right["matmul_flops"]
    assert (elementwise("Sub").flop() == elementwise("AddV2").flop()) is right["sub_equals_add"]


def test_a_copy_has_bytes_and_no_flop() -> None:
    counted = copied()
    assert counted.nominal == {} and counted.source is Source.COUNTED
    assert counted.bytes_read >= 4e6 and counted.bytes_written == 4e6


def test_integer_operations_are_no_flop() -> None:
    counted = int8_product()
    assert counted.nominal is not None
    assert sum(counted.nominal.values()) == 2 * 10 * 20 * 30
    assert not any(precision.is_float for _, precision in counted.nominal)


def test_case_70_copies_and_integers_stay_apart_from_flop() -> None:
    right = expected("70")
    assert {"copy", "int8_gemm"} <= set(right["listed"]) - set(right["drawn"])
    floats = [
        value
        for counted in (copied(), int8_product(), elementwise("AddV2"))
        for (_, precision), value in (counted.nominal or {}).items()
        if precision.is_float
    ]
    assert floats == [6.0], "only what is drawn has FLOP"
