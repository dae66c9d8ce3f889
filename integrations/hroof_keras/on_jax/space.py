"""A serialised profile (XSpace) as plain lines of events, where no TensorFlow is there to parse it.

JAX takes its profiles with the same library, but brings no classes for the messages in them. Field numbers are those
of ``tsl/profiler/protobuf/xplane.proto`` in openxla/xla.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hroof_keras.hlo.wire import Field, Schema, decode
from hroof_keras.profiling.xplane import Line, Raw, Space, unsigned

_STAT: Schema = {
    1: Field("metadata"),
    2: Field("double", "real"),
    3: Field("unsigned"),
    4: Field("signed"),
    5: Field("text", "text"),
    6: Field("bytes", "bytes"),
    7: Field("reference"),
}
_EVENT: Schema = {
    1: Field("metadata"),
    2: Field("offset"),
    3: Field("duration"),
    4: Field("stats", "message", repeated=True, schema=_STAT),
}
_LINE: Schema = {
    1: Field("id"),
    2: Field("name", "text"),
    3: Field("timestamp"),
    4: Field("events", "message", repeated=True, schema=_EVENT),
    11: Field("display_name", "text"),
}
_EVENT_METADATA: Schema = {
    2: Field("name", "text"),
    5: Field("stats", "message", repeated=True, schema=_STAT),
}


def _map(values: Schema) -> Field:
    """A map from numbers to messages."""
    entry = {1: Field("key"), 2: Field("value", "message", schema=values)}
    return Field("", "message", repeated=True, schema=entry)


_PLANE: Schema = {
    2: Field("name", "text"),
    3: Field("lines", "message", repeated=True, schema=_LINE),
    4: Field("events", "message", repeated=True, schema=_map(_EVENT_METADATA).schema),
    5: Field("stats", "message", repeated=True, schema=_map({2: Field("name", "text")}).schema),
}
_SPACE: Schema = {1: Field("planes", "message", repeated=True, schema=_PLANE)}

_WANTED = frozenset({"hlo_module", "hlo_op", "program_id"})
"""What is read of an event."""

_METADATA = "/host:metadata"
_HLO_STATS = frozenset({"Hlo Proto", "hlo_proto"})


def read_space(serialized: bytes) -> Space:
    """Read a serialised XSpace.

    Raises:
        ProfileError: The bytes are not one.
    """
    planes = decode(serialized, _SPACE).get("planes", [])
    lines = tuple(line for plane in planes for line in _lines(plane))
    modules = {
        number: module
        for plane in planes
        if plane.get("name") == _METADATA
        for number, module in _modules(plane)
    }
    return Space(lines, modules)


def _named(entries: Any) -> dict[int, Mapping[str, Any]]:
    return {entry.get("key", 0): entry.get("value", {}) for entry in entries}


def _lines(plane: Mapping[str, Any]) -> Iterator[Line]:
    names = {key: item.get("name", "") for key, item in _named(plane.get("stats", [])).items()}
    events = _named(plane.get("events", []))
    for line in plane.get("lines", []):
        start = line.get("timestamp", 0) * 1000
        read = tuple(_event(raw, start, events, names) for raw in line.get("events", []))
        name = line.get("name") or line.get("display_name", "")
        yield Line(plane.get("name", ""), name, line.get("id", 0), read)


def _event(
    raw: Mapping[str, Any],
    line_start: int,
    events: Mapping[int, Mapping[str, Any]],
    names: Mapping[int, str],
) -> Raw:
    """Times are picoseconds from the start of the line."""
    start = line_start + raw.get("offset", 0)
    described = events.get(raw.get("metadata", 0), {})
    stats = {
        name: _value(stat, names)
        for stat in (*described.get("stats", []), *raw.get("stats", []))
        if (name := names.get(stat.get("metadata", 0), "")) in _WANTED
    }
    end = start + raw.get("duration", 0)
    return Raw(described.get("name", ""), start // 1000, end // 1000, stats)


def _value(stat: Mapping[str, Any], names: Mapping[int, str]) -> Any:
    """The value of a stat; a reference points to a name."""
    if "reference" in stat:
        return names.get(stat["reference"], "")
    if "unsigned" in stat:
        return unsigned(stat["unsigned"])
    return next(
        (stat[kind] for kind in ("text", "signed", "double", "bytes") if kind in stat), None
    )


_NUMBERED = re.compile(r"\((\d+)\)$")


def _modules(plane: Mapping[str, Any]) -> Iterator[tuple[int, bytes]]:
    """Compiled programs by number, which stands behind their names: ``jit_train_step(30)``."""
    names = {key: item.get("name", "") for key, item in _named(plane.get("stats", [])).items()}
    for number, described in _named(plane.get("events", [])).items():
        told = _NUMBERED.search(described.get("name", ""))
        for stat in described.get("stats", []):
            if names.get(stat.get("metadata", 0)) in _HLO_STATS and stat.get("bytes"):
                yield unsigned(int(told[1]) if told else number), stat["bytes"]
