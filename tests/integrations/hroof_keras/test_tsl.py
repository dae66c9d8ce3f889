"""TensorFlow's own ranges: the switch, what it does, what a tool hears, and what a run leaves to read them by.

The wheel ``tensorflow-cpu`` has the switch, but no NVTX: there the names of nodes are seen in TensorFlow's own stack of
annotations. What a tool hears of them is tested with the full wheel (``nox -s tensorflow``).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from ctypes.util import find_library
from typing import Any

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import tensorflow as tf

from hroof.collect import nvtx, tsl
from hroof_keras import startup
from hroof_keras.private import nvtx as private_nvtx
from hroof_keras.private import runtime as private
from hroof_keras.tsl import (
    GROWTH,
    XLA_FLAGS,
    Unlock,
    keep_thunks_apart,
    memory_hint,
    unlock,
    why_not,
    without_ranges,
)


@pytest.fixture
def real() -> Iterator[private_nvtx.Annotations]:
    """The switch of this TensorFlow, off before and after."""
    found = private_nvtx.annotation_switch()
    assert found is not None, "this TensorFlow lacks the switch: look for its new name"
    assert not found.on
    yield found
    assert not found.on


class Switch:
    """A stand-in: whether it works, and whether a tool listens."""

    def __init__(self, *, works: bool = True, heard: bool = True, on: bool = False) -> None:
        self._works, self._heard, self._on = works, heard, on

    @property
    def on(self) -> bool:
        return self._on

    @on.setter
    def on(self, value: bool) -> None:
        self._on = value and self._works

    def heard(self) -> bool:
        return self._heard


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a stand-in in place of TensorFlow's switch; None is a TensorFlow without one."""

    def put(found: Switch | None) -> Switch | None:
        monkeypatch.setattr(private_nvtx, "annotation_switch", lambda: found)
        return found

    return put


# --- the switch -----------------------------------------------------------------------------------


def test_the_switch_of_this_tensorflow_turns(real: private_nvtx.Annotations) -> None:
    with Unlock(real) as opened:
        assert opened.running
        assert real.on
    assert not opened.running


def test_it_is_turned_off_once_and_after_an_error(real: private_nvtx.Annotations) -> None:
    opened = Unlock(real)
    opened.start()
    opened.start()
    opened.stop()
    assert not real.on
    opened.stop()
    with pytest.raises(ZeroDivisionError), Unlock(real):
        raise ZeroDivisionError
    assert not real.on


def test_names_that_somebody_else_switched_on_are_left_on(real: private_nvtx.Annotations) -> None:
    real.on = True
    try:
        with Unlock(real) as opened:
            assert not opened.running
        assert real.on
    finally:
        real.on = False


def test_without_a_switch_nothing_happens() -> None:
    with Unlock(None) as opened:
        assert not opened.running


def stack() -> str:
    """TensorFlow's annotations of this thread, which are what NVTX gets where a tool listens."""
    get = private.framework_library()["_ZN3tsl8profiler15AnnotationStack3GetB5cxx11Ev"]
    get.restype = ctypes.c_void_p
    text = get()  # a std::string: where its characters are, and how many
    start = ctypes.c_void_p.from_address(text).value or 0
    size = ctypes.c_size_t.from_address(text + ctypes.sizeof(ctypes.c_void_p)).value
    return ctypes.string_at(start, size).decode()


def test_while_it_is_on_the_executor_names_the_node_that_it_runs(
    real: private_nvtx.Annotations,
) -> None:
    seen: list[str] = []

    def look(value: Any) -> Any:
        seen.append(stack())
        return value

    @tf.function
    def step(x: Any) -> Any:
        with tf.name_scope("layer"):
            return tf.numpy_function(look, [x], tf.float32, name="look")

    one = tf.constant(1.0)
    step(one)
    with Unlock(real):
        step(one)
    step(one)
    before, during, after = seen
    assert (before, after) == ("", "")
    node = tsl.parse(during.rpartition("::")[2])
    assert isinstance(node, tsl.Node)
    assert node.name.endswith("layer/look")
    assert node.op in ("PyFunc", "EagerPyFunc")


# --- why not --------------------------------------------------------------------------------------


