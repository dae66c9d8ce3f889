"""Events of a trace → timed ops, for made-up traces and for recorded ones of a GPU."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hroof.attribution import Timed
from hroof.launches import LOSS
from hroof.units import Phase
from hroof_torch.profiling.events import Event
from hroof_torch.profiling.rows import COMPILED_OP, Trace, read_trace

NODE = "autograd::engine::evaluate_function: "
COMPOSITE = {"aten::linear", "aten::to"}


def event(name: str, start: int, end: int, **changes: Any) -> Event:
    return Event(name, start, end, **{"thread": 1, **changes})


def node(
    name: str, start: int, end: int, sequence: int, *, forward_thread: int = 1, thread: int = 1
) -> list[Event]:
    """An autograd node: what the engine does, and within it the node's own function."""
    common = {"sequence": sequence, "forward_thread": forward_thread, "thread": thread}
    engine = event(f"{NODE}{name}", start, end, **common)
    return [engine, event(name, start + 1, end - 2, kind="backward", **common)]


def read(events: Iterable[Event]) -> Trace:
    return read_trace(list(events), lambda name, _: name in COMPOSITE)


def only(trace: Trace, op: str) -> Timed:
    found = [row for row in trace.ops if row.op == op]
    assert len(found) == 1, [row.op for row in trace.ops]
    return found[0]


def layer(number: int, start: int, end: int, flags: str = "") -> Event:
    return event(f"hroof:layer:{number}:{flags}", start, end)


def test_an_op_is_timed_with_what_runs_inside() -> None:
    trace = read([event("aten::addmm", 10, 60), event("aten::copy_", 20, 30)])
    assert [row.op for row in trace.ops] == ["aten::addmm"]
    assert trace.ops[0].duration == pytest.approx(50e-9)


def test_a_composite_op_keeps_only_its_own_time() -> None:
    trace = read(
        [event("aten::linear", 0, 100), event("aten::t", 10, 20), event("aten::addmm", 30, 90)]
    )
    assert [(row.op, round(row.duration * 1e9), row.composite) for row in trace.ops] == [
        ("aten::linear", 30, True),
        ("aten::t", 10, False),
        ("aten::addmm", 60, False),
    ]


def test_the_innermost_layer_range_counts() -> None:
    trace = read(
        [
            layer(0, 0, 100, "o"),
            layer(1, 10, 50),
            event("aten::mm", 20, 30),
            event("aten::add", 60, 70),
        ]
    )
    assert [(row.layer, row.phase) for row in trace.ops] == [(1, Phase.FORWARD), (0, Phase.FORWARD)]


def test_backward_goes_to_the_layer_that_made_the_node() -> None:
    events = [
        layer(0, 0, 100, "o"),
        layer(3, 10, 50),
        event("aten::linear", 15, 45, sequence=7),
        event("aten::t", 16, 17, sequence=7),
        event("aten::addmm", 20, 40, sequence=8),
        event("hroof:backward:", 200, 300),
        *node("AddmmBackward0", 210, 250, 8),
        event("aten::mm", 215, 240),
    ]
    row = only(read(events), "aten::mm")
    assert (row.layer, row.phase, row.recompute, row.is_sum) == (3, Phase.BACKWARD, False, False)


def test_the_last_op_that_could_take_a_number_made_the_node() -> None:
    events = [
        layer(1, 0, 10),
        event("aten::detach", 2, 3, sequence=5),  # makes no node
        layer(2, 20, 30),
        event("aten::relu", 22, 28, sequence=5),
        *node("ReluBackward0", 100, 120, 5),
        event("aten::threshold_backward", 105, 110),
    ]
    assert only(read(events), "aten::threshold_backward").layer == 2


def test_backward_on_another_thread_is_told_by_the_forward_thread() -> None:
    events = [
        layer(1, 0, 10),
        event("aten::mm", 2, 5, sequence=5),
        event("aten::mm", 2, 5, sequence=5, thread=2),
        *node("MmBackward0", 100, 140, 5, forward_thread=1, thread=9),
        event("aten::mul", 110, 120, thread=9),
    ]
    row = only(read(events), "aten::mul")
    assert (row.layer, row.phase, row.thread) == (1, Phase.BACKWARD, 9)


def test_a_leaf_goes_with_the_node_before_it() -> None:
    events = [
        layer(4, 0, 10),
        event("aten::mm", 2, 5, sequence=5),
        *node("MmBackward0", 100, 140, 5),
        *node("torch::autograd::AccumulateGrad", 150, 170, -1),
        event("aten::add_", 155, 160),
    ]
    assert only(read(events), "aten::add_").layer == 4


