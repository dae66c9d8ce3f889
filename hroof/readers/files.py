"""Files of other tools: which reader they are for, and why some are not read."""

from __future__ import annotations

import filecmp
import gzip
import itertools
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from hroof.errors import ProfileError, UsageError
from hroof.readers import ncu_csv, ncu_rep
from hroof.readers.doubts import doubted
from hroof.readers.joined import concatenated
from hroof.readers.raw import Raw

_HEAD = 64 * 1024
_LONGEST = 120
"""Characters of a name in a message."""
_GZIP = b"\x1f\x8b"
_JSON = re.compile(rb'\s*(?:\{\s*["}]|\[\s*(?:[\[{"\]]|-?\d[\d.eE+-]*\s*,))')
"""How JSON begins, as opposed to a line of a log such as ``[12342] python``."""
_REFUSED: tuple[tuple[Callable[[Path, bytes], bool], str, str], ...] = (
    (
        lambda path, head: head.startswith(b"SQLite format 3"),
        "is an SQLite database, as nsys exports it",
        "hroof does not read Nsight Systems yet; collect with hroof run, or with ncu.",
    ),
    (
        lambda path, head: path.suffix in (".nsys-rep", ".qdrep"),
        "is a report of Nsight Systems",
        "hroof does not read Nsight Systems yet; collect with hroof run, or with ncu.",
    ),
    (
        lambda path, head: _JSON.match(head) is not None,
        "is JSON, as PyTorch's profiler writes it",
        "hroof does not read traces yet; collect with hroof run.",
    ),
    (
        lambda path, head: head.startswith(b"PAR1"),
        "is a Parquet file",
        "To see a run that hroof saved, give its folder to hroof report.",
    ),
)


def read(paths: Sequence[str | Path]) -> Raw:
    """Read the files of one run, each a report of Nsight Compute or what ``ncu`` printed.

    Args:
        paths: One file; several reports, one per process; or several tables whose metrics belong together.

    Raises:
        ProfileError: A file is absent, damaged, of another tool or holds no launches.
        MissingError: A report needs the package that reads it.
        UsageError: There is no file, or reports and tables are mixed.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise UsageError("There is no file to read.", "Name a .ncu-rep or what ncu --csv printed.")
    for file in files:
        _check_there(file)
    reports = [file for file in files if ncu_rep.looks_like(file)]
    if not reports:
        for file in files:
            _check_kind(file)
        return doubted(ncu_csv.read(files))
    if len(reports) < len(files):
        other = next(file for file in files if file not in reports)
        raise UsageError(
            f"{str(reports[0])!r} is a report and {str(other)!r} is none.",
            "Import reports and tables apart: they are not joined.",
        )
    _check_different(reports)
    return doubted(concatenated([ncu_rep.read(file) for file in files]))


def _check_there(file: Path) -> None:
    try:
        mode = file.stat().st_mode
    except FileNotFoundError as error:
        raise ProfileError(f"{str(file)!r} does not exist.", "Check the name.") from error
    except (OSError, ValueError) as error:  # too long, a loop of links, no permission, a zero byte
        why = getattr(error, "strerror", None) or error
        raise ProfileError(f"{_short(file)} cannot be read: {why}.", "Check the name.") from error
    if stat.S_ISDIR(mode):
        remedy = f"Name its files: {file}/*.csv"
        if (file / "run.json").exists():
            remedy = f"It is a run of hroof: see it with hroof report {file}"
        raise ProfileError(f"{str(file)!r} is a folder.", remedy)
    if not stat.S_ISREG(mode):
        raise ProfileError(
            f"{str(file)!r} is not a regular file but a pipe or a device.",
            "Save what it gives in a file, and import that.",
        )


def _short(file: Path) -> str:
    """A name for a message, which ends somewhere."""
    name = str(file)
    return repr(name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…")


def _check_different(reports: Sequence[Path]) -> None:
    """Check that no report is there twice, which would double its launches."""
    by_size: dict[int, list[Path]] = {}
    for report in reports:
        by_size.setdefault(report.stat().st_size, []).append(report)
    for alike in by_size.values():
        for one, other in itertools.combinations(alike, 2):
            if filecmp.cmp(one, other, shallow=False):
                raise ProfileError(f"{other} holds the same as {one}.", "Name each file once.")


def _check_kind(file: Path) -> None:
    if ncu_csv.looks_like(file):
        return
    head = _head(file)
    for is_so, what, remedy in _REFUSED:
        if is_so(file, head):
            raise ProfileError(f"{str(file)!r} {what}.", remedy)


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD)
        if not head.startswith(_GZIP):
            return head
        with gzip.open(file) as stream:
            return stream.read(_HEAD)
    except (OSError, EOFError) as error:
        raise ProfileError(
            f"{str(file)!r} cannot be read: {error}.", "Copy it again, or check its permissions."
        ) from error
