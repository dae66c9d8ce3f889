"""hroof's ranges as a tool sees them: programs under the recorder, without a GPU.

How to add a test, for instance of the layers of a net:

1. Write the program as text. ``HEARING`` at its head makes hroof's listener hear every mark and
   gives it ``layer(name, phase)`` and ``span(kind, name)``. ``from launches import launch`` gives
   ``launch("name")``, a stand-in for a kernel; ``with launches_of_ops():`` launches one for every
   PyTorch op that runs.
2. ``recording = watch(program)`` runs it under the recorder (a fixture; skips, with the reason, where
   there is no C compiler). ``watch(program, tool=False)`` runs it without a tool.
3. ``recorder.check_balanced(recording.events)`` always. Then ``meanings(recording)`` gives for every
   stand-in (its name, true layer, phase, recompute, true names of the process-wide ranges around
   it); ``recorder.placed``, ``stacks``, ``spans`` and ``innermost`` give the raw messages.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hroof.collect.nvtx import parse
from hroof.regions import Kind, Mark

if TYPE_CHECKING:
    from tests.recorder import recorder
    from tests.recorder.recorder import Recording
else:  # tests are no packages
    _path = Path(__file__).parents[1] / "recorder" / "recorder.py"
    _spec = importlib.util.spec_from_file_location("recorder", _path)
    recorder = sys.modules["recorder"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(recorder)

Watch = Callable[..., "Recording"]

HEARING = """
import contextlib, json, os, sys, threading, time
from hroof.collect.nvtx import names, shared_listener
from hroof.regions import Kind, Mark, listen, marks

listen(shared_listener())

@contextlib.contextmanager
def layer(name, phase="forward", recompute=False):
    heard = marks.push(Mark(Kind.LAYER, name, phase, recompute))
    try:
        yield
    finally:
        marks.pop(heard)

@contextlib.contextmanager
def span(kind, name):
    handles = marks.start(Mark(Kind(kind), name))
    try:
        yield
    finally:
        marks.end(handles)
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled recorder."""
    return recorder.build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture
def watch(library: Path, tmp_path: Path) -> Watch:
    """Run a program under the recorder."""
    pytest.importorskip("nvtx")

    def watching(script: str, *, tool: bool = True, **more: Any) -> Recording:
        out = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        return recorder.run(script, library if tool else None, out, **more)

    return watching


def meanings(recording: Recording) -> list[tuple[Any, ...]]:
    """For every stand-in: its name, layer, phase, recompute, and the marks around it."""
    table = printed_names(recording)
    rows = []
    for placed in recorder.placed(recording.events):
        mark = parse(placed.layer, table) if placed.layer else None
        around = [parse(message, table) for message in placed.around if message]
        names = tuple(f"{m.kind} {m.name}" for m in around if m is not None)
        assert len(names) == len(placed.around)
        where = (mark.name, mark.phase, mark.recompute) if mark else (None, None, None)
        rows.append((placed.launch, *where, names))
    return rows


def printed_names(recording: Recording) -> dict[str, Any]:
    """The table that the program printed as its last line, if it did."""
    last = (recording.stdout.splitlines() or [""])[-1]
    table: dict[str, Any] = json.loads(last) if last.startswith("{") else {}
    return table


# --- hroof's ranges -----------------------------------------------------------------------------


def test_a_step_arrives_in_the_domain_and_in_order(watch: Watch) -> None:
    recording = watch(
        HEARING
        + """
with span("region", "train"), span("step", "6"), span("phase", "forward"):
    with layer("Net"):
        with layer("fc1"):
            pass
"""
    )
    recorder.check_balanced(recording.events)
    got = [(e.event, e.message) for e in recording.of("start", "end", "push", "pop")]
    assert got == [
        ("start", "R1|train"),
        ("start", "S1|6"),
        ("start", "P1|forward"),
        ("push", "L1|p=forward|Net"),
        ("push", "L2|p=forward|fc1"),
        ("pop", None),
        ("pop", None),
        ("end", None),
        ("end", None),
        ("end", None),
    ]
    assert [e.depth for e in recording.of("push", "pop")] == [0, 1, 1, 0]
    assert {e.domain for e in recording.events} == {"hroof"}


def test_every_launch_lies_in_its_layer_and_phase(watch: Watch) -> None:
    recording = watch(
        HEARING
        + """