def test_a_sum_of_gradients_is_told_from_the_nodes_own_ops() -> None:
    events = [
        layer(4, 0, 10),
        event("aten::mm", 2, 5, sequence=5),
        *node("MmBackward0", 100, 140, 5),
        event("aten::mm", 110, 120),
        event("aten::add", 138, 139),
    ]
    rows = {row.op: row.is_sum for row in read(events).ops if row.phase is Phase.BACKWARD}
    assert rows == {"aten::mm": False, "aten::add": True}


def test_recomputed_modules_and_functions() -> None:
    events = [
        layer(4, 0, 10),
        event("aten::mm", 2, 5, sequence=5),
        event("hroof:backward:", 90, 300),
        *node("MmBackward0", 100, 240, 5),
        layer(4, 110, 150, "r"),
        event("aten::relu", 120, 130, sequence=9),
        event("aten::gelu", 160, 170, sequence=10),  # a recomputed function outside any module
        event("aten::sin", 180, 190),
    ]
    rows = {row.op: (row.recompute, row.phase, row.layer) for row in read(events).ops[1:]}
    assert rows == {
        "aten::relu": (True, Phase.BACKWARD, 4),
        "aten::gelu": (True, Phase.BACKWARD, 4),
        "aten::sin": (False, Phase.BACKWARD, 4),
    }


def test_a_backward_pass_that_builds_a_graph_recomputes_nothing() -> None:
    events = [
        event("hroof:backward:g", 90, 300),
        *node("MmBackward0", 100, 140, 5),
        event("aten::mm", 110, 120, sequence=9),
    ]
    assert not only(read(events), "aten::mm").recompute


def test_work_between_the_phases() -> None:
    events = [
        event("aten::random_", 0, 5),
        layer(0, 10, 20, "o"),
        event("aten::mse_loss", 25, 30, sequence=3),
        event("hroof:backward:", 40, 60),
        *node("MseLossBackward0", 42, 58, 3),
        event("aten::mse_loss_backward", 45, 50),
        event("aten::_foreach_norm", 70, 75),
        event("hroof:optimizer:", 80, 90),
        event("aten::add_", 82, 84),
        event("aten::item", 95, 96),
    ]
    rows = {row.op: (row.phase, row.layer) for row in read(events).ops}
    assert rows == {
        "aten::random_": (Phase.OTHER, None),
        "aten::mse_loss": (Phase.LOSS, LOSS),
        "aten::mse_loss_backward": (Phase.BACKWARD, LOSS),
        "aten::_foreach_norm": (Phase.OPTIMIZER, None),
        "aten::add_": (Phase.OPTIMIZER, None),
        "aten::item": (Phase.OTHER, None),
    }


def test_data_loading_and_zeroing_are_named_by_the_framework() -> None:
    events = [
        event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 50),
        event("aten::stack", 10, 20),
        event("Optimizer.zero_grad#SGD.zero_grad", 60, 80),
        event("aten::zero_", 62, 70),
    ]
    rows = {row.op: row.phase for row in read(events).ops}
    assert rows == {"aten::stack": Phase.DATA, "aten::zero_": Phase.OPTIMIZER}


def test_a_loss_module_is_the_loss() -> None:
    trace = read([layer(2, 0, 100, "ol"), event("aten::nll_loss_forward", 10, 20)])
    assert (trace.ops[0].phase, trace.ops[0].layer) == (Phase.LOSS, 2)


def test_steps_lie_between_marks_and_the_rest_is_outside() -> None:
    events = [
        event("aten::mm", 0, 5),
        event("hroof:step", 10, 10),
        event("aten::mm", 12, 15),
        event("hroof:step", 20, 20),
        event("aten::mm", 22, 25),
        event("hroof:step", 30, 30),
        event("aten::mm", 32, 35),
    ]
    trace = read(events)
    assert [row.step for row in trace.ops] == [-1, 0, 1, -1]
    assert trace.steps == [(10, 20), (20, 30)]
    assert trace.ops[1].start == pytest.approx(2e-9)


def test_only_what_runs_between_begin_and_end_is_the_steps() -> None:
    """As in a loop that validates between two steps; a step without these marks lasts from mark to mark."""
    marks = [("step", 10), ("begin", 20), ("end", 30), ("step", 31), ("step", 50)]
    trace = read(
        [
            *(event(f"hroof:{name}", time, time) for name, time in marks),
            *(event("aten::mm", time, time + 1) for time in (12, 20, 25, 30, 32, 51)),
        ]
    )
    assert [row.step for row in trace.ops] == [-1, 0, 0, -1, 1, -1]
    assert trace.steps == [(20, 30), (31, 50)]


