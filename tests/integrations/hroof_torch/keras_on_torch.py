"""Keras on the torch backend; ``test_keras_backend.py`` runs this file in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

if os.environ.get("KERAS_BACKEND") != "torch":
    pytest.skip("only with KERAS_BACKEND=torch", allow_module_level=True)

import keras
import numpy as np
import torch
from torch import nn

import hroof
from hroof import integration
from hroof.launches import LOSS_NAME
from hroof.regions import Kind, Mark, listen, unlisten
from hroof.units import Phase
from hroof_torch.tracking import keras_layers
from hroof_torch.tracking.layers import LayerMap, walk
from hroof_torch.tracking.tracker import Frame, Tracker
from tests.integrations.hroof_keras import models
from tests.integrations.hroof_torch.seeing import Seen, see, seeing

Model = Any
MODELS: dict[str, Callable[..., models.Workload]] = {
    "cnn": models.cnn,
    "gpt": models.transformer,
    "rnn": models.lstm,
}
SKIP, STEPS = 2, 2


@pytest.fixture(autouse=True, scope="module")
def torch_is_measured() -> None:
    """Keras is imported here on purpose: which of the two measures is for regions to find out."""


@pytest.fixture(autouse=True)
def torch_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions are captured by the PyTorch integration, whatever else is imported."""
    monkeypatch.setattr(integration, "active", lambda: [integration.load("torch")])


def batches(workload: models.Workload) -> Iterator[tuple[Any, Any]]:
    """The batches of a model's data, for ever."""
    model, x, y = workload
    size = models.BATCH[model.name]
    while True:
        for start in range(0, len(x), size):
            yield x[start : start + size], y[start : start + size]


def seen_training(workload: models.Workload, *, skip: int = SKIP, steps: int = STEPS) -> Seen:
    """What a capture says of training steps; each ends with ``hroof.step()``."""
    model, data = workload[0], batches(workload)
    with seeing(skip=skip, steps=steps) as seen:
        for _ in range(skip + 1 + steps):
            model.train_on_batch(*next(data))
            hroof.step()
    return seen


@pytest.fixture(scope="module")
def seen() -> dict[str, Seen]:
    """What a capture says of each model."""
    before, integration.active = integration.active, lambda: [integration.load("torch")]
    try:
        return {name: seen_training(make()) for name, make in MODELS.items()}
    finally:
        integration.active = before


def truth(name: str) -> dict[tuple[str, str], float]:
    """Hand counts as PyTorch executes a step.

    No gradient of an LSTM's initial state is computed, and attention is one op whose backward recomputes the scores
    (2.5 times its forward instead of twice).
    """
    counted: dict[tuple[str, str], float] = {}
    for (layer, phase), flop in models.TRUTH[name].items():
        share = 1.25 if layer.endswith(".att") and phase == "backward" else 1.0
        counted[layer, phase] = flop * share
    if name == "rnn":
        initial = 2 * models.BATCH["rnn"] * models.UNITS * 4 * models.UNITS
        for layer in ("lstm1", "lstm2"):
            counted[layer, "backward"] -= initial
    return counted


def matrix_by_place(ops: list[Any]) -> dict[tuple[str, str], float]:
    """Matrix FLOP by (layer, phase); what an LSTM's cell does counts as the LSTM's."""
    found: dict[tuple[str, str], float] = {}
    for op in ops:
        if op.matrix:
            place = (str(op.layer).removesuffix(".lstm_cell"), op.phase)
            found[place] = found.get(place, 0.0) + op.matrix
    return found


# --- the three models -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_matrix_flop_are_the_hand_counts(seen: dict[str, Seen], name: str) -> None:
    assert matrix_by_place(seen[name].counted) == truth(name)


@pytest.mark.parametrize("name", MODELS)
def test_timed_steps_have_the_same_work(seen: dict[str, Seen], name: str) -> None:
    timed = matrix_by_place(seen[name].timed)
    assert {place: flop / STEPS for place, flop in timed.items()} == truth(name)


