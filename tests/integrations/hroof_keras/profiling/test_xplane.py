"""A serialised profile as lines of events: clocks, stats by name, compiled programs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from hroof.errors import MissingError
from hroof_keras.private import runtime as private
from hroof_keras.profiling.xplane import Raw, read_space, unsigned


def space() -> Any:
    return private.xspace(b"")


def plane(made: Any, name: str, stats: dict[int, str]) -> Any:
    added = made.planes.add(name=name)
    for number, stat in stats.items():
        added.stat_metadata[number].id = number
        added.stat_metadata[number].name = stat
    return added


def name_events(added: Any, names: dict[int, str]) -> None:
    for number, name in names.items():
        added.event_metadata[number].id = number
        added.event_metadata[number].name = name


def test_times_are_those_of_the_line_plus_the_offset() -> None:
    made = space()
    host = plane(made, "/host:CPU", {})
    name_events(host, {7: "x:Mul"})
    line = host.lines.add(id=3, name="tf_Compute/1", timestamp_ns=1_000)
    line.events.add(metadata_id=7, offset_ps=2_500, duration_ps=4_000)
    (read,) = read_space(made.SerializeToString()).lines
    assert (read.plane, read.name, read.number) == ("/host:CPU", "tf_Compute/1", 3)
    assert read.events == (Raw("x:Mul", 1_002, 1_006),)


def test_stats_have_names_and_references_are_followed() -> None:
    made = space()
    host = plane(made, "/host:CPU", {1: "hlo_op", 2: "program_id", 3: "iter_num", 4: "fusion.3"})
    name_events(host, {7: "fusion.3"})
    event = host.lines.add(id=1, name="pool").events.add(metadata_id=7)
    event.stats.add(metadata_id=1, ref_value=4)
    event.stats.add(metadata_id=2, int64_value=72)
    event.stats.add(metadata_id=3, uint64_value=5)
    (line,) = read_space(made.SerializeToString()).lines
    # What hroof does not read is left alone.
    assert dict(line.events[0].stats) == {"hlo_op": "fusion.3", "program_id": 72}


def test_stats_that_all_events_of_a_name_share_are_read_too() -> None:
    made = space()
    device = plane(made, "/device:GPU:0", {1: "tf_op"})
    name_events(device, {7: "sgemm"})
    device.event_metadata[7].stats.add(metadata_id=1, str_value="a:MatMul")
    device.lines.add(id=1, name="Stream #7").events.add(metadata_id=7)
    (line,) = read_space(made.SerializeToString()).lines
    assert line.events[0].stats == {"tf_op": "a:MatMul"}


@pytest.mark.parametrize("stat", ["Hlo Proto", "hlo_proto"])
def test_compiled_programs_are_found_by_number(stat: str) -> None:
    made = space()
    metadata = plane(made, "/host:metadata", {1: stat, 2: "other"})
    name_events(metadata, {72: "jit_step(72)", -1: "other(-1)"})
    metadata.event_metadata[72].stats.add(metadata_id=1, bytes_value=b"module")
    metadata.event_metadata[72].stats.add(metadata_id=2, bytes_value=b"nothing")
    metadata.event_metadata[-1].stats.add(metadata_id=1, bytes_value=b"second")
    modules = read_space(made.SerializeToString()).hlo_modules
    assert modules == {72: b"module", 2**64 - 1: b"second"}


def test_other_planes_hold_no_programs() -> None:
    made = space()
    host = plane(made, "/host:CPU", {1: "Hlo Proto"})
    name_events(host, {1: "x"})
    host.event_metadata[1].stats.add(metadata_id=1, bytes_value=b"module")
    assert read_space(made.SerializeToString()).hlo_modules == {}


def test_a_number_is_the_same_however_it_is_written() -> None:
    assert unsigned(-1) == unsigned(2**64 - 1)
    assert unsigned(72) == 72


def test_without_a_description_of_profiles_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "_XPLANE", ("tensorflow.nowhere",))
    with pytest.raises(MissingError, match="no description of its profiles"):
        read_space(b"")
