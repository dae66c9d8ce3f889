"""Steps of Keras' loops and of the user's: how many, where they begin and end, and which are none."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")


from hroof.integration import Stage
from hroof.regions import Kind, Mark, Region, listen, unlisten
from hroof_keras import backends, executions
from hroof_keras.steps import Cycle, StepFinder
from tests.integrations.hroof_keras import tiny

CASES = os.environ.get("HROOF_CASES")


@pytest.fixture
def find() -> Iterator[Callable[..., tuple[tiny.Sink, StepFinder]]]:
    """A finder that listens, and what it tells; none afterwards."""
    found: list[StepFinder] = []

    def start(
        stage: Stage = Stage.TIME, sink: tiny.Sink | None = None
    ) -> tuple[tiny.Sink, StepFinder]:
        sink = tiny.Sink(stage) if sink is None else sink
        found.append(StepFinder(sink))
        found[-1].start()
        return sink, found[-1]

    yield start
    for one in found:
        one.stop()
    assert executions._listeners == ()


Find = Callable[..., tuple[tiny.Sink, StepFinder]]


def test_a_step_of_fit_is_what_lies_between_begin_and_end(find: Find) -> None:
    sink, _ = find()
    tiny.fit(tiny.model(), 2)
    assert sink.log == ["-", "+1", "-", "1", "+1", "-", "1"]


def test_validation_is_no_step(find: Find) -> None:
    sink, finder = find()
    tiny.fit(tiny.model(), 2, epochs=2, validation_data=tiny.data(3))
    assert sink.finished_steps == 4
    assert finder.executions == 4


def test_evaluate_alone_is_inference(find: Find) -> None:
    sink, _ = find()
    x, y = tiny.data(3)
    tiny.model().evaluate(x, y, batch_size=tiny.BATCH, verbose=0)
    assert sink.finished_steps == 3


def test_training_is_what_a_region_is_about_as_soon_as_there_is_any(find: Find) -> None:
    sink, finder = find(Stage.SKIP)
    made, (x, y) = tiny.model(), tiny.data(3)
    made.evaluate(x, y, batch_size=tiny.BATCH, verbose=0)
    tiny.fit(made, 2)
    made.predict(x, verbose=0)
    assert (sink.forgotten, sink.finished_steps, finder.executions) == (3, 2, 2)


def test_inference_that_is_captured_already_goes_on(find: Find) -> None:
    sink, _ = find(Stage.SKIP)
    made, (x, y) = tiny.model(), tiny.data(2)
    made.evaluate(x, y, batch_size=tiny.BATCH, verbose=0)
    sink.stage = Stage.TIME
    tiny.fit(made, 2)
    made.evaluate(x, y, batch_size=tiny.BATCH, verbose=0)
    assert (sink.forgotten, sink.finished_steps) == (0, 4)


def test_steps_at_once_are_told_at_once(find: Find) -> None:
    sink, finder = find()
    tiny.fit(tiny.model(steps_per_execution=3), 8)
    assert sink.log == ["-", "+3", "-", "3", "+3", "-", "3", "+2", "-", "2"]
    assert finder.at_once == 3
    assert finder.seen() == "It saw 3 executions of up to 3 steps (steps_per_execution)."


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_begin_without_an_end_is_no_step(find: Find) -> None:
    sink, _ = find()
    tiny.model(steps_per_execution=3).fit(tiny.generator(3), shuffle=False, verbose=0)
    assert sink.log == ["-", "+3", "-", "3", "+3", "-"]


def test_the_short_way_is_taken_while_steps_are_skipped(find: Find) -> None:
    sink, finder = find(Stage.SKIP)
    sink.passing = True
    tiny.fit(tiny.model(), 3)
    assert sink.log == ["-"]
    assert (sink.finished_steps, finder.executions) == (3, 3)


def test_a_loop_of_train_on_batch_has_no_gaps(find: Find) -> None:
    sink, _ = find()
    made, (x, y) = tiny.model(), tiny.data(1)
    for _ in range(3):
        made.train_on_batch(x, y)
    assert sink.log == ["+1", "1", "+1", "1", "+1", "1"]  # the first is told when the second begins


def test_two_models_of_one_loop_make_one_step(find: Find) -> None:
    sink, _ = find()
    one, other, (x, y) = tiny.model(), tiny.model(), tiny.data(1)
    for _ in range(4):
        one.train_on_batch(x, y)
        one.predict_on_batch(x)
        other.train_on_batch(x, y)
    assert sink.finished_steps == 4


def test_other_threads_train_models_of_their_own(find: Find) -> None:
    sink, _ = find()
    made = tiny.model()
    tiny.fit(made, 2)
    thread = threading.Thread(target=lambda: tiny.fit(tiny.model(), 3))
    thread.start()
    thread.join()
    assert sink.finished_steps == 2


def test_a_region_may_choose_whose_steps_it_takes(find: Find) -> None:
    class Choosy(tiny.Sink):
        def takes(self, kind: executions.Kind, source: Any) -> bool:
            return getattr(source, "_model", None) is mine

    mine, others = tiny.model(), tiny.model()
    sink, finder = find(sink=Choosy())
    tiny.fit(others, 3)
    tiny.fit(mine, 2)
    assert sink.finished_steps == 2
    assert finder.model is mine


def test_what_was_seen_in_words(find: Find) -> None:
    _, finder = find()
    assert finder.seen().startswith("It saw no execution of fit")
    assert finder.model is None
    tiny.fit(tiny.model(), 1)
    assert finder.seen() == "It saw 1 execution."


def test_a_model_is_not_kept_alive(find: Find) -> None:
    import gc

    _, finder = find()
    tiny.fit(tiny.model(), 1)
    gc.collect()
    assert finder.model is None


class Source:
    """A model or an optimizer."""


def test_a_cycle_of_one_is_known_when_it_comes_again() -> None:
    cycle, one = Cycle(), Source()
    told = [(cycle.begins(one), cycle.ends(one)) for _ in range(3)]
    assert told == [(False, False), (True, True), (False, True)]


def test_a_cycle_of_two_ends_with_the_second() -> None:
    cycle, one, other = Cycle(), Source(), Source()
    told = [(cycle.begins(source), cycle.ends(source)) for _ in range(3) for source in (one, other)]
    assert told == [
        (False, False), (False, False), (True, False), (False, True), (False, False), (False, True),
    ]  # fmt: skip


def test_who_no_longer_takes_part_is_not_waited_for() -> None:
    cycle, one, gone = Cycle(), Source(), Source()
    for source in (gone, one, gone, one):
        cycle.begins(source)
        cycle.ends(source)
    told = [(cycle.begins(one), cycle.ends(one)) for _ in range(5)]
    assert told[-1] == (False, True)


# --- with a real region ---------------------------------------------------------------------------


class Ranges:
    """Listens to marks: which steps were named, and whether each that began has ended."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.open = 0

    def start(self, mark: Mark) -> Mark:
        self.names += [mark.name] if mark.kind is Kind.STEP else []
        self.open += 1
        return mark

    def end(self, handle: Mark) -> None:
        self.open -= 1

    def push(self, mark: Mark) -> None:
        self.open += 1

    def pop(self) -> None:
        self.open -= 1


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ranges]:
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.setattr(backends, "capture", tiny.Capture)
    listener = Ranges()
    listen(listener)
    yield listener
    unlisten(listener)
    assert listener.open == 0


