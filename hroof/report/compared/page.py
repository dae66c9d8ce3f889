"""The comparison as one HTML page that works offline, with arrows on the Roofline and sortable tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hroof.compare import Change, Comparison, Difference, conditions, summary
from hroof.compare.noise import RULE
from hroof.errors import MissingError
from hroof.report import inline
from hroof.report.compared import arrows, cells
from hroof.report.compared.export import to_json
from hroof.report.compared.text import CONVENTIONS, cards, caveats
from hroof.report.html import policy, scripted, template
from hroof.report.look import printable
from hroof.units import MemoryLevel, si

MAX_ROWS = 300
"""Rows of a table in the page; the rest is named by number and time."""
MAX_NAME = 200
"""Characters of a name in the page; the data of --json have the whole one."""
MAX_JSON = 350_000
"""Characters of embedded JSON, so that a page stays below 1 MB."""


def render(found: Comparison) -> str:
    """Write a comparison as one HTML page, without any reference to something outside it.

    Raises:
        MissingError: jinja2 is not installed.
    """
    document = to_json(found)
    told = [document[side]["warnings"] for side in ("base", "new")]
    data, left_out = _data(document)
    script = scripted("page/compare.js")
    written: str = template("compare.html").render(
        policy=policy(script),
        script=script,
        title=f"{printable(found.base.name)} → {printable(found.new.name)}",
        verdict=summary(found),
        cards=list(zip(("BASE", "NEW"), cards(found), strict=True)),
        conditions=conditions(found),
        chart=_chart(found),
        tables=[_table(found, kind, rows) for kind, rows in found.tables().items()],
        caveats=[RULE, CONVENTIONS, *caveats(*told)],
        data=data,
        left_out=left_out,
    )
    return written


def _data(document: dict[str, Any]) -> tuple[str, int]:
    """The export as JSON within a size, and how many rows are left out: of the longest table first."""
    tables = [document[name] for name in ("kernels", "layers", "phases")]
    before = sum(len(table["rows"]) for table in tables)
    text = inline.json_text(document)
    if len(text) > MAX_JSON:
        for side in ("base", "new"):
            document[side]["run"] = {**document[side]["run"], "layers": []}
        text = inline.json_text(document)
    while len(text) > MAX_JSON and any(table["rows"] for table in tables):
        longest = max(tables, key=lambda table: len(table["rows"]))
        longest["rows"] = longest["rows"][: len(longest["rows"]) // 2]
        text = inline.json_text(document)
    if len(text) > MAX_JSON:
        for side in ("base", "new"):
            document[side]["run"] = {}
        text = inline.json_text(document)
    return text, before - sum(len(table["rows"]) for table in tables)


def _table(found: Comparison, kind: str, rows: Sequence[Difference]) -> dict[str, Any]:
    """One table as plain values: what it shows and what it sorts by."""
    names = cells.named(rows)
    shown, called = list(rows[:MAX_ROWS]), names[:MAX_ROWS]
    if kind == "phase":
        shown, called = [found.total, *shown], ["whole step", *called]
    grid, levels = cells.full(kind, shown, map(_short, called)), cells.levels_of(shown)
    return {
        "kind": kind,
        "headers": grid.headers,
        "rows": [
            # The first word of the change is the class of the row: faster, slower, within, not, new, gone.
            {"texts": texts, "sorted": _values(row, levels), "change": row.change.split()[0]}
            for texts, row in zip(grid.rows, shown, strict=True)
        ],
        "rest": _rest(rows[MAX_ROWS:]),
        "sums": cells.sums(found, rows),
        "alone": _alone(rows, names),
    }


def _values(row: Difference, levels: Sequence[MemoryLevel]) -> list[float | str | None]:
    """What the columns of ``cells.full`` sort by."""
    before, after = row.times
    times = (math.nan if row.base is None else before, math.nan if row.new is None else after)
    values = [*times, row.time, row.judged.noise]
    work = [row.launches, row.flop, *(row.nbytes(level) for level in levels)]
    numbers = [_finite(value) for value in (*values, *work, row.headrooms[1], row.headroom)]
    return [row.name[:MAX_NAME], *numbers[:4], str(row.change), *numbers[4:], str(row.how)]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _rest(rows: Sequence[Difference]) -> str:
    if not rows:
        return ""
    time = math.fsum(row.time for row in rows if not math.isnan(row.time))
    return (
        f"and {len(rows)} more rows, Δ {si(time, 's')} together; hroof compare --top 0 shows all."
    )


def _alone(rows: Sequence[Difference], names: Sequence[str]) -> list[tuple[str, str]]:
    """What only one of the runs has, by name."""
    found = []
    for change, title in ((Change.GONE, "Only in BASE"), (Change.NEW, "Only in NEW")):
        those = [_short(n) for n, row in zip(names, rows, strict=True) if row.change is change]
        if those:
            found.append((title, ", ".join(those)))
    return found


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME // 2]}…{name[-MAX_NAME // 2 :]}"


def _chart(found: Comparison) -> Any:
    """The chart as an element, or why there is none."""
    from markupsafe import Markup

    from hroof.report.chart import svg

    try:
        drawn = arrows.draw(found)
        text = svg(drawn, text=True)
    except MissingError as error:
        return Markup('<p class="note">{}</p>').format(str(error))
    label = f"Roofline chart with {len(drawn.joins)} arrows from BASE to NEW"
    return Markup(inline.chart(text, label, {}))
