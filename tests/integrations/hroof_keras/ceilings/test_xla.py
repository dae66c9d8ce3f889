"""What XLA's programs for ceilings need: flags of hroof's own process, calls, threads, the load of the machine."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

tensorflow = pytest.importorskip("tensorflow")

from hroof.ceilings import host  # noqa: E402
from hroof_keras.ceilings import xla as ceilings_xla  # noqa: E402
from hroof_keras.ceilings.xla import Load, Program, Team, filled, on_cpu, scalar  # noqa: E402
from hroof_keras.private import runtime as private  # noqa: E402

WIDE = "--xla_cpu_prefer_vector_width=512"
AVX512 = frozenset({"avx512f", "avx2", "fma"})


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No flags, and what hroof has done to them is undone."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(ceilings_xla._Own, "flag", "")
    monkeypatch.setattr(ceilings_xla._Own, "process", False)
    monkeypatch.setattr(ceilings_xla._Last, "load", Load())
    yield
    os.environ.pop("XLA_FLAGS", None)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor with vectors of 512 bits, and a TensorFlow that is known."""
    monkeypatch.setattr(host, "cpu_flags", lambda: AVX512)
    monkeypatch.setattr(ceilings_xla, "_version", lambda: "2.21.0")


# --- flags --------------------------------------------------------------------------------------


def test_the_widest_vectors_are_asked_for(wide: None) -> None:
    ceilings_xla.use_whole_vectors()
    assert os.environ["XLA_FLAGS"] == WIDE
    assert ceilings_xla.vector_bits() == 512
    assert ceilings_xla.evidence() == "measured"


