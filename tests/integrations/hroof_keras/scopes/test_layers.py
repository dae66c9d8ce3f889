"""The layer map: names, parents, ambiguous scopes."""

from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras

from hroof.launches import LOSS, LOSS_NAME, Label
from hroof_keras.scopes.layers import BEFORE, LayerMap, Mark

L = keras.layers


class Holder(keras.layers.Layer):
    """A layer of the user's with others under attributes, in a list and in a dict."""

    def __init__(self) -> None:
        super().__init__(name="holder")
        self.single = L.Dense(2)
        self.many = [L.Dense(2), L.Dense(2, name="given")]
        self.keyed = {"left": L.Dense(2)}


@pytest.fixture
def layers() -> LayerMap:
    return LayerMap()


def named(layers: LayerMap, *names: str, parent: int | None = None) -> list[int]:
    return [layers.at(L.Dense(1, name=name), parent) for name in names]


class TestNames:
    def test_layers_go_by_their_path_below_the_model(self, layers: LayerMap) -> None:
        (model,) = named(layers, "model")
        (block,) = named(layers, "block", parent=model)
        named(layers, "inner", parent=block)
        assert layers.names() == ["model", "block", "block.inner"]

    def test_with_several_models_their_names_come_first(self, layers: LayerMap) -> None:
        for name in ("one", "two"):
            model = layers.at(keras.Sequential(name=name), None)
            dense = L.Dense(1, name="dense")
            dense.build((None, 2))
            layers.at(dense, model)
        assert layers.names() == ["one", "one.dense", "two", "two.dense"]

    def test_a_root_without_weights_is_no_model(self, layers: LayerMap) -> None:
        model = layers.at(keras.Sequential(name="net"), None)
        dense = L.Dense(1, name="dense")
        dense.build((None, 2))
        layers.at(dense, model)
        outside = layers.at(keras.Sequential(name="augment"), None)
        layers.at(L.RandomFlip(name="flip"), outside)
        assert layers.names() == ["net", "dense", "augment", "flip"]

    def test_equal_names_are_told_apart(self, layers: LayerMap) -> None:
        (model,) = named(layers, "model")
        named(layers, "twin", "twin", "twin", parent=model)
        assert layers.names()[1:] == ["twin", "twin#2", "twin#3"]

    def test_attributes_stand_in_for_names_that_keras_makes_up(self, layers: LayerMap) -> None:
        holder = Holder()
        number = layers.at(holder, None)
        for layer in (holder.single, *holder.many, holder.keyed["left"]):
            layers.at(layer, number, holder)
        assert layers.names()[1:] == ["single", "many.0", "given", "keyed.left"]

    def test_in_keras_own_containers_layers_keep_their_names(self, layers: LayerMap) -> None:
        model = keras.Sequential([L.Dense(1)])
        number = layers.at(model, None)
        layers.at(model.layers[0], number, model)
        assert layers.names()[1] == model.layers[0].name

    def test_labels_have_name_and_class(self, layers: LayerMap) -> None:
        named(layers, "model")
        assert layers.labels() == [Label("model", "Dense")]


