"""A loop of your own around a tf.function: say yourself where a step ends.

Run it with: python examples/02_explicit_steps_keras.py
"""

import keras
import numpy as np
import tensorflow as tf

import hroof


def main() -> hroof.Run:
    """Run a small transformer encoder ten times and report by layer and op."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((32, 64))
    x = keras.layers.LayerNormalization(name="norm1")(tokens)
    x = tokens + keras.layers.MultiHeadAttention(4, 16, name="attention")(x, x)
    y = keras.layers.LayerNormalization(name="norm2")(x)
    y = keras.layers.Dense(128, activation="relu", name="up")(y)
    net = keras.Model(tokens, x + keras.layers.Dense(64, name="down")(y))
    infer = tf.function(net)
    batch = tf.constant(np.random.default_rng(0).standard_normal((8, 32, 64), dtype="float32"))

    with hroof.region("inference", skip=2, steps=3) as run:
        for _ in range(8):
            infer(batch)
            hroof.step()
    return run


if __name__ == "__main__":
    print(main().report(by=("layer", "op")))
