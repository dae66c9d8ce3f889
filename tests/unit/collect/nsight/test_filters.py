"""NVTX filters: escaping, and which launches an expression keeps; the tables are what ncu 2022.3 and 2024.1 do."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.collect.nsight import STEPS, escape, matches, parse, started
from hroof.collect.nvtx import DOMAIN, Names
from hroof.errors import UsageError
from hroof.regions import Kind, Mark

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Open:
    """Ranges that are open at a launch."""

    pushed: Pairs = ()
    started: Pairs = ()


def of(domain: str, *names: str) -> Pairs:
    return tuple((domain, name) for name in names)


DEFAULT = "<default domain>"
PLAIN = tuple(Open(of(DEFAULT, "model", name)) for name in ("load", "axpy", "check_it"))
MARKED = (
    Open(of("hroof", "L1|a", "L2|b"), of("hroof", "S2|6")),
    Open(of("hroof", "L1|a"), of("hroof", "P1|x", "R1|r")),
    Open((), (("other", "S2|6"), *of("hroof", "R1|r", "S3|7"))),
)
LETTERS = (
    Open(of("h", "A", "B", "C", "D"), of("h", "A", "E")),
    Open((*of("h", "ax", "ay", "az"), ("k", "A")), (("k", "A"), ("h", "E"))),
    Open(of("h", "A", "A", "B")),
)
ODD = (
    Open(of("h", "a/b", "[x]"), of("h", "a*b+c", "u@h", "x[0]")),
    Open(of("h", "*", "c d"), (*of("h", "f/b", "x, y"), ("d@e", "q"))),
    Open(of("h", "A", "B", "C", "B"), of("h", "a,b", "é", "back\\s")),
)


def kept(expression: str, launches: tuple[Open, ...]) -> list[int]:
    return [number for number, ranges in enumerate(launches) if matches(expression, ranges)]


# --- escaping -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("layer1.0.conv1", "layer1.0.conv1"),
        ("attn[0]", r"attn\[0\]"),
        ("fwd/bwd", r"fwd\/bwd"),
        ("lr=1e-3, bs=8", r"lr=1e-3\, bs=8"),
        ("user@host", r"user\@host"),
        ("a*b+c", r"a\*b\+c"),
        ("café", "café"),
    ],
)
def test_a_name_is_escaped(name: str, escaped: str) -> None:
    assert escape(name) == started(name) == escaped
    assert started(name, name) == f"{escaped}@{escaped}"


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(UsageError, match="without a name"):
        escape("")
    with pytest.raises(UsageError):
        started("", "hroof")


@given(st.text(st.characters(exclude_characters="\\"), min_size=1), st.text("ab[@", max_size=3))
def test_an_escaped_name_keeps_its_own_range_and_no_other(name: str, more: str) -> None:
    here = Open((), (("d@m", name),))
    assert matches(started(name, "d@m"), here)
    assert matches(started(name + more, "d@m"), here) is (not more)
    assert not matches(started(name, "dm"), here)


# --- start/end ranges ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "numbers"),
    [
        ("hroof@S2|6", [0]),
        ("hroof@S2|6/", []),
        ("S2|6", []),
        ("hroof@R1|r", [1, 2]),
        ("hroof@R1|r,P1|x", [1]),
        ("hroof@P1|x,R1|r", [1]),
        ("hroof@R1|r,S3|7", [2]),
        ("hroof@R1|r,P1|x/", []),
        ("hroof@L1|a/,S2|6", []),
        ("hroof@L1|a", []),
        ("regex:^hroof$@^S", [0, 2]),
        ("regex:^hroof$@^S/", []),
        ("regex:@S", [0, 2]),
        ("regex:other@S", [2]),
        ("regex:S", []),
        ("regex:hroof@3,R", [2]),
        ("regex:hroof@S2,", [0]),
        (r"regex:hroof@S2\|6", [0]),
        (r"regex:hroof@S\d", [0, 2]),
        ("regex:hroof@S[23].*", [0, 2]),
        ("regex:hroof@S[23/]", [0, 2]),
    ],
)
def test_start_end_ranges(expression: str, numbers: list[int]) -> None:
    assert kept(expression, MARKED) == numbers


@pytest.mark.parametrize(
    ("expression", "numbers"),
    [
        ("h@a*b+c", [0]),
        (r"h@a\*b\+c", [0]),
        (r"h@u\@h", [0]),
        ("h@x[0]", []),
        (r"h@x\[0\]", [0]),
        (r"h@x\[0]", []),
        ("h@f/b", []),
        (r"h@f\/b", [1]),
        ("h@x, y", []),
        (r"h@x\, y", [1]),
        ("h@é", [2]),
        (r"h@back\s", [2]),
        (r"d\@e@q", [1]),
        (r"h@a\/b/", [0]),
        ("h@a/b/", []),
        (r"h@\[x\]/", [0]),
        ("h@[x]/", []),
        (r"h@\*/", [1]),
        ("h@c d]", [1]),
        ("regex:h@/[a-z], y", [1]),
        (r"regex:h@u\@h", [0]),
        (r"regex:h@x\[0\]", [0]),
        (r"regex:h@x\[0/]", [0]),
        (r"regex:h@f\/b", [1]),
        ("regex:h@f/b", []),
        ("regex:h@x[[]0", [0]),
    ],
)
def test_odd_names(expression: str, numbers: list[int]) -> None:
    assert kept(expression, ODD) == numbers


# --- push/pop ranges ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "numbers"),
    [
        ("model/", [0, 1, 2]),
        ("model", []),
        ("axpy/", [1]),
        ("/axpy", [1]),
        ("axpy//", [1]),
        (" axpy/", []),
        ("model/axpy", [1]),
        ("model/*/axpy", [1]),
        ("model/+/axpy", []),
        ("[model", [0, 1, 2]),
        ("[axpy/", []),
        ("axpy]", [1]),
        ("axpy]/", [1]),
        ("model]", []),
        ("[model/axpy]", [1]),
        ("model/+", [0, 1, 2]),
        ("axpy/+", []),
        ("axpy/*", [1]),
        ("<default domain>@axpy/", [1]),
        ("hroof@axpy/", []),
        ("regex:axp/", [1]),
        ("regex:^axp$/", []),
        ("regex:default@axp/", [1]),
        ("regex:[model", [0, 1, 2]),
        ("regex:axp]", [1]),
        ("regex:axpy]/", []),
        ("regex:/axpy/", []),
        ("regex:[a-z]/", []),
        ("regex:/[a-z]+/", [0, 1, 2]),
        ("regex:/[0-9]+/", []),
        ("regex:model/axp", []),
        ("regex:model/a.*y", [1]),
        ("regex:model/load|axpy/", [0, 1]),
    ],
)
def test_push_pop_ranges_of_the_default_domain(expression: str, numbers: list[int]) -> None:
    assert kept(expression, PLAIN) == numbers


@pytest.mark.parametrize(
    ("expression", "numbers"),
    [
        ("h@C/+", [0]),
        ("h@B/+", []),
        ("h@A/+/+", [2]),
        ("h@A/+/*", [0, 2]),
        ("h@A/+/*/D", [0]),
        ("h@A/*/+/D", []),
        ("h@A/*/B/C", [0]),
        ("h@A/+/C/D", [0]),
        ("h@B/C/D]", [0]),
        ("h@[A/*/D]", [0]),
        ("h@[A/*]", []),
        ("h@D/*]", []),
        ("h@[A]", []),
        ("h@[A/B]", [2]),
        ("h@A/A", []),
        ("h@A/*/A", [0, 2]),
        ("regex:h@B|C/D", [0]),
        ("regex:h@a]", [1]),
        ("regex:h@a./+/a.", [1]),
        ("regex:h@a./a./a.", [1]),
        ("regex:h@a/+", [1]),
        ("regex:@A/", [0, 1, 2]),
        ("h@A,A", [0]),
        ("h@A,", []),
        ("h@,A", []),
        ("regex:h|k@E,A", [0]),
        ("regex:[hk]@A", [0, 1]),
    ],
)
def test_stacks_and_quantifiers(expression: str, numbers: list[int]) -> None:
    assert kept(expression, LETTERS) == numbers


# --- malformed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    ["", "hroof@", "@axpy/", "a@b@c/", "hroof@*/", "*/axpy", "+/axpy", "hroof@/", "h@u@h", "regex:h@u@h",
     "regex:hroof@step[0-9]", "regex:hroof@S[23]", "regex:*/", "regex:(/", "regex:(", "regex:x(@b", "regex:h@x./["],
)  # fmt: skip
def test_what_ncu_refuses_is_refused(expression: str) -> None:
    with pytest.raises(UsageError, match="refuses the NVTX filter") as caught:
        parse(expression)
    assert repr(expression) in str(caught.value)


@given(st.text("ab/@*+[],\\:^$.(|", max_size=9), st.sampled_from(["", "regex:"]))
def test_any_text_is_a_filter_or_refused(text: str, prefix: str) -> None:
    try:
        found = parse(prefix + text)
    except UsageError:
        return
    assert found.matches(LETTERS[0]) in (True, False)
    assert found.names


# --- hroof's own --------------------------------------------------------------------------------


def test_the_filter_of_steps_keeps_steps_only() -> None:
    names = Names()
    marks = [
        Mark(Kind.STEP, "6"),
        Mark(Kind.REGION, "S"),
        Mark(Kind.PHASE, "S"),
        Mark(Kind.LAYER, "S1", "forward"),
    ]
    step, region, phase, layer = (names.message(mark) for mark in marks)
    others = (*of(DOMAIN, region, phase), ("other", step))
    assert not matches(STEPS, Open(of(DOMAIN, layer, step), others))
    assert matches(STEPS, Open(of(DOMAIN, layer), (*others, (DOMAIN, step))))
    assert not matches(STEPS, Open((), of(f"{DOMAIN}2", step)))


@given(st.text(max_size=150))
def test_messages_need_no_escaping(name: str) -> None:
    message = Names().message(Mark(Kind.LAYER, name, "forward"))
    assert escape(message) == message
    assert re.fullmatch(r"[\w.|\-=]+", message, re.ASCII)
