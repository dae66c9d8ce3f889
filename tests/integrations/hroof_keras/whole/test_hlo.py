"""One compiled training step of the three models: work by layer against the hand counts, executions, places."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass

import pytest

tf = pytest.importorskip("tensorflow")

from hroof.units import Phase, Pipe  # noqa: E402
from hroof_keras.graph.places import place_of_name  # noqa: E402
from hroof_keras.hlo import HloModule, HloPlaces  # noqa: E402
from hroof_keras.profiling.events import within  # noqa: E402
from hroof_keras.scopes.layers import LayerMap  # noqa: E402
from tests.integrations.hroof_keras import models  # noqa: E402
from tests.integrations.hroof_keras.stepped import compiled_step  # noqa: E402

BUILD = models.BUILD


@dataclass(frozen=True)
class Compiled:
    """A step: its program, how often each instruction ran in it, and for how long."""

    program: HloModule
    places: HloPlaces
    layers: LayerMap
    ran: Counter[str]
    time: dict[str, float]


@functools.cache
def step(name: str) -> Compiled:
    recorded, layers = compiled_step(name)
    events = [e for e in within(recorded.events, *recorded.steps[0]) if e.kind == "hlo"]
    (number,) = {event.hlo_program for event in events}
    assert number is not None
    program = HloModule.read(recorded.hlo_modules[number])
    time: Counter[str] = Counter()
    for event in events:
        time[event.name] += event.duration
    ran = Counter(event.name for event in events)
    places = HloPlaces(program, lambda op_name: place_of_name(layers, ("adam",), op_name))
    return Compiled(program, places, layers, ran, dict(time))


@pytest.mark.parametrize("name", BUILD)
def test_every_executed_instruction_is_known_and_has_a_rule(name: str) -> None:
    one = step(name)
    for instruction in one.ran:
        found = one.program.instruction(instruction)
        assert found is not None
        assert found.work.nominal is not None, instruction
        assert not found.contains
    assert one.program.without_rule == set()


@pytest.mark.parametrize("name", BUILD)
def test_executions_are_what_the_profiler_saw(name: str) -> None:
    """Turns of loops included: 32 of the lstm's, forward and backward."""
    one = step(name)
    assert one.ran == one.program.executions()


@pytest.mark.parametrize("name", BUILD)
def test_matrix_work_by_layer_and_phase_is_the_hand_count(name: str) -> None:
    one = step(name)
    labels = one.layers.labels()
    found: Counter[tuple[str, str]] = Counter()
    for instruction, count in one.ran.items():
        work = one.program.instruction(instruction).work  # type: ignore[union-attr]
        flop = count * work.flop(Pipe.MATRIX)
        for part in one.places.parts(instruction) if flop else ():
            assert part.layer is not None
            assert part.phase is not None
            layer = labels[part.layer].name.removesuffix(".lstm_cell")
            found[layer, part.phase.value] += part.share * flop  # type: ignore[assignment]
    assert found == models.TRUTH[name]


@pytest.mark.parametrize("name", BUILD)
def test_time_is_placed_and_the_rules_are_told_apart(name: str) -> None:
    one = step(name)
    shares = one.places.shares(one.time)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["none"] < 0.01
    assert shares["own"] > 0
    assert shares["split"] > 0
    assert shares["neighbour"] > 0


@pytest.mark.parametrize("name", BUILD)
def test_shares_of_every_instruction_sum_to_one(name: str) -> None:
    one = step(name)
    for instruction in one.ran:
        parts = one.places.parts(instruction)
        if parts:
            assert sum(part.share for part in parts) == pytest.approx(1.0)
            assert (len(parts) > 1) == (one.places.rule(instruction) == "split")


@pytest.mark.parametrize("name", BUILD)
def test_the_optimizer_updates_every_layer_that_has_parameters(name: str) -> None:
    one = step(name)
    labels = one.layers.labels()
    layers = {
        labels[part.layer].name.removesuffix(".lstm_cell")
        for instruction in one.ran
        for part in one.places.parts(instruction)
        if part.phase is Phase.OPTIMIZER and part.layer is not None
    }
    trained = {layer for (layer, phase) in models.TRUTH[name] if phase == "backward"}
    # Attention's products of scores and values have no weights of their own.
    trained -= {layer for layer in trained if layer.endswith(".att")}
    assert layers >= trained


@pytest.mark.parametrize(
    ("name", "nbytes"), [("cnn", 255_949_832), ("gpt", 231_655_560), ("rnn", 450_665_754)]
)
def test_bytes_of_a_step_count_slices_as_slices(name: str, nbytes: int) -> None:
    """The lstm would move 3.5 GB if a loop's stacks counted in whole in every turn."""
    one = step(name)
    total = 0.0
    for instruction, count in one.ran.items():
        work = one.program.instruction(instruction).work  # type: ignore[union-attr]
        total += count * (work.bytes_read + work.bytes_written)
    assert total == pytest.approx(nbytes, rel=0.05)


@pytest.mark.parametrize("name", BUILD)
def test_no_buffer_is_touched_beyond_its_size(name: str) -> None:
    one = step(name)
    for instruction in one.ran:
        work = one.program.instruction(instruction).work  # type: ignore[union-attr]
        read = sum(access.nbytes for access in work.touch.accesses if access.read)
        written = sum(access.nbytes for access in work.touch.accesses if access.written)
        assert read == pytest.approx(work.bytes_read)
        assert written == pytest.approx(work.bytes_written)
