"""The checker: a region around a part of a test, and its result held against a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hroof
from hroof.budgets import Budget, Check, Verdict, check, summary
from hroof.errors import HroofError, MissingError, UsageError
from hroof.regions import Status

if TYPE_CHECKING:
    from types import TracebackType

    from hroof.machine import Machine
    from hroof.profile import Profile

FRAMEWORKS = ("torch", "keras", "tensorflow", "jax")
"""What could train; where none is installed a test is skipped."""
WIDTH = 110


@dataclass(frozen=True)
class Checker:
    """Opens checked regions in one test.

    Attributes:
        item: The test.
        folders: Where relative paths are looked for, in this order.
        temporary: Makes the folders that runs are saved in.
    """

    item: pytest.Item
    folders: Sequence[Path]
    temporary: pytest.TempPathFactory

    def __call__(
        self,
        budget: str | Path | Mapping[str, Any],
        *,
        skip: int = 5,
        steps: int = 3,
        strict: bool = False,
        baseline: str | Path | None = None,
        framework: str | None = None,
    ) -> CheckedRegion:
        """A context manager: what is trained in it is measured, then held against a budget.

        Args:
            budget: A TOML file, or a mapping such as ``{"step": {"launches": {"max": 40}}}``.
            skip: Steps to let pass first.
            steps: Steps to time; one more is counted before.
            strict: A time that misses its limit by noise only is over budget as well.
            baseline: Folder of the run that ``rise`` and ``fall`` are held against.
            framework: See ``hroof.region``.

        Raises:
            HroofError: The budget is wrong, or the baseline is no run.
        """
        limits = self._budget(budget)
        if limits.relative and baseline is None:
            raise UsageError(
                f"{limits.name} holds limits relative to a baseline (rise, fall).",
                "Give the run with baseline=…, or write max and min.",
            )
        before = None if baseline is None else self._found(baseline)
        run = hroof.region(
            self.item.name,
            skip=skip,
            steps=steps,
            out=self.temporary.mktemp("hroof") / "run",
            show=False,
            framework=framework,
        )
        return CheckedRegion(self.item, run, limits, before, strict)

    def _budget(self, budget: str | Path | Mapping[str, Any]) -> Budget:
        if isinstance(budget, Mapping):
            return Budget.read(budget, name="the budget of the test")
        return Budget.load(self._found(budget))

    def _found(self, path: str | Path) -> Path:
        """A path as it is, or the first of the folders that has it."""
        candidates = [folder / path for folder in self.folders]
        return next((one for one in candidates if one.exists()), candidates[0])


@dataclass
class CheckedRegion:
    """A region whose end is a check.

    Attributes:
        item: The test.
        run: The region.
        budget: Its limits.
        baseline: Folder of the run that ``rise`` and ``fall`` are held against, or None.
        strict: Noise is no excuse.
        found: What came out; None before the end.
    """

    item: pytest.Item
    run: hroof.Run
    budget: Budget
    baseline: Path | None = None
    strict: bool = False
    found: Check | None = None

    def __enter__(self) -> CheckedRegion:
        if not any(find_spec(name) for name in FRAMEWORKS):
            pytest.skip(f"hroof measures nothing: none of {', '.join(FRAMEWORKS)} is installed")
        self.run.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        self.run.__exit__(kind, error, trace)
        if error is None:
            self._judge()

    def _judge(self) -> None:
        __tracebackhide__ = True
        self._skip_or_fail_without_steps()
        try:
            self.found = self._check(self.run.profile)
        except HroofError as error:
            pytest.fail(f"hroof: {error}", pytrace=False)
        text = self._text(self.found)
        if self.found.verdict is not Verdict.OK:
            pytest.fail(text, pytrace=False)
        self.item.add_report_section("call", "hroof", text)

    def _skip_or_fail_without_steps(self) -> None:
        __tracebackhide__ = True
        outcome = self.run.outcome
        if outcome.status is Status.OFF or self.run.only_marks:
            why = "a tool outside does (HROOF=marks)." if self.run.only_marks else outcome.reason
            pytest.skip(f"hroof measures nothing: {why}")
        if outcome.status is not Status.COMPLETE:
            reason = outcome.reason or "nothing was captured."
            pytest.fail(f"hroof: no whole run ({outcome.status}): {reason}", pytrace=False)

    def _check(self, profile: Profile) -> Check:
        from hroof.profile import Profile as Saved

        base = None if self.baseline is None else Saved.load(self.baseline)
        machine = self._machine() if self.budget.ceilings else None
        return check(
            profile,
            self.budget,
            machine=machine,
            baseline=base,
            baseline_machine=self._machine_of_baseline() or machine,
            strict=self.strict,
        )

    def _machine(self) -> Machine | None:
        """The ceilings of this machine, measured once and then cached; None where they cannot be."""
        try:
            return self.run.machine()
        except MissingError:
            return None

    def _machine_of_baseline(self) -> Machine | None:
        """The ceilings that lie beside the baseline, if any."""
        from hroof.results import saved_machine

        return None if self.baseline is None else saved_machine(self.baseline)

    def _text(self, found: Check) -> str:
        """The verdict in a line, which a short summary shows, then everything."""
        from hroof.report.checked.text import render
        from hroof.report.plain import visible

        said = summary(found)
        saved = f"Saved in {self.run.folder}\n" if self.run.folder is not None else ""
        first = visible(f"hroof: {said.text} {said.why}")
        return f"{first}\n{render(found, width=WIDTH, framed=False)}{saved}"
