"""Two small training programs whose FLOP are known by hand: a GPT and a CNN."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LENGTH, BLOCKS = 1000, 256, 4, 128, 4


@dataclass
class Workload:
    """A training program of one step.

    Attributes:
        model: Returns the loss when it gets targets, else the logits.
        batch: Inputs and targets.
        optimizer: AdamW with its defaults.
        step: Forward, backward, optimizer step, gradients to None; returns the loss.
    """

    model: nn.Module
    batch: tuple[Tensor, Tensor]
    optimizer: torch.optim.Optimizer
    step: Callable[[], Any]


class Attention(nn.Module):
    """Causal self-attention; q, k and v come from one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = (batch, length, HEADS, width // HEADS)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(x).split(width, dim=-1))
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(heads.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Pre-norm transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Gpt(nn.Module):
    """Language model with learned positions and an untied head."""

    def __init__(self) -> None:
        super().__init__()
        self.tok = nn.Embedding(VOCABULARY, WIDTH)
        self.pos = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.lnf = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> Tensor:
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.lnf(x))
        if targets is None:
            return logits
        return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


class Cnn(nn.Module):
    """Four convolution stages and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _stage(3, 32, 1)
        self.l1 = _stage(32, 64, 2)
        self.l2 = _stage(64, 128, 2)
        self.l3 = _stage(128, 256, 2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(256, 100)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        x = self.l3(self.l2(self.l1(self.stem(images))))
        logits = self.fc(torch.flatten(self.pool(x), 1))
        return logits if labels is None else functional.cross_entropy(logits, labels)


def _workload(model: nn.Module, batch: tuple[Tensor, Tensor], **options: Any) -> Workload:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)

    def step() -> Tensor:
        loss: Tensor = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return Workload(model, batch, optimizer, step)


def gpt(**options: Any) -> Workload:
    """The GPT: 3,704,320 parameters, 8 x 128 tokens; options go to AdamW."""
    torch.manual_seed(0)
    model = Gpt()
    ids, targets = (torch.randint(0, VOCABULARY, (8, LENGTH)) for _ in range(2))
    return _workload(model, (ids, targets), **options)


def cnn(**options: Any) -> Workload:
    """The CNN: 414,596 parameters, 16 images of 64 x 64; options go to AdamW."""
    torch.manual_seed(0)
    model = Cnn()
    return _workload(model, (torch.randn(16, 3, 64, 64), torch.randint(0, 100, (16,))), **options)


@pytest.fixture
def make_gpt() -> Callable[..., Workload]:
    """Builds the GPT anew; keyword arguments go to AdamW."""
    return gpt


@pytest.fixture
def make_cnn() -> Callable[..., Workload]:
    """Builds the CNN anew; keyword arguments go to AdamW."""
    return cnn


@pytest.fixture
def gpt_workload() -> Workload:
    """The GPT, ready to step."""
    return gpt()


@pytest.fixture
def cnn_workload() -> Workload:
    """The CNN, ready to step."""
    return cnn()


@pytest.fixture
def only_optimizers_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimizers that other tests left alive would be waited for in the first step."""
    objects = gc.get_objects
    old = [value for value in objects() if issubclass(type(value), torch.optim.Optimizer)]
    known = {id(value) for value in old}
    monkeypatch.setattr(
        "hroof_torch.capturing.steps.gc.get_objects",
        lambda: [value for value in objects() if id(value) not in known or not old],
    )
