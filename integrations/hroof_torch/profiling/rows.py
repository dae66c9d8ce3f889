"""Events of a trace → timed ops with step, phase and layer, and the device work that each op started."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hroof.attribution import Timed
from hroof.launches import LOSS
from hroof.units import Phase
from hroof_torch.capturing.counted import gap_phase
from hroof_torch.profiling import ranges
from hroof_torch.profiling.events import Event, is_communication

IsComposite = Callable[[str, Sequence[str] | None], bool]
"""Whether an op of this name, with arguments of these types, only calls others."""

_NODE = "autograd::engine::evaluate_function: "
_ACCUMULATE = "torch::autograd::AccumulateGrad"
_COMPILED = "Torch-Compiled Region"
_COMPILED_BACKWARD = "CompiledFunctionBackward"
COMPILED_OP = "compiled region"


@dataclass(slots=True, eq=False)
class Context:
    """What surrounds an event on its thread.

    Attributes:
        end: When it is over, in nanoseconds.
        phase: None between the phases.
        layer: Number in the layer map.
        node: The running autograd node, by (thread that made it, number), or None.
        follows: For a leaf node without a number: the context of the node that ran before.
        in_body: Inside the node's own function, not in the engine's sums after it.
        recompute: Forward work run again.
        in_layer: The innermost range is a layer's, not a node's.
        op: The timed op around it, if any.
    """

    end: int
    phase: Phase | None = None
    layer: int | None = None
    node: tuple[int, int] | None = None
    follows: Context | None = None
    in_body: bool = False
    recompute: bool = False
    in_layer: bool = False
    op: Found | None = None


@dataclass(slots=True, eq=False)
class Found:
    """An op of the trace before its step and phase are settled."""

    event: Event
    context: Context
    name: str
    composite: bool
    inside: int = 0
    """Nanoseconds spent in ops below a composite one."""
    recompute: bool = False
    is_sum: bool = False
    device_work: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class Trace:
    """What a trace says.

    Attributes:
        ops: Timed ops in order of start.
        device_work: The kernels, copies and fills that each op started, in the same order.
        unlinked: Device work whose op is not in the trace.
        steps: (start, end) of each step in nanoseconds.
        origin: Nanoseconds of second 0.
        loading: (start, end) of each call that fetches a batch from a loader, in nanoseconds.
    """

    ops: list[Timed]
    device_work: list[list[Event]]
    unlinked: list[Event]
    steps: list[tuple[int, int]]
    origin: int
    loading: list[tuple[int, int]] = field(default_factory=list)


class Reader:
    """Walks the events of each thread once, keeping the ranges that are open."""

    def __init__(self, is_composite: IsComposite) -> None:
        self._is_composite = is_composite
        self._made: dict[tuple[int, int], Context] = {}
        self._by_correlation: dict[int, Found | None] = {}
        self.found: list[Found] = []
        self.markers: list[tuple[int, str]] = []
        self.step_marks: list[int] = []
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.graph_spans: list[tuple[int, int]] = []
        self.loading: list[tuple[int, int]] = []

    def thread(self, events: Sequence[Event]) -> None:
        """Read one thread's CPU events, sorted by start (outer before inner)."""
        root = Context(2**63)
        stack = [root]
        last_node: Context | None = None
        for event in events:
            while stack[-1].end <= event.start and len(stack) > 1:
                stack.pop()
            above = stack[-1]
            context = self._context(event, above, last_node)
            context.end = min(event.end, above.end)
            if event.name.startswith(_NODE):
                last_node = context
            elif event.sequence >= 0 and event.kind == "op":
                # A node takes its number when the op begins: the last op that could take it is the one.
                self._made[(event.thread, event.sequence)] = context
            self._by_correlation[event.correlation] = context.op
            stack.append(context)

    def _context(self, event: Event, above: Context, last_node: Context | None) -> Context:
        name = event.name
        if name.startswith(ranges.PREFIX):
            return self._range(event, above)
        if name.startswith(_NODE):
            leaf = event.sequence < 0
            node = None if leaf else (event.forward_thread, event.sequence)
            follows = last_node if leaf and name.endswith(_ACCUMULATE) else None
            return Context(0, Phase.BACKWARD, None, node, follows, op=above.op)
        if event.kind == "backward":
            body = _inherit(above, in_body=True)
            return self._op(event, body, COMPILED_OP) if name == _COMPILED_BACKWARD else body
        if name.startswith("enumerate(DataLoader)"):
            self.loading.append((event.start, event.end))
            return _inherit(above, phase=above.phase or Phase.DATA)
        if name.startswith("Optimizer.zero_grad"):
            return _inherit(above, phase=above.phase or Phase.OPTIMIZER)
        if name.startswith(_COMPILED):
            return self._op(event, above, COMPILED_OP)
        return self._op(event, above, name) if _is_op(name) else _inherit(above)

    def _range(self, event: Event, above: Context) -> Context:
        said = ranges.read(event.name)
        assert said is not None
        of_steps = {"step": self.step_marks, "begin": self.begins, "end": self.ends}
        if said.kind in of_steps:
            of_steps[said.kind].append(event.start)
            return _inherit(above)
        if said.kind == "layer":
            return self._layer_range(event, above, said)
        self.markers += [(event.start, f"{said.kind}+"), (event.end, f"{said.kind}-")]
        if said.keeps_graph:
            self.graph_spans.append((event.start, event.end))
        phase = Phase.OPTIMIZER if said.kind == "optimizer" else Phase.BACKWARD
        return Context(0, phase, above.layer if phase is Phase.BACKWARD else None, op=above.op)

    def _layer_range(self, event: Event, above: Context, said: ranges.Range) -> Context:
        if said.outermost and not said.loss and not said.recompute:
            self.markers += [(event.start, "forward+"), (event.end, "forward-")]
        phase = Phase.BACKWARD if said.recompute else Phase.LOSS if said.loss else Phase.FORWARD
        return Context(0, phase, said.layer, recompute=said.recompute, in_layer=True, op=above.op)

    def _op(self, event: Event, above: Context, name: str) -> Context:
        context = _inherit(above)
        outer = above.op
        if outer is not None and not outer.composite:
            return context
        in_node = context.phase is Phase.BACKWARD and not context.in_layer
        found = Found(event, context, name, self._is_composite(name, event.dtypes()))
        found.recompute = context.recompute or (
            in_node and event.kind == "op" and event.sequence >= 0 and not self._builds(event)
        )
        found.is_sum = in_node and not context.in_body and name in ("aten::add", "aten::add_")
        if outer is not None:
            outer.inside += event.end - event.start
        self.found.append(found)
        context.op = found
        return context

    def _builds(self, event: Event) -> bool:
        """Whether the backward pass around an event builds a graph, so that its ops have numbers anyway."""
        return any(start <= event.start <= end for start, end in self.graph_spans)

    def layer_of(self, context: Context | None) -> int | None:
        """The layer of a context: its range's, or that of the op which made the running node."""
        for hops in range(64):
            if context is None or context.layer is not None:
                return None if context is None else context.layer
            if context.phase is None and hops:
                return LOSS  # the node was made between the phases
            context = self._made.get(context.node) if context.node is not None else context.follows
        return None

    def started(self, linked: int) -> Found | None:
        """The op that started some device work."""
        return self._by_correlation.get(linked)


