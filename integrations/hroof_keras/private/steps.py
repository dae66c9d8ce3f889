"""Fragile names of Keras and its backends behind steps and settings; each is probed where it is used.

Keras and the framework that computes are imported inside the functions: none of them may be there yet.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from hroof_keras.private import runtime as private


def model_of(source: Any) -> Any:
    """The model that a list of callbacks, or a callback, belongs to.

    Their public ``model`` would copy the state of a whole model on jax, at every call.
    """
    return getattr(source, "_model", None)


def is_model(value: Any) -> bool:
    """Whether this is a model, and not a layer or an optimizer."""
    import keras

    return isinstance(value, keras.Model)


def synchronize() -> None:
    """Wait for whatever the backend of Keras has been given to do."""
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        private.sync_devices()
    elif backend == "jax":
        import jax

        for array in jax.live_arrays():
            array.block_until_ready()


def optimizer_steps(model: Any) -> int | None:
    """Steps that a model's optimizer has done; None where that is not known."""
    iterations = getattr(getattr(model, "optimizer", None), "iterations", None)
    try:
        return None if iterations is None else int(iterations)
    except (TypeError, ValueError):
        return None


def is_traced() -> bool:
    """Whether what runs now only builds a graph."""
    import keras

    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow

    return not tensorflow.executing_eagerly()


def thread_settings() -> dict[str, int]:
    """Threads of TensorFlow's executor and kernels; 0 stands for as many as there are cores."""
    import tensorflow

    threading = tensorflow.config.threading
    return {
        "inter_op_threads": int(threading.get_inter_op_parallelism_threads()),
        "intra_op_threads": int(threading.get_intra_op_parallelism_threads()),
    }


def has_trainable_variables() -> bool:
    """Whether there is a variable that training would change; the tables of tf.data and metrics are none."""
    import gc

    import tensorflow

    kind = tensorflow.Variable
    return any(issubclass(type(value), kind) and value.trainable for value in gc.get_objects())


def has_trainable_keras_variables() -> bool:
    """The same of Keras' own variables, whichever framework computes."""
    import gc

    import keras

    kind = keras.Variable
    return any(issubclass(type(value), kind) and value.trainable for value in gc.get_objects())


def import_tensorflow() -> Any:
    """TensorFlow, without the greeting of its libraries where it is imported only now.

    They write to standard error before anybody can tell them not to: for the time of the import it leads to a file,
    which is shown where the import fails.

    Raises:
        ImportError: It is not installed, or broken.
        OSError: One of its libraries is.
    """
    if "tensorflow" not in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        with _errors_aside():
            import tensorflow
    import tensorflow

    return tensorflow


@contextlib.contextmanager
def _errors_aside() -> Iterator[None]:
    """Keep what is written to standard error; it is written after all where the block fails."""
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            if failed:
                aside.seek(0)
                os.write(2, aside.read())
