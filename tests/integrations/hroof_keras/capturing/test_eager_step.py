"""Eager ops: followed once in order, paired by order, counted only where the data had the same shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

from hroof.attribution import Counted
from hroof.errors import MissingError
from hroof.launches import LOSS
from hroof.units import Phase, Source
from hroof_keras.capturing.eager_inputs import EagerInputs
from hroof_keras.capturing.eager_step import CONSTANT, EagerOps
from hroof_keras.capturing.eager_watch import EagerOp, EagerWatch
from hroof_keras.counting import Buffers
from hroof_keras.graph.nodes import Node, TensorSpec
from hroof_keras.private import eager as private_eager
from hroof_keras.private import runtime as private
from hroof_keras.profiling.events import INPUT, Event
from hroof_keras.scopes.layers import LayerMap

# --- Pairing -------------------------------------------------------------------------------------

SHAPES = ["[2,3]"]


def followed(op: str, layer: int | None = None, phase: Phase = Phase.FORWARD) -> EagerOp:
    spec = TensorSpec((2, 3), "float32")
    return EagerOp(
        Node(f"n{op}", op, ("a:0", "b:0")), (spec, spec), (spec,), phase, layer, (1, 2), (3,)
    )


def ops(*names: str) -> list[Event]:
    return [Event(name, name, at, at + 1, kind="eager") for at, name in enumerate(names)]


def counted(
    known: Sequence[EagerOp], *names: str, shapes: Sequence[str] = SHAPES
) -> tuple[EagerOps, list[Counted]]:
    made = EagerOps(known, SHAPES, Buffers())
    return made, made.counted(ops(*names), shapes)


def test_equal_steps_are_paired_in_order() -> None:
    known = [followed("Mul", 1), followed("Mul", 2), followed("Add", 3)]
    _, found = counted(known, "Mul", "Mul", "Add")
    assert [one.layer for one in found] == [1, 2, 3]
    assert {one.phase for one in found} == {Phase.FORWARD}
    assert all(one.work.flop() == 6 for one in found)


def test_constants_serve_what_comes_next() -> None:
    known = [followed("Mul", 1), followed("Add", 2)]
    _, found = counted(known, CONSTANT, "Mul", CONSTANT, "Add", CONSTANT)
    assert [one.layer for one in found] == [1, 1, 2, 2, None]
    assert found[0].work.flop() == 0


def test_where_steps_differ_the_rest_is_still_paired() -> None:
    known = [followed("Mul", 1), followed("Add", 2), followed("Sub", 3)]
    made, found = counted(known, "Mul", "Neg", "Add", "Sub")
    assert [one.layer for one in found] == [1, None, 2, 3]
    assert found[1].work.source is Source.MISSING
    assert made.unpaired == 1


def test_other_shapes_leave_the_work_unknown() -> None:
    made, found = counted([followed("Mul", 1)], "Mul", shapes=["[7,3]"])
    assert found[0].layer == 1
    assert found[0].work.nominal is None
    assert made.other_shapes == 1


def test_what_is_not_known_of_eager_steps_is_said() -> None:
    known = [followed("Mul", 1), followed("Sub", None, Phase.BACKWARD), followed("Add", 2)]
    made, _ = counted(known, "Mul", "Neg", "Sub", "Add")
    made.counted(ops("Mul", "Sub", "Add"), ["[7,3]"])
    text = made.missing()
    assert text.startswith("Eager ops have no graph: ")
    assert "1 of 2 steps got other shapes" in text
    assert "1 of 1 backward ops have no layer" in text
    assert "1 ops have neither" in text


def test_of_eager_steps_that_are_all_known_no_gap_is_said() -> None:
    made, _ = counted([followed("Mul", 1), followed("Mul", 1, Phase.BACKWARD)], "Mul", "Mul")
    assert made.missing().endswith("only where a step got the same shapes.")


def test_shapes_that_nobody_saw_leave_the_work_unknown() -> None:
    _, found = counted([followed("Mul", 1)], "Mul", shapes=[])
    assert found[0].work.nominal is None


def test_what_computes_and_moves_nothing_is_known_with_any_shapes() -> None:
    _, found = counted([followed("Identity", 1)], "Identity", shapes=["[7,3]"])
    assert found[0].work.flop() == 0


def test_what_hands_over_batches_is_data() -> None:
    _, found = counted([followed("Mul", 1)], "IteratorGetNext", "Mul", "OptionalGetValue")
    assert [one.phase for one in found] == [Phase.DATA, Phase.FORWARD, Phase.DATA]


def test_without_a_followed_step_there_is_nothing_to_pair() -> None:
    assert not EagerOps((), (), Buffers())


# --- Following -----------------------------------------------------------------------------------


def model() -> Any:
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(6, activation="relu", name="first"),
            keras.layers.Dense(6, activation="relu", name="second"),
            keras.layers.Dense(3, name="third"),
        ],
        name="eager",
    )


X, Y = np.ones((4, 8), "float32"), np.zeros((4, 3), "float32")


def trains(made: Any) -> Callable[[], Any]:
    optimizer, loss = keras.optimizers.SGD(0.1, momentum=0.9), keras.losses.MeanSquaredError()

    def step() -> Any:
        with tf.GradientTape() as tape:
            value = loss(Y, made(X, training=True))
        gradients = tape.gradient(value, made.trainable_variables)
        optimizer.apply(gradients, made.trainable_variables)
        return value

    step()
    return step


def follow(step: Callable[[], Any]) -> tuple[EagerWatch, dict[int | None, str]]:
    layers = LayerMap()
    watch = EagerWatch(layers)
    watch.start()
    step()
    watch.stop()
    assert not watch.faults
    names: dict[int | None, str] = dict(enumerate(layers.names()))
    return watch, names | {None: "", LOSS: "(loss)"}


def places(watch: EagerWatch, names: dict[int | None, str], op: str) -> list[tuple[str, str]]:
    return [(str(one.phase), names[one.layer]) for one in watch.ops if one.node.op == op]


def test_products_of_both_passes_have_their_layers() -> None:
    """All hidden layers have equal shapes, so only what the tape keeps tells them apart."""
    watch, names = follow(trains(model()))
    assert places(watch, names, "MatMul") == [
        ("forward", "first"),
        ("forward", "second"),
        ("forward", "third"),
        ("backward", "third"),
        ("backward", "third"),
        ("backward", "second"),
        ("backward", "second"),
        ("backward", "first"),
    ]


def test_gradients_that_keep_no_tensor_are_known_by_what_reaches_them() -> None:
    watch, names = follow(trains(model()))
    assert places(watch, names, "BiasAddGrad") == [
        ("backward", "third"),
        ("backward", "second"),
        ("backward", "first"),
    ]


def test_loss_and_optimizer() -> None:
    watch, names = follow(trains(model()))
    assert places(watch, names, "Square") == [("loss", "(loss)")]
    updates = Counter(
        names[op.layer]
        for op in watch.ops
        if op.phase is Phase.OPTIMIZER and "Assign" in op.node.op
    )
    assert {"first", "second", "third"} <= set(updates)
    assert len({updates[name] for name in ("first", "second", "third")}) == 1


def test_gradients_that_meet_belong_to_the_layer_that_made_the_tensor() -> None:
    inputs = keras.Input((8,))
    shared = keras.layers.Dense(6, name="shared")(inputs)
    outputs = keras.layers.Dense(3, name="a")(shared) + keras.layers.Dense(3, name="b")(shared)
    watch, names = follow(trains(keras.Model(inputs, outputs)))
    assert ("backward", "shared") in places(watch, names, "AddN")


def test_sparse_gradients_of_an_embedding() -> None:
    made = keras.Sequential(
        [keras.Input((5,), dtype="int32"), keras.layers.Embedding(7, 4, name="emb"),
         keras.layers.Dense(2, name="out")]
    )  # fmt: skip
    ids, targets = np.ones((3, 5), "int32"), np.ones((3, 5, 2), "float32")
    optimizer, loss = keras.optimizers.SGD(0.1), keras.losses.MeanSquaredError()

    def step() -> None:
        with tf.GradientTape() as tape:
            value = loss(targets, made(ids))
        optimizer.apply(tape.gradient(value, made.trainable_variables), made.trainable_variables)

    step()
    watch, names = follow(step)
    owners = {names[op.layer] for op in watch.ops if op.phase is Phase.OPTIMIZER}
    assert "emb" in owners


def test_attributes_and_constants_are_those_of_the_op() -> None:
    image = tf.constant(np.ones((1, 6, 6, 2), "float32"))
    kernel = tf.constant(np.ones((3, 3, 2, 4), "float32"))
    watch, _ = follow(lambda: tf.reduce_sum(tf.nn.conv2d(image, kernel, 2, "SAME"), axis=[1, 2]))
    convolution = next(op for op in watch.ops if op.node.op == "Conv2D")
    assert convolution.node.integers("strides") == (1, 2, 2, 1)
    assert convolution.node.text("padding") == "SAME"
    assert convolution.node.dtype("T") == "float32"
    assert convolution.outputs == (TensorSpec((1, 3, 3, 4), "float32"),)
    total = next(op for op in watch.ops if op.node.op == "Sum")
    assert list(total.node.constants[1]) == [1, 2]
    assert total.node.inputs[0] == f"{convolution.node.name}:0"


def test_the_loss_is_the_same_bit_for_bit() -> None:
    plain = [float(step()) for step in [trains(model())] for _ in range(4)]
    step = trains(model())
    found = [float(step())]
    watch = EagerWatch(LayerMap())
    watch.start()
    found.append(float(step()))
    watch.stop()
    assert [*found, float(step()), float(step())] == plain


def test_a_fault_of_hroofs_own_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(op: str) -> dict[str, str]:
        raise RuntimeError("oops")

    step = trains(model())
    watch = EagerWatch(LayerMap())
    watch.start()
    with monkeypatch.context() as patch:
        patch.setattr(private_eager, "attr_kinds", broken)
        step()
    watch.stop()
    assert list(watch.faults) == ["An eager op could not be followed: RuntimeError('oops')"]


def test_what_was_replaced_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the second half cannot be had."""
    before = keras.Operation.__call__

    def missing(wrap: Any) -> Any:
        raise MissingError("nothing here", "none")

    monkeypatch.setattr(private_eager, "replace_gradient_function", missing)
    watch = EagerWatch(LayerMap())
    with pytest.raises(MissingError):
        watch.start()
    assert keras.Operation.__call__ is before
    trains(model())()
    assert watch.ops == []


