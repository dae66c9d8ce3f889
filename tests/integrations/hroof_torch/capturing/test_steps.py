"""Where steps end, in loops of every kind."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from hroof_torch.capturing.steps import StepFinder

optimizer_module = importlib.import_module("torch.optim.optimizer")


class Sink:
    name, skip, steps = "test", 5, 3

    def __init__(self) -> None:
        self.heard: list[tuple[int, bool]] = []
        self.patience = 0
        self.passed = 0

    def let_pass(self) -> bool:
        said = self.passed < self.patience
        self.passed += said
        return said

    def boundary(
        self, *, count: int = 1, clean: bool = True, explicit: bool = False, at_once: bool = False
    ) -> None:
        assert not at_once, "optimizer steps come one by one"
        self.heard.append((count, clean))

    def pause(self) -> None:
        raise AssertionError("a loop of PyTorch has no pauses")

    def resume(self, count: int = 1) -> None:
        raise AssertionError("a loop of PyTorch has no pauses")

    def forget_steps(self) -> None:
        raise AssertionError("optimizer steps are never those of something else")

    @property
    def total(self) -> int:
        return sum(count for count, _ in self.heard)


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def finder(sink: Sink) -> Iterator[StepFinder]:
    found = StepFinder(sink)
    found.start(look_around=False)
    yield found
    found.stop()


def optimizer(rate: float = 0.1) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(3, 2)
    return model, torch.optim.SGD(model.parameters(), rate)


def backward(model: nn.Module) -> None:
    model(torch.randn(4, 3)).sum().backward()


def test_one_optimizer_ends_a_step_each_time(sink: Sink, finder: StepFinder) -> None:
    model, sgd = optimizer()
    for _ in range(6):
        backward(model)
        sgd.step()
    assert sink.heard == [(2, True), (1, True), (1, True), (1, True), (1, True)]
    assert finder.optimizer_steps == 6


def test_micro_batches_belong_to_one_step(sink: Sink, finder: StepFinder) -> None:
    model, sgd = optimizer()
    for batch in range(12):
        backward(model)
        if batch % 4 == 3:
            sgd.step()
            sgd.zero_grad()
    assert sink.total == 3


def test_two_optimizers_share_a_step(sink: Sink, finder: StepFinder) -> None:
    (critic, first), (generator, second) = optimizer(), optimizer()
    for _ in range(4):
        backward(critic)
        first.step()
        backward(generator)
        second.step()
    assert sink.total == 4
    assert sink.heard[-1] == (1, True)


def test_a_step_ends_at_the_last_of_its_optimizers(sink: Sink, finder: StepFinder) -> None:
    (critic, first), (generator, second) = optimizer(), optimizer()
    for _ in range(3):
        backward(critic)
        first.step()
        before = len(sink.heard)
        backward(generator)
        second.step()
    assert len(sink.heard) == before + 1


def test_an_optimizer_that_repeats_ends_a_step(sink: Sink, finder: StepFinder) -> None:
    (critic, first), (generator, second) = optimizer(), optimizer()
    for _ in range(4):
        for _ in range(3):
            backward(critic)
            first.step()
        backward(generator)
        second.step()
    assert sink.total >= 8
    assert any(clean for _, clean in sink.heard)


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the process holds; tests before this one may have left optimizers."""
    found: list[object] = []
    monkeypatch.setattr("hroof_torch.capturing.steps.gc.get_objects", lambda: found)
    return found


def test_looking_around_knows_the_optimizers_at_once(sink: Sink, alive: list[object]) -> None:
    (_, first), (_, second) = optimizer(), optimizer()
    alive += [first, "something else", second]
    finder = StepFinder(sink)
    finder.start(look_around=True)
    try:
        for _ in range(2):
            first.step()
            second.step()
    finally:
        finder.stop()
    assert sink.heard == [(1, True), (1, True)]


def test_an_optimizer_that_never_steps_is_forgotten(sink: Sink, alive: list[object]) -> None:
    model, used = optimizer()
    _, unused = optimizer()
    alive += [used, unused]
    finder = StepFinder(sink)
    finder.start(look_around=True)
    try:
        for _ in range(8):
            backward(model)
            used.step()
    finally:
        finder.stop()
    assert sink.total == 8
    assert sink.heard[-1] == (1, True)


def test_looking_around_finds_a_live_optimizer(sink: Sink) -> None:
    _, sgd = optimizer()
    finder = StepFinder(sink)
    finder.start(look_around=True)
    finder.stop()
    assert sgd in finder._last


