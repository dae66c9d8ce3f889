"""Count a training step of a Keras model that does not fit this machine: a transformer with 6.7 billion parameters.

Run it with: python examples/04_on_paper_keras.py
or, for a table by layer: KERAS_BACKEND=torch hroof count -- examples/04_on_paper_keras.py:build
"""

import os
from collections.abc import Callable

os.environ["KERAS_BACKEND"] = "torch"  # whose tensors can do without data

import keras
import torch
from keras import layers

from hroof.units import Pipe, si


def block(x: keras.KerasTensor, number: int, width: int, heads: int) -> keras.KerasTensor:
    """One pre-norm transformer block: attention, then the feed-forward part."""
    y = layers.LayerNormalization(name=f"norm{number}a")(x)
    attention = layers.MultiHeadAttention(heads, width // heads, name=f"attention{number}")
    x = layers.Add(name=f"add{number}a")([x, attention(y, y, use_causal_mask=True)])
    y = layers.LayerNormalization(name=f"norm{number}b")(x)
    y = layers.Dense(4 * width, activation="gelu", name=f"up{number}")(y)
    y = layers.Dense(width, name=f"down{number}")(y)
    return layers.Add(name=f"add{number}b")([x, y])


def build(
    width: int = 4096,
    depth: int = 32,
    heads: int = 32,
    length: int = 2048,
    vocabulary: int = 50_304,
) -> Callable[[], None]:
    """A training step in bf16; built and run on tensors without data."""
    keras.config.set_dtype_policy("bfloat16")
    tokens = keras.Input((length,), dtype="int32")
    x = layers.Embedding(vocabulary, width, name="embed")(tokens)
    for number in range(depth):
        x = block(x, number, width, heads)
    logits = layers.Dense(vocabulary, use_bias=False, name="head")(x)
    model = keras.Model(tokens, logits, name="transformer")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(), loss)
    batch = torch.randint(vocabulary, (1, length), dtype=torch.int32)

    def step() -> None:
        model.train_step((batch, batch))

    return step


def main() -> float:
    """Print what a step costs; returns its matrix FLOP."""
    from hroof_torch.counting import on_paper

    counted = on_paper(build)
    matrix = sum(op.work.flop(Pipe.MATRIX) for op in counted)
    moved = sum(op.work.bytes_read + op.work.bytes_written for op in counted)
    print(
        f"{len(counted)} ops, {si(matrix, 'FLOP')} of matrix work, at least {si(moved, 'B')} through L1"
    )
    return matrix


if __name__ == "__main__":
    main()
