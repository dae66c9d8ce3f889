"""Watching a program that ``hroof run`` started: which region opens, when, and what is left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from hroof.integration import Stage, StepSink
from hroof.regions import Outcome, Region, Status
from hroof_torch.startup import Watch
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Tracker

ORIGINAL_CALL = nn.Module.__call__
optimizer_module = __import__("torch.optim.optimizer", fromlist=["x"])


class FakeCapture:
    """Attaches a real tracker where the real capture does, and notes the stages."""

    def __init__(self, region: StepSink) -> None:
        self.region = region
        self.stages: list[Stage] = []
        self.frames = 0
        self._tracker = Tracker(LayerMap(), hears_steps=False)
        self._hook: Any = optimizer_module.register_optimizer_step_post_hook(self._after)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._tracker.step_ended(optimizer)
        self.region.boundary()

    def stage(self, stage: Stage) -> None:
        self.stages.append(stage)
        if stage is Stage.DONE:
            self._tracker.detach()
        else:
            self._tracker.attach(self)

    def enter(self, frame: Any, args: Any, kwargs: Any) -> None:
        self.frames += 1

    def leave(self, frame: Any, output: Any) -> None:
        pass

    def step_ended(self, number: int) -> None:
        pass

    def profile(self) -> Any:
        return None

    def flush(self) -> None:
        pass

    def release(self) -> None:
        self._hook.remove()

    def seen(self) -> str:
        return ""


class Begin:
    """Makes regions, and keeps them and what they ended with."""

    def __init__(self, skip: int, steps: int) -> None:
        self.skip, self.steps = skip, steps
        self.regions: list[Region] = []
        self.ended: list[Region] = []

    def __call__(self) -> Region:
        region = Region(skip=self.skip, steps=self.steps, on_end=self._end)
        self.regions.append(region)
        return region

    def _end(self, region: Region, outcome: Outcome) -> None:
        self.ended.append(region)

    @property
    def region(self) -> Region:
        return self.regions[-1]

    def stages(self, number: int = -1) -> list[Stage]:
        capture = self.regions[number]._capture
        assert isinstance(capture, FakeCapture)
        return capture.stages


Start = Callable[..., Begin]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Begin to watch this process; afterwards nothing may be left."""
    monkeypatch.setattr("hroof.regions.region._opening", [])
    monkeypatch.setattr(Region, "_begin_capture", lambda region: FakeCapture(region))
    watches: list[Watch] = []

    def begin(skip: int = 2, steps: int = 2) -> Begin:
        made = Begin(skip, steps)
        watches.append(Watch(made))
        watches[-1].start()
        return made

    yield begin
    for watch in watches:
        watch._retire()
    assert_clean()


def assert_clean() -> None:
    assert nn.Module.__call__ is ORIGINAL_CALL
    assert not optimizer_module._global_optimizer_pre_hooks
    assert not optimizer_module._global_optimizer_post_hooks


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).sum()


class Loop:
    """One model and its optimizer."""

    def __init__(self) -> None:
        self.net = Net()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, steps: int, *, forwards: int = 1) -> None:
        for _ in range(steps):
            for _ in range(forwards):
                self.net(torch.ones(2, 3)).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def infer(self, calls: int) -> None:
        with torch.no_grad():
            for _ in range(calls):
                self.net(torch.ones(2, 3))


@pytest.fixture
def loop() -> Loop:
    """A fresh model."""
    return Loop()


WHOLE = [Stage.COUNT, Stage.TIME, Stage.DONE]


# --- training -----------------------------------------------------------------------------------


def test_the_first_optimizer_step_opens_the_region_and_counts_as_skipped(
    start: Start, loop: Loop
) -> None:
    begin = start(skip=2, steps=2)
    loop.train(1)
    assert begin.region.finished_steps == 1
    assert begin.stages() == []
    loop.train(1)
    assert begin.stages() == [Stage.COUNT]
    loop.train(3)
    assert begin.stages() == WHOLE
    assert begin.ended == [begin.region]


def test_after_the_first_optimizer_step_module_calls_are_free(start: Start, loop: Loop) -> None:
    start()
    assert nn.Module.__call__ is not ORIGINAL_CALL
    loop.train(1)
    assert nn.Module.__call__ is ORIGINAL_CALL
    assert not optimizer_module._global_optimizer_pre_hooks


