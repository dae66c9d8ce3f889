"""Timed ops, counted work and layers → the launch table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from hroof.attribution import Counted, Part, Timed
from hroof.launches.work import Work
from hroof.profile import bytes_column, flop_column, source_column
from hroof.traffic import predict
from hroof.units import MemoryLevel, Phase, Pipe, Precision, Source

LOSS = -1
"""Layer number of a loss that is computed outside every layer, and of its backward pass."""

LOSS_NAME = "(loss)"

_ZERO = {
    flop_column(convention, pipe, precision): 0.0
    for convention in ("nominal", "least")
    for pipe in Pipe
    for precision in Precision
}
Row = dict[str, Any]
Recount = Callable[[Timed], Work | None]


class Label(NamedTuple):
    """A layer as the table names it: its qualified name and its class."""

    name: str
    type: str


class DeviceWork(Protocol):
    """A kernel, copy or fill that an op started; times in nanoseconds."""

    @property
    def name(self) -> str:
        """Of the kernel."""

    @property
    def start(self) -> int:
        """When it began."""

    @property
    def end(self) -> int:
        """When it had ended."""

    @property
    def device(self) -> str:
        """For example ``cuda:0``."""

    @property
    def stream(self) -> int:
        """Of the device."""


@dataclass
class Table:
    """Builds rows; one instance per profile.

    Attributes:
        labels: Gives names and classes of the layers by number, when rows are built.
        caches: Capacities for the traffic model.
        recount: Work of a timed op from its own shapes.
        optimizer_parts: Shares by layer of an optimizer op that was not counted, from its signature.
        device: Device of CPU rows.
        rank: Process of a distributed run.
        origin: Nanoseconds of second 0 of the capture.
    """

    labels: Callable[[], Sequence[Label]]
    caches: Mapping[MemoryLevel, int]
    recount: Recount
    optimizer_parts: Callable[[Any], tuple[Part, ...]]
    device: str = "cpu"
    rank: int = 0
    origin: int = 0
    without_rule: set[str] = field(default_factory=set)
    _layers: Sequence[Label] = ()
    _priced: dict[int, Row] = field(default_factory=dict)
    _serves: dict[int, tuple[Part, ...]] = field(default_factory=dict)
    _next: int = 0

    def rows(
        self,
        ops: Sequence[Timed],
        device_work: Sequence[Sequence[DeviceWork]],
        counted: Sequence[Counted],
    ) -> list[Row]:
        """Rows of one or more steps, in order of start."""
        self._layers = self.labels()
        self._price(counted)
        self._serves = _spread(ops, [self._known_parts(op) for op in ops])
        on_device = any(device_work)
        rows: list[Row] = []
        for op, work in zip(ops, device_work, strict=True):
            rows += self._device_rows(op, work) if on_device else self._cpu_rows(op)
        return rows

    def _price(self, counted: Sequence[Counted]) -> None:
        """Columns of every counted op; traffic is predicted over the whole step."""
        traffic = (
            predict([op.work.touch for op in counted], self.caches)
            if self.caches
            else [{} for _ in counted]
        )
        for op, below in zip(counted, traffic, strict=True):
            self._priced[id(op)] = {**self._work_columns(op.op, op.work), **_traffic_columns(below)}

    def _work_columns(self, name: str, work: Work) -> Row:
        row: Row = {"bytes_read": work.bytes_read, "bytes_written": work.bytes_written}
        row[bytes_column(MemoryLevel.L1)] = work.bytes_read + work.bytes_written
        row[source_column(MemoryLevel.L1)] = Source.COUNTED.value
        row[source_column("flop")] = work.source.value
        if work.nominal is None or work.least is None:
            self.without_rule.add(name)
            return row
        row |= _ZERO
        for convention, flop in (("nominal", work.nominal), ("least", work.least)):
            for (pipe, precision), value in flop.items():
                row[flop_column(convention, pipe, precision)] = float(value)  # type: ignore[arg-type]
        return row

    def _work(self, op: Timed) -> Row:
        if op.composite:
            return _NO_WORK
        if op.counted is not None:
            return self._priced[id(op.counted)]
        work = self.recount(op)
        return {} if work is None else self._work_columns(op.op, work)

    def _cpu_rows(self, op: Timed) -> list[Row]:
        base = self._base(op)
        base |= {
            "device": self.device,
            "stream": op.thread,
            "start": op.start,
            "duration": op.duration,
        }
        return self._split(op, {**base, **self._work(op)})

    def _device_rows(self, op: Timed, work: Sequence[DeviceWork]) -> list[Row]:
        """One row per kernel; the op's work is shared among its kernels in proportion to their time."""
        total = sum(event.end - event.start for event in work)
        rows: list[Row] = []
        columns = self._work(op)
        for event in work:
            share = (event.end - event.start) / total if total else 1 / len(work)
            place = {"device": event.device, "stream": event.stream, "kernel": event.name}
            time = {
                "start": (event.start - self.origin) / 1e9,
                "duration": (event.end - event.start) / 1e9,
            }
            rows += self._split(op, {**self._base(op), **place, **scaled(columns, share), **time})
        return rows

    def untimed_rows(self, counted: Sequence[Counted]) -> list[Row]:
        """Rows of counted work that nothing has timed."""
        ops = [Timed.like(work) for work in counted]
        for op, work in zip(ops, counted, strict=True):
            op.counted = work
        missing = {source_column("time"): Source.MISSING.value}
        return [{**row, **missing} for row in self.rows(ops, [[] for _ in ops], counted)]

    def unlinked_rows(self, events: Sequence[DeviceWork], step: int = -1) -> list[Row]:
        """Device work whose op is not known: its time counts, its layer and work are missing."""
        rows = []
        for event in events:
            time = {
                "start": (event.start - self.origin) / 1e9,
                "duration": (event.end - event.start) / 1e9,
            }
            place = {
                "device": event.device,
                "stream": event.stream,
                "kernel": event.name,
                "rank": self.rank,
            }
            rows.append(
                {
                    "launch_id": self._take(),
                    **place,
                    **time,
                    "step": step,
                    "phase": Phase.OTHER.value,
                    "recompute": False,
                    "ordinal": 0,
                    "launches": 1.0,
                    source_column("time"): Source.MEASURED.value,
                }
            )
        return rows

    def _base(self, op: Timed) -> Row:
        return {
            "launch_id": self._take(),
            "rank": self.rank,
            "step": op.step,
            "phase": op.phase.value,
            "recompute": op.recompute,
            "op": op.op,
            "ordinal": op.ordinal,
            "launches": 1.0,
            source_column("time"): Source.MEASURED.value,
        }

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _split(self, op: Timed, row: Row) -> list[Row]:
        """One row, or one per layer where the op serves several."""
        parts = self._serves.get(id(op), ())
        if not parts:
            owner = op.counted.owner if op.counted is not None else None
            parts = (Part(op.layer if owner is None else owner, 1.0),)
        return [{**scaled(row, part.share), **self._place(part)} for part in parts]

    def _known_parts(self, op: Timed) -> tuple[Part, ...]:
        """Shares of an op that serves several layers, as far as its own tensors tell."""
        if op.counted is not None:
            return op.counted.parts
        if op.phase is not Phase.OPTIMIZER or op.layer is not None or op.composite:
            return ()
        return self.optimizer_parts(op.signature)

    def _place(self, part: Part) -> Row:
        """The columns of a part's layer, and of its phase where it has one of its own."""
        phase = {} if part.phase is None else {"phase": part.phase.value}
        return {**self._layer(part.layer), **phase}

    def _layer(self, number: int | None) -> Row:
        if number is None:
            return {}
        if number == LOSS:
            return {"layer": LOSS_NAME, "layer_type": "loss"}
        label = self._layers[number]
        return {"layer": label.name, "layer_type": label.type}


