"""The report of a machine alone: its ceilings and its sweep, as text and as one HTML page."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hroof.errors import MissingError
from hroof.machine import Ceiling, Machine
from hroof.report import inline
from hroof.report.cells import DASH
from hroof.report.chart import figure, machine_figure, svg
from hroof.report.grid import Grid, show
from hroof.report.html import template
from hroof.report.look import printable
from hroof.report.machine_scene import SweepScene, ridges, sweep_scene
from hroof.report.page import console_for, heading, line
from hroof.units import MemoryLevel, Pipe, Precision, number, percent, si

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["figure", "page", "text"]

_ROWS, _MOST_COLUMNS = 8, 72
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_UNITS = {"clock": "Hz", "memory": "B", "seconds": "s"}
_CONVENTIONS = (
    "A fused multiply-add is 2 FLOP; integer operations (OP) are no FLOP; 1 GB = 1e9 B. The best sample of the "
    "best kernel counts: other programs only lower a rate. framework-reachable: the unit may do more than the "
    "framework's kernels reached. Spread: quartile distance ÷ median. sustained: a quarter of a second and more "
    "without a pause; burst: the first milliseconds, before clock or power give way."
)


# --- text ---------------------------------------------------------------------------------------


def text(machine: Machine, *, width: int | None = None, color: bool = False) -> str:
    """Write the ceilings of a machine as text.

    Args:
        machine: What was measured.
        width: Columns of the terminal; None for that of this terminal.
        color: Use terminal colours.
    """
    stream = io.StringIO()
    console = console_for(stream, width, color)
    heading(console, f"Ceilings of {machine.name} ({machine.device})")
    if machine.shared_pipes:
        line(console, "Vector and matrix work share one unit.")
    _table(console, ceilings_grid(machine), "None was measured.")
    for note, names in notes(machine).items():
        line(console, f"{', '.join(names)}: {note}")
    for title, grid in ((_OTHERS, others_grid(machine)), (_RIDGES, ridge_grid(machine))):
        if grid.rows:
            heading(console, title)
            show(console, grid)
    _sweep(console, machine)
    _list(console, "Doubts", machine.warnings)
    _list(console, "Conditions", conditions(machine))
    line(console, "")
    line(console, _CONVENTIONS)
    return "\n".join(row.rstrip() for row in stream.getvalue().splitlines()).lstrip("\n") + "\n"


_OTHERS = "Rates beside the ceilings"
_RIDGES = "Ridge points in FLOP/byte: peak ÷ bandwidth"


def _table(console: Console, grid: Grid, without: str) -> None:
    if grid.rows:
        show(console, grid)
    else:
        line(console, without)


def _list(console: Console, title: str, rows: Iterable[str]) -> None:
    rows = list(rows)
    if rows:
        heading(console, title)
    for row in rows:
        line(console, f"• {row}")


def _sweep(console: Console, machine: Machine) -> None:
    scene = sweep_scene(machine)
    if scene is None:
        return
    heading(console, f"Bandwidth over the working set per {scene.each}, both logarithmic")
    for row in blocks(scene, console.width):
        line(console, row)
    for step in scene.steps:
        line(console, f"{step.label} up to {si(step.last, 'B')}")
    line(console, scene.about)


# --- content ------------------------------------------------------------------------------------


def ceilings_grid(machine: Machine) -> Grid:
    """Every ceiling: peaks, then bandwidths from the cores outwards, then the launch cost."""
    return _grid([(name, one, unit) for name, one, unit in _ceilings(machine)])


def others_grid(machine: Machine) -> Grid:
    """The rates beside the ceilings: copies and triads, products without FMA, bursts."""
    return _grid([(name, one, _unit_of(name)) for name, one in machine.others.items()])


def _ceilings(machine: Machine) -> Iterator[tuple[str, Ceiling, str]]:
    for (pipe, precision), one in machine.peaks.items():
        yield f"{pipe} {precision.upper()}", one, "FLOP/s" if precision.is_float else "OP/s"
    for level, one in machine.bandwidths.items():
        yield level.label, one, "B/s"
    if machine.launch_cost is not None:
        yield "launch", machine.launch_cost, "s"


def _unit_of(name: str) -> str:
    """The unit of a rate by its name: ``dram copy``, ``vector_fp32 no fma``, ``launch …``."""
    first = name.split(" ", 1)[0]
    if first in set(MemoryLevel):
        return "B/s"
    pipe, _, precision = first.partition("_")
    if pipe in set(Pipe) and precision in set(Precision):
        return "FLOP/s" if Precision(precision).is_float else "OP/s"
    return "s" if first.startswith("launch") else ""


def _grid(rows: Sequence[tuple[str, Ceiling, str]]) -> Grid:
    """Rows of ceilings; the clock only where it is known of one."""
    clocked = any(math.isfinite(one.clock) for _, one, _ in rows)
    headers = ["ceiling", "rate", "spread", "samples"]
    headers += ["clock"] * clocked + ["how", "kernel"]
    cells = []
    for name, one, unit in rows:
        row = [name, si(one.rate, unit), percent(one.spread)]
        row += [str(one.samples) if one.samples else DASH]
        row += [si(one.clock, "Hz")] * clocked
        cells.append([*row, one.how, one.kernel or DASH])
    return Grid(headers, cells)


def ridge_grid(machine: Machine) -> Grid:
    """The ridge points: a row for each peak, a column for each level."""
    levels = [level for level in MemoryLevel if level in machine.bandwidths]
    rows = [
        [name, *(number(values.get(level)) for level in levels)] for name, values in ridges(machine)
    ]
    return Grid(["peak", *(level.label for level in levels)], rows)


def notes(machine: Machine) -> dict[str, list[str]]:
    """What a reader has to know about ceilings, each once, with the ceilings it is about."""
    about: dict[str, list[str]] = {}
    beside = [(name, one, "") for name, one in machine.others.items()]
    for name, one, _ in [*_ceilings(machine), *beside]:
        if one.note:
            about.setdefault(one.note, []).append(name)
    return about


def conditions(machine: Machine) -> list[str]:
    """Under what conditions it was measured: every fact that fits a line."""
    facts = machine.facts.items()
    plain = [f"{_words(name)} {_said(name, value)}" for name, value in facts if _is_plain(value)]
    packed = [" · ".join(plain)] if plain else []
    for name, value in facts:
        if isinstance(value, Mapping) and value and all(map(_is_plain, value.values())):
            entries = ", ".join(f"{key} {_said(key, entry)}" for key, entry in value.items())
            packed.append(f"{_words(name)}: {entries}")
    return packed


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _said(name: str, value: Any) -> str:
    """A fact as text; a number with its unit, where the name says which."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in _UNITS and isinstance(value, int | float):
        return si(float(value), _UNITS[name])
    if isinstance(value, float):
        return percent(value) if name.endswith("share") else number(value)
    return str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