def region(skip: int, steps: int) -> Region:
    return Region("region", skip, steps, framework="keras")


def test_a_region_around_fit_needs_no_callback(ranges: Ranges) -> None:
    with region(1, 2) as measured:
        tiny.fit(tiny.model(), 2, epochs=3, validation_data=tiny.data(2))
    assert measured.outcome.status == "complete"
    assert ranges.names == ["1", "2", "3"]


def test_ranges_name_both_ends(ranges: Ranges) -> None:
    with region(3, 4):
        tiny.fit(tiny.model(steps_per_execution=3), 11)
    assert ranges.names == ["3-5", "6-8", "9-10"]


def test_a_program_that_tells_steps_itself_is_believed(ranges: Ranges) -> None:
    import hroof

    made, (x, y) = tiny.model(), tiny.data(1)
    with region(1, 1) as measured:
        for _ in range(4):
            made.train_on_batch(x, y)
            made.train_on_batch(x, y)
            hroof.step()
    assert measured.explicit
    assert ranges.names == ["1", "2"]


# --- the cases ------------------------------------------------------------------------------------


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    if not CASES:
        pytest.skip("HROOF_CASES names no folder of cases")
    (folder,) = Path(CASES).glob(f"{request.param}-*")
    spec = importlib.util.spec_from_file_location(f"case_{request.param}", folder / "input.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed", "ignore:Your input ran out")
@pytest.mark.parametrize("case", ["87"], indirect=True)
@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, 32),
        ({"batches": 20}, 20),
        ({"batches": 20, "generator": True}, 20),
        ({"epochs": 3}, 96),
    ],
)
def test_case_87_steps_are_real_ones(
    case: ModuleType, ranges: Ranges, options: dict[str, Any], steps: int
) -> None:
    with region(0, 1000) as measured:
        seen = case.run(**options)
    assert measured.finished_steps == steps
    assert seen["iterations"][-1] == steps


@pytest.mark.parametrize("case", ["89"], indirect=True)
@pytest.mark.parametrize(("eager", "fewest", "most"), [(False, 1, 4), (True, 12, 12)])
def test_case_89_tracing_is_no_step(
    case: ModuleType, ranges: Ranges, eager: bool, fewest: int, most: int
) -> None:
    with region(0, 1000) as measured:
        calls = case.run(eager)
    assert fewest <= calls <= most
    assert measured.finished_steps == 12
