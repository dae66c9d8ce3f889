"""Times of a run without counters for the launches of a run with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hroof.errors import UsageError
from hroof.kernels import base_name
from hroof.profile import Profile
from hroof.units import Source, percent

if TYPE_CHECKING:
    import pandas as pd

_PLACE = ["phase", "recompute", "layer", "kernel"]
_ORDER = "order"


def with_times(counted: Profile, plain: Profile) -> tuple[Profile, float]:
    """Give the launches of a run under counters the times of a run without.

    A launch is known again by rank, phase, layer, the base name of its kernel, and its place in the order of such
    launches within the step. Only where every step of both runs has as many of them is the order trusted; the time is
    the median over the steps of the plain run.

    Args:
        counted: The run under counters.
        plain: The same program without: its launches have kernels and measured times.

    Returns:
        The counted run with the times of those launches that were found again, and the share of its time that they
        had under counters. All others keep the time that the counters gave.

    Raises:
        UsageError: The counted run had its caches flushed or its clocks locked, so that its bytes do not belong to
            the other run's times.
    """
    mode = counted.run.get("counters_mode") or {}
    if mode.get("cache") == "all":
        raise UsageError(
            "The counters were collected with flushed caches: they do not go with times of another run.",
            "Collect them again without --cold, or leave --times out.",
        )
    times = _times(plain)
    launches = counted.launches
    rows = _keyed(launches)
    found = rows[_KEY].merge(times, how="left", on=_KEY)["time"].to_numpy()
    sizes = rows.groupby([*_KEY[:-1], "step"], dropna=False)[_ORDER].transform("size").to_numpy()
    wanted = rows[_KEY[:-1]].merge(_sizes(times), how="left", on=_KEY[:-1])["size"].to_numpy()
    joined = (found == found) & (sizes == wanted)
    before = launches["duration"].to_numpy()
    share = float(before[joined].sum() / before.sum()) if before.sum() > 0 else 0.0
    changed = launches.assign(duration=launches["duration"].where(~joined, found))
    changed.loc[joined, "source_time"] = Source.MEASURED.value
    return counted.replace(launches=changed, run=_told(counted, share)), share


_KEY = ["rank", *_PLACE, _ORDER]


def _keyed(launches: pd.DataFrame) -> pd.DataFrame:
    """Per launch the place where it is looked for, and its number among those of its step."""
    kernels = launches["kernel"].astype(object)
    names = {name: base_name(name) for name in kernels.dropna().unique()}
    rows = launches[["rank", "step", "phase", "recompute", "layer", "duration"]].assign(
        kernel=kernels.map(names)
    )
    for column in ("phase", "layer"):
        rows[column] = rows[column].astype(object)
    inside = rows[["rank", "step", *_PLACE]].fillna("")
    return inside.assign(
        duration=rows["duration"],
        order=inside.groupby(["rank", "step", *_PLACE]).cumcount(),
    )


def _times(plain: Profile) -> pd.DataFrame:
    """The median time of each launch over the steps, where every step has as many of its kind."""
    launches = plain.launches
    rows = _keyed(launches[launches["kernel"].notna() & (launches["step"] >= 0)])
    steps = rows.groupby(_KEY)["duration"].agg(["median", "size"]).reset_index()
    whole = steps[steps["size"] == plain.step_count]
    kinds = steps.groupby(_KEY[:-1])["size"].transform("min")
    even = whole[kinds.loc[whole.index] == plain.step_count]
    return even.rename(columns={"median": "time"})[[*_KEY, "time"]]


def _sizes(times: pd.DataFrame) -> pd.DataFrame:
    return times.groupby(_KEY[:-1]).size().rename("size").reset_index()


def _told(counted: Profile, share: float) -> dict[str, object]:
    how = dict(counted.run.get("how") or {})
    how["time"] = (
        f"from a run without counters for {percent(share)} of the time under counters; "
        "the rest as the counters gave it"
    )
    return {**counted.run, "how": how, "times_joined": share}
