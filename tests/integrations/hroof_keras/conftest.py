"""Lets the tests of this folder import its ``models``, however pytest was started; models of other tests are gone."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Before TensorFlow is imported: it would write its greeting to standard error.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = str(Path(__file__).parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

ROOMS = ("graph", "scopes")
"""Their tests name the layers of whole programs, to which all models belong that are alive."""


@pytest.fixture(autouse=True)
def a_program_of_its_own(request: pytest.FixtureRequest) -> None:
    """In these rooms Keras numbers its names from the start, and models that nobody holds are gone."""
    if request.path.parent.name not in ROOMS or not all(map(find_spec, ("keras", "tensorflow"))):
        return
    import keras

    keras.utils.clear_session()  # which collects garbage as well
