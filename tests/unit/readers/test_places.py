"""Which step, phase and layer the ranges around a launch stand for."""

from __future__ import annotations

from typing import Any

import pytest

from hroof.collect import tsl
from hroof.collect.nvtx import Names
from hroof.readers.places import Place, place
from hroof.readers.raw import Ranges
from hroof.regions import Kind, Mark
from hroof.units import Phase


def own(*marks: Mark) -> tuple[tuple[tuple[str, str], ...], Names]:
    """Ranges of the domain hroof, and the table of their names."""
    names = Names()
    return tuple(("hroof", names.message(mark)) for mark in marks), names


STEP = Mark(Kind.STEP, "6")
REGION = Mark(Kind.REGION, "train")
BACKWARD = Mark(Kind.PHASE, "backward")


def layer(name: str, phase: str = "forward", recompute: bool = False) -> Mark:
    return Mark(Kind.LAYER, name, phase, recompute)


def test_marks_of_hroof_tell_everything() -> None:
    ranges, names = own(REGION, STEP, BACKWARD, layer("blocks.3"), layer("blocks.3.attn/qkv"))
    found = place(Ranges(pushed=ranges[3:], started=ranges[:3]), names.table())
    assert found == Place(6, Phase.FORWARD, "blocks.3.attn/qkv", region="train")


def test_the_innermost_layer_says_the_phase_and_whether_it_is_recomputed() -> None:
    ranges, names = own(BACKWARD, layer("a", "backward"), layer("a.b", "forward", recompute=True))
    found = place(Ranges(pushed=ranges[1:], started=ranges[:1]), names.table())
    assert (found.layer, found.phase, found.recompute) == ("a.b", Phase.FORWARD, True)


def test_without_a_layer_the_phase_range_decides() -> None:
    ranges, names = own(STEP, Mark(Kind.PHASE, "optimizer"))
    found = place(Ranges(started=ranges), names.table())
    assert (found.step, found.phase, found.layer) == (6, Phase.OPTIMIZER, None)


def test_a_message_is_complete_without_any_table() -> None:
    ranges, _ = own(STEP, layer("blocks.0"))
    found = place(Ranges(pushed=ranges[1:], started=ranges[:1]), {})
    assert (found.step, found.layer) == (6, "blocks.0")


def test_ranges_of_others_do_not_disturb_those_of_hroof() -> None:
    ranges, names = own(STEP, layer("fc"))
    pushed = (("<default domain>", "backward"), ("<default domain>", "aten::mm"), *ranges[1:])
    found = place(Ranges(pushed=pushed, started=ranges[:1]), names.table())
    assert found == Place(6, Phase.FORWARD, "fc")


def test_nothing_open_is_no_place() -> None:
    assert place(Ranges()) == Place()
    assert Place().phase is Phase.OTHER


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("step", "forward", "fc"), {"phase": Phase.FORWARD, "layer": "fc"}),
        (("Step 12", "Backward", "fc"), {"step": 12, "phase": Phase.BACKWARD, "layer": "fc"}),
        (("step_7",), {"step": 7}),
        (("stepping stone",), {"layer": "stepping stone"}),
        (("a", "a.b"), {"layer": "a.b"}),
        (("fc", "aten::addmm, seq = 5"), {"layer": "fc", "op": "aten::addmm"}),
        (("module:model.layers.0",), {"layer": "module:model.layers.0"}),
        (("std::sort of mine",), {"layer": "std::sort of mine"}),
        (("",), {}),
        (("optimizer_step", "bwd"), {"phase": Phase.BACKWARD}),
    ],
)
def test_names_that_a_program_gave_are_taken_at_their_word(
    names: tuple[str, ...], expected: dict[str, Any]
) -> None:
    pushed = tuple(("my domain", name) for name in names)
    assert place(Ranges(pushed=pushed)) == Place(**expected)


def test_process_wide_ranges_are_outside_those_of_the_thread() -> None:
    ranges = Ranges(pushed=(("d", "fc"),), started=(("d", "loss"), ("d", "epoch")))
    assert place(ranges) == Place(phase=Phase.LOSS, layer="fc")


def test_foreign_messages_in_the_domain_of_hroof_are_passed_over() -> None:
    assert place(Ranges(pushed=(("hroof", "not ours"),))) == Place()