from launches import launch
launch("before")
with span("step", "6"):
    with span("phase", "forward"), layer("Net"):
        launch("copy")
        with layer("Net.fc1"):
            launch("mm")
        launch("relu")
    with span("phase", "backward"), layer("Net.fc1", "backward"):
        with layer("Net.fc1", "forward", recompute=True):
            launch("mm")
        launch("mm_grad")
    launch("zero")
"""
    )
    recorder.check_balanced(recording.events)
    forward, backward = ("step 6", "phase forward"), ("step 6", "phase backward")
    assert meanings(recording) == [
        ("before", None, None, None, ()),
        ("copy", "Net", "forward", False, forward),
        ("mm", "Net.fc1", "forward", False, forward),
        ("relu", "Net", "forward", False, forward),
        ("mm", "Net.fc1", "forward", True, backward),
        ("mm_grad", "Net.fc1", "backward", False, backward),
        ("zero", None, None, None, ("step 6",)),
    ]


def test_a_launch_of_another_thread_lies_in_the_phase_and_in_that_threads_layer(
    watch: Watch,
) -> None:
    recording = watch(
        HEARING
        + """
from launches import launch
def work():
    launch("bare")
    with layer("fc", "backward"):
        launch("mm")
with span("phase", "backward"), layer("Net", "backward"):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
    )
    recorder.check_balanced(recording.events)
    assert meanings(recording) == [
        ("bare", None, None, None, ("phase backward",)),
        ("mm", "fc", "backward", False, ("phase backward",)),
    ]
    assert len({e.thread for e in recording.of("push")}) == 2


def test_many_threads_stay_balanced(watch: Watch) -> None:
    recording = watch(
        HEARING
        + """
def work(number):
    for turn in range(50):
        with span("phase", f"p{number}"), layer(f"outer{number}"), layer(f"inner{turn % 3}"):
            pass
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
"""
    )
    recorder.check_balanced(recording.events)
    assert len(recording.of("push")) == len(recording.of("pop")) == 400
    assert len(recording.of("start")) == len(recording.of("end")) == 200
    assert len({e.id for e in recording.of("start")}) == 200
    for (_, _, domain), ranges in recorder.stacks(recording.events).items():
        assert domain == "hroof"
        outer = {r.message for r in ranges if r.depth == 0}
        assert len(outer) == 1, "a thread sees only its own layers"


def test_a_step_may_end_on_another_thread(watch: Watch) -> None:
    recording = watch(
        HEARING
        + """
handles = marks.start(Mark(Kind.STEP, "0"))
thread = threading.Thread(target=marks.end, args=(handles,))
thread.start()
thread.join()
"""
    )
    recorder.check_balanced(recording.events)
    (step,) = recorder.spans(recording.events)
    assert step.message == "S1|0" and step.end is not None
    assert step.thread != step.end_thread


NAMES = ["café", "层.3", "😀" * 60, 'say "hi"\n', "a/b[0],c@d", "", "net." * 100 + "fc", "tab\tend"]


def test_true_names_come_back(watch: Watch) -> None:
    recording = watch(
        HEARING
        + f"""
from launches import launch
for name in {NAMES!r}:
    with layer(name):
        launch("k")
print(json.dumps(names()))
"""
    )
    recorder.check_balanced(recording.events)
    messages = [e.message or "" for e in recording.of("push")]
    assert all(len(m) <= 120 and m.isascii() and not set(m) & set('@,[]/*+" \n') for m in messages)
    assert [row[1] for row in meanings(recording)] == NAMES
    assert [mark and mark.name for mark in (parse(m, {}) for m in messages)][:2] == NAMES[:2]


