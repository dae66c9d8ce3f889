"""The program ``ncu``: where it is, and which version."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hroof.collect.nsight.execute import ask
from hroof.errors import MissingError

OLDEST = (2022, 3)
"""The oldest version whose options and output are known."""
VARIABLE = "HROOF_NCU"
"""The environment variable that names the program."""

_FOLDERS = ("opt/nvidia/nsight-compute/*", "usr/local/cuda/bin", "usr/local/cuda-*/bin")
_NAME = "Nsight Compute"
_OPTION = re.compile(r"^  (?:-\w \[ )?--([a-z][\w-]+)", re.MULTILINE)
_VERSION = re.compile(r"^Version (\d+)\.(\d+)\.(\d+)", re.MULTILINE)
_SECONDS = 20.0
_UNTIL_TOLD = 3.0
"""Seconds after which a user is told what is waited for."""


class NoProgramError(MissingError):
    """There is no Nsight Compute that could be used here."""


@dataclass(frozen=True)
class Program:
    """An ``ncu`` that answers.

    Attributes:
        path: As it is started.
        version: Its numbers, e.g. ``(2024, 1, 1)``.
        options: Names of the options that its help lists, e.g. ``config-file``; not every version has all.
    """

    path: str
    version: tuple[int, ...]
    options: frozenset[str] = frozenset()

    @property
    def release(self) -> str:
        """The version as text."""
        return ".".join(map(str, self.version))

    def since(self, *version: int) -> bool:
        """Whether it is at least that version."""
        return self.version >= version


def find(named: str | Path | None = None, say: Callable[[str], None] | None = None) -> Program:
    """The program that was named, that of ``HROOF_NCU``, that on PATH, or the newest installed one.

    Args:
        named: Its path or name; nothing else is looked at then.
        say: Is told where it takes long to answer.

    Raises:
        NoProgramError: There is none, it does not answer, is something else of that name, or too old.
    """
    wanted = str(named or os.environ.get(VARIABLE) or "")
    path = shutil.which(wanted or "ncu")
    if path is None and not wanted:
        path = next(_installed(), None)
    if path is None:
        raise NoProgramError(
            f"There is no Nsight Compute here ({wanted or 'ncu'} is not found).",
            "Install it (it comes with the CUDA toolkit), add it to PATH, or name it with --ncu.",
        )
    waiting = f"hroof: waiting for {path} to say its version …"
    notice = threading.Timer(_UNTIL_TOLD, say or (lambda text: None), [waiting])
    notice.daemon = True
    notice.start()
    try:
        return _asked(path)
    finally:
        notice.cancel()


def _installed() -> Iterator[str]:
    """Where its installers put it, newest first; this lies on PATH only where somebody saw to it."""
    for pattern in _FOLDERS:
        for folder in sorted(Path("/").glob(pattern), key=_numbers, reverse=True):
            found = shutil.which("ncu", path=str(folder))
            if found:
                yield found


def _numbers(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]


def _asked(path: str) -> Program:
    text = _said(path, "--version")
    found = _VERSION.search(text)
    if _NAME not in text or found is None:
        said = " ".join(text.split())[:80]
        raise NoProgramError(
            f"{path} is not Nsight Compute: asked for its version it says {said!r}.",
            "Another program has the same name (npm-check-updates). Name the right one with --ncu.",
        )
    version = tuple(map(int, found.groups()))
    if version < OLDEST:
        raise NoProgramError(
            f"{path} is Nsight Compute {'.'.join(map(str, version))}, "
            f"older than {'.'.join(map(str, OLDEST))}.",
            "Install a newer one, or name it with --ncu.",
        )
    # With --version in front, what is not Nsight Compute after all starts nothing.
    return Program(path, version, frozenset(_OPTION.findall(_said(path, "--version", "--help"))))


def _said(path: str, *options: str) -> str:
    """What it says of itself.

    Raises:
        NoProgramError: It cannot be started, or does not end.
    """
    try:
        return ask([path, *options], seconds=_SECONDS)[1]
    except OSError as error:
        raise NoProgramError(
            f"{path} does not say its version: {error.strerror}.",
            "Install Nsight Compute again, or name another one with --ncu.",
        ) from error
