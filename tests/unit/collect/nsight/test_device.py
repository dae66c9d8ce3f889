"""The GPU that a program will see, from a made-up nvidia-smi."""

from __future__ import annotations

from pathlib import Path

import pytest

from hroof.collect.nsight import Gpu, device, first_gpu, has_driver

TWO = "0, GPU-aa11, 8.0, NVIDIA A100-SXM4-80GB\n1, GPU-bb22, 9.0, NVIDIA H100, the second\n"


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a program named nvidia-smi is looked for."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "nvidia-smi"


def write(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_the_library_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_DRIVER", "libc.so.6")
    assert has_driver()
    monkeypatch.setattr(device, "_DRIVER", "libno-such-driver.so.1")
    assert not has_driver()


def test_without_a_driver_there_is_none(smi: Path) -> None:
    assert first_gpu() is None


@pytest.mark.parametrize(
    ("visible", "capability"),
    [
        (None, "8.0"),
        ("", "8.0"),
        ("1", "9.0"),
        ("1,0", "9.0"),
        ("GPU-bb", "9.0"),
        ("GPU-aa11", "8.0"),
        ("7", "8.0"),
    ],
)
def test_the_first_that_is_visible(smi: Path, visible: str | None, capability: str) -> None:
    write(smi, f"cat <<'EOF'\n{TWO}EOF")
    found = first_gpu({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert found is not None
    assert found.capability == capability


def test_a_name_may_hold_a_comma(smi: Path) -> None:
    write(smi, f"cat <<'EOF'\n{TWO}EOF")
    assert first_gpu({"CUDA_VISIBLE_DEVICES": "1"}) == Gpu(
        "1", "GPU-bb22", "9.0", "NVIDIA H100, the second"
    )


def test_the_environment_of_this_process_counts(smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(smi, f"cat <<'EOF'\n{TWO}EOF")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = first_gpu()
    assert found is not None and found.index == "1"


def test_an_old_driver_tells_no_capability(smi: Path) -> None:
    write(
        smi,
        'case "$1" in *compute_cap*) echo "Field is not valid"; exit 2;; esac\n'
        'echo "0, GPU-cc, Tesla V100-SXM2-16GB"',
    )
    assert first_gpu() == Gpu("0", "GPU-cc", "", "Tesla V100-SXM2-16GB")


def test_a_driver_that_does_not_answer(smi: Path) -> None:
    write(smi, "echo 'NVIDIA-SMI has failed'; exit 9")
    assert first_gpu() is None
