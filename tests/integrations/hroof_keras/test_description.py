"""What a run says of the program: versions, the backend, how the model was compiled."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

from hroof.integration import Device
from hroof_keras import description
from hroof_keras.private import steps as private_steps
from tests.integrations.hroof_keras import tiny

DEVICE = Device("cpu", "chip", facts={"threads": 2})


def test_the_program_and_its_schedule() -> None:
    found = description.described(tiny.Sink(), [{"name": "only"}], DEVICE)
    assert found["framework"] == "keras"
    assert found["program"] == sys.argv
    assert found["schedule"] == {"skip": 5, "steps": 3}
    assert found["layers"] == [{"name": "only"}]
    assert (found["device"], found["device_name"]) == ("cpu", "chip")
    assert found["facts"]["threads"] == 2


def test_versions_are_those_of_what_computes() -> None:
    found = description.versions()
    assert found["keras"] == keras.__version__
    assert found["tensorflow"].startswith(tf.__version__[:4])
    assert set(found) == {"keras", "tensorflow", "python"}


def test_a_backend_without_a_distribution_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "_PACKAGES", {"tensorflow": ("no-such-distribution",)})
    assert set(description.versions()) == {"keras", "python"}


def test_how_the_model_is_computed() -> None:
    made = tiny.model(jit_compile=False, steps_per_execution=3)
    found = description.settings(made)
    expected = {
        "backend": "tensorflow",
        "model": "tiny",
        "model_type": "Sequential",
        "jit_compile": False,
        "run_eagerly": False,
        "steps_per_execution": 3,
        "optimizer": "SGD",
        "dtype_policy": "float32",
    }
    assert {key: found[key] for key in expected} == expected


def test_auto_compilation_is_told_as_it_was_settled() -> None:
    assert description.settings(tiny.model())["jit_compile"] in (True, False)


def test_mixed_precision_is_that_of_the_model() -> None:
    policy = keras.DTypePolicy("mixed_bfloat16")
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, dtype=policy)])
    made.compile(loss="mse", optimizer="sgd")
    assert description.settings()["dtype_policy"] == "float32"
    assert "dtype_policy" in description.settings(made)


def test_threads_are_those_of_the_executor() -> None:
    found = private_steps.thread_settings()
    assert set(found) == {"inter_op_threads", "intra_op_threads"}
    assert all(isinstance(number, int) and number >= 0 for number in found.values())


@pytest.mark.parametrize(("value", "rank"), [(None, 0), ("3", 3), ("none", 0)])
def test_the_rank(monkeypatch: pytest.MonkeyPatch, value: str | None, rank: int) -> None:
    monkeypatch.delenv("RANK", raising=False)
    if value is not None:
        monkeypatch.setenv("RANK", value)
    assert description.rank() == rank