def _spread(ops: Sequence[Timed], known: Sequence[tuple[Part, ...]]) -> dict[int, tuple[Part, ...]]:
    """Shares of the ops that have some, by identity.

    An op of an optimizer step that touches no parameter (it reads a step count, makes a constant) serves the
    update that it comes before, or after at the end of a step.
    """
    parts = {id(op): shares for op, shares in zip(ops, known, strict=True) if shares}
    for sequence in (reversed(ops), ops):
        near: dict[tuple[int, int], tuple[Part, ...]] = {}
        for op in sequence:
            if op.phase is not Phase.OPTIMIZER or op.layer is not None:
                continue
            place = (op.step, op.thread)
            if id(op) in parts:
                near[place] = parts[id(op)]
            elif place in near:
                parts[id(op)] = near[place]
    return parts


def _is_work(name: str) -> bool:
    return name.startswith(("flop_", "bytes_")) or name == "duration"


def scaled(row: Row, share: float) -> Row:
    """A share of a row: its launch, time, FLOP and bytes."""
    if share == 1.0:
        return dict(row)
    result = {name: value * share if _is_work(name) else value for name, value in row.items()}
    result["launches"] = row.get("launches", 1.0) * share
    return result


def _traffic_columns(below: Mapping[MemoryLevel, float]) -> Row:
    row: Row = {}
    for level, value in below.items():
        row[bytes_column(level)] = value
        row[source_column(level)] = Source.PREDICTED.value
    return row


def _no_work() -> Row:
    row: Row = {
        "bytes_read": 0.0,
        "bytes_written": 0.0,
        **_ZERO,
        source_column("flop"): Source.COUNTED.value,
    }
    for level in MemoryLevel:
        row[bytes_column(level)] = 0.0
        row[source_column(level)] = Source.COUNTED.value
    return row


_NO_WORK = _no_work()
