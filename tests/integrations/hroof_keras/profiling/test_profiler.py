"""The session of TensorFlow's profiler: what it records, and that it leaves the program's own profiler alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import tensorflow as tf

from hroof.errors import MissingError
from hroof_keras.private import runtime as private
from hroof_keras.profiling.events import within
from hroof_keras.profiling.profiler import RUNNING, STARTED, Session

SHAPES = [(4, 8), (8, 2)]


@pytest.fixture(scope="module")
def step() -> Callable[[], Any]:
    """A traced function with a product and something cheap."""
    a, b = (tf.constant(np.ones(shape, "float32")) for shape in SHAPES)

    @tf.function
    def run(a: Any, b: Any) -> Any:
        return tf.reduce_sum(tf.matmul(a, b)) * 2.0 + 1.0

    def call() -> Any:
        return run(a, b)

    call()
    return call


def record(step: Callable[[], Any], *, steps: int = 2, shapes: bool = True) -> Any:
    session = Session(shapes)
    session.start()
    for number in range(steps):
        if number:
            session.begin_step()
        step()
        session.end_step()
    return session.stop()


def test_steps_and_their_ops(step: Callable[[], Any]) -> None:
    recorded = record(step)
    assert recorded.at_once == (1, 1)
    for start, end in recorded.steps:
        ops = [event.op for event in within(recorded.events, start, end)]
        assert sum("MatMul" in op for op in ops) == 1
    assert recorded.steps[0][1] <= recorded.steps[1][0]


def test_shapes_of_inputs(step: Callable[[], Any]) -> None:
    (product,) = (e for e in record(step, steps=1).events if "MatMul" in e.op)
    assert [spec.shape for spec in product.shapes] == SHAPES
    assert {spec.dtype for spec in product.shapes} == {"float32"}


def test_several_steps_at_once(step: Callable[[], Any]) -> None:
    session = Session(shapes=True)
    session.start()
    step()
    session.end_step(4)
    assert session.stop().at_once == (4,)


def test_a_step_that_begins_anew(step: Callable[[], Any]) -> None:
    session = Session(shapes=True)
    session.start()
    step()
    session.begin_step()
    session.end_step()
    recorded = session.stop()
    assert len(recorded.steps) == 1
    start, end = recorded.steps[0]
    assert not [event for event in within(recorded.events, start, end) if "MatMul" in event.op]


def test_work_between_steps_belongs_to_none(step: Callable[[], Any]) -> None:
    session = Session(shapes=True)
    session.start()
    session.end_step()
    step()
    session.begin_step()
    session.end_step()
    recorded = session.stop()
    assert any("MatMul" in event.op for event in recorded.events)
    spans = [within(recorded.events, *span) for span in recorded.steps]
    assert not [event for span in spans for event in span if "MatMul" in event.op]


def test_stopping_twice_and_without_a_start(step: Callable[[], Any]) -> None:
    session = Session(shapes=True)
    session.stop()
    session.start()
    step()
    session.end_step()
    first = session.stop()
    assert [event.name for event in session.stop().events] == [event.name for event in first.events]
    assert not private.profiler_runs()


def test_no_files_are_left(
    step: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert record(step).steps
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_to_standard_error(
    step: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    record(step)
    assert capfd.readouterr() == ("", "")


# --- Other profilers -----------------------------------------------------------------------------


def files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.xplane.pb"))


def test_a_profiler_of_the_programs_goes_on(step: Callable[[], Any], tmp_path: Path) -> None:
    tf.profiler.experimental.start(str(tmp_path))
    try:
        session = Session(shapes=True)
        session.start()
        assert not session.running
        step()
        session.end_step()
        assert session.stop().steps == ()
        assert session.foreign == RUNNING
    finally:
        tf.profiler.experimental.stop()
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("how", ["start", "context", "trace"])
def test_it_gives_way_to_one_that_the_program_starts(
    step: Callable[[], Any], tmp_path: Path, how: str
) -> None:
    session = Session(shapes=True)
    session.start()
    step()
    session.end_step()
    session.begin_step()
    if how == "start":
        tf.profiler.experimental.start(str(tmp_path))
        step()
        tf.profiler.experimental.stop()
    elif how == "context":
        with tf.profiler.experimental.Profile(str(tmp_path)):
            step()
    else:
        tf.summary.trace_on(graph=False, profiler=True, profiler_outdir=str(tmp_path))
        step()
        tf.summary.trace_off()
    session.end_step()
    assert session.foreign == STARTED
    recorded = session.stop()
    assert len(recorded.steps) == 1
    assert [event for event in recorded.events if "MatMul" in event.op]
    if how != "trace":
        assert len(files(tmp_path)) == 1


def test_the_class_of_sessions_is_put_back(step: Callable[[], Any]) -> None:
    from tensorflow.python.profiler.internal import _pywrap_profiler

    before = _pywrap_profiler.ProfilerSession
    session = Session(shapes=True)
    session.start()
    assert _pywrap_profiler.ProfilerSession is not before
    session.stop()
    assert _pywrap_profiler.ProfilerSession is before


def test_somebody_who_replaced_it_too_is_left_alone() -> None:
    from tensorflow.python.profiler.internal import _pywrap_profiler

    before = _pywrap_profiler.ProfilerSession
    undo = private.before_profiling(lambda: None)
    other = _pywrap_profiler.ProfilerSession = lambda: None
    undo()
    assert _pywrap_profiler.ProfilerSession is other
    _pywrap_profiler.ProfilerSession = before


# --- Names that are not public -------------------------------------------------------------------


def test_the_private_names_are_there() -> None:
    """Fails loudly where TensorFlow has moved something: then times or shapes would be missing."""
    assert private.trace_level() is not None
    assert private.profiler_session() is not None
    assert private.xspace(b"").planes is not None
    assert not private.profiler_runs()
    assert hasattr(tf.test.experimental, "sync_devices")


def test_the_level_is_set_by_tensorflow_itself(step: Callable[[], Any]) -> None:
    level = private.trace_level()
    assert level.value == -1
    session = Session(shapes=True)
    session.start()
    assert level.value == 3
    session.stop()
    assert level.value == -1


def test_without_a_session_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "_PROFILER", "tensorflow.nowhere")
    with pytest.raises(MissingError, match="profiler was not found"):
        Session(shapes=True).start()


def test_without_the_level_there_are_no_shapes(
    step: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "trace_level", lambda: None)
    recorded = record(step, steps=1)
    assert recorded.steps
    assert all(event.shapes is None for event in recorded.events)


def test_without_the_library_there_is_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "framework_library", lambda: None)
    assert private.trace_level() is None


def test_an_unknown_name_in_the_library_is_no_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "_TRACE_LEVEL", "no_such_name")
    assert private.trace_level() is None


def test_messages_of_errors_are_not_lost(
    step: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """Standard error is as before once a session has begun, and once it has ended."""
    session = Session(shapes=True)
    session.start()
    os.write(2, b"first ")
    session.stop()
    os.write(2, b"second")
    assert capfd.readouterr().err == "first second"
