"""Units: printing, parsing, and the order of the vocabularies."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.errors import UsageError
from hroof.units import (
    MemoryLevel,
    Phase,
    Pipe,
    Precision,
    Source,
    number,
    parse,
    parse_share,
    percent,
    si,
)

PRINTABLE = ["s", "B", "FLOP", "B/s", "FLOP/s", "Hz", "OP", "OP/s"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.43e9, "FLOP/s", "1.43 GFLOP/s"),
        (0, "B", "0 B"),
        (1, "s", "1.00 s"),
        (999.4, "B", "999 B"),
        (999.6, "B", "1.00 kB"),
        (999_999, "B", "1.00 MB"),
        (1e9, "B/s", "1.00 GB/s"),
        (2**30, "B", "1.07 GB"),
        (20e-6, "s", "20.0 µs"),
        (1.5e-3, "s", "1.50 ms"),
        (2.5e-9, "s", "2.50 ns"),
        (4e-12, "s", "0.00400 ns"),
        (1e12, "FLOP", "1.00 TFLOP"),
        (1e15, "FLOP", "1.00 PFLOP"),
        (1e18, "FLOP", "1.00 EFLOP"),
        (1e22, "FLOP", "10000 EFLOP"),
        (-3e6, "B", "-3.00 MB"),
        (7, "", "7.00"),
    ],
)
def test_si_prints_decimal_prefixes(value: float, unit: str, text: str) -> None:
    assert si(value, unit) == text


@pytest.mark.parametrize("value", [None, math.nan])
def test_missing_prints_as_a_dash(value: float | None) -> None:
    assert si(value, "B") == number(value) == percent(value) == "–"


def test_infinity_prints_as_a_sign() -> None:
    assert si(math.inf, "B") == number(math.inf) == "∞"


def test_si_with_another_number_of_digits() -> None:
    assert si(1234.5, "B", digits=2) == "1.2 kB"
    assert si(1234.5, "B", digits=5) == "1.2345 kB"


def test_si_never_prints_a_screenful_of_zeros() -> None:
    assert si(5e-324, "s") == "4.94e-315 ns"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.250"),
        (12345, "12345"),
        (1e6, "1e+06"),
        (-2.5, "-2.50"),
        (1e-7, "1e-07"),
        (0.00012345, "0.000123"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_percent() -> None:
    assert percent(0.1234) == "12.3 %"
    assert percent(1, digits=0) == "100 %"
    assert (percent(math.inf), percent(-math.inf)) == ("∞ %", "-∞ %")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5 GB", 1.5e9),
        ("20us", 20e-6),
        ("20 µs", 20e-6),
        ("20 \u03bcs", 20e-6),
        ("1e3", 1000.0),
        ("1e3 kB", 1e6),
        ("1.5EB", 1.5e18),
        ("1EFLOP", 1e18),
        ("2 E", 2e18),
        ("1,000 kB", 1e6),
        ("1,234,567 B", 1_234_567.0),
        (".5 TB/s", 5e11),
        ("3m", 0.003),
        ("-4 ms", -0.004),
        ("  7 Hz ", 7.0),
        ("8 GFLOP/s", 8e9),
        ("5 TOP/s", 5e12),
        ("0", 0.0),
    ],
)
def test_parse(text: str, value: float) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "GB",
            "1.5 GiB",
            "1,5 GB",
            "1,50 B",
            "1 5 GB",
            "--1",
            "nan",
            "inf",
            "1e999",
            "1.5 EE",
        ),
        *("1.5 KB", "5 min", "1e", "0x10", "1.2.3", "\u0661 B"),
    ],
)
def test_parse_refuses_what_is_not_a_quantity(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(repr(text))) as caught:
        parse(text)
    assert "1.5 GB" in caught.value.remedy


@given(
    st.floats(min_value=1e-8, max_value=1e20), st.sampled_from(PRINTABLE), st.integers(min_value=2)
)
def test_what_si_prints_parses_back(value: float, unit: str, digits: int) -> None:
    digits = min(digits, 9)
    assert parse(si(value, unit, digits)) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@given(st.floats(min_value=1e-8, max_value=1e20))
def test_si_is_odd(value: float) -> None:
    assert si(-value, "B") == "-" + si(value, "B")


@given(st.floats(min_value=1e-9, max_value=9.99e20))
def test_si_shows_a_number_between_one_and_a_thousand(value: float) -> None:
    shown = float(si(value, "B").split()[0])
    assert 1 <= shown < 1000


@given(st.text(max_size=12))
def test_parse_gives_a_finite_number_or_a_usage_error(text: str) -> None:
    try:
        value = parse(text)
    except UsageError:
        return
    assert math.isfinite(value)


def test_levels_stand_nearest_to_the_cores_first() -> None:
    assert list(MemoryLevel) == ["l1", "l2", "l3", "dram"]
    assert MemoryLevel.DRAM.label == "DRAM"


def test_integer_formats_are_no_flop() -> None:
    wholes = [precision for precision in Precision if not precision.is_float]
    assert wholes == [Precision.INT32, Precision.INT8, Precision.INT4, Precision.INT1]


def test_sources_stand_best_first() -> None:
    assert next(iter(Source)) is Source.COUNTER
    assert list(Source)[-2:] == [Source.PREDICTED, Source.MISSING]


def test_vocabularies_print_as_their_words() -> None:
    assert f"{Pipe.MATRIX} {Precision.BF16} {Phase.BACKWARD}" == "matrix bf16 backward"


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("12 ms", "s", 0.012),
        ("0.5", "s", 0.5),
        ("12 m", "s", 0.012),
        ("4 GB", "B", 4e9),
        ("1.5k", "", 1500.0),
        ("3 GFLOP/s", "FLOP/s", 3e9),
        ("3 GB", None, 3e9),
    ],
)
def test_parse_in_a_unit(text: str, unit: str | None, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "unit", "said"),
    [
        ("12 ms", "B", "'12 ms' is in s. Write it in B"),
        ("3 GB/s", "B", "is in B/s. Write it in B"),
        ("3 FLOP/s", "FLOP", "is in FLOP/s. Write it in FLOP"),
        ("3 s", "", "is in s. Write a plain number."),
        ("3 %", "s", "is not a quantity"),
    ],
)
def test_parse_refuses_another_unit(text: str, unit: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, unit)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("5 %", 0.05), ("5%", 0.05), (" 5 % ", 0.05), ("0.05", 0.05), ("250 %", 2.5),
        ("-5 %", -0.05), ("1", 1.0), ("0", 0.0), ("1e-3", 1e-3),
    ],
)  # fmt: skip
def test_parse_a_share(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize(
    "text", ["", "%", "5", "-2", "5 ms", "5 % of it", "5 %%", "much", "nan", "5 s %"]
)
def test_parse_refuses_what_is_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="no share"):
        parse_share(text)


@given(st.floats(0, 10))
def test_a_share_that_was_printed_is_read_again(share: float) -> None:
    assert parse_share(percent(share, 6)) == pytest.approx(share, abs=1e-8)
