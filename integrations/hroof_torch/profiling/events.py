"""Profiler events in one small form, from a live profiler or from a recorded trace."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

EventKind = Literal["op", "backward", "kernel", "memcpy", "memset"]


def no_dtypes() -> Sequence[str] | None:
    """Types of the arguments of an event that does not know them."""
    return None


_COMMUNICATION = (
    "c10d::",
    "_c10d_functional::",
    "torch::distributed::",
    "gloo:",
    "nccl:",
    "mpi:",
)


def is_communication(name: str) -> bool:
    """Whether an op exchanges data with other processes: it serves all layers, so it has none."""
    return name.startswith(_COMMUNICATION)


def no_signature() -> Hashable:
    """Signature of an event without tensor arguments."""
    return ()


@dataclass(slots=True, eq=False)
class Event:
    """One event of a trace.

    Attributes:
        name: As the profiler gives it.
        start: Nanoseconds.
        end: Nanoseconds.
        thread: Thread of a CPU event.
        kind: ``op`` for any CPU event but the body of an autograd node, which is ``backward``; or device work.
        sequence: Number of the autograd node that the op makes, or that runs; -1 without one.
        forward_thread: For a running node: the thread that made it.
        correlation: What device work started by this CPU event refers to.
        linked: For device work: correlation of the CPU event that started it.
        device: ``cpu`` or e.g. ``cuda:0``.
        stream: Device stream.
        dtypes: Gives the types of the arguments, as the profiler spells them.
        signature: Gives shapes and dtypes of the tensor arguments; called only where they are needed.
    """

    name: str
    start: int
    end: int
    thread: int = 0
    kind: EventKind = "op"
    sequence: int = -1
    forward_thread: int = 0
    correlation: int = 0
    linked: int = 0
    device: str = "cpu"
    stream: int = 0
    dtypes: Callable[[], Sequence[str] | None] = no_dtypes
    signature: Callable[[], Hashable] = no_signature


_BACKWARD_SCOPE = 1


def read_kineto(
    events: Iterable[Any], signature: Callable[[Any, Any], Hashable], device_name: str = "cuda"
) -> list[Event]:
    """Events of a live profiler (``prof.profiler.kineto_results.events()``).

    Args:
        events: The profiler's events.
        signature: Makes a signature of (structured input shapes, dtypes).
        device_name: Name of the device type of device work.
    """
    return [
        event
        for event in (_read(raw, signature, device_name) for raw in events)
        if event is not None
    ]


def _read(raw: Any, signature: Callable[[Any, Any], Hashable], device_name: str) -> Event | None:
    activity = raw.activity_type()
    if activity in ("cpu_op", "user_annotation"):
        return Event(
            raw.name(),
            raw.start_ns(),
            raw.end_ns(),
            raw.start_thread_id(),
            "backward" if raw.scope() == _BACKWARD_SCOPE else "op",
            raw.sequence_nr(),
            raw.fwd_thread_id(),
            raw.correlation_id(),
            dtypes=raw.dtypes,
            signature=lambda: signature(raw.structured_input_shapes(), raw.dtypes()),
        )
    kinds: dict[str, EventKind] = {
        "kernel": "kernel",
        "gpu_memcpy": "memcpy",
        "gpu_memset": "memset",
    }
    if activity not in kinds:
        return None
    return Event(
        raw.name(),
        raw.start_ns(),
        raw.end_ns(),
        kind=kinds[activity],
        linked=raw.linked_correlation_id(),
        device=f"{device_name}:{raw.device_index()}",
        stream=raw.device_resource_id(),
    )
