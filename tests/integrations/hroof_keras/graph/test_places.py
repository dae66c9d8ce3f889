"""Places in small graphs written by hand: fused ops, sums of gradients, losses, optimizers."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras

from hroof.launches import LOSS
from hroof.units import Phase
from hroof_keras.graph.nodes import Node
from hroof_keras.graph.places import NOWHERE, Place, Places
from hroof_keras.scopes.layers import LayerMap, Mark

NET, A, B = range(3)


@pytest.fixture
def layers() -> LayerMap:
    layers = LayerMap()
    for name, parent, scope in (("net", None, "net"), ("a", NET, "net/a"), ("b", NET, "net/b")):
        number = layers.at(keras.layers.Dense(1, name=name), parent)
        layers.note(scope, Mark("layer", number))
    return layers


def places(layers: LayerMap, *nodes: tuple[str, str, str]) -> Places:
    made = {name: Node(name, op, tuple(inputs.split())) for name, op, inputs in nodes}
    return Places(layers, ("adam",), made)


STEP = (
    ("it", "_Arg", ""),
    ("IteratorGetNext", "IteratorGetNext", "it:0"),
    ("va", "_Arg", ""),
    ("vb", "_Arg", ""),
    ("net/a/r", "ReadVariableOp", "va:0"),
    ("net/a/m", "MatMul", "IteratorGetNext:0 net/a/r:0"),
    ("net/b/r", "ReadVariableOp", "vb:0"),
    ("net/b/m", "MatMul", "net/a/m:0 net/b/r:0"),
    ("sub", "Sub", "net/b/m:0 IteratorGetNext:1"),
    ("Square", "Square", "sub:0"),
    ("Mean", "Mean", "Square:0 k:0"),
    ("k", "Const", ""),
    ("gradient_tape/mul", "Mul", "sub:0 k:0"),
    ("gradient_tape/net/b/dw", "MatMul", "net/a/m:0 gradient_tape/mul:0"),
    ("gradient_tape/net/b/dx", "MatMul", "gradient_tape/mul:0 net/b/r:0"),
    ("AddN", "AddN", "gradient_tape/net/b/dx:0 gradient_tape/net/b/dx:0"),
    ("gradient_tape/net/a/dw", "MatMul", "IteratorGetNext:0 AddN:0"),
    ("adam/mul_a", "Mul", "gradient_tape/net/a/dw:0 adam/lr:0"),
    ("adam/mul_b", "Mul", "gradient_tape/net/b/dw:0 adam/lr:0"),
    ("adam/lr", "ReadVariableOp", "vlr:0"),
    ("vlr", "_Arg", ""),
    ("adam/sub_a", "AssignSubVariableOp", "va:0 adam/mul_a:0"),
    ("adam/sub_b", "AssignSubVariableOp", "vb:0 adam/mul_b:0"),
    ("metric", "_Arg", ""),
    ("ArgMax", "ArgMax", "net/b/m:0 k:0"),
    ("AssignAddVariableOp", "AssignAddVariableOp", "metric:0 ArgMax:0"),
    ("total", "AssignAddVariableOp", "metric:0 Mean:0"),
)


class TestOneStep:
    @pytest.mark.parametrize(
        ("name", "place"),
        {
            "net/a/m": Place(Phase.FORWARD, A, "scope"),
            "IteratorGetNext": Place(Phase.DATA, None, "scope"),
            "sub": Place(Phase.LOSS, LOSS, "neighbour"),
            "Square": Place(Phase.LOSS, LOSS, "neighbour"),
            "Mean": Place(Phase.LOSS, LOSS, "neighbour"),
            "gradient_tape/mul": Place(Phase.BACKWARD, LOSS, "neighbour"),
            "gradient_tape/net/b/dx": Place(Phase.BACKWARD, B, "scope"),
            "adam/sub_a": Place(Phase.OPTIMIZER, A, "variable"),
            "adam/mul_b": Place(Phase.OPTIMIZER, B, "variable"),
            "adam/lr": Place(Phase.OPTIMIZER, None, "scope"),
            "ArgMax": Place(Phase.OTHER, None, "neighbour"),
            "AssignAddVariableOp": Place(Phase.OTHER, None, "neighbour"),
            "total": Place(Phase.OTHER, None, "neighbour"),
            "nowhere": NOWHERE,
            "net/a/unknown": Place(Phase.FORWARD, A, "scope"),
        }.items(),
    )
    def test_place(self, layers: LayerMap, name: str, place: Place) -> None:
        assert places(layers, *STEP).of(name) == place

    def test_gradients_of_one_layer_that_meet_stay_with_it(self, layers: LayerMap) -> None:
        assert places(layers, *STEP).of("AddN") == Place(Phase.BACKWARD, B, "neighbour")

    def test_without_training_nothing_is_loss(self, layers: LayerMap) -> None:
        nodes = [node for node in STEP if not node[0].startswith(("gradient_tape", "adam", "AddN"))]
        found = places(layers, *nodes)
        assert found.of("sub") == Place(Phase.OTHER, None, "neighbour")
        assert found.of("net/b/m") == Place(Phase.FORWARD, B, "scope")


class TestSums:
    def test_gradients_of_several_layers_go_to_the_one_that_receives_them(
        self, layers: LayerMap
    ) -> None:
        layers.at(keras.layers.Dense(1, name="c"), NET)
        layers.note("net/c", Mark("layer", 3))
        found = places(
            layers,
            ("gradient_tape/net/b/dx", "MatMul", ""),
            ("gradient_tape/net/c/dx", "MatMul", ""),
            ("AddN", "AddN", "gradient_tape/net/b/dx:0 gradient_tape/net/c/dx:0"),
            ("gradient_tape/net/a/g", "ReluGrad", "AddN:0"),
        )
        assert found.of("AddN") == Place(Phase.BACKWARD, A, "neighbour")

    def test_a_sum_that_only_the_optimizer_takes_stays_with_its_layers(
        self, layers: LayerMap
    ) -> None:
        found = places(
            layers,
            ("gradient_tape/net/b/dw", "MatMul", ""),
            ("gradient_tape/net/b/dw_1", "MatMul", ""),
            ("AddN", "AddN", "gradient_tape/net/b/dw:0 gradient_tape/net/b/dw_1:0"),
            ("adam/mul", "Mul", "AddN:0"),
        )
        assert found.of("AddN") == Place(Phase.BACKWARD, B, "neighbour")
        assert found.of("adam/mul") == Place(Phase.OPTIMIZER, B, "variable")


class TestFused:
    NODES = (
        ("vb", "_Arg", ""),
        ("net/b/r", "ReadVariableOp", "vb:0"),
        ("net/b/half", "Cast", "net/b/r:0"),
    )

    def test_a_product_belongs_to_its_weights(self, layers: LayerMap) -> None:
        relu = ("net/a/Relu", "_MklNativeFusedMatMul", "x:0 net/b/half:0 bias:0")
        found = places(layers, *self.NODES, relu)
        assert found.of("net/a/Relu") == Place(Phase.FORWARD, B, "fused")

    def test_a_gradient_with_what_follows_it_is_backward(self, layers: LayerMap) -> None:
        add = ("gradient_tape/net/a/add", "_FusedMatMul", "dy:0 net/b/half:0 dz:0")
        found = places(layers, *self.NODES, add)
        assert found.of("gradient_tape/net/a/add") == Place(Phase.BACKWARD, B, "fused")

    def test_a_product_outside_every_scope_belongs_to_its_variable(self, layers: LayerMap) -> None:
        found = places(
            layers,
            *self.NODES,
            ("gradient_tape/net/a/dx", "Mul", ""),
            ("r", "ReadVariableOp", "vb:0"),
            ("MatMul", "MatMul", "gradient_tape/net/a/dx:0 r:0"),
            ("MatMul_1", "MatMul", "x:0 r:0"),
            ("Conv2D", "Conv2D", "x:0 y:0"),
        )
        assert found.of("MatMul") == Place(Phase.BACKWARD, B, "variable", recompute=True)
        assert found.of("MatMul_1") == Place(Phase.FORWARD, B, "variable")
        assert found.of("Conv2D").layer is None

    def test_a_norm_belongs_to_its_name(self, layers: LayerMap) -> None:
        """The gradient of a fused norm takes the norm's input where products take weights."""
        norm = ("gradient_tape/net/a/g", "FusedBatchNormGradV3", "dy:0 net/b/half:0 s:0")
        found = places(layers, *self.NODES, norm)
        assert found.of("gradient_tape/net/a/g") == Place(Phase.BACKWARD, A, "scope")

    def test_a_product_of_two_activations_belongs_to_its_name(self, layers: LayerMap) -> None:
        made = ("net/b/key", "MatMul", "x:0 net/b/r:0")
        scores = ("net/a/scores", "_MklFusedBatchMatMulV2", "q:0 net/b/key:0 scale:0")
        found = places(layers, *self.NODES, made, scores)
        assert found.of("net/a/scores") == Place(Phase.FORWARD, A, "scope")

    def test_in_a_traced_graph_the_product_lies_before_the_name(self, layers: LayerMap) -> None:
        found = places(
            layers,
            *self.NODES,
            ("net/b/MatMul", "MatMul", "x:0 net/b/r:0"),
            ("net/b/BiasAdd", "BiasAdd", "net/b/MatMul:0 bias:0"),
            ("net/a/Relu", "Relu", "net/b/BiasAdd:0"),
        )
        assert found.of("net/a/Relu", "_FusedMatMul") == Place(Phase.FORWARD, B, "fused")
        assert found.of("net/a/Relu") == Place(Phase.FORWARD, A, "scope")
        assert found.of("net/a/Relu", "_FusedConv2D") == Place(Phase.FORWARD, A, "scope")