@pytest.mark.parametrize("name", MODELS)
def test_nearly_all_time_has_a_place(seen: dict[str, Seen], name: str) -> None:
    """A layer or the loss in forward and backward, or the phase of the optimizer or the data."""
    rows = seen[name].launches
    placed = rows["layer"].notna() | rows["phase"].astype(str).isin(["optimizer", "data", "loss"])
    assert rows.loc[placed, "duration"].sum() / rows["duration"].sum() >= 0.99


@pytest.mark.parametrize("name", MODELS)
def test_nearly_all_work_of_the_optimizer_has_a_layer(seen: dict[str, Seen], name: str) -> None:
    rows = seen[name].launches
    optimizer = rows[rows["phase"].astype(str) == "optimizer"]
    moved = optimizer["bytes_read"].sum() + optimizer["bytes_written"].sum()
    known = optimizer[optimizer["layer"].notna()]
    assert (known["bytes_read"].sum() + known["bytes_written"].sum()) / moved >= 0.99


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_the_same_bit_for_bit(name: str) -> None:
    def losses(region: bool) -> list[Any]:
        workload = MODELS[name](seed=1)
        data, found = batches(workload), []
        with hroof.region(skip=1, steps=1, show=False) if region else hroof_nowhere():
            for _ in range(4):
                found.append(workload[0].train_on_batch(*next(data)))
                hroof.step()
        weights = [weight.value.detach().clone().numpy() for weight in workload[0].weights]
        return [*found, *weights]

    with_hroof, without = losses(True), losses(False)
    assert all(np.array_equal(a, b) for a, b in zip(with_hroof, without, strict=True))


class hroof_nowhere:
    """In place of a region."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def test_layers_have_the_names_that_users_gave(seen: dict[str, Seen]) -> None:
    assert set(seen["cnn"].names) == {
        "cnn", "block1_conv1", "block1_bn", "block1_pool", "block2_conv1", "block2_bn",
        "block2_pool", "flat", "fc1", "drop", "logits",
    }  # fmt: skip
    parts = ("ln1", "att", "att.query", "att.key", "att.value", "att.attention_output", "ln2")
    for block in ("block0", "block1"):
        assert {f"{block}.{part}" for part in (*parts, "ffn1", "ffn2")} < set(seen["gpt"].names)


def test_the_layers_of_the_run_hold_all_parameters(seen: dict[str, Seen]) -> None:
    """As ``model.count_params()`` has them, each once."""
    for name, total in (("cnn", 545_482), ("gpt", 653_800), ("rnn", 231_690)):
        profile = seen[name].profile
        assert profile is not None
        assert sum(layer["parameters"] for layer in profile.run["layers"]) == total
    layers = {layer["name"]: layer for layer in seen["cnn"].profile.run["layers"]}  # type: ignore[union-attr]
    assert layers["block1_bn"]["parameters"] == 4 * 32
    assert layers["cnn"]["container"] and not layers["fc1"]["container"]


def test_phases_are_those_of_a_training_step(seen: dict[str, Seen]) -> None:
    for found in seen.values():
        assert {"forward", "loss", "backward", "optimizer"} <= {op.phase for op in found.counted}
        losses = [op for op in found.ops("loss") if op.op == "aten::_log_softmax"]
        assert [op.layer for op in losses] == [LOSS_NAME]
        assert found.places("aten::_log_softmax_backward_data", "backward") == [LOSS_NAME]


# --- names ----------------------------------------------------------------------------------------


def names(model: Model, *inputs: Any) -> list[str]:
    """The layers that a forward pass runs through, in order, by name."""
    layers = LayerMap()
    tracker = Tracker(layers)
    entered: list[int] = []

    class Notes:
        def enter(self, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            assert frame.layer is not None and frame.phase is Phase.FORWARD
            entered.append(frame.layer)

        def leave(self, frame: Frame, output: Any) -> None: ...

    tracker.attach(Notes())
    try:
        model(*inputs)
    finally:
        tracker.detach()
    found = layers.names()
    return [found[layer] for layer in entered]


ONES = np.ones((2, 4), "float32")


def dense(name: str, units: int = 4) -> Any:
    return keras.layers.Dense(units, name=name)


def test_a_sequential_model() -> None:
    layers = [keras.Input((4,)), dense("a"), keras.layers.ReLU(name="r")]
    assert names(keras.Sequential(layers, name="m"), ONES) == ["m", "a", "r"]


def test_nested_models_and_layers_of_one_name_in_different_places() -> None:
    inner = keras.Sequential([keras.Input((4,)), dense("d")], name="inner")
    model = keras.Sequential([keras.Input((4,)), inner, dense("d")], name="m")
    assert names(model, ONES) == ["m", "inner", "inner.d", "d"]


def test_a_shared_layer_is_one_layer() -> None:
    shared = dense("shared")
    x = keras.Input((4,))
    model = keras.Model(x, shared(shared(x)), name="m")
    assert names(model, ONES) == ["m", "shared", "shared"]


class TwoOfOneName(keras.Model):
    """Two different layers in one model have one name, which Keras allows here."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.first, self.second = dense("same"), dense("same", 3)

    def call(self, x: Any) -> Any:
        return self.second(self.first(x))


