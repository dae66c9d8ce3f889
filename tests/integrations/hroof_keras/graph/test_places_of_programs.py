"""Layers and phases of matrix products in graph mode, against what their shapes alone tell."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

from hroof.units import Phase
from hroof_keras.graph.graphs import GraphCollection
from hroof_keras.graph.places import Places, place_of_name
from hroof_keras.profiling.events import Event
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.name_scopes import learn_name_scopes
from hroof_keras.scopes.recorder import Recorder
from tests.integrations.hroof_keras import programs
from tests.integrations.hroof_keras.following import Followed, follow
from tests.integrations.hroof_keras.programs import Program

SQUARE_OR_LOOP = {"shared", "recurrent"}
"""Programs with weights as wide as high, or products whose direction the shapes do not tell."""


@functools.cache
def followed(name: str) -> tuple[Program, Followed]:
    keras.utils.clear_session()
    program = programs.ALL[name]()
    return program, follow(program.run)


@pytest.fixture(autouse=True, scope="module")
def programs_are_kept_no_longer() -> Iterator[None]:
    """Their models are alive as long as they are kept."""
    yield
    followed.cache_clear()


def shapes(event: Event) -> list[tuple[int, ...]]:
    return [spec.shape for spec in event.shapes or () if spec is not None and spec.shape]


def weights_of(event: Event, truth: dict[tuple[int, int], str]) -> tuple[int, int] | None:
    """The (inputs, outputs) of the layer whose product this is: both lengths occur, last or next to last."""
    lengths = {length for shape in shapes(event) for length in shape[-2:]}
    found = [pair for pair in truth if set(pair) <= lengths]
    exact = [pair for pair in found if lengths <= {*pair, programs.BATCH, 3}]
    return (exact or found)[0] if len(exact or found) == 1 else None


def is_forward(event: Event, pair: tuple[int, int]) -> bool:
    """A product of activations (…, inputs) with weights (inputs, outputs)."""
    made = shapes(event)
    return made[0][-1] == pair[0] and made[1][-2:] == pair


@pytest.mark.parametrize("name", sorted(programs.ALL))
class TestProducts:
    @pytest.fixture(autouse=True)
    def a_program_of_its_own(self) -> None:
        """``followed`` sees to it when it makes one; after that there is nothing to clear."""

    def test_every_product_goes_to_the_layer_of_its_shape(self, name: str) -> None:
        program, seen = followed(name)
        wrong, checked = [], 0
        for event, _, layer in seen.products():
            pair = weights_of(event, program.truth)
            if pair is not None:
                checked += 1
                if layer != program.truth[pair]:
                    wrong.append((event.name, event.op, pair, layer))
        assert not wrong
        assert checked >= 2 * len(program.truth)

    def test_every_layer_is_seen_forward_and_backward(self, name: str) -> None:
        program, seen = followed(name)
        found = Counter((phase, layer) for _, phase, layer in seen.products())
        for layer in program.truth.values():
            assert found["forward", layer]
            assert found["backward", layer]

    def test_phases_are_those_of_the_shapes(self, name: str) -> None:
        program, seen = followed(name)
        if name in SQUARE_OR_LOOP:
            return
        wrong = []
        for event, phase, _ in seen.products():
            pair = weights_of(event, program.truth)
            if pair is None or len(shapes(event)) < 2:
                continue
            forward = is_forward(event, pair) and "Backprop" not in event.op
            again = seen.places.of(event.name).recompute
            if (phase == "forward") != (forward and not again):
                wrong.append((event.name, shapes(event), phase))
        assert not wrong

    def test_no_scope_is_ambiguous(self, name: str) -> None:
        assert not followed(name)[1].layers.ambiguous

    def test_known_ops(self, name: str) -> None:
        """By number; tiny models spend most of their time in what surrounds them."""
        _, seen = followed(name)
        ops = [event for event in seen.step() if event.op not in ("_Arg", "_Retval")]
        unknown = [e.name for e in ops if seen.places.of(e.name).rule == "none"]
        assert len(unknown) <= 0.01 * len(ops), unknown


def test_the_optimizers_ops_go_to_the_layers_of_their_variables() -> None:
    _, seen = followed("functional")
    counts = Counter(
        (seen.at(event.name)[1], seen.at(event.name)[2])
        for event in seen.step()
        if seen.at(event.name)[0] == "optimizer" and event.op != "_Arg"
    )
    # Adam does the same for each of the ten variables; conv2 has no bias.
    per_variable = counts["conv2", "variable"]
    assert per_variable > 20
    for layer in ("conv1", "norm", "fc", "out"):
        assert counts[layer, "variable"] == 2 * per_variable
    assert sum(number for (layer, _), number in counts.items() if layer is None) < 20


def test_several_optimizers() -> None:
    _, seen = followed("adversaries")
    assert seen.layers.optimizers == ("sgd", "of_maker")
    places = {
        (event.name.split("/")[1].split("_")[0], seen.at(event.name)[1])
        for event in seen.step()
        if seen.at(event.name)[0] == "optimizer" and event.op.startswith("Assign")
        if seen.at(event.name)[1] is not None
    }
    assert {layer for name, layer in places if name == "sgd"} == {"judge.up", "judge.out"}
    assert {layer for name, layer in places if name == "of"} == {"maker.up", "maker.out"}


def test_an_activation_that_is_fused_into_a_product_does_not_take_it() -> None:
    _, seen = followed("functional")
    fused = [
        event for event in seen.step() if event.name.endswith("/Relu") and "MatMul" in event.op
    ]
    assert [seen.at(event.name) for event in fused] == [("forward", "fc", "fused")] * len(fused)
    assert fused
    assert all("/act_" in event.name for event in fused)


def test_a_loss_by_hand_is_the_loss_forward_and_backward() -> None:
    _, seen = followed("own_step")
    found = Counter(
        (event.op, *seen.at(event.name)[:2])
        for event in seen.step()
        if seen.at(event.name)[1] == "(loss)"
    )
    assert found["Square", "loss", "(loss)"]
    assert found["Mean", "loss", "(loss)"]
    assert found["Sign", "backward", "(loss)"]
    assert all(key[1] in ("loss", "backward") for key in found)


@pytest.mark.parametrize(
    ("program", "again", "plain"),
    [("rematerialised", ["again.a"], "out"), ("remat_scope", ["a", "b"], "c")],
)
def test_recomputed_work_is_backward_and_says_so(
    program: str, again: list[str], plain: str
) -> None:
    _, seen = followed(program)
    products = [
        (layer, phase, seen.places.of(event.name).recompute)
        for event, phase, layer in seen.products()
    ]
    for layer in again:
        assert products.count((layer, "backward", True)) == 1
        assert products.count((layer, "forward", False)) == 1
    assert not any(repeated for layer, _, repeated in products if layer == plain)


def test_inside_loops_the_cell_is_reached() -> None:
    _, seen = followed("recurrent")
    layers = {layer for _, _, layer in seen.products()}
    for side in ("both.forward_lstm", "both.backward_lstm"):
        assert f"{side}.lstm_cell" in layers


def test_the_input_pipeline_is_data() -> None:
    _, seen = followed("functional")
    phases = {seen.places.of(e.name).phase for e in seen.step() if e.op.startswith("IteratorGet")}
    assert phases == {Phase.DATA}


def test_metrics_serve_neither_loss_nor_layers() -> None:
    model = keras.Sequential([programs.L.Dense(11, name="a")])
    options = {"metrics": ["accuracy", "mae"]}
    seen = follow(programs.fit(model, programs.data(5), programs.data(11), **options))
    by_op = {event.op: seen.at(event.name)[:2] for event in seen.step()}
    assert by_op["ArgMax"] == ("other", None)
    # The metric takes the difference that the loss has computed.
    assert by_op["Abs"] == ("other", None)


def test_a_penalty_on_weights_is_loss() -> None:
    layers = [programs.L.Dense(11, kernel_regularizer="l2", name="a"), programs.L.Dense(13)]
    seen = follow(programs.fit(keras.Sequential(layers), programs.data(5), programs.data(13)))
    penalty = [e for e in seen.step() if re.search(r"Call/(Square|Sum)$", e.name)]
    assert {seen.at(event.name)[:2] for event in penalty} == {("loss", "(loss)")}


def test_one_scope_for_two_layers_is_decided_by_the_function_that_ran() -> None:
    """Two models whose layers have one scope, each in a function of its own."""
    keras.utils.clear_session()
    one = keras.Sequential([keras.Input((5,)), programs.L.Dense(11, name="d")], name="m")
    two = keras.Sequential([keras.Input((13,)), programs.L.Dense(17, name="d")], name="m")
    layers, graphs = LayerMap(), GraphCollection()
    recorder = Recorder(layers)
    first, second = tf.function(lambda x: tf.exp(one(x))), tf.function(lambda x: tf.sqrt(two(x)))
    recorder.start()
    first(programs.data(5))
    graphs.start()
    second(programs.data(13))
    nodes = graphs.stop()
    recorder.stop()
    assert layers.ambiguous == ("m_1", "m_1/d_1")
    places = Places(layers, (), nodes)
    product = next(name for name, node in nodes.items() if "MatMul" in node.op)
    assert places.of(product).layer == layers.number_of(two.layers[0])
    assert place_of_name(layers, (), product) is None


def test_updates_by_hand_are_the_optimizers() -> None:
    """Momentum without an optimizer: moments and variables go to the layers."""
    model = keras.Sequential([keras.Input((5,)), programs.L.Dense(11, name="a")])
    moments = [tf.Variable(tf.zeros_like(w.value)) for w in model.weights]
    x, y = programs.data(5), programs.data(11)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        weights = [weight.value for weight in model.trainable_variables]
        for weight, gradient, moment in zip(
            weights, tape.gradient(loss, weights), moments, strict=True
        ):
            moment.assign(0.9 * moment + gradient)
            weight.assign_sub(0.1 * moment)

    seen = follow(step)
    changes = [event for event in seen.step() if event.op.startswith("Assign")]
    assert len(changes) == 4
    assert {seen.at(event.name) for event in changes} == {("optimizer", "a", "variable")}
    assert all(seen.at(event.name)[0] != "optimizer" for event, _, _ in seen.products())


def test_without_keras_name_scopes_are_layers() -> None:
    class Product(tf.Module):
        def __init__(self, inputs: int, outputs: int, name: str) -> None:
            super().__init__(name=name)
            self.w = tf.Variable(programs.data(outputs, samples=inputs))

        @tf.Module.with_name_scope
        def __call__(self, x: Any) -> Any:
            return tf.nn.relu(x @ self.w)

    first, second = Product(5, 11, "first"), Product(11, 13, "second")
    x, weights = programs.data(5), [first.w, second.w]

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(second(first(x)) ** 2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)

    seen = follow(step)
    assert seen.layers.layers == []
    assert learn_name_scopes(seen.layers, seen.nodes) == 2
    assert [tuple(label) for label in seen.layers.labels()] == [
        ("first", "name scope"),
        ("second", "name scope"),
    ]
    places = Places(seen.layers, (), seen.nodes)
    found = {
        (frozenset(n for spec in event.shapes or () if spec for n in spec.shape or ()) - {7})
        & {5, 13}: (seen.name(places.of(event.name).layer))
        for event, _, _ in seen.products()
    }
    assert found == {frozenset({5}): "first", frozenset({13}): "second"}


def test_without_any_scope_nothing_is_called_a_loss() -> None:
    weight, x = tf.Variable(programs.data(11, samples=5)), programs.data(5)

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))

    seen = follow(step)
    assert learn_name_scopes(seen.layers, seen.nodes) == 0
    assert {seen.at(event.name)[1] for event in seen.step()} == {None}
