"""Reads serialised protocol buffers by field number, without generated classes.

HLO comes serialised from TensorFlow, from JAX and from profiles. Only TensorFlow brings the classes that read
it, and importing them imports TensorFlow; the field numbers, on the other hand, are fixed for good by the rules
of the format. Reference: https://protobuf.dev/programming-guides/encoding/ (varints, length-delimited records,
packed repeated fields; what a schema does not name is passed over).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hroof.errors import ProfileError

_VARINT, _FIXED64, _RECORD, _FIXED32 = 0, 1, 2, 5
_SIGN = 1 << 63

Kind = Literal["integer", "text", "bytes", "real", "message"]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message that is wanted.

    Attributes:
        name: Key in the decoded message.
        kind: How its value is read.
        repeated: Collected into a list.
        schema: Fields of the message, where it is one.
    """

    name: str
    kind: Kind = "integer"
    repeated: bool = False
    schema: Mapping[int, Field] | None = None


Schema = Mapping[int, Field]


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and raw value of every field, in order: an integer, or the bytes of a record.

    Raises:
        ProfileError: The bytes are not a message.
    """
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _RECORD:
            length, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise broken(f"wire type {wire} at byte {position}")
        if position + length > end:
            raise broken(f"a record of {length} bytes at byte {position} of {end}")
        yield number, data[position : position + length]
        position += length


def decode(data: bytes | memoryview, schema: Schema) -> dict[str, Any]:
    """The wanted fields of a message by name; absent ones are left out.

    Args:
        data: The serialised message.
        schema: Wanted fields by number.

    Raises:
        ProfileError: The bytes are not such a message.
    """
    message: dict[str, Any] = {}
    for number, raw in fields(memoryview(data)):
        wanted = schema.get(number)
        if wanted is None:
            continue
        if not wanted.repeated:
            message[wanted.name] = _value(wanted, raw)
            continue
        values = message.setdefault(wanted.name, [])
        if wanted.kind == "integer" and isinstance(raw, memoryview):
            values.extend(_packed(raw))
        else:
            values.append(_value(wanted, raw))
    return message


def _value(wanted: Field, raw: int | memoryview) -> Any:
    if wanted.kind == "integer":
        if not isinstance(raw, int):
            raise broken(f"field {wanted.name!r} is not an integer")
        return _signed(raw)
    if not isinstance(raw, memoryview):
        raise broken(f"field {wanted.name!r} is an integer")
    if wanted.kind == "message":
        return decode(raw, wanted.schema or {})
    if wanted.kind == "text":
        return bytes(raw).decode("utf-8", "replace")
    if wanted.kind == "real":
        return struct.unpack("<d" if len(raw) == 8 else "<f", raw)[0]
    return bytes(raw)


def _packed(data: memoryview) -> Iterator[int]:
    position, end = 0, len(data)
    while position < end:
        value, position = _varint(data, position)
        yield _signed(value)


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number of seven bits per byte, least significant first; the top bit says that more follow."""
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise broken("it ends within a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise broken(f"a number of more than ten bytes before byte {position}")


def _signed(value: int) -> int:
    """Negative numbers are written as 64-bit two's complement."""
    return value - (1 << 64) if value & _SIGN else value


def broken(reason: str) -> ProfileError:
    """The error for bytes that are not what they should be."""
    return ProfileError(
        f"The bytes are not a serialised HLO module: {reason}.",
        "Give the bytes of an HloProto or HloModuleProto, whole and not compressed.",
    )
