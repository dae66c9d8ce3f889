"""Regions of Keras programs that only mark: what is heard, what is known afterwards, what is left attached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras

import hroof
import hroof_keras
from hroof.collect import tsl
from hroof.profile import Profile
from hroof.regions import Kind, Mark, Status, listen, only_marked, unlisten
from hroof_keras import executions
from hroof_keras.private import runtime as private
from hroof_keras.profiling.profiler import Session
from tests.integrations.hroof_keras import tiny

WRAPPED = (
    (keras.Operation, "__call__"),
    (keras.losses.Loss, "__call__"),
    (keras.callbacks.CallbackList, "on_train_batch_end"),
    *((kind, "apply") for kind in private.optimizer_classes()),
)


class Heard:
    """A listener that writes down what it hears: ``+name`` and ``-name`` of process-wide marks."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Mark | None]] = []

    def start(self, mark: Mark) -> Mark:
        self.log.append(("+", mark))
        return mark

    def end(self, handle: Mark) -> None:
        self.log.append(("-", handle))

    def push(self, mark: Mark) -> None:
        self.log.append(("push", mark))

    def pop(self) -> None:
        self.log.append(("pop", None))

    def spans(self, kind: Kind) -> list[str]:
        found = (pair for pair in self.log if pair[1] is not None and pair[1].kind is kind)
        return [f"{sign}{mark.name}" for sign, mark in found if mark is not None]

    def balanced(self) -> bool:
        signs = [sign for sign, _ in self.log]
        return signs.count("+") == signs.count("-") and signs.count("push") == signs.count("pop")


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Heard]:
    monkeypatch.setenv("HROOF", "marks")
    monkeypatch.delenv("HROOF_OUT", raising=False)
    monkeypatch.chdir(tmp_path)
    before = [vars(kind)[name] for kind, name in WRAPPED]
    listener = Heard()
    listen(listener)
    yield listener
    unlisten(listener)
    assert listener.balanced()
    assert executions._listeners == ()
    assert [vars(kind)[name] for kind, name in WRAPPED] == before


def profile(region: Any) -> Profile:
    found = region.outcome.profile
    assert found is not None, region.outcome
    assert only_marked(found)
    return found


def test_the_steps_right_after_the_skipped_ones_are_marked(heard: Heard) -> None:
    with hroof.region("mine", skip=2, steps=2) as region:
        tiny.fit(tiny.model(), 6)
    assert heard.spans(Kind.STEP) == ["+2", "-2", "+3", "-3"]
    run = profile(region).run
    assert [(step["number"], step["count"]) for step in run["steps"]] == [(2, 1), (3, 1)]
    assert all(step["wall"] is None and step["marked_wall"] > 0 for step in run["steps"])
    assert run["how"]["time"].startswith("marks only")
    assert region.outcome.status is Status.COMPLETE


def test_the_callback_marks_alike(heard: Heard) -> None:
    measured = hroof_keras.RooflineCallback(1, 2, show=False)
    tiny.fit(
        tiny.model(steps_per_execution=2), 9, callbacks=[measured], validation_data=tiny.data(1)
    )
    assert heard.spans(Kind.STEP) == ["+2-3", "-2-3"]
    assert heard.spans(Kind.REGION) == ["+tiny", "-tiny"]
    assert "only marked" in measured.report()


def test_no_profiler_of_tensorflows_runs(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: Session) -> None:
        raise AssertionError("a profiler was started beside a tool outside")

    monkeypatch.setattr(Session, "start", start)
    with hroof.region("mine", skip=1, steps=1) as region:
        tiny.fit(tiny.model(), 4)
    assert region.outcome.status is Status.COMPLETE


def test_what_the_nodes_serve_is_kept_for_the_reader(heard: Heard) -> None:
    with hroof.region("mine", skip=1, steps=1) as region:
        tiny.fit(tiny.model(jit_compile=False), 4)
    run = profile(region).run
    assert "only" in [layer["name"] for layer in run["layers"]]
    assert tsl.read(run["places"]) is not None
    assert "only" in str(run["places"])


def test_eager_steps_have_phases_and_layers(heard: Heard) -> None:
    with hroof.region("mine", skip=1, steps=1) as region:
        tiny.fit(tiny.model(run_eagerly=True), 4)
    phases = [span[1:] for span in heard.spans(Kind.PHASE) if span[0] == "+"]
    assert [name for name in phases if name != "other"][-3:] == ["loss", "backward", "optimizer"]
    assert {mark.name for sign, mark in heard.log if sign == "push" and mark is not None} >= {
        "only"
    }
    assert "only the phase is known" in " ".join(profile(region).run["warnings"])


def test_a_loop_of_the_users_own(heard: Heard) -> None:
    made, (x, y) = tiny.model(), tiny.data(1)
    with hroof.region("mine", skip=1, steps=2) as region:
        for _ in range(4):
            made.train_on_batch(x, y)
            hroof.step()
    assert heard.spans(Kind.STEP) == ["+1", "-1", "+2", "-2"]
    assert len(profile(region).run["steps"]) == 2


def test_a_region_that_is_cut_short_says_so(heard: Heard) -> None:
    with hroof.region("mine", skip=1, steps=5) as region:
        tiny.fit(tiny.model(), 3)
    assert region.outcome.status is Status.PARTIAL
    assert "Only 2 of 5 steps were marked to their end." in profile(region).run["warnings"]


def test_a_region_without_a_marked_step_has_nothing(heard: Heard) -> None:
    with hroof.region("mine", skip=5, steps=1) as region:
        tiny.fit(tiny.model(), 3)
    assert region.outcome.profile is None
    assert "needs 6 (5 skipped, 1 marked)" in region.outcome.reason


def test_an_error_of_the_programs_leaves_no_mark_open(heard: Heard) -> None:
    class Breaks(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 3:
                raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), hroof.region("mine", skip=1, steps=9):
        tiny.fit(tiny.model(), 6, callbacks=[Breaks()])
