"""hroof changes nothing: training with and without it is the same bit for bit."""

from __future__ import annotations

import gc
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import hroof
from hroof.regions import Region, Status
from hroof_torch import private

STEPS = 8


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    gc.collect()
    torch._dynamo.utils.counters.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The .grad attribute", category=UserWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        yield
    torch._dynamo.reset()


class Model(nn.Module):
    """Dropout, batch norm and a part that may be compiled or checkpointed."""

    def __init__(self, wrap: Callable[[nn.Module], Any] = lambda part: part) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.GELU())
        self.part = wrap(nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.3), nn.Tanh()))
        self.last = nn.Linear(32, 4)
        self.again = False

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = checkpoint(self.part, y, use_reentrant=False) if self.again else self.part(y)
        return self.last(functional.dropout(y, 0.1, self.training))


@dataclass
class Training:
    """A training program and everything that it leaves.

    Attributes:
        model: What is trained.
        optimizer: How.
        context: Around the forward pass.
        micro: Backward passes per step.
        evaluate: Also run the model in inference mode at the end of each step.
        losses: Loss of every backward pass.
        gradients: Gradients before every optimizer step.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    context: Callable[[], Any] = torch.enable_grad
    micro: int = 1
    evaluate: bool = False
    losses: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)

    def step(self) -> None:
        for _ in range(self.micro):
            x, target = torch.randn(8, 16), torch.randint(0, 4, (8,))
            with self.context():
                loss = functional.cross_entropy(self.model(x).float(), target)
            loss.backward()
            self.losses.append(loss.detach().clone())
        self.gradients += [p.grad.clone() for p in self.model.parameters() if p.grad is not None]
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.evaluate:
            with torch.inference_mode():
                self.losses.append(self.model(torch.randn(8, 16)).sum().clone())

    def left(self) -> dict[str, list[Tensor]]:
        """Everything that a program could look at afterwards."""
        optimizer = [
            value if isinstance(value, Tensor) else torch.tensor(float(value))
            for state in self.optimizer.state_dict()["state"].values()
            for value in state.values()
            if value is not None
        ]
        return {
            "losses": self.losses,
            "gradients": self.gradients,
            "parameters": list(self.model.parameters()),
            "buffers": list(self.model.buffers()),
            "optimizer": optimizer,
            "random": [torch.get_rng_state(), torch.tensor(random.random()), torch.rand(3)],
        }


def build(
    optimizer: Callable[[Any], torch.optim.Optimizer],
    wrap: Callable[[nn.Module], Any] = lambda part: part,
    again: bool = False,
    whole: Callable[[nn.Module], Any] = lambda model: model,
    **options: Any,
) -> Training:
    model = Model(wrap)
    model.again = again
    return Training(whole(model), optimizer(model.parameters()), **options)


def adam(**options: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, **options)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True)


def compiled(backend: str) -> Callable[[nn.Module], Any]:
    return lambda part: torch.compile(part, backend=backend)


def bf16() -> Any:
    return torch.autocast("cpu", torch.bfloat16)


PROGRAMS: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": sgd},
    "adam loop": {"optimizer": adam(foreach=False)},
    "adam foreach": {"optimizer": adam(foreach=True)},
    "adam fused": {"optimizer": adam(fused=True)},
    "autocast": {"optimizer": sgd, "context": bf16},
    "accumulation": {"optimizer": sgd, "micro": 3},
    "checkpoint": {"optimizer": sgd, "again": True},
    "inference": {"optimizer": sgd, "evaluate": True},
    "compiled part": {"optimizer": sgd, "wrap": compiled("aot_eager")},
    "compiled part, checkpoint": {
        "optimizer": sgd,
        "wrap": compiled("aot_eager"),
        "again": True,
    },
    "compiled whole": {"optimizer": sgd, "whole": compiled("aot_eager"), "micro": 2},
    "compiled autocast": {"optimizer": sgd, "whole": compiled("aot_eager"), "context": bf16},
    "compiled inference": {"optimizer": sgd, "wrap": compiled("aot_eager"), "evaluate": True},
    "inductor part": {"optimizer": sgd, "wrap": compiled("inductor")},
}


def run(options: dict[str, Any], measured: bool, skip: int = 1) -> dict[str, list[Tensor]]:
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    random.seed(0)
    training = build(**options)
    region = Region(skip=skip, steps=2)
    if measured:
        with region:
            for _ in range(STEPS):
                training.step()
        assert region.outcome.status is Status.COMPLETE, region.outcome
        assert region.outcome.profile is not None
        assert not any("could not be" in text for text in region.outcome.profile.run["warnings"])
    else:
        for _ in range(STEPS):
            training.step()
    return training.left()


def assert_same(one: dict[str, list[Tensor]], other: dict[str, list[Tensor]]) -> None:
    for what, values in one.items():
        assert len(values) == len(other[what]), what
        for index, (first, second) in enumerate(zip(values, other[what], strict=True)):
            assert first.dtype is second.dtype and torch.equal(first, second), (what, index)


@pytest.mark.parametrize("name", PROGRAMS)
def test_training_is_the_same_bit_for_bit(name: str) -> None:
    options = PROGRAMS[name]
    assert_same(run(options, measured=False), run(options, measured=True))


@pytest.mark.parametrize("name", ["sgd", "compiled part", "inductor part"])
def test_also_from_the_first_step_on(name: str) -> None:
    options = PROGRAMS[name]
    assert_same(run(options, measured=False), run(options, measured=True, skip=0))


def test_two_plain_runs_are_the_same() -> None:
    """Without this the tests above would prove nothing."""
    assert_same(run(PROGRAMS["sgd"], measured=False), run(PROGRAMS["sgd"], measured=False))


def test_a_difference_would_be_seen() -> None:
    plain = run(PROGRAMS["sgd"], measured=False)
    other = run({"optimizer": adam()}, measured=False)
    with pytest.raises(AssertionError):
        assert_same({"losses": plain["losses"]}, {"losses": other["losses"]})


def frames() -> dict[str, int]:
    return dict(torch._dynamo.utils.counters["frames"])


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_attaching_compiles_nothing_again(backend: str) -> None:
    torch.manual_seed(0)
    training = build(sgd, wrap=compiled(backend), whole=lambda model: model)
    for _ in range(2):
        training.step()
    graphs, known = private.dynamo_graph_count(), frames()
    region = Region(skip=1, steps=2)
    with region:
        for _ in range(STEPS):
            training.step()
    training.step()
    assert region.outcome.status is Status.COMPLETE
    assert (private.dynamo_graph_count(), frames()) == (graphs, known)


@pytest.mark.usefixtures("only_optimizers_of_this_test")
@pytest.mark.parametrize("skip", [0, 1])
def test_compiled_code_runs_compiled_in_every_stage(skip: int) -> None:
    """A backend's own function is called once per call of the module: never replaced by eager code."""
    calls: list[str] = []
    region = Region(skip=skip, steps=2)

    def backend(graph: Any, inputs: Any) -> Any:
        def call(*args: Any) -> Any:
            calls.append(str(region.stage))
            return graph.forward(*args)

        return call

    model = Model(lambda part: torch.compile(part, backend=backend))
    training = Training(model, sgd(model.parameters()))
    with region:
        for _ in range(STEPS):
            training.step()
    assert len(calls) == STEPS
    assert calls.count("count") == 1 and calls.count("time") == 2


def test_nothing_is_left_attached() -> None:
    call, engine = nn.Module.__call__, torch.autograd._engine_run_backward
    training = build(sgd)
    region = Region(skip=1, steps=2)
    with region:
        for _ in range(STEPS):
            training.step()
        assert (
            nn.Module.__call__ is call
        )  # before the region ends, but after its last captured step
    assert nn.Module.__call__ is call
    assert torch.autograd._engine_run_backward is engine


def test_a_region_that_ends_with_an_error_leaves_nothing() -> None:
    call = nn.Module.__call__
    training = build(sgd)
    with pytest.raises(ZeroDivisionError), Region(skip=1, steps=2):
        for _ in range(2):
            training.step()
        assert nn.Module.__call__ is not call  # counting
        raise ZeroDivisionError
    assert nn.Module.__call__ is call
    assert torch._C._len_torch_dispatch_stack() == 0


def test_explicit_steps_change_nothing_either() -> None:
    def losses(measured: bool) -> list[Tensor]:
        torch.manual_seed(0)
        training = build(sgd)
        with Region(skip=1, steps=1) if measured else torch.enable_grad():
            for _ in range(5):
                training.step()
                hroof.step()
        return training.losses

    assert_same({"losses": losses(False)}, {"losses": losses(True)})
