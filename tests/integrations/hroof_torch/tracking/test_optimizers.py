"""Optimizer work by layer, by identity of tensors and by shapes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from hroof.attribution import Part
from hroof.units import Phase
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.optimizers import OptimizerSplit, ParameterShapes
from hroof_torch.tracking.tracker import Frame


@pytest.fixture
def model() -> nn.Sequential:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4, bias=False))
    net(torch.ones(1, 2)).sum().backward()
    return net


@pytest.fixture
def layers(model: nn.Sequential) -> LayerMap:
    known = LayerMap()
    known.root(model)
    return known


def numbers(layers: LayerMap, model: nn.Sequential) -> list[int | None]:
    return [layers.of_parameter(layer.weight) for layer in model]


def test_one_tensor_goes_to_its_layer(model: nn.Sequential, layers: LayerMap) -> None:
    adam = torch.optim.Adam(model.parameters())
    adam.step()
    first, second = numbers(layers, model)
    split = OptimizerSplit(adam, layers)
    weight = model[0].weight
    for tensor in (weight, weight.grad, adam.state[weight]["exp_avg"], adam.state[weight]["step"]):
        assert split.parts((tensor, 2.0), {}) == (Part(first, 1.0),)
    assert split.parts((3.0,), {"other": model[1].weight}) == (Part(second, 1.0),)


def test_a_temporary_goes_with_the_op_before(model: nn.Sequential, layers: LayerMap) -> None:
    split = OptimizerSplit(torch.optim.SGD(model.parameters(), 0.1), layers)
    assert split.parts((torch.ones(3),), {}) == ()
    split.parts((model[1].weight,), {})
    assert split.parts((torch.ones(3),), {}) == (Part(numbers(layers, model)[1], 1.0),)


def test_lists_are_split_by_elements(model: nn.Sequential, layers: LayerMap) -> None:
    split = OptimizerSplit(torch.optim.SGD(model.parameters(), 0.1), layers)
    first, second = numbers(layers, model)
    parameters = list(model.parameters())
    for tensors in (parameters, [p.grad for p in parameters]):
        parts = split.parts((tensors, 1.0), {})
        assert [part.layer for part in parts] == [first, second]
        assert [part.share for part in parts] == pytest.approx([9 / 21, 12 / 21])
    temporaries = [torch.ones_like(p) for p in parameters]
    assert split.parts((temporaries,), {}) == split.parts((parameters,), {})
    assert split.parts(([torch.ones(9)],), {}) == ()
    assert sum(part.share for part in split.parts((parameters,), {})) == pytest.approx(1)


def test_step_counts_count_alike(model: nn.Sequential, layers: LayerMap) -> None:
    adam = torch.optim.Adam(model.parameters(), foreach=True)
    adam.step()
    split = OptimizerSplit(adam, layers)
    steps = [adam.state[p]["step"] for p in model.parameters()]
    shares = [part.share for part in split.parts((steps,), {})]
    assert shares == pytest.approx([2 / 3, 1 / 3])


def test_a_parameter_of_no_model_has_no_layer(layers: LayerMap) -> None:
    stray = nn.Parameter(torch.ones(2))
    split = OptimizerSplit(torch.optim.SGD([stray], 0.1), layers)
    assert split.parts((stray,), {}) == (Part(None, 1.0),)


def test_gradients_between_the_phases(model: nn.Sequential, layers: LayerMap) -> None:
    split = OptimizerSplit(None, layers)
    gradient = model[1].weight.grad
    assert split.touches((gradient,)) and split.touches(([torch.ones(1), gradient],))
    assert (
        not split.touches((torch.ones(1),)) and not split.touches(()) and not split.touches(([],))
    )
    assert not split.touches((model[1].weight,)), "only gradients"
    assert split.parts((gradient,), {}) == (Part(numbers(layers, model)[1], 1.0),)


def note(shapes: ParameterShapes, optimizer: Any, phase: Phase = Phase.OPTIMIZER) -> None:
    shapes.enter(Frame(phase, optimizer=optimizer), (), {})


def signature(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple((shape, "float") for shape in shapes)


def test_shapes_tell_lists_apart(model: nn.Sequential, layers: LayerMap) -> None:
    known = ParameterShapes(layers)
    note(known, torch.optim.SGD(model.parameters(), 0.1))
    all_shapes = ((3, 2), (3,), (4, 3))
    for times in (1, 2, 4):
        parts = known.parts(signature(*all_shapes * times))
        assert [part.share for part in parts] == pytest.approx([9 / 21, 12 / 21])
    assert known.parts(signature((4, 3), (4, 3))) == (Part(numbers(layers, model)[1], 1.0),)
    assert known.parts(signature((7, 7))) == ()
    assert known.parts(()) == () and known.parts("no signature") == ()


def test_a_shape_of_two_layers_tells_nothing() -> None:
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    net(torch.ones(1, 3)).sum().backward()
    layers = LayerMap()
    layers.root(net)
    known = ParameterShapes(layers)
    note(known, torch.optim.SGD(net.parameters(), 0.1))
    assert known.parts(signature((3, 3))) == ()


def test_parameters_without_a_gradient_take_no_part(model: nn.Sequential, layers: LayerMap) -> None:
    model[0].bias.grad = None
    known = ParameterShapes(layers)
    note(known, torch.optim.SGD(model.parameters(), 0.1))
    assert len(known.parts(signature((3, 2), (4, 3)))) == 2


def test_only_optimizer_steps_are_heard(layers: LayerMap) -> None:
    known = ParameterShapes(layers)
    note(known, SimpleNamespace(param_groups=[]), Phase.FORWARD)
    assert known.parts(signature((3, 2))) == ()
