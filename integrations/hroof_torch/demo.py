"""The program of ``hroof demo``: trains a small transformer on random tokens, on the CPU."""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 1000
LENGTH = 128
WIDTH = 256
HEADS = 4
BLOCKS = 2
BATCH = 8


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same shape."""
        batch, length, _ = x.shape
        heads = (batch, length, HEADS, WIDTH // HEADS)
        query, key, value = (
            part.view(heads).transpose(1, 2) for part in self.qkv(x).split(WIDTH, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        projected: Tensor = self.proj(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return projected


class Block(nn.Module):
    """One pre-norm transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, width) to the same shape."""
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return x


class Transformer(nn.Module):
    """A small language model that returns its mean cross-entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.tok = nn.Embedding(VOCABULARY, WIDTH)
        self.pos = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.lnf = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Token numbers and targets, both (batch, length), to a scalar."""
        x = self.tok(tokens) + self.pos(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        scores = self.head(self.lnf(x))
        return functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


def train(steps: int) -> float:
    """Train for some steps; the last loss."""
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens, targets = torch.randint(VOCABULARY, (2, BATCH, LENGTH)).unbind()
    loss = torch.zeros(())
    for _ in range(steps):
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return float(loss.detach())


if __name__ == "__main__":
    train(int(sys.argv[1]))
