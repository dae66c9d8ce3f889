"""Real runs side by side: precisions and optimizers; what is said rests on counts, never on times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import hroof
from hroof.cli import main
from hroof.compare import Change, Comparison, Difference, How, compare, differ_in_size
from hroof.compare.work import work_of
from hroof.units import MemoryLevel

Train = Callable[..., hroof.Profile]


class Block(nn.Module):
    """Two linear layers and a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """A few blocks and a head."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.blocks(x))
        return out


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Train a small net and measure it."""

    def run(name: str, *, half: bool = False, batch: int = 16, **optimizer: Any) -> hroof.Profile:
        torch.manual_seed(0)
        model = Net()
        step = torch.optim.AdamW(model.parameters(), **({"foreach": False} | optimizer))
        x, y = torch.randn(batch, 32), torch.randint(0, 10, (batch,))
        with hroof.region(name, skip=1, steps=3, out=tmp_path / name, show=False) as region:
            for _ in range(6):
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
                    loss = nn.functional.cross_entropy(model(x).float(), y)
                loss.backward()
                step.step()
                step.zero_grad()
        return region.profile

    return run


def named(rows: tuple[Difference, ...]) -> dict[str, Difference]:
    return {row.name: row for row in rows}


def reconciles(found: Comparison) -> bool:
    return all(found.rest(rows) == 0.0 for rows in found.tables().values())


def test_an_optimizer_that_loops_and_a_fused_one(train: Train) -> None:
    found = compare(train("loop"), train("fused", foreach=None, fused=True))
    assert found.unit == "op"
    assert {row.how for row in found.layers} == {How.NAME}
    optimizer = named(found.phases)["optimizer"]
    assert optimizer.counts[1] < 0.1 * optimizer.counts[0]
    assert "launches × 0.0" in work_of(optimizer)
    assert named(found.phases)["forward"].launches == 0
    assert named(found.kernels)["aten::_fused_adamw_"].change is Change.NEW
    assert named(found.kernels)["aten::addcdiv_"].change is Change.GONE
    assert reconciles(found)


def test_two_precisions(train: Train) -> None:
    found = compare(train("full"), train("half", half=True))
    up = named(found.layers)["blocks.0.up"]
    assert work_of(up).startswith("fp32 → bf16")
    assert "fp32 → bf16" in work_of(found.total)
    # The optimizer's work does not depend on the precision of the products.
    optimizer = named(found.phases)["optimizer"]
    assert (optimizer.flop, optimizer.nbytes(MemoryLevel.L1), optimizer.launches) == (0, 0, 0)
    assert {row.how for row in found.layers} == {How.NAME}
    assert reconciles(found)


def test_another_batch_is_recognised(train: Train) -> None:
    found = compare(
        train("small", fused=True, foreach=None), train("large", batch=32, fused=True, foreach=None)
    )
    forward = named(found.phases)["forward"]
    assert forward.flops[1] == pytest.approx(2 * forward.flops[0])
    assert differ_in_size(found) == pytest.approx(2.0)  # though the optimizer's work does not grow
    assert reconciles(found)


def test_a_compiled_or_wrapped_model_keeps_its_layers(train: Train) -> None:
    base = train("plain")
    launches = base.launches.copy()
    launches["layer"] = [
        f"module.{name}" if isinstance(name, str) and "." in name else name
        for name in launches["layer"].astype(object)
    ]
    found = compare(base, base.replace(launches=launches.astype({"layer": "category"})))
    assert {row.how for row in found.layers} == {How.NAME}
    assert "blocks.0.up → module.blocks.0.up" in named(found.layers)


def test_from_the_command_line(
    train: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train("a")
    train("b", half=True)
    page = tmp_path / "a.html"
    runs = [str(tmp_path / name) for name in "ab"]
    assert main(["compare", *runs, "-o", str(page), "--quiet"]) == 0
    assert main(["compare", *runs]) == 0
    said = capsys.readouterr().out
    assert "a (BASE) → b (NEW)" in said
    assert "fp32 → bf16" in said
    assert "blocks.0.up" in page.read_text(encoding="utf-8")
