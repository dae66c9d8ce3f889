"""One training step in graph mode: its executed ops with nodes, shapes and work."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from hroof.launches import Work
from hroof_keras.counting import Buffers, output_specs, work_of
from hroof_keras.graph.flow import Flow, inputs_of
from hroof_keras.graph.graphs import GraphCollection
from hroof_keras.graph.nodes import Node, TensorSpec
from hroof_keras.profiling.events import Event, Recorded, within
from hroof_keras.profiling.profiler import Session
from hroof_keras.scopes.layers import LayerMap
from hroof_keras.scopes.recorder import Recorder
from tests.integrations.hroof_keras import models


@dataclass(frozen=True)
class Executed:
    """One execution of a node."""

    node: Node
    event: Event
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    work: Work


@dataclass(frozen=True)
class Step:
    """The executed nodes of a step, what could not be counted, and events without a node."""

    ops: list[Executed]
    faults: list[str]
    strangers: list[str]


class _Second(keras.callbacks.Callback):
    """Profiles the second batch."""

    def __init__(self) -> None:
        super().__init__()
        self.session = Session(shapes=True)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch == 1:
            self.session.start()
            self.session.begin_step()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.session.end_step()

    on_predict_batch_begin = on_train_batch_begin
    on_predict_batch_end = on_train_batch_end


def run_step(build: Callable[..., tuple[Any, Any, Any]], batch: int, **options: Any) -> Step:
    """Train two batches in graph mode and count the ops of the second one.

    Args:
        build: One of the functions of ``models``.
        batch: Samples of a batch.
        options: For ``build``.
    """
    return fit_step(build(jit_compile=False, **options), batch)


@functools.cache
def graph_step(name: str) -> Step:
    """The same for one of the three models, once for all tests."""
    return run_step(models.BUILD[name], models.BATCH[name])


@functools.cache
def compiled_step(name: str) -> tuple[Recorded, LayerMap]:
    """One of the three models, compiled and trained for two batches, once for all tests.

    Returns:
        The profile of the second batch, and the layers that were recorded as the step was traced.
    """
    layers = LayerMap()
    recorder = Recorder(layers)
    recorder.start()
    try:
        workload = models.BUILD[name](jit_compile=True)
        return profiled_fit(workload, models.BATCH[name])[0], layers
    finally:
        recorder.stop()


def fit_step(workload: tuple[Any, Any, Any], batch: int) -> Step:
    """The same for a compiled model and its data."""
    recorded, nodes = profiled_fit(workload, batch)
    return count(within(recorded.events, *recorded.steps[0]), nodes)


def predict_step(workload: tuple[Any, Any, Any], batch: int) -> Step:
    """Predict two batches and count the ops of the second one."""
    model, x, _ = workload
    collection, second = GraphCollection(), _Second()
    collection.start()
    model.predict(x[: 2 * batch], batch_size=batch, verbose=0, callbacks=[second])
    nodes = collection.stop()
    recorded = second.session.stop()
    return count(within(recorded.events, *recorded.steps[0]), nodes)


def profiled_fit(workload: tuple[Any, Any, Any], batch: int) -> tuple[Recorded, dict[str, Node]]:
    """Train two batches: the profile of the second one, with shapes, and the nodes that ran."""
    model, x, y = workload
    collection, second = GraphCollection(), _Second()
    collection.start()
    model.fit(
        x[: 2 * batch],
        y[: 2 * batch],
        batch_size=batch,
        shuffle=False,
        verbose=0,
        callbacks=[second],
    )
    nodes = collection.stop()
    return second.session.stop(), nodes


def count(events: list[Event], nodes: dict[str, Node]) -> Step:
    """Work of every event of one step, in order."""
    flow, buffers = Flow(events, nodes), Buffers()
    runs: Counter[str] = Counter()
    ops: list[Executed] = []
    strangers: list[str] = []
    for event in events:
        node = nodes.get(event.name)
        if event.kind != "op" or node is None:
            strangers.append(f"{event.name}:{event.op}")
            continue
        inputs = inputs_of(event, node)
        outputs = flow.outputs(node, runs[event.name], output_specs(node, inputs))
        runs[event.name] += 1
        ops.append(Executed(node, event, inputs, outputs, work_of(node, inputs, outputs, buffers)))
    return Step(ops, list(buffers.faults), strangers)
