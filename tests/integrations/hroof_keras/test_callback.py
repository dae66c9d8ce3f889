"""The callback: when its region opens and ends, what is kept, where the report goes."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras

import hroof
import hroof_keras
from hroof.errors import CaptureError, UsageError
from hroof.integration import Stage
from hroof.profile import Profile
from hroof.regions import Status, open_regions
from hroof_keras import backends, callback, executions
from hroof_keras.executions import Kind
from tests.integrations.hroof_keras import tiny


class Boom(Exception):
    """What goes wrong in these tests."""


class Raises(keras.callbacks.Callback):
    """Raises at the end of a batch."""

    def __init__(self, batch: int, error: type[BaseException] = Boom) -> None:
        super().__init__()
        self.batch, self.error = batch, error

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.batch:
            raise self.error


@pytest.fixture(autouse=True)
def captures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[tiny.Capture]]:
    """The captures that were made; nothing of them is left afterwards, and no ceilings are measured."""
    made: list[tiny.Capture] = []

    def capture(steps: Any) -> tiny.Capture:
        made.append(tiny.Capture(steps))
        return made[-1]

    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.delenv("HROOF_OUT", raising=False)
    monkeypatch.setattr(backends, "capture", capture)
    monkeypatch.setattr("hroof.run.ceilings_of", lambda *args, **kwargs: None)
    monkeypatch.chdir(tmp_path)
    yield made
    gc.collect()
    assert open_regions() == ()
    assert executions._listeners == ()


def roofline(skip: int = 1, steps: int = 2, **options: Any) -> Any:
    return hroof_keras.RooflineCallback(skip, steps, **{"show": False, **options})


# --- one call -------------------------------------------------------------------------------------


def test_fit_is_measured(captures: list[tiny.Capture]) -> None:
    measured = roofline()
    tiny.fit(tiny.model(), 6, callbacks=[measured])
    assert captures[0].log == [
        "count", "begins train 1", "ends train 1",
        "time", "begins train 1", "ends train 1",
        "step 1", "begins train 1", "ends train 1", "done",
    ]  # fmt: skip
    assert captures[0].released
    assert measured.run.outcome.status is Status.COMPLETE
    assert measured.profile.run["name"] == "tiny"
    assert "Region" not in measured.report()


def test_the_result_is_saved_when_the_last_step_ends(tmp_path: Path) -> None:
    seen: list[bool] = []

    class Looks(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            seen.append((tmp_path / "own" / "run.json").exists())

    tiny.fit(tiny.model(), 6, callbacks=[roofline(out=tmp_path / "own"), Looks()])
    assert seen == [False, False, False, False, True, True]
    assert Profile.load(tmp_path / "own").name == "tiny"


def test_by_default_it_is_saved_under_the_models_name(tmp_path: Path) -> None:
    tiny.fit(tiny.model(), 6, callbacks=[roofline()])
    tiny.fit(tiny.model(), 6, callbacks=[roofline(name="mine")])
    assert sorted(path.name for path in (tmp_path / "hroof-runs").iterdir()) == ["mine", "tiny"]


def test_the_report_is_shown_when_fit_ends(capsys: pytest.CaptureFixture[str]) -> None:
    tiny.fit(tiny.model(), 6, callbacks=[roofline(show=True)])
    shown = capsys.readouterr().err
    assert shown.count("Saved in hroof-runs/tiny") == 1


def test_a_file_of_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.fit(tiny.model(), 6, callbacks=[roofline(report=tmp_path / "report.txt")])
    assert "tiny" in (tmp_path / "report.txt").read_text()
    assert capsys.readouterr().err == f"Wrote {tmp_path / 'report.txt'}\n"


def test_a_file_that_is_there_already_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.txt").write_text("mine")
    tiny.fit(tiny.model(), 6, callbacks=[roofline(report=tmp_path / "report.txt")])
    assert (tmp_path / "report.txt").read_text() == "mine"
    assert "exists already" in capsys.readouterr().err


def test_one_bare_callback() -> None:
    measured = roofline()
    tiny.fit(tiny.model(), 6, callbacks=measured)
    assert measured.run.outcome.status is Status.COMPLETE


def test_a_list_of_callbacks_of_the_users() -> None:
    measured, made = roofline(), tiny.model()
    listed = keras.callbacks.CallbackList([measured], add_history=True, model=made, steps=6)
    tiny.fit(made, 6, callbacks=listed)
    assert measured.run.outcome.status is Status.COMPLETE


def test_validation_within_fit_is_no_step(captures: list[tiny.Capture]) -> None:
    measured = roofline()
    tiny.fit(tiny.model(), 2, epochs=3, validation_data=tiny.data(2), callbacks=[measured])
    assert measured.run.outcome.status is Status.COMPLETE
    assert not [word for word in captures[0].log if "test" in word]


def test_several_steps_at_once(captures: list[tiny.Capture]) -> None:
    measured = roofline(skip=5, steps=3)
    tiny.fit(tiny.model(steps_per_execution=4), 14, callbacks=[measured])
    measured.run.finish()
    assert measured.run.outcome.status is Status.PARTIAL  # 8 skipped, 4 counted, 2 timed
    assert captures[0].log[-4:] == ["ends train 2", "step 2", "flush", "done"]
    assert measured.run.finished_steps == 14


@pytest.mark.parametrize("name", ["evaluate", "predict"])
def test_inference_alone(name: str, captures: list[tiny.Capture]) -> None:
    measured, (x, y) = roofline(), tiny.data(6)
    data = (x, y) if name == "evaluate" else (x,)
    getattr(tiny.model(), name)(*data, batch_size=tiny.BATCH, verbose=0, callbacks=[measured])
    assert measured.run.outcome.status is Status.COMPLETE
    assert measured.run.kind == ("test" if name == "evaluate" else "predict")


def test_early_stopping_ends_the_region() -> None:
    class Stops(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch == 2

    measured = roofline(skip=1, steps=5)
    tiny.fit(tiny.model(), 9, callbacks=[Stops(), measured])
    measured.report()
    assert measured.run.outcome.status is Status.PARTIAL
    assert measured.run.finished_steps == 3


def test_settings_that_cannot_be_are_refused_at_once() -> None:
    with pytest.raises(UsageError, match="skip=-1"):
        hroof_keras.RooflineCallback(skip=-1)
    with pytest.raises(UsageError, match="steps=0"):
        hroof_keras.RooflineCallback(steps=0)


def test_switched_off(monkeypatch: pytest.MonkeyPatch, captures: list[tiny.Capture]) -> None:
    monkeypatch.setenv("HROOF", "off")
    measured = roofline()
    tiny.fit(tiny.model(), 6, callbacks=[measured])
    assert captures == []
    assert measured.run.outcome.status is Status.OFF


def test_a_copy_is_another_callback_of_the_same_settings(tmp_path: Path) -> None:
    measured = roofline(skip=1, steps=2, name="mine", out=tmp_path / "own")
    tiny.fit(tiny.model(), 6, callbacks=[measured])
    other = copy.deepcopy([measured])[0]
    assert (other.run.skip, other.run.steps, other.run.name) == (1, 2, "mine")
    assert other.run.stage is Stage.SKIP
    assert other.run is not measured.run


# --- several calls --------------------------------------------------------------------------------


def test_steps_add_up_over_calls_of_fit(captures: list[tiny.Capture]) -> None:
    measured, made = roofline(skip=3, steps=2), tiny.model()
    for _ in range(5):
        tiny.fit(made, 2, callbacks=[measured])
    assert len(captures) == 1
    assert measured.run.outcome.status is Status.COMPLETE
    assert measured.run.finished_steps == 6


def test_a_fit_without_the_callback_in_between_does_not_count() -> None:
    measured, made = roofline(skip=3, steps=1), tiny.model()
    tiny.fit(made, 2, callbacks=[measured])
    tiny.fit(made, 7)
    tiny.fit(made, 1, callbacks=[measured])
    assert measured.run.finished_steps == 3
    assert measured.run.stage is Stage.COUNT
    measured.run.finish()


def test_what_is_lacking_is_said_after_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    measured = roofline(skip=3, steps=1, show=True)
    tiny.fit(tiny.model(), 1, callbacks=[measured])
    said = capsys.readouterr().err
    assert said.startswith("hroof: 1 step so far, and 5 (3 skipped, 1 counted, 1 timed) are needed")
    with pytest.raises(CaptureError, match=r"hroof_keras\.RooflineCallback|see at least 2 steps"):
        measured.report()


def test_a_report_that_is_asked_for_ends_the_schedule() -> None:
    measured, made = roofline(skip=1, steps=5), tiny.model()
    tiny.fit(made, 4, callbacks=[measured])
    assert measured.profile.run["status"] == "partial"
    assert "RooflineCallback(skip=0, steps=3)" in measured.run.outcome.reason


def test_a_callback_that_is_gone_has_nothing_to_wait_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny.fit(tiny.model(), 4, callbacks=[roofline(skip=1, steps=5, show=True)])
    gc.collect()
    assert open_regions() == ()
    assert "Saved in" in capsys.readouterr().err


def test_another_region_does_not_have_to_wait(captures: list[tiny.Capture]) -> None:
    first, second = roofline(skip=9, steps=1), roofline()
    tiny.fit(tiny.model(), 2, callbacks=[first])
    tiny.fit(tiny.model(), 6, callbacks=[second])
    assert first.run.outcome.status is Status.EMPTY
    assert second.run.outcome.status is Status.COMPLETE


def test_two_callbacks_of_one_fit() -> None:
    first, second = roofline(), roofline()
    tiny.fit(tiny.model(), 6, callbacks=[first, second])
    assert first.run.outcome.status is Status.COMPLETE
    assert second.run.outcome.status is Status.MARKS


def test_another_kind_needs_another_callback(capsys: pytest.CaptureFixture[str]) -> None:
    measured, made, (x, y) = roofline(show=True), tiny.model(), tiny.data(2)
    tiny.fit(made, 1, callbacks=[measured])
    made.evaluate(x, y, verbose=0, callbacks=[measured])
    assert "this callback measures fit; give evaluate one of its own" in capsys.readouterr().err
    assert measured.run.finished_steps == 1
    measured.run.finish()


def test_after_the_schedule_nothing_is_measured(captures: list[tiny.Capture]) -> None:
    measured, made = roofline(), tiny.model()
    tiny.fit(made, 6, callbacks=[measured])
    before = list(captures[0].log)
    tiny.fit(made, 6, callbacks=[measured])
    assert (captures[0].log, len(captures)) == (before, 1)


# --- calls that are broken off --------------------------------------------------------------------


def broken(measured: Any, error: type[BaseException] = Boom, batch: int = 3) -> None:
    with pytest.raises(error):
        tiny.fit(tiny.model(), 9, callbacks=[measured, Raises(batch, error)])


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt, SystemExit])
def test_what_was_collected_stays(error: type[BaseException], tmp_path: Path) -> None:
    measured = roofline(skip=1, steps=5, out=tmp_path / "own")
    broken(measured, error)
    assert measured.profile.run["status"] == "partial"
    assert "after 4 steps" in measured.run.outcome.reason
    assert Profile.load(tmp_path / "own").run["status"] == "partial"


def test_the_report_is_there_as_soon_as_the_error_is_dealt_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured, made = roofline(skip=1, steps=5, show=True), tiny.model()
    with contextlib.suppress(Boom):
        tiny.fit(made, 9, callbacks=[measured, Raises(3)])
    assert "fit ended before its end" in capsys.readouterr().err
    assert measured.run.stage is Stage.DONE


def test_a_fit_after_one_that_broke_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    measured, made = roofline(skip=1, steps=5, show=True), tiny.model()
    with pytest.raises(Boom) as kept:
        tiny.fit(made, 9, callbacks=[measured, Raises(3)])
    assert measured.run.stage is Stage.TIME  # the exception holds the frame of fit
    tiny.fit(made, 2, callbacks=[measured])
    assert measured.run.outcome.status is Status.PARTIAL
    assert "make a new one to measure again" in capsys.readouterr().err
    assert kept.value is not None


def test_a_report_within_fit_does_not_end_it() -> None:
    class Asks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                with pytest.raises(CaptureError):
                    measured.report()

    measured = roofline()
    tiny.fit(tiny.model(), 6, callbacks=[measured, Asks()])
    assert measured.run.outcome.status is Status.COMPLETE


# --- loops of the user's own ----------------------------------------------------------------------


def drive(made: Any, listed: Any, batches: int) -> None:
    """A loop as the guide of Keras has it."""
    x, y = tiny.data(1)
    listed.on_train_begin()
    for batch in range(batches):
        listed.on_train_batch_begin(batch)
        made.train_on_batch(x, y)
        listed.on_train_batch_end(batch)
    listed.on_train_end()


def test_a_loop_that_calls_a_list_of_callbacks() -> None:
    measured, made = roofline(), tiny.model()
    drive(made, keras.callbacks.CallbackList([measured], model=made), 6)
    assert measured.run.outcome.status is Status.COMPLETE
    assert measured.run.finished_steps == 4


def test_a_loop_that_calls_the_callback_itself() -> None:
    measured, made = roofline(), tiny.model()
    measured.set_model(made)
    drive(made, measured, 6)
    assert measured.run.outcome.status is Status.COMPLETE
    assert measured.run.finished_steps == 4


def test_a_hook_in_another_thread_tells_nothing() -> None:
    import threading

    measured = roofline()
    measured.set_model(tiny.model())
    measured.on_train_begin()
    thread = threading.Thread(target=lambda: measured.on_train_batch_begin(0))
    thread.start()
    thread.join()
    assert not executions._thread.open
    measured.on_train_end()
    measured.run.finish()


def test_the_module_offers_the_callback_and_nothing_else_by_that_way() -> None:
    assert hroof_keras.RooflineCallback is callback.RooflineCallback
    assert isinstance(roofline(), keras.callbacks.Callback)
    with pytest.raises(AttributeError, match="no attribute 'Roofline'"):
        _ = hroof_keras.Roofline


def test_it_never_lets_itself_be_called_elsewhere() -> None:
    assert not getattr(roofline(), "async_safe", False)
    for kind in Kind:
        assert f"on_{kind}_batch_end" in vars(callback.RooflineCallback)


# --- programs -------------------------------------------------------------------------------------

PROGRAM = """
import keras, sys
sys.path.insert(0, {root!r})
from tests.integrations.hroof_keras import tiny
from hroof_keras import backends
import hroof.run, hroof_keras
backends.capture = tiny.Capture
hroof.run.ceilings_of = lambda *args, **kwargs: None

class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            {how}

measured = hroof_keras.RooflineCallback(1, 5, out="own")
tiny.fit(tiny.model(), 6, callbacks=[measured, Breaks()])
"""
ROOT = str(Path(__file__).parents[3])


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    def start(how: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(PROGRAM).format(root=ROOT, how=how))
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        return subprocess.run(
            [sys.executable, str(path)],
            env=env, capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip

    return start


@pytest.mark.parametrize(
    ("how", "status", "told"),
    [
        ("raise ValueError('boom')", 1, "The region ended with ValueError after 4 steps."),
        ("raise KeyboardInterrupt", -2, "The region ended with KeyboardInterrupt after 4 steps."),
        ("sys.exit(7)", 7, "after 4 steps."),
        ("pass", 0, "The region saw 6 steps and needs 7"),
    ],
)
def test_a_program_that_ends_early_leaves_its_result(
    run: Callable[[str], subprocess.CompletedProcess[str]],
    tmp_path: Path,
    how: str,
    status: int,
    told: str,
) -> None:
    done = run(how)
    assert done.returncode == status, done.stderr
    assert told in done.stderr
    assert Profile.load(tmp_path / "own").run["status"] == "partial"
    assert hroof.Profile is Profile
