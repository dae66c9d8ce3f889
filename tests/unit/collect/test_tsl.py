"""Ranges of TensorFlow's own, and the table of what they serve."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.collect.tsl import (
    Instruction,
    Module,
    Node,
    Places,
    Running,
    Share,
    by_scope,
    parse,
    read,
    running,
)
from hroof.errors import ProfileError
from hroof.units import Phase

MODULE = "XlaModule:#prefix=jit(train_step)/,hlo_module=jit_train_step,program_id=7#"
THUNK = "Thunk:#name=jvp(fc1)/dot_general,hlo_op=fusion.3#"
FC1 = (Share(Phase.FORWARD, "fc1"),)
BOTH = (Share(Phase.FORWARD, "fc1", 0.75), Share(Phase.LOSS, None, 0.25))


# --- messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("net_1/fc1_1/MatMul:MatMul", Node("net_1/fc1_1/MatMul", "MatMul")),
        ("net/Relu:_MklNativeFusedMatMul", Node("net/Relu", "_MklNativeFusedMatMul")),
        ("while/body/_3/x-y>z.1:AddV2", Node("while/body/_3/x-y>z.1", "AddV2")),
        ("a/b:MatMul#shape=(float[2,3];float[3,4])#", Node("a/b", "MatMul")),
        (MODULE, Module("jit_train_step", "jit(train_step)/")),
        ("XlaModule:#hlo_module=cluster_0#", Module("cluster_0")),
        ("XlaModule:#hlo_module=cluster_0,program_id=12#", Module("cluster_0")),
        (THUNK, Instruction("fusion.3", "jvp(fc1)/dot_general")),
        ("Thunk:#hlo_op=copy.1#", Instruction("copy.1")),
        ("Thunk:#hlo_op=copy.1,unique_hlo_op_id=9#", Instruction("copy.1")),
        (
            "Thunk:#name=f[dims=(((1,), (0,)), ((), ()))],hlo_op=dot.2#",
            Instruction("dot.2", "f[dims=(((1,), (0,)), ((), ()))]"),
        ),
    ],
)
def test_what_a_range_stands_for(message: str, expected: object) -> None:
    assert parse(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "XlaCompile:#module=cluster_0,program_id=1#",
        "XlaPassPipeline:#name=fusion,module=cluster_0#",
        "XlaPass:#name=dce#",
        "XlaModule:#prefix=a/#",
        "Thunk:#name=a#",
        "no colon",
        "a:b:C",
        ":MatMul",
        "node:",
        "node:1st",
        "",
    ],
)
def test_what_is_no_node_stands_for_nothing(message: str) -> None:
    assert parse(message) is None


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("fusion.3", "fusion"),
        ("loop_add_fusion", "loop_add_fusion"),
        ("wrapped_transpose.12.clone", "wrapped_transpose"),
        ("convolution.5.remat2", "convolution"),
        ("triton_gemm_dot.7.0", "triton_gemm_dot"),
    ],
)
def test_the_number_of_an_instruction_is_no_part_of_its_op(name: str, op: str) -> None:
    assert Instruction(name).op == op


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (["a/b:MatMul"], Running("MatMul", "a/b")),
        (["while:While", "while/body/x:AddV2"], Running("AddV2", "while/body/x")),
        (
            ["call:XlaLaunch", MODULE, THUNK],
            Running("fusion", None, "jit_train_step", "fusion.3", "jit(train_step)/jvp(fc1)/dot_general"),
        ),
        ([MODULE], Running(module="jit_train_step")),
        (["Thunk:#hlo_op=copy.1#"], Running("copy", None, None, "copy.1")),
        ([MODULE, "Thunk:#hlo_op=while#", THUNK],
         Running("fusion", None, "jit_train_step", "fusion.3", "jit(train_step)/jvp(fc1)/dot_general")),
        (["a/b:MatMul", "XlaPass:#name=dce#"], Running("MatMul", "a/b")),
        (["XlaPass:#name=dce#"], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_innermost_range_that_says_something_counts(
    messages: list[str], expected: Running | None
) -> None:
    assert running(messages) == expected


# --- the table ----------------------------------------------------------------------------------

PLACES = Places(
    {"net/fc1/MatMul": FC1, "jit(train_step)/jvp(fc1)/dot_general": FC1},
    {"jit_train_step": {"fusion.3": BOTH}, "other": {"fusion.3": FC1}},
)


@pytest.mark.parametrize(
    ("messages", "parts"),
    [
        (["net/fc1/MatMul:MatMul"], FC1),
        (["net/fc2/MatMul:MatMul"], ()),
        (["StatefulPartitionedCall_2/PartitionedCall/net/fc1/MatMul:MatMul"], FC1),
        ([MODULE, THUNK], BOTH),
        (["XlaModule:#hlo_module=other#", "Thunk:#hlo_op=fusion.3#"], FC1),
        # The compiler made another instruction of it than the one that the run knew: its op still tells.
        ([MODULE, "Thunk:#name=jvp(fc1)/dot_general,hlo_op=fusion.4#"], FC1),
        ([MODULE, "Thunk:#hlo_op=fusion.4#"], ()),
        ([MODULE], ()),
    ],
)
def test_names_are_looked_up(messages: list[str], parts: tuple[Share, ...]) -> None:
    what = running(messages)
    assert what is not None
    assert PLACES.of(what) == parts


def test_the_table_survives_a_file() -> None:
    table = json.loads(json.dumps(PLACES.table()))
    assert read(table) == PLACES
    assert table["nodes"] == {"net/fc1/MatMul": 0, "jit(train_step)/jvp(fc1)/dot_general": 0}
    assert table["parts"] == [
        [["forward", "fc1", 1.0]],
        [["forward", "fc1", 0.75], ["loss", None, 0.25]],
    ]


def test_work_that_is_computed_again_says_so() -> None:
    again = Places({"n": (Share(Phase.FORWARD, "fc1", recompute=True),)})
    assert again.table()["parts"] == [[["forward", "fc1", 1.0, True]]]
    assert read(again.table()) == again


names = st.text(min_size=1, max_size=8)
shares = st.builds(
    lambda phase, layer, again: (Share(phase, layer, 1.0, again),),
    st.sampled_from(Phase),
    st.none() | names,
    st.booleans(),
)


@given(st.dictionaries(names, shares), st.dictionaries(names, st.dictionaries(names, shares)))
def test_any_table_survives_a_file(
    nodes: dict[str, tuple[Share, ...]], modules: dict[str, dict[str, tuple[Share, ...]]]
) -> None:
    places = Places(nodes, modules)
    assert read(json.loads(json.dumps(places.table()))) == places


GOOD: dict[str, Any] = {"parts": [[["forward", "a", 1.0]]], "nodes": {"n": 0}, "modules": {}}


@pytest.mark.parametrize(
    "table",
    [
        [],
        "text",
        {},
        GOOD | {"nodes": {"n": 1}},
        GOOD | {"nodes": {"n": -1}},
        GOOD | {"nodes": ["n"]},
        GOOD | {"modules": {"m": {"i": 7}}},
        GOOD | {"parts": [[["sideways", "a", 1.0]]]},
        GOOD | {"parts": [[["forward", "a"]]]},
        GOOD | {"parts": [[["forward", "a", 0.5]]]},
        GOOD | {"parts": [[["forward", "a", "half"]]]},
        GOOD | {"parts": [[]]},
    ],
)
def test_a_damaged_table_is_told(table: Any) -> None:
    with pytest.raises(ProfileError, match="places") as caught:
        read(table)
    assert "run.json" in caught.value.remedy


def test_tables_of_several_regions_are_joined_and_the_first_one_holds() -> None:
    other = Places({"net/fc1/MatMul": BOTH, "new": FC1}, {"jit_train_step": {"copy.1": FC1}})
    joined = PLACES.joined(other)
    assert joined.nodes == {**PLACES.nodes, "new": FC1}
    assert joined.modules["jit_train_step"] == {"fusion.3": BOTH, "copy.1": FC1}
    assert joined.modules["other"] == PLACES.modules["other"]


# --- without a table ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "phase", "layer"),
    [
        ("net_1/fc1_1/MatMul:MatMul", Phase.OTHER, "net_1/fc1_1"),
        ("StatefulPartitionedCall_1/PartitionedCall/net_1/fc_1/MatMul:MatMul", Phase.OTHER, "net_1/fc_1"),
        ("StatefulPartitionedCall/gradient_tape/net_1/fc_1/MatMul:MatMul", Phase.BACKWARD, "net_1/fc_1"),
        ("AddN_3:AddN", Phase.OTHER, None),
        ("gradient_tape/AddN:AddN", Phase.BACKWARD, None),
    ],
)  # fmt: skip
def test_without_a_table_the_scope_stands_for_the_layer(
    message: str, phase: Phase, layer: str | None
) -> None:
    what = running([message])
    assert what is not None
    assert by_scope(what) == (Share(phase, layer),)


def test_an_instruction_has_the_scope_of_its_op() -> None:
    what = running([MODULE, THUNK])
    assert what is not None
    assert by_scope(what) == (Share(Phase.OTHER, "jit(train_step)/jvp(fc1)"),)
    nameless = running([MODULE, "Thunk:#hlo_op=copy.1#"])
    assert nameless is not None
    assert by_scope(nameless) == ()
