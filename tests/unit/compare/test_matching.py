"""Matching of layers: by name, by shape, by order; every layer in exactly one pair; the same both ways."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.compare.matching import (
    SAME_TYPES,
    How,
    Layer,
    Pairs,
    folded,
    layers_of,
    match_layers,
    match_names,
)
from hroof.profile import Profile


def pairs(base: list[Layer], new: list[Layer]) -> set[tuple[str | None, str | None, str]]:
    return {(a, b, str(how)) for a, b, how in match_layers(base, new)}


class TestNames:
    def test_equal_ones_pair_and_the_others_stand_alone(self) -> None:
        found = match_names(["a", "b", "c"], ["c", "d", "a"])
        assert found == [
            ("a", "a", How.NAME),
            ("c", "c", How.NAME),
            ("b", None, How.NONE),
            (None, "d", How.NONE),
        ]

    def test_nothing(self) -> None:
        assert match_names([], []) == []


class TestLayers:
    def test_a_name_wins_over_a_shape(self) -> None:
        base = [Layer("a", "dense", 10, 1e6), Layer("b", "dense", 20, 2e6)]
        new = [Layer("a", "dense", 20, 2e6), Layer("b", "dense", 10, 1e6)]
        assert pairs(base, new) == {("a", "a", "name"), ("b", "b", "name")}

    @pytest.mark.parametrize("wrapped", ["module.fc1", "_orig_mod.fc1", "module._orig_mod.fc1"])
    def test_wrappers_do_not_change_a_name(self, wrapped: str) -> None:
        assert pairs([Layer("fc1")], [Layer(wrapped)]) == {("fc1", wrapped, "name")}

    def test_two_layers_of_one_name_without_wrappers_are_not_guessed(self) -> None:
        found = pairs([Layer("a.fc")], [Layer("a.module.fc"), Layer("a._orig_mod.fc")])
        assert ("a.fc", None, "unmatched") in found

    def test_roots_pair_whatever_their_class(self) -> None:
        found = pairs([Layer("Net", root=True)], [Layer("Model", root=True)])
        assert found == {("Net", "Model", "root")}

    def test_the_same_shape_in_order(self) -> None:
        base = [Layer(f"a{i}", "dense", 10, 1e6, 4e3) for i in range(3)]
        new = [Layer(f"b{i}", "dense", 10, 1e6, 4e3) for i in range(2)]
        assert pairs(base, new) == {
            ("a0", "b0", "shape"),
            ("a1", "b1", "shape"),
            ("a2", None, "unmatched"),
        }

    def test_bytes_tell_layers_apart_where_they_can(self) -> None:
        base = [Layer("a", "conv2d", 9, 1e6, 1e3), Layer("b", "conv2d", 9, 1e6, 2e3)]
        new = [Layer("x", "conv2d", 9, 1e6, 2e3), Layer("y", "conv2d", 9, 1e6, 1e3)]
        assert pairs(base, new) == {("a", "y", "shape"), ("b", "x", "shape")}

    def test_other_bytes_of_another_precision_do_not_matter(self) -> None:
        base, new = [Layer("a", "dense", 10, 1e6, 4e3)], [Layer("b", "dense", 10, 1e6, 2e3)]
        assert pairs(base, new) == {("a", "b", "shape")}

    def test_parameters_where_another_batch_has_other_flop(self) -> None:
        base = [Layer("a", "dense", 10, 1e6), Layer("b", "dense", 20, 3e6)]
        new = [Layer("x", "dense", 20, 6e6), Layer("y", "dense", 10, 2e6)]
        assert pairs(base, new) == {("a", "y", "parameters"), ("b", "x", "parameters")}

    def test_parameters_of_a_batch_norm_are_counted_in_two_ways(self) -> None:
        """Those of 64 channels without the moving averages are as many as those of 32 with them."""
        base = [Layer("bn1", "batchnormalization", 64), Layer("bn2", "batchnormalization", 128)]
        new = [Layer("a", "batchnormalization", 128), Layer("b", "batchnormalization", 256)]
        assert pairs(base, new) == {("bn1", "a", "order"), ("bn2", "b", "order")}

    def test_order_only_where_both_have_equally_many_of_the_type(self) -> None:
        base = [Layer("a", "activation"), Layer("b", "activation")]
        assert pairs(base, [Layer("x", "activation"), Layer("y", "activation")]) == {
            ("a", "x", "order"),
            ("b", "y", "order"),
        }
        alone = pairs(base, [Layer("x", "activation")])
        assert alone == {(n, None, "unmatched") for n in "ab"} | {(None, "x", "unmatched")}

    def test_another_type_is_another_layer(self) -> None:
        found = pairs([Layer("a", "dense", 10, 1e6)], [Layer("x", "conv2d", 10, 1e6)])
        assert found == {("a", None, "unmatched"), (None, "x", "unmatched")}

    def test_what_is_known_of_nothing_matches_nothing(self) -> None:
        assert pairs([Layer("a")], [Layer("x")]) == {
            ("a", None, "unmatched"),
            (None, "x", "unmatched"),
        }


layers = st.builds(
    Layer,
    name=st.sampled_from([f"layer{i}" for i in range(12)]),
    type=st.sampled_from(["", "dense", "conv2d", "activation"]),
    parameters=st.sampled_from([None, 0, 10, 20]),
    flop=st.sampled_from([None, 1e6, 2e6]),
    nbytes=st.sampled_from([None, 1e3, 2e3]),
    root=st.booleans(),
)
models = st.lists(layers, max_size=10, unique_by=lambda layer: layer.name)


def names_of(found: Pairs, side: int) -> list[str]:
    return sorted(name for pair in found if (name := pair[side]) is not None)


@given(models, models)
def test_every_layer_is_in_exactly_one_pair(base: list[Layer], new: list[Layer]) -> None:
    found = match_layers(base, new)
    assert names_of(found, 0) == sorted(layer.name for layer in base)
    assert names_of(found, 1) == sorted(layer.name for layer in new)
    assert all((how is How.NONE) == (a is None or b is None) for a, b, how in found)


@given(models, models)
def test_the_other_order_gives_the_same_pairs(base: list[Layer], new: list[Layer]) -> None:
    back = {(b, a, str(how)) for a, b, how in match_layers(new, base)}
    assert pairs(base, new) == back


@given(models)
def test_a_model_matches_itself_by_name(base: list[Layer]) -> None:
    assert all(a == b and how is How.NAME for a, b, how in match_layers(base, base))


class TestTypes:
    @pytest.mark.parametrize(
        ("torch", "keras"),
        [
            ("Linear", "Dense"),
            ("Conv2d", "Conv2D"),
            ("BatchNorm2d", "BatchNormalization"),
            ("LayerNorm", "LayerNormalization"),
            ("MaxPool2d", "MaxPooling2D"),
            ("AdaptiveAvgPool2d", "GlobalAveragePooling2D"),
            ("ReLU", "Activation"),
            ("Embedding", "Embedding"),
            ("MultiheadAttention", "MultiHeadAttention"),
        ],
    )
    def test_both_frameworks_have_one_word(self, torch: str, keras: str) -> None:
        assert folded(torch) == folded(keras)

    def test_different_kinds_stay_different(self) -> None:
        kinds = ["Linear", "Conv2d", "Conv1d", "LayerNorm", "BatchNorm2d", "ReLU", "Embedding"]
        assert len({folded(kind) for kind in kinds}) == len(kinds)

    def test_the_table_is_folded_and_names_each_type_once(self) -> None:
        names = [name for group in SAME_TYPES for name in group]
        assert all(name == "".join(filter(str.isalnum, name.lower())) for name in names)
        assert len(names) == len(set(names))


class TestLayersOfARun:
    def test_facts_come_from_the_launches_and_from_the_list_of_layers(
        self, profile: Profile
    ) -> None:
        found = layers_of(profile)
        assert [layer.name for layer in found] == ["Net", "fc1", "fc2", "(no layer)"]
        net, fc1, fc2, none = found
        assert (net.root, fc1.root) == (True, False)
        assert (fc1.type, fc1.parameters) == ("linear", 40)
        assert fc1.flop == 4e6
        assert fc1.nbytes == pytest.approx(2e5)
        assert fc2.flop == 1e6
        assert none == Layer("(no layer)")

    def test_layers_that_nobody_listed_come_in_order_of_their_launches(self, build: Any) -> None:
        found = layers_of(build.other(names={"fc1": "z", "fc2": "b"}, layers=[]))
        assert [layer.name for layer in found] == ["z", "Net", "b", "(no layer)"]
        assert found[0].parameters is None

    @pytest.mark.parametrize("listed", [None, [], ["x"], [{"name": "fc1", "parameters": "many"}]])
    def test_odd_lists_of_layers_do_no_harm(self, build: Any, listed: Any) -> None:
        found = {layer.name: layer for layer in layers_of(build.other(layers=listed))}
        assert found["fc1"].parameters is None
        assert found["fc1"].type == "linear"

    def test_a_run_without_times_matches_too(self, build: Any) -> None:
        rows = [row | {"duration": float("nan")} for row in build.rows()]
        assert layers_of(Profile.from_rows(rows, build.run()))[1].flop == 4e6