def test_a_first_step_cannot_be_measured_even_when_none_is_to_be_skipped(
    start: Start, loop: Loop
) -> None:
    begin = start(skip=0, steps=1)
    loop.train(1)
    assert begin.region.skip == 1
    assert begin.stages() == [Stage.COUNT]
    loop.train(2)
    assert begin.stages() == WHOLE


def test_gradient_accumulation_is_no_inference(start: Start, loop: Loop) -> None:
    """So many forwards before the first step that an inference region is complete by then."""
    begin = start(skip=0, steps=1)
    loop.train(4, forwards=5)
    inference, training = begin.regions
    assert begin.ended == [inference, training]
    assert inference.on_end is None  # dropped
    assert training.finished_steps == 4
    assert begin.stages() == WHOLE


@pytest.mark.parametrize("forwards", [1, 2, 3])
def test_an_inference_region_is_dropped_whatever_its_stage(
    start: Start, loop: Loop, forwards: int
) -> None:
    begin = start(skip=0, steps=5)
    loop.train(1, forwards=forwards)
    inference, training = begin.regions
    assert inference.stage is Stage.DONE
    assert begin.ended == []
    assert training.finished_steps == 1


def test_only_module_calls_of_training_are_seen_once(start: Start, loop: Loop) -> None:
    begin = start(skip=1, steps=1)
    loop.train(2)
    capture = begin.region._capture
    assert isinstance(capture, FakeCapture)
    # Step 2 is counted: Net, Sequential, Linear, ReLU, one backward pass, one optimizer step.
    assert capture.frames == 6


@pytest.mark.parametrize("forwards", [1, 3])
def test_hooks_of_the_program_behind_ours_are_left_alone(
    start: Start, loop: Loop, forwards: int
) -> None:
    begin = start(skip=1, steps=1)
    seen: list[Any] = []
    hook = register_optimizer_step_pre_hook(lambda *given: seen.append(given))
    try:
        loop.train(5, forwards=forwards)
    finally:
        hook.remove()
    assert len(seen) == 5
    assert begin.region.on_end is not None
    assert begin.stages() == WHOLE


def test_a_hook_registered_in_the_middle_of_a_capture_defers_the_change(
    start: Start, loop: Loop
) -> None:
    begin = start(skip=0, steps=50)
    loop.infer(3)
    seen: list[Any] = []
    hook = register_optimizer_step_pre_hook(lambda *given: seen.append(given))
    try:
        loop.infer(1)
        hook.remove()
        hook = register_optimizer_step_pre_hook(lambda *given: seen.append(given))
        loop.optimizer.step()
        assert len(begin.regions) == 1
        loop.infer(1)
        assert len(begin.regions) == 2
        assert begin.region.finished_steps == 1
        loop.optimizer.step()
        assert begin.region.finished_steps == 2
    finally:
        hook.remove()
    assert len(seen) == 2


def test_a_closure_that_calls_the_model_inside_the_step(start: Start, loop: Loop) -> None:
    begin = start(skip=1, steps=1)
    net = loop.net
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.01, max_iter=2)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(2, 3))
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    assert begin.stages() == WHOLE


# --- inference ----------------------------------------------------------------------------------


def test_calls_of_the_first_model_are_steps(start: Start, loop: Loop) -> None:
    begin = start(skip=2, steps=2)
    loop.infer(2)
    assert begin.stages() == [Stage.COUNT]
    Net()(torch.ones(2, 3))  # another model: its calls run within the steps of the first
    assert begin.region.finished_steps == 2


def test_an_inference_schedule_runs_to_its_end_and_leaves_nothing(start: Start, loop: Loop) -> None:
    begin = start(skip=1, steps=2)
    loop.infer(3)
    assert begin.stages() == [Stage.COUNT, Stage.TIME]
    loop.infer(1)
    assert begin.stages() == WHOLE
    assert begin.ended == [begin.region]
    assert nn.Module.__call__ is ORIGINAL_CALL


def test_without_skipping_the_very_first_call_is_counted(start: Start, loop: Loop) -> None:
    begin = start(skip=0, steps=1)
    loop.infer(2)
    capture = begin.region._capture
    assert isinstance(capture, FakeCapture)
    assert begin.stages() == WHOLE
    assert capture.frames == 8


