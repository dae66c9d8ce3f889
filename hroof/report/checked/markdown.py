"""A checked run as GitHub-flavoured Markdown: for the page of a job or a pull request."""

from __future__ import annotations

from hroof.budgets import Check, Row, Verdict, summary
from hroof.report import gfm
from hroof.report.checked.cells import against, facts_of, headers, names_of, noise_rule
from hroof.report.checked.choice import chosen, left_out, notes
from hroof.report.markdown import NAME, caveats, first_findings

SIGNS = {
    Verdict.OK: "✅",
    Verdict.NOISE: "✅",
    Verdict.OVER: "❌",
    Verdict.UNKNOWN: "❔",
}
KEPT = 15
"""From this many kept limits on they are folded away where others fail."""


def render(found: Check) -> str:
    """Write the summary: verdict, table, notes, what to change first, caveats.

    Args:
        found: What came out.
    """
    said, rows = summary(found), chosen(found)
    parts = [
        gfm.heading(f"{SIGNS[found.verdict]} hroof check: {against(found)}").lstrip(),
        f"**{gfm.plain(said.text)}**\n\nWhy: {gfm.plain(said.why)}  \nNext: {gfm.plain(said.next)}\n",
        _tables(headers(found), rows),
        f"{left}.\n\n" if (left := left_out(found, rows)) else "",
        gfm.bullets([gfm.plain(text) for text in notes(rows)]),
        first_findings(found.findings),
        caveats([*found.caveats, noise_rule(found)]),
    ]
    return "".join(parts)


def _tables(names: list[str], rows: list[Row]) -> str:
    """One table; where limits are missed and many are kept, these are folded away."""
    kept = [row for row in rows if row.verdict is Verdict.OK]
    failed = [row for row in rows if row.verdict is not Verdict.OK]
    if not failed or len(kept) < KEPT:
        return f"\n{_table(names, rows)}\n"
    return f"\n{_table(names, failed)}\n{gfm.folded('Limits that are kept', _table(names, kept))}\n"


def _table(names: list[str], rows: list[Row]) -> str:
    return gfm.table(["", *names], [_row(row) for row in rows], 3)


def _row(row: Row) -> list[str]:
    names = [gfm.code(name, NAME) for name in names_of(row)]
    return [SIGNS[row.verdict], *names, *map(gfm.plain, facts_of(row))]
