"""Models of other tests are no part of the program of one: names begin anew, what is left over goes."""

from __future__ import annotations

import gc
from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def a_program_of_its_own() -> None:
    """Before each test: Keras numbers its names from the start, and models that nobody holds are gone."""
    if find_spec("keras") is None or find_spec("tensorflow") is None:
        return
    import keras

    keras.utils.clear_session()
    gc.collect()
