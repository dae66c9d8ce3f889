"""Build the recorder, run a program under it, and read which NVTX ranges were open where and when.

A test of ranges needs no GPU::

    library = build(tmp_path)
    recording = run(SCRIPT, library, tmp_path / "out")
    check_balanced(recording.events)
    placed(recording.events)  # for every stand-in of a kernel: its layer, and what surrounds it

A script can import ``launches`` (beside this file), which marks the stand-ins for kernels.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE = HERE / "recorder.c"
OPTIONS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wno-cast-function-type", "-Werror")
INJECTION = "NVTX_INJECTION64_PATH"
HROOF = "hroof"
LAUNCHES = "launches"
"""The domain of the marks that stand for kernels."""


# --- building and running -----------------------------------------------------------------------


def build(folder: Path, *options: str) -> Path:
    """Compile the recorder into a folder.

    Args:
        folder: Where the library goes.
        options: More options for the compiler.

    Returns:
        The library, for ``NVTX_INJECTION64_PATH``.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler: `cc` is not on the PATH")
    library = folder / "librecorder.so"
    command = [compiler, *OPTIONS, "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", *options]
    done = subprocess.run(
        [*command, str(SOURCE), "-o", str(library)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return library


def headers() -> Path | None:
    """A folder that holds ``nvtx3/nvToolsExt.h``, where this machine has one."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", "/usr"]
    folders = [Path(root) / "include" for root in roots if root]
    folders += [Path(entry) / "nvidia" / "nvtx" / "include" for entry in sys.path if entry]
    return next((f for f in folders if (f / "nvtx3" / "nvToolsExt.h").is_file()), None)


@dataclass(frozen=True)
class Event:
    """One line of the recorder.

    Attributes:
        time: Nanoseconds, comparable with ``time.monotonic_ns``.
        pid: The process.
        thread: The thread, as ``threading.get_native_id`` numbers it.
        event: ``push``, ``pop``, ``start``, ``end``, ``mark``, ``category``, ``thread``, ``domain``,
            ``resource`` or ``destroy``.
        domain: Its name; None for the default domain.
        message: Text of the range or the mark.
        id: Of a start/end range, a category or a named thread.
        depth: Of the range that a push begins or a pop ends; 0 is the outermost, -1 none.
        more: The rest: category, color, payload, payload_type.
    """

    time: int
    pid: int
    thread: int
    event: str
    domain: str | None = None
    message: str | None = None
    id: int | None = None
    depth: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


_FIELDS = frozenset(Event.__dataclass_fields__) - {"more"}


@dataclass(frozen=True)
class Recording:
    """What a program emitted and said."""

    events: list[Event]
    stdout: str
    stderr: str
    returncode: int

    def of(self, *kinds: str, domain: str | None = HROOF) -> list[Event]:
        """The events of these kinds in one domain."""
        return [e for e in self.events if e.event in kinds and e.domain == domain]


def read(folder: Path) -> list[Event]:
    """All the events in a folder, of every process, by time."""
    lines = [line for path in sorted(folder.glob("events-*.jsonl")) for line in _lines(path)]
    events = [
        Event(
            **{key: value for key, value in line.items() if key in _FIELDS},
            more={key: value for key, value in line.items() if key not in _FIELDS},
        )
        for line in lines
    ]
    return sorted(events, key=lambda event: event.time)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(
    script: str,
    library: Path | None,
    out: Path,
    *,
    by_line: bool = False,
    environment: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
    returncode: int = 0,
) -> Recording:
    """Run a Python program under the recorder.

    Args:
        script: Its text.
        library: The recorder; None runs the program without any tool.
        out: Folder for the events; made anew.
        by_line: Write every event at once, for programs that do not end properly.
        environment: More variables; ``NVTX_INJECTION64_PATH`` among them wins over ``library``.
        options: Options of the interpreter, such as ``-W``, ``error``.
        returncode: The exit status that is expected.
    """
    out.mkdir(parents=True)
    unwanted = (INJECTION, "NVTX_DISABLE", "HROOF", "RECORDER_LINES", "PYTHONWARNINGS")
    variables = {key: value for key, value in os.environ.items() if key not in unwanted}
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables |= {"RECORDER_OUT": str(out), "PYTHONPATH": path, "PYTHONUTF8": "1"}
    variables |= {"RECORDER_LINES": "1"} if by_line else {}
    variables |= {INJECTION: str(library)} if library else {}
    command = [sys.executable, *options, "-c", script]
    done = subprocess.run(
        command,
        env=variables | dict(environment or {}),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == returncode, done.stdout + done.stderr
    return Recording(read(out), done.stdout, done.stderr, done.returncode)


# --- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """A span of time with a name.

    Attributes:
        message: Its name.
        domain: Its domain.
        pid: Its process.
        thread: The thread that began it.
        begin: Nanoseconds.
        end: Nanoseconds; None when it was never ended.
        end_thread: The thread that ended it.
        depth: How many ranges of its thread and domain lie around it; 0 for start/end ranges.
    """

    message: str | None
    domain: str | None
    pid: int
    thread: int
    begin: int
    end: int | None = None
    end_thread: int | None = None
    depth: int = 0

    def holds(self, time: int) -> bool:
        """Whether it is open at an instant."""
        return self.begin <= time and (self.end is None or time < self.end)


def stacks(events: Iterable[Event]) -> dict[tuple[int, int, str | None], list[Range]]:
    """The push/pop ranges of every (process, thread, domain), in the order in which they began."""
    ranges: dict[tuple[int, int, str | None], list[Range]] = {}
    waiting: dict[tuple[int, int, str | None], list[int]] = {}
    for event in events:
        key = (event.pid, event.thread, event.domain)
        if event.event == "push":
            waiting.setdefault(key, []).append(len(ranges.setdefault(key, [])))
            ranges[key].append(_begun(event, depth=len(waiting[key]) - 1))
        elif event.event == "pop" and waiting.get(key):
            index = waiting[key].pop()
            ranges[key][index] = _ended(ranges[key][index], event)
    return ranges


def spans(events: Iterable[Event]) -> list[Range]:
    """The start/end ranges, in the order in which they began."""
    ranges: dict[tuple[int, int | None], Range] = {}
    for event in events:
        key = (event.pid, event.id)
        if event.event == "start":
            ranges[key] = _begun(event)
        elif event.event == "end" and key in ranges:
            ranges[key] = _ended(ranges[key], event)
    return list(ranges.values())


def _begun(event: Event, depth: int = 0) -> Range:
    return Range(
        event.message, event.domain, event.pid, event.thread, begin=event.time, depth=depth
    )


def _ended(begun: Range, event: Event) -> Range:
    return Range(**(vars(begun) | {"end": event.time, "end_thread": event.thread}))


def imbalances(events: Iterable[Event]) -> list[str]:
    """Every pop without its push, end without its start, and range that was left open."""
    events = list(events)
    depths: dict[tuple[int, int, str | None], int] = {}
    begun: set[tuple[int, int | None]] = set()
    problems = []
    for event in events:
        key, pair = (event.pid, event.thread, event.domain), (event.pid, event.id)
        if event.event in ("push", "pop"):
            depths[key] = depths.get(key, 0) + (1 if event.event == "push" else -1)
            if depths[key] < 0:
                problems.append(f"pop without a push: {event}")
                depths[key] = 0
        elif event.event == "start":
            begun.add(pair)
        elif event.event == "end":
            if pair not in begun:
                problems.append(f"end without a start, or a second one: {event}")
            begun.discard(pair)
    ranges = spans(events)
    ranges += [r for stack in stacks(events).values() for r in stack]
    return problems + [f"left open: {r}" for r in ranges if r.end is None]


def check_balanced(events: Iterable[Event]) -> None:
    """Fail unless every push has its pop on its thread, and every start its one end."""
    problems = imbalances(events)
    assert not problems, "\n".join(problems)


def path_at(
    events: Iterable[Event], thread: int, time: int, domain: str | None = HROOF
) -> list[str | None]:
    """The messages of the push/pop ranges of a thread that are open at an instant, outermost first."""
    return [
        r.message
        for (_, owner, where), ranges in stacks(events).items()
        if owner == thread and where == domain
        for r in ranges
        if r.holds(time)
    ]


def innermost(
    events: Iterable[Event], thread: int, time: int, domain: str | None = HROOF
) -> str | None:
    """The message of the innermost push/pop range of a thread at an instant, or None."""
    path = path_at(events, thread, time, domain)
    return path[-1] if path else None


@dataclass(frozen=True)
class Placed:
    """Where one stand-in for a kernel was launched.

    Attributes:
        launch: Its name.
        layer: Message of the innermost layer of its thread.
        around: Messages of the process-wide ranges that are open then, in the order of their beginning.
        event: The mark itself.
    """

    launch: str | None
    layer: str | None
    around: tuple[str | None, ...]
    event: Event


def placed(events: Iterable[Event]) -> list[Placed]:
    """Every mark of the domain ``launches``, with what hroof's ranges say about it."""
    events = list(events)
    around = [span for span in spans(events) if span.domain == HROOF]
    return [
        Placed(
            mark.message,
            innermost(events, mark.thread, mark.time),
            tuple(s.message for s in around if s.pid == mark.pid and s.holds(mark.time)),
            mark,
        )
        for mark in events
        if mark.event == "mark" and mark.domain == LAUNCHES
    ]
