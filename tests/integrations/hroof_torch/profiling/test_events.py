"""Events of a live profiler in their small form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from hroof_torch.counting import profiler_signature
from hroof_torch.profiling.events import Event, is_communication, read_kineto


def raw(activity: str, **more: Any) -> SimpleNamespace:
    """A profiler event made by hand; every value is a method, as of the real ones."""
    values = {
        "activity_type": activity,
        "name": "aten::mm",
        "start_ns": 5,
        "end_ns": 9,
        "start_thread_id": 3,
        "scope": 0,
        "sequence_nr": 7,
        "fwd_thread_id": 2,
        "correlation_id": 11,
        "linked_correlation_id": 4,
        "device_index": 1,
        "device_resource_id": 20,
        "structured_input_shapes": [[2, 3]],
        "dtypes": ["float"],
    } | more
    return SimpleNamespace(**{name: (lambda v=value: v) for name, value in values.items()})


def one(event: SimpleNamespace) -> Event:
    (read,) = read_kineto(
        [event], lambda shapes, dtypes: (tuple(map(tuple, shapes)), tuple(dtypes))
    )
    return read


def test_an_op_keeps_what_attribution_needs() -> None:
    event = one(raw("cpu_op"))
    assert (event.kind, event.name, event.start, event.end, event.thread) == (
        "op",
        "aten::mm",
        5,
        9,
        3,
    )
    assert (event.sequence, event.forward_thread, event.correlation) == (7, 2, 11)
    assert event.device == "cpu"
    assert event.signature() == (((2, 3),), ("float",))


def test_the_body_of_a_node_is_told_from_ops() -> None:
    assert one(raw("cpu_op", scope=1)).kind == "backward"
    assert one(raw("user_annotation")).kind == "op"


@pytest.mark.parametrize(
    ("activity", "kind"),
    [("kernel", "kernel"), ("gpu_memcpy", "memcpy"), ("gpu_memset", "memset")],
)
def test_device_work_is_linked_to_its_op(activity: str, kind: str) -> None:
    event = one(raw(activity))
    assert (event.kind, event.linked, event.device, event.stream) == (kind, 4, "cuda:1", 20)
    assert event.signature() == ()


def test_other_activities_are_left_out() -> None:
    others = [raw(kind) for kind in ("cuda_runtime", "python_function", "overhead", "trace")]
    assert read_kineto(others, lambda shapes, dtypes: ()) == []


def test_a_live_profiler_is_read() -> None:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        torch.ones(2, 3) @ torch.ones(3, 4)
    events = read_kineto(profiler.profiler.kineto_results.events(), profiler_signature)
    (product,) = [event for event in events if event.name == "aten::mm"]
    assert product.signature() == (((2, 3), "float"), ((3, 4), "float"))
    assert product.end > product.start > 0 and product.thread > 0


@pytest.mark.parametrize(
    ("name", "communicates"),
    [
        ("c10d::allreduce_", True),
        ("gloo:all_reduce", True),
        ("nccl:all_gather", True),
        ("torch::distributed::reducer::mul_out", True),
        ("_c10d_functional::all_reduce", True),
        ("aten::add", False),
        ("mine::c10d::x", False),
    ],
)
def test_communication_is_known_by_its_name(name: str, communicates: bool) -> None:
    assert is_communication(name) is communicates