def test_flags_of_the_user_stay_in_front(wide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp/x")
    ceilings_xla.use_whole_vectors()
    assert os.environ["XLA_FLAGS"] == f"--xla_dump_to=/tmp/x {WIDE}"


def test_a_width_that_the_user_chose_stays(wide: None, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = "--xla_cpu_prefer_vector_width=128"
    monkeypatch.setenv("XLA_FLAGS", chosen)
    ceilings_xla.use_whole_vectors()
    assert os.environ["XLA_FLAGS"] == chosen
    assert ceilings_xla.vector_bits() == 128
    assert ceilings_xla.evidence() == "framework-reachable"


@pytest.mark.parametrize("flags", [{"avx2", "fma"}, set()])
def test_other_processors_need_no_flag(flags: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset(flags))
    ceilings_xla.use_whole_vectors()
    assert "XLA_FLAGS" not in os.environ
    assert ceilings_xla.vector_bits() == 256
    assert ceilings_xla.uses_whole_vectors() is ("avx2" in flags)


def test_a_measurement_of_a_program_leaves_the_flags_alone(wide: None) -> None:
    ceilings_xla.begin()
    assert "XLA_FLAGS" not in os.environ
    assert ceilings_xla.evidence() == "framework-reachable"


def test_a_process_of_its_own_takes_the_widest_when_it_begins_to_measure(wide: None) -> None:
    ceilings_xla.own_process()
    assert "XLA_FLAGS" not in os.environ
    ceilings_xla.begin()
    assert os.environ["XLA_FLAGS"] == WIDE


@pytest.mark.parametrize(("code", "taken"), [(0, True), (-6, False)])
def test_an_unknown_version_is_tried_in_another_process(
    wide: None, monkeypatch: pytest.MonkeyPatch, code: int, taken: bool
) -> None:
    asked: list[str] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> Any:
        asked.append(env["XLA_FLAGS"])
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr(ceilings_xla, "_version", lambda: "9.0.0")
    monkeypatch.setattr(subprocess, "run", run)
    ceilings_xla.use_whole_vectors()
    assert [words.split() for words in asked] == [[WIDE]]
    assert ("XLA_FLAGS" in os.environ) is taken


def test_a_trial_that_does_not_end_is_a_refusal(
    wide: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any, **__: Any) -> Any:
        raise subprocess.TimeoutExpired("python", 1)

    monkeypatch.setattr(ceilings_xla, "_version", lambda: "9.0.0")
    monkeypatch.setattr(subprocess, "run", run)
    ceilings_xla.use_whole_vectors()
    assert "XLA_FLAGS" not in os.environ


def test_flags_that_were_added_are_no_settings_of_the_user(
    wide: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"OMP_NUM_THREADS": "2", "XLA_FLAGS": "--xla_dump_to=/tmp/x"}
    monkeypatch.setenv("XLA_FLAGS", given["XLA_FLAGS"])
    ceilings_xla.use_whole_vectors()
    now = {**given, "XLA_FLAGS": os.environ["XLA_FLAGS"]}
    assert ceilings_xla.without_own_flags(now) == given
    assert ceilings_xla.without_own_flags({"XLA_FLAGS": WIDE}) == {}
    assert ceilings_xla.without_own_flags({}) == {}


def test_without_own_flags_nothing_is_left_out() -> None:
    assert ceilings_xla.without_own_flags({"XLA_FLAGS": WIDE}) == {"XLA_FLAGS": WIDE}


def test_the_last_width_counts(wide: None) -> None:
    said = "--xla_cpu_prefer_vector_width=512 --xla_cpu_prefer_vector_width=256 --other=1"
    assert ceilings_xla.vector_bits(said) == 256
    assert ceilings_xla.vector_bits("--xla_cpu_prefer_vector_width=4096") == 512
    assert ceilings_xla.vector_bits("--xla_cpu_prefer_vector_width=wide") == 256


_ACCEPTED = """
import tensorflow as tf
from hroof_keras.ceilings import xla as ceilings_xla
ceilings_xla.own_process()
ceilings_xla.begin()
program = ceilings_xla.Program(lambda x: x + 1.0)
print(float(program.call(tf.ones(2))()[0][0]), ceilings_xla.vector_bits())
"""


def test_this_tensorflow_takes_the_flag_after_it_was_imported() -> None:
    """It ends a process that gives it a flag that it lacks."""
    done = subprocess.run(
        [sys.executable, "-c", _ACCEPTED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    bits = 512 if "avx512f" in host.cpu_flags() else 256
    assert done.stdout.split() == ["2.0", str(bits)]


# --- programs -----------------------------------------------------------------------------------


def test_a_program_is_compiled_once_for_a_kind_of_arguments() -> None:
    traced: list[Any] = []

    def double(x: Any) -> Any:
        traced.append(x.shape)
        return x + x

    program = Program(double)
    for _ in range(2):
        result: Any = program.call(filled(2, 3))()
        assert result[0].numpy().tolist() == [[1.0] * 3] * 2
    program.call(filled(4, 1))
    assert len(traced) == 2


def test_a_failure_is_remembered() -> None:
    tries: list[int] = []

    def broken(x: Any) -> Any:
        tries.append(1)
        raise ArithmeticError("no such product")

    program = Program(broken)
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="no such product"):
            program.call(scalar(1))
    assert len(tries) == 1


def test_tensors_are_made_on_the_cpu() -> None:
    for tensor in (filled(2, 3, 1.5), scalar(4), on_cpu(lambda: tensorflow.zeros(1))):
        assert tensor.device.endswith("device:CPU:0")
    assert scalar(4).dtype is tensorflow.int32 and int(scalar(4)) == 4
    assert filled(2, 3, 1.5).numpy().tolist() == [[1.5] * 3] * 2


def test_the_short_way_to_call_a_function_is_there() -> None:
    """Without it every call costs three times as much; see ``private.direct_call``."""
    concrete = tensorflow.function(lambda x: x + 1).get_concrete_function(scalar(1))
    short = private.direct_call(concrete)
    assert short is not concrete
    assert int(short(scalar(2))[0]) == 3


def test_without_the_short_way_functions_are_called_as_usual() -> None:
    def concrete(x: int) -> int:
        return x + 1

    assert private.direct_call(concrete) is concrete


# --- threads ------------------------------------------------------------------------------------


def team(threads: int) -> Team:
    return Team(threads, Load())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_team_runs_its_calls_at_the_same_time(threads: int) -> None:
    barrier = threading.Barrier(threads, timeout=20)
    ran: list[str] = []

    def meet() -> None:
        barrier.wait()
        ran.append(threading.current_thread().name)

    call = team(threads).together([meet] * threads)
    call()
    call()
    assert len(ran) == 2 * threads
    assert len(set(ran)) == threads
    assert threading.main_thread().name in ran


def test_an_error_on_any_thread_reaches_the_caller() -> None:
    def fail() -> None:
        raise ArithmeticError("wrong")

    with pytest.raises(ArithmeticError, match="wrong"):
        team(2).together([lambda: None, fail])()


def test_more_threads_have_more_work_each() -> None:
    assert [team(threads).scaled(100.0) for threads in (1, 4, 8, 64)] == [100, 100, 200, 1600]


def test_threads_end_with_their_team() -> None:
    before = threading.enumerate()
    one = team(2)
    one.together([lambda: None] * 2)()
    started = [thread for thread in threading.enumerate() if thread not in before]
    assert [thread.name for thread in started] == ["hroof ceilings_0"]
    del one
    gc.collect()
    for thread in started:
        thread.join(timeout=20)
        assert not thread.is_alive()


# --- load ---------------------------------------------------------------------------------------


def clocks(*readings: float) -> Callable[[], float]:
    return iter(readings).__next__


def test_the_share_is_that_of_all_threads() -> None:
    load = Load(clocks(0.0, 1.0, 5.0, 6.0), clocks(0.0, 2.0, 2.0, 3.0))
    assert load.share is None
    load.timed(lambda: None, 2)()
    assert load.share == 1.0
    load.timed(lambda: None, 2)()
    assert load.share == 0.75


def test_a_share_is_no_more_than_all() -> None:
    load = Load(clocks(0.0, 1.0), clocks(0.0, 1.7))
    load.timed(lambda: None, 1)()
    assert load.share == 1.0


def test_calls_of_a_team_are_noted() -> None:
    load = ceilings_xla.begin()
    assert ceilings_xla.seen()["own_share"] is None
    Team(1, load).together([lambda: sum(range(10000))])()
    share = ceilings_xla.seen()["own_share"]
    assert share is not None and 0 < share <= 1


def test_narrow_vectors_are_told(wide: None) -> None:
    (doubt,) = ceilings_xla.seen()["doubts"]
    assert "vectors of 256 bits" in doubt and "hroof ceilings --refresh" in doubt
    assert "xla_flags" not in ceilings_xla.seen()


def test_flags_that_were_added_are_told(wide: None) -> None:
    ceilings_xla.use_whole_vectors()
    seen = ceilings_xla.seen()
    assert seen["xla_flags"] == WIDE and seen["xla_vector_bits"] == 512
    assert "doubts" not in seen
