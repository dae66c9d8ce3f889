"""Running ``ncu``: its messages are heard while output passes through, and it ends in time."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 20.0
"""Seconds that ncu has, asked to stop, to end its program and write the report."""

_DRAIN = 2.0
_SHORT_PATIENCE = 2.0
"""Seconds for the same where there is no program to end and nothing to write."""
_MOST_LINES = 1000
_MARK = b"=="
_DENIED = b"ERR_NVGPUCTRPERM"

Process = tuple[int, str]
"""Number and start time, which together are unique."""


@dataclass
class Streams:
    """Where a child's output goes.

    Attributes:
        stdout: File descriptor for its standard output.
        stderr: Likewise.
        lines: What ncu said on them so far.
    """

    stdout: int
    stderr: int
    lines: list[str] = field(default_factory=list)


@contextlib.contextmanager
def overheard(stdout: int = 1, stderr: int = 2) -> Iterator[Streams]:
    """Pass a child's output on, and keep the lines of ncu.

    ncu writes to its log, but some messages come on standard error all the same. A terminal is left to the child, which
    may behave otherwise on one.

    Args:
        stdout: The file descriptor for its standard output.
        stderr: Likewise.
    """
    streams = Streams(stdout, stderr)
    with contextlib.ExitStack() as stack:
        tee = _tee(stdout, streams.lines, stack)
        streams.stdout = stdout if tee is None else tee
        # One pipe where both go to one file: two would mix up the order.
        if tee is None or not _same_file(stdout, stderr):
            tee = _tee(stderr, streams.lines, stack)
        streams.stderr = stderr if tee is None else tee
        yield streams


def _tee(target: int, lines: list[str], stack: contextlib.ExitStack) -> int | None:
    """The writing end of a pipe that is copied to a file; None for what is a terminal or closed."""
    try:
        os.fstat(target)
        if os.isatty(target):
            return None
    except OSError:
        return None
    read, write = os.pipe()
    copy = threading.Thread(target=_copy, args=(read, target, lines), daemon=True)
    copy.start()
    # A process that was left behind may hold the pipe open for ever.
    stack.callback(copy.join, _DRAIN)
    stack.callback(os.close, write)
    return write


def _same_file(one: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


def _copy(read: int, target: int, lines: list[str]) -> None:
    """Copy until the writers are gone; where nobody reads any more, they are told so."""
    rest = b""
    try:
        while data := os.read(read, 1 << 16):
            _write(target, data)
            *whole, rest = (rest + data).split(b"\n")
            _keep(whole, lines)
        _keep([rest], lines)
    except OSError:
        return  # the reader of the target has gone
    finally:
        os.close(read)


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


def _keep(found: list[bytes], lines: list[str]) -> None:
    for line in found:
        if (line.startswith(_MARK) or _DENIED in line) and len(lines) < _MOST_LINES:
            lines.append(line.decode(errors="replace").rstrip("\r"))


@dataclass
class Watch:
    """Waits for a child, up to a time.

    Attributes:
        seconds: How long; None for ever.
        patience: Seconds that each way of asking it to end gets.
        late: Whether it had to be ended.
    """

    seconds: float | None = None
    patience: float = PATIENCE
    late: bool = False

    def wait(self, child: subprocess.Popen[bytes]) -> int:
        """Its exit status, as ``Popen.wait`` gives it."""
        try:
            return child.wait(self.seconds)
        except subprocess.TimeoutExpired:
            self.late = True
            return self._end(child)

    def _end(self, child: subprocess.Popen[bytes]) -> int:
        """Ask ncu to stop, then its program to end; then end both, and whatever is left of them."""
        below = descendants(child.pid)
        child.send_signal(signal.SIGINT)
        status = self._soon(child)
        if status is None:
            below |= descendants(child.pid)
            _signal(below, signal.SIGTERM)
            status = self._soon(child)
        if status is None:
            below |= descendants(child.pid)
            child.kill()
        _signal(below, signal.SIGKILL)
        return child.wait() if status is None else status

    def _soon(self, child: subprocess.Popen[bytes]) -> int | None:
        try:
            return child.wait(self.patience)
        except subprocess.TimeoutExpired:
            return None


def ask(
    words: Sequence[str], *, stdout: Any = subprocess.PIPE, seconds: float | None = None
) -> tuple[int, str]:
    """Let ncu tell something, without a program under it.

    Args:
        words: The command line.
        stdout: Where its standard output goes, as for ``subprocess.Popen``.
        seconds: How long it may take; None for ever.

    Returns:
        Its exit status, and what it said on the streams that have not gone elsewhere.

    Raises:
        OSError: It cannot be started.
        TimeoutError: It took longer. It has been ended, with the processes that it started.
    """
    with subprocess.Popen(
        list(words), stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE
    ) as child:
        try:
            said = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            Watch(0.0, _SHORT_PATIENCE).wait(child)
            raise TimeoutError(errno.ETIMEDOUT, f"no answer in {seconds:g} s") from error
        except BaseException:
            child.kill()
            raise
    return child.returncode, b"".join(filter(None, said)).decode(errors="replace")


def _signal(processes: set[Process], number: int) -> None:
    """Send a signal to those that still are the same processes."""
    for process in processes:
        entry = _process(process[0])
        if entry is not None and entry[0] == process:
            with contextlib.suppress(OSError):
                os.kill(process[0], number)


def descendants(process: int) -> set[Process]:
    """The processes that one started, directly or not; empty where the system does not tell."""
    children: dict[int, list[Process]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        entry = _process(int(folder.name))
        if entry is not None:
            children.setdefault(entry[1], []).append(entry[0])
    found: set[Process] = set()
    waiting = [process]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += [one for one, _ in below]
    return found


def _process(number: int) -> tuple[Process, int] | None:
    """A process, and the number of its parent."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
        fields = text.rpartition(")")[2].split()
        return (number, fields[19]), int(fields[1])
    except (OSError, IndexError, ValueError):
        return None
