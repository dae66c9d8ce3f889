"""Instructions of compiled programs, and whole steps of graphs, instructions and device work read together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import tensorflow as tf

from hroof.units import Phase, Source
from hroof_keras.capturing.eager_step import EagerOps
from hroof_keras.capturing.graph_step import GraphOps
from hroof_keras.capturing.xla_step import XlaOps
from hroof_keras.graph.nodes import Node
from hroof_keras.graph.places import Place, Places
from hroof_keras.profiling.events import Event, Recorded
from hroof_keras.profiling.profiler import Session
from hroof_keras.profiling.reading import Read, Reader
from hroof_keras.scopes.layers import LayerMap

LAYER = 0


def place(name: str) -> Place | None:
    """Products belong to a layer, backward; nothing else is known."""
    return Place(Phase.BACKWARD, LAYER, "scope") if "MatMul" in name else None


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """One step of a compiled function with a product."""
    a, b = (tf.constant(np.ones(shape, "float32")) for shape in ((32, 64), (64, 16)))

    @tf.function(jit_compile=True)
    def run(a: Any, b: Any) -> Any:
        return tf.linalg.matmul(a, b, name="MatMul") + 1.0

    run(a, b)
    session = Session(shapes=True)
    session.start()
    run(a, b)
    session.end_step()
    return session.stop()


def instructions(recorded: Recorded) -> list[Event]:
    return [event for event in recorded.events if event.kind == "hlo"]


def test_an_instruction_has_the_work_of_its_program(recorded: Recorded) -> None:
    xla = XlaOps(recorded.hlo_modules, place)
    found = [xla.counted(event) for event in instructions(recorded)]
    assert sum(one.work.flop() for one in found) >= 2 * 32 * 64 * 16
    assert sum(one.work.bytes_read for one in found) > 0
    assert not xla.faults


def test_an_instruction_has_the_place_of_its_ops(recorded: Recorded) -> None:
    xla = XlaOps(recorded.hlo_modules, place)
    events = instructions(recorded)
    product = max(events, key=lambda event: xla.counted(event).work.flop())
    found = xla.counted(product)
    assert (found.phase, found.layer) == (Phase.BACKWARD, LAYER)
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)
    assert xla.rule(product) in ("own", "callee", "split")


def test_names_of_ops_have_no_running_number(recorded: Recorded) -> None:
    xla = XlaOps(recorded.hlo_modules, place)
    event = Event("fusion.12.3", "", 0, 1, kind="hlo", hlo_program=next(iter(recorded.hlo_modules)))
    assert xla.counted(event).op == "fusion"


def test_without_a_place_it_says_so(recorded: Recorded) -> None:
    xla = XlaOps(recorded.hlo_modules, lambda _: None)
    found = xla.counted(instructions(recorded)[0])
    assert (found.phase, found.layer) == (Phase.OTHER, None)
    assert xla.rule(instructions(recorded)[0]) == "none"


def test_a_program_that_the_profile_lacks_is_named() -> None:
    event = Event("dot", "", 0, 1, kind="hlo", hlo_module="jit_step", hlo_program=9)
    xla = XlaOps({}, place)
    found = xla.counted(event)
    assert found.work.source is Source.MISSING
    assert math.isnan(found.work.bytes_read)
    assert list(xla.faults) == ["The compiled program jit_step is not in the profile"]


def test_a_program_that_cannot_be_read_is_named() -> None:
    event = Event("dot", "", 0, 1, kind="hlo", hlo_module="jit_step", hlo_program=9)
    xla = XlaOps({9: b"\xff\xff"}, place)
    assert xla.counted(event).work.nominal is None
    assert next(iter(xla.faults)).startswith("The compiled program jit_step is not read")


def test_an_instruction_that_the_program_lacks_is_missing(recorded: Recorded) -> None:
    number = next(iter(recorded.hlo_modules))
    event = Event("nothing", "", 0, 1, kind="hlo", hlo_program=number)
    assert XlaOps(recorded.hlo_modules, place).counted(event).work.source is Source.MISSING


def test_names_of_all_ops_of_the_programs_that_ran(recorded: Recorded) -> None:
    xla = XlaOps(recorded.hlo_modules, place)
    assert any("MatMul" in name for name in xla.op_names(recorded.events))


def test_a_program_that_was_compiled_and_did_not_run_tells_no_names(recorded: Recorded) -> None:
    """A profile holds the programs of every model that was ever compiled."""
    others = [event for event in recorded.events if event.kind != "hlo"]
    assert XlaOps(recorded.hlo_modules, place).op_names(others) == set()


# --- Steps ---------------------------------------------------------------------------------------


def reader(xla: XlaOps, nodes: dict[str, Node] | None = None) -> Reader:
    known = nodes or {}
    graph = GraphOps(known, Places(LayerMap(), (), known))
    return Reader(graph, xla, EagerOps((), (), graph.buffers))


def test_a_step_is_read_with_times_of_its_own(recorded: Recorded) -> None:
    found = reader(XlaOps(recorded.hlo_modules, place)).read(recorded)
    (step,) = found.steps
    assert len(found.timed) == len(found.counted) == len(found.device_work)
    assert all(op.counted is work for op, work in zip(found.timed, found.counted, strict=True))
    assert found.origin == step.start
    assert all(0 <= op.start <= (step.end - step.start) / 1e9 for op in found.timed)
    assert sum(found.by_rule.values()) == pytest.approx(sum(op.duration for op in found.timed))


def device(
    start: int, *, node: str = "", instruction: str = "", program: int | None = None
) -> Event:
    return Event(
        "kernel",
        "",
        start,
        start + 3,
        kind="kernel",
        node=node,
        instruction=instruction,
        hlo_program=program,
        device="cuda:0",
        stream=7,
    )


def made(*events: Event, modules: dict[int, bytes] | None = None) -> Recorded:
    return Recorded(tuple(events), ((0, 100),), (1,), hlo_modules=modules or {})


@pytest.fixture
def read() -> Callable[[Recorded], Read]:
    return lambda recorded: reader(XlaOps(recorded.hlo_modules, place)).read(recorded)


def test_kernels_go_with_the_ops_that_started_them(read: Callable[[Recorded], Read]) -> None:
    op, kernel, lost = Event("a", "Mul", 1, 2), device(5, node="a:Mul"), device(9)
    found = read(made(op, kernel, lost))
    assert [one.op for one in found.timed] == ["Mul"]
    assert found.device_work == [[kernel]]
    assert found.unlinked == [(0, lost)]


def test_kernels_of_a_program_make_an_op_of_their_own(
    recorded: Recorded, read: Callable[[Recorded], Read]
) -> None:
    # A profile holds every program that the process has compiled.
    number = instructions(recorded)[0].hlo_program
    assert number is not None
    module = recorded.hlo_modules[number]
    xla = XlaOps(recorded.hlo_modules, place)
    name = max(instructions(recorded), key=lambda event: xla.counted(event).work.flop()).name
    kernels = [
        device(5, instruction=name, program=number),
        device(9, instruction=name, program=number),
    ]
    found = read(made(*kernels, modules={number: module}))
    assert found.device_work == [kernels]
    assert found.counted[0].layer == LAYER
    assert found.counted[0].work.flop() >= 2 * 32 * 64 * 16


def test_steps_without_events_are_steps(read: Callable[[Recorded], Read]) -> None:
    found = read(Recorded((), ((0, 5), (5, 9)), (1, 1)))
    assert [(step.start, step.end) for step in found.steps] == [(0, 5), (5, 9)]
    assert found.timed == []


def test_without_steps_nothing_is_read(read: Callable[[Recorded], Read]) -> None:
    found = read(Recorded((Event("a", "Mul", 1, 2),)))
    assert (found.steps, found.timed, found.origin) == ([], [], 0)


def test_steps_that_do_the_same_share_their_work(read: Callable[[Recorded], Read]) -> None:
    """Also where what runs at once runs in another order, and other threads prepare other things."""
    one = [Event("a", "NoOp", 1, 2), Event("b", "Identity", 3, 4), Event("a", "NoOp", 5, 6)]
    two = [Event("b", "Identity", 51, 52), Event("a", "NoOp", 53, 54), Event("a", "NoOp", 55, 56)]
    ahead = Event("c", "NoOp", 57, 58, pipeline=True)
    found = read(Recorded((*one, *two, ahead), ((0, 50), (50, 99)), (1, 1)))
    assert [op.op for op in found.timed] == [
        "NoOp",
        "Identity",
        "NoOp",
        "Identity",
        "NoOp",
        "NoOp",
        "NoOp",
    ]
    assert len(found.counted) == 4
    assert [op.ordinal for op in found.timed] == [0, 0, 1, 0, 0, 1, 0]
    works = [op.counted for op in found.timed]
    assert works[:3] == [works[4], works[3], works[5]]


@pytest.mark.parametrize(
    "other",
    [
        [Event("a", "NoOp", 51, 52)],
        [Event("a", "NoOp", 51, 52), Event("a", "NoOp", 53, 54), Event("b", "NoOp", 55, 56)],
        [Event("a", "NoOp", 51, 52, shapes=(None,)), Event("a", "NoOp", 53, 54)],
    ],
)
def test_steps_that_differ_are_counted_each(
    other: list[Event], read: Callable[[Recorded], Read]
) -> None:
    one = [Event("a", "NoOp", 1, 2), Event("a", "NoOp", 3, 4)]
    found = read(Recorded((*one, *other), ((0, 50), (50, 99)), (1, 1)))
    assert len(found.counted) == len(found.timed) == len(one) + len(other)
