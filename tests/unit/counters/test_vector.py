"""Vector FLOP: weights, upper bounds, what was not collected."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.counters import chip, work
from hroof.counters.columns import OPCODES, THREADS

NAN = math.nan
HALF = "flop_{}_vector_fp16"


@pytest.mark.parametrize(
    ("counts", "column", "flop"),
    [
        ({"fadd": 1, "fmul": 10, "ffma": 100}, "fp32", 211),
        ({"dadd": 1, "dmul": 10, "dfma": 100}, "fp64", 211),
        ({"hadd": 1, "hmul": 10, "hfma": 100}, "fp16", 422),
    ],
)
def test_weights(
    count: SimpleNamespace, counts: dict[str, float], column: str, flop: float
) -> None:
    result = count.worked(count.table(**counts), "8.6")
    for convention in ("nominal", "least"):
        assert count.values(result, f"flop_{convention}_vector_{column}") == [flop]


def test_packed_singles_of_blackwell_are_work_of_their_own(count: SimpleNamespace) -> None:
    frame = count.table(ffma=1, fadd2=10, fmul2=100, ffma2=1000)
    assert count.values(count.worked(frame, "10.0"), "flop_nominal_vector_fp32") == [
        2 + 20 + 200 + 4000
    ]
    # Other chips have no such instruction.
    assert count.values(count.worked(frame, "12.0"), "flop_nominal_vector_fp32") == [2]


def test_an_unknown_chip_has_the_weights_that_all_have(count: SimpleNamespace) -> None:
    assert count.values(
        count.worked(count.table(ffma=3, hfma=1), ""), "flop_least_vector_fp16"
    ) == [4]


def test_zero_is_a_number_and_missing_is_not(count: SimpleNamespace) -> None:
    result = count.worked(
        count.table(ffma=[0, NAN, 5], fadd=[0, 1, 1], pipe=[0, 0, 0]), kernels=["a", "b", "c"]
    )
    assert count.values(result, "flop_nominal_vector_fp32") == [0, None, 11]
    assert result.columns["source_flop"].tolist() == ["counter", "missing", "counter"]
    assert any(
        "1 launch (b): FLOP unknown, since counts of vector" in note for note in result.notes
    )


def test_what_was_not_collected_is_told(count: SimpleNamespace) -> None:
    notes = count.worked(count.table(ffma=1, fadd=1), "8.6").notes
    assert "Not collected, so not in the FLOP: fp64, fmul, fp16." in notes


def test_without_vector_counters_zero_is_not_known(count: SimpleNamespace) -> None:
    result = count.worked(count.table(src_fp16=[0, 7]), "9.0")
    assert result.columns["source_flop"].tolist() == ["missing", "counter"]
    assert any("No instructions of the vector units" in note for note in result.notes)


# --- loads of constants -------------------------------------------------------------------------


@pytest.mark.parametrize("capability", ["8.0", "9.0"])
def test_half_fmas_are_an_upper_bound_where_constants_are_loaded_with_them(
    count: SimpleNamespace, capability: str
) -> None:
    result = count.worked(count.table(ffma=1, hadd=5, hfma=[32]), capability)
    assert count.values(result, HALF.format("nominal")) == [138]
    assert count.values(result, HALF.format("least")) == [10]
    assert any("upper bound" in note and "1 launch with" in note for note in result.notes)


@pytest.mark.parametrize("capability", ["7.0", "7.5", "8.6", "8.9", "12.0"])
def test_elsewhere_they_are_work(count: SimpleNamespace, capability: str) -> None:
    result = count.worked(count.table(ffma=1, hfma=32), capability)
    assert (
        count.values(result, HALF.format("nominal"))
        == count.values(result, HALF.format("least"))
        == [128]
    )
    assert not any("upper bound" in note for note in result.notes)


def test_no_half_fmas_need_no_note(count: SimpleNamespace) -> None:
    result = count.worked(count.table(ffma=1, hfma=0))
    assert count.values(result, HALF.format("least")) == [0]
    assert not any("upper bound" in note for note in result.notes)


def test_opcodes_bound_the_loads(count: SimpleNamespace) -> None:
    opcodes = {OPCODES + "HFMA2.MMA": [2.0, NAN, NAN], OPCODES + "FFMA": [1.0, 1.0, NAN]}
    result = count.worked(count.table(ffma=[1, 1, 1], hfma=[100, 100, 100]).assign(**opcodes))
    assert count.values(result, HALF.format("nominal")) == [400, 400, 400]
    # 64 threads may have loaded; no thread did; nothing is known of the third.
    assert count.values(result, HALF.format("least")) == [144, 400, 0]


def test_threads_by_opcode_are_exact_under_predicates(count: SimpleNamespace) -> None:
    opcodes = {OPCODES + "HFMA2.MMA": [2.0], THREADS + "HFMA2.MMA": [40.0]}
    result = count.worked(count.table(ffma=1, hfma=100).assign(**opcodes))
    assert count.values(result, HALF.format("least")) == [240]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**8)), min_size=1, max_size=6))
def test_least_is_never_more_than_nominal_and_never_negative(rows: list[tuple[int, int]]) -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {
            "sm__sass_thread_inst_executed_op_hfma_pred_on.sum": [float(half) for half, _ in rows],
            "sm__sass_thread_inst_executed_op_hadd_pred_on.sum": 1.0,
            OPCODES + "HFMA2.MMA": [float(loads) for _, loads in rows],
        }
    )
    columns = work(frame, chip("8.0"), ["k"] * len(rows)).columns
    least = columns[HALF.format("least")].to_numpy()
    assert (least >= 2).all()
    assert (least <= columns[HALF.format("nominal")].to_numpy()).all()
    assert np.isfinite(least).all()
