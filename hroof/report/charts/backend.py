"""Figures, their settings and their files; the only module that imports matplotlib."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hroof.errors import MissingError, UsageError
from hroof.files import write_atomic
from hroof.report.charts.style import LIGHT, Style
from hroof.report.look import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


def kind_of(path: str | Path) -> str:
    """The format that the ending of a name says.

    Raises:
        UsageError: It is none of png, svg and pdf.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(
            f"A chart cannot be written as {Path(path).name!r}.", f"End it in one of {FORMATS}."
        )
    return kind


def save_as(drawn: Figure, path: Path, kind: str) -> Path:
    """Write a figure in a format, the same bytes for the same figure.

    Raises:
        OutputError: It cannot be written there.
    """
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    with styled():
        write_atomic(
            path,
            lambda temporary: drawn.savefig(
                temporary, format=kind, dpi=160, metadata=dates[kind], facecolor="auto"
            ),
        )
    return path


@contextlib.contextmanager
def styled(look: Style = LIGHT, extra: Mapping[str, Any] | None = None) -> Iterator[None]:
    """hroof's look instead of the user's; theirs comes back, and the back end is never touched."""
    matplotlib = _matplotlib()
    plain = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith("backend")}
    with (
        matplotlib.rc_context(plain | look.settings() | dict(extra or {})),
        warnings.catch_warnings(),
    ):
        # A name in a script that the font lacks is drawn as boxes; that is no reason to fail.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield


def _matplotlib() -> Any:
    try:
        import matplotlib
    except (ImportError, ValueError) as error:
        # An MPLBACKEND that matplotlib does not know is a ValueError.
        absent = isinstance(error, ModuleNotFoundError)
        remedy = "Install it with: pip install matplotlib." if absent else "Check MPLBACKEND."
        raise MissingError(
            f"matplotlib, which draws the charts, cannot be imported: {error}.",
            f"{remedy} Text, CSV and JSON reports work without.",
        ) from error
    return matplotlib


def axes_at(whole: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place in inches."""
    across, up = (float(size) for size in whole.get_size_inches())
    return whole.add_axes((left / across, bottom / up, width / across, height / up))


def new_figure(width: float = 12.0, height: float = 7.2, look: Style = LIGHT) -> Figure:
    """A figure of a size in inches, with the background of a style, that no display needs to show."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    empty = Figure(figsize=(width, height), dpi=100, facecolor=look.shade(PAPER))
    FigureCanvasAgg(empty)
    return empty


def renderer_of(axes: Axes) -> Any:
    """What measures texts in pixels of a figure, whatever canvas the figure has."""
    from matplotlib.backends.backend_agg import RendererAgg

    whole: Any = axes.get_figure()
    return RendererAgg(*map(int, whole.bbox.size), whole.dpi)