def test_optimizers_that_step_inside_backward(sink: Sink, finder: StepFinder) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimizers = {parameter: torch.optim.SGD([parameter], 0.1) for parameter in model.parameters()}

    def step_now(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_now)
    for _ in range(5):
        backward(model)
    assert sink.total == 5
    assert finder.optimizer_steps == 20


@pytest.mark.parametrize(
    "make", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]
)
def test_every_kind_of_optimizer_is_heard(
    sink: Sink, finder: StepFinder, make: Callable[..., torch.optim.Optimizer]
) -> None:
    model = nn.Linear(3, 2)
    made = make(model.parameters())
    for _ in range(3):
        backward(model)
        made.step()
    assert sink.total == 3


def test_a_step_within_a_step_is_no_step_of_its_own(sink: Sink, finder: StepFinder) -> None:
    class Careful(torch.optim.SGD):
        def step(self, closure: None = None) -> None:
            super().step(closure)

    plain_model, plain = optimizer()  # from now on the hooks are in SGD.step too
    model = nn.Linear(3, 2)
    careful = Careful(model.parameters(), 0.1)
    for _ in range(4):
        backward(model)
        careful.step()
    assert finder.optimizer_steps == 4
    assert sink.total == 4
    assert plain and plain_model


def test_closures_of_lbfgs_are_one_step(sink: Sink, finder: StepFinder) -> None:
    model = nn.Linear(3, 2)
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        lbfgs.zero_grad()
        loss = model(torch.ones(4, 3)).pow(2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        lbfgs.step(closure)
    assert sink.total == 3


def test_nothing_is_heard_after_stop(sink: Sink) -> None:
    model, sgd = optimizer()
    finder = StepFinder(sink)
    finder.start(look_around=False)
    finder.stop()
    finder.stop()
    for _ in range(3):
        backward(model)
        sgd.step()
    assert sink.heard == []
    assert finder.optimizer_steps == 0


def test_no_hook_is_left_behind(sink: Sink) -> None:
    hooks = optimizer_module._global_optimizer_post_hooks
    before = len(hooks)
    finder = StepFinder(sink)
    finder.start(look_around=True)
    assert len(hooks) == before + 1
    finder.stop()
    assert len(hooks) == before


def test_an_optimizer_that_is_only_alive_is_not_waited_for_long(sink: Sink) -> None:
    """As one of an earlier cell of a notebook."""
    _, bystander = optimizer()
    model, ours = optimizer()
    finder = StepFinder(sink)
    finder.start(look_around=True)
    for _ in range(4):
        backward(model)
        ours.step()
    finder.stop()
    assert bystander.param_groups
    assert sink.heard == [(2, True), (1, True), (1, True)]


def test_the_only_optimizer_goes_the_short_way(sink: Sink, finder: StepFinder) -> None:
    sink.patience = 3
    model, sgd = optimizer()
    for _ in range(7):
        backward(model)
        sgd.step()
    assert sink.heard == [(2, True), (1, True), (1, True)]
    assert sink.passed == 3
    assert finder.optimizer_steps == 7


def test_a_second_optimizer_ends_the_short_way(sink: Sink, finder: StepFinder) -> None:
    sink.patience = 99
    (model, sgd), (other, late) = optimizer(), optimizer()
    for _ in range(4):
        backward(model)
        sgd.step()
    assert sink.passed == 2
    for _ in range(3):
        backward(model)
        backward(other)
        sgd.step()
        late.step()
    assert sink.total + sink.passed == 7


def test_another_thread_does_not_go_the_short_way(sink: Sink, finder: StepFinder) -> None:
    sink.patience = 99
    _, sgd = optimizer()
    for _ in range(3):
        sgd.step()
    elsewhere = threading.Thread(target=sgd.step)
    elsewhere.start()
    elsewhere.join()
    assert sink.passed == 1
    assert finder.optimizer_steps == 3


def test_an_optimizer_that_may_step_within_its_step_does_not_go_the_short_way(
    sink: Sink, finder: StepFinder
) -> None:
    class Twice(torch.optim.SGD):
        def step(self, closure: object = None) -> None:
            super().step()

    sink.patience = 99
    model = nn.Linear(3, 2)
    sgd = Twice(model.parameters(), 0.1)
    for _ in range(4):
        sgd.step()
    assert sink.passed == 0
    assert sink.total == 4


def test_a_stopped_finder_goes_no_way_at_all(sink: Sink, finder: StepFinder) -> None:
    sink.patience = 99
    _, sgd = optimizer()
    for _ in range(3):
        sgd.step()
    finder._calling = True  # as when other hooks wait behind it
    finder._after(sgd, (), {})
    finder.stop()
    finder._after(sgd, (), {})
    assert sink.passed == 2
