"""Writing that is atomic: a killed run leaves no half file that loads."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hroof.errors import OutputError, ProfileError


def write_atomic(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then move it into place.

    Raises:
        OutputError: The folder is read-only, full or not a folder.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise OutputError(
            f"Cannot write {str(path)!r}: {error.strerror or error}.",
            "Choose a folder that is writable and has room, e.g. with --out.",
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; NaN and infinity become null."""
    text = json.dumps(json_ready(value), indent=1, sort_keys=True, allow_nan=False)
    write_atomic(path, lambda temporary: _write_text(temporary, text + "\n"))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def json_ready(value: Any) -> Any:
    """The same value with NaN and infinities as None and mappings with string keys."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return value


def read_json(path: Path, what: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ProfileError: The file is absent, damaged or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ProfileError(f"{str(path)!r} does not exist.", f"Give the folder of {what}.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ProfileError(
            f"{str(path)!r} is damaged or not {what}: {error}.", "Collect it again, or restore it from a copy."
        ) from error
    if not isinstance(value, dict):
        raise ProfileError(f"{str(path)!r} is not {what}.", "Give a file that hroof wrote.")
    return value
