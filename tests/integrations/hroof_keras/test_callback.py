"""The callback: when its region opens and ends, what is kept, where the report goes."""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import keras
import numpy as np

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


def test_files_that_cannot_be_written_name_the_arguments_to_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    place = tmp_path / "file" / "own"
    tiny.fit(tiny.model(), 6, callbacks=[roofline(out=place, report=place / "report.txt")])
    of_folder, of_file = capsys.readouterr().err.splitlines()
    assert of_folder.endswith("has room, with hroof_keras.RooflineCallback(out=...).")
    assert "Choose another file with hroof_keras.RooflineCallback(report=...)" in of_file
    assert "--" not in of_folder + of_file


def no_luck(*args: Any, **kwargs: Any) -> None:
    """What hroof itself may run into."""
    raise RuntimeError("no luck")


def test_a_report_that_fails_does_not_end_the_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = roofline(report=tmp_path / "report.txt")
    monkeypatch.setattr(measured.run, "report", no_luck)
    tiny.fit(tiny.model(), 6, callbacks=[measured])
    assert "hroof failed: RuntimeError('no luck'). The training goes on" in capsys.readouterr().err
    assert measured.run.outcome.status is Status.COMPLETE


def test_a_capture_that_fails_at_the_end_does_not_end_the_training(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    measured = roofline(skip=9)
    monkeypatch.setattr(measured.run, "_decorates", False)  # so that it ends with fit
    with monkeypatch.context() as patched:
        patched.setattr(tiny.Capture, "flush", no_luck)
        tiny.fit(tiny.model(), 6, callbacks=[measured])
    assert "hroof failed: RuntimeError('no luck')" in caplog.text
    after = roofline()
    tiny.fit(tiny.model(), 6, callbacks=[after])
    assert after.run.outcome.status is Status.COMPLETE


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


@pytest.mark.parametrize("given", [{"out": 5}, {"out": ""}, {"report": 5}, {"report": b"x.txt"}])
def test_what_is_no_path_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"is no path\. Give text or a Path"):
        hroof_keras.RooflineCallback(**given)


@pytest.mark.parametrize("name", ["x.foo", "x", Path("x.jpeg")])
def test_a_report_of_no_kind_is_refused_at_once(name: str | Path) -> None:
    with pytest.raises(UsageError, match=r"is no kind of report\. End the name with one of \.json"):
        hroof_keras.RooflineCallback(report=name)


def test_whole_numbers_of_any_type() -> None:
    measured = roofline(skip=np.int64(1), steps=np.int32(2))  # type: ignore[arg-type]
    tiny.fit(tiny.model(), 6, callbacks=[measured])
    assert measured.run.outcome.status is Status.COMPLETE


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


OTHER = "hroof: another region collects; its report has these steps.\n"


def test_the_second_callback_of_a_fit_says_who_has_the_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny.fit(tiny.model(), 6, callbacks=[roofline(), roofline(show=True)])
    assert capsys.readouterr().err == OTHER


def test_a_callback_within_a_region_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    measured, made = roofline(show=True), tiny.model()
    with hroof.region(skip=1, steps=2, show=False, framework="keras") as around:
        tiny.fit(made, 2, callbacks=[measured])
        tiny.fit(made, 3, callbacks=[measured])
    assert capsys.readouterr().err == OTHER
    assert around.outcome.status is Status.COMPLETE
    assert measured.run.outcome.status is Status.MARKS


def test_one_that_only_marked_first_waits_like_any_other() -> None:
    first, second, third = roofline(), roofline(skip=9), roofline()
    tiny.fit(tiny.model(), 6, callbacks=[first, second])
    tiny.fit(tiny.model(), 6, callbacks=[second])
    tiny.fit(tiny.model(), 6, callbacks=[third])
    assert third.run.outcome.status is Status.COMPLETE
    assert second.run.outcome.status is not Status.MARKS


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


def keep(measured: Any, error: type[BaseException] = Boom) -> BaseException:
    """What a notebook, or whoever stores the exception, has of a call that it ended."""
    try:
        tiny.fit(tiny.model(), 9, callbacks=[measured, Raises(3, error)])
    except BaseException as raised:
        return raised
    raise AssertionError("it has not ended with an exception")


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt])
def test_a_kept_exception_keeps_no_other_callback_from_measuring(
    error: type[BaseException], capsys: pytest.CaptureFixture[str], captures: list[tiny.Capture]
) -> None:
    first, second = roofline(skip=1, steps=5, show=True), roofline()
    kept = keep(first, error)
    assert first.run.stage is Stage.TIME
    tiny.fit(tiny.model(), 6, callbacks=[second])
    assert second.run.outcome.status is Status.COMPLETE
    assert first.run.outcome.status is Status.PARTIAL
    assert "fit ended before its end" in capsys.readouterr().err
    assert captures[1].log[:3] == ["count", "begins train 1", "ends train 1"]
    assert kept.__traceback__ is not None


