"""Lets the tests of this folder import its ``models``, however pytest was started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Before TensorFlow is imported: it would write its greeting to standard error.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = str(Path(__file__).parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
