"""The text output of ncu → what it says of each launch.

Every table that ``ncu --csv`` prints is read: the raw page, the details page, ``--metrics``, summaries,
and what people made of them where that is sure. Several files are one program, run once per metric.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hroof.errors import ProfileError
from hroof.readers.ncu_csv import join, long, stack, summed, wide
from hroof.readers.ncu_csv.launches import Part
from hroof.readers.ncu_csv.lines import (
    Table,
    boxes,
    chatter,
    cut_before,
    has_header,
    said,
    tables,
)
from hroof.readers.ncu_csv.rows import read_rows
from hroof.readers.ncu_csv.text import Text, load, start
from hroof.readers.ncu_csv.values import OtherLocaleError
from hroof.readers.raw import IDENTITY, Raw

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["looks_like", "read"]


def looks_like(path: Path) -> bool:
    """Whether a file holds text output of ncu: a table, or its own lines.

    Only the beginning is looked at, where a table need not be; a console table counts as well, so
    that ``read`` can say why it cannot be used.
    """
    head = start(Path(path))
    return chatter(head) or boxes(head) or has_header(head)


def read(paths: Sequence[Path]) -> Raw:
    """What files of ncu's text output say of each launch, in base SI units.

    Args:
        paths: One file; or several that hold different metrics of one program. Where the order of
            launches differs between them, the rows are sums per kernel, and a sentence says so.

    Raises:
        ProfileError: A file has no table, a unit is unknown, numbers can be meant in two ways, or files
            do not belong together.
    """
    texts = [load(Path(path)) for path in paths]
    _check_different(texts)
    whole = join.joined([_part(text) for text in texts])
    problems = [problem for text in texts for problem in text.problems]
    facts: dict[str, Any] = {"files": [str(path) for path in paths], "dialect": whole.dialect}
    if whole.programs:
        facts["programs"] = {str(process): name for process, name in whole.programs.items()}
    return Raw(
        launches=_with_texts(whole.launches),
        counters=whole.counters,
        ranges=whole.ranges,
        devices=whole.devices,
        facts=facts,
        problems=tuple(dict.fromkeys([*problems, *whole.problems])),
        incomplete=whole.incomplete,
    )


def _with_texts(launches: pd.DataFrame) -> pd.DataFrame:
    """The columns of ``Raw.launches``, their categories as texts again."""
    columns = {name: launches[name] for name in IDENTITY}
    texts = {
        name: column.astype(str) for name, column in columns.items() if column.dtype == "category"
    }
    return launches[list(IDENTITY)].assign(**texts)


def _check_different(texts: Sequence[Text]) -> None:
    if not texts:
        raise ProfileError("There is no file to read.", "Name at least one.")
    seen: dict[bytes, Text] = {}
    for text in texts if len(texts) > 1 else ():
        if text.data and text.data in seen:
            raise ProfileError(
                f"{text.path} holds the same as {seen[text.data].path}.", "Name each file once."
            )
        seen[text.data] = text


def _part(text: Text) -> Part:
    """What one file says: its tables one below the other, or side by side where their metrics differ."""
    found = [part for part in map(_table, tables(text)) if part is not None]
    words = said(text)
    if not found and text.cut:
        raise cut_before(text)
    if not found:
        told = "".join(f' ncu says: "{line}".' for line in (words + said(text, "WARNING"))[:3])
        raise ProfileError(
            f"{text.path} has the header of a table but no kernel.{told}",
            "Check that the program launched kernels, and the filters given to ncu.",
        )
    whole = stack.stacked(found)
    problems = list(whole.problems)
    if text.cut:
        problems.append(
            f"{text.path.name}: the packed file is cut off; what comes after is missing."
        )
    problems += [f'{text.path.name}: ncu says: "{sentence}".' for sentence in words]
    return dataclasses.replace(
        whole, problems=tuple(problems), incomplete=whole.incomplete or text.cut
    )


def _table(table: Table) -> Part | None:
    """What one table says, None if it has no row; numbers with a decimal comma are read again as such."""
    try:
        return _page(table, comma=False)
    except OtherLocaleError:
        part = _page(table, comma=True)
        if part is None:
            return None
        sentence = f"{table.name}: the numbers have a decimal comma and were read so."
        return dataclasses.replace(part, problems=(*part.problems, sentence))


def _page(table: Table, *, comma: bool) -> Part | None:
    rows = read_rows(table, texts=comma)
    if not len(rows):
        return None
    columns = set(table.header)
    if "Invocations" in columns:
        return summed.summary(rows, comma=comma)
    if "ID" not in columns and table.header[0] != "Metric Name":
        return summed.by_name(rows, comma=comma)
    if {"Metric Name", "Metric Value"} <= columns:
        return long.part(rows, comma=comma)
    return wide.part(rows, comma=comma)