@pytest.mark.parametrize("error", ["ValueError", "KeyboardInterrupt", "SystemExit", "MemoryError"])
def test_an_exception_ends_what_it_leaves_and_goes_on(watch: Watch, error: str) -> None:
    recording = watch(
        HEARING
        + f"""
from launches import launch
try:
    with span("region", "train"), span("step", "0"), layer("Net"), layer("Net.fc"):
        raise {error}("mine")
except {error} as caught:
    assert caught.args == ("mine",)
else:
    raise AssertionError("swallowed")
with layer("after"):
    launch("k")
"""
    )
    recorder.check_balanced(recording.events)
    assert meanings(recording) == [("k", "after", "forward", False, ())]
    assert [e.depth for e in recording.of("push")] == [0, 1, 0]


def test_an_interrupt_from_outside_leaves_all_balanced(watch: Watch) -> None:
    recording = watch(
        HEARING
        + """
import signal
def soon():
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=soon).start()
try:
    with span("step", "0"), layer("Net"):
        time.sleep(30)
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    assert "interrupted" in recording.stdout
    recorder.check_balanced(recording.events)
    assert len(recording.of("push")) == 1


def test_a_closed_generator_ends_its_ranges(watch: Watch) -> None:
    recording = watch(
        HEARING
        + """
def steps():
    for number in range(3):
        with span("step", str(number)), layer("Net"):
            yield number
for number in steps():
    break
generator = steps()
next(generator)
generator.close()
"""
    )
    recorder.check_balanced(recording.events)
    assert [e.message for e in recording.of("start")] == ["S1|0", "S1|0"]


def test_a_users_own_ranges_and_stray_pops_are_left_alone(watch: Watch) -> None:
    recording = watch(
        HEARING
        + """
import nvtx
from launches import launch
with layer("Net"):
    nvtx.pop_range()
    nvtx.push_range("mine")
    launch("k")
"""
    )
    recorder.check_balanced(recording.of("push", "pop", "start", "end"))
    assert meanings(recording) == [("k", "Net", "forward", False, ())]
    assert [(e.event, e.message) for e in recording.of("push", "pop", domain=None)] == [
        ("pop", None),
        ("push", "mine"),
    ]


def test_a_listener_that_leaves_still_ends_its_ranges(watch: Watch) -> None:
    recording = watch(
        HEARING
        + """
from hroof.regions import unlisten
with span("step", "0"), layer("Net"):
    unlisten(shared_listener())
    with layer("unheard"):
        pass
"""
    )
    recorder.check_balanced(recording.events)
    assert [e.message for e in recording.of("start", "push")] == ["S1|0", "L1|p=forward|Net"]


# --- a program that nobody watches, or that cannot be watched -----------------------------------

MARKING = (
    HEARING
    + """
with span("step", "0"), layer("Net"):
    pass
from hroof.collect.nvtx import active
print(active(), len(names()))
"""
)


def test_without_a_tool_nothing_is_emitted_or_kept(watch: Watch) -> None:
    recording = watch(MARKING, tool=False, options=["-W", "error"])
    assert recording.events == []
    assert recording.stdout.split() == ["False", "0"]
    assert recording.stderr == ""


def test_without_a_tool_a_mark_calls_nothing_of_nvtx(watch: Watch) -> None:
    """Cheap: counted in calls, not in time."""
    recording = watch(
        HEARING
        + """
calls = []
def note(frame, event, argument):
    if event in ("call", "c_call"):
        module = getattr(argument, "__module__", None) if event == "c_call" else frame.f_code.co_filename
        calls.append(str(module))
sys.setprofile(note)
heard = marks.push(Mark(Kind.LAYER, "Net", "forward"))
marks.pop(heard)
sys.setprofile(None)
assert not any("nvtx/" in call or call.startswith("nvtx") for call in calls), calls
print(len(calls))
""",
        tool=False,
    )
    assert int(recording.stdout) < 12


@pytest.mark.parametrize(
    ("path", "active"), [("", "False"), ("./.", "False"), ("/nowhere/libtool.so", "True")]
)
def test_a_path_without_a_tool_harms_nothing(watch: Watch, path: str, active: str) -> None:
    recording = watch(MARKING, environment={recorder.INJECTION: path}, options=["-W", "error"])
    assert recording.events == []
    assert recording.stdout.split()[0] == active


def test_with_a_tool_the_process_is_active(watch: Watch) -> None:
    recording = watch(MARKING)
    assert recording.stdout.split() == ["True", "2"]
    assert len(recording.of("push")) == 1


def test_a_variable_that_is_set_too_late_has_no_effect(watch: Watch, library: Path) -> None:
    late = f"import os, nvtx\nnvtx.get_domain('x')\nos.environ['{recorder.INJECTION}'] = {str(library)!r}\n"
    recording = watch(late + MARKING, tool=False)
    assert recording.events == []


def test_nvtx_disable_switches_hroof_off_too(watch: Watch) -> None:
    recording = watch(MARKING, environment={"NVTX_DISABLE": "1"}, options=["-W", "error"])
    assert recording.of("push", "pop", "start", "end") == []
    assert recording.stdout.split() == ["False", "0"]


BLOCKED = """
import sys
sys.modules["nvtx"] = None
"""


@pytest.mark.parametrize("options", [(), ("-W", "error"), ("-W", "always")])
def test_without_the_package_the_program_runs_and_is_told_once(
    watch: Watch, options: tuple[str, ...]
) -> None:
    program = (
        MARKING + "from hroof.collect.nvtx import NvtxListener\nNvtxListener(); NvtxListener()\n"
    )
    recording = watch(BLOCKED + program, options=options)
    assert recording.events == []
    assert recording.stdout.split() == ["True", "0"], "a tool listens, but nothing can be told"
    assert recording.stderr.count("pip install 'nvtx>=0.2.13'") >= 1
    assert recording.stderr.count("No NVTX ranges") == 1


def test_without_the_package_and_without_a_tool_nothing_is_said(watch: Watch) -> None:
    script = BLOCKED + "from hroof.collect.nvtx import active\nprint(active())\n"
    recording = watch(script, tool=False, options=["-W", "error"])
    assert (recording.stdout.strip(), recording.stderr) == ("False", "")


def test_importing_hroof_does_not_import_nvtx(watch: Watch) -> None:
    watch("import sys, hroof, hroof.collect.nvtx\nassert 'nvtx' not in sys.modules\n", tool=False)


# --- a real net ---------------------------------------------------------------------------------


def test_the_ops_of_a_net_lie_in_the_layers_that_were_marked(watch: Watch) -> None:
    pytest.importorskip("torch")
    recording = watch(
        HEARING
        + """
import torch
from launches import launches_of_ops
first, second = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 2, bias=False)
x = torch.ones(3, 4)
with launches_of_ops(), span("step", "0"):
    with span("phase", "forward"), layer("Net"):
        with layer("first"):
            x = first(x)
        x = x.relu()
        with layer("second"):
            x = second(x)
        loss = x.sum()
    with span("phase", "backward"):
        loss.backward()
