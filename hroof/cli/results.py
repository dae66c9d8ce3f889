"""The folders that ``hroof run`` writes to: chosen and tried before, found afterwards."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hroof.errors import OutputError, ProfileError
from hroof.files import read_json
from hroof.profile import Profile
from hroof.run import RUNS

REPORT, TABLE, LOG = COUNTERS = ("counters.ncu-rep", "counters.csv", "counters.log")
"""The report of Nsight Compute beside a profile, the same as a table, and what it said."""

_NOTES = ("start-*.json", "progress-*.json", "empty.json")
_PROBE_BYTES = 64 * 1024
_INTERPRETER = re.compile(r"^(python|pypy)[\d.]*(\.exe)?$|^(uv|poetry|conda|torchrun|accelerate)$")


def run_name(command: list[str]) -> str:
    """What to call the run of a command: the stem of its script."""
    for word in command:
        if word.endswith(".py"):
            return _clean(Path(word).stem)
    module = command[command.index("-m") + 1] if "-m" in command[:-1] else ""
    plain = [word for word in command if not _INTERPRETER.match(Path(word).name)]
    return _clean(module or Path((plain or command)[0]).stem)


def _clean(name: str) -> str:
    return re.sub(r"[^\w.=-]+", "_", name).strip("._-")[:80] or "run"


@dataclass
class Results:
    """The folder of one run and those beside it, one per further region or rank.

    Attributes:
        folder: The first of them.
        made: Folders that did not exist before, innermost first.
        before: Profiles that lay there before.
        aside: Where a profile that is to be replaced waits until there is a new one.
        keep_counters: What a profile that is replaced had from Nsight Compute stays.
    """

    folder: Path
    made: list[Path] = field(default_factory=list)
    before: frozenset[Path] = frozenset()
    aside: Path | None = None
    keep_counters: bool = False

    @classmethod
    def fresh(cls, command: list[str]) -> Results:
        """A new folder for a command: ``hroof-runs/train``, ``train.2``, ``train.3``, …

        Raises:
            OutputError: It cannot be made or written here.
        """
        for folder in _numbered(command):
            results = cls(folder, _missing(folder))
            with contextlib.suppress(FileExistsError):  # another run has it
                return results._ready(_make_new)
        raise AssertionError("numbers do not end")

    @staticmethod
    def next_free(command: list[str]) -> Path:
        """The folder that ``fresh`` would take now; nothing is made."""
        return next(folder for folder in _numbered(command) if not os.path.lexists(folder))

    @classmethod
    def prepare(cls, folder: Path, *, force: bool = False, keep_counters: bool = False) -> Results:
        """Make a folder and try it, before anything is started.

        Args:
            folder: Where the results are to go.
            force: A profile that it holds may be replaced.
            keep_counters: Then what it had from Nsight Compute stays.

        Raises:
            OutputError: It holds a profile, is a file, read-only or full, or has an impossible name.
        """
        check_replaceable(folder, force=force)
        results = cls(folder, _missing(folder), keep_counters=keep_counters)
        try:
            return results._ready(_make)
        except FileExistsError:
            raise _cannot_write(folder, NotADirectoryError()) from None

    def _ready(self, make: Callable[[Path], None]) -> Results:
        """Make the folder, write to it, and note what is there already."""
        try:
            make(self.folder)
            _try(self.folder)
            if (self.folder / "run.json").exists():
                self._put_aside()
        except FileExistsError:
            raise
        except OSError as error:
            self._remove_made()
            raise _cannot_write(self.folder, error) from error
        self.before = frozenset(self._profiles())
        return self

    def _put_aside(self) -> None:
        self.aside = Path(tempfile.mkdtemp(prefix=".replaced-", dir=self.folder))
        for path in _parts(self.folder, counters=not self.keep_counters):
            path.replace(self.aside / path.name)

    def _profiles(self) -> list[Path]:
        parent, name = self.folder.parent, re.escape(self.folder.name)
        pattern = re.compile(rf"^{name}(-rank\d+)?(-\d+)?$")
        beside = [path for path in parent.iterdir() if pattern.match(path.name)]
        profiles = (path for path in beside if (path / "run.json").is_file())
        return sorted(profiles, key=self._order)

    def _order(self, path: Path) -> tuple[int, int]:
        """By the number of the region, then by rank."""
        match = re.fullmatch(r"(?:-rank(\d+))?(?:-(\d+))?", path.name[len(self.folder.name) :])
        assert match is not None
        return int(match[2] or 1), int(match[1] or 0)

    def found(self) -> list[Path]:
        """The profiles that are new, in the order of regions, rank 0 first."""
        if not self.folder.parent.is_dir():
            return []
        return [path for path in self._profiles() if path not in self.before]

    def evidence(self) -> list[dict[str, Any]]:
        """What the start-up hook noted, one entry per interpreter."""
        return [_read(path) for path in sorted(self.folder.glob("start-*.json"))]

    def reason(self) -> dict[str, Any]:
        """Why a region collected nothing, if one said so."""
        return _read(self.folder / "empty.json")

    def progress(self) -> list[dict[str, Any]]:
        """How far regions had come that never ended, one entry per process."""
        return [_read(path) for path in sorted(self.folder.glob("progress-*.json"))]

    def began(self) -> bool:
        """Whether the program got as far as a framework or a region."""
        framework = any(note.get("framework") for note in self.evidence())
        return framework or bool(self.reason() or self.progress())

    def check(self) -> None:
        """Nothing has come: is the folder the cause?

        Raises:
            OutputError: It can no longer be written.
        """
        try:
            _try(self.folder)
        except OSError as error:
            raise _cannot_write(self.folder, error) from error

    def rescued(self, path: Path) -> Path:
        """Give a file of a run that failed a name that it keeps when the profile before it comes back."""
        if self.aside is None or not (self.aside / path.name).exists():
            return path
        return path.replace(path.with_name(f"unread-{path.name}"))

    def finish(self) -> None:
        """Remove notes and empty folders; put back a profile that nothing has replaced."""
        with contextlib.suppress(OSError):
            notes = (path for kind in _NOTES for path in self.folder.glob(kind))
            for path in notes:
                path.unlink(missing_ok=True)
            if self.aside is not None:
                self._put_back(self.aside)
        if not self.found():
            self._remove_made()

    def _put_back(self, aside: Path) -> None:
        if not (self.folder / "run.json").exists():
            for path in aside.iterdir():
                path.replace(self.folder / path.name)
        shutil.rmtree(aside)

    def _remove_made(self) -> None:
        for path in self.made:
            with contextlib.suppress(OSError):  # not empty: somebody else uses it
                path.rmdir()


def check_replaceable(folder: Path, *, force: bool) -> None:
    """Refuse a folder whose profile is not to be replaced.

    Raises:
        OutputError: It holds one, and that was not allowed.
    """
    if os.path.exists(folder / "run.json") and not force:  # unlike Path.exists, of any name
        raise OutputError(
            f"{str(folder)!r} holds a profile already.",
            "Choose another folder with --out, or replace it with --force.",
        )


def _numbered(command: list[str]) -> Iterator[Path]:
    """``hroof-runs/train``, ``train.2``, ``train.3``, …"""
    base = Path(RUNS) / run_name(command)
    yield base
    yield from (base.with_name(f"{base.name}.{number}") for number in itertools.count(2))


def _missing(folder: Path) -> list[Path]:
    """The folder and its parents as far as they do not exist, innermost first."""
    absent = []
    for path in (folder, *folder.parents):
        if os.path.lexists(path):
            break
        absent.append(path)
    return absent


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def _make_new(folder: Path) -> None:
    """Make a folder that nobody else has.

    Raises:
        FileExistsError: Somebody has.
        NotADirectoryError: Its parent is a file.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError from None
    folder.mkdir()


def _try(folder: Path) -> None:
    """Write something real: an empty file fits even on a full disk."""
    with tempfile.NamedTemporaryFile(prefix=".probe-", dir=folder) as file:
        file.write(b"\0" * _PROBE_BYTES)
        file.flush()
        os.fsync(file.fileno())


def _cannot_write(folder: Path, error: OSError) -> OutputError:
    file = isinstance(error, NotADirectoryError)
    reason = "a file is in the way, not a folder" if file else error.strerror or error
    return OutputError(
        f"Cannot write to {str(folder)!r}: {reason}.",
        "Choose a folder that is writable and has room, with --out.",
    )


def _parts(folder: Path, *, counters: bool) -> list[Path]:
    """The files of a profile, its machine and the report behind it; first run.json, which the rest needs to load."""
    files = Profile.files(folder)
    others = (folder / name for name in ("machine.json", *(COUNTERS if counters else ())))
    return [*files, *(path for path in others if path.exists())]


def _read(path: Path) -> dict[str, Any]:
    """A note; one that is absent or cut off says nothing."""
    try:
        return read_json(path, "a note")
    except ProfileError:
        return {}
