"""Compiled steps of further kinds of layers: matrix work by layer and phase, known from their shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")

from hroof.units import Pipe  # noqa: E402
from hroof_keras.graph.places import place_of_name  # noqa: E402
from hroof_keras.hlo import HloModule, HloPlaces  # noqa: E402
from hroof_keras.profiling.profiler import Session  # noqa: E402
from hroof_keras.scopes.layers import LayerMap  # noqa: E402
from hroof_keras.scopes.recorder import Recorder  # noqa: E402

layers = keras.layers
BATCH = 4


def products(model: Any, *shape: int) -> dict[tuple[str, str], float]:
    """Matrix FLOP of one compiled training step by layer and phase."""
    noted = LayerMap()
    recorder, session = Recorder(noted), Session(shapes=False)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=True)
    x = np.random.default_rng(0).standard_normal((BATCH, *shape)).astype("float32")
    y = np.zeros(BATCH, "int32")
    recorder.start()
    try:
        model.train_on_batch(x, y)
    finally:
        recorder.stop()
    session.start()
    session.begin_step()
    model.train_on_batch(x, y)
    session.end_step()
    recorded = session.stop()
    events = [event for event in recorded.events if event.kind == "hlo"]
    (number,) = {event.hlo_program for event in events}
    assert number is not None
    program = HloModule.read(recorded.hlo_modules[number])
    places = HloPlaces(program, lambda name: place_of_name(noted, (), name))
    return summed(program, places, noted, (event.name for event in events))


def summed(
    program: HloModule, places: HloPlaces, noted: LayerMap, ran: Iterable[str]
) -> dict[tuple[str, str], float]:
    sums: Counter[tuple[str, str]] = Counter()
    names = noted.names()
    for name, count in Counter(ran).items():
        instruction = program.instruction(name)
        assert instruction is not None
        assert instruction.work.nominal is not None
        flop = count * instruction.work.flop(Pipe.MATRIX)
        for part in places.parts(name) if flop else ():
            assert part.layer is not None
            assert part.phase is not None
            sums[names[part.layer], part.phase.value] += flop * part.share  # type: ignore[assignment]
    return dict(sums)


def passes(**flop: float) -> dict[tuple[str, str], float]:
    """Forward, and twice that backward; the first layer's input has no gradient."""
    found: dict[tuple[str, str], float] = {}
    for number, (layer, one) in enumerate(flop.items()):
        found[layer, "forward"] = one
        found[layer, "backward"] = one * (2 if number else 1)
    return found


def test_convolutions_of_every_kind() -> None:
    """Strided, grouped and transposed ones; the transposed one puts its kernel on its input's positions."""
    made = [
        layers.Input((8, 8, 3)),
        layers.Conv2D(6, 3, padding="valid", name="plain"),
        layers.Conv2D(8, 3, strides=2, padding="same", groups=2, name="grouped"),
        layers.Conv2DTranspose(5, 3, strides=2, padding="same", name="transposed"),
        layers.Flatten(),
        layers.Dense(3, name="out"),
    ]
    expected = passes(
        plain=2.0 * BATCH * 36 * 9 * 3 * 6,
        grouped=2.0 * BATCH * 9 * 9 * 3 * 8,
        transposed=2.0 * BATCH * 9 * 9 * 8 * 5,
        out=2.0 * BATCH * 180 * 3,
    )
    assert products(keras.Sequential(made), 8, 8, 3) == pytest.approx(expected)


def test_mixed_precision() -> None:
    """Weights are cast before they are read, gradients before they are taken."""
    policy = keras.mixed_precision.DTypePolicy("mixed_bfloat16")
    made = [
        layers.Input((12,)),
        layers.Dense(17, name="a", activation="relu", dtype=policy),
        layers.Dense(19, name="b", dtype=policy),
        layers.Dense(3, name="c", dtype="float32"),
    ]
    sizes = {"a": 12 * 17, "b": 17 * 19, "c": 19 * 3}
    expected = passes(**{name: 2.0 * BATCH * size for name, size in sizes.items()})
    assert products(keras.Sequential(made), 12) == pytest.approx(expected)


def test_nested_models_and_layers_called_twice() -> None:
    inputs = keras.Input((12,))
    shared = layers.Dense(12, name="sh")
    inner = keras.Sequential([layers.Dense(9, name="a"), layers.Dense(15, name="b")], name="inner")
    outputs = layers.Dense(3, name="a")(inner(shared(shared(inputs))))
    one = 2.0 * BATCH
    expected = {
        ("sh", "forward"): 2 * one * 144,
        ("sh", "backward"): 3 * one * 144,
        ("inner.a", "forward"): one * 108,
        ("inner.a", "backward"): 2 * one * 108,
        ("inner.b", "forward"): one * 135,
        ("inner.b", "backward"): 2 * one * 135,
        ("a", "forward"): one * 45,
        ("a", "backward"): 2 * one * 45,
    }
    found = products(keras.Model(inputs, outputs, name="outer"), 12)
    assert found == pytest.approx(expected)
