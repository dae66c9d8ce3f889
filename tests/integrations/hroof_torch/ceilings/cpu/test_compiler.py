"""Compiling ceiling kernels: where it can be done, how long it may take, and that it leaves no trace."""

from __future__ import annotations

import gc
import shutil
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.ceilings import host  # noqa: E402
from hroof_torch import private  # noqa: E402
from hroof_torch.ceilings.cpu.compiler import (  # noqa: E402
    Compiled,
    Workshop,
    compiler,
    evidence,
    unnoticed,
    uses_whole_vectors,
)


def doubled(x: Any) -> Any:
    """What the tests compile."""
    return x * 2 + 1


@pytest.fixture
def compiles() -> Iterator[None]:
    """Skips where nothing can be compiled; leaves no compiled callable to later tests."""
    if compiler() is None:
        pytest.skip("no C++ compiler, or no headers of Python")
    yield
    gc.collect()


class Refusing(Workshop):
    """Notes what it is asked to compile, and fails or runs it as it is."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self.asked: list[tuple[bool, bool]] = []
        self._failure = failure

    def compile(self, function: Any, example: Any, *, fma: bool, dynamic: bool = False) -> Any:
        self.asked.append((fma, dynamic))
        if self._failure is not None:
            raise self._failure
        return function


# --- whether it can be done ---------------------------------------------------------------------


def test_cxx_names_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = tmp_path / "my-c++"
    wanted.write_text("#!/bin/sh\n")
    wanted.chmod(0o755)
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setenv("CXX", str(wanted))
    assert compiler() == str(wanted)


@pytest.mark.parametrize(("system", "name"), [("linux", "g++"), ("darwin", "clang++")])
def test_without_cxx_the_usual_compiler_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, name: str
) -> None:
    (tmp_path / "Python.h").touch()
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setattr(shutil, "which", lambda wanted: f"/usr/bin/{wanted}")
    assert compiler() == f"/usr/bin/{name}"


def test_no_compiler_on_the_path_means_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compiler() is None


def test_without_the_headers_of_python_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert compiler() is None


def test_nothing_is_compiled_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert compiler() is None


@pytest.mark.parametrize(
    ("flags", "whole"),
    [
        ({"avx512f", "avx2"}, True),
        ({"avx2", "fma"}, True),
        ({"avx2"}, False),
        ({"asimd", "sve"}, False),
        (set(), False),
    ],
)
def test_only_known_vectors_prove_what_the_unit_can_do(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], whole: bool
) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset(flags))
    assert uses_whole_vectors() is whole
    assert evidence() == ("measured" if whole else "framework-reachable")


# --- a function is compiled once, or fails once -------------------------------------------------


def test_a_function_is_compiled_when_it_is_first_called_and_only_then() -> None:
    workshop = Refusing()
    compiled = Compiled(workshop, doubled, fma=True)
    assert workshop.asked == []
    first = compiled.call(torch.ones(2))
    second = compiled.call(torch.zeros(3))
    assert workshop.asked == [(True, False)]
    assert first().tolist() == [3, 3]
    assert second().tolist() == [1, 1, 1]


def test_dynamic_sizes_are_passed_on() -> None:
    workshop = Refusing()
    Compiled(workshop, doubled, fma=False, dynamic=True).call(torch.ones(2))
    assert workshop.asked == [(False, True)]


def test_a_failure_is_told_again_without_another_try() -> None:
    workshop = Refusing(RuntimeError("no such flag"))
    compiled = Compiled(workshop, doubled, fma=True)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="no such flag"):
            compiled.call(torch.ones(2))
    assert len(workshop.asked) == 1


def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 30.0, 30.0, 70.0])
    workshop = Workshop(patience=45.0, clock=lambda: next(seconds))
    monkeypatch.setattr(
        "hroof_torch.ceilings.cpu.compiler._compile", lambda function, *_, **__: function
    )
    for _ in range(2):  # 30 s, then 70 s: the one that goes beyond is finished
        workshop.compile(doubled, (torch.ones(2),), fma=True)
    assert workshop.spent == 70.0
    with pytest.raises(RuntimeError, match="compiling has taken 70 s already"):
        workshop.compile(doubled, (torch.ones(2),), fma=True)


def test_time_of_a_failed_compilation_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("disk full")

    seconds = iter([0.0, 50.0])
    workshop = Workshop(patience=45.0, clock=lambda: next(seconds))
    monkeypatch.setattr("hroof_torch.ceilings.cpu.compiler._compile", fail)
    with pytest.raises(OSError, match="disk full"):
        workshop.compile(doubled, (torch.ones(2),), fma=True)
    with pytest.raises(RuntimeError, match="50 s already"):
        workshop.compile(doubled, (torch.ones(2),), fma=True)


# --- without a trace ----------------------------------------------------------------------------


def test_warnings_are_kept_back_inside_only() -> None:
    with unnoticed():
        warnings.warn("about a switch", UserWarning, stacklevel=1)
    with pytest.warns(UserWarning, match="outside"):
        warnings.warn("outside", UserWarning, stacklevel=1)


def test_counts_are_put_back_also_after_a_failure() -> None:
    from torch._dynamo.utils import counters

    before = {name: dict(found) for name, found in counters.items() if found}
    with pytest.raises(RuntimeError, match="stop"), unnoticed():
        counters["stats"]["unique_graphs"] += 7
        counters["of a test"]["x"] += 1
        raise RuntimeError("stop")
    assert {name: dict(found) for name, found in counters.items() if found} == before


def test_a_switch_that_hides_failures_does_not_hide_them_here() -> None:
    from torch._dynamo import config

    with config.patch(suppress_errors=True):
        with unnoticed():
            assert config.suppress_errors is False
        assert config.suppress_errors is True


def test_a_compiled_kernel_is_right_and_leaves_no_trace(compiles: None) -> None:
    from torch._inductor import config

    graphs, state = private.dynamo_graph_count(), torch.get_rng_state()
    flag = config.cpp.enable_floating_point_contract_flag, config.cpp.vec_isa_ok
    known = private.has_compiled_callables()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = Compiled(Workshop(), doubled, fma=True)
        call = compiled.call(torch.arange(100.0))
    assert torch.equal(call(), torch.arange(100.0) * 2 + 1)
    assert private.dynamo_graph_count() == graphs
    assert private.has_compiled_callables() == known
    assert torch.equal(torch.get_rng_state(), state)
    assert (config.cpp.enable_floating_point_contract_flag, config.cpp.vec_isa_ok) == flag


def test_the_same_function_is_compiled_for_itself_each_time(compiles: None) -> None:
    from torch._dynamo import config

    # Dynamo gives up on a function after some compilations of the same code.
    with config.patch(recompile_limit=1):
        for size in (2, 3, 4):
            call = Compiled(Workshop(), doubled, fma=True).call(torch.ones(size))
            assert call().tolist() == [3.0] * size


def test_where_compiling_is_switched_off_there_is_no_kernel(compiles: None) -> None:
    torch.compiler.set_stance("force_eager")
    try:
        with pytest.raises(RuntimeError, match="did not compile it"):
            Compiled(Workshop(), doubled, fma=True).call(torch.ones(2))
    finally:
        torch.compiler.set_stance("default")


def test_autocast_of_the_program_changes_nothing(compiles: None) -> None:
    def product(x: Any) -> Any:
        return (x.unsqueeze(1) * x).sum(1)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        call = Compiled(Workshop(), product, fma=True).call(torch.ones(64))
        assert call().dtype is torch.float32


def test_a_cache_folder_that_cannot_be_written_is_a_failure_with_a_reason(
    compiles: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(blocked))

    def tripled(x: Any) -> Any:
        return x * 3 + 0.125

    with pytest.raises(Exception, match=r"exists|directory|file"):
        Compiled(Workshop(), tripled, fma=True).call(torch.ones(5))


def test_the_cache_folder_of_the_user_is_used(
    compiles: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def shifted(x: Any) -> Any:
        return x * 5 + 0.375

    Compiled(Workshop(), shifted, fma=True).call(torch.ones(5))
    assert any(tmp_path.rglob("*.so"))
