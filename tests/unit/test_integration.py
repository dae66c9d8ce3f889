"""Discovery of integrations: by entry point, loud only when asked for by name."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import pytest

from hroof import integration
from hroof.errors import MissingError, UsageError
from hroof.integration import GROUP, CeilingKernel, Device, Stage


def install(monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Pretend that exactly these integrations (name → module) are installed."""
    points = [EntryPoint(name, module, GROUP) for name, module in modules.items()]

    def listed(*, group: str) -> list[EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr("importlib.metadata.entry_points", listed)


def put(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """Let a module of this name be imported already."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_this_distribution_declares_its_integrations() -> None:
    points = {point.name: point.value for point in entry_points(group=GROUP)}
    assert points["torch"] == "hroof_torch"
    assert set(integration.known()) == set(points)


def test_an_integration_is_loaded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = put(monkeypatch, "hroof_abacus")
    install(monkeypatch, abacus="hroof_abacus")
    assert integration.load("abacus") is module


def test_an_unknown_name_lists_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, zeta="hroof_zeta", abacus="hroof_abacus")
    with pytest.raises(UsageError, match=r"no integration 'jax'.*Known: abacus, zeta\."):
        integration.load("jax")


def test_an_unknown_name_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    with pytest.raises(UsageError, match=r"Known: none\."):
        integration.load("torch")


def test_an_absent_framework_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, abacus="hroof_no_such_module")
    with pytest.raises(MissingError, match=r"abacus integration.*hroof_no_such_module") as caught:
        integration.load("abacus")
    assert "pip install 'hroof[abacus]'" in caught.value.remedy


def test_a_broken_shared_library_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: EntryPoint) -> object:
        raise OSError("libabacus.so: cannot open shared object file")

    install(monkeypatch, abacus="hroof_abacus")
    monkeypatch.setattr(EntryPoint, "load", broken)
    with pytest.raises(MissingError, match=r"libabacus\.so"):
        integration.load("abacus")


def test_the_remedy_is_not_said_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(self: EntryPoint) -> object:
        raise ImportError("it needs Abacus; install it with: pip") from ImportError("No abacus")

    install(monkeypatch, abacus="hroof_abacus")
    monkeypatch.setattr(EntryPoint, "load", absent)
    with pytest.raises(MissingError) as caught:
        integration.load("abacus")
    assert str(caught.value).lower().count("install it with") == 1
    assert caught.value.fact == "The abacus integration cannot be imported: No abacus."


def test_active_are_those_whose_framework_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, zeta="hroof_zeta", abacus="hroof_abacus", idle="hroof_idle")
    expected = [put(monkeypatch, "hroof_abacus"), put(monkeypatch, "hroof_zeta")]
    put(monkeypatch, "zeta")
    put(monkeypatch, "abacus")
    assert integration.active() == expected


def test_an_idle_broken_integration_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, never_imported="hroof_no_such_module")
    assert integration.active() == []


def test_a_device_has_no_facts_of_its_own_making() -> None:
    one, other = Device("cpu", "chip"), Device("cpu", "chip")
    assert one == other
    assert (dict(one.caches), dict(one.facts), one.shared_pipes) == ({}, {}, False)


def test_a_ceiling_kernel_is_prepared_only_when_asked() -> None:
    calls: list[str] = []

    def prepare() -> tuple[object, float]:
        calls.append("prepared")
        return (lambda: calls.append("ran")), 8.0

    kernel = CeilingKernel("copy", "bandwidth", prepare)  # type: ignore[arg-type]
    assert calls == []
    run, work = kernel.prepare()
    run()
    assert (calls, work) == (["prepared", "ran"], 8.0)


def test_stages_in_the_order_of_a_run() -> None:
    assert list(Stage) == ["skip", "count", "time", "done"]
