"""Programs whose matrix products tell their layer by shape alone: all widths are different primes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

BATCH = 7
L = keras.layers


@dataclass(frozen=True)
class Program:
    """A program to follow.

    Attributes:
        run: Runs it once; the first time traces.
        truth: Layer by (inputs, outputs) of its weights.
    """

    run: Callable[[], object]
    truth: dict[tuple[int, int], str]


def data(*shape: int, samples: int = BATCH) -> Any:
    """Random numbers."""
    return np.random.default_rng(0).random((samples, *shape), dtype=np.float32)


def fit(model: Any, inputs: Any, targets: Any, **options: Any) -> Callable[[], object]:
    """Fit one epoch in graph mode."""
    options = {"optimizer": "adam", "loss": "mse", "jit_compile": False, **options}
    model.compile(**options)
    return lambda: model.fit(inputs, targets, batch_size=BATCH, verbose=0, shuffle=False)


def functional() -> Program:
    """Convolutions, a norm, an activation that fuses into another layer's product, dropout."""
    inputs = keras.Input((8, 8, 3))
    x = L.Conv2D(11, 3, padding="same", activation="relu", name="conv1")(inputs)
    x = L.BatchNormalization(name="norm")(x)
    x = L.Conv2D(13, 3, strides=2, use_bias=False, name="conv2")(x)
    x = L.GlobalAveragePooling2D(name="pool")(x)
    x = L.Dense(17, name="fc")(x)
    x = L.Activation("relu", name="act")(x)
    x = L.Dropout(0.2, name="drop")(x)
    model = keras.Model(inputs, L.Dense(19, name="out")(x))
    truth = {(3, 11): "conv1", (11, 13): "conv2", (13, 17): "fc", (17, 19): "out"}
    return Program(fit(model, data(8, 8, 3), data(19)), truth)


def sequential() -> Program:
    """Layers named by Keras, one of them as the second scope of another would be."""
    layers = [L.Dense(11), L.Dense(13, activation="relu"), L.Dense(17, name="dense_1_1")]
    first, second = (layer.name for layer in layers[:2])
    truth = {(5, 11): first, (11, 13): second, (13, 17): "dense_1_1"}
    return Program(fit(keras.Sequential(layers), data(5), data(17)), truth)


class Block(keras.layers.Layer):
    """Layers under an attribute, in a list and in a dict."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.up = L.Dense(widths[0])
        self.parts = [L.Dense(widths[1]), L.Dense(widths[2], name="mine")]
        self.by_name = {"gate": L.Dense(widths[3])}

    def call(self, x: Any) -> Any:
        """One after the other."""
        for layer in (self.up, *self.parts, self.by_name["gate"]):
            x = layer(x)
        return x


class Subclassed(keras.Model):
    """Two blocks and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Block(11, 13, 17, 19)
        self.second = Block(23, 29, 31, 37)
        self.head = L.Dense(41)

    def call(self, x: Any) -> Any:
        """One after the other."""
        return self.head(self.second(self.first(x)))


def subclassed() -> Program:
    """Names that Keras makes up give way to the attributes of the user's classes."""
    truth = {(5, 11): "first.up", (11, 13): "first.parts.0", (13, 17): "first.mine"}
    truth |= {(17, 19): "first.by_name.gate", (19, 23): "second.up", (23, 29): "second.parts.0"}
    truth |= {(29, 31): "second.mine", (31, 37): "second.by_name.gate", (37, 41): "head"}
    return Program(fit(Subclassed(), data(5), data(41)), truth)


def shared() -> Program:
    """A layer that is called twice is one layer."""
    inputs = keras.Input((11,))
    layer = L.Dense(11, name="shared")
    x = L.Dense(13, name="first")(layer(inputs))
    x = L.Dense(11, name="third")(L.Dense(17, name="second")(x))
    truth = {(11, 11): "shared", (11, 13): "first", (13, 17): "second", (17, 11): "third"}
    return Program(fit(keras.Model(inputs, layer(x)), data(11), data(11)), truth)


