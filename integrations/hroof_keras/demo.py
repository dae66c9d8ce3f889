"""The program of ``hroof demo`` where Keras is: trains a small transformer on random tokens, on the CPU."""

from __future__ import annotations

import os
import sys
from typing import Any

# Before TensorFlow is imported: its greeting would stand between the lines of the demo.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

VOCABULARY = 1000
LENGTH = 128
WIDTH = 256
HEADS = 4
BLOCKS = 2
BATCH = 8


class Block(keras.layers.Layer):
    """One pre-norm transformer block."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        layers = keras.layers
        self.ln1 = layers.LayerNormalization()
        self.attn = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        self.ln2 = layers.LayerNormalization()
        self.up = layers.Dense(4 * WIDTH, activation="gelu")
        self.down = layers.Dense(WIDTH)

    def build(self, shape: Any) -> None:
        """Make the weights."""
        self.ln1.build(shape)
        self.attn.build(shape, shape)
        self.ln2.build(shape)
        self.up.build(shape)
        self.down.build((*shape[:-1], 4 * WIDTH))

    def call(self, x: Any) -> Any:
        """(batch, length, width) to the same shape."""
        normed = self.ln1(x)
        x = x + self.attn(normed, normed, use_causal_mask=True)
        return x + self.down(self.up(self.ln2(x)))


class Positions(keras.layers.Layer):
    """Adds a learnt vector per position."""

    def build(self, shape: Any) -> None:
        """Make the weights."""
        self.table = self.add_weight(shape=(LENGTH, WIDTH), initializer="uniform")

    def call(self, x: Any) -> Any:
        """(batch, length, width) to the same shape."""
        return x + self.table


def transformer() -> Any:
    """A small language model, compiled; it returns the scores of the next token."""
    tokens = keras.Input((LENGTH,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(VOCABULARY, WIDTH, name="tok")(tokens)
    x = Positions(name="pos")(x)
    for number in range(BLOCKS):
        x = Block(name=f"block{number}")(x)
    x = keras.layers.LayerNormalization(name="lnf")(x)
    scores = keras.layers.Dense(VOCABULARY, use_bias=False, name="head")(x)
    model = keras.Model(tokens, scores, name="transformer")
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def train(steps: int) -> float:
    """Train for some steps; the last loss."""
    keras.utils.set_random_seed(0)
    tokens = np.random.default_rng(0).integers(VOCABULARY, size=(2, BATCH * steps, LENGTH))
    seen, following = tokens.astype("int32")
    history = transformer().fit(seen, following, batch_size=BATCH, shuffle=False, verbose=0)
    return float(history.history["loss"][-1])


if __name__ == "__main__":
    train(int(sys.argv[1]))
