"""Export of a comparison: JSON, CSV, and files of any kind by suffix."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hroof.compare import Comparison, Difference, Part, Side, conditions, summary
from hroof.compare.noise import RULE
from hroof.compare.work import work_of
from hroof.errors import UsageError
from hroof.files import (
    Write,
    bytes_writer,
    check_free,
    json_ready,
    json_writer,
    text_writer,
    write_atomic,
)
from hroof.findings import warnings
from hroof.report.compared.schema import COMPARE_SCHEMA, JSON_SCHEMA
from hroof.report.plain import csv_text
from hroof.roofline import Point
from hroof.units import MemoryLevel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["JSON_SCHEMA", "to_frame", "to_json", "write"]

_TEXT_FILE_WIDTH = 200


def to_json(found: Comparison) -> dict[str, Any]:
    """A comparison as plain JSON values, in the form that ``JSON_SCHEMA`` describes.

    Returns:
        ``schema``, ``base``, ``new``, ``verdict``, ``conditions``, ``rule``, ``total``, ``wall``, ``undisturbed``,
        ``phases``, ``layers`` and ``kernels``; numbers per step in base SI units, missing is None.
    """
    said = summary(found)
    tables = zip(("phases", "layers", "kernels"), found.tables().items(), strict=True)
    walls = found.walls
    undisturbed = [_nan(side.undisturbed) for side in (found.base, found.new)]
    ready: dict[str, Any] = json_ready(
        {
            "schema": COMPARE_SCHEMA,
            "base": _side(found.base),
            "new": _side(found.new),
            "verdict": dataclasses.asdict(said),
            "conditions": conditions(found),
            "rule": RULE,
            "total": _row(found.total),
            "wall": _pair(*walls) | {"change": found.wall.change, "noise": found.wall.noise},
            "undisturbed": _pair(*undisturbed),
            **{
                name: {"key": key, "rows": [_row(row) for row in rows], "rest": found.rest(rows)}
                for name, (key, rows) in tables
            },
        }
    )
    return ready


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "run": side.profile.run,
        "machine": None if side.machine is None else side.machine.name,
        "steps": side.profile.step_count,
        "warnings": warnings(side.profile, side.machine),
    }


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def _pair(base: float, new: float, delta: float | None = None) -> dict[str, float]:
    return {"base": base, "new": new, "delta": new - base if delta is None else delta}


def _row(row: Difference) -> dict[str, Any]:
    return {
        "base": _named(row.base),
        "new": _named(row.new),
        "matched_by": row.how,
        "change": row.change,
        "noise": row.judged.noise,
        "ratio": row.ratio,
        "time": _pair(*row.times),
        "time_by_phase": _by_phase(row),
        "launches": _pair(*row.counts),
        "flop": _pair(*row.flops, row.flop),
        "bytes": {level: _pair(*row.sizes(level), row.nbytes(level)) for level in row.levels},
        "headroom": _pair(*row.headrooms),
        "work": work_of(row),
    }


def _named(part: Part | None) -> str | None:
    return None if part is None else part.name


def _by_phase(row: Difference) -> dict[str, dict[str, float]]:
    before, after = (part.phases if part else {} for part in (row.base, row.new))
    return {
        phase: _pair(_seconds(before.get(phase)), _seconds(after.get(phase)))
        for phase in dict.fromkeys((*before, *after))
    }


def _seconds(point: Point | None) -> float:
    return 0.0 if point is None else point.time


def to_frame(found: Comparison) -> pd.DataFrame:
    """All rows of a comparison as a flat table, e.g. for CSV.

    Returns:
        One row per phase, layer and kernel (``table`` says which), the step first. Headers carry units; the columns
        are the same for every comparison, NaN where something is missing.
    """
    import pandas as pd

    rows = [_flat("step", found.total)]
    rows += [_flat(key, row) for key, table in found.tables().items() for row in table]
    return pd.DataFrame(rows)


def _flat(table: str, row: Difference) -> dict[str, Any]:
    flat: dict[str, Any] = {"table": table, "base": _named(row.base), "new": _named(row.new)}
    flat |= {"matched_by": str(row.how), "change": str(row.change), "work": work_of(row)}
    flat |= {"noise [s]": row.judged.noise, "ratio [1]": row.ratio}
    return flat | dict(_numbers(row))


def _numbers(row: Difference) -> Iterator[tuple[str, float]]:
    quantities: list[tuple[str, str, tuple[float, float], float]] = [
        ("time", "s", row.times, row.time),
        ("launches", "1", row.counts, row.launches),
        ("flop", "FLOP", row.flops, row.flop),
        ("headroom", "1", row.headrooms, row.headroom),
        *((f"bytes_{x}", "B", row.sizes(x), row.nbytes(x)) for x in MemoryLevel),
    ]
    for name, unit, (base, new), delta in quantities:
        yield f"{name}_base [{unit}]", base
        yield f"{name}_new [{unit}]", new
        yield f"{name}_delta [{unit}]", delta


def write(found: Comparison, path: str | Path, *, force: bool = False) -> Path:
    """Write a comparison; the suffix says which kind. The file appears whole or not at all.

    Args:
        found: What was compared.
        path: A file that ends in .html, .json, .csv, .parquet, .txt, .png, .svg or .pdf.
        force: Replace a file that is there already.

    Raises:
        UsageError: The suffix stands for no kind of report.
        OutputError: The file exists already, or cannot be written.
    """
    path = Path(path)
    make = _WRITERS.get(path.suffix.lower())
    if make is None:
        raise UsageError(
            f"{path.name!r} is no kind of comparison.",
            f"End the name with one of {', '.join(_WRITERS)}.",
        )
    check_free(path, force=force)
    write_atomic(path, make(found, path.suffix.lower()))
    return path


def _json(found: Comparison, suffix: str) -> Write:
    return json_writer(to_json(found))


def _csv(found: Comparison, suffix: str) -> Write:
    return text_writer(csv_text(to_frame(found)))


def _parquet(found: Comparison, suffix: str) -> Write:
    frame = to_frame(found)
    return lambda path: frame.to_parquet(path, engine="pyarrow", index=False)


def _text(found: Comparison, suffix: str) -> Write:
    from hroof.report.compared.text import render

    return text_writer(render(found, top=0, full=True, width=_TEXT_FILE_WIDTH))


def _html(found: Comparison, suffix: str) -> Write:
    from hroof.report.compared.page import render

    return text_writer(render(found))


def _chart(found: Comparison, suffix: str) -> Write:
    from hroof.report.compared.arrows import draw_file

    with tempfile.TemporaryDirectory() as folder:
        return bytes_writer(draw_file(found, Path(folder) / f"chart{suffix}").read_bytes())


_WRITERS: dict[str, Callable[[Comparison, str], Write]] = {
    ".html": _html,
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
    ".txt": _text,
    **dict.fromkeys((".png", ".svg", ".pdf"), _chart),
}
