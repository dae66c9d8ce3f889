"""Every layer, activation, loss, optimizer and metric of Keras, traced with its gradient: which ops have no rule?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")

from hroof.launches import Work  # noqa: E402
from hroof.units import Pipe, Precision  # noqa: E402
from hroof_keras.counting import Buffers  # noqa: E402
from tests.integrations.hroof_keras.counting.traced import gradient, trace  # noqa: E402

WITHOUT_RULE = {"ImageProjectiveTransformV3"}
"""What is known to be unknown: random rotations and zooms of images."""

L = keras.layers
ROW, LINE, IMAGE, VOLUME = (2, 6), (2, 8, 4), (2, 8, 8, 4), (2, 4, 6, 6, 4)
PAIR = [LINE, LINE]

LAYERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "Dense": (lambda: L.Dense(3), ROW),
    "EinsumDense": (lambda: L.EinsumDense("abc,cd->abd", (None, 5)), LINE),
    "Conv1D": (lambda: L.Conv1D(6, 3, padding="causal"), LINE),
    "Conv1DTranspose": (lambda: L.Conv1DTranspose(6, 3, 2), LINE),
    "Conv2D dilated": (lambda: L.Conv2D(4, 3, dilation_rate=2), IMAGE),
    "Conv2D grouped": (lambda: L.Conv2D(4, 3, groups=2), IMAGE),
    "Conv2DTranspose": (lambda: L.Conv2DTranspose(6, 3, 2), IMAGE),
    "Conv3D": (lambda: L.Conv3D(6, 3), VOLUME),
    "Conv3DTranspose": (lambda: L.Conv3DTranspose(6, 3, 2), VOLUME),
    "DepthwiseConv1D": (lambda: L.DepthwiseConv1D(3), LINE),
    "DepthwiseConv2D": (lambda: L.DepthwiseConv2D(3, dilation_rate=2), IMAGE),
    "SeparableConv1D": (lambda: L.SeparableConv1D(4, 3), LINE),
    "SeparableConv2D": (lambda: L.SeparableConv2D(4, 3), IMAGE),
    "MaxPooling1D": (lambda: L.MaxPooling1D(2), LINE),
    "MaxPooling3D": (lambda: L.MaxPooling3D(2), VOLUME),
    "AveragePooling1D": (lambda: L.AveragePooling1D(2), LINE),
    "AveragePooling2D": (lambda: L.AveragePooling2D(2), IMAGE),
    "AveragePooling3D": (lambda: L.AveragePooling3D(2), VOLUME),
    "GlobalMaxPooling2D": (lambda: L.GlobalMaxPooling2D(), IMAGE),
    "GlobalAveragePooling3D": (lambda: L.GlobalAveragePooling3D(), VOLUME),
    "LSTM": (lambda: L.LSTM(4), LINE),
    "GRU": (lambda: L.GRU(4, return_sequences=True), LINE),
    "SimpleRNN": (lambda: L.SimpleRNN(4), LINE),
    "LSTM unrolled": (lambda: L.LSTM(4, unroll=True), LINE),
    "ConvLSTM2D": (lambda: L.ConvLSTM2D(3, 3, unroll=True), VOLUME),
    "Bidirectional": (lambda: L.Bidirectional(L.LSTM(3)), LINE),
    "TimeDistributed": (lambda: L.TimeDistributed(L.Dense(3)), LINE),
    "BatchNormalization": (lambda: L.BatchNormalization(), IMAGE),
    "LayerNormalization": (lambda: L.LayerNormalization(), LINE),
    "GroupNormalization": (lambda: L.GroupNormalization(2), IMAGE),
    "UnitNormalization": (lambda: L.UnitNormalization(), LINE),
    "SpectralNormalization": (lambda: L.SpectralNormalization(L.Dense(3)), ROW),
    "Normalization": (lambda: L.Normalization(mean=0.5, variance=2.0), ROW),
    "Dropout": (lambda: L.Dropout(0.1), ROW),
    "SpatialDropout2D": (lambda: L.SpatialDropout2D(0.1), IMAGE),
    "GaussianDropout": (lambda: L.GaussianDropout(0.1), ROW),
    "GaussianNoise": (lambda: L.GaussianNoise(0.1), ROW),
    "AlphaDropout": (lambda: L.AlphaDropout(0.1), ROW),
    "PReLU": (lambda: L.PReLU(), ROW),
    "UpSampling2D": (lambda: L.UpSampling2D(2), IMAGE),
    "UpSampling2D bilinear": (lambda: L.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    "UpSampling2D bicubic": (lambda: L.UpSampling2D(2, interpolation="bicubic"), IMAGE),
    "UpSampling3D": (lambda: L.UpSampling3D(2), VOLUME),
    "ZeroPadding2D": (lambda: L.ZeroPadding2D(1), IMAGE),
    "Cropping2D": (lambda: L.Cropping2D(1), IMAGE),
    "Permute": (lambda: L.Permute((2, 1)), LINE),
    "RepeatVector": (lambda: L.RepeatVector(3), ROW),
    "Resizing": (lambda: L.Resizing(4, 4), IMAGE),
    "Rescaling": (lambda: L.Rescaling(0.5), IMAGE),
    "RandomFlip": (lambda: L.RandomFlip(), IMAGE),
    "RandomContrast": (lambda: L.RandomContrast(0.1), IMAGE),
    "RandomRotation": (lambda: L.RandomRotation(0.1), IMAGE),
    "CenterCrop": (lambda: L.CenterCrop(4, 4), IMAGE),
    "MultiHeadAttention": (lambda: L.MultiHeadAttention(2, 4), (LINE, LINE)),
    "GroupQueryAttention": (lambda: L.GroupQueryAttention(4, 4, 2), (LINE, LINE)),
    "Attention": (lambda: L.Attention(), PAIR),
    "AdditiveAttention": (lambda: L.AdditiveAttention(), PAIR),
    "Dot": (lambda: L.Dot(1), PAIR),
    "Maximum": (lambda: L.Maximum(), PAIR),
    "Concatenate": (lambda: L.Concatenate(), PAIR),
}
"""How each is made, and the shape of its input; a list is one argument, a tuple of shapes several."""


def unknown(function: Callable[..., Any], *arguments: Any) -> set[str]:
    """Types of the nodes without FLOP, those apart whose shapes TensorFlow does not know before it runs."""
    buffers = Buffers()
    missing = {
        item.node.op for item in trace(function, *arguments) if item.work(buffers).nominal is None
    }
    unshaped = {fault.partition(":")[0] for fault in buffers.faults if "is not known" in fault}
    assert all("is not known" in fault for fault in buffers.faults), buffers.faults
    return missing - unshaped


def _called(layer: Any, several: bool) -> Callable[..., Any]:
    trains = "training" in inspect.signature(type(layer).call).parameters
    how = {"training": True} if trains else {}
    return (lambda *x: layer(list(x), **how)) if several else (lambda *x: layer(*x, **how))


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    make, shapes = LAYERS[name]
    layer = make()
    single = isinstance(shapes[0], int)
    arguments = [shapes] if single else shapes
    function = gradient(_called(layer, isinstance(shapes, list)))
    assert unknown(function, *arguments) <= WITHOUT_RULE


def _activations() -> Iterator[str]:
    for name, member in inspect.getmembers(keras.activations, inspect.isfunction):
        if name not in ("deserialize", "get", "serialize", "threshold"):
            assert member is not None
            yield name


@pytest.mark.parametrize("name", list(_activations()))
def test_activations(name: str) -> None:
    assert unknown(gradient(getattr(keras.activations, name)), ROW) == set()


def _losses() -> Iterator[str]:
    for name, _ in inspect.getmembers(keras.losses, inspect.isclass):
        if name not in ("Loss", "Circle", "CategoricalGeneralizedCrossEntropy", "CTC"):
            yield name


@pytest.mark.parametrize("name", list(_losses()))
def test_losses(name: str) -> None:
    loss = getattr(keras.losses, name)()
    targets = tf.zeros(4, tf.int32) if name.startswith("Sparse") else tf.ones((4, 5))
    assert unknown(gradient(lambda p: loss(targets, tf.nn.softmax(p))), (4, 5)) == set()


OPTIONS: list[dict[str, Any]] = [
    {},
    *({"clipnorm": 1.0}, {"global_clipnorm": 1.0}, {"clipvalue": 0.5}, {"use_ema": True}),
    *({"weight_decay": 0.1}, {"gradient_accumulation_steps": 2}),
]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, _ in inspect.getmembers(keras.optimizers, inspect.isclass)
        if name not in ("Optimizer", "LossScaleOptimizer", "MultiOptimizer", "OptimizerMap")
    ],
)
def test_optimizers(name: str) -> None:
    for options in OPTIONS:
        assert unknown(_update(getattr(keras.optimizers, name)(**options)), (5, 4)) == set(), (
            options
        )


def _update(optimizer: Any) -> Callable[..., Any]:
    """One update of a matrix."""
    variable = keras.Variable(tf.ones((5, 4)))
    optimizer.build([variable])
    return lambda g: optimizer.apply([g], [variable])


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' own
def test_quantised_layers_multiply_small_integers() -> None:
    """Counted as integer operations, never as FLOP."""
    layer = L.Dense(3)
    layer.build((2, 6))
    layer.quantize("int8")
    work = Work.total(item.work() for item in trace(layer, (2, 6)))
    assert work.nominal is not None
    assert work.nominal[Pipe.MATRIX, Precision.INT8] == 2 * 2 * 6 * 3
    assert (Pipe.MATRIX, Precision.FP32) not in work.nominal


def test_loss_scaling() -> None:
    optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())
    assert unknown(_update(optimizer), (5, 4)) == set()


@pytest.mark.parametrize(
    "name", ["Accuracy", "AUC", "F1Score", "TopKCategoricalAccuracy", "Precision"]
)
def test_metrics(name: str) -> None:
    metric = getattr(keras.metrics, name)()

    def update(p: Any) -> Any:
        metric.update_state(tf.cast(p > 0, tf.float32), p)
        return p

    assert unknown(update, (4, 5)) == set()