"""
    )
    recorder.check_balanced(recording.events)
    rows = meanings(recording)
    forward = [(op, name) for op, name, *_, around in rows if "phase forward" in around]
    assert forward == [("mm", "first"), ("relu", "Net"), ("mm", "second"), ("sum", "Net")]
    backward = [op for op, *_, around in rows if "phase backward" in around]
    assert backward.count("mm") == 3, "two weights and one input have gradients that are products"
    assert "threshold_backward" in backward


# --- the recorder itself ------------------------------------------------------------------------


def test_times_and_threads_are_those_of_python(watch: Watch) -> None:
    before = time.monotonic_ns()
    recording = watch("import nvtx, threading\nprint(threading.get_native_id())\nnvtx.mark('m')\n")
    (mark,) = recording.of("mark", domain=None)
    assert before < mark.time < time.monotonic_ns()
    assert mark.thread == int(recording.stdout)
    assert mark.message == "m"


def test_payloads_categories_and_colours_are_recorded(watch: Watch) -> None:
    recording = watch(
        "import nvtx\n"
        "nvtx.mark('i', payload=-7, domain='d')\n"
        "nvtx.mark('f', payload=0.1, domain='d', color=0x123456)\n"
        "nvtx.mark('c', category='cat', domain='d')\n"
    )
    integer, real, named = (e.more for e in recording.of("mark", domain="d"))
    assert integer["payload"] == -7
    assert (real["payload"], real["color"]) == (0.1, 0x123456)
    (category,) = recording.of("category", domain="d")
    assert (category.id, category.message) == (named["category"], "cat")


def test_what_a_program_emits_before_it_dies_is_kept_by_line(watch: Watch) -> None:
    program = "import nvtx, os\nnvtx.push_range('open')\nos._exit(3)\n"
    lost = watch(program, returncode=3)
    kept = watch(program, returncode=3, by_line=True)
    assert lost.of("push", domain=None) == []
    assert [e.message for e in kept.of("push", domain=None)] == ["open"]
    with pytest.raises(AssertionError, match="left open"):
        recorder.check_balanced(kept.events)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_writes_its_own_file(watch: Watch) -> None:
    recording = watch(
        "import nvtx, os\n"
        "nvtx.mark('parent before')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    nvtx.mark('child')\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "nvtx.mark('parent after')\n"
        "print(os.getpid(), child)\n"
    )
    parent, child = map(int, recording.stdout.split())
    assert [(e.pid, e.message) for e in recording.of("mark", domain=None)] == [
        (parent, "parent before"),
        (child, "child"),
        (parent, "parent after"),
    ]


def test_numbers_and_layouts_agree_with_the_headers(tmp_path: Path) -> None:
    found = recorder.headers()
    if found is None:
        pytest.skip("this machine has no nvtx3/nvToolsExt.h to check against")
    recorder.build(tmp_path, "-DRECORDER_CHECK_HEADERS", "-isystem", str(found))


def test_no_compiler_is_a_visible_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="no C compiler"):
        recorder.build(tmp_path)


# --- every function that a tool can replace, called as NVTX calls it ----------------------------

DRIVER = r"""
import ctypes, os, sys
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64
from ctypes import c_void_p, c_wchar_p, c_double, c_float, c_int32, c_int64, c_uint16

