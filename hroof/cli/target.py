"""The program that ``hroof run`` starts: its environment, its signals, its exit status."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hroof.cli.start.sitecustomize import OUT_VARIABLE, START_VARIABLE
from hroof.errors import UsageError
from hroof.integration import known

NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128
_PATIENCE = 1.0
"""Seconds that a program has to end by an interrupt that it got itself."""
_PYTHON = re.compile(rb"^(python|pypy)[\d.]*(\.exe)?$")
_WITHOUT_HOOK = re.compile(r"^-[A-Za-z]*[IES]")
"""Options with which Python ignores the environment, or imports no sitecustomize."""
START_FOLDER = Path(__file__).parent / "start"


def environment(
    out: Path, *, skip: int, steps: int, name: str | None, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment in which a program measures itself.

    Args:
        out: Where results go.
        skip: Steps to let pass first.
        steps: Steps to time.
        name: Of the region; None for the name of the script.
        base: What to add to; by default the environment of this process.
    """
    found = dict(os.environ if base is None else base)
    start = {
        "skip": skip,
        "steps": steps,
        "name": name,
        "frameworks": sorted(known()),
    }
    path = [str(START_FOLDER), *filter(None, [found.get("PYTHONPATH")])]
    return found | {
        OUT_VARIABLE: str(out.absolute()),
        START_VARIABLE: json.dumps(start),
        "PYTHONPATH": os.pathsep.join(path),
    }


def execute(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    stdout: Any = None,
    stderr: Any = None,
    wait: Callable[[subprocess.Popen[bytes]], int] = subprocess.Popen.wait,
) -> int:
    """Run a program to its end; it has this process's input and output.

    Args:
        command: Its arguments, passed on byte for byte.
        env: Its environment.
        stdout: Where its standard output goes instead, as for ``subprocess.Popen``.
        stderr: Likewise.
        wait: Waits for its end, and may bring it about.

    Returns:
        Its exit status; 128 plus the signal that killed it.

    Raises:
        UsageError: It cannot be started (exit code 127 or 126).
    """
    with _passing_signals_on() as started:
        try:
            child = subprocess.Popen(list(command), env=dict(env), stdout=stdout, stderr=stderr)
        except (OSError, ValueError) as error:
            raise _not_started(command, error) from error
        started(child)
        status = wait(child)
    return status if status >= 0 else SIGNALLED - status


def check_startable(command: Sequence[str]) -> None:
    """Refuse a program that another one could not start either.

    Raises:
        UsageError: It is not there, or not executable (exit code 127 or 126).
    """
    if shutil.which(command[0]) is None:
        number = errno.EACCES if os.path.exists(command[0]) else errno.ENOENT
        raise _not_started(command, OSError(number, os.strerror(number)))


def notes_its_start(command: Sequence[str]) -> bool:
    """Whether a program, once started, leaves a note for sure: it is Python, which heeds the start-up hook."""
    path = shutil.which(command[0])
    if path is None:
        return False
    if not _PYTHON.match(os.path.basename(path).encode()):
        return _has_python_line(path)
    own = itertools.takewhile(lambda word: not word.endswith((".py", "-m", "-c")), command[1:])
    return not any(_WITHOUT_HOOK.match(word) for word in own)


def _has_python_line(path: str) -> bool:
    """Whether the first line of a script names Python."""
    try:
        with open(path, "rb") as file:
            line = file.readline(512)
    except OSError:
        return False
    words = [os.path.basename(word) for word in line.removeprefix(b"#!").split()]
    isolated = any(_WITHOUT_HOOK.match(word.decode(errors="replace")) for word in words)
    return line.startswith(b"#!") and any(map(_PYTHON.match, words)) and not isolated


def _not_started(command: Sequence[str], error: OSError | ValueError) -> UsageError:
    name = command[0]
    if isinstance(error, FileNotFoundError):
        remedy = "Check its name, PATH, and the first line of a script."
        if os.path.basename(name) == "python":
            remedy = f"This Python is {sys.executable}."
        problem = UsageError(f"Cannot start {name!r}: command not found.", remedy)
        problem.exit_code = NOT_FOUND
        return problem
    remedy = "Make it executable, or name its interpreter."
    if name.endswith(".py"):
        remedy = f"Write: hroof run -- python {shlex.quote(name)}"
    reason = "wrong format" if getattr(error, "errno", 0) == errno.ENOEXEC else None
    what = reason or getattr(error, "strerror", None) or error
    problem = UsageError(f"Cannot start {name!r}: {what}.", remedy)
    problem.exit_code = NOT_EXECUTABLE
    return problem


@contextlib.contextmanager
def _passing_signals_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """While a program runs, signals that ask to end are meant for it: results come afterwards."""
    child: list[subprocess.Popen[bytes]] = []
    early: list[int] = []
    later: list[threading.Timer] = []

    def pass_on(number: int, frame: object) -> None:
        if number == signal.SIGINT and _typed_at_terminal():
            return  # the terminal has sent it to the program as well
        if number == signal.SIGINT and child:
            later.append(_send_later(child[0], number))
        elif child:
            child[0].send_signal(number)
        else:
            early.append(number)

    def started(process: subprocess.Popen[bytes]) -> None:
        child.append(process)
        for number in early:
            process.send_signal(number)

    before = _handle(pass_on)
    try:
        yield started
    finally:
        for timer in later:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def _send_later(child: subprocess.Popen[bytes], number: int) -> threading.Timer:
    """Pass a signal on to a program that has not ended by then.

    An interrupt may have reached the whole process group. Twice at once it would hit the program
    while it still cleans up after the first.
    """
    timer = threading.Timer(_PATIENCE, child.send_signal, [number])
    timer.daemon = True
    timer.start()
    return timer


def _handle(handler: Callable[[int, object], None]) -> dict[signal.Signals, Any]:
    """Set a handler for the signals that end a program, except where they are ignored."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    handled = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in handled:
        signal.signal(number, handler)
    return handled


def _typed_at_terminal() -> bool:
    """Whether this process group has the terminal, so that Ctrl-C reaches every process of it."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, AttributeError):
        return False
