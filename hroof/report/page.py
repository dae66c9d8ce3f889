"""The page that text reports are written on: headings, paragraphs, the framed verdict."""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING

from hroof.report.plain import visible

if TYPE_CHECKING:
    from rich.console import Console

    from hroof.findings import Verdict

_MIN_WIDTH = 20


def console_for(stream: io.StringIO, width: int | None, color: bool) -> Console:
    """A console that writes into a stream, as wide as asked or as this terminal."""
    from rich.console import Console

    columns = width or shutil.get_terminal_size((120, 24)).columns
    return Console(
        file=stream,
        width=max(columns, _MIN_WIDTH),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        force_jupyter=False,  # else a notebook shows every line at once, and the text is empty
    )


def heading(console: Console, text: str) -> None:
    """A heading after an empty line."""
    from rich.text import Text

    console.print()
    console.print(Text(visible(text), style="bold underline"))


def line(console: Console, text: str, *, indent: int = 0) -> None:
    """A paragraph; nothing is cut."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(visible(text), overflow="fold"), (0, 0, 0, indent)))


def panel(console: Console, title: str, said: Verdict) -> None:
    """The framed verdict: what, why, next."""
    from rich.panel import Panel
    from rich.text import Text

    body = Text(visible(said.text), style="bold", overflow="fold")
    body.append(f"\nWhy: {visible(said.why)}\nNext: {visible(said.next)}", style="not bold")
    style = "green" if said.sound else "yellow"
    console.print(Panel(body, title=Text(visible(title)), border_style=style))
