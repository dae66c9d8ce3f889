"""Every example with Keras runs, and shows what it promises; each is the pair of one with PyTorch."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

if find_spec("keras") is None:  # not imported here: each example does it with its own backend
    pytest.skip("Keras is not installed", allow_module_level=True)

import hroof
from hroof.machine import Ceiling, Machine
from hroof.units import MemoryLevel, Pipe, Precision

EXAMPLES = Path(__file__).parents[2] / "examples"

on_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None
    or os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow",
    reason="TensorFlow is not installed, or not Keras' backend",
)
on_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, with ceilings that nobody had to measure."""
    monkeypatch.chdir(tmp_path)
    machine = Machine(
        name="made up",
        peaks={
            (pipe, precision): Ceiling(1e11, samples=5) for pipe in Pipe for precision in Precision
        },
        bandwidths={level: Ceiling(1e10, samples=5) for level in MemoryLevel},
        launch_cost=Ceiling(1e-6, samples=5),
    )
    monkeypatch.setattr("hroof.run.ceilings_of", lambda *args, **options: machine)
    monkeypatch.setattr("hroof.run.known_ceilings", lambda profile: machine)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_example_is_one_of_a_pair() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    with_keras = {name for name in names if name.endswith("_keras")}
    assert {name.removesuffix("_keras") for name in with_keras} == names - with_keras
    assert len(with_keras) == 4


@on_tensorflow
def test_minimal(capsys: pytest.CaptureFixture[str]) -> None:
    run = example("01_minimal_keras").main()
    assert run.outcome.status == "complete"
    said = capsys.readouterr()
    assert said.out == ""
    assert "verdict" in said.err.lower()
    rows = run.profile.launches
    convolution = rows[rows["layer"].astype(str) == "conv"]
    by_phase = convolution.groupby(convolution["phase"].astype(str))["flop_nominal_matrix_fp32"]
    one = 2 * 16 * 32 * 32 * 9 * 3 * 32
    # Three timed steps; the images have no gradient, so backward is the filter's alone.
    assert by_phase.sum()["forward"] == by_phase.sum()["backward"] == 3 * one


@on_tensorflow
def test_explicit_steps() -> None:
    run = example("02_explicit_steps_keras").main()
    assert run.outcome.status == "complete"
    rows = run.profile.launches
    assert "forward" in set(rows["phase"].astype(str))
    assert not {"backward", "optimizer"} & set(rows["phase"].astype(str))
    per_token = 2 * (4 * 64 * 64 + 2 * 64 * 128) + 2 * 2 * 32 * 64
    assert rows["flop_nominal_matrix_fp32"].sum() == 3 * 8 * 32 * per_token


@on_tensorflow
def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = example("03_files_keras").main(str(tmp_path / "here"))
    assert all(path.stat().st_size > 0 for path in written)
    assert hroof.Profile.load(tmp_path / "here" / "run").step_count == 3
    assert "3 steps" in capsys.readouterr().out


SMALL = """
import importlib.util
import sys
from hroof.units import Pipe
from hroof_torch.counting import on_paper

spec = importlib.util.spec_from_file_location("example", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
counted = on_paper(lambda: module.build(64, 2, 4, 128))
print(sum(op.work.flop(Pipe.MATRIX) for op in counted))
"""


@on_torch
def test_on_paper() -> None:
    """The matrix FLOP of the example follow from its sizes; the full size is for people."""
    # Keras reads its backend once, so the example needs a process of its own.
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(EXAMPLES / "04_on_paper_keras.py")],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    width, depth, length, vocabulary = 64, 2, 128, 50_304
    linear = 2 * length * (12 * width * width * depth + width * vocabulary)
    attention = 4 * length * length * width * depth
    assert float(done.stdout.split()[-1]) == 3 * linear + 3.5 * attention
