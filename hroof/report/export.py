"""Export: a report for other programs, as JSON, CSV or Parquet, and files of any kind by suffix."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from hroof.findings import findings, verdict, warnings
from hroof.report.charts.choice import CHARTS, USUAL, Choice
from hroof.report.plain import csv_text
from hroof.report.schema import JSON_SCHEMA, REPORT_SCHEMA
from hroof.roofline import (
    Coverage,
    Pair,
    Point,
    Totals,
    check_keys,
    coverage,
    points,
    remembering,
    totals,
)
from hroof.roofline.bounds import PAIRS
from hroof.units import MemoryLevel, Source

if TYPE_CHECKING:
    import pandas as pd

    from hroof.machine import Machine
    from hroof.profile import Profile

__all__ = ["JSON_SCHEMA", "check_kind", "to_frame", "to_json", "write"]


@remembering()
def to_json(
    profile: Profile, machine: Machine | None = None, by: Sequence[str] = ("layer",)
) -> dict[str, Any]:
    """The report as plain JSON values, in the form that ``JSON_SCHEMA`` describes.

    Args:
        profile: What was collected.
        machine: Its ceilings, or None.
        by: Grouping keys of the rows.

    Returns:
        ``schema``, ``by``, ``run``, ``machine``, ``coverage``, ``totals``, ``rows``, ``findings``,
        ``verdict`` and ``warnings``; base SI units, missing is None.

    Raises:
        UsageError: A grouping key is unknown or given twice.
    """
    ranked = findings(profile, machine)
    ready: dict[str, Any] = json_ready(
        {
            "schema": REPORT_SCHEMA,
            "by": list(by),
            "run": profile.run,
            "machine": None if machine is None else machine.to_json(),
            "coverage": _coverage(coverage(profile)),
            "totals": _totals(totals(profile, machine)),
            "rows": [_row(point) for point in points(profile, machine, by)],
            "findings": [dataclasses.asdict(finding) for finding in ranked],
            "verdict": dataclasses.asdict(verdict(profile, machine, ranked)),
            "warnings": warnings(profile, machine),
        }
    )
    return ready


def _coverage(known: Coverage) -> dict[str, Any]:
    return dataclasses.asdict(known)


def _totals(sums: Totals) -> dict[str, Any]:
    plain = {field.name: getattr(sums, field.name) for field in dataclasses.fields(sums)}
    pairs = {
        "flop_by": _by_pair(plain.pop("flop")),
        "flop_least_by": _by_pair(plain.pop("least_flop")),
    }
    nbytes = dict(plain.pop("nbytes"))
    return plain | pairs | {"flop": sums.hardware_flop, "bytes": nbytes}


def _by_pair(work: Mapping[Pair, float]) -> dict[str, float]:
    return {f"{pipe}_{precision}": value for (pipe, precision), value in work.items()}


def _row(point: Point) -> dict[str, Any]:
    missing = dict.fromkeys(("time", "flop", *map(str, MemoryLevel)), Source.MISSING)
    return {
        **point.key,
        "launches": point.launches,
        "time": point.time,
        "time_spread": point.time_spread,
        "flop": point.total_flop,
        "flop_by": _by_pair(point.flop),
        "flop_least_by": _by_pair(point.least_flop),
        "integer_op": point.total_op,
        "bytes": dict(point.nbytes),
        "intensity": point.intensity,
        "flop_rate": point.flop_rate,
        "byte_rate": point.byte_rate,
        "bound": point.bound,
        "bound_share": point.bound_share,
        "attainable_time": point.attainable_time,
        "fused_time": point.fused_time,
        "compute_time": point.compute_time,
        "memory_time": dict(point.memory_times),
        "launch_time": point.launch_time,
        "headroom": point.headroom,
        "recoverable_time": point.recoverable_time if point.attainable_time else None,
        "bounded_time": point.bounded_time,
        "uncounted_time": point.uncounted_time,
        "zero_flop_launches": point.zero_flop_launches,
        "sources": missing | dict(point.sources),
        "notes": list(point.notes),
    }


_FLAT_UNITS = {
    "launches": "1",
    "time": "s",
    "time_spread": "1",
    "flop": "FLOP",
    "integer_op": "OP",
    "flop_rate": "FLOP/s",
    "bound_share": "1",
    "attainable_time": "s",
    "fused_time": "s",
    "compute_time": "s",
    "launch_time": "s",
    "headroom": "1",
    "recoverable_time": "s",
    "bounded_time": "s",
    "uncounted_time": "s",
    "zero_flop_launches": "1",
}
_LEVEL_UNITS = {"bytes": "B", "intensity": "FLOP/B", "byte_rate": "B/s", "memory_time": "s"}


def to_frame(
    profile: Profile, machine: Machine | None = None, by: Sequence[str] = ("layer",)
) -> pd.DataFrame:
    """The rows of the report as a flat table, e.g. for CSV.

    Returns:
        One row per group. Headers carry units (``time [s]``, ``bytes_dram [B]``; ``[1]`` for plain
        numbers); the columns are the same for every run, NaN or None where something is missing.

    Raises:
        UsageError: A grouping key is unknown or given twice.
    """
    import pandas as pd

    check_keys(by)
    columns = csv_columns(by)
    rows = [_flat(_row(point), columns) for point in points(profile, machine, by)]
    names = [name for name, _ in columns]
    frame = pd.DataFrame(rows, columns=names)
    text = {*by, "bound", "notes", *(name for name in names if name.startswith("source_"))}
    return frame.astype({name: "float64" for name in names if name not in text})


def csv_columns(by: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The columns of ``to_frame``, each with where its value lies in a row of ``to_json``."""
    paths = [(key, [key]) for key in by]
    paths += [(f"{name} [{unit}]", [name]) for name, unit in _FLAT_UNITS.items()]
    for pipe, precision in PAIRS:
        unit = "FLOP" if precision.is_float else "OP"
        name = f"{pipe}_{precision}"
        paths.append((f"flop_{name} [{unit}]", ["flop_by", name]))
    for name, unit in _LEVEL_UNITS.items():
        paths += [(f"{name}_{level} [{unit}]", [name, level.value]) for level in MemoryLevel]
    sources = ("time", "flop", *(level.value for level in MemoryLevel))
    paths += [(f"source_{name}", ["sources", name]) for name in sources]
    return [*paths, ("bound", ["bound"]), ("notes", ["notes"])]


