"""What the tests of speed share lies beside them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)  # last, so that an installed hroof is the one that is tested
