"""Type-checked only, never run: a user's program as mypy sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import pandas as pd

import hroof
from hroof import integration
from hroof.errors import HroofError, UsageError
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile, flop_column
from hroof.regions import marks
from hroof.report.artists import Drawn
from hroof.report.notebook import Shown
from hroof.units import MemoryLevel, Pipe, Precision, parse, si


def a_users_program(batches: list[int], folder: Path) -> None:
    with hroof.region():
        for _ in batches:
            hroof.step()
    with hroof.region("train", skip=5, steps=3, out=folder, show=False) as run:
        assert_type(run, hroof.Run)
    assert_type(run.report(), Shown)
    text: str = run.report(folder / "report.html", by=("layer", "phase"), force=True)
    print(text)
    assert_type(run.layers, pd.DataFrame)
    assert_type(run.points("block,phase"), pd.DataFrame)
    assert_type(run.profile, hroof.Profile)
    assert_type(run.machine(), hroof.Machine | None)
    assert_type(run.folder, Path | None)
    hroof.region(skip="5")  # type: ignore[arg-type]


@hroof.region("validate")
def a_decorated_function(x: int) -> str:
    return str(x)


def a_decorator_keeps_the_signature() -> None:
    assert_type(a_decorated_function(1), str)
    a_decorated_function("1")  # type: ignore[arg-type]


def a_saved_run(folder: Path) -> None:
    saved = hroof.load(folder, machine=Machine("other"))
    assert_type(saved.report(by=("kernel",)), Shown)
    assert_type(saved.chart("time", by="phase", levels=("dram",)), Drawn)
    assert_type(saved.chart().save(folder / "a.png"), Path)
    saved.chart(by=3)  # type: ignore[arg-type]
    assert_type(saved.kernels, pd.DataFrame)
    assert_type(saved.machine(), Machine | None)
    saved.points(3)  # type: ignore[arg-type]


def profiles(folder: Path) -> None:
    profile = Profile.load(folder)
    assert_type(profile, Profile)
    assert_type(profile.launches, pd.DataFrame)
    assert_type(profile.run, dict[str, Any])
    assert_type(profile.step_count, int)
    assert_type(Profile.merge([profile, profile]).save(folder / "both", force=True), Path)
    assert_type(Profile.from_rows([{"op": "aten::mm", "duration": 1e-3}]), Profile)
    assert_type(flop_column("least", Pipe.MATRIX, Precision.BF16), str)


def machines(path: Path) -> None:
    machine = Machine.load(path)
    assert_type(
        machine.attainable(4.0, Pipe.MATRIX, Precision.FP32, MemoryLevel.DRAM), float | None
    )
    assert_type(machine.bandwidths[MemoryLevel.L2], Ceiling)
    assert_type(machine.launch_cost, Ceiling | None)
    Machine("chip", peaks={(Pipe.VECTOR, Precision.FP64): Ceiling(1e12, how="datasheet")})
    Ceiling(1e12, how="guessed")  # type: ignore[arg-type]


def quantities() -> None:
    assert_type(parse("1.5 GB"), float)
    assert_type(si(None, "B"), str)
    flop_column("official", Pipe.MATRIX, Precision.BF16)  # type: ignore[arg-type]


def errors(error: HroofError) -> None:
    assert_type(error.remedy, str)
    assert_type(UsageError("fact").exit_code, int)


def discovery() -> None:
    assert_type(integration.load("torch"), integration.Integration)
    assert_type(integration.load("torch").device("cpu"), integration.Device)


class Ear:
    """A listener by shape alone."""

    def start(self, mark: marks.Mark) -> int:
        return 0

    def end(self, handle: int) -> None: ...

    def push(self, mark: marks.Mark) -> None: ...

    def pop(self) -> None: ...


def listening() -> None:
    marks.listen(Ear())
    marks.listen(object())  # type: ignore[arg-type]
