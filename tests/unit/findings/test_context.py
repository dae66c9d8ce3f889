"""What every rule is given: rows, names, shares, and what the ceilings explain."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from hroof.findings.context import Context
from hroof.kernels import Family
from hroof.machine import Machine
from hroof.profile import Profile


def context(profile: Profile, machine: Machine) -> Context:
    return Context.of(profile, machine)


def test_families_are_those_of_the_ops(profile: Profile, machine: Machine) -> None:
    run = context(profile, machine)
    rows = run.of_family(Family.GEMM)
    assert set(run.launches["op"][rows]) == {"mm", "int_mm"}


def test_matrix_rows_have_matrix_work(profile: Profile, machine: Machine) -> None:
    run = context(profile, machine)
    assert set(run.launches["op"][run.matrix]) == {"mm", "int_mm"}


def test_names_by_falling_time(profile: Profile, machine: Machine) -> None:
    run = context(profile, machine)
    everything = np.ones(len(run.launches), dtype=bool)
    assert run.layers(everything)[:2] == ("fc1", "fc2")
    assert run.named(everything, "op").startswith("mm, adamw, sort and ")
    assert run.named(run.of_family(Family.SORT), "op") == "sort"
    assert run.named(np.zeros(len(run.launches), dtype=bool), "op") == ""


def test_what_the_ceilings_explain_says_where_its_counts_come_from(
    profile: Profile, machine: Machine
) -> None:
    run = context(profile, machine)
    point = run.point(run.matrix)
    assert point is not None
    (sentence,) = run.explained(point)
    assert sentence.startswith("Of its time the ceilings explain: arithmetic ")
    assert "(counted FLOP)" in sentence
    assert "(predicted bytes)" in sentence


def test_without_ceilings_nothing_is_explained(profile: Profile) -> None:
    run = context(profile, Machine("none"))
    point = run.point(run.matrix)
    assert point is not None
    assert run.explained(point) == ()


def test_work_of_no_time_explains_nothing(build: SimpleNamespace) -> None:
    rows = [build.row("a", "forward", "mm", 0, step=0, **build.flop(matrix_fp32=1e6))]
    run = context(Profile.from_rows(rows), build.machine())
    assert run.point(run.matrix) is None


def test_a_share_is_never_more_than_one(profile: Profile, machine: Machine) -> None:
    run = context(profile, machine)
    assert run.share(1e9) == 1.0
    assert run.share(0.0) == 0.0
