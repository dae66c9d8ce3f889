"""Names of ranges in the trace, and the ranges themselves."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from hroof.units import Phase
from hroof_torch.profiling import ranges
from hroof_torch.profiling.ranges import Range, TraceRanges, keeps_graph, name_of, read
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Frame, Tracker


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("outermost", [False, True])
@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.LOSS])
def test_a_layers_name_comes_back(phase: Phase, outermost: bool, recompute: bool) -> None:
    frame = Frame(phase, layer=12, recompute=recompute, outermost=outermost)
    said = Range("layer", 12, recompute, outermost, loss=phase is Phase.LOSS)
    assert read(name_of(frame)) == said


@pytest.mark.parametrize("keeps", [False, True])
def test_the_name_of_a_pass_comes_back(keeps: bool) -> None:
    frame = Frame(Phase.BACKWARD)
    assert read(name_of(frame, keeps_graph=keeps)) == Range("backward", keeps_graph=keeps)
    assert read(name_of(Frame(Phase.OPTIMIZER))) == Range("optimizer")


def test_names_of_others_are_none() -> None:
    assert read("aten::mm") is None
    assert read("") is None
    assert read(ranges.STEP) == Range("step")


def test_whether_a_pass_keeps_its_graph() -> None:
    assert keeps_graph((None, None, False, True)) is True
    assert keeps_graph((None, None, True, False)) is False
    assert keeps_graph((None,)) is False


def test_ranges_lie_in_the_trace_and_are_balanced() -> None:
    model = nn.Sequential(nn.Linear(2, 3))
    layers = LayerMap()
    tracker = Tracker(layers)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        observer = TraceRanges()
        observer.running = True
        tracker.attach(observer)
        ranges.mark(ranges.STEP)
        model(torch.ones(4, 2)).sum().backward()
        with pytest.raises(RuntimeError):
            model(torch.ones(4, 5))
        tracker.detach()
    events = profiler.profiler.kineto_results.events()
    ours = [event.name() for event in events if event.name().startswith(ranges.PREFIX)]
    root, inner = "hroof:layer:0:o", "hroof:layer:1:"
    assert ours == [ranges.STEP, root, inner, "hroof:backward:", root, inner]
    spans = {(e.start_ns(), e.end_ns()) for e in events if e.name() == inner}
    products = [e for e in events if e.name() == "aten::addmm"]
    assert len(products) >= 1 and all(
        any(start <= e.start_ns() and e.end_ns() <= end for start, end in spans) for e in products
    )