# --- sweep as blocks ----------------------------------------------------------------------------


def blocks(scene: SweepScene, width: int) -> list[str]:
    """The curve in rows of block characters, with the highest and the lowest rate at the left.

    Args:
        scene: The curve.
        width: Columns of the whole.
    """
    names = {0: si(max(scene.rates), "B/s"), _ROWS - 1: si(min(scene.rates), "B/s")}
    margin = max(map(len, names.values()))
    rates = _columns(scene, max(min(width - margin - 2, _MOST_COLUMNS), 1))
    low, high = math.log(min(scene.rates) / 1.2), math.log(max(scene.rates))
    heights = [round((math.log(rate) - low) / (high - low) * _ROWS * 8) for rate in rates]
    rows = [
        f"{names.get(row, ''):>{margin}} │"
        + "".join(_EIGHTHS[min(max(height - (_ROWS - 1 - row) * 8, 0), 8)] for height in heights)
        for row in range(_ROWS)
    ]
    first, last = si(scene.sizes[0], "B"), si(scene.sizes[-1], "B")
    return [*rows, f"{'':{margin}}  {first}{last:>{max(len(rates) - len(first), len(last) + 1)}}"]


def _columns(scene: SweepScene, count: int) -> list[float]:
    """The rate of the nearest size for each column; the columns are even on a logarithmic scale."""
    places = [math.log(size) for size in scene.sizes]
    wide = (places[-1] - places[0]) / max(count - 1, 1)
    rates = dict(zip(places, scene.rates, strict=True))
    return [
        rates[min(places, key=lambda place: abs(place - places[0] - column * wide))]
        for column in range(count)
    ]


# --- page ---------------------------------------------------------------------------------------


def page(machine: Machine) -> str:
    """Write the ceilings of a machine as one HTML page, without any reference to something outside it.

    Raises:
        MissingError: jinja2 is not installed.
    """
    written: str = template("ceilings.html").render(
        title=f"Ceilings of {printable(machine.name)}",
        machine=machine,
        chart=_chart(machine),
        scene=sweep_scene(machine),
        steps=lambda scene: [[step.label, si(step.last, "B")] for step in scene.steps],
        ceilings=ceilings_grid(machine),
        others=others_grid(machine),
        ridges=ridge_grid(machine),
        notes=notes(machine),
        conditions=conditions(machine),
        conventions=_CONVENTIONS,
    )
    return written


def _chart(machine: Machine) -> Any:
    """The figure as an element, or why there is none."""
    from markupsafe import Markup

    try:
        drawn = svg(machine_figure(machine), text=True)
    except MissingError as error:
        return Markup('<p class="note">{}</p>').format(str(error))
    return Markup(inline.chart(drawn, "Roofline of the machine and its sweep", {}))