def test_layers_of_one_name_are_told_apart() -> None:
    model = TwoOfOneName(name="two")
    model(ONES)
    assert names(model, ONES) == ["two", "same", "same#2"]


class InContainers(keras.Model):
    """Layers in a list and a dictionary; another is made when the model is built."""

    def __init__(self) -> None:
        super().__init__(name="m")
        self.blocks = [dense(f"block{number}") for number in range(2)]
        self.heads = {"left": dense("left")}

    def build(self, shape: Any) -> None:
        self.late = keras.Sequential([dense("inside")], name="late")

    def call(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.heads["left"](self.late(x))


def test_layers_in_containers_and_layers_that_build_makes() -> None:
    expected = ["m", "block0", "block1", "late", "late.inside", "left"]
    assert names(InContainers(), ONES) == expected, "while it is built"
    model = InContainers()
    model(ONES)
    assert names(model, ONES) == expected


def test_a_module_of_torch_inside_keras() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.TorchModuleWrapper(module, name="wrapped"), dense("d")],
        name="m",
    )
    path = "wrapped.module"
    expected = ["m", "wrapped", path, f"{path}.0", f"{path}.1", "d"]
    assert names(model, ONES) == expected
    layers = LayerMap()
    layers.at(model, None)
    owner = layers.of_parameter(module[0].weight)
    assert owner is not None and layers.names()[owner] == f"{path}.0"


def test_keras_inside_a_module_of_torch() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = keras.Sequential([keras.Input((4,)), dense("d")])
            self.head = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x))

    assert names(Net(), torch.ones(2, 4)) == ["Net", "body", "body.d", "head"]


def test_recurrent_wrappers() -> None:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.Bidirectional(layers.SimpleRNN(2, name="rnn", return_sequences=True), name="bi"),
            layers.TimeDistributed(dense("d"), name="each"),
        ],
        name="m",
    )
    found = names(model, np.ones((2, 3, 4), "float32"))
    assert [name for name in found if "cell" not in name] == [
        "m", "bi", "bi.forward_rnn", "bi.backward_rnn", "each",
    ], "TimeDistributed runs its layer's call() itself"  # fmt: skip
    assert found.count("bi.forward_rnn.simple_rnn_cell") >= 3


# --- what is not computed, and what goes wrong ------------------------------------------------------


def test_shapes_that_are_only_inferred_are_no_calls_and_no_work() -> None:
    def step() -> None:
        model = keras.Sequential([keras.Input((4,)), dense("a")], name="m")
        model(ONES)
        hroof.step()

    found = see(step, skip=0)
    products = [op for op in found.counted if op.op in ("aten::mm", "aten::addmm")]
    assert [op.shapes[-1] for op in products] == [(4, 4)]
    assert {name.partition("#")[0].split(".")[0] for name in found.names} == {"m"}


