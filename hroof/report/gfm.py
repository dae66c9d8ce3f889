"""GitHub-flavoured Markdown: foreign text that stays text, and tables that stay tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hroof.report.plain import clipped, visible

_SPECIAL = re.compile(r"[\\`*\[\]<>|#~!&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""What begins markup somewhere in a line, mathematics included; within a word ``_`` does not."""
_NO_SPAN = frozenset("`|\\")
"""Characters that a code span between backticks in a table cannot hold."""
_HARMLESS = re.compile(r"[\w .-]", re.ASCII)
_MENTION = re.compile(r"([@#])(?=\w)")
_LINK = re.compile(r"(?i)(https?|ftp)(:)(?=//)|(www)(\.)")
_LIST = re.compile(r"^(\s*)([-+](?=\s|$)|-{2,}|=|\d+[.)](?=\s|$))")
_NO_BREAK = "\u200b"
"""Breaks what would become a mention or a link; it has no width."""


def plain(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no link, no mention.

    Control characters and line breaks become escapes such as ``\\n``.
    """
    text = _MENTION.sub(rf"\1{_NO_BREAK}", visible(text))
    text = _LINK.sub(lambda match: f"{match[1] or match[3]}{_NO_BREAK}{match[2] or match[4]}", text)
    escaped = _SPECIAL.sub(lambda match: _entity(match[0]), text)
    return _LIST.sub(lambda match: f"{match[1]}{_entity(match[2][0])}{match[2][1:]}", escaped)


def code(text: str, limit: int | None = None) -> str:
    """A name in type of one width, as it is; nothing within it is markup.

    Args:
        text: The name.
        limit: Columns; ``…`` stands for the middle of a longer one. None: whole.
    """
    shown = visible(text)
    shown = clipped(shown, limit) if limit is not None else shown
    if not shown.strip():
        return "<code>&nbsp;</code>"
    if not _NO_SPAN & set(shown):
        return f"`{shown.strip()}`"
    inside = "".join(
        char if _HARMLESS.fullmatch(char) and char != "_" else _entity(char) for char in shown
    )
    return f"<code>{inside}</code>"


def _entity(char: str) -> str:
    return f"&#{ord(char)};"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """A table; the cells are Markdown already.

    Args:
        headers: One per column.
        rows: Cells, one list per row.
        names: How many leading columns name the row; the others stand to the right.
    """
    aligned = [":---" if number < names else "---:" for number in range(len(headers))]
    lines = [list(headers), aligned, *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def heading(text: str, level: int = 2) -> str:
    """A heading and the empty lines around it."""
    return f"\n{'#' * level} {plain(text)}\n\n"


def bullets(texts: Sequence[str]) -> str:
    """A list; the texts are Markdown already."""
    return "".join(f"- {text}\n" for text in texts)


def folded(title: str, body: str) -> str:
    """A part that is closed until somebody opens it.

    Args:
        title: Text.
        body: Markdown.
    """
    return f"\n<details><summary>{plain(title)}</summary>\n\n{body.strip()}\n\n</details>\n"
