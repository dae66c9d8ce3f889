"""Profile: what one run collected, in memory and on disk."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hroof.errors import OutputError, ProfileError
from hroof.files import Write, json_writer, read_json, write_together
from hroof.profile.schema import SCHEMA_VERSION, conform, framed, stacked

if TYPE_CHECKING:
    import pandas as pd

_KIND = "hroof profile"
_LAUNCHES, _COUNTERS = "launches", "counters"
_KEYS = ("launch_id", "rank")
_PART = re.compile(rf"^({_LAUNCHES}|{_COUNTERS})-(\d+)\.parquet$")


@dataclass(frozen=True)
class Profile:
    """The launch table of one run and what is known about the run.

    Attributes:
        launches: One row per launch, with the columns of ``hroof.profile.SCHEMA``.
        run: What ``run.json`` holds (plain JSON values): ``program`` (argv), ``name`` (of the
            region), ``framework``, ``versions``, ``device``, ``schedule`` (skip, steps), ``steps``
            (list of ``{"step", "wall"}`` with the wall time in seconds and, where a loader was asked for batches,
            ``loading``, the seconds of waiting for it), ``how`` (how time and work
            were got), ``status`` (``complete``, ``partial`` with ``status_reason``), ``warnings``
            (list of sentences), ``undisturbed_step`` (seconds of a
            step before the captured ones, or null), ``peak_memory`` (bytes that the process had resident at most up to
            its last captured step, or null), ``peak_device_memory`` (bytes that the framework had allocated at most on
            the device), ``layers`` (list of ``{"name", "type", "depth", "parameters"}`` in
            model order), ``ops_without_rule`` (names), ``model_flop``; where counters were read also ``devices`` (by
            number: ``name``, ``capability``, ``chip``), ``clock`` (hertz of the device while it was profiled),
            ``nvtx`` (true names behind the messages of ranges), ``places`` (what nodes of TensorFlow serve, see
            ``hroof.collect.tsl``).
        counters: Raw counters as the tool gave them, in base SI units: ``launch_id``, ``rank`` and one float column
            per metric; None where nothing was counted by hardware.
    """

    launches: pd.DataFrame
    run: dict[str, Any] = field(default_factory=dict)
    counters: pd.DataFrame | None = None

    @classmethod
    def from_rows(
        cls,
        rows: pd.DataFrame | Sequence[dict[str, Any]],
        run: dict[str, Any] | None = None,
        counters: pd.DataFrame | None = None,
    ) -> Profile:
        """Build a profile from rows with any subset of the schema's columns.

        Args:
            rows: The launches.
            run: See ``Profile.run``.
            counters: One row per launch in the same order, one float column per metric; the columns ``launch_id`` and
                ``rank`` are taken from the launches.

        Raises:
            ProfileError: The rows do not fit the schema.
        """
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else framed(list(rows))
        launches = conform(frame)
        return cls(launches, dict(run or {}), _keyed(counters, launches))

    @property
    def name(self) -> str:
        """Name of the region or the program."""
        return str(self.run.get("name") or "run")

    @property
    def step_count(self) -> int:
        """How many whole steps were captured."""
        steps = self.launches["step"]
        return int(steps[steps >= 0].nunique())

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``run.json`` and one Parquet part per rank into a folder.

        Args:
            folder: Created where absent.
            force: Replace a profile that is there already.

        Raises:
            OutputError: The folder holds a profile already, or cannot be written.
        """
        folder = Path(folder)
        if not force and (folder / "run.json").exists():
            raise OutputError(
                f"{str(folder)!r} holds a profile already.",
                "Choose another folder, or allow replacing it: --force, in Python force=True.",
            )
        parts = self._parts()
        run = {**self.run, "kind": _KIND, "schema": SCHEMA_VERSION, "ranks": list(parts)}
        counters = self._counter_parts(parts)
        writes = {
            folder / f"{kind}-{rank}.parquet": _parquet(part)
            for kind, tables in ((_LAUNCHES, parts), (_COUNTERS, counters))
            for rank, part in tables.items()
        }
        # run.json goes first and comes last: a folder without it does not load.
        writes[folder / "run.json"] = json_writer(run)
        write_together(writes, stale=[folder / "run.json", *_parts_of_any_kind(folder)])
        return folder

    def _counter_parts(self, ranks: Iterable[int]) -> dict[int, pd.DataFrame]:
        """The raw counters of each rank; none where nothing was counted."""
        if self.counters is None:
            return {}
        return {rank: self.counters[self.counters["rank"] == rank] for rank in ranks}

    def _parts(self) -> dict[int, pd.DataFrame]:
        if self.launches.empty:
            return {0: self.launches}
        return {int(str(rank)): part for rank, part in self.launches.groupby("rank", sort=True)}

    @classmethod
    def load(cls, folder: str | Path) -> Profile:
        """Read a profile back.

        Raises:
            ProfileError: The folder is not a profile, is damaged, or was written by a newer hroof.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise ProfileError(
                f"{str(folder)!r} {'is not a folder' if folder.exists() else 'does not exist'}.",
                "Give the folder that hroof run wrote.",
            )
        run = read_json(folder / "run.json", "a profile")
        _check_kind(run, folder)
        parts = _listed_parts(run.pop("ranks", None), folder)
        return cls(_read_parts(parts), run, _read_counters(parts, folder))

    @staticmethod
    def files(folder: str | Path) -> list[Path]:
        """The files of a profile that lie in a folder; run.json first, without which the rest does not load."""
        folder = Path(folder)
        run = [path for path in (folder / "run.json",) if path.exists()]
        return [*run, *_parts_of_any_kind(folder)]

    @classmethod
    def merge(cls, profiles: Sequence[Profile]) -> Profile:
        """One profile of several ranks of the same run; the first gives ``run``.

        Raises:
            ProfileError: There is none, or two hold the same rank.
        """
        import pandas as pd

        if not profiles:
            raise ProfileError("There is no profile to merge.", "Give at least one.")
        ranks = [rank for profile in profiles for rank in profile.launches["rank"].unique()]
        if len(ranks) != len(set(ranks)):
            raise ProfileError(
                "Two of the profiles hold the same rank.", "Merge one profile per rank."
            )
        launches = stacked([profile.launches for profile in profiles])
        counted = [profile.counters for profile in profiles if profile.counters is not None]
        counters = pd.concat(counted, ignore_index=True) if counted else None
        return cls(launches, dict(profiles[0].run), counters)

    def replace(self, **changes: Any) -> Profile:
        """A copy with some attributes changed."""
        return dataclasses.replace(self, **changes)


def _check_kind(run: dict[str, Any], folder: Path) -> None:
    if run.pop("kind", None) != _KIND:
        raise ProfileError(
            f"{str(folder)!r} holds a run.json that hroof did not write.",
            "Give a folder that hroof wrote.",
        )
    version = run.pop("schema", None)
    if type(version) is not int or version < 1:
        raise ProfileError(
            f"{str(folder)!r} has no valid schema number ({version!r}).", "Collect it again."
        )
    if version > SCHEMA_VERSION:
        raise ProfileError(
            f"{str(folder)!r} has schema {version}; this hroof reads up to {SCHEMA_VERSION}.",
            "Upgrade hroof to read it.",
        )


def _keyed(counters: pd.DataFrame | None, launches: pd.DataFrame) -> pd.DataFrame | None:
    """Counters with the key of their launch in front."""
    import pandas as pd

    if counters is None:
        return None
    if len(counters) != len(launches):
        raise ProfileError(f"{len(launches)} launches have {len(counters)} rows of counters.")
    metrics = counters.drop(columns=[*_KEYS], errors="ignore").reset_index(drop=True)
    return pd.concat([launches[[*_KEYS]], metrics.astype("float64")], axis=1)


def _parts_of_any_kind(folder: Path) -> list[Path]:
    return [path for path in _listing(folder) if _PART.match(path.name)]


def _part_files(folder: Path, kind: str) -> dict[int, Path]:
    matches = ((_PART.match(path.name), path) for path in _listing(folder))
    return {int(match[2]): path for match, path in matches if match and match[1] == kind}


def _listing(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _listed_parts(ranks: Any, folder: Path) -> dict[int, Path]:
    """The part of every rank that run.json lists."""
    if not isinstance(ranks, list) or not ranks or any(type(rank) is not int for rank in ranks):
        raise ProfileError(
            f"run.json in {str(folder)!r} does not list its ranks ({ranks!r}).", "Collect it again."
        )
    files = _part_files(folder, _LAUNCHES)
    missing = [rank for rank in ranks if rank not in files]
    if missing:
        raise ProfileError(
            f"{str(folder)!r} lacks the launches of rank {missing[0]} "
            f"(launches-{missing[0]}.parquet).",
            "The copy is incomplete: copy the whole folder, or collect again.",
        )
    return {rank: files[rank] for rank in ranks}


def _parquet(frame: pd.DataFrame) -> Write:
    """Checksums, so that a damaged page is refused rather than read as other numbers."""
    return lambda path: frame.to_parquet(
        path, engine="pyarrow", index=False, write_page_checksum=True
    )


def _read_parts(files: dict[int, Path]) -> pd.DataFrame:
    return stacked([_read_part(rank, path) for rank, path in files.items()])


def _read_counters(parts: dict[int, Path], folder: Path) -> pd.DataFrame | None:
    """The raw counters; None where the run has none."""
    import pandas as pd

    files = _part_files(folder, _COUNTERS)
    found = [_read_keyed(rank, files[rank]) for rank in parts if rank in files]
    return pd.concat(found, ignore_index=True) if found else None


def _read_part(rank: int, path: Path) -> pd.DataFrame:
    return conform(_read_keyed(rank, path), where=f"launch table {path.name}")


def _read_keyed(rank: int, path: Path) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    try:
        frame = pd.read_parquet(path, engine="pyarrow", page_checksum_verification=True)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise ProfileError(
            f"{str(path)!r} is damaged: {str(error).rstrip('. ')}.",
            "Collect it again, or restore it from a copy.",
        ) from error
    absent = [name for name in _KEYS if name not in frame.columns]
    if absent:
        raise ProfileError(
            f"{str(path)!r} is not a launch table: it has no column {absent[0]!r}.",
            "Give a folder that hroof wrote.",
        )
    if not frame.empty and set(frame["rank"]) != {rank}:
        raise ProfileError(
            f"{str(path)!r} holds launches of another rank than {rank}.",
            "Restore the files of the folder under their own names.",
        )
    return frame
