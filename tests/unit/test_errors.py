"""The error tree: fact, remedy, exit codes, and the builtins that callers expect."""

from __future__ import annotations

import pickle

import pytest

from hroof import errors
from hroof.errors import (
    CaptureError,
    HroofError,
    MissingError,
    OutputError,
    ProfileError,
    UsageError,
)

KINDS = [UsageError, ProfileError, OutputError, CaptureError, MissingError]


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_fact_then_remedy(kind: type[HroofError]) -> None:
    error = kind("'x' is wrong.", "Give y.")
    assert str(error) == "'x' is wrong. Give y."
    assert (error.fact, error.remedy) == ("'x' is wrong.", "Give y.")


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_remedy_the_message_is_the_fact(kind: type[HroofError]) -> None:
    assert str(kind("It is so.")) == "It is so."


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (UsageError, ValueError),
        (ProfileError, ValueError),
        (OutputError, OSError),
        (CaptureError, RuntimeError),
        (MissingError, ImportError),
    ],
)
def test_errors_are_also_the_builtin_that_a_caller_expects(
    kind: type[HroofError], builtin: type[Exception]
) -> None:
    with pytest.raises(builtin):
        raise kind("fact", "remedy")


def test_exit_codes_differ_and_none_is_success() -> None:
    codes = [kind.exit_code for kind in (HroofError, *KINDS)]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes


def test_the_drawn_tree_is_the_real_one() -> None:
    for kind in KINDS:
        assert kind.__mro__[1] is HroofError
        assert kind.__name__ in (errors.__doc__ or "")
    # Other modules, tests among them, may have their own below these.
    here = [kind for kind in HroofError.__subclasses__() if kind.__module__ == errors.__name__]
    assert here == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_the_way_between_processes(kind: type[HroofError]) -> None:
    back = pickle.loads(pickle.dumps(kind("fact.", "remedy.")))
    assert (type(back), back.fact, back.remedy) == (kind, "fact.", "remedy.")
