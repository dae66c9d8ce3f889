"""What every capture says of a program."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from hroof.integration import Device
from hroof.regions import Region
from hroof_torch.capturing.description import (
    described,
    device_memory,
    layer_list,
    optimizer_steps_seen,
    rank,
)
from hroof_torch.tracking.layers import LayerMap

DEVICE = Device("cuda:1", "a chip", facts={"driver": "1.2"})


@pytest.fixture
def layers() -> LayerMap:
    """A net of which the second layer was called."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    found = LayerMap()
    found.at(net[1][0], found.at(net[1], found.at(net, None)))
    return found


def test_layers_in_model_order_and_the_loss_last(layers: LayerMap) -> None:
    assert [layer["name"] for layer in layer_list(layers)] == [
        "Sequential",
        "0",
        "1",
        "1.0",
        "(loss)",
    ]
    assert layer_list(layers)[1] == {
        "name": "0",
        "type": "Linear",
        "depth": 1,
        "parameters": 9,
        "container": False,
    }
    assert [layer["container"] for layer in layer_list(layers)][:3] == [True, False, True]


def test_without_a_model_there_is_the_loss() -> None:
    assert [layer["type"] for layer in layer_list(LayerMap())] == ["loss"]


def test_the_program_its_versions_and_its_device(
    layers: LayerMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "1"])
    monkeypatch.setenv("RANK", "3")
    said = described(Region(skip=7, steps=2), layers, DEVICE)
    assert said["program"] == ["train.py", "--epochs", "1"]
    assert said["versions"]["torch"] == torch.__version__
    assert (said["device"], said["device_name"], said["facts"]) == (
        "cuda:1",
        "a chip",
        {"driver": "1.2"},
    )
    assert (said["schedule"], said["rank"]) == ({"skip": 7, "steps": 2}, 3)
    assert said["layers"] == layer_list(layers)


@pytest.mark.parametrize(("value", "number"), [("2", 2), ("", 0), ("first", 0), (None, 0)])
def test_the_rank(monkeypatch: pytest.MonkeyPatch, value: str | None, number: int) -> None:
    monkeypatch.delenv("RANK", raising=False)
    if value is not None:
        monkeypatch.setenv("RANK", value)
    assert rank() == number


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "no optimizer step"), (1, "1 optimizer step"), (2, "2 optimizer steps")],
)
def test_what_was_seen(count: int, words: str) -> None:
    assert optimizer_steps_seen(count) == f"It saw {words}."


def test_memory_of_a_device_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def most_memory(device: str) -> int:
        asked.append(device)
        return 7

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", most_memory)
    assert device_memory("cuda:1") == {"peak_device_memory": 7}
    assert asked == ["cuda:1"]
    assert device_memory("cpu") == {}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert device_memory("cuda:1") == {}