def test_a_model_that_is_built_in_the_first_counted_step() -> None:
    model = InContainers()
    model.compile(keras.optimizers.SGD(0.1), "mse")

    def step() -> None:
        model.train_on_batch(ONES, ONES)
        hroof.step()

    found = see(step, skip=0)
    backward = set(found.places("aten::mm", "backward"))
    assert backward == {"block0", "block1", "late.inside", "left"}
    assert found.profile is not None
    sizes = {layer["name"]: layer["parameters"] for layer in found.profile.run["layers"]}
    assert sizes["block0"] == sizes["late.inside"] == 4 * 4 + 4
    assert {op.phase for op in found.counted} >= {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_in_a_layer_unwinds(error: type[BaseException]) -> None:
    class Fails(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            if not x.is_meta:
                raise error
            return x

    model = keras.Sequential([dense("a"), Fails()])
    tracker = Tracker(LayerMap())
    tracker.attach()
    try:
        with pytest.raises(error):
            model(ONES)
        assert tracker.stack == []
    finally:
        tracker.detach()


def test_everything_is_put_back() -> None:
    kinds = (keras.Layer, keras.optimizers.Optimizer.__mro__[-3], nn.Module)
    before = [vars(kind).get(name) for kind in kinds for name in ("__call__", "apply")]
    optimizer = keras.optimizers.SGD()
    apply = optimizer.apply.__func__
    tracker = Tracker(LayerMap())
    tracker.attach()
    assert keras.Layer.__call__ is not before[0]
    assert optimizer.apply.__func__ is not apply
    tracker.detach()
    assert [vars(kind).get(name) for kind in kinds for name in ("__call__", "apply")] == before
    assert optimizer.apply.__func__ is apply


def test_following_a_model_writes_nothing_into_it() -> None:
    model = InContainers()
    before = set(vars(model)) | set(model._modules)
    layers = LayerMap()
    layers.at(model, None)
    layers.names()
    assert set(vars(model)) | set(model._modules) == before


# --- optimizers, precision, recomputation -------------------------------------------------------------


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(),
    "clipped": lambda: keras.optimizers.AdamW(global_clipnorm=1.0),
    "accumulated": lambda: keras.optimizers.Adam(gradient_accumulation_steps=1000),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
    "one by one": lambda: keras.optimizers.Adafactor(),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizer_work_goes_to_the_layers_whose_weights_it_updates(kind: str) -> None:
    """The layers are told apart by their sizes alone: 3 to 1 in elements, and so in shares."""
    model = keras.Sequential([keras.Input((32,)), dense("wide", 96), dense("narrow", 32)])
    model.compile(OPTIMIZERS[kind](), "mse")
    x = np.ones((2, 32), "float32")

    def step() -> None:
        model.train_on_batch(x, x)
        hroof.step()

    rows = see(step).launches
    rows = rows[rows["phase"].astype(str) == "optimizer"]
    by_layer = rows.groupby(rows["layer"].astype(str))["bytes_written"].sum()
    elements = {"wide": 32 * 96 + 96, "narrow": 96 * 32 + 32}
    assert set(elements) <= set(by_layer.index)
    ratio = by_layer["wide"] / by_layer["narrow"]
    assert ratio == pytest.approx(elements["wide"] / elements["narrow"], rel=0.05)
    assert (by_layer["wide"] + by_layer["narrow"]) / by_layer.sum() > 0.9


def test_mixed_precision_counts_in_the_precision_that_runs() -> None:
    model = keras.Sequential(
        [keras.Input((32,)), keras.layers.Dense(8, name="d", dtype="mixed_bfloat16")]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x, y = np.ones((4, 32), "float32"), np.ones((4, 8), "float32")

    def step() -> None:
        model.train_on_batch(x, y)
        hroof.step()

    rows = see(step).launches
    forward = rows[rows["phase"].astype(str) == "forward"]
    assert forward["flop_nominal_matrix_bf16"].sum() == 2 * 4 * 32 * 8
    casts = forward[forward["op"].astype(str).isin(["aten::_to_copy", "aten::copy_"])]
    assert set(casts["layer"].astype(str)) == {"d"}, "casts of inputs and weights are the layer's"


def test_recomputed_work_is_marked() -> None:
    with keras.RematScope(mode="full"):
        layer = dense("again", 8)
    model = keras.Sequential([keras.Input((4,)), dense("before"), layer])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x, y = np.ones((2, 4), "float32"), np.ones((2, 8), "float32")

    def step() -> None:
        model.train_on_batch(x, y)
        hroof.step()

    again = {op.layer for op in see(step).counted if op.recompute and op.matrix}
    assert again <= {"again"}


# --- fit, as users run it -----------------------------------------------------------------------------


@pytest.fixture
def as_users_run_it(torch_measures: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions find out themselves who measures."""
    monkeypatch.undo()


def matrix_per_step(run: Any) -> list[float]:
    rows = run.profile.launches
    columns = [name for name in rows.columns if name.startswith("flop_nominal_matrix_")]
    return list(rows[columns].sum(axis=1).groupby(rows["step"]).sum())


@pytest.mark.usefixtures("as_users_run_it")
def test_the_callback_in_fit() -> None:
    import hroof_keras

    model, x, y = models.cnn()
    callback = hroof_keras.RooflineCallback(skip=2, steps=2, show=False)
    model.fit(x, y, batch_size=models.BATCH["cnn"], verbose=0, callbacks=[callback])
    assert callback.run.outcome.status == "complete"
    assert matrix_per_step(callback.run) == [models.MATRIX_FLOP["cnn"]] * 2
    run = callback.profile.run
    assert {"torch", "keras"} <= set(run["versions"])
    assert run["framework"] in ("torch", "keras")


@pytest.mark.usefixtures("as_users_run_it")
def test_a_validation_between_steps_belongs_to_none() -> None:
    """Two batches per epoch: a validation runs before the counted step and between the timed ones."""
    import hroof_keras

    size = models.BATCH["cnn"]
    model, x, y = models.cnn(batches=2)
    callback = hroof_keras.RooflineCallback(skip=2, steps=3, show=False)
    model.fit(
        x,
        y,
        batch_size=size,
        epochs=4,
        validation_data=(x[: size // 2], y[: size // 2]),
        verbose=0,
        callbacks=[callback],
    )
    assert matrix_per_step(callback.run) == [models.MATRIX_FLOP["cnn"]] * 3
    convolutions = callback.profile.launches
    convolutions = convolutions[
        (convolutions["phase"].astype(str) == "forward")
        & (convolutions["op"].astype(str).str.contains("conv"))
        & (convolutions["flop_nominal_matrix_fp32"] > 0)
    ]
    assert list(convolutions.groupby("step")["launches"].sum()) == [2, 2, 2]


@pytest.mark.usefixtures("as_users_run_it")
def test_evaluate_alone_is_measured_as_inference() -> None:
    import hroof_keras

    model, x, y = models.cnn()
    callback = hroof_keras.RooflineCallback(skip=1, steps=2, show=False)
    model.evaluate(x, y, batch_size=models.BATCH["cnn"], verbose=0, callbacks=[callback])
    forward = sum(flop for (_, phase), flop in truth("cnn").items() if phase == "forward")
    assert matrix_per_step(callback.run) == [forward] * 2
    phases = set(callback.profile.launches["phase"].astype(str))
    assert "forward" in phases and not phases & {"backward", "optimizer"}


@pytest.mark.usefixtures("as_users_run_it")
def test_a_region_around_fit_needs_no_callback() -> None:
    model, x, y = models.cnn()
    with hroof.region("fit", skip=2, steps=2, show=False) as run:
        model.fit(x, y, batch_size=models.BATCH["cnn"], verbose=0)
    assert matrix_per_step(run) == [models.MATRIX_FLOP["cnn"]] * 2


@pytest.mark.usefixtures("as_users_run_it")
def test_a_loop_of_the_users_own() -> None:
    """As Keras' guide to training loops in PyTorch has it: no callback, no ``hroof.step()``."""
    model, x, y = models.cnn()
    data = batches((model, x, y))
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hroof.region("own", skip=2, steps=2, show=False) as run:
        for _ in range(6):
            images, labels = next(data)
            loss = loss_of(torch.as_tensor(labels), model(images, training=True))
            model.zero_grad()
            loss.backward()
            trained = model.trainable_weights
            with torch.no_grad():
                model.optimizer.apply([weight.value.grad for weight in trained], trained)
    assert matrix_per_step(run) == [models.MATRIX_FLOP["cnn"]] * 2


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What Keras keeps of a model without data must not meet the next one."""
    yield
    keras.utils.clear_session()


@pytest.mark.usefixtures("forgotten")
def test_a_step_on_paper() -> None:
    """Initial weights and dropout are random, and a tensor without data has no seed to look at."""
    from hroof_torch.capturing.paper import count

    def build() -> Callable[[], object]:
        model, x, y = models.cnn(batches=1)
        data = torch.as_tensor(x), torch.as_tensor(y)
        return lambda: model.train_step(data)

    profile = count(build)
    rows = profile.launches
    assert rows["flop_nominal_matrix_fp32"].sum() == models.MATRIX_FLOP["cnn"]
    assert profile.run["ops_without_rule"] == profile.run["warnings"] == []
    optimizer = rows[rows["phase"].astype(str) == "optimizer"]
    assert {"block1_conv1", "block1_bn", "fc1"} <= set(optimizer["layer"].astype(str))


# --- marks, and the private names --------------------------------------------------------------------


def test_layers_and_phases_become_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HROOF", "marks")
    heard: list[Mark] = []

    class Listener:
        def start(self, mark: Mark) -> object:
            heard.append(mark)
            return mark

        def end(self, handle: object) -> None: ...

        def push(self, mark: Mark) -> None:
            heard.append(mark)

        def pop(self) -> None: ...

    model = keras.Sequential([keras.Input((4,)), dense("a"), dense("b")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    listener: Any = Listener()
    listen(listener)
    try:
        with hroof.region(skip=1, steps=1, show=False):
            for _ in range(3):
                model.train_on_batch(ONES, ONES)
                hroof.step()
    finally:
        unlisten(listener)
    layers = {(mark.name, mark.phase) for mark in heard if mark.kind is Kind.LAYER}
    assert {(name, phase) for name in "ab" for phase in ("forward", "backward")} <= layers
    phases = {mark.name for mark in heard if mark.kind is Kind.PHASE}
    assert {"forward", "loss", "backward", "optimizer"} <= phases


def test_the_private_names_of_keras_are_there() -> None:
    model = keras.Sequential([keras.Input((4,)), dense("a")])
    optimizer = keras.optimizers.SGD(momentum=0.9)
    optimizer.build(model.trainable_variables)
    assert [part.name for part in model._flatten_layers(include_self=False, recursive=False)][
        -1
    ] == "a"
    assert isinstance(model.weights[0]._value, torch.Tensor)
    assert list(optimizer._trainable_variables) == model.trainable_variables
    assert isinstance(model._modules[keras_layers._PARAMETERS], nn.ParameterDict)
    view = keras_layers.view_of(optimizer)
    parameters = view.param_groups[0]["params"]
    assert [tuple(tensor.shape) for tensor in parameters] == [(4, 4), (4,)]
    momenta = {id(variable._value) for variable in optimizer.momentums}
    assert {id(kept) for state in view.state.values() for kept in state.values()} == momenta
    assert callable(keras.src.backend.torch.random.torch_seed_generator)


def test_walking_a_model_ends_with_every_layer_once() -> None:
    model, *_ = models.transformer()
    paths = [path for _, path in walk(model)]
    assert len(paths) == len(set(paths)) > 20
