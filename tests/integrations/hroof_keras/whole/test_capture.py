"""Captures of the three models: exact matrix FLOP by layer and phase in every mode; the losses stay the same."""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from hroof.launches import LOSS_NAME
from hroof.regions import Region
from tests.integrations.hroof_keras import models
from tests.integrations.hroof_keras.fitted import (
    MODES,
    STEPS,
    fit,
    matrix_flop,
    region,
    run_of,
    table,
)

MODELS = models.BUILD
KNOWN_WITHOUT_LAYER = ("optimizer", "data", "loss")


@functools.cache
def captured(name: str, mode: str) -> tuple[Region, tuple[float, ...]]:
    """One model trained in one mode, captured once for all tests."""
    model, x, y = MODELS[name](**MODES[mode])
    measured = region()
    with measured:
        losses = fit(model, x, y)
    return measured, tuple(losses)


COMPILED = [(name, mode) for mode in ("graph", "xla") for name in MODELS]


@pytest.mark.parametrize(("name", "mode"), COMPILED)
def test_matrix_flop_by_layer_and_phase_are_the_hand_counts(name: str, mode: str) -> None:
    measured, _ = captured(name, mode)
    found = matrix_flop(table(measured))
    assert found == pytest.approx(models.TRUTH[name])


@pytest.mark.parametrize(("name", "mode"), COMPILED)
def test_every_timed_step_has_the_same_matrix_flop(name: str, mode: str) -> None:
    frame = table(captured(name, mode)[0])
    sums = frame.groupby("step")["matrix"].sum()
    assert list(sums) == pytest.approx([models.MATRIX_FLOP[name]] * STEPS)


@pytest.mark.parametrize(("name", "mode"), COMPILED)
def test_almost_all_op_time_has_a_layer_and_a_phase(name: str, mode: str) -> None:
    frame = table(captured(name, mode)[0])
    known = frame["layer"].notna() | frame["phase"].isin(KNOWN_WITHOUT_LAYER)
    share = frame["duration"][known].sum() / frame["duration"].sum()
    assert share >= 0.99


def test_almost_all_eager_ops_have_a_layer_and_a_phase() -> None:
    """What is left are metrics, and what hands the results to Python."""
    frame = table(captured("cnn", "eager")[0])
    known = frame["layer"].notna() | frame["phase"].isin(KNOWN_WITHOUT_LAYER)
    assert known.mean() >= 0.9
    assert set(frame["phase"][~known]) == {"other"}


@pytest.mark.parametrize(("name", "mode"), COMPILED)
def test_phases_are_those_of_training(name: str, mode: str) -> None:
    frame = table(captured(name, mode)[0])
    phases = set(frame["phase"][frame["duration"] > 0])
    assert {"forward", "loss", "backward", "optimizer"} <= phases
    losses = frame[frame["phase"] == "loss"]
    assert set(losses["layer"].dropna()) == {LOSS_NAME}


def test_eager_steps_have_exact_layers_in_both_passes() -> None:
    """Eager TensorFlow computes the gradient of the images as well, which a compiled graph leaves out."""
    truth = dict(models.TRUTH["cnn"])
    truth["block1_conv1", "backward"] *= 2
    measured = captured("cnn", "eager")[0]
    assert matrix_flop(table(measured)) == pytest.approx(truth)
    (told,) = [text for text in run_of(measured)["warnings"] if text.startswith("Eager ops")]
    assert "backward ops have no layer" not in told


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_only_eager_steps_are_told_to_have_no_graph(mode: str) -> None:
    warnings = run_of(captured("cnn", mode)[0])["warnings"]
    assert not any(text.startswith("Eager ops") for text in warnings)


@pytest.mark.parametrize(("name", "mode"), [("cnn", "graph"), ("cnn", "xla"), ("cnn", "eager")])
def test_optimizer_work_is_given_to_the_layers(name: str, mode: str) -> None:
    frame = table(captured(name, mode)[0])
    updates = frame[frame["phase"] == "optimizer"]
    with_layer = updates[updates["layer"].notna()]
    assert {"block1_conv1", "block2_conv1", "fc1", "logits"} <= set(with_layer["layer"])
    assert with_layer["duration"].sum() >= 0.8 * updates["duration"].sum()


@pytest.mark.parametrize(("name", "mode"), [("cnn", "graph"), ("cnn", "xla")])
def test_times_lie_within_their_steps(name: str, mode: str) -> None:
    measured, _ = captured(name, mode)
    frame = table(measured)
    assert (frame["duration"] >= 0).all()
    for step, rows in frame.groupby("step"):
        wall = run_of(measured)["steps"][int(str(step))]["wall"]
        # A node that begins in a step has ended with it, as devices are waited for.
        assert rows["start"].max() - rows["start"].min() < wall


def test_what_the_run_says() -> None:
    run = run_of(captured("cnn", "graph")[0])
    assert run["framework"] == "keras"
    assert run["device"] == "cpu"
    assert {"keras", "tensorflow", "python"} <= set(run["versions"])
    assert run["facts"]["jit_compile"] is False
    assert run["facts"]["backend"] == "tensorflow"
    assert [step["step"] for step in run["steps"]] == list(range(STEPS))
    assert run["counting"] == "in every timed step"
    assert sum(run["placed_by"].values()) == pytest.approx(1.0)
    overlap = run["overlap"]
    assert overlap["sum"] >= overlap["union"] > 0
    assert overlap["factor"] == pytest.approx(overlap["sum"] / overlap["union"])
    names = [layer["name"] for layer in run["layers"]]
    assert {"block1_conv1", "fc1", LOSS_NAME} <= set(names)


def test_under_xla_the_share_that_was_split_is_told() -> None:
    placed = run_of(captured("cnn", "xla")[0])["placed_by"]
    assert {"own", "neighbour", "split"} <= set(placed)
    frame = table(captured("cnn", "xla")[0])
    shares = frame.groupby(["step", "launch_id"])["launches"].sum()
    assert np.allclose(shares, 1.0)


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_bytes_and_predicted_traffic(mode: str) -> None:
    frame = table(captured("cnn", mode)[0])
    counted = frame[frame["bytes_read"].notna()]
    assert np.allclose(counted["bytes_l1"], counted["bytes_read"] + counted["bytes_written"])
    assert counted["bytes_l1"].sum() > 0
    assert set(counted["source_l1"]) == {"counted"}
    assert set(frame["source_time"]) == {"measured"}


@pytest.mark.parametrize("mode", ["graph", "xla", "eager"])
def test_losses_are_the_same_bit_for_bit(mode: str) -> None:
    model, x, y = models.cnn(**MODES[mode])
    assert captured("cnn", mode)[1] == tuple(fit(model, x, y))
