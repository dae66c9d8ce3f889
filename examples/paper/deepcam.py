"""Reproduce the tables of "Hierarchical Roofline Performance Analysis for Deep Learning Applications".

Run it with: python examples/paper/deepcam.py FOLDER [--convention authors|corrected]

FOLDER holds the raw Nsight Compute files of the authors (arXiv 2009.05257), one folder per configuration, one metric
per file; README.md beside this script says where they come from. The authors' convention gives their numbers, the
corrected one those that follow from the same counters without the known errors; README.md lists the differences.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hroof.errors import HroofError, ProfileError
from hroof.kernels import display_name, family
from hroof.readers import ncu_csv
from hroof.units import number, percent, si

CYCLES, RATE = "sm__cycles_elapsed.avg", "sm__cycles_elapsed.avg.per_second"
TENSOR = "sm__inst_executed_pipe_tensor.sum"
LEVELS = {"l1": "l1tex__t_bytes.sum", "l2": "lts__t_bytes.sum", "dram": "dram__bytes.sum"}
HALF = tuple(
    f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("hadd", "hmul", "hfma")
)
SINGLE = tuple(name.replace("_op_h", "_op_f") for name in HALF)
METRICS = (CYCLES, RATE, TENSOR, *LEVELS.values(), *HALF, *SINGLE)

FLOP_PER_TENSOR_INSTRUCTION = 512
"""One HMMA.884 of a warp on Volta is 8 × 8 × 4 fused multiply-adds; right for no other chip."""
LAUNCH_COST = 4.2e-6
"""Seconds per launch that the authors assume in arXiv 2009.04598."""


@dataclass(frozen=True)
class Convention:
    """How counters become time, FLOP and rates.

    Attributes:
        name: As the command line calls it.
        giga: What the printed GFLOP/s are divided by.
        half: FLOP per counted half-precision add, multiply and fused multiply-add instruction.
        by_launch: Time and zero-AI by launch where the files allow it; else by kernel name.
    """

    name: str
    giga: float
    half: tuple[int, int, int]
    by_launch: bool


AUTHORS = Convention("authors", 1024.0**3, (1, 1, 2), by_launch=False)
# A half-precision instruction is packed: it works on two values at once.
CORRECTED = Convention("corrected", 1e9, (2, 2, 4), by_launch=True)
CONVENTIONS = {each.name: each for each in (AUTHORS, CORRECTED)}


# --- reading --------------------------------------------------------------------------------------


def configurations(folder: Path) -> dict[str, list[Path]]:
    """The files of each configuration below a folder; a job number at the end of its name is left out.

    Raises:
        ProfileError: There are none.
    """
    found = {}
    for path in sorted(p for p in (folder, *folder.glob("*")) if p.is_dir()):
        files = sorted(p for p in path.iterdir() if p.is_file() and ncu_csv.looks_like(p))
        if files:
            found[re.sub(r"-\d{4,}$", "", path.name)] = files
    if not found:
        raise ProfileError(
            f"{folder} holds no folder with output of Nsight Compute.",
            "Give the folder that holds one folder per configuration, such as PT-fp32-O1-Adam-fw.",
        )
    return found


def read(files: Sequence[Path]) -> pd.DataFrame:
    """The counters of one configuration: by launch, or by kernel name where the files differ in launch order.

    Returns:
        ``kernel``, ``launches`` and the metrics: sums, and for the rate the mean.
    """
    raw = ncu_csv.read(files)
    return pd.concat([raw.launches[["kernel", "launches"]], checked(raw.counters, files)], axis=1)


def checked(counters: pd.DataFrame, files: Sequence[Path]) -> pd.DataFrame:
    """The twelve metrics.

    Raises:
        ProfileError: One is absent.
    """
    absent = [name for name in METRICS if name not in counters]
    if absent:
        raise ProfileError(
            f"{files[0].parent} has no values of {', '.join(absent)}.",
            "Give all twelve files of the configuration.",
        )
    return counters[list(METRICS)]


def backward(forward: Sequence[Path], both: Sequence[Path]) -> pd.DataFrame:
    """TensorFlow's backward: of each kernel name the last launches of "fwbw" that "fw" does not have.

    Each metric is of another run with another launch order, so each file is cut by itself.

    Returns:
        As ``read``, a row per kernel name.
    """
    count = ncu_csv.read(forward[:1]).launches["kernel"].value_counts()
    parts: list[pd.DataFrame] = []
    for path in both:
        raw = ncu_csv.read([path])
        kernels = raw.launches["kernel"].astype(str)
        from_end = kernels.groupby(kernels).cumcount(ascending=False)
        here = kernels.map(kernels.value_counts()) - kernels.map(count).fillna(0)
        kept = raw.counters[from_end < here]
        names = kernels[from_end < here]
        by_name = kept.groupby(names)
        metric = kept.columns[0]
        part = by_name.mean() if metric == RATE else by_name.sum()
        parts.append(part.assign(launches=by_name.size().astype(float)))
    joined = pd.concat([part.drop(columns="launches") for part in parts], axis=1)
    if any(not part["launches"].equals(parts[0]["launches"]) for part in parts):
        raise ProfileError(
            f"The files of {both[0].parent} count different launches of the same kernel.",
            "Give files of one deterministic program.",
        )
    table = checked(joined, both).assign(launches=parts[0]["launches"])
    return table.rename_axis("kernel").reset_index()


def load(folder: Path) -> dict[str, pd.DataFrame]:
    """Every configuration below a folder, TensorFlow's backward included."""
    files = configurations(folder)
    tables = {name: read(paths) for name, paths in files.items()}
    for name in files:
        forward = name.replace("-fwbw-", "-fw-")
        if forward != name and forward in files:
            derived = name.replace("-fwbw-", "-bw-")
            tables[derived] = backward(files[forward], files[name])
    return tables


