"""One callback in ``fit``: which layers waste the machine?

Run it with: python examples/01_minimal_keras.py
"""

import keras
import numpy as np

import hroof
import hroof_keras


def main() -> hroof.Run:
    """Train a small convolutional net for eight steps and report."""
    keras.utils.set_random_seed(0)
    net = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            keras.layers.Conv2D(32, 3, padding="same", name="conv"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.ReLU(name="relu"),
            keras.layers.GlobalAveragePooling2D(name="pool"),
            keras.layers.Dense(10, name="head"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
    random = np.random.default_rng(0)
    images = random.standard_normal((128, 32, 32, 3), dtype="float32")
    labels = random.integers(10, size=128)

    roofline = hroof_keras.RooflineCallback(skip=3)  # the one line
    net.fit(images, labels, batch_size=16, verbose=0, callbacks=[roofline])
    return roofline.run


if __name__ == "__main__":
    main()
