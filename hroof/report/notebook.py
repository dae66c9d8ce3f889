"""The report in a notebook: text everywhere, and the interactive page where HTML is shown."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from hroof.errors import MissingError
from hroof.report.look import printable
from hroof.roofline import remembering

if TYPE_CHECKING:
    from hroof.machine import Machine
    from hroof.profile import Profile

HEIGHT = 760
"""Pixels of the page in a notebook; the reader can pull it larger."""


class Shown(str):
    """The text report. As the value of a notebook's cell it is the interactive page, and in a shell it reads as text.

    Attributes:
        profile: What the page shows; None: there is no page.
        machine: Its ceilings, or None.
        by: Grouping keys of its table.
    """

    profile: Profile | None
    machine: Machine | None
    by: tuple[str, ...]

    def __new__(
        cls,
        text: str,
        profile: Profile | None = None,
        machine: Machine | None = None,
        by: Sequence[str] = ("layer",),
    ) -> Shown:
        """A report that knows what it is of."""
        made = super().__new__(cls, text)
        made.profile, made.machine, made.by = profile, machine, tuple(by)
        return made

    def __repr__(self) -> str:
        """The text as it is read: with its line breaks, and without quotes."""
        return str(self)

    def _repr_html_(self) -> str | None:
        """What notebooks show: the page in a frame of its own, whose scripts cannot reach the notebook."""
        if self.profile is None:
            return None
        from hroof.report import html

        try:
            with remembering():
                page = html.render(self.profile, self.machine, self.by)
        except MissingError as error:
            return f"<p>{escape(str(error))}</p><pre>{escape(self)}</pre>"
        return framed(page, f"Report of {self.profile.name}")


def framed(page: str, title: str) -> str:
    """A whole page as an element of another one; nothing of it gets out of its frame.

    Args:
        page: The page, with everything it needs in it.
        title: What a screen reader says.
    """
    return (
        f'<iframe title="{escape(printable(title))}" sandbox="allow-scripts allow-downloads" '
        f'style="width: 100%; height: {HEIGHT}px; border: 0; resize: vertical" '
        f'srcdoc="{escape(page)}"></iframe>'
    )
