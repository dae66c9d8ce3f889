"""Counting where compiled code runs: the step is replayed beside the run, on fake tensors."""

from __future__ import annotations

from typing import Any

from hroof.attribution import Counted, Timed
from hroof_torch.tracker import Frame, Tracker


class CompiledStep:
    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        pass

    def leave(self, frame: Frame, output: Any) -> None:
        pass

    def result(self) -> list[Counted]:
        return []

    def warnings(self) -> list[str]:
        return []


def fold_regions(ops: list[Timed], counted: list[Counted]) -> None:
    pass
