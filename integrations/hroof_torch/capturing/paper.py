"""A training step on paper: the launch table of a model that need not fit into this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from hroof.launches import Table
from hroof.profile import Profile
from hroof_torch.capturing.counted import CountingStep
from hroof_torch.capturing.description import module_list
from hroof_torch.tracking.keras_layers import random_without_seeds
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Tracker

HOW = {
    "time": "not measured: nothing was computed",
    "flop": "counted from ops and shapes, on tensors without data",
    "bytes": "op-minimal bytes at L1 counted",
}


def count(build: Callable[[], Callable[[], object]]) -> Profile:
    """Count one training step by layer and phase, on tensors without data.

    Args:
        build: Makes model, data and optimizer and returns the step, which is run twice: the first
            time makes the state of the optimizer, the second one is counted.

    Returns:
        A profile of one step without times.

    Raises:
        TypeError: What ``build`` returns cannot be called.
    """
    layers = LayerMap()
    tracker = Tracker(layers)
    counting = CountingStep(tracker)
    with FakeTensorMode(), random_without_seeds():
        step = build()
        if not callable(step):
            raise TypeError(f"it returned {type(step).__name__}, not a function")
        step()
        tracker.attach(counting)
        counting.start()
        try:
            step()
        finally:
            counting.stop()
            tracker.detach()
        counted = counting.result()
    table = Table(layers.labels, {}, lambda op: None, lambda signature: ())
    return Profile.from_rows(table.untimed_rows(counted), _describe(layers, table, counting.faults))


def _describe(layers: LayerMap, table: Table, faults: tuple[str, ...]) -> dict[str, object]:
    return {
        "framework": "torch",
        "versions": {"torch": torch.__version__, "python": sys.version.split()[0]},
        "device": "cpu",
        "schedule": {"skip": 1, "steps": 0},
        "steps": [],
        "how": HOW,
        "counting": "on paper",
        "warnings": [f"An op could not be counted: {fault}." for fault in faults],
        "layers": module_list(layers),
        "ops_without_rule": sorted(table.without_rule),
    }
