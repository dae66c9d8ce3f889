"""Counters by metric: spellings, rates turned back into counts, what is missing."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.counters.columns import THREADS, Columns

FFMA = "sm__sass_thread_inst_executed_op_ffma_pred_on"
SUB = "smsp__sass_thread_inst_executed_op_ffma_pred_on"
CYCLES, RATE = "sm__cycles_elapsed.avg", "sm__cycles_elapsed.avg.per_second"


def read(**columns: object) -> Columns:
    return Columns(pd.DataFrame({name.replace("-", "."): value for name, value in columns.items()}))


def test_what_is_not_finite_is_missing() -> None:
    columns = Columns(
        pd.DataFrame({"a": [1.0, math.inf, -math.inf, math.nan], "b": [math.nan] * 4})
    )
    found = columns.get("a")
    assert found is not None
    np.testing.assert_array_equal(found, [1.0, np.nan, np.nan, np.nan])
    assert columns.get("b") is None
    assert columns.get("c") is None


def test_the_time_is_that_of_the_gpu_or_cycles_by_clock() -> None:
    frame = pd.DataFrame(
        {
            "gpu__time_duration.sum": [2e-3, math.nan, math.nan, 0.0],
            CYCLES: [1e6, 3e6, 3e6, 1.0],
            RATE: [1e9, 1.5e9, math.nan, 1e9],
        }
    )
    np.testing.assert_array_equal(Columns(frame).duration, [2e-3, 2e-3, np.nan, 0.0])


def test_a_clock_of_zero_gives_no_time() -> None:
    frame = pd.DataFrame({CYCLES: [5.0, 0.0], RATE: [0.0, 0.0]})
    assert np.isnan(Columns(frame).duration).all()


def test_the_time_of_a_sum_is_its_cycles_by_the_mean_clock() -> None:
    # Three launches of 1000, 2000 and 3000 cycles at 1 GHz, added up.
    assert Columns(pd.DataFrame({CYCLES: [6000.0], RATE: [1e9]})).duration.tolist() == [6e-6]


@pytest.mark.parametrize("unit", ["sm", "smsp", "l1tex", "gpc"])
def test_the_clock_of_the_sm_has_several_names(unit: str) -> None:
    columns = Columns(pd.DataFrame({f"{unit}__cycles_elapsed.avg.per_second": [1.3e9]}))
    assert columns.clock.tolist() == [1.3e9]


def test_the_first_name_of_the_clock_wins() -> None:
    frame = pd.DataFrame({"gpc__cycles_elapsed.avg.per_second": [9e8, 9e8], RATE: [1e9, math.nan]})
    assert Columns(frame).clock.tolist() == [1e9, 9e8]


@pytest.mark.parametrize("name", [f"{FFMA}.sum", f"{SUB}.sum", FFMA, SUB])
def test_a_count_by_sm_or_by_its_parts(name: str) -> None:
    columns = Columns(pd.DataFrame({name: [5.0]}))
    count = columns.count(FFMA)
    assert count is not None and count.tolist() == [5.0]
    assert columns.is_named(FFMA)


def test_an_empty_count_is_named_and_not_known() -> None:
    columns = Columns(pd.DataFrame({f"{FFMA}.sum": [math.nan]}))
    assert columns.is_named(FFMA)
    assert columns.count(FFMA) is None


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=5),
    st.integers(1, 10**7),
    st.floats(1e8, 3e9),
)
def test_rates_give_the_count_again(counts: list[int], cycles: int, clock: float) -> None:
    exact = np.array(counts, dtype=np.float64)
    per_cycle = pd.DataFrame({f"{SUB}.sum.per_cycle_elapsed": exact / cycles})
    per_cycle = per_cycle.assign(**{"smsp__cycles_elapsed.avg": float(cycles)})
    found = Columns(per_cycle).count(FFMA)
    assert found is not None
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=0.5)
    seconds = cycles / clock
    per_second = pd.DataFrame({f"{FFMA}.sum.per_second": exact / seconds})
    found = Columns(per_second.assign(**{"gpu__time_duration.sum": seconds})).count(FFMA)
    assert found is not None
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=0.5)


def test_cycles_follow_from_time_and_clock() -> None:
    frame = pd.DataFrame(
        {f"{SUB}.sum.per_cycle_elapsed": [20.0], "gpu__time_duration.sum": [1e-6], RATE: [1e9]}
    )
    count = Columns(frame).count(FFMA)
    assert count is not None and count.tolist() == [20_000.0]


def test_a_rate_without_a_time_is_no_count() -> None:
    count = Columns(pd.DataFrame({f"{FFMA}.sum.per_second": [1e9]})).count(FFMA)
    assert count is not None and np.isnan(count).all()


def test_flop_per_cycle_that_a_section_states_is_no_count_yet() -> None:
    half = "sass_thread_inst_executed_op_hfma_pred_on"
    frame = pd.DataFrame({f"derived__smsp__{half}_x4": [8.0], CYCLES: [100.0]})
    count = Columns(frame).count(f"sm__{half}")
    assert count is not None and count.tolist() == [200.0]
    # That of the whole SM is a peak.
    assert (
        Columns(pd.DataFrame({f"derived__sm__{half}_x4": [8.0], CYCLES: [100.0]})).count(
            f"sm__{half}"
        )
        is None
    )


def test_the_sum_goes_before_a_rate_row_by_row() -> None:
    frame = pd.DataFrame(
        {
            f"{FFMA}.sum": [7.0, math.nan],
            f"{FFMA}.sum.per_second": [1e9, 1e9],
            "gpu__time_duration.sum": 1e-6,
        }
    )
    count = Columns(frame).count(FFMA)
    assert count is not None and count.tolist() == [7.0, 1000.0]


# --- opcodes ------------------------------------------------------------------------------------


@pytest.fixture
def threads() -> pd.DataFrame:
    """Two launches with thread instructions by opcode, and one without."""
    counts = {
        "FFMA": [3.0, 1.0], "FFMA.SAT": [1.0, math.nan], "FADD": [math.nan, 5.0], "FADD32I": [math.nan, 2.0],
        "HFMA2.MMA": [4.0, 0.0], "HFMA2_32I": [1.0, 0.0], "HADD2.F32": [9.0, 9.0], "HADD2": [2.0, 0.0],
        "IMAD.WIDE": [100.0, 100.0], "DFMA": [math.nan, 6.0], "FFMA2": [8.0, 0.0],
    }  # fmt: skip
    return pd.DataFrame({THREADS + opcode: [*pair, math.nan] for opcode, pair in counts.items()})


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ffma", [4.0, 1.0]),
        ("fadd", [0.0, 7.0]),
        ("fmul", [0.0, 0.0]),
        ("dfma", [0.0, 6.0]),
        ("hfma", [5.0, 0.0]),
        ("hadd", [2.0, 0.0]),
        ("ffma2", [8.0, 0.0]),
    ],
)
def test_instructions_by_opcode_add_up_to_the_counter(
    threads: pd.DataFrame, kind: str, expected: list[float]
) -> None:
    count = Columns(threads).count(f"sm__sass_thread_inst_executed_op_{kind}_pred_on")
    assert count is not None
    np.testing.assert_array_equal(count, [*expected, np.nan])


def test_opcodes_say_nothing_about_other_metrics(
    threads: pd.DataFrame, count: SimpleNamespace
) -> None:
    assert Columns(threads).count("lts__t_bytes") is None
    assert Columns(threads).count("sm__inst_executed_pipe_tensor") is None
    assert not Columns(threads).is_named("lts__t_bytes")
