"""Every example with PyTorch runs, and shows what it promises."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")

import torch

import hroof

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, so that examples write nothing into the project."""
    monkeypatch.chdir(tmp_path)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_has_a_test() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.endswith("_keras")}
    assert names == {"01_minimal", "02_explicit_steps", "03_files", "04_on_paper"}


def test_minimal(capsys: pytest.CaptureFixture[str]) -> None:
    run = example("01_minimal").main()
    assert run.outcome.status == "complete"
    said = capsys.readouterr()
    assert said.out == ""
    assert "Verdict" in said.err
    layers = set(run.profile.launches["layer"].dropna().astype(str))
    assert {"0", "1", "2", "5"} <= layers


def test_explicit_steps() -> None:
    run = example("02_explicit_steps").main()
    assert run.outcome.status == "complete"
    assert set(run.profile.launches["phase"].astype(str)) == {"forward"}
    assert run.profile.launches["flop_nominal_matrix_fp32"].sum() > 0


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # what the first left is replaced
        written = example("03_files").main(str(tmp_path / "here"))
        assert all(path.stat().st_size > 0 for path in written)
        assert hroof.Profile.load(tmp_path / "here" / "run").step_count == 3
        assert "3 steps" in capsys.readouterr().out


def test_on_paper() -> None:
    """The matrix FLOP of the example follow from its sizes; the full size is for people."""
    module = example("04_on_paper")
    from hroof_torch.counting import on_paper

    width, depth, length, vocabulary = 64, 2, 128, 50_304
    try:
        counted = on_paper(lambda: module.build(width, depth, 4, length))
    finally:
        torch.set_default_dtype(torch.float32)
    linear = 2 * length * (12 * width * width * depth + width * vocabulary)
    attention = 4 * length * length * width * depth
    assert (
        sum(op.work.flop(hroof.units.Pipe.MATRIX) for op in counted) == 3 * linear + 3.5 * attention
    )