def same_names() -> Program:
    """Two layers of one name in a model and in a model inside it, and two of one name side by side."""
    inner = keras.Sequential([L.Dense(13, name="d"), L.Dense(17, name="e")], name="inner")
    first, second = L.Dense(19, name="d"), L.Dense(23, name="twin")
    third = L.Dense(29, name="twin")

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.first, self.second, self.third = inner, first, second, third

        def call(self, x: Any) -> Any:
            return self.third(self.second(self.first(self.inner(x))))

    truth = {(11, 13): "inner.d", (13, 17): "inner.e", (17, 19): "d"}
    truth |= {(19, 23): "twin", (23, 29): "twin#2"}
    return Program(fit(Model(), data(11), data(29)), truth)


class OwnStep(keras.Model):
    """A training step with a loss written by hand, outside every scope."""

    def __init__(self) -> None:
        super().__init__()
        self.a = L.Dense(11)
        self.b = L.Dense(13)

    def call(self, x: Any) -> Any:
        """One after the other."""
        return self.b(self.a(x))

    def train_step(self, batch: Any) -> Any:
        """Mean of squares, damped."""
        x, y = batch
        with tf.GradientTape() as tape:
            p = self(x, training=True)
            loss = tf.reduce_mean(tf.square(p - y) * tf.exp(-tf.abs(p)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def own_step() -> Program:
    """A custom ``train_step``."""
    return Program(fit(OwnStep(), data(5), data(13)), {(5, 11): "a", (11, 13): "b"})


def recurrent() -> Program:
    """Loops inside layers, both directions, and a layer applied to every time step."""
    layers = [
        keras.Input((3, 5)),
        L.Bidirectional(L.LSTM(11, return_sequences=True), name="both"),
        L.TimeDistributed(L.Dense(13), name="each"),
        L.GRU(17, return_sequences=True, name="gru"),
        L.SimpleRNN(19, name="simple"),
        L.Dense(23, name="out"),
    ]
    truth = {(22, 13): "each", (13, 51): "gru.gru_cell", (17, 51): "gru.gru_cell"}
    truth |= {(17, 19): "simple.simple_rnn_cell", (19, 19): "simple.simple_rnn_cell"}
    truth |= {(19, 23): "out"}
    return Program(fit(keras.Sequential(layers), data(3, 5), data(23)), truth)


def attention() -> Program:
    """Projections from inputs of different widths."""
    query, value, key = keras.Input((3, 5)), keras.Input((3, 11)), keras.Input((3, 17))
    att = L.MultiHeadAttention(2, 23, value_dim=29, output_shape=31, name="att")
    model = keras.Model([query, value, key], att(query, value, key))
    truth = {(5, 46): "att.query", (17, 46): "att.key", (11, 58): "att.value"}
    truth |= {(58, 31): "att.attention_output"}
    return Program(fit(model, [data(3, 5), data(3, 11), data(3, 17)], data(3, 31)), truth)


def several_per_execution() -> Program:
    """Three steps in one execution."""
    model = keras.Sequential([L.Dense(11, name="a"), L.Dense(13, name="b")])
    many = BATCH * 4
    run = fit(model, data(5, samples=many), data(13, samples=many), steps_per_execution=3)
    return Program(run, {(5, 11): "a", (11, 13): "b"})


def ragged() -> Program:
    """A last batch of another size, then evaluation, prediction and single batches."""
    model = keras.Sequential([L.Dense(11, name="a"), L.Dense(13, name="b")])
    x, y = data(5, samples=BATCH + 3), data(13, samples=BATCH + 3)
    train = fit(model, x, y)

    def run() -> None:
        train()
        model.evaluate(x, y, batch_size=BATCH, verbose=0)
        model.predict(x, batch_size=BATCH, verbose=0)
        model.train_on_batch(x[:BATCH], y[:BATCH])

    return Program(run, {(5, 11): "a", (11, 13): "b"})


def own_loop() -> Program:
    """A loop of steps inside one function of the user's."""
    model = keras.Sequential([keras.Input((5,)), L.Dense(11, name="a"), L.Dense(13, name="b")])
    optimizer, loss_of = keras.optimizers.SGD(momentum=0.9), keras.losses.MeanSquaredError()
    optimizer.build(model.trainable_variables)
    x, y = tf.constant(data(5)), tf.constant(data(13))

    @tf.function
    def steps(x: Any, y: Any) -> None:
        for _ in tf.range(3):
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)

    return Program(lambda: steps(x, y), {(5, 11): "a", (11, 13): "b"})


def mixed_precision() -> Program:
    """Half precision with a scaled loss."""
    half = keras.DTypePolicy("mixed_float16")
    layers = [L.Dense(11, dtype=half, name="a"), L.Dense(13, dtype=half, name="b")]
    model = keras.Sequential([keras.Input((5,)), *layers, L.Dense(17, dtype="float32", name="c")])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
    run = fit(model, data(5), data(17), optimizer=optimizer)
    return Program(run, {(5, 11): "a", (11, 13): "b", (13, 17): "c"})


class Rematerialised(keras.layers.Layer):
    """Two layers whose activations are computed again in the backward pass."""

    def __init__(self) -> None:
        super().__init__(name="again")
        self.a, self.b = L.Dense(11), L.Dense(13)
        self.both = keras.remat(lambda x: self.b(self.a(x)))

    def build(self, shape: Any) -> None:
        """Variables cannot be made inside the recomputed function."""
        self.a.build(shape)
        self.b.build((None, 11))

    def call(self, x: Any) -> Any:
        """Both."""
        return self.both(x)


def rematerialised() -> Program:
    """Recomputation, as far as Keras itself can do it in a graph."""
    model = keras.Sequential([keras.Input((5,)), Rematerialised(), L.Dense(17, name="out")])
    truth = {(5, 11): "again.a", (11, 13): "again.b", (13, 17): "out"}
    return Program(fit(model, data(5), data(17)), truth)


class InScope(keras.Model):
    """Layers that Keras makes compute their activations again."""

    def __init__(self) -> None:
        super().__init__()
        with keras.RematScope(mode="full"):
            self.a = L.Dense(11, activation="tanh")
            self.b = L.Dense(13, activation="tanh")
        self.c = L.Dense(17)

    def call(self, x: Any) -> Any:
        """One after the other."""
        return self.c(self.b(self.a(x)))


def remat_scope() -> Program:
    """Recomputation without any scope around it."""
    return Program(fit(InScope(), data(5), data(17)), {(5, 11): "a", (11, 13): "b", (13, 17): "c"})


class Adversaries(keras.Model):
    """Two models with an optimizer each, called several times per step."""

    def __init__(self) -> None:
        super().__init__()
        layers = [L.Dense(11, name="up"), L.Dense(13, name="out")]
        self.maker = keras.Sequential([keras.Input((5,)), *layers], name="maker")
        layers = [L.Dense(17, name="up"), L.Dense(19, name="out")]
        self.judge = keras.Sequential([keras.Input((13,)), *layers], name="judge")
        self.of_maker = keras.optimizers.Adam(name="of_maker")
        self.of_judge = keras.optimizers.SGD()
        self.loss_of = keras.losses.MeanSquaredError()

    def train_step(self, batch: Any) -> Any:
        """Both, one after the other."""
        real, noise = batch
        with tf.GradientTape() as tape:
            false = self.judge(self.maker(noise))
            loss = self.loss_of(tf.ones((BATCH, 19)), self.judge(real)) - tf.reduce_mean(false)
        weights = self.judge.trainable_variables
        self.of_judge.apply(tape.gradient(loss, weights), weights)
        with tf.GradientTape() as tape:
            loss = self.loss_of(tf.ones((BATCH, 19)), self.judge(self.maker(noise)))
        weights = self.maker.trainable_variables
        self.of_maker.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


def adversaries() -> Program:
    """Two models, two optimizers, layers of one name in each."""
    model = Adversaries()
    model.compile(jit_compile=False)
    x, y = data(13), data(5)
    truth = {(5, 11): "maker.up", (11, 13): "maker.out", (13, 17): "judge.up"}
    truth |= {(17, 19): "judge.out"}
    return Program(lambda: model.fit(x, y, batch_size=BATCH, verbose=0, shuffle=False), truth)


ALL: dict[str, Callable[[], Program]] = {
    make.__name__: make
    for make in (
        functional,
        sequential,
        subclassed,
        shared,
        same_names,
        own_step,
        recurrent,
        attention,
        several_per_execution,
        ragged,
        own_loop,
        mixed_precision,
        rematerialised,
        remat_scope,
        adversaries,
    )
}