def test_traced_functions_are_left_alone() -> None:
    """Ops that are only noted in a graph did not run."""

    @tf.function
    def run(x: Any) -> Any:
        return tf.square(x) + 1.0

    watch, _ = follow(lambda: run(tf.constant([1.0, 2.0])))
    assert "Square" not in {op.node.op for op in watch.ops}


def test_the_private_names_are_there() -> None:
    """Fails loudly where TensorFlow has moved something: then eager steps have no layers."""
    undo = private_eager.watch_eager_ops(lambda *_: None)
    undo()
    private_eager.replace_gradient_function(lambda original: original)()
    assert private_eager.attr_kinds("Conv2D")["strides"] == "list(int)"
    assert private_eager.tensor_number(tf.constant(1.0)) >= 0
    assert private_eager.tensor_number(None) == -1
    optimizer = keras.optimizers.SGD()
    optimizer.build(model().trainable_variables)
    assert len(private_eager.optimized(optimizer)) == 6


@pytest.mark.parametrize("name", ["watch_eager_ops", "replace_gradient_function"])
def test_where_a_private_name_is_gone_it_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "optional_module", lambda _: None)
    with pytest.raises(MissingError, match="cannot be followed"):
        getattr(private_eager, name)(lambda *_: None)


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        ("bool", True, "b"),
        ("int", 3, "i"),
        ("float", 0.5, "f"),
        ("string", "SAME", "s"),
        ("string", b"SAME", "s"),
        ("type", tf.float32, "type"),
        ("type", 1, "type"),
        ("list(int)", [1, 2], "list"),
        ("list(type)", [tf.int32], "list"),
    ],
)
def test_attributes_as_messages(kind: str, value: Any, field: str) -> None:
    assert private_eager.attr_value(kind, value).WhichOneof("value") == field


