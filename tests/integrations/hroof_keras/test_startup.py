"""Programs that know nothing of hroof: the region that stands in for theirs, and when it makes way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras

import hroof_keras
from hroof.cli.inside import StandIn
from hroof.integration import Stage
from hroof.profile import Profile
from hroof.regions import Region, Status, open_regions, region
from hroof_keras import backends, executions, startup
from hroof_keras.startup import Watch, watch_program
from tests.integrations.hroof_keras import tiny

ROOT = str(Path(__file__).parents[3])


class Watched:
    """A watch, and the regions that it made."""

    def __init__(self, skip: int = 0, steps: int = 2) -> None:
        self.regions: list[StandIn] = []
        self._schedule = skip, steps
        self.watch = Watch(self._begin)
        self.watch.start()

    def _begin(self) -> StandIn:
        skip, steps = self._schedule
        made = StandIn(f"stand-in {len(self.regions)}", skip, steps, framework="keras")
        self.regions.append(made)
        return made

    def close(self) -> None:
        """As at the end of the program."""
        self.watch.stop()
        for one in self.regions:
            one.close()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Watched]:
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.delenv("HROOF_OUT", raising=False)
    monkeypatch.setattr(region, "_opening", list(region._opening))
    monkeypatch.setattr(backends, "capture", tiny.Capture)
    monkeypatch.setattr("hroof.run.ceilings_of", lambda *args, **kwargs: None)
    monkeypatch.chdir(tmp_path)
    made = Watched()
    yield made
    made.close()
    assert open_regions() == ()
    assert executions._listeners == ()


def statuses(watched: Watched) -> list[str]:
    return [str(one.outcome.status) for one in watched.regions]


def test_nothing_opens_before_there_is_work(watched: Watched) -> None:
    made = tiny.model()
    made(tiny.data(1)[0])
    assert watched.regions == []


def test_fit_opens_a_region_of_training(watched: Watched) -> None:
    tiny.fit(tiny.model(), 6)
    (one,) = watched.regions
    assert one.outcome.status is Status.COMPLETE
    assert one.skip == 1  # the first step is never captured
    assert one.folder is not None


def test_train_on_batch_opens_it_too(watched: Watched) -> None:
    made, (x, y) = tiny.model(), tiny.data(1)
    for _ in range(6):
        made.train_on_batch(x, y)
    assert statuses(watched) == ["complete"]


def test_an_eager_optimizer_step_opens_it_too(watched: Watched) -> None:
    tf = pytest.importorskip("tensorflow")
    made, (x, y), optimizer = tiny.model(), tiny.data(1), keras.optimizers.SGD()
    weights = made.trainable_variables
    for _ in range(6):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((made(x) - y) ** 2)
        optimizer.apply(tape.gradient(loss, weights), weights)
    assert statuses(watched) == ["complete"]


@pytest.mark.parametrize("name", ["evaluate", "predict"])
def test_inference_alone_is_measured(watched: Watched, name: str) -> None:
    x, y = tiny.data(6)
    data = (x, y) if name == "evaluate" else (x,)
    getattr(tiny.model(), name)(*data, batch_size=tiny.BATCH, verbose=0)
    assert statuses(watched) == ["complete"]


def test_training_drops_what_was_measured_of_inference(watched: Watched) -> None:
    made, (x, y) = tiny.model(), tiny.data(6)
    made.evaluate(x, y, batch_size=tiny.BATCH, verbose=0)
    inference = watched.regions[0]
    saved = inference.folder
    assert saved is not None
    tiny.fit(made, 6, validation_data=tiny.data(2))
    assert len(watched.regions) == 2
    assert not (saved / "run.json").exists()
    assert watched.regions[1].outcome.status is Status.COMPLETE


def test_a_region_of_the_programs_own_wins(watched: Watched) -> None:
    with Region("own", 1, 2, framework="keras") as own:
        tiny.fit(tiny.model(), 6)
    assert own.outcome.status is Status.COMPLETE
    assert watched.regions == []


def test_a_callback_wins(watched: Watched) -> None:
    measured = hroof_keras.RooflineCallback(1, 2, show=False)
    tiny.fit(tiny.model(), 6, callbacks=[measured])
    assert measured.run.outcome.status is Status.COMPLETE
    assert watched.regions == []


def test_a_region_that_comes_later_drops_the_one_that_stood_in(watched: Watched) -> None:
    made = tiny.model()
    tiny.fit(made, 2)
    assert len(open_regions()) == 1
    with Region("own", 1, 2, framework="keras") as own:
        tiny.fit(made, 6)
    assert own.outcome.status is Status.COMPLETE
    assert watched.regions[0].outcome.profile is None
    assert watched.regions[0].stage is Stage.DONE


def test_a_program_with_too_few_steps_is_told(watched: Watched) -> None:
    tiny.fit(tiny.model(), 1)
    watched.close()
    reason = watched.regions[0].outcome.reason
    assert reason.startswith("The program did 1 step and needs 4 (1 skipped, 1 counted, 2 timed).")
    assert "call hroof run --skip 1 --steps 1" in reason


def test_a_fault_of_hroof_ends_the_watch_and_not_the_program(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks() -> Region:
        raise RuntimeError("a fault")

    monkeypatch.setattr(watched.watch, "_begin", breaks)
    tiny.fit(tiny.model(), 2)
    tiny.fit(tiny.model(), 2)
    assert capsys.readouterr().err.count("watching the program failed") == 1


def test_a_second_call_and_one_before_keras_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Watch] = []
    monkeypatch.setattr(startup, "_watches", [])
    monkeypatch.setattr(Watch, "start", lambda self: started.append(self))
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "keras")
        watch_program(lambda: None)
    assert started == []
    watch_program(lambda: None)
    watch_program(lambda: None)
    assert len(started) == 1


# --- hroof run ------------------------------------------------------------------------------------

Ran = tuple[subprocess.CompletedProcess[str], Path]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    """Run a program as ``hroof run`` does; the folder of its results."""

    def start(code: str, **more: str) -> Ran:
        from hroof.cli.target import environment

        path, out = tmp_path / "program.py", tmp_path / "out"
        out.mkdir()
        path.write_text(f"import sys\nsys.path.insert(0, {ROOT!r})\n{textwrap.dedent(code)}")
        env = environment(out, skip=1, steps=2, name=None)
        done = subprocess.run(
            [sys.executable, str(path)],
            env={**env, "TF_CPP_MIN_LOG_LEVEL": "3", **more},
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        return done, out

    return start


def test_a_program_is_measured_without_a_change_to_it(run: Callable[..., Ran]) -> None:
    done, out = run("""
        from tests.integrations.hroof_keras import tiny
        tiny.fit(tiny.model(), 3, epochs=3, validation_data=tiny.data(1))
        print("done")
    """)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    found = Profile.load(out)
    assert (found.run["framework"], found.run["status"]) == ("keras", "complete")
    assert [step["count"] for step in found.run["steps"]] == [1, 1]
    assert "only" in set(found.launches["layer"])


def test_a_library_that_imports_another_framework_is_no_hindrance(
    run: Callable[..., Ran],
) -> None:
    pytest.importorskip("torch")
    done, out = run("""
        import torch
        from tests.integrations.hroof_keras import tiny
        tiny.fit(tiny.model(), 5)
    """)
    assert done.returncode == 0, done.stderr
    assert Profile.load(out).run["framework"] == "keras"


def test_nor_is_tensorflow_in_a_program_of_pytorch(run: Callable[..., Ran]) -> None:
    pytest.importorskip("torch")
    done, out = run("""
        import tensorflow, torch
        net = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(6):
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    """)
    assert done.returncode == 0, done.stderr
    assert Profile.load(out).run["framework"] == "torch"


def test_what_happened_is_noted_where_nothing_is_captured(run: Callable[..., Ran]) -> None:
    done, out = run("""
        import tensorflow
        tensorflow.constant(1.0)
    """)
    assert done.returncode == 0, done.stderr
    (note,) = out.glob("start-*.json")
    assert json.loads(note.read_text())["framework"] in ("keras", "tensorflow")
    assert os.listdir(out) == [note.name]
