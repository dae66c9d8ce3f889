"""Fragile names behind steps and settings: a version that lacks one fails here first."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import tensorflow as tf

from hroof_keras.private import steps as private_steps
from tests.integrations.hroof_keras import tiny


def test_a_list_of_callbacks_knows_its_model() -> None:
    made = tiny.model()
    listed = keras.callbacks.CallbackList([], model=made)
    assert private_steps.model_of(listed) is made
    assert private_steps.model_of(object()) is None


def test_models_are_told_from_layers_and_optimizers() -> None:
    assert private_steps.is_model(tiny.model())
    assert not private_steps.is_model(keras.layers.Dense(1))
    assert not private_steps.is_model(keras.optimizers.SGD())


@pytest.mark.parametrize("scaled", [False, True])
def test_an_optimizer_knows_its_steps(scaled: bool) -> None:
    made, optimizer = tiny.model(), keras.optimizers.SGD()
    wrapped = keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer
    made.compile(loss="mse", optimizer=wrapped)
    assert private_steps.optimizer_steps(made) == 0
    tiny.fit(made, 3)
    assert private_steps.optimizer_steps(made) == 3


def test_without_an_optimizer_nothing_is_known() -> None:
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    assert private_steps.optimizer_steps(made) is None
    made.optimizer = type("Odd", (), {"iterations": "many"})()
    assert private_steps.optimizer_steps(made) is None


def test_tracing_is_told_from_computing() -> None:
    seen: list[bool] = []

    def look() -> Any:
        seen.append(private_steps.is_traced())
        return tf.constant(0)

    look()
    tf.function(look)()
    assert seen == [False, True]


def test_variables_that_training_would_change() -> None:
    made = tiny.model()
    assert private_steps.has_trainable_variables()
    assert private_steps.has_trainable_keras_variables()
    assert made is not None


def test_to_wait_for_devices_is_possible_at_any_time() -> None:
    private_steps.synchronize()


# --- the import of TensorFlow ---------------------------------------------------------------------


def child(code: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("TF_CPP")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env
    )


@pytest.fixture(scope="module")
def imported() -> subprocess.CompletedProcess[str]:
    """A program that imports TensorFlow, then Keras, and has tables and counters, but no model."""
    return child(
        "from hroof_keras.private import steps as private_steps\n"
        "tensorflow = private_steps.import_tensorflow()\n"
        "tensorflow.constant(1.0)\n"
        "import os, sys\n"
        "print(os.environ['TF_CPP_MIN_LOG_LEVEL'], tensorflow.__name__)\n"
        "print('heard', file=sys.stderr)\n"
        "import keras\n"
        "counter = tensorflow.Variable(0, trainable=False)\n"
        "metric = keras.metrics.Mean()\n"
        "list(tensorflow.data.Dataset.range(3))\n"
        "print(private_steps.has_trainable_variables())\n"
        "print(private_steps.has_trainable_keras_variables())\n"
    )


def test_tensorflow_is_imported_without_its_greeting(
    imported: subprocess.CompletedProcess[str],
) -> None:
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout.splitlines()[0] == "2 tensorflow"
    assert imported.stderr == "heard\n"


def test_tables_and_counters_are_no_model(imported: subprocess.CompletedProcess[str]) -> None:
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout.splitlines()[1:] == ["False", "False"]


def test_what_is_said_of_a_failed_import_is_not_lost() -> None:
    done = child(
        "import os, sys, types\n"
        "from hroof_keras.private import steps as private_steps\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tensorflow':\n"
        "            os.write(2, b'a library is broken\\n')\n"
        "            raise OSError('broken')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "try:\n"
        "    private_steps.import_tensorflow()\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    assert (done.stdout, done.stderr) == ("broken\n", "a library is broken\n")


def test_without_standard_error_it_is_imported_all_the_same() -> None:
    done = child(
        "import os\n"
        "os.close(2)\n"
        "from hroof_keras.private import steps as private_steps\n"
        "print(private_steps.import_tensorflow().__name__)\n"
    )
    assert done.stdout == "tensorflow\n"


def test_what_is_imported_already_is_left_alone() -> None:
    assert private_steps.import_tensorflow() is tf
