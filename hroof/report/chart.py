"""Roofline charts as PNG, SVG and PDF; the only module that imports matplotlib."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hroof.errors import MissingError, UsageError
from hroof.files import write_atomic
from hroof.machine import Machine
from hroof.report.artists import Artists
from hroof.report.drawing import Drawing
from hroof.report.look import FAINT, INK, MUTED, PAPER, printable, subtitle
from hroof.report.machine_drawing import MachineDrawing, SweepArtists, SweepDrawing
from hroof.report.machine_scene import sweep_scene
from hroof.report.scene import Scene, Spot, compose, spot
from hroof.roofline import Point, points
from hroof.units import MemoryLevel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hroof.profile import Profile

__all__ = [
    "FORMATS",
    "Artists",
    "Spot",
    "SweepArtists",
    "composed",
    "draw_file",
    "figure",
    "machine_figure",
    "machine_roofline",
    "roofline",
    "save",
    "svg",
    "sweep",
]

FORMATS = ("png", "svg", "pdf")

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "svg.hashsalt": "hroof",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "path.simplify": False,
}


def roofline(
    points: Sequence[Point | Spot],
    machine: Machine | None,
    *,
    levels: Sequence[MemoryLevel] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Artists:
    """Draw a hierarchical Roofline.

    Args:
        points: Groups of launches; zero-FLOP ones are named in the caption.
        machine: Its ceilings; None: no roofs.
        levels: Show only these memory levels.
        title: Heading; None: the name of the machine.
        ax: Draw here instead of on a figure of its own.

    Raises:
        MissingError: matplotlib is not installed.
    """
    scene = compose([p if isinstance(p, Spot) else spot(p) for p in points], machine, levels)
    with _style():
        axes = _axes() if ax is None else ax
        drawing = Drawing(scene, axes, _renderer(axes))
        return drawing.draw(title or "Hierarchical Roofline", subtitle(machine))


def composed(
    spots: Sequence[Spot],
    machine: Machine | None,
    make: Callable[[Scene, Axes, Any], Drawing],
    title: str,
    about: str,
) -> Artists:
    """Draw a Roofline in another manner, on a figure of its own.

    Args:
        spots: Groups of launches.
        machine: Its ceilings; None: no roofs.
        make: Makes the drawing from the scene, the axes and a renderer.
        title: Heading.
        about: What stands below it.

    Raises:
        MissingError: matplotlib is not installed.
    """
    with _style():
        axes = _axes()
        return make(compose(spots, machine), axes, _renderer(axes)).draw(title, about)


def machine_roofline(machine: Machine, *, ax: Axes | None = None) -> Artists:
    """Draw the Roofline of a machine alone: every bandwidth, every floating-point peak, every ridge point.

    What was measured is solid; peaks of counters and of the vendor's data sheet are dashed.

    Args:
        machine: Its ceilings.
        ax: Draw here instead of on a figure of its own.

    Raises:
        MissingError: matplotlib is not installed.
    """
    with _style():
        axes = _axes() if ax is None else ax
        drawing = MachineDrawing(machine, axes, _renderer(axes))
        return drawing.draw("Roofline of the machine", subtitle(machine))


def sweep(machine: Machine, *, ax: Axes | None = None) -> SweepArtists:
    """Draw the bandwidth over the working set, with its plateaus and the caches that the system tells.

    Args:
        machine: Without a sweep the figure says so.
        ax: Draw here instead of on a figure of its own.

    Raises:
        MissingError: matplotlib is not installed.
    """
    with _style():
        drawing = SweepDrawing(sweep_scene(machine), _axes() if ax is None else ax)
        return drawing.draw("Bandwidth over the working set", printable(machine.name))


def svg(artists: Artists | SweepArtists, *, text: bool = False) -> str:
    """The chart as SVG, the same bytes for the same chart.

    Args:
        artists: The chart.
        text: Keep text as text, for a page that sets the font; else as outlines.
    """
    stream = io.BytesIO()
    with _style({"svg.fonttype": "none"} if text else {}):
        artists.figure.savefig(stream, format="svg", metadata={"Date": None}, facecolor=PAPER)
    return stream.getvalue().decode("utf-8")


def draw_file(
    profile: Profile,
    machine: Machine | None,
    path: str | Path,
    by: Sequence[str] = ("layer", "phase"),
) -> Path:
    """Draw a run into a file; the ending says the format.

    Raises:
        UsageError: The ending is none of png, svg and pdf, or a grouping key is unknown.
        MissingError: matplotlib is not installed.
        OutputError: It cannot be written there.
    """
    kind = _kind(path)
    artists = roofline(points(profile, machine, by), machine, title=profile.name)
    return _save(artists.figure, Path(path), kind)


def figure(machine: Machine, path: str | Path) -> Path:
    """Draw a machine into a file: its Roofline, and below it its sweep where it has one.

    Args:
        machine: Its ceilings.
        path: The ending says the format.

    Raises:
        UsageError: The ending is none of png, svg and pdf.
        MissingError: matplotlib is not installed.
        OutputError: It cannot be written there.
    """
    kind = _kind(path)
    return _save(machine_figure(machine).figure, Path(path), kind)


def machine_figure(machine: Machine) -> Artists:
    """The Roofline of a machine, and on the same figure below it its sweep where it has one.

    Raises:
        MissingError: matplotlib is not installed.
    """
    if machine.sweep is None:
        return machine_roofline(machine)
    with _style():
        both = _figure(height=12.6)
        roofs = machine_roofline(machine, ax=both.add_axes((0.068, 0.5, 0.725, 0.44)))
        sweep(machine, ax=both.add_axes((0.068, 0.09, 0.725, 0.3)))
    return roofs


def save(drawn: Figure, path: str | Path) -> Path:
    """Write a figure in hroof's look into a file.

    Raises:
        UsageError: The ending is none of png, svg and pdf.
        OutputError: It cannot be written there.
    """
    return _save(drawn, Path(path), _kind(path))


def _kind(path: str | Path) -> str:
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(
            f"A chart cannot be written as {Path(path).name!r}.", f"End it in one of {FORMATS}."
        )
    return kind


def _save(drawn: Figure, path: Path, kind: str) -> Path:
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    with _style():
        write_atomic(
            path,
            lambda temporary: drawn.savefig(
                temporary, format=kind, dpi=160, metadata=dates[kind], facecolor=PAPER
            ),
        )
    return path


@contextlib.contextmanager
def _style(extra: Mapping[str, Any] | None = None) -> Iterator[None]:
    """hroof's look instead of the user's; theirs comes back, and the back end is never touched."""
    matplotlib = _matplotlib()
    plain = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith("backend")}
    with matplotlib.rc_context(plain | _STYLE | dict(extra or {})), warnings.catch_warnings():
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


def _axes() -> Axes:
    return _figure().add_axes((0.068, 0.17, 0.725, 0.745))


def _figure(height: float = 7.2) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    empty = Figure(figsize=(12.0, height), dpi=100)
    FigureCanvasAgg(empty)
    return empty


def _renderer(axes: Axes) -> Any:
    from matplotlib.backends.backend_agg import RendererAgg

    whole: Any = axes.get_figure()
    return RendererAgg(*map(int, whole.bbox.size), whole.dpi)
