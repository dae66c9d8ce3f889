"""NVTX cells of old and new versions, and names that ncu does not protect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hroof.readers.ncu_csv.ranges import (
    States,
    columns,
    nested,
    prefix,
    pushed,
    readable,
    renamed,
    started,
)
from hroof.readers.raw import Ranges

NEW_PUSH = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
OLD_PUSH = "thread Domain:Push/Pop_Range:PL_Type:PL_Value"
NEW_START = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
OLD_START = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value"
DEFAULT = "<default domain>"


def test_the_columns_are_found_wherever_they_are() -> None:
    assert columns(["ID", NEW_PUSH, NEW_START, "Kernel Name"]) == (1, 2)
    assert columns(["ID", "Kernel Name", OLD_START]) == (None, 2)
    assert columns(["ID", "Kernel Name"]) == (None, None)


def test_push_pop_ranges_come_outermost_first(block: Callable[..., str]) -> None:
    cell = f"13416  {block('step')}  {block('forward')}  {block('conv1')} "
    assert pushed(cell, NEW_PUSH) == ((DEFAULT, "step"), (DEFAULT, "forward"), (DEFAULT, "conv1"))


def test_cells_of_old_versions_have_two_fields_behind_the_name() -> None:
    assert pushed('7  "<default domain>:a:b:none:none"  "mine:c:none:none" ', OLD_PUSH) == (
        (DEFAULT, "a:b"),
        ("mine", "c"),
    )
    assert started(' "0:<default domain>:convLayer:none:none" ', OLD_START) == (
        (DEFAULT, "convLayer"),
    )


def test_start_end_ranges_begin_with_their_number(block: Callable[..., str]) -> None:
    cell = f' "3:{block("train", "hroof")[1:]}  "12:{block("step:5", "hroof")[1:]} '
    assert started(cell, NEW_START) == (("hroof", "train"), ("hroof", "step:5"))


def test_several_domains_share_a_cell(block: Callable[..., str]) -> None:
    cell = f"5  {block('a')}  {block('b', 'my domain')}  {block('c', 'hroof')} "
    assert pushed(cell, NEW_PUSH) == ((DEFAULT, "a"), ("my domain", "b"), ("hroof", "c"))


@pytest.mark.parametrize(
    "name", ["module:model.layers.0", ":x", "a::b", "url http://host", "tail:", "L1|p=forward|x"]
)
def test_colons_in_a_name_stay_in_it(block: Callable[..., str], name: str) -> None:
    assert pushed(f"5  {block(name)} ", NEW_PUSH) == ((DEFAULT, name),)


@pytest.mark.parametrize("name", ["a:b", "a:b:c", "none:none", "x:x:x"])
def test_a_message_that_repeats_the_name_shows_where_it_ends(
    block: Callable[..., str], name: str
) -> None:
    assert pushed(f"5  {block(name, message=name)} ", NEW_PUSH) == ((DEFAULT, name),)


NODES = (
    "StatefulPartitionedCall/net_1/fc_1/MatMul:MatMul",
    "XlaModule:#prefix=jit(f)/,hlo_module=jit_f,program_id=7#",
    "Thunk:#name=jvp(fc)/dot_general[dims=(((1,), (0,)), ((), ()))],hlo_op=fusion.3#",
)


@pytest.mark.parametrize("repeated", [True, False])
def test_nodes_of_tensorflow_are_read_whole(block: Callable[..., str], repeated: bool) -> None:
    blocks = (block(name, "TSL", name if repeated else "none") for name in NODES)
    cell = f"77  {'  '.join(blocks)} "
    assert readable(cell)
    assert pushed(cell, NEW_PUSH) == tuple(("TSL", name) for name in NODES)


@pytest.mark.parametrize("name", ["two words", "ünï", "a, b", "a\nb", "it's", "x  y", "[0]/*"])
def test_other_signs_in_a_name_do_not_matter(block: Callable[..., str], name: str) -> None:
    cell = f"5  {block('outer')}  {block(name)} "
    assert pushed(cell, NEW_PUSH) == ((DEFAULT, "outer"), (DEFAULT, name))


@pytest.mark.parametrize("cell", ["", " ", "13416  ", "13416"])
def test_a_cell_without_blocks_is_no_range(cell: str) -> None:
    assert pushed(cell, NEW_PUSH) == ()
    assert started(cell, NEW_START) == ()
    assert readable(cell)


def test_cells_of_a_summary_have_no_domain() -> None:
    header = "Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    cell = ' "run:none:none:RGB:0xff00ff00:ASCII:run"  "a:b:none:none:none:none:none:none" '
    assert nested(cell, "mine", header) == (("mine", "run"), ("mine", "a:b"))


@pytest.mark.parametrize(
    "cell",
    [
        '5  "<default domain>:ab:none:none"" ',
        '5  "<default domain>:a',
        "5  <default domain>:a:none:none",
        '5  "nothing" ',
    ],
)
def test_broken_cells_are_noticed(cell: str) -> None:
    assert not readable(cell)


def test_a_whole_cell_is_readable(block: Callable[..., str]) -> None:
    assert readable(f"5  {block('a')}  {block('b')} ")


def test_states_are_kept_once(block: Callable[..., str]) -> None:
    states = States(["ID", NEW_PUSH, NEW_START])
    assert states.known
    empty = states.place("", "")
    inside = states.place(f"5  {block('a')} ", f' "1:{block("s")[1:]} ')
    assert states.place(f"9  {block('a')} ", f' "2:{block("s")[1:]} ') == inside != empty
    assert states.found == (Ranges(), Ranges(((DEFAULT, "a"),), ((DEFAULT, "s"),)))


def test_a_table_with_only_one_of_the_columns_has_states(block: Callable[..., str]) -> None:
    states = States(["ID", NEW_START])
    states.place("", f' "1:{block("s")[1:]} ')
    assert states.found == (Ranges((), ((DEFAULT, "s"),)),)
    assert not States(["ID"]).known


def test_the_range_before_a_kernel_is_known_if_every_kernel_in_a_range_has_it() -> None:
    state = Ranges(((DEFAULT, "outer"), (DEFAULT, "inner")))
    kernels = ["inner/copy(int)", "gemm", "inner/a/b"]
    states = [state, Ranges(), state]
    assert renamed(kernels, states)
    assert [
        kernel[prefix(kernel, state) :] for kernel, state in zip(kernels, states, strict=True)
    ] == [
        "copy(int)",
        "gemm",
        "a/b",
    ]


def test_other_kernels_are_not_renamed() -> None:
    state = Ranges(((DEFAULT, "inner"),))
    assert not renamed(["inner/copy", "copy"], [state, state])
    assert not renamed(["a/copy"], [Ranges()])
    assert not renamed([], [])
