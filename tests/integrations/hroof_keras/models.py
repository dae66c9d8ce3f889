"""Three small Keras models whose matrix FLOP are known by hand: a CNN, a transformer and an LSTM; and a tiny CNN.

Each function returns ``(model, x, y)``: the compiled model (Adam, sparse categorical cross-entropy from logits) and
random data of ``BATCHES`` batches of ``BATCH[model.name]`` samples. ``TRUTH[model.name]`` holds the FLOP of matrix
products and convolutions of one training step by (layer, phase), FMA = 2, padding taps of SAME counted; the input of
the first layer has no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

BATCHES = 8
BATCH = {"cnn": 32, "gpt": 8, "rnn": 16, "small": 8}

HEADS, KEY, WIDTH, HIDDEN, VOCABULARY, LENGTH, BLOCKS = 4, 32, 128, 512, 1000, 64, 2
STEPS, FEATURES, UNITS, CLASSES = 32, 64, 128, 10

Workload = tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]
Truth = dict[tuple[str, str], int]


def _compiled(model: Any, options: dict[str, Any]) -> Any:
    usual = {
        "optimizer": keras.optimizers.Adam(1e-3),
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    }
    model.compile(**{**usual, **options})
    return model


def _random(seed: int) -> np.random.Generator:
    keras.utils.set_random_seed(seed)
    return np.random.default_rng(seed)


def cnn(*, seed: int = 0, batches: int = BATCHES, **options: Any) -> Workload:
    """Two convolution blocks and two dense layers on 32 x 32 images; 545,482 parameters.

    Args:
        seed: Of weights, dropout and data.
        batches: Batches of data.
        options: For ``compile``, e.g. ``jit_compile``.
    """
    random = _random(seed)
    layers = keras.layers
    inputs = keras.Input((32, 32, 3), name="img")
    x = layers.Conv2D(32, 3, padding="same", activation="relu", name="block1_conv1")(inputs)
    x = layers.BatchNormalization(name="block1_bn")(x)
    x = layers.MaxPooling2D(name="block1_pool")(x)
    x = layers.Conv2D(64, 3, padding="same", activation="relu", name="block2_conv1")(x)
    x = layers.BatchNormalization(name="block2_bn")(x)
    x = layers.MaxPooling2D(name="block2_pool")(x)
    x = layers.Flatten(name="flat")(x)
    x = layers.Dense(128, activation="relu", name="fc1")(x)
    x = layers.Dropout(0.1, name="drop")(x)
    outputs = layers.Dense(CLASSES, name="logits")(x)
    model = _compiled(keras.Model(inputs, outputs, name="cnn"), options)
    count = BATCH["cnn"] * batches
    images = random.standard_normal((count, 32, 32, 3), dtype=np.float32)
    return model, images, random.integers(0, CLASSES, count)


def small(*, seed: int = 0, batches: int = BATCHES, **options: Any) -> Workload:
    """One convolution, dropout and a dense layer on 8 x 8 images, SGD, for tests of what happens around steps.

    It takes the arguments of ``cnn`` and is traced and compiled in a fraction of the time.
    """
    random = _random(seed)
    layers = keras.layers
    inputs = keras.Input((8, 8, 3), name="img")
    x = layers.Conv2D(4, 3, padding="same", activation="relu", name="conv")(inputs)
    x = layers.MaxPooling2D(name="pool")(x)
    x = layers.Flatten(name="flat")(x)
    x = layers.Dropout(0.1, name="drop")(x)
    outputs = layers.Dense(CLASSES, name="logits")(x)
    options = {"optimizer": keras.optimizers.SGD(1e-2), **options}
    model = _compiled(keras.Model(inputs, outputs, name="small"), options)
    count = BATCH["small"] * batches
    images = random.standard_normal((count, 8, 8, 3), dtype=np.float32)
    return model, images, random.integers(0, CLASSES, count)


class Block(keras.layers.Layer):
    """Pre-norm transformer block; ``ln1`` is called twice on purpose."""

    def build(self, shape: Any) -> None:
        """Make the children."""
        layers = keras.layers
        self.ln1 = layers.LayerNormalization(name="ln1")
        self.att = layers.MultiHeadAttention(HEADS, KEY, name="att")
        self.ln2 = layers.LayerNormalization(name="ln2")
        self.ffn1 = layers.Dense(
            HIDDEN, activation=lambda x: keras.activations.gelu(x, approximate=False), name="ffn1"
        )
        self.ffn2 = layers.Dense(WIDTH, name="ffn2")
        self.ln1.build(shape)
        self.att.build(shape, shape)
        self.ln2.build(shape)
        self.ffn1.build(shape)
        self.ffn2.build((*shape[:-1], HIDDEN))

    def call(self, x: Any) -> Any:
        """Causal self-attention and a feed-forward network, each beside a skip connection."""
        x = x + self.att(self.ln1(x), self.ln1(x), use_causal_mask=True)
        return x + self.ffn2(self.ffn1(self.ln2(x)))

    def compute_output_shape(self, shape: Any) -> Any:
        """The shape does not change."""
        return shape


def transformer(*, seed: int = 0, batches: int = BATCHES, **options: Any) -> Workload:
    """A causal language model of two blocks, 64 tokens; 653,800 parameters. See ``cnn`` for the arguments."""
    random = _random(seed)
    layers = keras.layers
    inputs = keras.Input((LENGTH,), dtype="int32", name="tok")
    x = layers.Embedding(VOCABULARY, WIDTH, name="emb")(inputs)
    for number in range(BLOCKS):
        x = Block(name=f"block{number}")(x)
    x = layers.LayerNormalization(name="lnf")(x)
    outputs = layers.Dense(VOCABULARY, name="head")(x)
    model = _compiled(keras.Model(inputs, outputs, name="gpt"), options)
    size = (BATCH["gpt"] * batches, LENGTH)
    tokens, targets = (random.integers(0, VOCABULARY, size) for _ in range(2))
    return model, tokens.astype("int32"), targets


def lstm(*, seed: int = 0, batches: int = BATCHES, **options: Any) -> Workload:
    """Two LSTM layers over 32 time steps and a dense layer; 231,690 parameters. See ``cnn`` for the arguments."""
    random = _random(seed)
    layers = keras.layers
    inputs = keras.Input((STEPS, FEATURES), name="seq")
    x = layers.LSTM(UNITS, return_sequences=True, name="lstm1")(inputs)
    x = layers.LSTM(UNITS, name="lstm2")(x)
    outputs = layers.Dense(CLASSES, name="out")(x)
    model = _compiled(keras.Model(inputs, outputs, name="rnn"), options)
    count = BATCH["rnn"] * batches
    series = random.standard_normal((count, STEPS, FEATURES), dtype=np.float32)
    return model, series, random.integers(0, CLASSES, count)


def _block_truth(name: str, tokens: int) -> Truth:
    """Matrix FLOP of one block; the attention layer's parts are its own children."""
    width = HEADS * KEY
    part = 2 * tokens * WIDTH * width
    product = 2 * tokens * LENGTH * width  # scores, and the weighted values
    truth: Truth = {}
    for child in ("query", "key", "value", "attention_output"):
        truth[f"{name}.att.{child}", "forward"] = part
    truth[f"{name}.att", "forward"] = 2 * product
    for child in ("ffn1", "ffn2"):
        truth[f"{name}.{child}", "forward"] = 2 * tokens * WIDTH * HIDDEN
    return truth | {(layer, "backward"): 2 * flop for (layer, _), flop in truth.items()}