def test_here_nobody_listens(real: private_nvtx.Annotations) -> None:
    assert not real.heard()
    assert why_not() == "no tool listens to NVTX in this process"
    with unlock() as opened:
        assert not opened.running


@pytest.mark.parametrize(
    ("found", "listens", "reason"),
    [
        (None, True, "does not have the switch"),
        (Switch(heard=False), False, "no tool listens"),
        (Switch(heard=False), True, "emits no NVTX ranges (tensorflow-cpu does not"),
        (Switch(works=False), True, "has no effect"),
    ],
)
def test_every_reason_is_told(
    found: Switch | None, listens: bool, reason: str, switch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(found)
    monkeypatch.setattr(nvtx, "active", lambda: listens)
    why = why_not()
    assert reason in why
    assert why in without_ranges(why)
    opened = unlock()
    opened.start()
    assert not opened.running


@pytest.mark.parametrize("on", [True, False])
def test_without_a_reason_it_is_there(on: bool, switch: Any) -> None:
    found = switch(Switch(on=on))
    assert why_not() == ""
    assert found.on is on
    with unlock() as opened:
        assert found.on
        assert opened.running is not on
    assert found.on is on


def test_a_library_without_the_names_has_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in (ctypes.CDLL(find_library("m")), None):
        monkeypatch.setattr(private, "framework_library", lambda found=library: found)
        assert private_nvtx.annotation_switch() is None
    assert f"TensorFlow {tf.__version__} does not have the switch" in why_not()


# --- the environment ------------------------------------------------------------------------------

ASKED = "--xla_gpu_enable_command_buffer="


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ASKED),
        ("", ASKED),
        ("--xla_cpu_use_mkl_dnn=true", f"--xla_cpu_use_mkl_dnn=true {ASKED}"),
        (f"{ASKED}FUSION", f"{ASKED}FUSION"),
    ],
)
def test_nothing_of_the_users_options_is_overwritten(before: str | None, after: str) -> None:
    environment = {} if before is None else {XLA_FLAGS: before}
    assert keep_thunks_apart(environment) == ""
    assert environment[XLA_FLAGS] == after


def test_a_file_of_options_is_left_alone() -> None:
    environment = {XLA_FLAGS: "flags.txt"}
    assert "names a file of options (flags.txt)" in keep_thunks_apart(environment)
    assert environment == {XLA_FLAGS: "flags.txt"}


def test_an_option_that_xla_does_not_know_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not private_nvtx.has_xla_flag("xla_gpu_enable_command_buffer_of_mine")
    monkeypatch.setattr(private_nvtx, "has_xla_flag", lambda name: False)
    environment: dict[str, str] = {}
    assert "has no option" in keep_thunks_apart(environment)
    assert environment == {}


def test_a_program_that_is_only_marked_is_asked_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("_watches", []), ("marks_only", lambda: True)):
        monkeypatch.setattr(startup, name, value)
    monkeypatch.setattr(startup.Watch, "start", lambda watch: None)
    monkeypatch.setenv(XLA_FLAGS, "--xla_cpu_use_mkl_dnn=true")
    startup.watch_program(lambda: None)
    assert os.environ[XLA_FLAGS] == f"--xla_cpu_use_mkl_dnn=true {ASKED}"
    assert capsys.readouterr().err == ""
    startup._watches.clear()
    monkeypatch.setenv(XLA_FLAGS, "flags.txt")
    startup.watch_program(lambda: None)
    assert "cannot be told apart: XLA_FLAGS names a file" in capsys.readouterr().err
    startup._watches.clear()
    monkeypatch.setattr(startup, "marks_only", lambda: False)
    monkeypatch.delenv(XLA_FLAGS)
    startup.watch_program(lambda: None)
    assert XLA_FLAGS not in os.environ


@pytest.mark.parametrize(
    ("devices", "environment", "grows", "hinted"),
    [
        ([], {}, False, False),
        (["gpu"], {}, False, True),
        (["gpu"], {GROWTH: "false"}, False, False),
        (["gpu"], {}, True, False),
    ],
)
def test_the_hint_about_memory(
    devices: list[str], environment: dict[str, str], grows: bool, hinted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: devices)
    monkeypatch.setattr(tf.config.experimental, "get_memory_growth", lambda device: grows)
    assert (f"{GROWTH}=true" in memory_hint(environment)) is hinted