class Payload(ctypes.Union):
    _fields_ = [("u64", c_uint64), ("i64", c_int64), ("f64", c_double), ("u32", c_uint32),
                ("i32", c_int32), ("f32", c_float)]
class Text(ctypes.Union):
    _fields_ = [("ascii", c_char_p), ("wide", c_wchar_p), ("registered", c_void_p)]
class Attributes(ctypes.Structure):
    _fields_ = [("version", c_uint16), ("size", c_uint16), ("category", c_uint32),
                ("color_type", c_int32), ("color", c_uint32), ("payload_type", c_int32),
                ("reserved", c_int32), ("payload", Payload), ("message_type", c_int32),
                ("message", Text)]
class Identifier(ctypes.Union):
    _fields_ = [("pointer", c_void_p), ("u64", c_uint64)]
class Resource(ctypes.Structure):
    _fields_ = [("version", c_uint16), ("size", c_uint16), ("type", c_int32),
                ("identifier", Identifier), ("message_type", c_int32), ("message", Text)]

tables, slots = {}, {}
for module, size in [(1, 16), (5, 16)]:
    slots[module] = (c_void_p * size)()
    tables[module] = (POINTER(c_void_p) * size)()
    for i in range(1, size):
        tables[module][i] = ctypes.cast(ctypes.addressof(slots[module]) + 8 * i, POINTER(c_void_p))

@CFUNCTYPE(c_int, c_int, POINTER(c_void_p), POINTER(c_uint))
def module_functions(module, table, size):
    if module not in tables:
        return 0
    table[0] = ctypes.addressof(tables[module])
    size[0] = 16
    return 1
class Callbacks(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("functions", type(module_functions))]
callbacks = Callbacks(16, module_functions)
@CFUNCTYPE(c_void_p, c_uint32)
def get_export_table(which):
    return ctypes.addressof(callbacks) if which == 1 else None

library = ctypes.CDLL(os.environ["LIBRARY"])
assert library.InitializeInjectionNvtx2(get_export_table) == 1

def call(module, number, result, *arguments):
    kinds = [c_uint64 if type(a) is int and a > 2**31 else type(a) for a in arguments]
    pointer = slots[module][number]
    assert pointer, (module, number)
    values = [a for a in arguments]
    return CFUNCTYPE(result, *kinds)(pointer)(*values)

