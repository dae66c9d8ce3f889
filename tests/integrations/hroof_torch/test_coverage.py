"""How much of four whole nets is attributed; ``-s`` prints the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from hroof.profile import Profile
from hroof.regions import Region
from hroof.roofline import coverage
from hroof.units import Phase

Step = Callable[[], object]


class Recurrent(nn.Module):
    """An embedding, two LSTM layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(500, 128)
        self.lstm = nn.LSTM(128, 192, 2, batch_first=True)
        self.head = nn.Linear(192, 500)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embed(tokens))[0])


class Checkpointed(nn.Module):
    """Four residual blocks, recomputed by either kind of checkpointing in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)) for _ in range(4)
        )
        self.head = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.blocks):
            x = x + checkpoint(block, x, use_reentrant=bool(number % 2))
        return self.head(x)


def trained(model: nn.Module, batch: torch.Tensor, targets: torch.Tensor) -> Step:
    adamw = torch.optim.AdamW(model.parameters())

    def step() -> None:
        logits = model(batch)
        functional.cross_entropy(logits.flatten(0, -2), targets.flatten()).backward()
        adamw.step()
        adamw.zero_grad()

    return step


def program(name: str, request: pytest.FixtureRequest) -> Step:
    torch.manual_seed(0)
    if name in ("gpt", "cnn"):
        step: Step = request.getfixturevalue(f"{name}_workload").step
        return step
    if name == "lstm":
        tokens = torch.randint(0, 500, (16, 32))
        return trained(Recurrent(), tokens, tokens)
    x = torch.randn(128, 256, requires_grad=True)
    return trained(Checkpointed(), x, torch.randint(0, 10, (128,)))


def measured(step: Step) -> Profile:
    region = Region(skip=2, steps=3)
    with region:
        for _ in range(6):
            step()
    assert region.outcome.profile is not None, region.outcome
    return region.outcome.profile


def flop(profile: Profile, pipe: str, phase: str | None = None) -> int:
    """Nominal FLOP of a step."""
    rows = profile.launches
    if phase is not None:
        rows = rows[rows["phase"] == phase]
    columns = [name for name in map(str, rows) if name.startswith(f"flop_nominal_{pipe}")]
    return round(float(rows[columns].sum().sum()) / profile.step_count)


@pytest.mark.parametrize(
    ("name", "matrix", "forward"),
    [
        ("gpt", 22_779_265_024, 7_503_609_856),
        ("cnn", 5_664_768_000, 1_926_004_736),
        ("lstm", None, None),
        ("checkpointed", None, None),
    ],
)
def test_phases_are_attributed(
    name: str, matrix: int | None, forward: int | None, request: pytest.FixtureRequest
) -> None:
    profile = measured(program(name, request))
    known = coverage(profile)
    shares = {str(phase): share for phase, share in known.time_attributed_by_phase.items()}
    print(
        f"\n{name}: matrix FLOP {flop(profile, 'matrix'):,}, elementwise {flop(profile, 'vector'):,}"
    )
    print(f"  has a layer {shares}\n  on containers by depth {dict(known.time_on_containers)}")
    for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
        assert shares[phase.value] >= 0.99
    if matrix is not None:
        assert flop(profile, "matrix") == matrix
        assert flop(profile, "matrix", "forward") == forward
    assert known.time_with_flop >= 0.99
