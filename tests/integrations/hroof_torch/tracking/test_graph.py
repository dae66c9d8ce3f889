"""Autograd graphs: tags of nodes, sums of gradients, nodes made in backward."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hroof_torch import private
from hroof_torch.tracking.graph import (
    TAG,
    MadeInBackward,
    NodeTagger,
    Sums,
    node_layer,
    nodes_of,
    tensors_of,
)
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Tracker


@dataclass
class Box:
    y: Any


class Plain:
    def __init__(self, y: Any) -> None:
        self.y = y


X = torch.ones(2)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (X, 1),
        ((X, [X, None], 3), 2),
        ({"a": {"b": X}}, 1),
        (Box([X, X]), 2),
        (Plain(Box(X)), 1),
        (None, 0),
        ("text", 0),
        (nn.Linear(1, 1), 0),
        (Tensor, 0),
    ],
)
def test_tensors_are_found_in_any_output(value: Any, count: int) -> None:
    assert len(list(tensors_of(value))) == count


def test_an_object_that_holds_itself_ends() -> None:
    loop = Plain(X)
    loop.again = loop  # type: ignore[attr-defined]
    assert 1 <= len(list(tensors_of(loop))) <= 5


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.a(x)))


def tagged(call: Callable[[], Tensor]) -> tuple[Tensor, LayerMap]:
    """Run under a tracker that tags."""
    layers = LayerMap()
    tracker = Tracker(layers)
    tracker.attach(NodeTagger(layers))
    try:
        return call(), layers
    finally:
        tracker.detach()


def layers_by_node(output: Tensor, layers: LayerMap) -> dict[str, set[str]]:
    """Names of the layers of every kind of node."""
    names = layers.names()
    found: dict[str, set[str]] = {}
    for node in nodes_of(output):
        layer = node_layer(node, layers)
        found.setdefault(type(node).__name__, set()).add("" if layer is None else names[layer])
    return found


def test_nodes_have_the_layer_that_made_them() -> None:
    net = Net()
    output, layers = tagged(lambda: net(torch.ones(5, 3)).sum())
    assert layers_by_node(output, layers) == {
        "SumBackward0": {""},
        "AddmmBackward0": {"a", "b"},
        "TanhBackward0": {"Net"},
        "TBackward0": {"a", "b"},
        "AccumulateGrad": {"a", "b"},
    }


def test_what_was_made_before_the_module_is_not_its_own() -> None:
    net = Net()
    weight = torch.ones(3, 3, requires_grad=True)
    before = torch.ones(5, 3) @ weight
    output, layers = tagged(lambda: net(before.exp()))
    assert layers_by_node(output, layers)["ExpBackward0"] == {""}
    assert layers_by_node(output, layers)["MmBackward0"] == {""}


def test_tags_hold_in_every_thread() -> None:
    nets = Net(), Net()
    outputs: dict[int, list[Tensor]] = {0: [], 1: []}
    layers = LayerMap()
    tracker = Tracker(layers)
    tracker.attach(NodeTagger(layers))

    def work(number: int) -> None:
        for _ in range(20):
            outputs[number].append(nets[number](torch.ones(5, 3)))

    threads = [threading.Thread(target=work, args=(number,)) for number in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tracker.detach()
    assert len(layers.layers) == 6
    for number, net in enumerate(nets):
        expected = {layers.of_parameter(net.a.weight), layers.of_parameter(net.b.weight)}
        for output in outputs[number]:
            nodes = [n for n in nodes_of(output) if type(n).__name__ == "AddmmBackward0"]
            assert {node_layer(node, layers) for node in nodes} == expected


def test_an_exception_in_a_module_leaves_the_next_call_right() -> None:
    net = Net()

    def call() -> Tensor:
        with pytest.raises(RuntimeError):
            net(torch.ones(5, 7))
        return net(torch.ones(5, 3))

    output, layers = tagged(call)
    assert layers_by_node(output, layers)["AddmmBackward0"] == {"a", "b"}


def test_the_nodes_of_a_leaf_are_its_accumulation() -> None:
    leaf = torch.ones(2, requires_grad=True)
    assert [type(node).__name__ for node in nodes_of(leaf)] == ["AccumulateGrad"]
    assert list(nodes_of(torch.ones(2))) == []


# --- sums ---------------------------------------------------------------------------------------


def receivers(loss: Tensor) -> list[tuple[str, str]]:
    """(current node, receiver) of every op in backward that the engine adds gradients with."""
    sums = Sums(loss)
    found = []

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            node = private.current_autograd_node()
            if func.overloadpacket.__name__ in ("add", "add_") and node is not None:
                receiver = sums.receiver(node)
                name = "" if receiver is None else type(receiver).__name__
                found.append((type(node).__name__, name))
            return func(*args, **(kwargs or {}))

    with Watching():
        loss.backward()
    sums.forget()
    return found


def test_gradients_of_a_tensor_used_twice_meet_at_its_node() -> None:
    y = torch.ones(3, requires_grad=True).exp()
    assert [to for _, to in receivers((y.sin() + y.cos()).sum())] == ["ExpBackward0"]


def test_every_gradient_after_the_first_is_one_sum() -> None:
    y = torch.ones(3, requires_grad=True).exp()
    assert [to for _, to in receivers((y.sin() + y.cos() + y.sinh()).sum())] == ["ExpBackward0"] * 2


def test_a_node_with_two_inputs_that_meet_elsewhere() -> None:
    a, b = torch.ones(3, requires_grad=True).exp(), torch.ones(3, requires_grad=True).sin()
    loss = (a * b).sum() + a.sinh().sum() + b.cos().sum()
    assert sorted(to for _, to in receivers(loss)) == ["ExpBackward0", "SinBackward0"]


def test_an_input_used_twice_by_one_node() -> None:
    y = torch.ones(3, requires_grad=True).exp()
    assert [to for _, to in receivers((y * y).sum())] == ["ExpBackward0"]


def test_a_weight_used_twice() -> None:
    w = torch.ones(3, requires_grad=True)
    assert [to for _, to in receivers((w.sin() + w.cos()).sum())] == ["AccumulateGrad"]


class Adds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] + gradients[0]


def test_an_addition_in_a_nodes_own_function_is_no_sum() -> None:
    y = torch.ones(3, requires_grad=True).exp()
    found = receivers((y.sin() + Adds.apply(y)).sum())
    assert ("AddsBackward", "") in found
    assert [to for _, to in found if to] == ["ExpBackward0"]


def test_no_hook_stays() -> None:
    y = torch.ones(3, requires_grad=True).exp()
    loss = (y.sin() + y.cos()).sum()
    sums = Sums(loss)
    sums.forget()
    loss.backward()
    assert sums.receiver(y.grad_fn) is None


# --- nodes made in backward ---------------------------------------------------------------------


def test_nodes_made_in_backward_belong_to_the_layer_that_ran() -> None:
    x = torch.ones(3, requires_grad=True)
    made = MadeInBackward()
    first = x.sin()
    made.note(4)
    second = first * 2
    made.note(5)
    made.tag([second])
    assert first.grad_fn.metadata[TAG] == 4 and second.grad_fn.metadata[TAG] == 5


def test_older_and_later_nodes_are_left_alone() -> None:
    old = torch.ones(3, requires_grad=True).cos()
    made = MadeInBackward()
    inner = old.sin()
    made.note(1)
    late = inner.exp()
    made.tag([inner, late])
    assert inner.grad_fn.metadata[TAG] == 1
    assert TAG not in old.grad_fn.metadata and TAG not in late.grad_fn.metadata