def test_a_compiled_region_is_one_op_and_so_is_its_backward() -> None:
    events = [
        layer(0, 0, 100, "o"),
        event("Torch-Compiled Region: 0/0", 10, 90),
        event("CompiledFunction", 20, 80, sequence=21),
        event("aten::addmm", 30, 40),
        *node("CompiledFunctionBackward", 200, 300, 21),
        event("aten::mm", 220, 230),
    ]
    rows = read(events).ops
    assert [(row.op, row.phase, row.layer) for row in rows] == [
        (COMPILED_OP, Phase.FORWARD, 0),
        (COMPILED_OP, Phase.BACKWARD, 0),
    ]


def test_device_work_goes_to_the_op_that_started_it() -> None:
    events = [
        layer(5, 0, 50),
        event("aten::linear", 5, 45, correlation=1),
        event("aten::addmm", 10, 40, correlation=2),
        event("aten::copy_", 12, 14, correlation=3),
        event("gemm", 1000, 1900, kind="kernel", linked=2, device="cuda:0"),
        event("bias", 1900, 2000, kind="kernel", linked=3, device="cuda:0"),
        event("lost", 3000, 3100, kind="kernel", linked=77, device="cuda:0"),
        event("Memset", 3200, 3210, kind="memset", linked=0, device="cuda:0"),
    ]
    trace = read(events)
    started = {
        row.op: [work.name for work in found]
        for row, found in zip(trace.ops, trace.device_work, strict=True)
    }
    assert started == {"aten::linear": [], "aten::addmm": ["gemm", "bias"]}
    assert [work.name for work in trace.unlinked] == ["lost", "Memset"]


def test_signatures_are_made_only_where_they_are_needed() -> None:
    made: list[str] = []

    def signature(name: str) -> Any:
        return lambda: (made.append(name), (name,))[1]  # type: ignore[func-returns-value]

    events = [
        event("aten::linear", 0, 100, signature=signature("linear")),
        event("aten::addmm", 10, 60, signature=signature("addmm")),
        event("aten::copy_", 20, 30, signature=signature("copy_")),
    ]
    assert only(read(events), "aten::addmm").signature == ("addmm",)
    assert made == ["addmm"]


def test_an_empty_trace() -> None:
    trace = read([])
    assert (trace.ops, trace.steps, trace.unlinked) == ([], [], [])


# Recorded traces of other people's GPUs.

CORPUS = os.environ.get("HROOF_CORPUS")


def chrome_events(path: Path) -> list[Event]:
    """Events of an exported trace in the form that the live profiler gives."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    trace = json.loads(content)
    return [
        found
        for raw in trace["traceEvents"]
        if raw.get("ph") == "X"
        if (found := chrome_event(raw))
    ]


def chrome_event(raw: dict[str, Any]) -> Event | None:
    args = raw.get("args", {})
    start = round(raw["ts"] * 1000)
    end = start + round(raw["dur"] * 1000)
    kinds = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
    external = args.get("External id", 0)
    if raw.get("cat") == "cpu_op":
        sequence = args.get("Sequence number", -1)
        body = (
            sequence >= 0 and "Backward" in raw["name"] and not raw["name"].startswith("autograd::")
        )
        return Event(
            raw["name"],
            start,
            end,
            raw["tid"],
            "backward" if body else "op",
            sequence,
            args.get("Fwd thread id", 0),
            external,
        )
    if raw.get("cat") in kinds:
        kind: Any = kinds[raw["cat"]]
        return Event(
            raw["name"],
            start,
            end,
            kind=kind,
            linked=external,
            device=f"cuda:{args['device']}",
            stream=args["stream"],
        )
    return None


@pytest.mark.skipif(not CORPUS, reason="HROOF_CORPUS is not set")
@pytest.mark.parametrize(
    ("pattern", "tied", "backward"),
    [
        ("*ns_resolution*", 0.99, True),
        ("*b200_eager*", 0.99, False),
        ("*critical_path_alexnet*", 0.8, False),
    ],
)
def test_kernels_of_recorded_traces_are_tied_to_ops(
    pattern: str, tied: float, backward: bool
) -> None:
    events = chrome_events(next(Path(CORPUS or "").glob(f"kineto/{pattern}")))
    trace = read(events)
    device = [found for found in events if found.kind in ("kernel", "memcpy", "memset")]
    assert device
    total = sum(found.end - found.start for found in device)
    linked = [
        (row, work)
        for row, works in zip(trace.ops, trace.device_work, strict=True)
        for work in works
    ]
    assert len(linked) + len(trace.unlinked) == len(device)
    # What is not tied was started by ops that are not in the recording.
    known = {found.correlation for found in events if found.kind == "op" and found.correlation}
    assert not [work.name for work in trace.unlinked if work.linked in known]
    assert sum(work.end - work.start for _, work in linked) >= tied * total
    phases = Counter(row.phase for row, _ in linked)
    assert (phases[Phase.BACKWARD] > 0) is backward
    assert not any(work.device == "cpu" for _, work in linked)
