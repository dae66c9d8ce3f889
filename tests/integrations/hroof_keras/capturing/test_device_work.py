"""Kernels are tied to the execution of the op that started them. No GPU took part: the forms are from the sources."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from hroof_keras.capturing.device_work import tied
from hroof_keras.profiling.events import Event


def op(start: int, name: str = "a") -> Event:
    return Event(name, "MatMul", start, start + 1)


def kernel(start: int, *, node: str = "", instruction: str = "", call: int = 0) -> Event:
    return Event(
        "sgemm",
        "",
        start,
        start + 5,
        kind="kernel",
        node=node,
        instruction=instruction,
        correlation=call,
        hlo_program=3 if instruction else None,
        device="cuda:0",
    )


def test_a_kernel_belongs_to_the_op_that_it_names() -> None:
    here, there = op(0), op(0, "b")
    work = kernel(10, node="a:MatMul")
    found = tied([here, there, work], {})
    assert found.of_ops == {here: [work]}
    assert found.unlinked == []


def test_of_several_executions_the_one_before_the_call_started_it() -> None:
    """Kernels run late: the second execution begins before the first one's kernel does."""
    first, second = op(0), op(20)
    early, late = kernel(30, node="a:MatMul", call=1), kernel(40, node="a:MatMul", call=2)
    found = tied([first, second, early, late], {1: 0, 2: 21})
    assert found.of_ops == {first: [early], second: [late]}


def test_without_the_call_the_kernel_itself_tells_when() -> None:
    first, second = op(0), op(20)
    work = kernel(10, node="a:MatMul", call=1)
    assert tied([first, second, work], {}).of_ops == {first: [work]}


def test_a_call_before_every_execution_is_the_first_ones() -> None:
    first = op(10)
    work = kernel(30, node="a:MatMul", call=1)
    assert tied([first, work], {1: 9}).of_ops == {first: [work]}


def test_kernels_of_instructions_are_together() -> None:
    one, two = kernel(0, instruction="fusion.1"), kernel(9, instruction="fusion.1")
    other = kernel(5, instruction="fusion.2")
    found = tied([one, other, two], {})
    assert found.of_instructions == {(3, "fusion.1"): [one, two], (3, "fusion.2"): [other]}


@pytest.mark.parametrize("node", ["", "elsewhere:MatMul"])
def test_what_names_no_op_of_the_step_is_not_linked(node: str) -> None:
    work = kernel(10, node=node)
    assert tied([op(0), work], {}).unlinked == [work]


def test_a_step_on_the_cpu_has_none() -> None:
    assert not tied([op(0)], {})
    assert tied([op(0), kernel(1)], {})
