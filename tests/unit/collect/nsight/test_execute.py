"""Running ncu: output passes through and is heard; a child that takes too long is ended with all it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hroof.collect.nsight import Watch, ask, execute, overheard
from hroof.collect.nsight.execute import descendants

DENIED = "ERR_NVGPUCTRPERM - no"


def start(code: str, **streams: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], **streams)  # type: ignore[call-overload]


def wait_for(path: Path) -> None:
    until = time.monotonic() + 20
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert path.exists()


# --- output -------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Descriptors of two files, out and err."""
    opened = [(tmp_path / name).open("wb") for name in ("out", "err")]
    yield opened[0].fileno(), opened[1].fileno()
    for file in opened:
        file.close()


def test_output_passes_through_byte_for_byte(files: tuple[int, int], tmp_path: Path) -> None:
    code = r"import os; os.write(1, bytes(range(256)) * 999); os.write(2, b'\xff no newline')"
    with overheard(*files) as streams:
        start(code, stdout=streams.stdout, stderr=streams.stderr).wait()
    assert (tmp_path / "out").read_bytes() == bytes(range(256)) * 999
    assert (tmp_path / "err").read_bytes() == b"\xff no newline"
    assert streams.lines == []


def test_lines_of_ncu_are_kept_from_both(files: tuple[int, int]) -> None:
    code = (
        "import os; os.write(1, b'==PROF== a\\nloss 3\\n==WARN'); os.write(1, b'ING== b'); "
        f"os.write(2, b'{DENIED}\\r\\n')"
    )
    with overheard(*files) as streams:
        start(code, stdout=streams.stdout, stderr=streams.stderr).wait()
    assert sorted(streams.lines) == ["==PROF== a", "==WARNING== b", DENIED]


def test_no_more_lines_than_needed(files: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "_MOST_LINES", 3)
    with overheard(*files) as streams:
        start("print('==PROF== a\\n' * 9)", stdout=streams.stdout).wait()
    assert len(streams.lines) == 3


def test_one_file_for_both_keeps_their_order(tmp_path: Path) -> None:
    code = "import os\nfor i in range(300): os.write(1 + i % 2, b'%d\\n' % i)"
    with (tmp_path / "both").open("wb") as file:
        other = os.dup(file.fileno())
        with overheard(file.fileno(), other) as streams:
            assert streams.stdout == streams.stderr
            start(code, stdout=streams.stdout, stderr=streams.stderr).wait()
        os.close(other)
    assert (tmp_path / "both").read_text().split() == [str(i) for i in range(300)]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="this system has no terminals")
def test_a_terminal_is_left_to_the_child() -> None:
    main, terminal = os.openpty()
    try:
        with overheard(terminal, terminal) as streams:
            assert (streams.stdout, streams.stderr) == (terminal, terminal)
    finally:
        os.close(main)
        os.close(terminal)


def test_a_closed_stream_stays_closed(files: tuple[int, int]) -> None:
    closed = os.dup(files[0])
    os.close(closed)
    with overheard(closed, files[1]) as streams:
        assert streams.stdout == closed
        assert streams.stderr != files[1]


def test_where_nobody_reads_the_child_is_told(files: tuple[int, int]) -> None:
    read, write = os.pipe()
    os.close(read)
    code = "import os, signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: os.write(1, b'x' * 4096)"
    with overheard(write, files[1]) as streams:
        child = start(code, stdout=streams.stdout)
        os.close(write)
        assert child.wait(20) == -signal.SIGPIPE


def test_a_process_left_behind_does_not_hold_up(
    files: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "_DRAIN", 0.1)
    with overheard(*files) as streams:
        left = start("import time; time.sleep(30)", stdout=streams.stdout)
    assert left.poll() is None
    left.kill()
    left.wait()


# --- the end ------------------------------------------------------------------------------------

# A program that starts another one, as ncu does; both tell when they are ready.
PARENT = """
import signal, subprocess, sys, time
from pathlib import Path
{parent}
child = subprocess.Popen([sys.executable, "-c", '''
import signal, sys, time
from pathlib import Path
{child}
Path(sys.argv[1] + "/child").touch()
time.sleep(60)
''', sys.argv[1]])
Path(sys.argv[1] + "/parent").touch()
sys.exit(child.wait() % 256)
"""
DEAF = "signal.signal(signal.{0}, signal.SIG_IGN)"