class TestLayers:
    def test_an_object_has_one_number(self, layers: LayerMap) -> None:
        layer = L.Dense(1)
        assert layers.at(layer, None) == layers.at(layer, 7) == layers.number_of(layer) == 0
        assert layers.number_of(L.Dense(1)) is None

    def test_layers_are_not_kept_alive(self, layers: LayerMap) -> None:
        layer = L.Dense(1, name="gone")
        seen = weakref.ref(layer)
        layers.at(layer, None)
        del layer
        gc.collect()
        assert seen() is None
        assert layers.names() == ["gone"]

    def test_a_layer_in_the_place_of_a_dead_one_is_another(self, layers: LayerMap) -> None:
        numbers = set()
        for index in range(50):
            numbers.add(layers.at(L.Dense(1, name=f"d{index}"), None))
            gc.collect()
        assert len(numbers) == 50

    def test_a_layer_counts_its_own_weights(self, layers: LayerMap) -> None:
        model = keras.Sequential([keras.Input((3,)), L.Dense(5, name="a"), L.BatchNormalization()])
        number = layers.at(model, None, None)
        for layer in model.layers:
            layers.at(layer, number, model)
        described = layers.described()
        assert [row["parameters"] for row in described] == [0, 3 * 5 + 5, 4 * 5, 0]
        assert [row["container"] for row in described] == [True, False, False, False]
        assert [row["depth"] for row in described] == [0, 1, 1, LOSS]
        assert described[-1]["name"] == LOSS_NAME

    def test_around(self, layers: LayerMap) -> None:
        (model,) = named(layers, "model")
        left, right = named(layers, "left", "right", parent=model)
        (inner,) = named(layers, "inner", parent=left)
        (other,) = named(layers, "other")
        assert layers.around([inner, left]) == left
        assert layers.around([inner, right]) == model
        assert layers.around([inner, other]) is None
        assert layers.around([]) is None
        assert layers.lineage(inner) == [inner, left, model]


class TestScopes:
    def test_the_longest_noted_prefix_counts(self, layers: LayerMap) -> None:
        layers.note("net_1", Mark("layer", 0))
        layers.note("net_1/dense_1", Mark("layer", 1))
        assert layers.find(["net_1", "dense_1", "MatMul"]) == Mark("layer", 1)
        assert layers.find(["net_1", "dense_1_1", "MatMul"]) == Mark("layer", 0)
        assert layers.find(["net", "dense_1"]) is None

    def test_the_root_scope_belongs_to_nobody(self, layers: LayerMap) -> None:
        layers.note("", Mark("layer", 0))
        assert layers.scopes == ()

    def test_one_scope_for_two_layers_is_ambiguous(self, layers: LayerMap) -> None:
        (model,) = named(layers, "model")
        one, two = named(layers, "one", "two", parent=model)
        layers.note("same_1", Mark("layer", one), 0)
        layers.note("same_1", Mark("layer", two), 1)
        assert layers.ambiguous == ("same_1",)
        assert layers.find(["same_1", "x"]) == Mark("layer", model)
        assert layers.find(["same_1", "x"], traces=[1]) == Mark("layer", two)
        assert layers.find(["same_1", "x"], within=one) == Mark("layer", one)

    def test_layers_that_nothing_holds_together_are_unknown(self, layers: LayerMap) -> None:
        one, two = named(layers, "one", "two")
        layers.note("same_1", Mark("layer", one), 0)
        layers.note("same_1", Mark("layer", two), 1)
        assert layers.find(["same_1"]) is None

    def test_the_same_layer_in_several_functions_is_not_ambiguous(self, layers: LayerMap) -> None:
        for trace in range(3):
            layers.note("dense_1", Mark("layer", 0), trace)
        assert layers.ambiguous == ()

    def test_what_was_watched_is_better_than_what_was_found_later(self, layers: LayerMap) -> None:
        one, two = named(layers, "one", "two")
        layers.note("dense_1", Mark("layer", two), BEFORE)
        assert layers.find(["dense_1"]) == Mark("layer", two)
        layers.note("dense_1", Mark("layer", one), 0)
        assert layers.find(["dense_1"]) == Mark("layer", one)

    def test_optimizers_are_known_by_name(self, layers: LayerMap) -> None:
        layers.note_optimizer("adam")
        layers.note_optimizer("adam")
        assert layers.optimizers == ("adam",)


def test_a_layer_with_an_empty_name_is_called_by_its_class() -> None:
    layers = LayerMap()
    layer = keras.layers.Dense(1)
    layer.name = ""
    layers.at(layer, None)
    assert layers.names() == ["Dense"]


def test_a_scope_is_known_only_once_it_is_noted() -> None:
    layers = LayerMap()
    layers.note("a/b", Mark("loss"))
    assert layers.has("a/b")
    assert not layers.has("a")