def test_a_kept_exception_keeps_no_region_from_measuring() -> None:
    first = roofline(skip=1, steps=5)
    kept = keep(first)
    with hroof.region(skip=1, steps=2, show=False, framework="keras") as region:
        tiny.fit(tiny.model(), 6)
    assert region.outcome.status is Status.COMPLETE
    assert first.run.outcome.status is Status.PARTIAL
    assert kept is not None


def test_a_retry_while_the_exception_is_dealt_with() -> None:
    first, second = roofline(skip=1, steps=5), roofline()
    try:
        tiny.fit(tiny.model(), 9, callbacks=[first, Raises(3, MemoryError)])
    except MemoryError:
        tiny.fit(tiny.model(), 6, callbacks=[second])
    assert second.run.outcome.status is Status.COMPLETE
    assert first.run.outcome.reason == "The region ended with MemoryError after 4 steps."


def test_the_last_exception_of_a_notebook_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    first = roofline(skip=1, steps=5)
    monkeypatch.setattr(sys, "last_value", keep(first), raising=False)
    monkeypatch.setattr(sys, "last_exc", sys.last_value, raising=False)
    try:
        raise ValueError("something else")
    except ValueError:
        tiny.fit(tiny.model(), 6, callbacks=[roofline()])
    assert first.run.outcome.reason == "The region ended with Boom after 4 steps."


def test_one_that_runs_in_another_thread_is_not_ended() -> None:
    import threading

    started, go_on = threading.Event(), threading.Event()

    class Waits(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            started.set()
            assert go_on.wait(60)

    first, second = roofline(), roofline()
    thread = threading.Thread(target=lambda: tiny.fit(tiny.model(), 6, callbacks=[first, Waits()]))
    thread.start()
    assert started.wait(60)
    tiny.fit(tiny.model(), 6, callbacks=[second])
    go_on.set()
    thread.join()
    assert second.run.outcome.status is Status.MARKS
    assert first.run.outcome.status is Status.COMPLETE


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
import json, os, sys
sys.path.insert(0, {root!r})
import keras, tensorflow
from tests.integrations.hroof_keras import tiny
from hroof_keras import backends
import hroof.run, hroof_keras
backends.capture = tiny.Capture
hroof.run.ceilings_of = lambda *args, **kwargs: None

# Each way to end is a process of its own; all have what was imported so far from this one.
status = {{}}
for folder, how in json.loads({ways!r}).items():
    if not os.fork():
        os.chdir(folder)
        os.dup2(os.open("stderr.txt", os.O_CREAT | os.O_WRONLY), 2)
        break
    status[folder] = os.waitstatus_to_exitcode(os.wait()[1])
else:
    print(json.dumps(status))
    sys.exit()

class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            exec(how)

measured = hroof_keras.RooflineCallback(1, 5, out="own")
tiny.fit(tiny.model(), 6, callbacks=[measured, Breaks()])
"""
ROOT = str(Path(__file__).parents[3])
ENDS = {
    "error": ("raise ValueError('boom')", 1, "The region ended with ValueError after 4 steps."),
    "interrupt": (
        *("raise KeyboardInterrupt", -2),
        "The region ended with KeyboardInterrupt after 4 steps.",
    ),
    "exit": ("sys.exit(7)", 7, "after 4 steps."),
    "end": ("pass", 0, "The region saw 6 steps and needs 7"),
}
"""How a program ends: what it does after four steps, its exit status, and what is told on standard error."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The program, ended in every way: folders of its results and standard error, and its exit status by folder."""
    folder = tmp_path_factory.mktemp("ends")
    for name in ENDS:
        (folder / name).mkdir()
    path, ways = folder / "program.py", json.dumps({name: how for name, (how, *_) in ENDS.items()})
    path.write_text(PROGRAM.format(root=ROOT, ways=ways))
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, str(path)],
        env={name: value for name, value in env.items() if not name.startswith("HROOF")},
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize("name", ENDS)
def test_a_program_that_ends_early_leaves_its_result(
    ended: tuple[Path, dict[str, int]], name: str
) -> None:
    folder, found = ended
    _, status, told = ENDS[name]
    said = (folder / name / "stderr.txt").read_text()
    assert found[name] == status, said
    assert told in said
    assert Profile.load(folder / name / "own").run["status"] == "partial"
    assert hroof.Profile is Profile


def test_keras_without_a_framework_is_told_with_the_remedy() -> None:
    program = """
        import sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name in ("tensorflow", "torch", "jax"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Absent())
        import hroof_keras
        try:
            from hroof_keras import RooflineCallback
        except ImportError as error:
            print(type(error).__name__, error)
        """
    env = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == (
        "MissingError Keras computes with tensorflow here, which is not installed. Install it, or another one that "
        "the variable KERAS_BACKEND then names: pip install tensorflow (tensorflow-cpu without a GPU), torch or jax.\n"
    )