def attributes(text, payload=None, **more):
    a = Attributes(version=3, size=48, **more)
    if isinstance(text, bytes):
        a.message_type, a.message.ascii = 1, text
    elif isinstance(text, str):
        a.message_type, a.message.wide = 2, text
    else:
        a.message_type, a.message.registered = 3, text
    if payload:
        a.payload_type = payload[0]
        setattr(a.payload, payload[1], payload[2])
    keep.append(a)
    return ctypes.pointer(a)
keep = []
"""


DEFAULT_DOMAIN = r"""
call(1, 1, None, attributes(b"ex", (1, "u64", 2**64 - 1), category=4, color_type=1, color=9))
call(1, 2, None, c_char_p(b"a\"\\\x01"))
call(1, 3, None, c_wchar_p("w é層😀"))
ids = [call(1, 4, c_uint64, attributes(b"ex", (2, "i64", -5))),
       call(1, 5, c_uint64, c_char_p(b"a")), call(1, 6, c_uint64, c_wchar_p("w"))]
assert len(set(ids)) == 3
for i in reversed(ids):
    call(1, 7, None, c_uint64(i))
assert [call(1, 8, c_int, attributes("wide ex", (3, "f64", 0.1))),
        call(1, 9, c_int, c_char_p(b"a")), call(1, 10, c_int, c_wchar_p("w"))] == [0, 1, 2]
assert [call(1, 11, c_int) for _ in range(4)] == [2, 1, 0, -1]
call(1, 12, None, c_uint32(7), c_char_p(b"cat"))
call(1, 13, None, c_uint32(8), c_wchar_p("kätz"))
call(1, 14, None, c_uint32(70), c_char_p(b"main"))
call(1, 15, None, c_uint32(71), c_wchar_p("haupt"))
call(1, 1, None, attributes(b"u32", (4, "u32", 2**32 - 1)))
call(1, 1, None, attributes(b"i32", (5, "i32", -1)))
call(1, 1, None, attributes(b"f32", (6, "f32", 0.5)))
call(1, 1, None, attributes(b"inf", (3, "f64", float("-inf"))))
call(1, 1, None, attributes(b"ext", (77, "u64", 1)))
"""


def test_every_callback_of_the_default_domain(watch: Watch, library: Path) -> None:
    script = DRIVER + DEFAULT_DOMAIN
    recording = watch(script, tool=False, environment={"LIBRARY": str(library)})
    events = recording.events
    assert all(e.domain is None for e in events)
    assert [(e.event, e.message) for e in events[:13]] == [
        ("mark", "ex"),
        ("mark", 'a"\\\x01'),
        ("mark", "w é層😀"),
        ("start", "ex"),
        ("start", "a"),
        ("start", "w"),
        ("end", None),
        ("end", None),
        ("end", None),
        ("push", "wide ex"),
        ("push", "a"),
        ("push", "w"),
        ("pop", None),
    ]
    assert [e.depth for e in events if e.event in ("push", "pop")] == [0, 1, 2, 2, 1, 0, -1]
    assert [(e.event, e.id, e.message) for e in events if e.event in ("category", "thread")] == [
        ("category", 7, "cat"),
        ("category", 8, "kätz"),
        ("thread", 70, "main"),
        ("thread", 71, "haupt"),
    ]
    assert (events[0].more["category"], events[0].more["color"]) == (4, 9)
    payloads = {e.message: e.more["payload"] for e in events if "payload" in e.more}
    assert payloads == {
        "ex": -5,
        "wide ex": 0.1,
        "u32": 2**32 - 1,
        "i32": -1,
        "f32": 0.5,
        "inf": float("-inf"),
        "ext": None,
    }
    assert events[0].more["payload"] == 2**64 - 1
    assert recorder.imbalances(events) == [f"pop without a push: {_last_pop(recording)}"]


def _last_pop(recording: Recording) -> Any:
    return recording.of("pop", domain=None)[-1]


def test_every_callback_of_a_named_domain(watch: Watch, library: Path) -> None:
    script = (
        DRIVER
        + r"""
