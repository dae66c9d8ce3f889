"""Which capture measures, by what computes for Keras; and which integration, by what the program does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import hroof_keras
from hroof import integration
from hroof.integration import Stage, StepSink
from hroof.profile import Profile
from hroof.regions import Region
from hroof_keras import backends, executions
from hroof_keras.capturing.keras_capture import KerasCapture
from hroof_keras.capturing.marks_capture import MarksCapture
from hroof_keras.capturing.wall_capture import WallCapture
from tests.integrations.hroof_keras import tiny

ROOT = str(Path(__file__).parents[3])


def made(monkeypatch: pytest.MonkeyPatch, backend: str) -> Any:
    """The capture for a backend; detached."""
    monkeypatch.setattr(backends, "backend", lambda: backend)
    capture = hroof_keras.capture(tiny.Sink(Stage.SKIP))
    capture.stage(Stage.DONE)
    capture.release()
    assert executions._listeners == ()
    return capture


def test_on_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HROOF", raising=False)
    assert isinstance(made(monkeypatch, "tensorflow"), KerasCapture)
    monkeypatch.setenv("HROOF", "marks")
    assert isinstance(made(monkeypatch, "tensorflow"), MarksCapture)


@pytest.mark.parametrize("backend", ["openvino", "numpy"])
def test_where_nothing_can_be_seen_steps_are_timed(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    assert isinstance(made(monkeypatch, backend), WallCapture)


class Other:
    """The integration of another backend, whose capture is a stand-in."""

    FRAMEWORK = "torch"

    def __init__(self) -> None:
        self.capture_of: list[Noted] = []

    def capture(self, steps: StepSink) -> Noted:
        self.capture_of.append(Noted())
        return self.capture_of[-1]


class Noted:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def stage(self, stage: Stage) -> None:
        self.log.append(str(stage))

    def step_ended(self, number: int) -> None:
        self.log.append(f"step {number}")

    def execution_begins(self) -> None:
        self.log.append("+")

    def execution_ends(self) -> None:
        self.log.append("-")

    def flush(self) -> None:
        self.log.append("flush")

    def release(self) -> None:
        self.log.append("release")

    def seen(self) -> str:
        return "The other one saw nothing."

    def profile(self) -> Profile | None:
        run = {"framework": "torch", "versions": {"torch": "2"}, "facts": {"threads": 2}}
        return Profile.from_rows([{"op": "aten::mm"}], run)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Other:
    found = Other()
    load = integration.load
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.setattr(backends, "backend", lambda: "torch")
    monkeypatch.setattr(integration, "load", lambda name: found if name == "torch" else load(name))
    return found


def test_on_torch_its_own_integration_measures_the_steps_of_keras(other: Other) -> None:
    with Region("region", 1, 2, framework="keras") as region:
        tiny.fit(tiny.model(), 5, validation_data=tiny.data(1))
    steps = ["count", "+", "-", "time", "+", "-", "step 1", "+", "-", "done", "release"]
    assert other.capture_of[0].log == steps
    profile = region.outcome.profile
    assert profile is not None
    assert profile.run["framework"] == "torch"
    assert set(profile.run["versions"]) >= {"torch", "keras"}
    assert profile.run["facts"]["threads"] == 2
    assert profile.run["facts"]["model"] == "tiny"
    assert backends.COMPILED not in profile.run.get("warnings", [])


def test_a_training_step_that_is_compiled_as_a_whole_has_no_layers(other: Other) -> None:
    with Region("region", 1, 2, framework="keras") as region:
        tiny.fit(tiny.model(jit_compile=True), 5)
    profile = region.outcome.profile
    assert profile is not None
    assert profile.run["warnings"] == [backends.COMPILED]


def test_where_no_step_was_seen_both_say_so(other: Other) -> None:
    with Region("region", 1, 2, framework="keras") as region:
        pass
    assert "It saw no execution of fit" in region.outcome.reason
    assert "The other one saw nothing." in region.outcome.reason


def test_another_integration_is_measured_through_this_one(other: Other) -> None:
    assert hroof_keras.measures_for() == ("torch",)


def test_on_tensorflow_it_speaks_for_itself_only() -> None:
    assert backends.backend() == "tensorflow"
    assert hroof_keras.measures_for() == ()


def test_it_is_in_use_as_soon_as_there_is_something_to_train(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny.model()
    assert hroof_keras.in_use()
    monkeypatch.setattr(backends, "backend", lambda: "jax")
    assert hroof_keras.in_use()
    assert model is not None


# --- programs -------------------------------------------------------------------------------------

Run = Callable[..., list[dict[str, Any]]]

TRAIN = """
import json, sys
sys.path.insert(0, {root!r})
{before}
from tests.integrations.hroof_keras import tiny
import hroof
for number, then in enumerate({between!r}):
    exec(then)
    with hroof.region("mine", skip=1, steps=1, out=f"own{{number}}", show=False{how}) as run:
        tiny.fit(tiny.model(), 4)
    print(json.dumps([run.profile.run[key] for key in ("framework", "warnings", "versions")]))
"""


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Train the small model in a program of its own, once after each statement ``between``.

    Gives framework, warnings and versions of each run.
    """

    def start(
        before: str = "", how: str = "", between: tuple[str, ...] = ("",), **env: str
    ) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("train")
        path = folder / "program.py"
        text = textwrap.dedent(TRAIN).format(root=ROOT, before=before, how=how, between=between)
        path.write_text(text)
        done = subprocess.run(
            [sys.executable, str(path)],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "HROOF": "", **env},
            capture_output=True, text=True, check=False, cwd=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()[-len(between) :]]
        return [dict(zip(("framework", "warnings", "versions"), run, strict=True)) for run in found]

    return start


needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


@needs_torch
def test_keras_on_torch_without_tensorflow(train: Run) -> None:
    blocked = "sys.modules['tensorflow'] = None"
    (found,) = train(blocked, KERAS_BACKEND="torch")
    assert found["framework"] == "torch"
    assert set(found["versions"]) >= {"torch", "keras"}


@pytest.fixture(scope="module")
def beside_torch(train: Run) -> list[dict[str, Any]]:
    """Runs where PyTorch was only imported, and where it has a model."""
    return train("import torch", between=("", "net = torch.nn.Linear(4, 1)"))


@needs_torch
def test_a_model_of_pytorch_beside_one_of_keras_is_no_hindrance(
    beside_torch: list[dict[str, Any]],
) -> None:
    _, found = beside_torch
    assert found["framework"] == "keras"
    assert "keras and torch are in use; keras was measured alone" in " ".join(found["warnings"])


@needs_torch
def test_pytorch_that_was_only_imported_needs_no_word(beside_torch: list[dict[str, Any]]) -> None:
    found, _ = beside_torch
    assert found["framework"] == "keras"
    assert not [said for said in found["warnings"] if "in use" in said]


def test_without_pytorch(train: Run) -> None:
    (found,) = train("sys.modules['torch'] = None", how=", framework='keras'")
    assert found["framework"] == "keras"


def test_without_keras_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['keras'] = None; import hroof_keras"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: hroof_keras needs Keras 3; install it with: pip install 'hroof[keras]'"
    )


def test_the_import_alone_brings_neither_keras_nor_tensorflow(tmp_path: Path) -> None:
    code = (
        "import sys, hroof_keras; "
        "print([name for name in ('keras', 'tensorflow', 'jax', 'torch', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout == "[]\n", done.stderr
