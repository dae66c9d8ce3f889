"""A profile of TensorFlow in one small form: executed ops, compiled instructions, device work, marks of steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hroof_keras.graph.nodes import TensorSpec, dtype_of_word
from hroof_keras.profiling.xplane import Line, Raw, Space, unsigned

BEGIN = "hroof begin"
"""Name of the events in the profile itself that tell where steps begin; an earlier one without an end is void."""

END = "hroof end "
"""Beginning of the names of those that tell where steps end; how many did follows."""

INPUT = "hroof input "
"""Beginning of the names of those that tell what an outermost layer gets that is called eagerly; shapes follow."""

EventKind = Literal["op", "eager", "hlo", "kernel", "memcpy", "memset"]
Shapes = tuple[TensorSpec | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One executed op, instruction or piece of device work.

    Attributes:
        name: Of the node of the graph, of the instruction, or of the kernel; for an eager op its type.
        op: Type of the node or of the eager op; empty for the others.
        start: Nanoseconds.
        end: Nanoseconds.
        thread: Number of the thread, in the order of the profile.
        kind: ``op`` is a node of a graph, ``hlo`` an instruction of a compiled program; or device work.
        shapes: Of the inputs, where the profiler noted them; None for an input without one (handles, lists).
        hlo_module: Name of the compiled program.
        hlo_program: Its number.
        node: For device work: ``<node>:<op type>`` of the op that started it.
        instruction: For device work: the instruction that it belongs to.
        correlation: For device work, and for the call that started it: a number that both have.
        device: ``cpu`` or e.g. ``cuda:0``.
        stream: Of device work.
        pipeline: It ran on a thread of the input pipeline.
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
    pipeline: bool = False

    @property
    def duration(self) -> int:
        """Nanoseconds."""
        return self.end - self.start


@dataclass(frozen=True)
class Recorded:
    """What one session of the profiler saw.

    Attributes:
        events: In order of their start; the outer before the inner one.
        steps: (start, end) in nanoseconds of each step, or of several that were executed at once.
        at_once: How many steps each of these is.
        signs: (start, text) of what tells steps apart that execute equal nodes: names of the functions that Python
            called, and shapes of what was taken from the input pipeline, which begin with a bracket.
        hlo_modules: Serialised ``HloProto`` by number of the compiled program.
        calls: Starts in nanoseconds of the calls that started device work, by correlation.
    """

    events: tuple[Event, ...] = ()
    steps: tuple[tuple[int, int], ...] = ()
    at_once: tuple[int, ...] = ()
    signs: tuple[tuple[int, str], ...] = ()
    hlo_modules: Mapping[int, bytes] = field(default_factory=dict)
    calls: Mapping[int, int] = field(default_factory=dict)


def read_events(space: Space) -> Recorded:
    """Executed ops and device work of a profile; steps lie between its marks."""
    events: list[Event] = []
    calls: dict[int, int] = {}
    marks: list[tuple[int, str]] = []
    signs: list[tuple[int, str]] = []
    for thread, line in enumerate(space.lines):
        if _is_device(line):
            events += _device_events(line)
        elif line.plane == _HOST:
            events += _host_events(line, thread)
            marks += [(raw.start, raw.name) for raw in line.events if _is_mark(raw.name)]
            signs += _signs(line)
        calls.update(_calls(line))
    events.sort(key=lambda event: (event.start, -event.end))
    steps, at_once = _steps(sorted(marks))
    modules = space.hlo_modules
    return Recorded(tuple(events), steps, at_once, tuple(sorted(signs)), modules, calls)


_HOST = "/host:CPU"
_PIPELINE = "tf_data_"
_TAKEN = "Iterator::"


def _is_mark(name: str) -> bool:
    return name == BEGIN or name.startswith(END)


def _steps(
    marks: Iterable[tuple[int, str]],
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """The spans between a beginning and the end that follows it, and how many steps each is."""
    spans: list[tuple[int, int]] = []
    counts: list[int] = []
    begun: int | None = None
    for time, name in marks:
        if name == BEGIN:
            begun = time
        elif begun is not None:
            spans.append((begun, time))
            counts.append(int(name.removeprefix(END)))
            begun = None
    return tuple(spans), tuple(counts)


def _signs(line: Line) -> Iterator[tuple[int, str]]:
    """Functions that were called, and shapes of what was taken from the input pipeline on threads that run ops."""
    if line.name.startswith(_PIPELINE):
        return
    for raw in line.events:
        if raw.name.startswith(_TAKEN) and "shapes" in raw.stats:
            yield raw.start, str(raw.stats["shapes"])
        elif raw.name.startswith(INPUT):
            yield raw.start, raw.name.removeprefix(INPUT)
        elif raw.name.startswith(_FUNCTION):
            yield raw.start, raw.name.removeprefix(_EAGER)


# A node, then its type; names of C++ scopes have two colons.
_OP = re.compile(r"([A-Za-z0-9_.][A-Za-z0-9_.\\/>-]*):([A-Z_][A-Za-z0-9_>.]*)")
_FOREIGN = ("ThreadpoolListener", "ExecutorState", "Iterator:")
_CONTAINERS = re.compile(r"(while|conditional|async-start|async-done)([.-].*|\d*)?")
_END = "end: "
_EAGER = "EagerLocalExecute: "
_FUNCTION = f"{_EAGER}__inference_", f"{_EAGER}__forward_"
_NOT_EAGER = ("__inference_", "__forward_", "__backward_", "SyncDevice")
"""Calls of traced functions, whose ops have events of their own, and what hroof itself waits with."""


def _host_events(line: Line, thread: int) -> Iterator[Event]:
    pipeline = line.name.startswith(_PIPELINE)
    for raw in line.events:
        if "hlo_op" in raw.stats:
            event = _instruction(raw, thread)
        elif raw.name.startswith(_EAGER):
            event = _eager(raw, thread)
        else:
            event = _executed(raw, thread, pipeline)
        if event is not None:
            yield event


def _eager(raw: Raw, thread: int) -> Event | None:
    """An op that Python ran at once."""
    op = raw.name.removeprefix(_EAGER)
    if op.startswith(_NOT_EAGER):
        return None
    return Event(op, op, raw.start, raw.end, thread, "eager")


def _executed(raw: Raw, thread: int, pipeline: bool) -> Event | None:
    """A node of a graph."""
    match = _OP.fullmatch(raw.name)
    if match is None or raw.name.startswith(_FOREIGN):
        return None
    shapes = raw.stats.get("shape", raw.stats.get("tensor_shapes"))
    return Event(
        match[1],
        match[2],
        raw.start,
        raw.end,
        thread,
        shapes=None if shapes is None else read_shapes(str(shapes)),
        pipeline=pipeline,
    )


def _instruction(raw: Raw, thread: int) -> Event | None:
    """An instruction of a compiled program; those that contain others and the ends of asynchronous ones apart."""
    name = str(raw.stats["hlo_op"])
    if raw.name.startswith(_END) or _CONTAINERS.fullmatch(name):
        return None
    return Event(
        name,
        "",
        raw.start,
        raw.end,
        thread,
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


def shapes_within(recorded: Recorded, start: int, end: int) -> list[str]:
    """What a span of time got: shapes of what the input pipeline gave, and of what eager layers were called with."""
    found = (text for time, text in recorded.signs if start <= time < end and text.startswith("["))
    return sorted(set(found))


def within(events: Sequence[Event], start: int, end: int) -> list[Event]:
    """The events that begin in a span of time."""
    return [event for event in events if start <= event.start < end]
