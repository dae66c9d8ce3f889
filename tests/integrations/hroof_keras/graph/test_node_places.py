"""What a run that only marks knows of nodes: the table for the reader of a report, and how it comes about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import numpy as np

from hroof.collect import tsl
from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.graph.node_places import UNKNOWN, Known, NodePlaces, table
from hroof_keras.private import nvtx as private_nvtx
from hroof_keras.private import runtime as private
from hroof_keras.scopes.traced import LATE

BATCH = 4


def net(**options: Any) -> Any:
    """Two dense layers of 5 and 3 units on 7 features."""
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(5, activation="relu", name="a"), keras.layers.Dense(3, name="b")]
    made = keras.Sequential([keras.Input((7,)), *layers], name="net")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(loss=loss, optimizer=keras.optimizers.Adam(), **options)
    return made


def fit(made: Any, **options: Any) -> list[float]:
    """Train on two batches; the losses."""
    random = np.random.default_rng(0)
    x = random.standard_normal((2 * BATCH, 7), dtype="float32")
    y = random.integers(0, 3, 2 * BATCH)
    return list(made.fit(x, y, batch_size=BATCH, verbose=0, **options).history["loss"])


def layers_of(places: tsl.Places, op: str) -> set[tuple[str, str | None]]:
    """Phases and layers of the nodes whose name ends so."""
    return {
        (str(part.phase), part.layer)
        for name, parts in places.nodes.items()
        if name.rpartition("/")[2].startswith(op)
        for part in parts
    }


# --- a run ----------------------------------------------------------------------------------------


@pytest.fixture
def untouched() -> Any:
    """The classes of Keras are afterwards what they were before."""
    owners = [(keras.Operation, "__call__"), (keras.losses.Loss, "__call__")]
    owners += [(kind, "apply") for kind in private.optimizer_classes()]
    before = [vars(owner)[name] for owner, name in owners]
    yield
    assert [vars(owner)[name] for owner, name in owners] == before


def test_nodes_of_functions_that_were_traced_meanwhile(untouched: None) -> None:
    made = net(jit_compile=False)
    nodes = NodePlaces()
    nodes.start()
    fit(made)
    nodes.stop()
    nodes.stop()
    known = nodes.run(made)
    places = tsl.read(known.places)
    assert known.warnings == ()
    products = layers_of(places, "MatMul") | layers_of(places, "Relu")
    assert products >= {("forward", "a"), ("forward", "b"), ("backward", "a"), ("backward", "b")}
    assert layers_of(places, "ResourceApply") <= {("optimizer", "a"), ("optimizer", "b")}
    executed = [name for name in places.nodes if name.startswith("StatefulPartitionedCall/")]
    assert len(executed) > 50
    types = {row["name"]: row["type"] for row in nodes.layers.described()}
    assert (types["a"], types["b"]) == ("Dense", "Dense")


def test_functions_that_were_traced_before_are_known_by_their_variables(untouched: None) -> None:
    made = net(jit_compile=False)
    fit(made)
    nodes = NodePlaces()
    nodes.start()
    fit(made)
    nodes.stop()
    known = nodes.run(made)
    assert known.warnings == (LATE,)
    what = tsl.running(["StatefulPartitionedCall/net_1/a_1/MatMul:MatMul"])
    assert what is not None
    (share,) = tsl.read(known.places).of(what)
    assert share.phase is Phase.FORWARD and share.layer is not None
    assert share.layer.split(".")[-1] == "a", (
        "the model's name stands before it where others are alive"
    )


def test_where_no_function_exists_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "traced_graphs", list)  # other tests' may still exist
    nodes = NodePlaces()
    nodes.start()
    nodes.stop()
    assert nodes.run() == Known({}, (UNKNOWN,))


def test_programs_of_xla_are_known_by_instruction(
    untouched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = net(jit_compile=True)
    expected = fit(plain) + fit(plain)
    made = net(jit_compile=True)
    nodes = NodePlaces()
    nodes.start()
    losses = fit(made)
    nodes.stop()
    assert tsl.read(nodes.run(made).places).modules == {}  # on a CPU no instruction has a range
    monkeypatch.setattr(private_nvtx, "has_gpu", lambda: True)
    (program,) = private_nvtx.compiled_programs(made)
    assert len(program) > 1000
    places = tsl.read(nodes.run(made).places)
    ((module, instructions),) = places.modules.items()
    assert "one_step_on_data" in module
    served = {(str(part.phase), part.layer) for parts in instructions.values() for part in parts}
    assert served >= {("forward", "a"), ("backward", "a"), ("forward", "b"), ("backward", "b")}
    assert losses + fit(made) == expected


def test_a_program_that_cannot_be_had_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: Any) -> list[bytes]:
        raise ValueError("no memory")

    monkeypatch.setattr(private_nvtx, "has_gpu", lambda: True)
    monkeypatch.setattr(private_nvtx, "compiled_programs", refuse)
    made = net(jit_compile=False)
    nodes = NodePlaces()
    nodes.start()
    fit(made)
    nodes.stop()
    known = nodes.run(made)
    assert [text for text in known.warnings if "no memory" in text] == list(known.warnings) != []
    assert layers_of(tsl.read(known.places), "MatMul")


def test_a_shape_that_is_left_open_is_not_compiled_anew() -> None:
    made = net(jit_compile=True)
    x, y = np.ones((6, 7), "float32"), np.zeros(6, int)
    made.fit(
        x, y, batch_size=4, verbose=0
    )  # the last batch is smaller, so the second trace takes any
    before = made.train_function
    programs = private_nvtx.compiled_programs(made)
    assert len(programs) <= 1
    assert made.train_function is before


def test_models_without_functions_have_no_programs() -> None:
    assert private_nvtx.compiled_programs(None) == []
    assert private_nvtx.compiled_programs(net(jit_compile=True)) == []
    eager = net(run_eagerly=True)
    fit(eager)
    assert private_nvtx.compiled_programs(eager) == []


# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    phase: Phase
    layer: int | None
    rule: str = "scope"
    recompute: bool = False


def test_the_table_that_a_run_leaves() -> None:
    known = {
        "net/fc/MatMul": Placed(Phase.FORWARD, 1),
        "adam/Mul": Placed(Phase.OPTIMIZER, None),
        "compile_loss/Sum": Placed(Phase.LOSS, LOSS),
        "AssignAddVariableOp": Placed(Phase.OTHER, None, "neighbour"),
        "net/fc/Again": Placed(Phase.FORWARD, 1, recompute=True),
        "NoOp": Placed(Phase.OTHER, None, "none"),
    }
    split: dict[str, list[tuple[Phase, int | None, float]]] = {
        "fusion.1": [(Phase.BACKWARD, 0, 0.5), (Phase.LOSS, LOSS, 0.5)],
        "copy.1": [(Phase.OPTIMIZER, None, 1.0)],
        "call": [],
    }
    made = table(["net", "net.fc"], known, known.__getitem__, {"m": (split, split.__getitem__)})
    places = tsl.read(made)
    assert places.nodes == {
        "net/fc/MatMul": (tsl.Share(Phase.FORWARD, "net.fc"),),
        "adam/Mul": (tsl.Share(Phase.OPTIMIZER, None),),
        "compile_loss/Sum": (tsl.Share(Phase.LOSS, "(loss)"),),
        "AssignAddVariableOp": (tsl.Share(Phase.OTHER, None),),
        "net/fc/Again": (tsl.Share(Phase.FORWARD, "net.fc", 1.0, True),),
    }
    assert places.modules == {
        "m": {
            "fusion.1": (
                tsl.Share(Phase.BACKWARD, "net", 0.5),
                tsl.Share(Phase.LOSS, "(loss)", 0.5),
            ),
            "copy.1": (tsl.Share(Phase.OPTIMIZER, None),),
        }
    }