def _inherit(above: Context, *, phase: Phase | None = None, in_body: bool | None = None) -> Context:
    return Context(
        above.end,
        phase or above.phase,
        above.layer,
        above.node,
        above.follows,
        above.in_body if in_body is None else in_body,
        above.recompute,
        above.in_layer,
        above.op,
    )


def _is_op(name: str) -> bool:
    if name.startswith(("autograd::", "torch::autograd::")):
        return False
    return "::" in name or name.startswith(("gloo:", "nccl:"))


def read_trace(events: Iterable[Event], is_composite: IsComposite) -> Trace:
    """Timed ops of a trace.

    An op is timed with everything that it runs inside; an op that only calls others (composite) is timed
    without them. Device work is tied to the op that started it by correlation.

    Args:
        events: Events of all threads and devices, in any order.
        is_composite: Whether an op of this name, with arguments of these types, only calls others.
    """
    ordered = sorted(events, key=lambda event: (event.start, -event.end))
    reader = Reader(is_composite)
    for _, of_thread in sorted(_by_thread(ordered).items()):
        reader.thread(of_thread)
    unlinked = _link(
        reader, [event for event in ordered if event.kind in ("kernel", "memcpy", "memset")]
    )
    found = sorted(reader.found, key=lambda item: (item.event.start, -item.event.end))
    marks = sorted(reader.step_marks)
    origin = marks[0] if marks else ordered[0].start if ordered else 0
    gaps = _Gaps(reader.markers)
    steps = list(_steps(marks, reader.begins, reader.ends))
    ops = [_timed(item, reader, gaps, steps, origin) for item in found]
    work = [item.device_work for item in found]
    return Trace(ops, work, unlinked, steps, origin, reader.loading)