@pytest.mark.parametrize(("kind", "value"), [("list(int)", None), ("func", 1), ("shape", [1])])
def test_attributes_that_no_rule_reads(kind: str, value: Any) -> None:
    assert private_eager.attr_value(kind, value) is None


# --- What layers get -----------------------------------------------------------------------------


def test_only_outermost_eager_calls_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(private, "profiler_runs", lambda: True)
    monkeypatch.setattr(private, "trace_event", noted.append)
    made = model()
    inputs = EagerInputs()
    before = keras.Operation.__call__
    inputs.start()
    try:
        made(X)
        made([tf.constant(X)][0], training=True)

        @tf.function
        def traced(x: Any) -> Any:
            return made(x)

        traced(tf.constant(X))
    finally:
        inputs.stop()
    assert keras.Operation.__call__ is before
    assert noted == [f"{INPUT}[4,8]"] * 2
    assert inputs.calls == 2


def test_shapes_in_lists_and_dicts(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(private, "profiler_runs", lambda: True)
    monkeypatch.setattr(private, "trace_event", noted.append)
    add = keras.layers.Add()
    inputs = EagerInputs()
    inputs.start()
    add([tf.ones((2, 3)), tf.ones((2, 1))])
    inputs.stop()
    add([tf.ones((2, 3)), tf.ones((2, 1))])
    assert noted == [f"{INPUT}[2,3] [2,1]"]


def test_without_a_profile_nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[str] = []
    monkeypatch.setattr(private, "trace_event", noted.append)
    made = model()
    inputs = EagerInputs()
    inputs.start()
    made(X)
    inputs.stop()
    assert (noted, inputs.calls) == ([], 1)


def test_making_a_model_is_no_eager_call() -> None:
    inputs = EagerInputs()
    inputs.start()
    model()
    inputs.stop()
    assert inputs.calls == 0
