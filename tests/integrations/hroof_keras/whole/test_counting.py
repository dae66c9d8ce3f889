"""One training step of the three models, every executed node: matrix work against the hand counts, sums by rule."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")

from hroof.units import Pipe, Precision, Source  # noqa: E402
from hroof_keras.counting import has_rule, plain  # noqa: E402
from tests.integrations.hroof_keras import models  # noqa: E402
from tests.integrations.hroof_keras.stepped import (  # noqa: E402
    fit_step,
    graph_step,
    predict_step,
    run_step,
)

BUILD = models.BUILD


def flop_by_op(name: str, pipe: Pipe) -> Counter[str]:
    sums: Counter[str] = Counter()
    for op in graph_step(name).ops:
        if op.work.nominal is not None and op.work.flop(pipe):
            sums[plain(op.node.op)] += op.work.flop(pipe)  # type: ignore[assignment]
    return sums


def total(name: str, pipe: Pipe | None) -> float:
    works = [op.work for op in graph_step(name).ops if op.work.nominal is not None]
    return sum(work.flop(pipe) for work in works)


@pytest.mark.parametrize("name", BUILD)
def test_matrix_work_is_exactly_the_hand_count(name: str) -> None:
    assert total(name, Pipe.MATRIX) == models.MATRIX_FLOP[name]
    assert set(flop_by_op(name, Pipe.MATRIX)) <= {
        *("Conv2D", "FusedConv2D", "Conv2DBackpropInput", "Conv2DBackpropFilterWithBias"),
        *("Conv2DBackpropFilter", "MatMul", "FusedMatMul", "BatchMatMulV2", "Einsum"),
        "FusedBatchMatMulV2",
    }


@pytest.mark.parametrize("name", BUILD)
def test_least_work_leaves_out_padding_taps(name: str) -> None:
    """Of the convolutions only."""
    least = sum(
        value
        for op in graph_step(name).ops
        for (pipe, _), value in (op.work.least or {}).items()
        if pipe is Pipe.MATRIX
    )
    truth = models.TRUTH[name]
    missed = 0.0
    if name == "cnn":
        # In one dimension 3n − 2 of 3n pairs of tap and position meet an element.
        for layer, n in (("block1_conv1", 32), ("block2_conv1", 16)):
            both = truth[layer, "forward"] + truth[layer, "backward"]
            missed += both * (1 - ((3 * n - 2) / (3 * n)) ** 2)
    assert least == pytest.approx(models.MATRIX_FLOP[name] - missed, rel=1e-12)


def test_elementwise_work_of_the_models() -> None:
    """Sums by the convention of hroof, which is that of the PyTorch integration; exact, since all shapes are.

    They are 1,162,874,114 / 1,740,718,094 / 688,313,294 where softmax counts 5, sigmoid 4, the loss 7 per logit, the
    gradient of a max pool one per element that went in, and what Grappler composes one per element.
    """
    assert total("cnn", None) == 1_162_874_114 + (2_624 - 2_240) - (1_572_864 - 393_216)
    composed = 2 * 8 * 64 * 512
    softmax = 2 * 8 * 4 * 64 * 64
    assert total("gpt", None) == 1_740_718_094 + (4_097_024 - 3_584_000) - softmax + composed
    sigmoid = 3 * 2 * 32 * 16 * 128
    assert total("rnn", None) == 688_313_294 + (1_312 - 1_120) - sigmoid


def test_fused_work_of_the_cnn() -> None:
    """Bias and ReLU of two convolutions and two dense layers; the bias gradients of the convolutions."""
    fused = flop_by_op("cnn", Pipe.VECTOR)
    maps = 32 * (32 * 32 * 32 + 16 * 16 * 64)
    assert fused["FusedConv2D"] == 2 * maps
    assert fused["Conv2DBackpropFilterWithBias"] == maps
    assert fused["FusedMatMul"] == 2 * 32 * 128 + 32 * 10


def test_the_update_of_the_parameters_by_hand() -> None:
    """Adam adds to both moments and subtracts from the parameter, once per element."""
    for name, parameters in (("cnn", 545_290), ("gpt", 653_800), ("rnn", 231_690)):
        sums = flop_by_op(name, Pipe.VECTOR)
        assert sums["AssignSubVariableOp"] == parameters
        assert sums["Square"] >= parameters
        assert sums["RealDiv"] >= parameters


@pytest.mark.parametrize("name", BUILD)
def test_nearly_every_node_is_known(name: str) -> None:
    """All but sums of lists in the loops, whose elements only the data tells; they have their rule and say why."""
    found = graph_step(name)
    missing = Counter(op.node.op for op in found.ops if op.work.nominal is None)
    assert missing == ({"AddN": 32} if name == "rnn" else {})
    assert len(found.faults) == (name == "rnn")
    assert {op.node.op for op in found.ops if not has_rule(op.node.op)} == set()
    assert len(found.strangers) <= 0.01 * len(found.ops)


@pytest.mark.parametrize(("name", "megabytes"), [("cnn", 337.1), ("gpt", 358.8), ("rnn", 269.9)])
def test_bytes_of_the_models(name: str, megabytes: float) -> None:
    works = [op.work for op in graph_step(name).ops if op.work.nominal is not None]
    moved = sum(work.bytes_read + work.bytes_written for work in works)
    assert moved == pytest.approx(megabytes * 1e6, rel=1e-3)


@pytest.mark.parametrize("name", BUILD)
def test_accesses_add_up_to_the_bytes(name: str) -> None:
    """Every byte that is counted has a buffer."""
    for op in graph_step(name).ops:
        accesses = op.work.touch.accesses
        read = sum(access.nbytes for access in accesses if access.read)
        written = sum(access.nbytes for access in accesses if access.written)
        if not math.isnan(op.work.bytes_read + op.work.bytes_written):
            assert (read, written) == (op.work.bytes_read, op.work.bytes_written), op.node


def test_a_variable_is_one_buffer_from_read_to_update() -> None:
    """What the forward product reads as its weight is what the optimizer writes."""
    ops = graph_step("cnn").ops
    weights = {
        access.buffer
        for op in ops
        if plain(op.node.op) in ("FusedMatMul", "FusedConv2D")
        for access in op.work.touch.accesses
        if access.read
    }
    updated = {
        access.buffer
        for op in ops
        if plain(op.node.op) == "AssignSubVariableOp"
        for access in op.work.touch.accesses
        if access.written
    }
    # Two kernels of convolutions, two of dense layers, and the bias of each.
    assert len(weights & updated) == 8


@pytest.mark.parametrize(
    ("policy", "precision"),
    [("mixed_bfloat16", Precision.BF16), ("mixed_float16", Precision.FP16)],
)
def test_mixed_precision(policy: str, precision: Precision) -> None:
    """The same matrix work per sample in the narrow type; the loss scaling of fp16 is known as well."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        found = run_step(models.cnn, 4)
    finally:
        keras.config.set_dtype_policy(before)
    sums: Counter[Any] = Counter()
    for op in found.ops:
        assert op.work.source is not Source.MISSING, op.node
        for (pipe, kind), value in (op.work.nominal or {}).items():
            sums[pipe, kind] += value  # type: ignore[assignment]
    assert sums[Pipe.MATRIX, precision] == models.MATRIX_FLOP["cnn"] * 4 / 32
    assert sums[Pipe.MATRIX, Precision.FP32] == 0
    assert sums[Pipe.VECTOR, precision] > 0
    assert sums[Pipe.VECTOR, Precision.FP32] > 0


