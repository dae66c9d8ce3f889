"""What can be asked of a run, whether it has just ended or was saved: its report and its tables."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hroof import integration
from hroof.errors import CaptureError, HroofError, MissingError
from hroof.integration import Integration
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.regions import only_marked, what_was_marked

if TYPE_CHECKING:
    import pandas as pd

    from hroof.report.artists import Drawn
    from hroof.report.notebook import Shown

MACHINE = "machine.json"


class Results(abc.ABC):
    """What was collected, as a report and as tables.

    The tables are pandas DataFrames with the same columns for every run: those of
    ``hroof.report.tables.COLUMNS`` after the names of the rows. Numbers are per captured step (the median one) in base
    SI units, NaN where they are not known, never zero; the columns ``source_…`` say where each comes from.
    ``frame.attrs["units"]`` has the units.
    """

    @property
    @abc.abstractmethod
    def profile(self) -> Profile:
        """What was collected."""

    @abc.abstractmethod
    def machine(self) -> Machine | None:
        """The ceilings, or None."""

    @property
    def layers(self) -> pd.DataFrame:
        """The layers, one row each, most time first; all phases together.

        Columns: ``layer`` (None: work outside every layer), ``layer_type``, ``depth``, ``parameters``, then those of
        ``points``. Layers that launched nothing themselves have no row.
        """
        from hroof.report import tables

        return tables.layers(*self._known())

    @property
    def kernels(self) -> pd.DataFrame:
        """The kernels with the ops that launched them, one row each, most time first; on a CPU the ops alone.

        Columns: ``kernel`` (None on a CPU), ``op``, then those of ``points``.
        """
        from hroof.report import tables

        return tables.kernels(*self._known())

    def points(self, by: str | Sequence[str] = ("layer",)) -> pd.DataFrame:
        """Groups of launches on the Roofline, one row each, most time first.

        Args:
            by: Grouping keys, e.g. ``"layer"``, ``("layer", "phase")`` or ``"block,phase"``: columns of the launch
                table, ``block``, ``family``, ``depth1``, ``depth2``, …

        Returns:
            The keys as text, then ``launches``, ``time`` [s], ``share`` [1], ``flop`` [FLOP], ``flop_rate`` [FLOP/s],
            ``bytes_<level>`` [B], ``intensity_<level>`` [FLOP/B], ``bound``, ``bound_share`` [1],
            ``attainable_time`` [s], ``headroom`` [1], ``recoverable_time`` [s], ``time_spread`` [1], ``integer_op``
            [OP], ``flop_<pipe>_<precision>`` [FLOP, OP], ``byte_rate_<level>`` [B/s], ``fused_time`` [s],
            ``compute_time`` [s], ``memory_time_<level>`` [s], ``launch_time`` [s], ``bounded_time`` [s],
            ``uncounted_time`` [s], ``unsized_time_<level>`` [s], ``zero_flop_launches`` [1], ``source_time``,
            ``source_flop``, ``source_<level>`` and ``notes``, in this order.

        Raises:
            UsageError: A grouping key is unknown or given twice.
        """
        from hroof.report import tables

        return tables.points(*self._known(), _keys(by, "layer"))

    def report(
        self,
        path: str | Path | None = None,
        *,
        by: Sequence[str] | None = None,
        full: bool = False,
        force: bool = False,
    ) -> Shown:
        """The text report, which a notebook shows as the interactive page; with a path also a file.

        Args:
            path: ``.txt``, ``.json``, ``.csv``, ``.parquet``, ``.png``, ``.svg``, ``.pdf`` or ``.html``.
            by: Grouping keys, e.g. ``("layer", "phase")``; by default layers, or kernels where no layer is known.
            full: Everything there is to say, instead of the short report.
            force: Replace a file that is there.

        Returns:
            The report, a ``str``; one sentence where the region only marked for a tool outside. Then no file is
            written.

        Raises:
            CaptureError: Nothing was collected.
            OutputError: The file is there already, or cannot be written.
        """
        from hroof.report import brief, export, text
        from hroof.report.notebook import Shown
        from hroof.roofline import remembering, usual_key

        if only_marked(self.profile):
            return Shown(what_was_marked(self.profile, path))
        profile, machine = self._known()
        keys = (usual_key(profile.launches),) if by is None else tuple(by)
        with remembering():
            if path is not None:
                export.write(profile, machine, path, by=keys, force=force)
            render = text.render if full else brief.render
            return Shown(render(profile, machine, by=keys), profile, machine, keys)

    def chart(
        self,
        kind: str = "roofline",
        *,
        by: str | Sequence[str] | None = None,
        style: str = "light",
        levels: Sequence[str] | None = None,
    ) -> Drawn:
        """Draw the run; a notebook shows the result, and its ``save`` writes it as PNG, SVG or PDF.

        Args:
            kind: ``roofline``; ``time``, the same bounds as times; ``phases``, one Roofline per phase side by side.
            by: Grouping keys, as of ``points``; by default layers, or kernels where no layer is known.
            style: ``light``, ``dark`` or ``paper`` (as the figures of arXiv 2009.05257; of a Roofline only).
            levels: Only these memory levels, e.g. ``("l2", "dram")``.

        Returns:
            What it is made of, with the matplotlib figure as ``figure``: see ``hroof.report.chart``.

        Raises:
            CaptureError: Nothing was collected.
            UsageError: There is no such kind, style, level or grouping key.
            MissingError: matplotlib is not installed.
        """
        from hroof.report.chart import draw
        from hroof.report.charts.choice import Choice, levels_of
        from hroof.roofline import usual_key

        choice = Choice(kind, style, None if levels is None else levels_of(levels))
        profile, machine = self._known()
        return draw(profile, machine, _keys(by, usual_key(profile.launches)), choice)

    def _known(self) -> tuple[Profile, Machine | None]:
        """The run and its ceilings; the rest of it stands where nothing here can measure them."""
        try:
            return self.profile, self.machine()
        except MissingError as error:
            from hroof.report import say

            say(f"hroof: {error}")
            return self.profile, None


def _keys(by: str | Sequence[str] | None, usual: str) -> tuple[str, ...]:
    """Grouping keys as a user gives them."""
    if by is None:
        return (usual,)
    return tuple(key.strip() for key in by.split(",")) if isinstance(by, str) else tuple(by)


@dataclass(frozen=True, eq=False)
class Saved(Results):
    """A run that was saved: see ``load``.

    Attributes:
        folder: Where it lies.
        collected: What was collected.
        ceilings: Those to use; None: those beside the run, else those that were measured here before.
    """

    folder: Path
    collected: Profile
    ceilings: Machine | None = None

    @property
    def profile(self) -> Profile:
        """What was collected."""
        return self.collected

    def machine(self) -> Machine | None:
        """The ceilings, at the clock of the run; None where none are known. Never measures."""
        found = self.ceilings or saved_machine(self.folder) or known_machine(self.profile)
        return at_its_clock(self.profile, found)

    def __repr__(self) -> str:
        """What it is, in a line: tables are asked for."""
        return f"hroof.load({str(self.folder)!r})"


def load(folder: str | Path, *, machine: Machine | None = None) -> Saved:
    """Read a run that was saved, to look at it in a notebook or a script.

    Needs neither the program, the framework nor the device.

    Args:
        folder: That of ``hroof run`` or of a region.
        machine: Ceilings to use; by default those of the run.

    Returns:
        The run: ``report()``, ``layers``, ``kernels``, ``points()``, ``profile`` and ``machine()``.

    Raises:
        ProfileError: The folder is not a run, is damaged, or was written by a newer hroof.
        CaptureError: The run only marked for a tool outside.
    """
    profile = Profile.load(folder)
    if only_marked(profile):
        remedy = "Collect with hroof run --counters, or without HROOF=marks."
        raise CaptureError(what_was_marked(profile), remedy)
    return Saved(Path(folder), profile, machine)


def known_ceilings(profile: Profile) -> Machine | None:
    """The ceilings of the device of a run, if they were measured before.

    Raises:
        HroofError: The framework of the run, or its device, is not here.
    """
    from hroof import ceilings

    return ceilings.known(*framework_and_device(profile))


def framework_and_device(profile: Profile) -> tuple[Integration, str]:
    """Who collected a run, and on what.

    Raises:
        HroofError: The framework is not here.
    """
    chosen = integration.load(str(profile.run.get("framework") or ""))
    return chosen, str(profile.run.get("device") or "cpu")


def known_machine(profile: Profile) -> Machine | None:
    """The ceilings of the device of a run, if they were measured before on this machine."""
    try:
        return known_ceilings(profile)
    except HroofError:
        return None  # another machine, or no framework here: nothing is known


def saved_machine(folder: Path) -> Machine | None:
    """The ceilings that lie beside a profile, if any.

    Raises:
        ProfileError: They are damaged.
    """
    path = folder / MACHINE
    return Machine.load(path) if path.exists() else None


def at_its_clock(profile: Profile, machine: Machine | None) -> Machine | None:
    """The ceilings at the clock that the run's launches were profiled at."""
    from hroof import counters

    clock = profile.run.get("clock")
    if machine is None or not isinstance(clock, int | float) or counters.CLOCK not in machine.facts:
        return machine
    return counters.fitted(machine, clock)
