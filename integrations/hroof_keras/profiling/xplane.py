"""TensorFlow's serialised profile (XSpace) as plain lines of events; the protos are those of the installed wheel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hroof_keras.private import runtime as private

_STATS = frozenset(
    {
        "correlation_id",
        "hlo_module",
        "hlo_op",
        "memcpy_details",
        "memset_details",
        "program_id",
        "shape",
        "shapes",
        "tensor_shapes",
        "tf_op",
    }
)
"""What is read of an event; the rest is left alone, since a step has ten thousands of them."""

_METADATA = "/host:metadata"
_HLO_STATS = ("Hlo Proto", "hlo_proto")


@dataclass(frozen=True, slots=True)
class Raw:
    """One event as the profile has it.

    Attributes:
        name: For example ``rnn_1/out_1/MatMul:MatMul`` or ``fusion.3``.
        start: Nanoseconds since the epoch.
        end: Nanoseconds since the epoch.
        stats: Those that hroof reads, by name.
    """

    name: str
    start: int
    end: int
    stats: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """The events of one thread or of one stream of a device.

    Attributes:
        plane: For example ``/host:CPU`` or ``/device:GPU:0``.
        name: For example ``python`` or ``Stream #7(Compute)``.
        number: Of the thread or the stream.
        events: In the order of the profile.
    """

    plane: str
    name: str
    number: int
    events: tuple[Raw, ...]


@dataclass(frozen=True)
class Space:
    """What a profile holds.

    Attributes:
        lines: Of all planes.
        hlo_modules: Serialised ``HloProto`` of the compiled programs by number of the program.
    """

    lines: tuple[Line, ...]
    hlo_modules: Mapping[int, bytes]


def read_space(serialized: bytes) -> Space:
    """Read a serialised XSpace.

    Raises:
        MissingError: The installed TensorFlow brings no reader of its own profiles.
    """
    space = private.xspace(serialized)
    lines = tuple(line for plane in space.planes for line in _lines(plane))
    modules: dict[int, bytes] = {}
    for plane in space.planes:
        if plane.name == _METADATA:
            modules.update(_modules(plane))
    return Space(lines, modules)


def _lines(plane: Any) -> Iterator[Line]:
    names = {number: meta.name for number, meta in plane.stat_metadata.items()}
    wanted = {number for number, name in names.items() if name in _STATS}
    events = {number: meta.name for number, meta in plane.event_metadata.items()}
    shared = {
        number: _stats(meta.stats, wanted, names)
        for number, meta in plane.event_metadata.items()
        if meta.stats
    }
    for line in plane.lines:
        read = tuple(_event(line, event, events, shared, wanted, names) for event in line.events)
        yield Line(plane.name, line.name or line.display_name, line.id, read)


def _event(
    line: Any,
    event: Any,
    events: Mapping[int, str],
    shared: Mapping[int, Mapping[str, Any]],
    wanted: set[int],
    names: Mapping[int, str],
) -> Raw:
    start = line.timestamp_ns * 1000 + event.offset_ps
    stats = {
        **shared.get(event.metadata_id, {}),
        **_stats(event.stats, wanted, names),
    }
    end = start + event.duration_ps
    return Raw(events.get(event.metadata_id, ""), start // 1000, end // 1000, stats)


def _stats(stats: Any, wanted: set[int], names: Mapping[int, str]) -> dict[str, Any]:
    return {
        names[stat.metadata_id]: _value(stat, names) for stat in stats if stat.metadata_id in wanted
    }


def _value(stat: Any, names: Mapping[int, str]) -> Any:
    """The value of a stat; a reference points to a name."""
    kind = stat.WhichOneof("value")
    if kind == "ref_value":
        return names.get(stat.ref_value, "")
    return getattr(stat, kind) if kind else None


def _modules(plane: Any) -> Iterator[tuple[int, bytes]]:
    """Compiled programs by number; a negative number of the proto is an unsigned one of the events."""
    names = {number: meta.name for number, meta in plane.stat_metadata.items()}
    for number, meta in plane.event_metadata.items():
        for stat in meta.stats:
            if names.get(stat.metadata_id) in _HLO_STATS and stat.bytes_value:
                yield unsigned(number), stat.bytes_value


def unsigned(number: int) -> int:
    """A number of 64 bits as an unsigned one; profiles write the same number in both ways."""
    return number % 2**64