def _steps(
    marks: list[int], begins: Iterable[int], ends: Iterable[int]
) -> Iterator[tuple[int, int]]:
    """(start, end) of each step: from mark to mark, or only the part of it that the program calls a step."""
    for start, end in pairwise(marks):
        begin = max((time for time in begins if start <= time < end), default=start)
        yield begin, min((time for time in ends if begin < time < end), default=end)


def _by_thread(ordered: Iterable[Event]) -> dict[int, list[Event]]:
    threads: dict[int, list[Event]] = {}
    for event in ordered:
        if event.kind in ("op", "backward"):
            threads.setdefault(event.thread, []).append(event)
    return threads


def _link(reader: Reader, device_work: Iterable[Event]) -> list[Event]:
    unlinked: list[Event] = []
    for event in device_work:
        op = reader.started(event.linked) if event.linked else None
        (op.device_work if op is not None else unlinked).append(event)
    return unlinked


class _Gaps:
    """Phases of work between the phases, by the neighbours in time."""

    def __init__(self, markers: list[tuple[int, str]]) -> None:
        self._markers = sorted(markers)
        self._times = [time for time, _ in self._markers]

    def phase(self, start: int, *, elsewhere: bool = False) -> Phase:
        """The phase of a gap; of work that a thread elsewhere does for the program, what goes on meanwhile."""
        index = bisect_right(self._times, start)
        before = self._markers[index - 1][1] if index else ""
        after = self._markers[index][1] if index < len(self._markers) else ""
        if elsewhere and before == "backward+":
            return Phase.BACKWARD
        return gap_phase(before, after)


def _timed(
    item: Found, reader: Reader, gaps: _Gaps, steps: list[tuple[int, int]], origin: int
) -> Timed:
    event, context = item.event, item.context
    step = bisect_right(steps, event.start, key=lambda span: span[0]) - 1
    whole = step >= 0 and event.start < steps[step][1]
    communicates = is_communication(item.name)
    phase = context.phase or gaps.phase(event.start, elsewhere=communicates)
    layer = None if communicates else reader.layer_of(context)
    return Timed(
        step=step if whole else -1,
        phase=phase,
        layer=LOSS if layer is None and phase is Phase.LOSS else layer,
        recompute=item.recompute,
        is_sum=item.is_sum,
        op=item.name,
        signature=() if item.composite else event.signature(),
        start=(event.start - origin) / 1e9,
        duration=max(event.end - event.start - item.inside, 0) / 1e9,
        thread=event.thread,
        composite=item.composite,
    )
