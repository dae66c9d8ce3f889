"""A step on paper gives the same table as a counted step, without computing anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hroof.profile import Profile
from hroof.roofline import points
from hroof.units import Pipe, Precision
from hroof_torch.capturing.paper import count

MATRIX = (Pipe.MATRIX, Precision.FP32)


def build(width: int = 16, optimizer: Any = torch.optim.SGD) -> Callable[[], object]:
    model = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, 4))
    stepper = optimizer(model.parameters(), lr=0.1)
    data, target = torch.ones(8, width), torch.zeros(8, dtype=torch.long)

    def step() -> None:
        stepper.zero_grad()
        nn.functional.cross_entropy(model(data), target).backward()
        stepper.step()

    return step


def work(profile: Profile) -> dict[tuple[str, str], float]:
    """Matrix FLOP per layer and phase."""
    found = points(profile, None, ("layer", "phase"))
    return {(p.key["layer"], p.key["phase"]): p.flop.get(MATRIX, 0.0) for p in found}


def test_matrix_work_by_layer_and_phase() -> None:
    found = work(count(build))
    first, second = 2 * 8 * 16 * 32, 2 * 8 * 32 * 4
    assert found["0", "forward"] == first
    assert found["0", "backward"] == first  # nobody needs the gradient of the data
    assert found["2", "forward"] == second
    assert found["2", "backward"] == 2 * second
    assert sum(found.values()) == 2 * first + 3 * second


def test_every_row_has_a_layer_a_phase_and_no_time() -> None:
    launches = count(build).launches
    assert launches["layer"].notna().all()
    assert launches["phase"].notna().all()
    assert launches["duration"].isna().all()
    assert set(launches["source_time"]) == {"missing"}
    assert set(launches["step"]) == {0}


def test_parameters_and_names_come_from_the_model() -> None:
    layers = {layer["name"]: layer["parameters"] for layer in count(build).run["layers"]}
    assert layers["0"] == 16 * 32 + 32
    assert layers["2"] == 32 * 4 + 4
    assert sum(layers.values()) == 16 * 32 + 32 + 32 * 4 + 4


def test_a_model_that_fits_into_no_machine() -> None:
    found = work(count(lambda: build(1 << 21)))
    assert found["0", "forward"] == 2 * 8 * (1 << 21) * (1 << 22)


def test_the_state_of_the_optimizer_is_there_already() -> None:
    """The first step makes it; the counted one is a step like all others."""
    ops = count(lambda: build(optimizer=torch.optim.Adam)).launches["op"].astype(str)
    assert not ops.str.contains("zeros").any()


def test_nothing_is_left() -> None:
    before = nn.Module.__call__
    state = torch.get_rng_state()
    count(build)
    assert nn.Module.__call__ is before
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(torch.ones(1), torch.Tensor)
    assert float(torch.ones(1)) == 1.0


def test_a_step_that_fails_leaves_nothing_either() -> None:
    before = nn.Module.__call__

    def broken() -> Callable[[], object]:
        calls: list[int] = []

        def step() -> None:
            calls.append(1)
            nn.Linear(2, 2)(torch.ones(2))
            if len(calls) > 1:
                raise ValueError("mine")

        return step

    with pytest.raises(ValueError, match="mine"):
        count(broken)
    assert nn.Module.__call__ is before
    assert work(count(build))["0", "forward"] > 0


def test_what_is_returned_must_be_a_function() -> None:
    with pytest.raises(TypeError, match="returned NoneType"):
        count(lambda: None)  # type: ignore[arg-type,return-value]
