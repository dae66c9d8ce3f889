"""Writing that is atomic: a killed run leaves no half file that loads."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hroof.errors import OutputError, ProfileError

Write = Callable[[Path], None]


def write_atomic(path: Path, write: Write) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then move it into place.

    Raises:
        OutputError: The folder is read-only, full or not a folder.
    """
    write_together({path: write})


def check_free(path: Path, *, force: bool) -> None:
    """See to it that nothing is replaced unasked.

    Raises:
        OutputError: The file is there already, and ``force`` does not allow to replace it.
    """
    if path.exists() and not force:
        raise OutputError(
            f"{str(path)!r} exists already.",
            "Choose another name, or allow replacing it: --force, in Python force=True.",
        )


def bytes_writer(content: bytes) -> Write:
    """What ``write_atomic`` and ``write_together`` need to write bytes."""

    def fill(path: Path) -> None:
        path.write_bytes(content)

    return fill


def text_writer(text: str) -> Write:
    """The same for text, as UTF-8; half characters become escapes."""
    return bytes_writer(text.encode("utf-8", "backslashreplace"))


def write_together(writes: Mapping[Path, Write], *, stale: Iterable[Path] = ()) -> None:
    """Write several files; move them into place, in their order, once all of them are complete.

    Args:
        writes: Who fills which file.
        stale: Files that are removed just before the new ones appear. While writing can still
            fail (a full disk), they are intact.

    Raises:
        OutputError: A folder is read-only, full or not a folder; nothing that was there is lost.
    """
    staged: dict[Path, Path] = {}
    path = Path()
    try:
        for path, write in writes.items():
            staged[path] = _stage(path, write)
        for path in stale:
            path.unlink(missing_ok=True)
        for path, temporary in staged.items():
            temporary.replace(path)
    except OSError as error:
        raise OutputError(
            f"Cannot write {str(path)!r}: {error.strerror or error}.",
            "Choose a folder that is writable and has room, e.g. with --out.",
        ) from error
    finally:
        for temporary in staged.values():
            _remove(temporary)


def _stage(path: Path, write: Write) -> Path:
    """Fill a temporary file beside ``path``, down to the disk; leave nothing behind on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
    except BaseException:
        _remove(temporary)
        raise
    return temporary


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; NaN and infinity become null.

    Raises:
        OutputError: It cannot be written there.
    """
    write_atomic(path, json_writer(value))


def json_writer(value: Any) -> Write:
    """What ``write_atomic`` and ``write_together`` need to write a value as JSON."""
    text = json.dumps(json_ready(value), indent=1, sort_keys=True, allow_nan=False) + "\n"
    return text_writer(text)


def json_ready(value: Any) -> Any:
    """The same value in plain JSON types.

    NaN and infinity become None, keys strings, tuples lists; NumPy scalars become numbers.
    """
    kind = type(value)
    if kind is str or kind is int or value is None:  # most of what there is: no further questions
        return value
    if kind is not float and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return str(value) if isinstance(value, os.PathLike) else value


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ProfileError: The file is absent, damaged or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProfileError(
            f"{str(path)!r} does not exist.",
            f"Give the {'folder' if path.name == 'run.json' else 'file'} of {what}.",
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ProfileError(
            f"{str(path)!r} is damaged or not {what}: {str(error).rstrip('.')}.",
            "Collect it again, or restore it from a copy.",
        ) from error
    if not isinstance(value, dict):
        raise ProfileError(f"{str(path)!r} is not {what}.", "Give a file that hroof wrote.")
    return value
