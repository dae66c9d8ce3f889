"""Names of executed nodes and of XLA's instructions to phases and layers."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.scopes.layers import LayerMap, Mark
from hroof_keras.scopes.names import Place, part_of_function, place_of_name

NET, DENSE, LSTM, CELL = range(4)


@pytest.fixture
def layers() -> LayerMap:
    layers = LayerMap()
    made = [keras.layers.Dense(1, name=name) for name in ("net", "dense", "lstm", "cell")]
    for layer, parent in zip(made, (None, NET, NET, LSTM), strict=True):
        layers.at(layer, parent)
    for scope, number in {
        "net_1": NET,
        "net_1/dense_1": DENSE,
        "net_1/lstm_1": LSTM,
        "net_1/lstm_1/while/cell_1": CELL,
    }.items():
        layers.note(scope, Mark("layer", number))
    layers.note("my_loss", Mark("loss"))
    layers.note("cond", Mark("optimizer"))
    layers.note_optimizer("adam")
    return layers


CALL = "StatefulPartitionedCall"
LOOP = "net_1/lstm_1/while"
STEPS = f"while/body/_1/while/cond/then/_119/while/cond/{CALL}"

FORWARD = {
    "net_1/dense_1/MatMul": DENSE,
    f"{CALL}/net_1/dense_1/MatMul": DENSE,
    f"{CALL}_3/net_1/dense_1/MatMul": DENSE,
    f"ConstantFolding/{CALL}/net_1/dense_1/x": DENSE,
    f"Func/{CALL}/net_1/dense_1/input/_7": DENSE,
    f"{CALL}/net_1/add": NET,
    f"{CALL}/net_1/dense_1_1/MatMul": NET,
    f"{STEPS}/net_1/dense_1/Relu": DENSE,
    f"{CALL}/{LOOP}/body/_33/{LOOP}/cell_1/MatMul": CELL,
    f"{CALL}/{LOOP}/cond/_32/{LOOP}/Less": LSTM,
    f"{CALL}/{LOOP}/exit/_3": LSTM,
    f"{STEPS}/{LOOP}/body/_33/{LOOP}/cell_1/MatMul": CELL,
    f"{CALL}/replica_1/net_1/dense_1/MatMul": DENSE,
    "net_1/lstm_1/while/cell_1/dot": CELL,
    f"{CALL}/net_1/dense_1/PartitionedCall/MatMul": DENSE,
}

BACKWARD = {
    f"{CALL}/gradient_tape/net_1/dense_1/MatMul/MatMul_1": DENSE,
    f"{CALL}/gradient_tape/replica_1/net_1/dense_1/MatMul": DENSE,
    f"{CALL}/replica_1/gradient_tape/net_1/dense_1/MatMul": DENSE,
    f"{CALL}/gradient_tape/gradient_tape/net_1/dense_1/MatMul": DENSE,
    f"{STEPS}/gradient_tape/net_1/dense_1/MatMul": DENSE,
    f"{CALL}/gradient_tape/my_loss/Square": LOSS,
    f"{CALL}/gradient_tape/compile_loss/mse/mul": LOSS,
    f"{CALL}/gradient_tape/{LOOP}/{LOOP}_grad/body/_91/gradient_tape/{LOOP}/gradients/{LOOP}/cell_1/MatMul_grad/MatMul": CELL,  # noqa: E501
    f"{CALL}/gradient_tape/{LOOP}/{LOOP}_grad/body/_91/gradient_tape/{LOOP}/add": LSTM,
    f"{CALL}/gradient_tape/{LOOP}/{LOOP}_grad/switch/_3": LSTM,
}

OTHERS = {
    f"{CALL}/adam/Mul_3": (Phase.OPTIMIZER, None),
    f"{CALL}/adam_1/Mul_3": (Phase.OPTIMIZER, None),
    f"{STEPS}/adam/AssignSubVariableOp": (Phase.OPTIMIZER, None),
    f"{CALL}/sgd_2/ResourceApplyGradientDescent": (Phase.OPTIMIZER, None),
    f"{CALL}/cond/then/_7/cond/adam/mul": (Phase.OPTIMIZER, None),
    f"{CALL}/cond/then/_7/cond/truediv": (Phase.OPTIMIZER, None),
    f"{CALL}/while/adam/mul": (Phase.OPTIMIZER, None),
    f"{CALL}/my_loss/Square": (Phase.LOSS, LOSS),
    f"{CALL}/compile_loss/sparse_categorical_crossentropy/Sum": (Phase.LOSS, LOSS),
    "IteratorGetNext": (Phase.DATA, None),
    "while/body/_1/while/cond_1/else/_9/while/cond_1/IteratorGetNextAsOptional": (Phase.DATA, None),
}

UNKNOWN = [
    "AddN_3",
    f"{CALL}/AssignAddVariableOp",
    f"{CALL}/adamant/Mul",
    "while/body/_1/while/add",
    "",
    f"{CALL}/",
]


def place(layers: LayerMap, name: str) -> Place | None:
    return place_of_name(layers, ("sgd",), name)


@pytest.mark.parametrize("called", [CALL, "PartitionedCall", f"{CALL}_1"])
@pytest.mark.parametrize(
    "before", ["", f"{CALL}/", f"{STEPS}/", f"Func/{CALL}/", f"{CALL}/replica_1/"]
)
def test_models_and_layers_may_be_called_as_the_runtime_calls_functions(
    called: str, before: str
) -> None:
    layers = LayerMap()
    for layer, parent in ((called, None), ("dense", 0), (called, None), ("cell", 2)):
        layers.at(keras.layers.Dense(1, name=layer), parent)
    scopes = (called, f"{called}/dense_1", f"net_1/{called}", f"net_1/{called}/cell")
    for number, scope in enumerate(scopes):
        layers.note(scope, Mark("layer", number))
    for number, scope in enumerate(scopes[1:], start=1):
        for tape, phase in (("", Phase.FORWARD), ("gradient_tape/", Phase.BACKWARD)):
            found = place_of_name(layers, (), f"{before}{tape}{scope}/MatMul")
            assert found == Place(phase, number, "scope"), f"{before}{tape}{scope}"
    assert place_of_name(layers, (), f"{CALL}/IteratorGetNext") == Place(Phase.DATA, None, "scope")


@pytest.mark.parametrize(("name", "layer"), FORWARD.items())
def test_forward(layers: LayerMap, name: str, layer: int) -> None:
    assert place(layers, name) == Place(Phase.FORWARD, layer, "scope")


@pytest.mark.parametrize(("name", "layer"), BACKWARD.items())
def test_backward(layers: LayerMap, name: str, layer: int) -> None:
    assert place(layers, name) == Place(Phase.BACKWARD, layer, "scope")


@pytest.mark.parametrize(("name", "expected"), OTHERS.items())
def test_others(layers: LayerMap, name: str, expected: tuple[Phase, int | None]) -> None:
    assert place(layers, name) == Place(*expected, "scope")


@pytest.mark.parametrize("name", UNKNOWN)
def test_names_that_tell_nothing(layers: LayerMap, name: str) -> None:
    assert place(layers, name) is None


def test_backward_without_a_scope_is_backward_all_the_same(layers: LayerMap) -> None:
    found = place(layers, f"{CALL}/gradient_tape/mul/Mul_1")
    assert found == Place(Phase.BACKWARD, None, "scope")


def test_recomputed_layers_are_backward_and_say_so(layers: LayerMap) -> None:
    layers.note("dense_1", Mark("layer", DENSE, recompute=True))
    again = Place(Phase.BACKWARD, DENSE, "scope", True)
    assert place(layers, f"{CALL}/dense_1/MatMul") == again
    # The gradient of what was recomputed is not recomputed itself.
    gradient = Place(Phase.BACKWARD, DENSE, "scope")
    assert place(layers, f"{CALL}/gradient_tape/dense_1/MatMul/MatMul") == gradient


def test_a_name_in_an_inner_function_is_looked_up_inside_its_layer(layers: LayerMap) -> None:
    """Two functions of the user's with a scope of one name: the layer that calls decides."""
    one, two = (
        layers.at(keras.layers.Dense(1, name=name), parent)
        for name, parent in (("in_dense", DENSE), ("in_lstm", LSTM))
    )
    layers.note("inner_1", Mark("layer", one), 5)
    layers.note("inner_1", Mark("layer", two), 6)
    name = "net_1/{}/PartitionedCall/inner_1/MatMul"
    assert place(layers, name.format("dense_1")) == Place(Phase.FORWARD, one, "scope")
    assert place(layers, name.format("lstm_1")) == Place(Phase.FORWARD, two, "scope")


def test_a_map_without_optimizers_takes_no_name_for_one() -> None:
    assert place_of_name(LayerMap(), (), "adam/Mul") is None
    assert place_of_name(LayerMap(), (), "/Mul") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{CALL}/net_1/dense_1/MatMul", "net_1/dense_1/MatMul"),
        (f"{CALL}/{LOOP}/body/_33/{LOOP}/cell_1/MatMul", f"{LOOP}/cell_1/MatMul"),
        (f"{STEPS}/adam/Mul", "adam/Mul"),
        ("Identity", "Identity"),
    ],
)
def test_part_of_function(name: str, expected: str) -> None:
    assert part_of_function(name) == expected
