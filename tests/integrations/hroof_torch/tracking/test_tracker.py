"""Where the program is: modules, backward passes, optimizer steps, exceptions, threads."""

from __future__ import annotations

import copy
import importlib
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hroof.units import Phase
from hroof_torch import private
from hroof_torch.tracking.layers import LayerMap, walk
from hroof_torch.tracking.tracker import Frame, Tracker

optimizer_module = importlib.import_module("torch.optim.optimizer")


class Noted:
    """An observer that writes down (event, phase, layer name, recompute)."""

    def __init__(self, layers: LayerMap) -> None:
        self._layers = layers
        self.log: list[tuple[str, str, str, bool]] = []

    def _note(self, event: str, frame: Frame) -> None:
        name = "" if frame.layer is None else self._layers.names()[frame.layer]
        self.log.append((event, str(frame.phase), name, frame.recompute))

    def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._note("+", frame)

    def leave(self, frame: Frame, output: Any) -> None:
        self._note("-", frame)

    def layers(self, phase: str = "forward") -> list[str]:
        return [name for event, in_phase, name, _ in self.log if event == "+" and in_phase == phase]


@pytest.fixture
def tracker() -> Iterator[Tracker]:
    made = Tracker(LayerMap())
    yield made
    made.detach()


@pytest.fixture
def noted(tracker: Tracker) -> Noted:
    observer = Noted(tracker.layers)
    tracker.attach(observer)
    return observer


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.ReLU())
        self.head = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def test_names_are_qualified_and_the_root_is_its_class(noted: Noted) -> None:
    Net()(torch.randn(3, 4))
    assert noted.layers() == ["Net", "body", "body.0", "body.1", "head"]


def test_a_training_step_has_its_phases(noted: Noted) -> None:
    net = Net()
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    nn.MSELoss()(net(torch.randn(3, 4)), torch.zeros(3, 2)).backward()
    sgd.step()
    outer = [
        (event, phase) for event, phase, name, _ in noted.log if name in ("", "Net", "MSELoss")
    ]
    phases = ["forward", "loss", "backward", "optimizer"]
    assert outer == [(event, phase) for phase in phases for event in "+-"]
    assert noted.layers("loss") == ["MSELoss"]


def test_every_enter_has_its_leave(noted: Noted, tracker: Tracker) -> None:
    net = Net()
    net(torch.randn(3, 4)).sum().backward()
    with pytest.raises(RuntimeError):
        net(torch.randn(3, 7))
    assert tracker.stack == []
    assert sum(event == "+" for event, *_ in noted.log) == sum(
        event == "-" for event, *_ in noted.log
    )


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_passes_and_the_stack_unwinds(
    noted: Noted, tracker: Tracker, error: type[BaseException]
) -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise error

    with pytest.raises(error):
        nn.Sequential(nn.Identity(), Fails())(torch.zeros(1))
    assert tracker.stack == []


def test_an_exception_in_backward_unwinds(noted: Noted, tracker: Tracker) -> None:
    x = torch.randn(3, requires_grad=True)
    y = x * 2

    def hook(grad: torch.Tensor) -> None:
        raise KeyboardInterrupt

    y.register_hook(hook)
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    assert tracker.stack == []


def test_an_optimizer_that_raises_is_unwound_by_what_follows(
    noted: Noted, tracker: Tracker
) -> None:
    class Broken(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            raise ValueError("no")

    net = Net()
    broken = Broken(net.parameters(), 0.1)
    with pytest.raises(ValueError, match="no"):
        broken.step()
    assert [frame.phase for frame in tracker.stack] == [Phase.OPTIMIZER]
    noted.log.clear()
    net(torch.randn(1, 4))
    assert noted.layers() == ["Net", "body", "body.0", "body.1", "head"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_modules_are_marked(noted: Noted, reentrant: bool) -> None:
    net = Net()
    x = torch.randn(3, 4, requires_grad=True)
    net.head(checkpoint(net.body, x, use_reentrant=reentrant)).sum().backward()
    recomputed = {name for event, phase, name, again in noted.log if again and phase == "backward"}
    assert "Sequential" in recomputed
    assert not any(again for _, phase, _, again in noted.log if phase == "forward")


def test_a_shared_module_is_named_by_the_place_it_is_called_from(noted: Noted) -> None:
    class Holder(nn.Module):
        def __init__(self, shared: nn.Module) -> None:
            super().__init__()
            self.inner = shared

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    shared = nn.Linear(4, 4)
    nn.Sequential(Holder(shared), Holder(shared))(torch.randn(1, 4))
    assert noted.layers() == ["Sequential", "0", "0.inner", "1", "1.inner"]


def test_wrappers_leave_no_trace_in_names(noted: Noted) -> None:
    nn.DataParallel(Net())(torch.randn(3, 4))
    assert [name for name in noted.layers() if name != "Net"] == [
        "body",
        "body.0",
        "body.1",
        "head",
    ]


def test_several_models_are_told_apart(noted: Noted) -> None:
    first, second = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))
    other = Net()
    for model, width in ((first, 2), (second, 2), (other, 4)):
        model(torch.randn(1, width))
    names = noted._layers.names()
    assert {"Sequential.0", "Sequential#2.0", "Net.head"} <= set(names)
    assert len(set(names)) == len(names)


def test_a_late_module_is_found(noted: Noted) -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not hasattr(self, "late"):
                self.late = nn.Linear(2, 2)
            return nn.Linear(2, 2)(self.late(self.first(x)))

    Late()(torch.randn(1, 2))
    assert noted.layers() == ["Late", "first", "late", "(Linear)"]


def test_the_transformer_fast_path_is_kept(tracker: Tracker) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        expected = layer(x)
        noted = Noted(tracker.layers)
        tracker.attach(noted)
        assert torch.equal(layer(x), expected)
    assert noted.layers() == ["TransformerEncoderLayer"]


def test_threads_have_stacks_of_their_own(tracker: Tracker, noted: Noted) -> None:
    net = Net()
    depths: list[int] = []

    def work() -> None:
        for _ in range(20):
            net(torch.randn(2, 4))
        depths.append(len(tracker.stack))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert depths == [0] * 4
    assert len(noted.layers()) == 4 * 20 * 5


def test_detaching_puts_everything_back() -> None:
    call, engine = nn.Module.__call__, private.engine_run_backward()
    pre = len(optimizer_module._global_optimizer_pre_hooks)
    tracker = Tracker(LayerMap())
    tracker.attach(Noted(tracker.layers))
    assert nn.Module.__call__ is not call
    tracker.detach()
    tracker.detach()
    assert nn.Module.__call__ is call
    assert private.engine_run_backward() is engine
    assert len(optimizer_module._global_optimizer_pre_hooks) == pre


def test_only_one_tracker_at_a_time(tracker: Tracker, noted: Noted) -> None:
    with pytest.raises(RuntimeError, match="attached"):
        Tracker(LayerMap()).attach(noted)


def test_models_stay_copyable_and_picklable(noted: Noted) -> None:
    net = Net()
    net(torch.randn(1, 4))
    twin = pickle.loads(pickle.dumps(net))
    clone = copy.deepcopy(net)
    assert torch.equal(twin.head.weight, clone.head.weight)
    assert vars(net).keys() == vars(Net()).keys()


def test_walk_gives_every_path_of_a_shared_module() -> None:
    shared = nn.Linear(2, 2)
    net = nn.ModuleDict({"a": nn.Sequential(shared), "b": shared})
    assert [path for module, path in walk(net) if module is shared] == ["a.0", "b"]
