"""Events of a profile: nodes, eager ops, instructions, device work, steps, and what is none of these."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from hroof_keras.graph.nodes import TensorSpec
from hroof_keras.profiling.events import (
    BEGIN,
    END,
    INPUT,
    Event,
    Recorded,
    read_events,
    read_shapes,
    shapes_within,
    within,
)
from hroof_keras.profiling.xplane import Line, Raw, Space


def read(*lines: Line, modules: dict[int, bytes] | None = None) -> Recorded:
    return read_events(Space(lines, modules or {}))


def host(*events: Raw, name: str = "tf_Compute/1") -> Line:
    return Line("/host:CPU", name, 1, events)


def one(*events: Raw, name: str = "tf_Compute/1") -> Event:
    (found,) = read(host(*events, name=name)).events
    return found


def names(*events: Raw, name: str = "tf_Compute/1") -> list[str]:
    return [event.name for event in read(host(*events, name=name)).events]


def test_a_node_has_its_type_times_and_shapes() -> None:
    shape = "(float[32,4096];float[4096,128];)"
    event = one(Raw("cnn_1/fc1_1/Relu:_MklNativeFusedMatMul", 5, 9, {"shape": shape}))
    assert (event.name, event.op) == ("cnn_1/fc1_1/Relu", "_MklNativeFusedMatMul")
    assert (event.kind, event.start, event.end, event.duration) == ("op", 5, 9, 4)
    assert event.shapes == (
        TensorSpec((32, 4096), "float32"),
        TensorSpec((4096, 128), "float32"),
        None,
    )


def test_without_shapes_nothing_is_known_of_them() -> None:
    assert one(Raw("a:Mul", 1, 2)).shapes is None


@pytest.mark.parametrize(
    "name",
    [
        "ThreadpoolListener::Record",
        "ThreadpoolListener:Record",
        "ExecutorState::Process",
        "Iterator::Root::Prefetch",
        "EagerExecute",
        "EagerCopyToDevice",
        "TFE_Py_FastPathExecute_C",
        "KernelAndDeviceFunc::Run",
        "a:mul",
        "MemoryAllocation",
    ],
)
def test_what_is_no_node(name: str) -> None:
    assert names(Raw(name, 1, 2)) == []


@pytest.mark.parametrize("node", ["a", "while/body/_1/while/add_2", "_arg_x", "A.b-c\\d>e"])
def test_names_of_nodes(node: str) -> None:
    assert names(Raw(f"{node}:AddV2", 1, 2)) == [node]


def test_an_eager_op() -> None:
    event = one(Raw("EagerLocalExecute: Conv2D", 1, 2), name="python")
    assert (event.kind, event.name, event.op) == ("eager", "Conv2D", "Conv2D")


@pytest.mark.parametrize(
    "op", ["__inference_step_12", "__forward_f_1", "__backward_f_2", "SyncDevice"]
)
def test_calls_of_functions_and_waiting_are_no_eager_ops(op: str) -> None:
    assert names(Raw(f"EagerLocalExecute: {op}", 1, 2), name="python") == []


def test_an_instruction_on_any_line() -> None:
    stats = {"hlo_op": "fusion.3", "hlo_module": "jit", "program_id": -1}
    event = one(Raw("fusion.3", 1, 2, stats), name="tf_numa_-1_Eigen/7")
    assert (event.kind, event.name, event.op) == ("hlo", "fusion.3", "")
    assert (event.hlo_module, event.hlo_program) == ("jit", 2**64 - 1)


@pytest.mark.parametrize("name", ["while", "while.3", "conditional.1", "async-done.2"])
def test_instructions_that_contain_others_are_left_out(name: str) -> None:
    assert names(Raw(name, 1, 2, {"hlo_op": name})) == []


@pytest.mark.parametrize("name", ["while_loop_fusion", "call_fusion.1", "conditional_fusion"])
def test_fusions_named_after_such_are_kept(name: str) -> None:
    assert names(Raw(name, 1, 2, {"hlo_op": name})) == [name]


def test_the_end_of_an_instruction_is_no_second_one() -> None:
    assert names(Raw("end: fusion.3", 1, 2, {"hlo_op": "fusion.3"})) == []


def test_work_of_the_input_pipeline_is_known_as_such() -> None:
    assert one(Raw("GatherV2:GatherV2", 1, 2), name="tf_data_iterator_resource/3").pipeline
    assert not one(Raw("GatherV2:GatherV2", 1, 2)).pipeline


def test_events_come_in_order_the_outer_before_the_inner() -> None:
    lines = host(Raw("b:B", 5, 6), Raw("inner:C", 1, 2)), host(Raw("outer:D", 1, 9))
    assert [event.name for event in read(*lines).events] == ["outer", "inner", "b"]


def test_threads_are_numbered_in_order() -> None:
    found = read(host(Raw("a:A", 1, 2)), host(Raw("b:B", 3, 4)))
    assert [event.thread for event in found.events] == [0, 1]


# --- Steps ---------------------------------------------------------------------------------------


def marks(*texts: tuple[int, str]) -> Recorded:
    return read(host(*(Raw(name, time, time) for time, name in texts), name="python"))


def test_a_step_lies_between_its_beginning_and_its_end() -> None:
    found = marks((1, BEGIN), (5, f"{END}1"), (6, BEGIN), (9, f"{END}4"))
    assert found.steps == ((1, 5), (6, 9))
    assert found.at_once == (1, 4)


def test_a_beginning_without_an_end_is_void() -> None:
    assert marks((1, BEGIN), (3, BEGIN), (5, f"{END}1"), (7, BEGIN)).steps == ((3, 5),)


def test_an_end_without_a_beginning_is_none() -> None:
    assert marks((1, f"{END}1"), (2, BEGIN), (3, f"{END}1"), (4, f"{END}1")).steps == ((2, 3),)


def test_events_within_a_span_begin_in_it() -> None:
    found = read(host(Raw("a:A", 1, 5), Raw("b:B", 2, 3), Raw("c:C", 4, 9), Raw("d:D", 6, 7)))
    assert [event.name for event in within(found.events, 2, 6)] == ["b", "c"]


def test_what_a_step_got() -> None:
    pipeline = {"shapes": "[32,3] [32]"}
    found = read(
        host(
            Raw("EagerLocalExecute: __inference_step_1", 2, 3),
            Raw(f"{INPUT}[8,2]", 3, 3),
            Raw(f"{INPUT}[8,2]", 4, 4),
            Raw(f"{INPUT}[9,9]", 12, 12),
            name="python",
        ),
        host(Raw("Iterator::Root", 5, 6, pipeline)),
        host(Raw("Iterator::Root::Prefetch", 6, 7, {"shapes": "[1]"}), name="tf_data_x/1"),
    )
    assert shapes_within(found, 0, 10) == ["[32,3] [32]", "[8,2]"]
    assert (2, "__inference_step_1") in found.signs


# --- Shapes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("", ()),
        ("()", ()),
        ("(float[])", (TensorSpec((), "float32"),)),
        ("(int32[4];;half[2,3])", (TensorSpec((4,), "int32"), None, TensorSpec((2, 3), "float16"))),
        ("(float[?,3])", (TensorSpec(None, "float32"),)),
        ("(bfloat16[1, 2])", (TensorSpec((1, 2), "bfloat16"),)),
    ],
)
def test_shapes(text: str, shapes: tuple[Any, ...]) -> None:
    assert read_shapes(text) == shapes


# --- Device work ---------------------------------------------------------------------------------


def stream(*events: Raw, name: str = "Stream #7(Compute,MemcpyH2D)") -> Line:
    return Line("/device:GPU:1", name, 7, events)


def test_a_kernel() -> None:
    stats = {"tf_op": "a/MatMul:MatMul", "correlation_id": 12}
    (kernel,) = read(stream(Raw("sgemm", 1, 2, stats))).events
    assert (kernel.kind, kernel.device, kernel.stream) == ("kernel", "cuda:1", 7)
    assert (kernel.node, kernel.correlation, kernel.instruction) == ("a/MatMul:MatMul", 12, "")


def test_a_kernel_of_a_compiled_program() -> None:
    stats = {"hlo_op": "fusion.1", "hlo_module": "jit", "program_id": 3}
    (kernel,) = read(stream(Raw("fusion_1", 1, 2, stats))).events
    assert (kernel.kind, kernel.name, kernel.instruction) == ("kernel", "fusion_1", "fusion.1")
    assert (kernel.hlo_module, kernel.hlo_program) == ("jit", 3)


@pytest.mark.parametrize(
    ("stat", "kind"), [("memcpy_details", "memcpy"), ("memset_details", "memset")]
)
def test_copies_and_fills(stat: str, kind: str) -> None:
    (event,) = read(stream(Raw("x", 1, 2, {stat: "size:4"}))).events
    assert event.kind == kind


@pytest.mark.parametrize("name", ["TensorFlow Ops", "XLA Modules", "Steps"])
def test_lines_that_repeat_the_streams_are_left_out(name: str) -> None:
    assert read(stream(Raw("sgemm", 1, 2), name=name)).events == ()


def test_calls_of_the_driver_are_known_by_correlation() -> None:
    calls = Line("/host:CUPTI", "1", 1, (Raw("cuLaunchKernel", 5, 6, {"correlation_id": 12}),))
    found = read(calls)
    assert found.calls == {12: 5}
    assert found.events == ()


def test_programs_are_handed_on() -> None:
    assert read(modules={3: b"x"}).hlo_modules == {3: b"x"}
