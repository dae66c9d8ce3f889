"""Starting a program: its environment, arguments, signals and exit status."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hroof.cli import target
from hroof.cli.target import START_FOLDER, check_startable, environment, execute, notes_its_start
from hroof.errors import UsageError

Script = object
ECHO = "import sys; print(sys.argv[1:]); sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)"


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


# --- environment --------------------------------------------------------------------------------


def test_the_environment_says_what_to_do(tmp_path: Path) -> None:
    env = environment(tmp_path / "out", skip=2, steps=4, name="n", base={"A": "b"})
    assert env["A"] == "b"
    assert env["HROOF_OUT"] == str(tmp_path / "out")
    start = json.loads(env["HROOF_START"])
    frameworks = ["keras", "tensorflow", "torch"]
    assert start == {"skip": 2, "steps": 4, "name": "n", "frameworks": frameworks}
    assert env["PYTHONPATH"] == str(START_FOLDER)


def test_the_users_search_path_stays_behind(tmp_path: Path) -> None:
    base = {"PYTHONPATH": f"/a{os.pathsep}/b"}
    env = environment(tmp_path, skip=0, steps=1, name=None, base=base)
    assert env["PYTHONPATH"].split(os.pathsep) == [str(START_FOLDER), "/a", "/b"]


def test_the_start_folder_holds_nothing_that_could_hide_a_module() -> None:
    files = {path.name for path in START_FOLDER.iterdir() if path.name != "__pycache__"}
    assert files == {"__init__.py", "sitecustomize.py"}


def test_a_relative_folder_is_where_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = environment(Path("out"), skip=0, steps=1, name=None)
    assert env["HROOF_OUT"] == str(tmp_path / "out")


# --- running ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["0"], ["3", "--csv", "-o", "out", "a b", "--", "x", ""]])
def test_arguments_and_status_pass_through(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert execute(python(ECHO, *arguments), os.environ) == int(arguments[0])
    assert capfd.readouterr().out == f"{arguments!r}\n"


def test_output_can_go_elsewhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "file").open("w") as file:
        execute(python("print('here')"), os.environ, stdout=file)
    assert capfd.readouterr().out == ""
    assert (tmp_path / "file").read_text() == "here\n"


def test_errors_can_go_elsewhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "file").open("w") as file:
        execute(python("import sys; print('here', file=sys.stderr)"), os.environ, stderr=file)
    assert capfd.readouterr().err == ""
    assert (tmp_path / "file").read_text() == "here\n"


def test_another_way_to_wait() -> None:
    def wait(child: subprocess.Popen[bytes]) -> int:
        child.kill()
        return child.wait()

    command = python("import time; time.sleep(60)")
    assert execute(command, os.environ, wait=wait) == 128 + signal.SIGKILL


def test_input_passes_through() -> None:
    code = (
        "import os, sys; from hroof.cli.target import execute; "
        "execute([sys.executable, '-c', 'print(input())'], os.environ)"
    )
    done = subprocess.run(python(code), input="hello\n", capture_output=True, text=True, check=True)
    assert done.stdout == "hello\n"


def test_killed_by_a_signal_is_128_and_more() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert execute(python(code), os.environ) == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("no-such-program", 127, "command not found"),
        ("python", 127, f"This Python is {sys.executable}"),
        ("./plain.py", 126, "hroof run -- python ./plain.py"),
        ("./folder", 126, "name its interpreter"),
        ("./broken", 126, "wrong format"),
        ("nul\0", 126, "null"),
    ],
)
def test_a_program_that_cannot_be_started(
    name: str, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "plain.py").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken").write_bytes(b"\x7fnothing")
    (tmp_path / "broken").chmod(stat.S_IRWXU)
    with pytest.raises(UsageError) as caught:
        execute([name], os.environ)
    assert caught.value.exit_code == status
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "status"), [("no-such-program", 127), ("./plain.py", 126), ("./folder", 126)]
)
def test_a_program_that_another_one_could_not_start(
    name: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError) as caught:
        check_startable([name, "x"])
    assert caught.value.exit_code == status
    check_startable([sys.executable])


# --- signals ------------------------------------------------------------------------------------

WAITS = """
import signal, sys, time
def stop(number, frame):
    print("got", number, flush=True)
    sys.exit(7)
signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(30)
"""


def send_when_ready(path: Path, number: int) -> threading.Thread:
    """Send a signal to this very process once the program has said that it is ready."""

    def send() -> None:
        until = time.monotonic() + 20
        while "ready" not in path.read_text() and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_and_its_end_awaited(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "_typed_at_terminal", lambda: False)
    path = tmp_path / "out"
    path.write_text("")
    before = signal.getsignal(number)
    thread = send_when_ready(path, number)
    with path.open("w") as file:
        assert execute(python(WAITS), os.environ, stdout=file) == 7
    thread.join()
    assert path.read_text() == f"ready\ngot {int(number)}\n"
    assert signal.getsignal(number) is before


def test_an_interrupt_of_the_whole_group_is_not_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that ends by its own copy of the signal gets no second one."""
    monkeypatch.setattr(target, "_typed_at_terminal", lambda: False)
    monkeypatch.setattr(target, "_PATIENCE", 20.0)
    path = tmp_path / "out"
    path.write_text("")
    thread = send_when_ready(path, signal.SIGINT)
    code = WAITS.replace("time.sleep(30)", "time.sleep(1)")
    with path.open("w") as file:
        assert execute(python(code), os.environ, stdout=file) == 0
    thread.join()
    assert path.read_text() == "ready\n"


def test_ctrl_c_at_the_terminal_is_not_sent_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal sends it to the whole group; hroof itself only waits."""
    monkeypatch.setattr(target, "_typed_at_terminal", lambda: True)
    path = tmp_path / "out"
    path.write_text("")
    thread = send_when_ready(path, signal.SIGINT)
    code = WAITS.replace("time.sleep(30)", "time.sleep(1)")
    with path.open("w") as file:
        assert execute(python(code), os.environ, stdout=file) == 0
    thread.join()
    assert path.read_text() == "ready\n"


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
        assert execute(python(code), os.environ) == 1
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(execute(python("pass"), os.environ)))
    thread.start()
    thread.join()
    assert statuses == [0]


# --- who notes its start ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "notes"),
    [
        (["train.py", "-I"], True),
        (["-u", "-W", "ignore", "train.py"], True),
        (["-m", "train", "-E"], True),
        (["-c", "pass", "-S"], True),
        (["-I", "train.py"], False),
        (["-uE", "train.py"], False),
        (["-X", "dev", "-S", "-m", "train"], False),
    ],
)
def test_python_notes_its_start_unless_it_is_isolated(arguments: list[str], notes: bool) -> None:
    assert notes_its_start([sys.executable, *arguments]) is notes


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("#!/tools/bin/python3.11\nx", True),
        ("#!/usr/bin/env python\nx", True),
        ("#!/usr/bin/python -I\nx", False),
        ("#!/bin/sh\npython x.py", False),
        ("python", False),
    ],
)
def test_a_script_notes_its_start_where_its_first_line_says_python(
    tmp_path: Path, text: str, notes: bool
) -> None:
    path = tmp_path / "tool"
    path.write_text(text)
    path.chmod(0o755)
    assert notes_its_start([str(path), "x"]) is notes


def test_what_is_not_there_or_no_script_notes_nothing() -> None:
    assert not notes_its_start(["/no/program"])
    assert not notes_its_start(["sh", "-c", "python x.py"])


def test_a_suggested_command_is_fit_for_a_shell(tmp_path: Path) -> None:
    path = tmp_path / "my train.py"
    path.write_text("")
    with pytest.raises(UsageError, match=r"Write: hroof run -- python '.*my train\.py'"):
        execute([str(path)], {})
