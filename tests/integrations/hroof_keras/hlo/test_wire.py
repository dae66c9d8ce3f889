"""The reader of serialised messages, against the encoding as its documentation gives it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("keras")

from hroof.errors import ProfileError
from hroof_keras.hlo.wire import Field, decode, fields


def varint(value: int) -> bytes:
    """Base 128, least significant first; negative numbers in 64-bit two's complement."""
    value %= 1 << 64
    digits = []
    while True:
        value, low = value >> 7, value & 0x7F
        digits.append(low | (0x80 if value else 0))
        if not value:
            return bytes(digits)


def record(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def test_the_example_of_the_documentation() -> None:
    """``{1: 150}`` is written as 08 96 01."""
    assert decode(b"\x08\x96\x01", {1: Field("a")}) == {"a": 150}


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers(value: int) -> None:
    assert decode(integer(3, value), {3: Field("a")}) == {"a": value}


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.booleans())
def test_lists_are_read_packed_or_not(values: list[int], packed: bool) -> None:
    data = (
        record(2, b"".join(map(varint, values)))
        if packed
        else b"".join(integer(2, value) for value in values)
    )
    read = decode(data, {2: Field("a", repeated=True)})
    assert read.get("a", []) == values


@given(st.text(), st.binary())
def test_text_and_bytes(text: str, content: bytes) -> None:
    data = record(1, text.encode()) + record(2, content)
    schema = {1: Field("text", "text"), 2: Field("bytes", "bytes")}
    assert decode(data, schema) == {"text": text, "bytes": content}


def test_bytes_that_are_no_text_do_not_stop_the_reading() -> None:
    """Compilers write names and settings of users as they are."""
    assert decode(record(1, b"a\xff"), {1: Field("a", "text")}) == {"a": "a\ufffd"}


@given(st.floats(allow_nan=False))
def test_real_numbers(value: float) -> None:
    data = varint(1 << 3 | 1) + struct.pack("<d", value)
    assert decode(data, {1: Field("a", "real")}) == {"a": value}
    single = struct.unpack("<f", struct.pack("<f", 0.25))[0]
    data = varint(1 << 3 | 5) + struct.pack("<f", single)
    assert decode(data, {1: Field("a", "real")}) == {"a": single}


def test_messages_within_messages() -> None:
    inner = {1: Field("x")}
    schema = {4: Field("list", "message", repeated=True, schema=inner)}
    data = record(4, integer(1, 1)) + record(4, b"") + record(4, integer(1, 3))
    assert decode(data, schema) == {"list": [{"x": 1}, {}, {"x": 3}]}


def test_what_is_not_wanted_is_passed_over() -> None:
    data = (
        integer(9, 5)
        + record(8, b"abc")
        + varint(7 << 3 | 1)
        + b"12345678"
        + varint(6 << 3 | 5)
        + b"1234"
        + integer(1, 7)
    )
    assert decode(data, {1: Field("a")}) == {"a": 7}
    assert [number for number, _ in fields(memoryview(data))] == [9, 8, 7, 6, 1]


def test_the_last_of_several_values_counts() -> None:
    assert decode(integer(1, 4) + integer(1, 5), {1: Field("a")}) == {"a": 5}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a\x05ab", "5 bytes"),
        (b"\x08", "ends within a number"),
        (b"\x08" + b"\xff" * 11, "more than ten bytes"),
        (b"\x0b", "wire type 3"),
        (record(1, b"x"), "'a' is not an integer"),
    ],
)
def test_damaged_messages_are_named(data: bytes, reason: str) -> None:
    with pytest.raises(ProfileError, match=reason) as caught:
        decode(data, {1: Field("a")})
    assert "HloProto" in caught.value.remedy


def test_an_integer_where_a_record_belongs_is_an_error() -> None:
    with pytest.raises(ProfileError, match="'a' is an integer"):
        decode(integer(1, 2), {1: Field("a", "text")})
