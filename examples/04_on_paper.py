"""Count a training step of a model that does not fit this machine: a transformer with 6.7 billion parameters.

Run it with: python examples/04_on_paper.py
or, for a table by layer: hroof count -- examples/04_on_paper.py:build
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from hroof.units import Pipe, si


class Block(nn.Module):
    """One pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then the feed-forward part."""
        batch, length, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """A decoder that returns its loss."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The mean cross-entropy of the next token."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def build(
    width: int = 4096, depth: int = 32, heads: int = 32, length: int = 2048
) -> Callable[[], None]:
    """A training step in bf16; built and run on tensors without data."""
    torch.set_default_dtype(torch.bfloat16)
    model = Transformer(50_304, width, depth, heads)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(50_304, (1, length))

    def step() -> None:
        model(tokens).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> float:
    """Print what a step costs; returns its matrix FLOP."""
    from hroof_torch.counting import on_paper

    try:
        counted = on_paper(build)
    finally:
        torch.set_default_dtype(torch.float32)
    matrix = sum(op.work.flop(Pipe.MATRIX) for op in counted)
    moved = sum(op.work.bytes_read + op.work.bytes_written for op in counted)
    print(
        f"{len(counted)} ops, {si(matrix, 'FLOP')} of matrix work, at least {si(moved, 'B')} through L1"
    )
    return matrix


if __name__ == "__main__":
    main()
