"""Names of ops on JAX: taken apart, and what they tell."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.on_jax.names import JaxNames, path_of
from hroof_keras.scopes.layers import LayerMap, Mark

FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD


@pytest.mark.parametrize(
    ("name", "scopes", "transformations"),
    [
        ("jit(train_step)/jvp(conv)/conv_general_dilated", "conv conv_general_dilated", {"jvp"}),
        ("jit(f)/transpose(jvp(block0))/att/dot", "block0 att dot", {"transpose", "jvp"}),
        ("jit(f)/jvp()/add", "add", {"jvp"}),
        ("jit(f)/jvp(relu)/jit(relu)/max", "relu max", {"jvp"}),
        ("jit(f)/jvp(vmap(l))/mul", "l mul", {"jvp", "vmap"}),
        ("jit(f)/adam/sqrt", "adam sqrt", set()),
        ("reduce_sum", "reduce_sum", set()),
        ("jvp(lstm1)", "lstm1", {"jvp"}),
        ("", "", set()),
    ],
)
def test_names_are_taken_apart(name: str, scopes: str, transformations: set[str]) -> None:
    path = path_of(name)
    assert path.scopes == tuple(scopes.split())
    assert path.transformations == transformations


@pytest.fixture
def names() -> JaxNames:
    layers = LayerMap()
    for number, scope in enumerate(
        ("conv", "block0", "block0/att", "block0/att/query", "lstm", "lstm/cell")
    ):
        layers.add_scope_layer(scope.rpartition("/")[2], None)
        layers.note(scope, Mark("layer", number))
    layers.note_optimizer("adam")
    return JaxNames(layers)


@pytest.mark.parametrize(
    ("name", "phase", "layer"),
    [
        ("jit(train_step)/jvp(conv)/conv_general_dilated", FORWARD, 0),
        ("jit(train_step)/transpose(jvp(conv))/conv_general_dilated", BACKWARD, 0),
        ("jit(train_step)/jvp(block0)/att/query/dot_general", FORWARD, 3),
        ("jit(train_step)/jvp(block0)/att/dot_general", FORWARD, 2),
        ("jit(train_step)/jvp(block0)/add", FORWARD, 1),
        ("jit(test_step)/conv/add", FORWARD, 0),
        ("jit(f)/jvp(lstm)/while/body/closed_call/cell/dot_general", FORWARD, 5),
        ("jit(f)/transpose(jvp(lstm))/while/body/closed_call/cell/dot_general", BACKWARD, 5),
        ("jit(f)/jvp(block0)/checkpoint/rematted_computation/att/exp", FORWARD, 2),
        ("jit(f)/while/body/jit(train_step)/jvp(conv)/add", FORWARD, 0),
        ("jit(f)/jvp(compile_loss)/mse/sub", Phase.LOSS, LOSS),
        ("jit(f)/transpose(jvp(compile_loss))/mse/mul", BACKWARD, LOSS),
        ("jit(f)/adam/sqrt", Phase.OPTIMIZER, None),
        ("jit(f)/jvp()/mul", FORWARD, None),
        ("jit(f)/transpose(jvp())/mul", BACKWARD, None),
    ],
)
def test_what_a_name_tells(names: JaxNames, name: str, phase: Phase, layer: int | None) -> None:
    place = names.place(name)
    assert place is not None
    assert (place.phase, place.layer) == (phase, layer)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "reduce_sum",
        "conv/add",
        "state[0][2]",
        "jit(train_step)/add",
        "jit(f)/jit(_where)/select_n",
    ],
)
def test_what_tells_nothing(names: JaxNames, name: str) -> None:
    """Names inside a reduction begin anew: a scope there may be anybody's."""
    assert names.place(name) is None


def test_a_primitive_is_no_scope(names: JaxNames) -> None:
    """``add`` could be a layer, and the primitive of another."""
    layers = LayerMap()
    layers.add_scope_layer("add", None)
    layers.note("add", Mark("layer", 0))
    names = JaxNames(layers)
    assert names.place("jit(f)/add") is None
    place = names.place("jit(f)/jvp(add)/add")
    assert place is not None
    assert place.layer == 0


def test_layers_that_share_a_scope_leave_it_to_the_layer_around_them() -> None:
    layers = LayerMap()
    outer = layers.add_scope_layer("model", None)
    for _ in range(2):
        number = layers.add_scope_layer("same", outer)
        layers.note("same", Mark("layer", number), trace=number)
    place = JaxNames(layers).place("jit(f)/jvp(same)/dot_general")
    assert place is not None
    assert place.layer == outer
    assert layers.ambiguous == ("same",)
