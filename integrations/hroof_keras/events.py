"""A profile of TensorFlow in one small form: executed ops, compiled instructions, device work, marks of steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hroof_keras.nodes import TensorSpec, dtype_of_word
from hroof_keras.xplane import Line, Raw, Space, unsigned

MARK = "hroof step"
"""Name of the events that tell the ends of steps, in the profile itself."""

EventKind = Literal["op", "hlo", "kernel", "memcpy", "memset"]
Shapes = tuple[TensorSpec | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One executed op, instruction or piece of device work.

    Attributes:
        name: Of the node of the graph, of the instruction, or of the kernel.
        op: Type of the node; empty for the others.
        start: Nanoseconds.
        end: Nanoseconds.
        thread: Number of the thread.
        kind: ``op`` is a node of a graph or an eager op, ``hlo`` an instruction of a compiled program; or device work.
        shapes: Of the inputs, where the profiler noted them; None for an input without one (handles, lists).
        hlo_module: Name of the compiled program.
        hlo_program: Its number.
        node: For device work: ``<node>:<op type>`` of the op that started it.
        instruction: For device work: the instruction that it belongs to.
        correlation: For device work, and for the call that started it: a number that both have.
        device: ``cpu`` or e.g. ``cuda:0``.
        stream: Of device work.
    """

    name: str
    op: str
    start: int
    end: int
    thread: int = 0
    kind: EventKind = "op"
    shapes: Shapes | None = None
    hlo_module: str | None = None
    hlo_program: int | None = None
    node: str = ""
    instruction: str = ""
    correlation: int = 0
    device: str = "cpu"
    stream: int = 0

    @property
    def duration(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


@dataclass(frozen=True)
class Recorded:
    """What one session of the profiler saw.

    Attributes:
        events: In order of their start; the outer before the inner one.
        steps: (start, end) of each whole step in nanoseconds, on the clock of the events.
        hlo_modules: Serialised ``HloProto`` by number of the compiled program.
        calls: Starts in nanoseconds of the calls that started device work, by correlation.
    """

    events: tuple[Event, ...] = ()
    steps: tuple[tuple[int, int], ...] = ()
    hlo_modules: Mapping[int, bytes] = field(default_factory=dict)
    calls: Mapping[int, int] = field(default_factory=dict)


def read_events(space: Space) -> Recorded:
    """Executed ops and device work of a profile; steps lie between its marks."""
    events: list[Event] = []
    calls: dict[int, int] = {}
    marks: list[int] = []
    for line in space.lines:
        if _is_device(line):
            events += _device_events(line)
        elif line.plane == "/host:CPU":
            events += _host_events(line)
            marks += [raw.start for raw in line.events if raw.name == MARK]
        calls.update(_calls(line))
    events.sort(key=lambda event: (event.start, -event.end))
    marks.sort()
    steps = tuple(zip(marks, marks[1:], strict=False))
    return Recorded(tuple(events), steps, space.hlo_modules, calls)


# A node, then its type; names of C++ scopes have two colons.
_OP = re.compile(r"([A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*):([A-Z_][A-Za-z0-9_>.]*)")
_FOREIGN = ("ThreadpoolListener", "ExecutorState", "Iterator::", "Iterator:")
_CONTAINERS = re.compile(r"(while|call|conditional|async-start|async-done)([.-].*|\d*)?")
_END = "end: "


def _host_events(line: Line) -> Iterator[Event]:
    for raw in line.events:
        event = _instruction(line, raw) if "hlo_op" in raw.stats else _executed(line, raw)
        if event is not None:
            yield event


def _executed(line: Line, raw: Raw) -> Event | None:
    """A node of a graph or an eager op."""
    match = _OP.fullmatch(raw.name)
    if match is None or raw.name.startswith(_FOREIGN):
        return None
    shapes = raw.stats.get("shape", raw.stats.get("tensor_shapes"))
    return Event(
        match[1],
        match[2],
        raw.start,
        raw.end,
        line.number,
        shapes=None if shapes is None else read_shapes(str(shapes)),
    )


def _instruction(line: Line, raw: Raw) -> Event | None:
    """An instruction of a compiled program; those that contain others and the ends of asynchronous ones apart."""
    name = str(raw.stats["hlo_op"])
    if raw.name.startswith(_END) or _CONTAINERS.fullmatch(name):
        return None
    return Event(
        name,
        "",
        raw.start,
        raw.end,
        line.number,
        "hlo",
        hlo_module=str(raw.stats.get("hlo_module", "")),
        hlo_program=_program(raw),
    )


def _program(raw: Raw) -> int | None:
    number = raw.stats.get("program_id")
    return None if number is None else unsigned(int(number))


_GPU = re.compile(r"/device:GPU:(\d+)")
_STREAM = re.compile(r"Stream #(\d+)")


def _is_device(line: Line) -> bool:
    """Whether a line is a stream of a GPU; lines that tools derive from streams repeat them."""
    return bool(_GPU.match(line.plane) and _STREAM.match(line.name))


def _device_events(line: Line) -> Iterator[Event]:
    """Kernels, copies and fills of one stream. Written from the sources of TensorFlow, not run on a GPU."""
    device, stream = _GPU.match(line.plane), _STREAM.match(line.name)
    assert device is not None
    assert stream is not None
    for raw in line.events:
        yield Event(
            raw.name,
            "",
            raw.start,
            raw.end,
            kind=_kind(raw.stats),
            hlo_module=_text(raw, "hlo_module") or None,
            hlo_program=_program(raw),
            node=_text(raw, "tf_op"),
            instruction=_text(raw, "hlo_op"),
            correlation=int(raw.stats.get("correlation_id") or 0),
            device=f"cuda:{device[1]}",
            stream=int(stream[1]),
        )


def _text(raw: Raw, stat: str) -> str:
    return str(raw.stats.get(stat) or "")


def _kind(stats: Mapping[str, object]) -> EventKind:
    if "memcpy_details" in stats:
        return "memcpy"
    return "memset" if "memset_details" in stats else "kernel"


def _calls(line: Line) -> Iterator[tuple[int, int]]:
    """Calls of the driver by correlation."""
    if line.plane.startswith("/host:CUPTI"):
        for raw in line.events:
            if raw.stats.get("correlation_id"):
                yield int(raw.stats["correlation_id"]), raw.start


_SHAPE = re.compile(r"([a-z][a-z0-9_]*)\[([0-9,? ]*)\]")


def read_shapes(text: str) -> Shapes:
    """Shapes of inputs as the profiler writes them: ``(float[32,4096];;int32[])``."""
    inner = text.strip().removeprefix("(").removesuffix(")")
    return tuple(_shape(part) for part in inner.split(";")) if inner else ()


def _shape(text: str) -> TensorSpec | None:
    """One input; None for a handle or a list, which have no entry."""
    match = _SHAPE.match(text.strip())
    if match is None:
        return None
    lengths = [part.strip() for part in match[2].split(",") if part.strip()]
    known = all(length.isdigit() for length in lengths)
    return TensorSpec(
        tuple(int(length) for length in lengths) if known else None, dtype_of_word(match[1])
    )


def of_steps(recorded: Recorded) -> list[list[Event]]:
    """The events of each whole step, by their start."""
    return [_between(recorded.events, start, end) for start, end in recorded.steps]


def _between(events: Sequence[Event], start: int, end: int) -> list[Event]:
    return [event for event in events if start <= event.start < end]


def union(events: Iterable[Event]) -> int:
    """Nanoseconds in which at least one event runs."""
    total, reached = 0, 0
    for event in sorted(events, key=lambda one: one.start):
        total += max(event.end - max(event.start, reached), 0)
        reached = max(reached, event.end)
    return total
