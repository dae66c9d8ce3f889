"""Names of layers: parts called alone, wrappers, shared and late modules, several models."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from hroof_torch.tracking.layers import LayerMap, unwrap


class DataParallel(nn.Module):
    """A wrapper by name."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def net() -> nn.Sequential:
    return nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), nn.Linear(3, 4))


def name(layers: LayerMap, module: nn.Module, parent: int | None = None) -> str:
    number = layers.at(module, parent)
    return layers.names()[number]


def test_a_part_of_a_known_model_keeps_its_name() -> None:
    layers, model = LayerMap(), net()
    assert name(layers, model) == "Sequential"
    assert name(layers, model[0]) == "0"
    assert name(layers, model[0][0]) == "0.0"
    assert name(layers, model[0][0], layers.at(model[0], None)) == "0.0"
    assert set(layers.names()) == {"Sequential", "0", "0.0", "0.1", "1"}


def test_a_part_that_came_first_is_a_model_of_its_own() -> None:
    layers, model = LayerMap(), net()
    part = layers.at(model[0], None)
    layers.at(model, None)
    assert layers.at(model[0], None) == part, "numbers do not change"


def test_a_wrapper_is_the_module_inside() -> None:
    layers, model = LayerMap(), net()
    wrapped = DataParallel(DataParallel(model))
    assert unwrap(wrapped) is model
    outer = layers.at(wrapped, None)
    assert layers.at(model, outer) == outer
    assert name(layers, model[1], outer) == "1"
    assert layers.at(model, None) == outer


def test_wrapping_a_known_model_makes_no_second_one() -> None:
    layers, model = LayerMap(), net()
    known = layers.at(model, None)
    assert layers.at(DataParallel(model), None) == known
    assert layers.at(DataParallel(model[0]), None) == layers.at(model[0], None)
    assert set(layers.names()) == {"Sequential", "0", "0.0", "0.1", "1"}


def test_a_module_made_later_has_the_name_of_its_attribute() -> None:
    layers, model = LayerMap(), net()
    root = layers.at(model, None)
    model.late = nn.Linear(1, 1)
    assert name(layers, model.late, root) == "late"
    assert name(layers, nn.Tanh(), layers.at(model[0], root)) == "0.(Tanh)"


def test_gradients_are_found_by_identity() -> None:
    layers, model = LayerMap(), net()
    layers.at(model, None)
    assert layers.gradients() == {}
    model(torch.ones(1, 2)).sum().backward()
    found = layers.gradients()
    assert len(found) == 4
    assert found[id(model[1].weight.grad)] == layers.of_parameter(model[1].bias)


def test_threads_learn_models_one_at_a_time() -> None:
    layers, models = LayerMap(), [net() for _ in range(8)]
    threads = [threading.Thread(target=layers.at, args=(model, None)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    roots = {layers.at(model, None) for model in models}
    assert len(roots) == 8 and len(layers.layers) == 8 * 5


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.Sequential(nn.ReLU())])
def test_a_model_without_parameters_is_a_loss(loss: nn.Module) -> None:
    layers = LayerMap()
    layers.at(net(), None)
    assert layers.is_loss(layers.at(loss, None))
