"""NVTX: what a message says, how it is read back, and a listener that nothing can make raise."""

from __future__ import annotations

import builtins
import json
import logging
import os
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.collect import nvtx
from hroof.collect.nvtx import LONGEST, Names, NvtxListener, active, parse
from hroof.errors import ProfileError
from hroof.regions import HroofWarning, Kind, Mark, marks

ALLOWED = re.compile(r"[A-Za-z0-9_.|\-=]{1,120}")
LAYER = Mark(Kind.LAYER, "blocks.3.attn.qkv", phase="backward")
INNER = Mark(Kind.LAYER, "blocks.3.attn.qkv.lora", phase="backward")
STEP = Mark(Kind.STEP, "6")
REGION = Mark(Kind.REGION, "train")

any_text = st.text(st.characters(), max_size=200)  # surrogates too: Python strings may hold them
long_text = st.integers(0, 400).flatmap(lambda size: st.text(min_size=size, max_size=size))
any_mark = st.builds(
    Mark,
    kind=st.sampled_from(Kind),
    name=st.one_of(any_text, long_text, st.from_regex(r"[a-z]+(\.[0-9]+\.[a-z_]+){0,40}")),
    phase=st.one_of(st.sampled_from(["", "forward", "backward", "optimizer"]), any_text),
    recompute=st.booleans(),
)


