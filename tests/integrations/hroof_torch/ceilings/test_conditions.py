"""Conditions that a device is described with: cores, limits of the clock, precision switches, denormals."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch

from hroof.ceilings import host, stale
from hroof.machine import Machine
from hroof_torch import ceilings


@pytest.fixture
def flush() -> Iterator[None]:
    """Denormals are flushed, as some training programs set it."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    yield
    torch.set_flush_denormal(False)


def test_the_cores_of_this_process_are_a_fact() -> None:
    facts = ceilings.device("cpu").facts
    assert facts["affinity"] == host.ranges(host.usable_cpus())
    assert facts["clock_limits"] == host.clock_limits(host.usable_cpus())


def test_denormals_are_kept_by_default() -> None:
    assert ceilings.device("cpu").facts["denormals"] == "kept"


def test_flushed_denormals_are_seen(flush: None) -> None:
    assert ceilings.device("cpu").facts["denormals"] == "flushed"


def test_switches_of_reductions_are_plain_values() -> None:
    switches = ceilings.device("cpu").facts["reductions"]
    assert set(switches) == {"fp16", "bf16", "fp16_accumulation"}
    assert all(value in (True, False, None) for value in switches.values())


def test_a_switch_that_pytorch_does_not_have_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cuda, "matmul", SimpleNamespace())
    assert set(ceilings.reduced_precision().values()) == {None}


def test_a_changed_switch_makes_ceilings_stale() -> None:
    matmul = torch.backends.cuda.matmul
    before = ceilings.device("cpu")
    machine = Machine(before.name, "cpu", facts=before.facts)
    assert stale(machine, ceilings.device("cpu")) == ()
    kept = matmul.allow_bf16_reduced_precision_reduction
    matmul.allow_bf16_reduced_precision_reduction = not kept
    try:
        (text,) = stale(machine, ceilings.device("cpu"))
    finally:
        matmul.allow_bf16_reduced_precision_reduction = kept
    assert text.startswith(f"reductions bf16 was {kept} when they were measured")
