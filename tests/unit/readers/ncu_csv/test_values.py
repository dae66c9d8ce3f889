"""Numbers and units in every spelling, in base SI units."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.errors import ProfileError
from hroof.readers.ncu_csv.values import (
    OtherLocaleError,
    exponent,
    is_numeric,
    numbers,
    power_of,
    scaled,
)


def read(*texts: str | None, metric: str = "dram__bytes.sum", **more: Any) -> list[float]:
    column = pa.chunked_array([pa.array(texts, pa.string())])
    values, *_ = numbers(column, lambda _: metric, lambda row: f"run.csv, line {row}", **more)
    return list(values)


# --- units --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "power"),
    [
        ("", 0),
        ("%", 0),
        ("inst", 0),
        ("sector", 0),
        ("sectors", 0),
        ("register/thread", 0),
        ("/cycle", 0),
        ("%/", 0),
        ("byte", 0),
        ("Kbyte", 3),
        ("Mbyte", 6),
        ("Gbyte", 9),
        ("Tbyte", 12),
        ("Kbyte/block", 3),
        ("nsecond", -9),
        ("usecond", -6),
        ("msecond", -3),
        ("second", 0),
        ("ns", -9),
        ("us", -6),
        ("ms", -3),
        ("s", 0),
        ("hz", 0),
        ("Mhz", 6),
        ("Ghz", 9),
        ("cycle/second", 0),
        ("cycle/usecond", 6),
        ("cycle/nsecond", 9),
        ("Gbyte/second", 9),
        ("Gbyte/s", 9),
        ("byte/cycle", 0),
        ("byte/ns", 9),
        ("Minst", 6),
        ("Ksector/second", 3),
    ],
)
def test_units_are_powers_of_ten_of_base_units(unit: str, power: int) -> None:
    assert exponent(unit) == power


@pytest.mark.parametrize(
    "unit", ["furlong", "KiB", "byte/fortnight", "Mbytes/furlong", "sec ond", "min"]
)
def test_an_unknown_unit_is_an_error_with_metric_and_unit(unit: str) -> None:
    assert exponent(unit) is None
    with pytest.raises(ProfileError, match="print-units base") as caught:
        power_of(unit, "dram__bytes.sum", "run.csv, line 3")
    assert str(caught.value).startswith(
        "run.csv, line 3: the metric dram__bytes.sum has the unknown unit"
    )
    assert f'"{unit}"' in str(caught.value)


def test_the_power_of_a_known_unit() -> None:
    assert power_of("usecond", "gpu__time_duration.sum", "") == -6


def test_scaling_down_is_as_exact_as_the_number_in_seconds() -> None:
    assert list(scaled(np.array([5000.0, 85.0, 1234567.0]), -9)) == [5e-6, 8.5e-8, 0.001234567]
    assert list(scaled(np.array([12.58]), 6)) == [12.58e6]
    unchanged = np.array([1.0])
    assert scaled(unchanged, 0) is unchanged


# --- numbers ------------------------------------------------------------------------------------


def test_numbers_are_read_with_and_without_separators_of_thousands() -> None:
    assert read("7", "1,234,567", "12.50", "-3", "1e3", "12,34,567", "1,234.5") == [
        7.0,
        1234567.0,
        12.5,
        -3.0,
        1000.0,
        1234567.0,
        1234.5,
    ]


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1), st.booleans())
def test_grouped_numbers_are_read_back(values: list[int], fast: bool) -> None:
    texts = [f"{value:,}" for value in values]
    assert read(*texts, grouped=lambda: fast) == [float(value) for value in values]


@given(st.lists(st.floats(-1e9, 1e9).map(lambda value: round(value, 6)), min_size=1))
def test_other_digits_of_the_same_number_are_read_in_every_locale(values: list[float]) -> None:
    english = [f"{value:,.6f}" for value in values]
    german = [text.translate(str.maketrans(",.", ".,")) for text in english]
    french = [text.translate(str.maketrans(",.", "\u202f,")) for text in english]
    swiss = [text.replace(",", "\u2019") for text in english]
    assert read(*english) == read(*swiss) == values
    assert read(*german, comma=True) == read(*french, comma=True) == values


@pytest.mark.parametrize(
    "text", ["", "n/a", "N/A", "(!) n/a", "no data", "nan", "-nan", "inf", "-inf", " n/a "]
)
@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_no_value_is_missing_and_never_zero(text: str, grouped: bool) -> None:
    assert [math.isnan(value) for value in read("5", text, grouped=lambda: grouped)] == [
        False,
        True,
    ]


def test_numbers_that_were_read_as_such_are_taken_as_they_are() -> None:
    for kind in (pa.int64(), pa.float64()):
        column = pa.chunked_array([pa.array([1, None], kind), pa.array([3], kind)])
        assert is_numeric(column)
        values, instances, worded = numbers(column, str, str)
        assert values[0] == 1 and math.isnan(values[1]) and values[2] == 3
        assert (instances, worded) == ({}, 0)
    infinite, *_ = numbers(pa.chunked_array([pa.array([math.inf, 2.0])]), str, str)
    assert math.isnan(infinite[0])


def test_numbers_can_be_put_into_given_memory() -> None:
    memory = np.zeros(2)
    values, *_ = numbers(pa.chunked_array([pa.array([1.0, 2.0])]), str, str, out=memory)
    assert values is memory
    assert list(memory) == [1.0, 2.0]


def test_a_column_of_nothing_is_missing() -> None:
    column = pa.chunked_array([pa.nulls(2)])
    assert not is_numeric(column)
    assert np.isnan(numbers(column, str, str)[0]).all()


def test_texts_that_were_read_as_codes_are_numbers_too() -> None:
    column = pa.chunked_array([pa.array(["1,000", "2"]).dictionary_encode()])
    assert list(numbers(column, str, str)[0]) == [1000.0, 2.0]


def test_words_are_counted_and_missing() -> None:
    column = pa.chunked_array([pa.array(["CachePreferNone", "3"])])
    values, _, worded = numbers(column, str, str)
    assert worded == 1
    assert math.isnan(values[0]) and values[1] == 3.0


@pytest.mark.parametrize("text", ["12,58", "0,125000", "1.234,5", "1.234.567", "1.234.567,89"])
def test_a_decimal_comma_is_noticed(text: str) -> None:
    with pytest.raises(OtherLocaleError):
        read("7", text)


def test_numbers_that_can_be_meant_in_two_ways_are_an_error() -> None:
    with pytest.raises(ProfileError, match=r"line 1: dram__bytes.sum is '12.58'.*LC_ALL=C"):
        read("12,58", "12.58", comma=True)
    with pytest.raises(ProfileError, match="decimal one"):
        read("1,23,4")
    with pytest.raises(ProfileError, match="decimal one"):
        read("1.2.3", comma=True)


# --- instances ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "metric", "value"),
    [
        ("240; 240; 240; 280", "dram__bytes.sum", 1000.0),
        ("240; 240; 240; 280", "dram__bytes.max", 280.0),
        ("240; 240; 240; 280", "dram__bytes.min", 240.0),
        ("240; 240; 240; 280", "dram__bytes.avg", 250.0),
        ("2; 3", "inst_executed", 5.0),
        ("4,976 (48; 4,928)", "inst_executed", 4976.0),
        ("48 (48)", "inst_executed", 48.0),
        ("(1; 2)", "inst_executed", 3.0),
    ],
)
def test_the_value_of_the_whole_stands_before_its_instances_or_is_made_of_them(
    text: str, metric: str, value: float
) -> None:
    assert read(text, metric=metric) == [value]


def test_instances_with_names_are_kept_by_name() -> None:
    column = pa.chunked_array([pa.array(["7", "12 (HMMA.16816.F16: 8; IMMA.16832.S8.S8.SAT: 4)"])])
    values, instances, _ = numbers(column, lambda _: "sass__inst_executed_per_opcode", str)
    assert list(values) == [7.0, 12.0]
    assert instances == {"HMMA.16816.F16": {1: 8.0}, "IMMA.16832.S8.S8.SAT": {1: 4.0}}


def test_lists_of_words_are_words() -> None:
    column = pa.chunked_array([pa.array(["a; b", "mode (fast)", "(128, 1, 1)"])])
    values, instances, worded = numbers(column, str, str)
    assert np.isnan(values).all()
    assert (instances, worded) == ({}, 3)