# --- counters → work ------------------------------------------------------------------------------


def work(rows: pd.DataFrame, convention: Convention) -> pd.DataFrame:
    """Time, FLOP and bytes of each row in base SI units, by name first where the convention says so.

    Returns:
        ``kernel``, ``launches``, ``time``, ``tensor``, ``fp32``, ``fp16``, ``flop``, ``l1``, ``l2``, ``dram``.
    """
    if not convention.by_launch:
        # Weighted, since a row may stand for several launches: the mean rate of all of them.
        weighted = rows.assign(**{RATE: rows[RATE] * rows["launches"]})
        rows = weighted.groupby("kernel", observed=True, sort=True).sum().reset_index()
        rows[RATE] /= rows["launches"]
    found = rows[["kernel", "launches"]].copy()
    found["time"] = rows[CYCLES] / rows[RATE]
    found["tensor"] = rows[TENSOR] * FLOP_PER_TENSOR_INSTRUCTION
    found["fp32"] = sum(rows[m] * n for m, n in zip(SINGLE, (1, 1, 2), strict=True))
    found["fp16"] = sum(rows[m] * n for m, n in zip(HALF, convention.half, strict=True))
    found["flop"] = found[["tensor", "fp32", "fp16"]].sum(axis=1)
    return found.assign(**{level: rows[metric] for level, metric in LEVELS.items()})


def by_name(found: pd.DataFrame) -> pd.DataFrame:
    """Sums per kernel name, most time first."""
    sums = found.groupby("kernel", observed=True).sum()
    return sums.sort_values("time", ascending=False, kind="stable")


def ratio(part: float, whole: float) -> float:
    """A quotient; NaN where there is nothing to divide by, such as a level without traffic."""
    return float(part / whole) if whole else float("nan")


def totals(found: pd.DataFrame) -> dict[str, float]:
    """One configuration in numbers, base SI units; "zero" is what executes no FLOP at all."""
    names, zero = by_name(found), found[found["flop"] == 0]
    summed = found[["launches", "time", "tensor", "fp32", "fp16", "flop", *LEVELS]].sum()
    return {
        "names": float(len(names)),
        "zero_names": float((names["flop"] == 0).sum()),
        "zero_launches": float(zero["launches"].sum()),
        "zero_time": float(zero["time"].sum()),
        **{key: float(value) for key, value in summed.items()},
        "rate": ratio(summed["flop"], summed["time"]),
        "best_rate": float((names["flop"] / names["time"]).max()),
        **{f"ai_{level}": ratio(summed["flop"], summed[level]) for level in LEVELS},
    }


# --- tables ---------------------------------------------------------------------------------------


def rate(value: float, convention: Convention) -> str:
    """FLOP/s as the convention prints it: the authors' "GFLOP/s" are 1024³ FLOP/s."""
    if convention.giga == 1e9:
        return si(value, "FLOP/s")
    return f"{value / convention.giga:.1f} GiFLOP/s"