class FakeDomain:
    """A domain that keeps a stack, and answers as some tools do: with -1."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.stacks: dict[int, list[str]] = {}
        self.open: list[str] = []
        self.made: list[str] = []

    def get_event_attributes(self, message: str) -> str:
        self.made.append(message)
        return message

    def push_range(self, attributes: str) -> int:
        self.log.append(("push", attributes))
        self.stacks.setdefault(threading.get_ident(), []).append(attributes)
        return -1

    def pop_range(self) -> int:
        stack = self.stacks.setdefault(threading.get_ident(), [])
        self.log.append(("pop", stack.pop() if stack else "nothing"))
        return -1

    def start_range(self, attributes: str) -> int:
        self.log.append(("start", attributes))
        self.open.append(attributes)
        return -1

    def end_range(self, handle: int) -> None:
        assert handle == -1
        self.log.append(("end", self.open.pop()))

    def count(self, *kinds: str) -> int:
        return sum(kind in kinds for kind, _ in self.log)


@pytest.fixture
def domain() -> FakeDomain:
    return FakeDomain()


@pytest.fixture
def listener(domain: FakeDomain) -> Iterator[NvtxListener]:
    """A listener to the fake domain that hears every mark during the test."""
    listener = NvtxListener(domain, Names())
    marks.listen(listener)
    yield listener
    marks.unlisten(listener)


@pytest.fixture(autouse=True)
def not_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx, "_warnings_left", [1])


@contextmanager
def layer(mark: Mark) -> Iterator[None]:
    heard = marks.push(mark)
    try:
        yield
    finally:
        marks.pop(heard)


@contextmanager
def span(mark: Mark) -> Iterator[None]:
    handles = marks.start(mark)
    try:
        yield
    finally:
        marks.end(handles)


# --- messages -----------------------------------------------------------------------------------


def test_a_message_reads_well() -> None:
    names = Names()
    assert names.message(LAYER) == "L1|p=backward|blocks.3.attn.qkv"
    assert names.message(INNER) == "L2|p=backward|blocks.3.attn.qkv.lora"
    assert names.message(STEP) == "S1|6"
    assert names.message(Mark(Kind.PHASE, "forward")) == "P1|forward"
    assert names.message(REGION) == "R1|train"


def test_the_id_belongs_to_the_name_in_every_phase() -> None:
    names = Names()
    again = Mark(Kind.LAYER, LAYER.name, "forward", recompute=True)
    assert names.message(LAYER) == "L1|p=backward|blocks.3.attn.qkv"
    assert names.message(again) == "L1|p=forward|r=1|blocks.3.attn.qkv"
    assert names.message(LAYER) == "L1|p=backward|blocks.3.attn.qkv"


@pytest.mark.parametrize(
    ("name", "tail"),
    [
        ("attn[0]", "attn=5B0=5D"),
        ("fwd/bwd", "fwd=2Fbwd"),
        ("lr=1e-3, bs=8", "lr=3D1e-3=2C=20bs=3D8"),
        ("user@host", "user=40host"),
        ("a*b+c", "a=2Ab=2Bc"),
        ("café", "caf=C3=A9"),
        ('say "hi"\n', "say=20=22hi=22=0A"),
        ("a|b", "a=7Cb"),
        ("\ud800", "=ED=A0=80"),
        ("", ""),
    ],
)
def test_awkward_characters_are_spelled_out(name: str, tail: str) -> None:
    names = Names()
    message = names.message(Mark(Kind.REGION, name))
    assert message == f"R1|{tail}"
    assert parse(message, {}) == Mark(Kind.REGION, name)


@given(any_mark)
def test_a_message_has_only_allowed_characters_and_is_short(mark: Mark) -> None:
    assert ALLOWED.fullmatch(Names().message(mark))


@given(any_mark)
def test_the_table_gives_every_mark_back(mark: Mark) -> None:
    names = Names()
    message = names.message(mark)
    assert parse(message, json.loads(json.dumps(names.table()))) == mark


@given(any_mark)
def test_a_message_that_is_not_cut_needs_no_table(mark: Mark) -> None:
    message = Names().message(mark)
    read = parse(message, {})
    assert read is not None
    assert (read.kind, read.recompute) == (mark.kind, mark.recompute)
    for field, got, true in [("", read.name, mark.name), ("p", read.phase, mark.phase)]:
        cut = f"|{field}={'=' if field else ''}." in message
        assert cut or got == true


@given(st.lists(any_mark, unique=True, min_size=2, max_size=8))
def test_different_marks_stay_different(some: list[Mark]) -> None:
    names = Names()
    messages = [names.message(mark) for mark in some]
    assert len(set(messages)) == len(some)
    assert [names.mark(message) for message in messages] == some
    assert [names.message(mark) for mark in some] == messages, "ids are stable within a run"


def test_names_that_differ_only_where_they_are_cut_stay_different_without_the_table() -> None:
    end = ".conv.weight" * 20
    one, two = (Names().message(Mark(Kind.LAYER, f"{start}{end}")) for start in ("left", "right"))
    assert len(one) == len(two) == LONGEST
    read = [parse(message, {}) for message in (one, two)]
    assert read[0] is not None and read[1] is not None and read[0] != read[1]
    assert read[0].name.startswith("…") and ".conv.weight (" in read[0].name


def test_a_cut_name_reads_the_same_whatever_its_id() -> None:
    mark = Mark(Kind.LAYER, "very.deep." * 30)
    early, late = Names(), Names()
    late.message(LAYER)
    assert early.message(mark) != late.message(mark)
    assert parse(early.message(mark), {}) == parse(late.message(mark), {})


def test_a_cut_never_splits_a_character() -> None:
    for size in range(30, 45):
        message = Names().message(Mark(Kind.LAYER, "é€😀" * size))
        read = parse(message, {})
        assert read is not None and set(read.name) <= set("…é€😀 (0123456789abcdef)")


def test_the_table_is_plain_and_in_order() -> None:
    names = Names()
    for mark in (STEP, LAYER, STEP):
        names.message(mark)
    assert list(names.table().items()) == [
        (
            "S1|6",
            {"id": "S1", "kind": "step", "name": "6", "phase": "", "recompute": False},
        ),
        (
            "L1|p=backward|blocks.3.attn.qkv",
            {
                "id": "L1",
                "kind": "layer",
                "name": "blocks.3.attn.qkv",
                "phase": "backward",
                "recompute": False,
            },
        ),
    ]


def test_ids_given_from_many_threads_at_once_are_one_per_name() -> None:
    names, everyone = Names(), threading.Barrier(8)
    given: list[list[str]] = [[] for _ in range(8)]

    def work(mine: list[str]) -> None:
        everyone.wait()
        mine.extend(names.message(Mark(Kind.LAYER, f"layer.{i}")) for i in range(200))

    together([lambda mine=mine: work(mine) for mine in given])  # type: ignore[misc]
    assert all(mine == given[0] for mine in given)
    assert len({message.partition("|")[0] for message in given[0]}) == 200


def together(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- foreign messages ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "",
        "forward",
        "L1",
        "L|x",
        "L0|x",
        "L1x|x",
        "X1|x",
        "l1|x",
        "L1|a|b",
        "L1|p=|x",
        "L1|r=0|x",
        "L1|r=1|p=forward|x",
        "L1|a b",
        "L1|a/b",
        "L1|é",
        "L1|=",
        "L1|=4",
        "L1|=zz",
        "L1|=FF",
        "L1|=.nodigest.x",
        "L1|p==G0|x",
        "L1|x\n",
        " L1|x",
        "L1234567890|x",
    ],
)
def test_what_hroof_did_not_write_is_foreign(message: str) -> None:
    assert parse(message, {}) is None
    assert parse(message) is None


@given(st.text(st.sampled_from("LRSP019|=.pr-AFéx \n"), max_size=30))
def test_parse_takes_any_text(message: str) -> None:
    mark = parse(message, {})
    assert mark is None or ALLOWED.fullmatch(message)


def test_a_damaged_table_is_an_error_that_names_the_message() -> None:
    good = {"kind": "layer", "name": "x", "phase": "", "recompute": False}
    for damaged in ({}, good | {"kind": "kernel"}, {"kind": "layer"}, None):
        with pytest.raises(ProfileError, match=re.escape("'L1|x'")):
            parse("L1|x", {"L1|x": damaged})  # type: ignore[dict-item]
    assert parse("L1|x", {"L1|x": good}) == Mark(Kind.LAYER, "x")


def test_parse_knows_the_names_of_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvtx, "_names", Names())
    mark = Mark(Kind.LAYER, "very.deep." * 30)
    listener = NvtxListener(FakeDomain())
    listener.push(mark)
    (message,) = nvtx.names()
    assert listener.names() == nvtx.names()
    assert parse(message) == mark
    assert parse(message, {}) != mark


# --- ranges -------------------------------------------------------------------------------------


def test_layers_are_pushed_and_everything_else_is_started(
    domain: FakeDomain, listener: NvtxListener
) -> None:
    phase = Mark(Kind.PHASE, "backward")
    with span(REGION), span(STEP), span(phase), layer(LAYER), layer(INNER):
        pass
    assert [kind for kind, _ in domain.log] == (
        ["start"] * 3 + ["push"] * 2 + ["pop"] * 2 + ["end"] * 3
    )
    assert [text for kind, text in domain.log if kind in ("start", "push")] == [
        "R1|train",
        "S1|6",
        "P1|backward",
        "L1|p=backward|blocks.3.attn.qkv",
        "L2|p=backward|blocks.3.attn.qkv.lora",
    ]


def test_attributes_are_made_once_per_message(domain: FakeDomain, listener: NvtxListener) -> None:
    for _ in range(3):
        with span(STEP), layer(LAYER), layer(Mark(LAYER.kind, LAYER.name, LAYER.phase)):
            pass
    assert domain.made == ["S1|6", "L1|p=backward|blocks.3.attn.qkv"]
    assert domain.count("push") == domain.count("pop") == 6


def raises() -> None:
    with span(REGION), layer(LAYER), layer(INNER):
        raise ZeroDivisionError


def is_interrupted() -> None:
    with span(REGION), layer(LAYER):
        raise KeyboardInterrupt


def returns() -> int:
    with span(REGION), layer(LAYER):
        return 1


def breaks() -> None:
    for _ in range(3):
        with span(REGION), layer(LAYER):
            break


def closes() -> None:
    def numbers() -> Iterator[int]:
        with span(REGION), layer(LAYER):
            yield 1
            yield 2

    generator = numbers()
    next(generator)
    generator.close()  # type: ignore[attr-defined]


def nests_the_same() -> None:
    with span(REGION), span(REGION), layer(LAYER), layer(LAYER):
        pass


@pytest.mark.parametrize(
    ("leave", "error"),
    [
        (raises, ZeroDivisionError),
        (is_interrupted, KeyboardInterrupt),
        (returns, None),
        (breaks, None),
        (closes, None),
        (nests_the_same, None),
    ],
)
def test_every_way_out_ends_what_began(
    domain: FakeDomain,
    listener: NvtxListener,
    leave: Callable[[], object],
    error: type[BaseException] | None,
) -> None:
    if error is None:
        leave()
    else:
        with pytest.raises(error):
            leave()
    assert domain.count("push") == domain.count("pop") > 0
    assert domain.count("start") == domain.count("end") > 0
    assert not domain.open and not any(domain.stacks.values())


def test_a_pop_without_a_push_pops_nothing(domain: FakeDomain, listener: NvtxListener) -> None:
    listener.pop()
    listener.push(LAYER)
    together([listener.pop])
    listener.pop()
    listener.pop()
    assert [kind for kind, _ in domain.log] == ["push", "pop"]


def test_threads_have_stacks_of_their_own(domain: FakeDomain, listener: NvtxListener) -> None:
    everyone = threading.Barrier(4)

    def work(number: int) -> None:
        for depth in range(5):
            listener.push(Mark(Kind.LAYER, f"{number}.{depth}"))
            everyone.wait()
        for _ in range(5):
            listener.pop()

    together([lambda n=n: work(n) for n in range(4)])  # type: ignore[misc]
    assert domain.count("push") == domain.count("pop") == 20
    assert not any(domain.stacks.values())


def test_a_span_may_end_on_another_thread(domain: FakeDomain, listener: NvtxListener) -> None:
    handles = marks.start(STEP)
    together([lambda: marks.end(handles)])
    assert domain.log == [("start", "S1|6"), ("end", "S1|6")]


def test_what_began_is_ended_after_the_listener_left(
    domain: FakeDomain, listener: NvtxListener
) -> None:
    heard, handles = marks.push(LAYER), marks.start(STEP)
    marks.unlisten(listener)
    assert listener not in marks.push(INNER)
    marks.pop(())
    marks.pop(heard)
    marks.end(handles)
    assert [kind for kind, _ in domain.log] == ["push", "start", "pop", "end"]


def test_an_end_without_a_start_ends_nothing(domain: FakeDomain, listener: NvtxListener) -> None:
    listener.end(None)
    assert domain.log == []


# --- nothing makes it raise ---------------------------------------------------------------------


class Broken(FakeDomain):
    """A domain whose chosen calls fail from a given one on."""

    def __init__(self, *calls: str, after: int = 0) -> None:
        super().__init__()
        self.calls, self.left = calls, after

    def __getattribute__(self, name: str) -> Any:
        if name in ("calls", "left") or name not in self.calls:
            return super().__getattribute__(name)
        if self.left == 0:
            raise OSError("the tool has gone")
        self.left -= 1
        return super().__getattribute__(name)


CALLS = ("get_event_attributes", "push_range", "pop_range", "start_range", "end_range")


@pytest.mark.parametrize("call", CALLS)
def test_a_failing_tool_is_told_about_once_and_left_alone(call: str) -> None:
    listener = NvtxListener(Broken(call), Names())
    with pytest.warns(HroofWarning, match="the tool has gone") as told:
        for _ in range(3):
            handle = listener.start(STEP)
            listener.push(LAYER)
            listener.push(INNER)
            listener.pop()
            listener.pop()
            listener.end(handle)
    assert len(told) == 1
    assert listener.start(STEP) is None


def test_what_was_open_when_the_tool_failed_is_still_ended() -> None:
    domain = Broken("push_range", after=1)
    listener = NvtxListener(domain, Names())
    handle = listener.start(STEP)
    listener.push(LAYER)
    with pytest.warns(HroofWarning):
        listener.push(INNER)
    listener.push(INNER)  # silent by now
    for _ in range(3):
        listener.pop()
    listener.end(handle)
    assert [kind for kind, _ in domain.log] == ["start", "push", "pop", "end"]


def test_many_listeners_warn_once_together() -> None:
    with pytest.warns(HroofWarning) as told:
        for _ in range(3):
            NvtxListener(Broken("push_range"), Names()).push(LAYER)
    assert len(told) == 1


def test_warnings_that_are_errors_do_not_reach_the_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "hroof"):
        warnings.simplefilter("error")
        NvtxListener(Broken("push_range"), Names()).push(LAYER)
    assert "the tool has gone" in caplog.text


def test_an_interrupt_during_a_push_reaches_the_program() -> None:
    class Interrupted(FakeDomain):
        def push_range(self, attributes: str) -> int:
            raise KeyboardInterrupt

    listener = NvtxListener(Interrupted(), Names())
    with pytest.raises(KeyboardInterrupt):
        listener.push(LAYER)
    listener.pop()


# --- the package --------------------------------------------------------------------------------


def blocked(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Every import of nvtx fails."""
    real = builtins.__import__

    def importing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "nvtx":
            raise error
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", importing)


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("No module named 'nvtx'"), OSError("bad ELF"), TypeError("?")]
)
def test_without_the_package_the_listener_is_silent(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    blocked(monkeypatch, error)
    with pytest.warns(HroofWarning, match=re.escape(str(error))) as told:
        listeners = [NvtxListener(), NvtxListener()]
    assert len(told) == 1
    assert ("pip install" in str(told[0].message)) == isinstance(error, ImportError)
    for listener in listeners:
        handle = listener.start(STEP)
        listener.push(LAYER)
        listener.pop()
        listener.end(handle)
        assert handle is None and listener.names() == nvtx.names()


def package(monkeypatch: pytest.MonkeyPatch, domain: Any, *, enabled: bool = True) -> None:
    """Another nvtx package, whose domains are FakeDomains."""
    fake = types.SimpleNamespace(
        enabled=lambda: enabled, get_domain=lambda name: domain, Domain=FakeDomain
    )
    monkeypatch.setitem(sys.modules, "nvtx", fake)
    monkeypatch.delenv("NVTX_DISABLE", raising=False)


class Dummy:
    """What the package gives out when no tool listens."""

    def push_range(self, attributes: object) -> None:
        raise AssertionError("nobody listens")


def test_an_old_package_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, object())
    with pytest.warns(HroofWarning, match=re.escape("pip install 'nvtx>=0.2.13'")):
        NvtxListener().push(LAYER)