@pytest.mark.parametrize("name", BUILD)
def test_inference_is_the_forward_part(name: str) -> None:
    """TensorFlow rewrites it in other ways than training."""
    found = predict_step(BUILD[name](jit_compile=False), models.BATCH[name])
    forward = sum(flop for (_, phase), flop in models.TRUTH[name].items() if phase == "forward")
    assert sum(op.work.flop(Pipe.MATRIX) for op in found.ops) == forward
    assert {op.node.op for op in found.ops if op.work.nominal is None} == set()


def test_a_model_of_many_layers_has_no_unknown_op() -> None:
    """Grouped, depthwise, separable, transposed and 3-D convolutions, recurrent layers, norms, pools, losses."""
    layers = keras.layers
    inputs = keras.Input((8, 8, 4))
    x = layers.Conv2D(8, 3, groups=2, padding="same", activation="gelu")(inputs)
    x = layers.DepthwiseConv2D(3, padding="same")(x)
    x = layers.SeparableConv2D(8, 3, padding="same", activation="swish")(x)
    x = layers.GroupNormalization(2)(x)
    x = layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="elu")(x)
    x = layers.AveragePooling2D(2)(x)
    x = layers.Reshape((8, 8, 4, 1))(x)
    x = layers.Conv3D(2, 3, padding="same", activation="softplus")(x)
    x = layers.MaxPooling3D(2)(x)
    x = layers.Reshape((8, 8))(x)
    x = layers.Bidirectional(layers.GRU(4, return_sequences=True))(x)
    x = layers.Conv1D(4, 3, padding="causal", activation="tanh")(x)
    x = layers.UnitNormalization()(x)
    x = layers.GaussianNoise(0.1)(x)
    outputs = layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.AdamW(clipnorm=1.0),
        loss=keras.losses.CategoricalFocalCrossentropy(label_smoothing=0.1),
        metrics=["accuracy"],
        jit_compile=False,
    )
    data = tf.random.stateless_normal((8, 8, 8, 4), (1, 2)).numpy()
    targets = tf.one_hot([0, 1, 2, 0, 1, 2, 0, 1], 3).numpy()
    found = fit_step((model, data, targets), 4)
    lists = {"AddN"}
    assert {op.node.op for op in found.ops if op.work.nominal is None} <= lists
    assert all("lists" in fault for fault in found.faults), found.faults
