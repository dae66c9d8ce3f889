"""Frames as marks: order, balance, names, threads, hooks that go again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from hroof.regions import Kind, Mark, listen, unlisten
from hroof_torch import annotate


class Heard:
    """A listener that writes down what it hears, with the thread."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.threads: list[int] = []

    def _note(self, event: str, what: Any) -> None:
        self.log.append((event, what))
        self.threads.append(threading.get_ident())

    def start(self, mark: Mark) -> Mark:
        self._note("start", mark)
        return mark

    def end(self, handle: Mark) -> None:
        self._note("end", handle)

    def push(self, mark: Mark) -> None:
        self._note("push", mark)

    def pop(self) -> None:
        self._note("pop", None)

    def names(self, event: str = "push") -> list[tuple[str, str]]:
        return [(what.name, what.phase) for kind, what in self.log if kind == event]

    def open(self) -> tuple[list[Mark], list[Mark]]:
        """Layers and phases that were begun and not ended."""
        layers: list[Mark] = []
        phases: list[Mark] = []
        for event, what in self.log:
            if event == "push":
                layers.append(what)
            elif event == "pop":
                layers.pop()
            elif event == "start":
                phases.append(what)
            else:
                phases.remove(what)
        return layers, phases


@pytest.fixture
def heard() -> Iterator[Heard]:
    listener = Heard()
    listen(listener)
    yield listener
    unlisten(listener)


@pytest.fixture
def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_a_training_step(heard: Heard, net: nn.Sequential) -> None:
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    with annotate(net):
        net(torch.ones(5, 3)).sum().backward()
        sgd.step()
    phases = [(event, what.name) for event, what in heard.log if event in ("start", "end")]
    expected = ["forward", "backward", "optimizer"]
    assert phases == [(event, name) for name in expected for event in ("start", "end")]
    assert {what.kind for event, what in heard.log if event == "start"} == {Kind.PHASE}
    forward = [("Sequential", "forward"), ("0", "forward"), ("1", "forward"), ("2", "forward")]
    assert heard.names()[:4] == forward
    backward = [name for name, phase in heard.names() if phase == "backward"]
    assert backward[0] == "2" and set(backward) == {"0", "1", "2"}
    assert heard.open() == ([], [])


def test_a_loss_module_is_the_phase_loss(heard: Heard, net: nn.Sequential) -> None:
    with annotate(net):
        nn.MSELoss()(net(torch.ones(5, 3)), torch.zeros(5, 2)).backward()
    assert heard.names("start") == [("forward", ""), ("loss", ""), ("backward", "")]
    assert ("MSELoss", "loss") in heard.names()


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_an_exception_ends_what_is_open(heard: Heard, net: nn.Sequential, where: str) -> None:
    def fail(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with annotate(net), pytest.raises(KeyboardInterrupt):
        if where == "forward":
            net[1].register_forward_hook(fail)
        else:
            net[1].register_full_backward_hook(fail)
        net(torch.ones(5, 3, requires_grad=True)).sum().backward()
    assert heard.open() == ([], [])


def test_hooks_of_nodes_go_again(heard: Heard, net: nn.Sequential) -> None:
    output = net(torch.ones(5, 3))
    with annotate(net):
        loss = net(torch.ones(5, 3)).sum()
        loss.backward(retain_graph=True)
        once = len(heard.log)
        loss.backward(retain_graph=True)
        assert len(heard.log) - once < once, "hooks do not pile up"
    after = len(heard.log)
    loss.backward()
    output.sum().backward()
    assert len(heard.log) == after


def test_accumulation_nodes_do_not_gather_hooks(heard: Heard, net: nn.Sequential) -> None:
    """They outlive the step."""
    counts = []
    with annotate(net):
        for _ in range(4):
            before = len(heard.log)
            net(torch.ones(5, 3)).sum().backward()
            counts.append(len(heard.log) - before)
    assert len(set(counts)) == 1


def test_backward_is_marked_on_its_own_thread(heard: Heard, net: nn.Sequential) -> None:
    with annotate(net):
        loss = net(torch.ones(5, 3)).sum()
        begun = len(heard.log)
        worker = threading.Thread(target=loss.backward)
        worker.start()
        worker.join()
    assert {*heard.threads[begun:]} == {*heard.threads} - {threading.get_ident()}
    assert {name for name, phase in heard.names() if phase == "backward"} == {"0", "1", "2"}
    assert heard.open() == ([], [])


def test_marks_are_made_once_per_layer(heard: Heard, net: nn.Sequential) -> None:
    with annotate(net):
        for _ in range(3):
            net(torch.ones(5, 3)).sum().backward()
    backward = [what for event, what in heard.log if event == "push" and what.phase == "backward"]
    assert len({id(mark) for mark in backward}) == 3


def test_annotations_overlap(heard: Heard, net: nn.Sequential) -> None:
    call, other = nn.Module.__call__, nn.Sequential(nn.Linear(3, 3))
    first, second = annotate(net), annotate(other)
    net(torch.ones(1, 3))
    first.remove()
    first.remove()
    other(torch.ones(1, 3))
    assert nn.Module.__call__ is not call
    second.remove()
    assert nn.Module.__call__ is call
    assert {name for name, _ in heard.names()} >= {"Sequential", "Sequential#2", "Sequential#2.0"}
    heard.log.clear()
    net(torch.ones(1, 3))
    assert heard.log == []


def test_nobody_listens(net: nn.Sequential) -> None:
    with annotate(net):
        net(torch.ones(5, 3)).sum().backward()


def test_losses_and_sums_are_not_marked_unless_asked_for(heard: Heard, net: nn.Sequential) -> None:
    with annotate(net):
        (net(torch.ones(5, 3)) * 2).sum().backward()
    assert "(loss)" not in {name for name, _ in heard.names()}