def zero_ai(all_totals: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Launches without FLOP: how many, and how much of the time."""
    return pd.DataFrame(
        {
            name: {
                "zero-AI launches": f"{t['zero_launches']:.0f} / {t['launches']:.0f}",
                "of launches": percent(t["zero_launches"] / t["launches"]),
                "of time": percent(t["zero_time"] / t["time"], 2),
                "time": si(t["time"], "s"),
            }
            for name, t in all_totals.items()
        }
    ).T


def overview(all_totals: Mapping[str, Mapping[str, float]], convention: Convention) -> pd.DataFrame:
    """Totals per configuration."""
    return pd.DataFrame(
        {
            name: {
                "kernels": f"{t['names']:.0f}",
                "launches": f"{t['launches']:.0f}",
                "time": si(t["time"], "s", 5),
                "FLOP": si(t["flop"], "FLOP", 5),
                **{key: percent(t[key] / t["flop"], 2) for key in ("tensor", "fp32", "fp16")},
                "mean": rate(t["rate"], convention),
                "best kernel": rate(t["best_rate"], convention),
                "bytes L1 / L2 / HBM": " / ".join(si(t[level], "B", 4) for level in LEVELS),
                "AI L1 / L2 / HBM": " / ".join(number(t[f"ai_{lv}"], 4) for lv in LEVELS),
            }
            for name, t in all_totals.items()
        }
    ).T


def top_kernels(found: pd.DataFrame, convention: Convention, count: int = 5) -> pd.DataFrame:
    """The kernels that take most of the time."""
    names, time = by_name(found), found["time"].sum()
    return pd.DataFrame(
        [
            {
                "of time": percent(row["time"] / time),
                "launches": f"{row['launches']:.0f}",
                "rate": rate(row["flop"] / row["time"], convention),
                "Tensor Cores": "yes" if row["tensor"] > 0 else "no",
                "AI L1 / L2 / HBM": " / ".join(
                    number(ratio(row["flop"], row[level])) for level in LEVELS
                ),
                "family": str(family(str(name))),
                "kernel": display_name(str(name))[:70],
            }
            for name, row in names.head(count).iterrows()
        ]
    )


def families(found: pd.DataFrame) -> pd.DataFrame:
    """Time, launches and FLOP by family of kernels."""
    of_name = {name: str(family(str(name))) for name in found["kernel"].unique()}
    sums = found.groupby(found["kernel"].astype(str).map(of_name))[
        ["time", "launches", "flop"]
    ].sum()
    sums = sums.sort_values("time", ascending=False)
    return pd.DataFrame(
        {
            "of time": [percent(share) for share in sums["time"] / sums["time"].sum()],
            "launches": [f"{n:.0f}" for n in sums["launches"]],
            "FLOP": [si(value, "FLOP") for value in sums["flop"]],
        },
        index=sums.index.rename(None),
    )


def notes(all_totals: Mapping[str, Mapping[str, float]]) -> Iterable[str]:
    """Checks and comparisons between configurations, as sentences."""
    for name, t in all_totals.items():
        parts = [all_totals.get(name.replace("-fwbw-", f"-{part}-")) for part in ("fw", "bw")]
        if "-fwbw-" in name and parts[0] and parts[1]:
            flop, time = (
                sum(part[key] for part in parts if part) / t[key] - 1 for key in ("flop", "time")
            )
            yield (
                f"{name}: forward and derived backward together have {percent(flop, 4)} more FLOP "
                f"and take {percent(time, 3)} more time."
            )
        if name.endswith("-opt"):
            floor = t["launches"] * LAUNCH_COST
            yield (
                f"{name}: {t['launches']:.0f} launches of {si(LAUNCH_COST, 's')} are {si(floor, 's')}, "
                f"{percent(floor / t['time'], 0)} of its time."
            )
        faster = all_totals.get(name.replace("-O0-", "-O1-"))
        if "-O0-" in name and faster:
            yield (
                f"{name} → O1: {t['time'] / faster['time']:.2f} times as fast with "
                f"{faster['flop'] / t['flop']:.2f} times the FLOP."
            )


# --- the program ----------------------------------------------------------------------------------


def report(tables: Mapping[str, pd.DataFrame], convention: Convention) -> None:
    """Print every table."""
    found = {name: work(rows, convention) for name, rows in tables.items()}
    all_totals = {name: totals(each) for name, each in found.items()}
    print(f"Convention: {convention.name}\n")
    print(f"Launches without FLOP (zero-AI)\n{zero_ai(all_totals).to_string()}\n")
    print(f"Totals\n{overview(all_totals, convention).to_string()}\n")
    for name, each in found.items():
        print(f"{name}: top kernels\n{top_kernels(each, convention).to_string(index=False)}\n")
        print(f"{name}: families\n{families(each).to_string()}\n")
    for sentence in notes(all_totals):
        print(sentence)


def options(description: str | None) -> argparse.ArgumentParser:
    """What both scripts ask for."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="the authors' raw files")
    parser.add_argument("--convention", choices=CONVENTIONS, default=AUTHORS.name)
    return parser


def load_or_say(folder: Path | None) -> dict[str, pd.DataFrame] | int:
    """The configurations, or the exit status after one sentence about why there are none."""
    if folder is None:
        print(
            "Give the folder with the authors' raw DeepCAM files; "
            "README.md beside this script says where to get them.",
            file=sys.stderr,
        )
        return 2
    try:
        return load(folder)
    except HroofError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Read and print; returns the exit status."""
    chosen = options(__doc__).parse_args(arguments)
    tables = load_or_say(chosen.folder)
    if isinstance(tables, int):
        return tables
    report(tables, CONVENTIONS[chosen.convention])
    return 0


if __name__ == "__main__":
    sys.exit(main())