def test_modules_without_parameters_are_no_model(start: Start, loop: Loop) -> None:
    begin = start()
    for _ in range(3):
        nn.ReLU()(torch.ones(2))
    assert begin.regions == []
    loop.infer(1)
    assert begin.region.finished_steps == 1


def test_a_call_that_raises_is_no_step(start: Start, loop: Loop) -> None:
    begin = start(skip=0, steps=5)
    with pytest.raises(RuntimeError, match="shapes"):
        loop.net(torch.ones(2, 5))
    assert begin.region.finished_steps == 0
    loop.infer(1)
    assert begin.region.finished_steps == 1


def test_training_after_inference_takes_over(start: Start, loop: Loop) -> None:
    begin = start(skip=1, steps=1)
    loop.infer(10)
    assert begin.stages() == WHOLE
    loop.train(4)
    assert len(begin.regions) == 2
    assert begin.regions[0].on_end is None
    assert begin.stages() == WHOLE


def test_the_same_numbers_come_out(start: Start, loop: Loop) -> None:
    expected = loop.net(torch.ones(2, 3))
    start(skip=0, steps=1)
    assert all(torch.equal(loop.net(torch.ones(2, 3)), expected) for _ in range(4))


# --- the program's own region -------------------------------------------------------------------


def test_a_region_of_the_program_before_everything(start: Start, loop: Loop) -> None:
    begin = start()
    with Region(skip=1, steps=1) as own:
        loop.train(4)
    assert begin.regions == []
    assert own.stage is Stage.DONE
    loop.train(3)
    assert begin.regions == []


@pytest.mark.parametrize("before", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", ["train", "infer"])
def test_what_was_opened_here_steps_aside(start: Start, loop: Loop, before: int, kind: str) -> None:
    begin = start(skip=1, steps=2)
    getattr(loop, kind)(before)
    with Region(skip=1, steps=1) as own:
        loop.train(4)
    assert own._capture is not None and own._capture.stages == WHOLE  # type: ignore[attr-defined]
    assert own.outcome.status is not Status.MARKS
    assert {region.on_end for region in begin.regions} == {None}
    assert begin.region.stage is Stage.DONE


def test_a_second_region_of_the_program_is_as_usual(start: Start, loop: Loop) -> None:
    start()
    for _ in range(2):
        with Region(skip=0, steps=1) as own:
            loop.train(3)
        assert own._capture is not None and own._capture.stages == WHOLE  # type: ignore[attr-defined]


# --- odd programs -------------------------------------------------------------------------------


def test_a_fault_of_hroof_ends_the_watching_with_one_line(
    start: Start, loop: Loop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = start()
    monkeypatch.setattr(Begin, "__call__", lambda self: 1 / 0)
    loop.infer(3)
    loop.train(2)
    assert capsys.readouterr().err.count("hroof:") == 1
    assert begin.regions == []


def test_somebody_else_wraps_module_calls(
    start: Start, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = start(skip=1, steps=1)
    below = nn.Module.__call__
    monkeypatch.setattr(nn.Module, "__call__", lambda module, *given: below(module, *given))
    loop.infer(3)
    assert begin.regions == []
    loop.train(4)
    assert begin.stages() == WHOLE
    monkeypatch.undo()
    nn.Module.__call__ = ORIGINAL_CALL


def test_a_forked_child_does_not_measure(start: Start, loop: Loop) -> None:
    begin = start(skip=1, steps=1)
    loop.train(1)
    pid = os.fork()
    if pid == 0:
        try:
            loop.train(5)
            quiet = begin.region.stage is Stage.DONE and not begin.ended
            os._exit(0 if quiet else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    loop.train(3)
    assert begin.ended == [begin.region]


@pytest.mark.parametrize("after_compile", [False, True])
def test_torch_compile_makes_the_same_graphs(start: Start, loop: Loop, after_compile: bool) -> None:
    """With the wrapper on and after it has gone, dynamo sees what it would see without."""
    graphs: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph.code)
        return graph.forward

    def compiled(steps: int) -> list[str]:
        torch._dynamo.reset()
        graphs.clear()
        net = torch.compile(Net(), backend=backend)
        for _ in range(steps):
            net(torch.ones(2, 3)).backward()
        return list(graphs)

    expected = compiled(2)
    start(skip=50, steps=1)
    if after_compile:
        loop.train(1)
    assert compiled(3) == expected
    loop.train(1)
    assert compiled(3) == expected
