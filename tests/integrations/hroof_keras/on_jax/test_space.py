"""Profiles parsed without TensorFlow: by hand, and against TensorFlow's own classes for the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("keras")

from hroof.errors import ProfileError
from hroof_keras.on_jax.space import read_space
from hroof_keras.profiling.events import read_events
from tests.integrations.hroof_keras.hlo.test_wire import integer, record


def named(number: int, key: int, name: str, *more: bytes) -> bytes:
    """An entry of a map from numbers to named things."""
    return record(number, integer(1, key) + record(2, record(2, name.encode()) + b"".join(more)))


def stat(metadata: int, field: int, value: int | bytes) -> bytes:
    content = record(field, value) if isinstance(value, bytes) else integer(field, value)
    return record(4, integer(1, metadata) + content)


def space() -> bytes:
    """One line with a begin, an instruction and an end of a step, and a program."""
    stats = [(1, "hlo_op"), (2, "hlo_module"), (3, "program_id"), (4, "fusion.3"), (5, "Hlo Proto")]
    names = b"".join(named(5, key, name) for key, name in stats)
    events = b"".join(
        named(4, key, name)
        for key, name in [(1, "hroof begin"), (2, "fusion.3"), (3, "hroof end 2")]
    )
    instruction = record(
        4,
        integer(1, 2)
        + integer(2, 5_000_000)
        + integer(3, 2_000_000)
        + stat(1, 7, 4)
        + stat(2, 5, b"jit_train_step")
        + stat(3, 4, 30),
    )
    begin = record(4, integer(1, 1) + integer(2, 1_000_000))
    end = record(4, integer(1, 3) + integer(2, 9_000_000))
    line = record(
        3, integer(1, 77) + record(2, b"pool") + integer(3, 100) + begin + instruction + end
    )
    host = record(1, record(2, b"/host:CPU") + line + names + events)
    proto = record(5, integer(1, 5) + record(6, b"THE PROGRAM"))
    program = named(4, 12, "jit_train_step(30)", proto)
    other = named(4, 9, "without a number", proto)
    return host + record(1, record(2, b"/host:metadata") + program + other + names)


def test_lines_events_and_programs() -> None:
    read = read_space(space())
    (line,) = read.lines
    assert (line.plane, line.name, line.number) == ("/host:CPU", "pool", 77)
    begin, instruction, _ = line.events
    assert (begin.name, begin.start, begin.stats) == ("hroof begin", 1100, {})
    assert (instruction.start, instruction.end) == (5100, 7100)
    assert instruction.stats == {
        "hlo_op": "fusion.3",
        "hlo_module": "jit_train_step",
        "program_id": 30,
    }


def test_the_number_of_a_program_stands_behind_its_name() -> None:
    """JAX numbers the entries of the profile on their own; events mean the number of the program."""
    assert read_space(space()).hlo_modules == {30: b"THE PROGRAM", 9: b"THE PROGRAM"}


def test_events_of_steps() -> None:
    recorded = read_events(read_space(space()))
    (event,) = recorded.events
    assert (event.name, event.kind, event.hlo_program) == ("fusion.3", "hlo", 30)
    assert recorded.steps == ((1100, 9100),)
    assert recorded.at_once == (2,)


def test_nothing_and_damage() -> None:
    assert read_space(b"").lines == ()
    with pytest.raises(ProfileError):
        read_space(space()[:-3])


def test_it_reads_what_the_classes_of_tensorflow_read() -> None:
    tf = pytest.importorskip("tensorflow")
    from hroof_keras.profiling import xplane
    from hroof_keras.profiling.profiler import Session

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        return tf.tanh(x @ x)

    step(tf.ones((64, 64)))
    session = Session(shapes=False)
    session.start()
    session.begin_step()
    step(tf.ones((64, 64)))
    session.end_step()
    session.end()
    theirs, ours = xplane.read_space(session._kept), read_space(session._kept)
    assert ours.hlo_modules == dict(theirs.hlo_modules)
    assert ours.hlo_modules
    assert [(line.plane, line.name, line.number) for line in ours.lines] == [
        (line.plane, line.name, line.number) for line in theirs.lines
    ]
    for mine, its in zip(ours.lines, theirs.lines, strict=True):
        assert [(raw.name, raw.start, raw.end) for raw in mine.events] == [
            (raw.name, raw.start, raw.end) for raw in its.events
        ]
        for raw, other in zip(mine.events, its.events, strict=True):
            assert raw.stats.items() <= dict(other.stats).items() or "program_id" in raw.stats
    assert {
        raw.stats["hlo_op"] for line in ours.lines for raw in line.events if "hlo_op" in raw.stats
    }