d = c_void_p(call(5, 12, c_void_p, c_char_p(b"first")))
e = c_void_p(call(5, 13, c_void_p, c_wchar_p("zweite é")))
text = call(5, 10, c_void_p, d, c_char_p(b"registered"))
wide = call(5, 11, c_void_p, d, c_wchar_p("weit ö"))
call(5, 1, None, d, attributes(text))
i = call(5, 2, c_uint64, e, attributes(wide))
call(5, 3, None, e, c_uint64(i))
assert [call(5, 4, c_int, d, attributes(b"p")), call(5, 4, c_int, e, attributes(b"q"))] == [0, 0]
assert [call(5, 5, c_int, d), call(5, 5, c_int, e)] == [0, 0]
r = Resource(0, 32, 0, Identifier(u64=1), 1, Text(ascii=b"lock"))
handle = call(5, 6, c_void_p, d, ctypes.pointer(r))
assert handle
call(5, 7, None, c_void_p(handle))
call(5, 8, None, d, c_uint32(1), c_char_p(b"cat"))
call(5, 9, None, d, c_uint32(2), c_wchar_p("kätz"))
call(5, 14, None, d)
call(5, 1, None, d, attributes(b"late"))
"""
    )
    recording = watch(script, tool=False, environment={"LIBRARY": str(library)})
    recorder.check_balanced(recording.events)
    assert [(e.event, e.domain, e.message) for e in recording.events] == [
        ("domain", "first", None),
        ("domain", "zweite é", None),
        ("mark", "first", "registered"),
        ("start", "zweite é", "weit ö"),
        ("end", "zweite é", None),
        ("push", "first", "p"),
        ("push", "zweite é", "q"),
        ("pop", "first", None),
        ("pop", "zweite é", None),
        ("resource", "first", "lock"),
        ("category", "first", "cat"),
        ("category", "first", "kätz"),
        ("destroy", "first", None),
        ("mark", "first", "late"),
    ]


def test_the_recorder_refuses_without_a_folder(library: Path) -> None:
    tool = ctypes.CDLL(str(library))
    if "RECORDER_OUT" in os.environ:
        pytest.skip("RECORDER_OUT is set here")
    table = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lambda which: None)
    assert tool.InitializeInjectionNvtx2(table) == 0


# --- the reading side ---------------------------------------------------------------------------


def event(kind: str, time: int, message: str | None = None, **more: Any) -> Any:
    values: dict[str, Any] = {"pid": 1, "thread": threading.get_native_id(), "domain": "hroof"}
    return recorder.Event(time, event=kind, message=message, **values | more)


def test_imbalances_are_found() -> None:
    events = [
        event("pop", 1),
        event("push", 2, "a"),
        event("push", 3, "b", thread=9),
        event("pop", 4),
        event("start", 5, "s", id=1),
        event("end", 6, id=1),
        event("end", 7, id=1),
        event("start", 8, "t", id=2),
    ]
    problems = recorder.imbalances(events)
    assert [problem.split(":")[0] for problem in problems] == [
        "pop without a push",
        "end without a start, or a second one",
        "left open",
        "left open",
    ]
    with pytest.raises(AssertionError, match="pop without a push"):
        recorder.check_balanced(events)


def test_the_innermost_range_at_an_instant() -> None:
    events = [
        event("push", 10, "outer", thread=7),
        event("push", 15, "other", thread=8),
        event("push", 20, "inner", thread=7),
        event("push", 25, "foreign", thread=7, domain="user"),
        event("pop", 30, thread=7),
        event("pop", 40, thread=7),
    ]
    at = {time: recorder.innermost(events, 7, time) for time in (9, 10, 19, 20, 29, 30, 39, 40)}
    assert at == {
        9: None,
        10: "outer",
        19: "outer",
        20: "inner",
        29: "inner",
        30: "outer",
        39: "outer",
        40: None,
    }
    assert recorder.path_at(events, 7, 25) == ["outer", "inner"]
    assert recorder.path_at(events, 8, 100) == ["other"]
    assert parse("L1|outer", {}) == Mark(Kind.LAYER, "outer")
