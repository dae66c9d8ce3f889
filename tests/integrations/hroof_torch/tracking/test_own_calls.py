"""Modules that bring their own ``__call__``: seen once per call, and put back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.own_calls import own_calls, wrap_own_calls
from hroof_torch.tracking.tracker import Frame, Tracker


class Alone(nn.Module):
    """Its call never reaches that of ``nn.Module``."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def __call__(self, x: Any) -> Any:
        """Not by way of ``forward``."""
        return self.linear(x) + 1


class Further(Alone):
    """Inherits the call."""


class Around(nn.Module):
    """Does something before and after the usual call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def __call__(self, x: Any) -> Any:
        """The usual way, between two steps of its own."""
        return super().__call__(x * 2) * 2

    def forward(self, x: Any) -> Any:
        return self.linear(x)


class Twice(Around):
    """A second call around the first."""

    def __call__(self, x: Any) -> Any:
        """Once more."""
        return super().__call__(x) - 1


@pytest.mark.parametrize("kind", [Alone, Further, Around, Twice])
def test_every_call_is_seen_once(kind: type[Any]) -> None:
    layers = LayerMap()
    tracker = Tracker(layers)
    log: list[tuple[str, int | None]] = []

    class Notes:
        def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            log.append(("+", frame.layer))

        def leave(self, frame: Frame, output: Any) -> None:
            log.append(("-", frame.layer))

    module = kind()
    model = nn.Sequential(module)
    x = torch.ones(2, 3)
    expected = model(x)
    tracker.attach(Notes())
    try:
        found = model(x)
    finally:
        tracker.detach()
    assert torch.equal(found, expected)
    names = layers.names()
    assert [(sign, names[layer]) for sign, layer in log if layer is not None] == [
        ("+", "Sequential"),
        ("+", "0"),
        ("+", "0.linear"),
        ("-", "0.linear"),
        ("-", "0"),
        ("-", "Sequential"),
    ]


def test_what_surrounds_the_usual_call_is_the_layers() -> None:
    from hroof_torch.capturing.counted import CountingStep

    tracker = Tracker(LayerMap())
    counting = CountingStep(tracker)
    model = nn.Sequential(Around())
    tracker.attach(counting)
    counting.start()
    try:
        model(torch.ones(2, 3)).sum().backward()
    finally:
        counting.stop()
        tracker.detach()
    names = tracker.layers.names()
    products = [op for op in counting.result() if op.op == "aten::mul"]
    # Forward before and after; the backward of the product after it (the input has no gradient).
    assert [(str(op.phase), names[op.layer]) for op in products if op.layer is not None] == [
        ("forward", "0"),
        ("forward", "0"),
        ("backward", "0"),
    ]


def test_classes_are_found_and_put_back() -> None:
    assert {Alone, Around, Twice} <= set(own_calls())
    assert not {Further, nn.Module, nn.Linear} & set(own_calls())
    before = {kind: vars(kind)["__call__"] for kind in (Alone, Around, Twice)}
    tracker = Tracker(LayerMap())
    tracker.attach()
    assert all(vars(kind)["__call__"] is not call for kind, call in before.items())
    tracker.detach()
    assert {kind: vars(kind)["__call__"] for kind in before} == before
    assert "__call__" not in vars(Further)


def test_traced_graphs_are_left_alone() -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    assert "__call__" in vars(type(traced)), "otherwise this tests nothing"
    assert type(traced) not in own_calls()


def test_what_is_wrapped_is_unwrapped() -> None:
    restore = wrap_own_calls([Alone], lambda original: lambda module, x: original(module, x) * 0)
    x = torch.ones(1, 3)
    assert not Alone()(x).any()
    restore()
    assert Alone()(x).any()
