"""Making a chart and data part of a page: no outside reference, the page's colours, safe text."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from html import escape
from itertools import accumulate
from typing import Any

from hroof.report.look import ALARM, COMPUTE_ZONE, FAINT, GRID, INK, MEMORY_ZONE, MUTED, PAPER

_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    FAINT: "var(--faint)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    MEMORY_ZONE: "var(--memory-zone)",
    COMPUTE_ZONE: "var(--compute-zone)",
    ALARM: "var(--alarm)",
}
_TAG = re.compile(r"<[^>]*>")
_COLOUR = re.compile("|".join(_VARIABLES))
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_OUTSIDE = re.compile(r'\s(?:xmlns(?::\w+)?|width|height|version)="[^"]*"')
_LONG = re.compile(r"(\d\.\d{2})\d+")
_POINT = re.compile(r'<g id="(point-\d+-\w+)">')
_NAMED = re.compile(r' id="([^"]*)"')


def chart(svg: str, label: str, titles: Mapping[str, str]) -> str:
    """Turn an SVG file with text into an element of a page.

    Matplotlib escapes ``<`` and ``>`` in texts, so that whatever stands between the two is a tag.

    Args:
        svg: What matplotlib wrote.
        label: What a screen reader says.
        titles: Marker id → text that appears on pointing at it.
    """
    body = _DROPPED.sub("", svg[svg.index("<svg") :])
    named = Counter(_NAMED.findall(body))
    body = _TAG.sub(lambda match: _tag(match.group(), named), body)
    body = body.replace("*{", "svg *{", 1)
    opening = f'<svg class="roofline" role="img" aria-label="{escape(label)}"'
    body = (
        _OUTSIDE.sub("", body[: body.index(">")]).replace("<svg", opening, 1)
        + (body[body.index(">") :])
    )
    return _POINT.sub(lambda match: _titled(match.group(1), titles), body)


def _tag(tag: str, named: Mapping[str, int]) -> str:
    """One tag with shorter numbers, the page's colours and fonts, links inside the page, and no name of others."""
    tag = _NAMED.sub(lambda match: match.group() if named[match.group(1)] == 1 else "", tag)
    tag = _LONG.sub(r"\1", tag) if "scale(" not in tag else tag
    tag = tag.replace("xlink:href", "href").replace("'DejaVu Sans'", "system-ui")
    return _COLOUR.sub(lambda match: _VARIABLES[match.group()], tag)


def _titled(name: str, titles: Mapping[str, str]) -> str:
    return f'<g id="{name}" class="point"><title>{escape(titles.get(name, ""))}</title>'


def json_text(value: Any) -> str:
    """JSON for a ``<script>`` element: no character in it can end the element.

    Args:
        value: Plain JSON values without NaN and infinity.
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def fitting(document: dict[str, Any], limit: int) -> tuple[str, int]:
    """The document as JSON within a size, with as many of its first rows as fit.

    Args:
        document: The export; where it is too long, ``run.layers`` gives way and then the last of ``rows``.
        limit: Characters.

    Returns:
        The text and how many rows it holds.
    """
    rows = document["rows"]
    # A comma after each row, but the last.
    ends = list(accumulate(len(json_text(row)) + 1 for row in rows))
    bare = _without_rows(document)
    if bare + (ends[-1] - 1 if ends else 0) > limit:
        document = document | {"run": document["run"] | {"layers": []}}
        bare = _without_rows(document)
    kept = bisect_right(ends, limit - bare + 1)
    return json_text(document | {"rows": rows[:kept]}), kept


def _without_rows(document: dict[str, Any]) -> int:
    """Characters of a document beside its rows."""
    return len(json_text(document | {"rows": []}))