# --- TensorFlow's own ranges ----------------------------------------------------------------------

FC = (tsl.Share(Phase.BACKWARD, "fc"),)
FUSED = (tsl.Share(Phase.BACKWARD, "fc", 0.25), tsl.Share(Phase.FORWARD, "conv", 0.75))
NODES = tsl.Places({"net/fc/MatMul": FC}, {"m": {"fusion.1": FUSED}})
NODE = ("TSL", "net/fc/MatMul:MatMul")


def test_a_node_tells_op_phase_and_layer_where_steps_come_from_hroof() -> None:
    ranges, names = own(REGION, STEP)
    found = place(Ranges(pushed=(NODE,), started=ranges), names.table(), NODES)
    assert found == Place(6, Phase.BACKWARD, "fc", op="MatMul", region="train")


def test_a_layer_that_hroof_marked_stays() -> None:
    ranges, names = own(STEP, layer("mine"))
    found = place(Ranges(pushed=(*ranges[1:], NODE), started=ranges[:1]), names.table(), NODES)
    assert found == Place(6, Phase.FORWARD, "mine", op="MatMul")


def test_a_node_that_the_run_does_not_know_has_its_op_and_the_phase_around_it() -> None:
    ranges, names = own(STEP, BACKWARD)
    unknown = ("TSL", "AddN_3:AddN")
    found = place(Ranges(pushed=(unknown,), started=ranges), names.table(), NODES)
    assert found == Place(6, Phase.BACKWARD, None, op="AddN")


def test_a_phase_that_the_node_leaves_open_is_the_one_around_it() -> None:
    ranges, names = own(STEP, BACKWARD)
    nodes = tsl.Places({"net/fc/MatMul": (tsl.Share(Phase.OTHER, "fc"),)})
    found = place(Ranges(pushed=(NODE,), started=ranges), names.table(), nodes)
    assert (found.phase, found.layer) == (Phase.BACKWARD, "fc")


def test_a_fused_instruction_has_parts_and_stands_at_the_largest() -> None:
    pushed = (("TSL", "XlaModule:#hlo_module=m#"), ("TSL", "Thunk:#hlo_op=fusion.1#"))
    found = place(Ranges(pushed=pushed), None, NODES)
    assert found == Place(None, Phase.FORWARD, "conv", op="fusion", parts=FUSED)


def test_a_node_that_is_computed_again_says_so() -> None:
    nodes = tsl.Places({"net/fc/MatMul": (tsl.Share(Phase.FORWARD, "fc", recompute=True),)})
    found = place(Ranges(pushed=(NODE,)), None, nodes)
    assert found == Place(None, Phase.FORWARD, "fc", recompute=True, op="MatMul")


def test_without_a_table_a_node_stands_for_its_scope() -> None:
    found = place(Ranges(pushed=(("TSL", "gradient_tape/net_1/fc_1/MatMul:MatMul"),)))
    assert found == Place(phase=Phase.BACKWARD, layer="net_1/fc_1", op="MatMul")


def test_names_that_the_program_gave_come_before_those_of_nodes() -> None:
    pushed = (("mine", "encoder"), NODE)
    assert place(Ranges(pushed=pushed)) == Place(layer="encoder", op="MatMul")
    assert place(Ranges(pushed=pushed), None, NODES).layer == "encoder"


def test_passes_of_the_compiler_are_no_layers() -> None:
    pushed = (("TSL", "XlaCompile:#module=m#"), ("TSL", "XlaPass:#name=dce#"))
    assert place(Ranges(pushed=pushed)) == Place()
    assert place(Ranges(pushed=(NODE, *pushed)), None, NODES).layer == "fc"


# --- several steps at once ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "step", "steps"),
    [("6", 6, 1), ("6-9", 6, 4), ("7-7", 7, 1), ("9-6", 9, 1), ("six", None, 1), ("6-", None, 1)],
)
def test_a_mark_may_name_several_steps(name: str, step: int | None, steps: int) -> None:
    ranges, names = own(Mark(Kind.STEP, name))
    found = place(Ranges(started=ranges), names.table())
    assert (found.step, found.steps) == (step, steps)