def family(folder: Path, parent: str = "", child: str = "") -> subprocess.Popen[bytes]:
    """Both processes, once they are ready."""
    code = PARENT.format(parent=parent, child=child)
    found = subprocess.Popen([sys.executable, "-c", code, str(folder)], stderr=subprocess.DEVNULL)
    wait_for(folder / "child")
    wait_for(folder / "parent")
    return found


def runs(process: int) -> bool:
    """Whether it is there, and not only waits for being collected by its parent."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_in_time_nothing_is_ended() -> None:
    watch = Watch(seconds=30)
    assert watch.wait(start("import sys; sys.exit(3)")) == 3
    assert not watch.late
    assert Watch().wait(start("import sys; sys.exit(4)")) == 4


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found by /proc")
@pytest.mark.parametrize(
    ("parent", "child"),
    [
        ("", ""),
        (DEAF.format("SIGINT"), ""),
        (DEAF.format("SIGINT"), DEAF.format("SIGTERM")),
        ("", DEAF.format("SIGINT") + ";" + DEAF.format("SIGTERM")),
    ],
)
def test_too_late_everything_is_ended(tmp_path: Path, parent: str, child: str) -> None:
    started = family(tmp_path, parent, child)
    (below,) = descendants(started.pid)
    watch = Watch(seconds=0.05, patience=0.5)
    watch.wait(started)
    assert watch.late
    until = time.monotonic() + 20
    while runs(below[0]) and time.monotonic() < until:
        time.sleep(0.01)
    assert not runs(below[0])


def test_ncu_gets_the_time_to_write_its_report(tmp_path: Path) -> None:
    """An interrupt lets it end by itself."""
    parent = (
        "def stop(number, frame):\n"
        "    time.sleep(0.2)\n"
        "    Path(sys.argv[1] + '/report').touch()\n"
        "    child.kill()\n"
        "signal.signal(signal.SIGINT, stop)"
    )
    watch = Watch(seconds=0.05, patience=30)
    watch.wait(family(tmp_path, parent))
    assert watch.late
    assert (tmp_path / "report").exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found by /proc")
def test_descendants_are_found_with_their_start(tmp_path: Path) -> None:
    started = family(tmp_path)
    (below,) = descendants(started.pid)
    assert below[0] != started.pid
    assert descendants(below[0]) == set()
    again = execute._process(below[0])
    assert again == (below, started.pid)
    os.kill(below[0], signal.SIGKILL)
    started.wait()


def test_another_process_of_the_same_number_is_left_alone() -> None:
    other = start("import time; time.sleep(30)")
    execute._signal({(other.pid, "0")}, signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.1)
    entry = execute._process(other.pid)
    assert entry is not None
    execute._signal({entry[0]}, signal.SIGKILL)
    assert other.wait(20) == -signal.SIGKILL


# --- asking -------------------------------------------------------------------------------------


def test_what_is_said_goes_where_it_was_wanted(tmp_path: Path) -> None:
    code = "import sys; print('table'); print('tr\\xf6uble', file=sys.stderr); sys.exit(3)"
    status, said = ask([sys.executable, "-c", code])
    assert (status, said) == (3, "table\ntr\xf6uble\n")
    with (tmp_path / "out").open("wb") as file:
        assert ask([sys.executable, "-c", code], stdout=file)[1] == "tr\xf6uble\n"
    assert (tmp_path / "out").read_text() == "table\n"


def test_who_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ask([str(tmp_path / "no")])


def test_who_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    """ncu is a shell script: ending that alone would leave the program behind it."""
    ready = tmp_path / "ready"
    with pytest.raises(TimeoutError, match="no answer in 1 s"):
        ask(["sh", "-c", f"sleep 300 & echo $! > {ready}; wait"], seconds=1.0)
    wait_for(ready)
    number = ready.read_text().strip()
    state = Path(f"/proc/{number}/stat")
    until = time.monotonic() + 20
    while state.exists() and ") Z" not in state.read_text() and time.monotonic() < until:
        time.sleep(0.02)
    assert not state.exists() or ") Z" in state.read_text()
