"""``hroof count``: finding the function; the numbers themselves are tested with PyTorch."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.cli.count import find
from hroof.errors import UsageError

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "the_model.py"
    path.write_text("import beside_it\nVALUE = 3\ndef build():\n    return beside_it.step\n")
    (tmp_path / "beside_it.py").write_text("def step():\n    return 'a step'\n")
    (tmp_path / "broken_one.py").write_text("import no_such_thing\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    return path


@pytest.mark.parametrize(
    "target", ["the_model.py:build", "./the_model.py:build", "the_model:build"]
)
def test_a_function_of_a_file_or_a_module(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("the_model", "beside_it"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    assert find(target)()() == "a step"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("the_model.py", "names no function"),
        (":build", "names no function"),
        ("the_model.py:", "names no function"),
        ("the_model.py:other", "It has: build."),
        ("the_model.py:VALUE", "It has: build."),
        ("absent.py:build", "no file 'absent.py'"),
        ("absent_module:build", "ModuleNotFoundError"),
        ("broken_one.py:build", "no_such_thing"),
    ],
)
def test_what_cannot_be_found(target: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        find(target)


@needs_torch
def test_a_fault_of_the_file_shows_where(hroof: Any) -> None:
    done = hroof("count", "broken_one.py:build")
    assert done.status == 2
    assert 'broken_one.py", line 1' in done.err
    assert done.err.splitlines()[-1].startswith("hroof: 'broken_one.py' cannot be imported")


def test_a_fault_of_the_function_shows_only_its_own_frames(hroof: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = "def build():\n    return helper()\n\ndef helper():\n    raise ValueError('Mine.')\n"
    (tmp_path / "faulty.py").write_text(text)
    done = hroof("count", "faulty.py:build")
    assert done.status == 5
    lines = done.err.splitlines()
    assert lines[0].startswith("Traceback")
    assert "faulty.py" in lines[1]
    assert done.err.count("  File ") == 2
    assert lines[-1].startswith("hroof: 'faulty.py:build' cannot run on paper: ValueError: Mine. ")


def test_a_function_that_returns_none_needs_no_traceback(hroof: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "empty_handed.py").write_text("def build():\n    return 3\n")
    done = hroof("count", "empty_handed.py:build")
    assert done.status == 5
    assert done.err.startswith("hroof: 'empty_handed.py:build' cannot run on paper: TypeError: it")
    assert "Traceback" not in done.err


@needs_torch
@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("tensorflow", "Keras computes with tensorflow here: set KERAS_BACKEND=torch."),
        ("torch", "Return the function, uncalled."),
        (None, "Return the function, uncalled."),
    ],
)
def test_a_step_that_computes_nothing_with_pytorch(
    hroof: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str | None, said: str
) -> None:
    keras = SimpleNamespace(backend=SimpleNamespace(backend=lambda: backend))
    monkeypatch.setitem(sys.modules, "keras", None if backend is None else keras)
    (tmp_path / "idle.py").write_text("def build():\n    return lambda: None\n")
    done = hroof("count", "idle.py:build")
    assert done.status == 5
    assert done.err.splitlines()[-1] == f"hroof: The step computed nothing with PyTorch. {said}"