class TestOptimizers:
    def test_moments_belong_where_their_variable_does(self, layers: LayerMap) -> None:
        found = places(
            layers,
            ("va", "_Arg", ""),
            ("ma", "_Arg", ""),
            ("net/a/r", "ReadVariableOp", "va:0"),
            ("gradient_tape/net/a/dw", "MatMul", ""),
            ("gradient_tape/net/b/dw", "MatMul", ""),
            ("adam/norm", "Sum", "gradient_tape/net/a/dw:0 gradient_tape/net/b/dw:0"),
            ("adam/clipped", "Mul", "gradient_tape/net/a/dw:0 adam/norm:0"),
            ("adam/add", "AssignAddVariableOp", "ma:0 adam/clipped:0"),
            ("adam/read", "ReadVariableOp", "ma:0"),
            ("adam/sub", "AssignSubVariableOp", "va:0 adam/read:0"),
        )
        for name in ("adam/sub", "adam/read", "adam/add"):
            assert found.of(name) == Place(Phase.OPTIMIZER, A, "variable"), name
        # The norm of all gradients serves every layer.
        assert found.of("adam/norm") == Place(Phase.OPTIMIZER, None, "scope")

    def test_a_tied_variable_belongs_to_the_first_layer_that_reads_it(
        self, layers: LayerMap
    ) -> None:
        found = places(
            layers,
            ("v", "_Arg", ""),
            ("net/b/r", "ReadVariableOp", "v:0"),
            ("net/a/r", "ResourceGather", "v:0 i:0"),
            ("adam/sub", "ResourceApplyAdam", "v:0 g:0"),
        )
        assert found.of("adam/sub") == Place(Phase.OPTIMIZER, A, "variable")

    def test_of_a_layer_and_the_one_around_it_the_inner_one_owns(self, layers: LayerMap) -> None:
        found = places(
            layers,
            ("v", "_Arg", ""),
            ("net/r", "ReadVariableOp", "v:0"),
            ("net/b/r", "ReadVariableOp", "v:0"),
            ("adam/sub", "AssignSubVariableOp", "v:0 g:0"),
        )
        assert found.of("adam/sub") == Place(Phase.OPTIMIZER, B, "variable")


