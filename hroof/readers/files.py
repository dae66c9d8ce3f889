"""Files of other tools: which reader they are for, and why some are not read."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

from hroof.errors import ProfileError, UsageError
from hroof.readers import ncu_csv, ncu_rep
from hroof.readers.joined import concatenated
from hroof.readers.raw import Raw

_HEAD = 64 * 1024
_GZIP = b"\x1f\x8b"
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
        lambda path, head: head.lstrip()[:1] in (b"{", b"["),
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
        return ncu_csv.read(files)
    if len(reports) < len(files):
        other = next(file for file in files if file not in reports)
        raise UsageError(
            f"{str(reports[0])!r} is a report and {str(other)!r} is none.",
            "Import reports and tables apart: they are not joined.",
        )
    return concatenated([ncu_rep.read(file) for file in files])


def _check_there(file: Path) -> None:
    if file.is_dir():
        remedy = f"Name its files: {file}/*.csv"
        if (file / "run.json").exists():
            remedy = f"It is a run of hroof: see it with hroof report {file}"
        raise ProfileError(f"{str(file)!r} is a folder.", remedy)
    if not file.exists():
        raise ProfileError(f"{str(file)!r} does not exist.", "Check the name.")


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