def test_without_a_tool_the_listener_emits_nothing_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package(monkeypatch, Dummy())
    names = Names()
    listener = NvtxListener(names=names)
    listener.push(LAYER)
    listener.pop()
    listener.end(listener.start(STEP))
    assert names.table() == {}


def test_with_a_tool_the_listener_emits_to_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = FakeDomain()
    package(monkeypatch, domain)
    listener = NvtxListener(names=Names())
    listener.push(LAYER)
    listener.pop()
    assert [kind for kind, _ in domain.log] == ["push", "pop"]


@pytest.mark.parametrize(
    ("path", "listening", "expected"),
    [
        ("/tool/libinjection.so", False, True),
        ("", True, False),
        ("./.", True, False),
        (None, True, True),
        (None, False, False),
    ],
)
def test_active_asks_the_variable_and_then_the_package(
    monkeypatch: pytest.MonkeyPatch, path: str | None, listening: bool, expected: bool
) -> None:
    package(monkeypatch, FakeDomain() if listening else Dummy())
    monkeypatch.delenv(nvtx.INJECTION, raising=False)
    if path is not None:
        monkeypatch.setenv(nvtx.INJECTION, path)
    assert active() is expected


def test_nvtx_disable_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = FakeDomain()
    package(monkeypatch, domain, enabled=False)
    monkeypatch.setenv(nvtx.INJECTION, "/tool/libinjection.so")
    NvtxListener().push(LAYER)
    assert domain.log == []
    monkeypatch.setenv("NVTX_DISABLE", "1")
    assert active() is False