class TestWhatPhasesShare:
    def test_a_constant_of_the_backward_pass_makes_nothing_backward(self, layers: LayerMap) -> None:
        """Equal constants of several phases are one node, which bears the name of any of them."""
        found = places(
            layers,
            ("x", "_Arg", ""),
            ("gradient_tape/net/a/zeros", "Const", ""),
            ("net/b/m", "MatMul", "x:0 gradient_tape/net/a/zeros:0"),
            ("ArgMax", "ArgMax", "net/b/m:0"),
        )
        assert found.of("ArgMax") == Place(Phase.OTHER, None, "neighbour")

    def test_zeros_for_one_layers_gradient_are_that_layers(self, layers: LayerMap) -> None:
        found = places(
            layers,
            ("net/a/m", "MatMul", ""),
            ("zeros_like", "ZerosLike", "net/a/m:0"),
            ("gradient_tape/net/a/dw", "MatMul", "zeros_like:0"),
        )
        assert found.of("zeros_like") == Place(Phase.BACKWARD, A, "neighbour")

    def test_what_comes_from_the_input_and_goes_into_layers_is_data(self, layers: LayerMap) -> None:
        found = places(
            layers,
            ("it", "_Arg", ""),
            ("IteratorGetNext", "IteratorGetNext", "it:0"),
            ("Cast", "Cast", "IteratorGetNext:0"),
            ("net/a/m", "MatMul", "Cast:0"),
        )
        assert found.of("Cast") == Place(Phase.DATA, None, "neighbour")

    def test_what_loops_carry_is_nobodys_unless_one_takes_it(self, layers: LayerMap) -> None:
        found = places(
            layers,
            ("x", "_Arg", ""),
            ("enter", "Enter", "x:0"),
            ("net/a/m", "MatMul", "enter:0"),
            ("shared", "Enter", "x:0"),
            ("net/a/n", "Neg", "shared:0"),
            ("net/b/n", "Neg", "shared:0"),
        )
        assert found.of("enter") == Place(Phase.FORWARD, A, "neighbour")
        assert found.of("shared") == Place(Phase.OTHER, None, "neighbour")
