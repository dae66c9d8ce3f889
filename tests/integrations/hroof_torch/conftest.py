"""Fixtures of the two workloads; where PyTorch is not installed, every test file of this folder is skipped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from hroof import integration

HAS_TORCH = find_spec("torch") is not None

ROOT = str(Path(__file__).parents[3])
if ROOT not in sys.path:
    sys.path.append(ROOT)  # last, so that an installed hroof is the one that is tested

if HAS_TORCH:
    from tests.integrations.hroof_torch.workloads import (  # noqa: F401
        cnn_workload,
        gpt_workload,
        make_cnn,
        make_gpt,
        only_optimizers_of_this_test,
    )


class WithoutTorch(pytest.File):
    """A test file that cannot be imported."""

    def collect(self) -> Iterator[pytest.Item]:
        """Nothing but the reason."""
        pytest.skip("PyTorch is not installed")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """In place of each test file, where there is no PyTorch, one that says so."""
    if HAS_TORCH:
        return None
    return WithoutTorch.from_parent(parent, path=module_path)


@pytest.fixture(autouse=True, scope="module")
def torch_is_measured() -> Iterator[None]:
    """Where a test of another file has imported Keras, regions of these tests need not choose."""
    choose = integration.candidates
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integration, "candidates", lambda name=None: choose(name or "torch"))
        yield