def test_without_the_package_nobody_is_active_and_nobody_is_warned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocked(monkeypatch, ModuleNotFoundError("No module named 'nvtx'"))
    for variable in (nvtx.INJECTION, "NVTX_DISABLE"):
        monkeypatch.delenv(variable, raising=False)
    assert active() is False


def test_the_shared_listener_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, Dummy())
    nvtx.shared_listener.cache_clear()
    try:
        assert nvtx.shared_listener() is nvtx.shared_listener()
    finally:
        nvtx.shared_listener.cache_clear()


# --- solved cases -------------------------------------------------------------------------------


def case(slug: str) -> Path:
    root = os.environ.get("HROOF_CASES")
    if not root:
        pytest.skip("HROOF_CASES names no folder of solved cases")
    return Path(root) / slug


def program(path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile((path / "input.py").read_text(encoding="utf-8"), "input.py", "exec"), names)
    return names


def test_case_exit_paths(domain: FakeDomain, listener: NvtxListener) -> None:
    folder = case("36-region-exception-balance")
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expect"]
    back_end = program(folder)["FakeNvtx"]()
    domain.push_range = back_end.range_push  # type: ignore[method-assign]
    domain.pop_range = back_end.range_pop  # type: ignore[method-assign]
    got = program(folder)["paths"](lambda name: layer(Mark(Kind.LAYER, name)))
    assert got == expected["exceptions"]
    kinds = [kind for kind, _ in back_end.log]
    assert (kinds.count("push"), kinds.count("pop")) == (expected["pushes"], expected["pops"])
    assert len(back_end.stack) == expected["final_depth"]


def test_case_a_backward_on_another_thread_lies_within_its_phase(
    domain: FakeDomain, listener: NvtxListener
) -> None:
    folder = case("38-backward-thread-ncu-filter")
    seen: list[tuple[int, list[str]]] = []

    def region(name: str) -> Any:
        return span(Mark(Kind.PHASE, name))

    program(folder)["run"](region, lambda: seen.append((threading.get_ident(), list(domain.open))))
    assert seen[0][0] != threading.get_ident()
    assert seen[0][1] == ["P1|backward"]
    assert domain.count("push") == 0, "a push/pop range would be the wrong thread's"


def test_case_awkward_names_need_no_escaping() -> None:
    folder = case("39-nvtx-filter-escaping")
    for name in json.loads((folder / "input.json").read_text(encoding="utf-8")):
        message = Names().message(Mark(Kind.REGION, name))
        assert ALLOWED.fullmatch(message) and not set(message) & set("@,[]/*+")
        assert parse(message, {}) == Mark(Kind.REGION, name)
