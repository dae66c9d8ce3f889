"""Export of a checked run: JSON, and Markdown into a file or onto the page of a job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hroof.budgets import Check, Row, Verdict, summary
from hroof.errors import OutputError
from hroof.files import check_free, json_ready, text_writer, write_atomic
from hroof.report.checked.markdown import render
from hroof.report.checked.schema import CHECK_SCHEMA, JSON_SCHEMA

__all__ = ["JSON_SCHEMA", "append", "job_summary", "to_json", "write_markdown", "write_text"]

JOB_SUMMARY = "GITHUB_STEP_SUMMARY"


def to_json(found: Check) -> dict[str, Any]:
    """A checked run as plain JSON values, in the form that ``JSON_SCHEMA`` describes.

    Args:
        found: What came out.
    """
    said = summary(found)
    ready: dict[str, Any] = json_ready(
        {
            "schema": CHECK_SCHEMA,
            "run": found.profile.name,
            "baseline": None if found.base is None else found.base.profile.name,
            "budget": found.budget.name,
            "strict": found.strict,
            "steps": found.profile.step_count,
            "verdict": {
                "text": said.text,
                "why": said.why,
                "next": said.next,
                "verdict": str(found.verdict),
            },
            "counts": {str(verdict): len(found.of(verdict)) for verdict in Verdict},
            "rows": [_row(row) for row in found.rows],
            "caveats": found.caveats,
        }
    )
    return ready


def _row(row: Row) -> dict[str, Any]:
    limit, scope, reading = row.limit, row.limit.scope, row.reading
    together = scope.together and row.subject is not None
    return {
        "key": scope.key or "step",
        "name": row.name if scope.key and row.subject is not None else None,
        "pattern": scope.pattern if scope.key else None,
        "phase": scope.phase or None,
        "together": row.subject.count if together and row.subject is not None else None,
        "quantity": limit.quantity.name,
        "unit": limit.quantity.unit,
        "limit": {
            "kind": str(limit.kind),
            "value": limit.value,
            "tolerance": limit.tolerance,
            "bound": row.judged.bound,
        },
        "value": reading.value,
        "lower_bound": reading.lower,
        "steps": list(reading.steps),
        "baseline": None if row.base is None else row.base.value,
        "noise": row.judged.noise,
        "excess": row.judged.excess,
        "source": reading.source,
        "verdict": str(row.verdict),
        "note": row.judged.note,
    }


def job_summary() -> Path | None:
    """The file whose Markdown GitHub shows on the page of the job, if this is one."""
    named = os.environ.get(JOB_SUMMARY)
    return Path(named) if named else None


def write_markdown(found: Check, path: str | Path, *, force: bool = False) -> Path:
    """Write the Markdown summary into a file. It appears whole or not at all.

    Args:
        found: What came out.
        path: The file.
        force: Replace a file that is there already.

    Raises:
        OutputError: The file exists already, or cannot be written.
    """
    return write_text(render(found), path, force=force)


def write_text(text: str, path: str | Path, *, force: bool = False) -> Path:
    """Write text into a file. It appears whole or not at all.

    Args:
        text: What to write.
        path: The file.
        force: Replace a file that is there already.

    Raises:
        OutputError: The file exists already, or cannot be written.
    """
    path = Path(path)
    check_free(path, force=force)
    write_atomic(path, text_writer(text))
    return path


def append(found: Check, path: Path) -> Path:
    """Add the Markdown summary to what a file holds already.

    Args:
        found: What came out.
        path: The file; it is made where it is absent.

    Raises:
        OutputError: It cannot be written.
    """
    try:
        with path.open("ab") as file:
            file.write(f"{render(found)}\n".encode())
    except OSError as error:
        raise OutputError(
            f"Cannot write {str(path)!r}: {error.strerror or error}.",
            f"Let {JOB_SUMMARY} name a file that is writable.",
        ) from error
    return path
