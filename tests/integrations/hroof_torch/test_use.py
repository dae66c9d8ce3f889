"""Whether PyTorch is in use: something that could be trained is alive."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import hroof_torch  # noqa: E402


def test_a_module_with_parameters() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert hroof_torch.in_use()
    assert module is not None


def test_an_optimizer_alone() -> None:
    optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)], 0.1)
    assert hroof_torch.in_use()
    assert optimizer is not None


def test_an_import_is_no_use() -> None:
    code = (
        "import torch, hroof_torch\n"
        "relu = torch.nn.ReLU()\n"
        "assert not hroof_torch.in_use()\n"
        "linear = torch.nn.Linear(2, 2)\n"
        "assert hroof_torch.in_use()\n"
        "del linear\n"
        "import gc; gc.collect()\n"
        "assert not hroof_torch.in_use()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_objects_that_stand_in_for_others_are_not_woken() -> None:
    class Lazy:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise AssertionError("it was asked for its class")

    lazy = Lazy()
    gc.collect()
    hroof_torch.in_use()
    assert lazy is not None