def _flat(row: Mapping[str, Any], columns: Sequence[tuple[str, list[str]]]) -> dict[str, Any]:
    plain = {**row, "notes": " ".join(row["notes"])}
    return {name: _found(plain, path) for name, path in columns}


def _found(row: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a place of a row; None where it is not known."""
    value: Any = row
    for name in path:
        value = value.get(name)
    return str(value) if isinstance(value, Source) else value


@remembering()
def write(
    profile: Profile,
    machine: Machine | None,
    path: str | Path,
    by: Sequence[str] = ("layer",),
    *,
    force: bool = False,
    chart: Choice = USUAL,
) -> Path:
    """Write a report; the suffix says which kind. The file appears whole or not at all.

    In CSV an apostrophe precedes text that starts with ``= + - @``, a tab or a carriage return, so
    that a spreadsheet does not take a name for a formula.

    Args:
        profile: What was collected.
        machine: Its ceilings, or None.
        path: A file that ends in .json, .csv, .parquet, .txt, .md, .html, .png, .svg or .pdf.
        by: Grouping keys of the rows.
        force: Replace a file that is there already.
        chart: Which chart, for files that are one.

    Raises:
        UsageError: The suffix stands for no kind of report, or a grouping key is unknown.
        OutputError: The file exists already, or cannot be written.
    """
    path = Path(path)
    suffix = check_kind(path)
    check_keys(by)
    check_free(path, force=force)
    if suffix in CHARTS:
        write_atomic(path, _chart_writer(profile, machine, tuple(by), suffix, chart))
    else:
        write_atomic(path, _writers()[suffix](profile, machine, tuple(by), suffix))
    return path


def check_kind(path: str | Path) -> str:
    """The suffix of a file, which says what kind of report it is.

    Raises:
        UsageError: It stands for none.
    """
    suffix, known = Path(path).suffix.lower(), (*_writers(), *CHARTS)
    if suffix not in known:
        raise UsageError(
            f"{Path(path).name!r} is no kind of report.",
            f"End the name with one of {', '.join(known)}.",
        )
    return suffix


_Maker = Callable[["Profile", "Machine | None", tuple[str, ...], str], Write]


def _writers() -> dict[str, _Maker]:
    kinds: dict[str, _Maker] = {
        ".json": _write_json, ".csv": _write_csv, ".parquet": _write_parquet,
        ".txt": _write_text, ".md": _write_markdown, ".html": _write_html,
    }  # fmt: skip
    return kinds


def _write_json(
    profile: Profile, machine: Machine | None, by: tuple[str, ...], suffix: str
) -> Write:
    return json_writer(to_json(profile, machine, by))


def _write_csv(
    profile: Profile, machine: Machine | None, by: tuple[str, ...], suffix: str
) -> Write:
    return text_writer(csv_text(to_frame(profile, machine, by)))


def _write_parquet(
    profile: Profile, machine: Machine | None, by: tuple[str, ...], suffix: str
) -> Write:
    frame = to_frame(profile, machine, by)
    return lambda path: frame.to_parquet(path, engine="pyarrow", index=False)


def _write_text(
    profile: Profile, machine: Machine | None, by: tuple[str, ...], suffix: str
) -> Write:
    from hroof.report.text import render

    text = render(profile, machine, by=by, top=0, width=_TEXT_FILE_WIDTH)
    return text_writer(text)


_TEXT_FILE_WIDTH = 200
"""A file has no terminal: wide enough for every column of the usual groupings."""


def _write_markdown(
    profile: Profile, machine: Machine | None, by: tuple[str, ...], suffix: str
) -> Write:
    from hroof.report.markdown import render

    return text_writer(render(profile, machine, by=by))


def _write_html(
    profile: Profile, machine: Machine | None, by: tuple[str, ...], suffix: str
) -> Write:
    from hroof.report.html import render

    return text_writer(render(profile, machine, by))


def _chart_writer(
    profile: Profile, machine: Machine | None, by: tuple[str, ...], suffix: str, chart: Choice
) -> Write:
    from hroof.report.chart import draw_file

    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / f"chart{suffix}"
        draw_file(profile, machine, drawn, by, chart)
        content = drawn.read_bytes()
    return bytes_writer(content)
