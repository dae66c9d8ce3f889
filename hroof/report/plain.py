"""Plain text: foreign names made harmless and short enough for terminals and spreadsheets."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

MAX_NAME = 48
"""Columns of a name in a text table."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str) -> str:
    r"""The text with control characters and line breaks as escapes, e.g. ``\x1b`` or ``\n``.

    A name must not move the cursor, colour the terminal or turn its text around.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode("ascii")


def clipped(text: str, limit: int = MAX_NAME) -> str:
    """The text in at most ``limit`` columns: ``…`` stands for the middle of a longer one."""
    from rich.cells import cell_len

    if cell_len(text) <= limit:
        return text
    head = _fitting(text, limit // 2)
    tail = _fitting(text[::-1], limit - 1 - cell_len(head))[::-1]
    return f"{head}…{tail}"


def _fitting(text: str, columns: int) -> str:
    """The longest start of a text that fits."""
    from rich.cells import cell_len

    end = min(len(text), columns)
    while cell_len(text[:end]) > columns:
        end -= 1
    return text[:end]


def no_formula(text: str) -> str:
    r"""A cell that spreadsheets take for text: an apostrophe before what could start a formula.

    A carriage return, which would end the row, becomes ``\r``.
    """
    safe = f"'{text}" if text.startswith(_FORMULA) else text
    return safe.replace("\r", r"\r")


def csv_text(frame: pd.DataFrame) -> str:
    """A table as CSV whose texts no spreadsheet takes for formulas.

    Args:
        frame: Numbers in columns of float64, all else in others.
    """
    safe = frame.copy(deep=False)
    for name in frame.columns[frame.dtypes != "float64"]:
        column = frame[name].astype(object)
        safe[name] = [no_formula(cell) if isinstance(cell, str) else cell for cell in column]
    return safe.to_csv(index=False, lineterminator="\n")