def _gpt_truth() -> Truth:
    tokens = BATCH["gpt"] * LENGTH
    head = 2 * tokens * WIDTH * VOCABULARY
    truth: Truth = {("head", "forward"): head, ("head", "backward"): 2 * head}
    for number in range(BLOCKS):
        truth |= _block_truth(f"block{number}", tokens)
    return truth


def _cnn_truth() -> Truth:
    images = BATCH["cnn"]
    first, second = (
        2 * images * 32 * 32 * 9 * 3 * 32,
        2 * images * 16 * 16 * 9 * 32 * 64,
    )
    dense, last = 2 * images * 8 * 8 * 64 * 128, 2 * images * 128 * CLASSES
    return {
        ("block1_conv1", "forward"): first,
        ("block1_conv1", "backward"): first,
        ("block2_conv1", "forward"): second,
        ("block2_conv1", "backward"): 2 * second,
        ("fc1", "forward"): dense,
        ("fc1", "backward"): 2 * dense,
        ("logits", "forward"): last,
        ("logits", "backward"): 2 * last,
    }


def _small_truth() -> Truth:
    images = BATCH["small"]
    convolution, dense = 2 * images * 8 * 8 * 9 * 3 * 4, 2 * images * 4 * 4 * 4 * CLASSES
    return {
        ("conv", "forward"): convolution,
        ("conv", "backward"): convolution,
        ("logits", "forward"): dense,
        ("logits", "backward"): 2 * dense,
    }


def _rnn_truth() -> Truth:
    """The gradient of the initial state is among them, since TensorFlow computes it."""
    batch = BATCH["rnn"]
    read = 2 * batch * STEPS * FEATURES * 4 * UNITS
    recur = 2 * batch * STEPS * UNITS * 4 * UNITS
    out = 2 * batch * UNITS * CLASSES
    return {
        ("lstm1", "forward"): read + recur,
        ("lstm1", "backward"): read + 2 * recur,
        ("lstm2", "forward"): 2 * recur,
        ("lstm2", "backward"): 4 * recur,
        ("out", "forward"): out,
        ("out", "backward"): 2 * out,
    }


TRUTH: dict[str, Truth] = {
    "cnn": _cnn_truth(),
    "gpt": _gpt_truth(),
    "rnn": _rnn_truth(),
    "small": _small_truth(),
}
"""Matrix FLOP of one training step by model and (layer, phase); an LSTM's cell counts as the LSTM."""

MATRIX_FLOP = {name: sum(truth.values()) for name, truth in TRUTH.items()}

BUILD: dict[str, Callable[..., Workload]] = {"cnn": cnn, "gpt": transformer, "rnn": lstm}
"""How each of the three is made."""
