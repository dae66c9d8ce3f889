"""Conditions: what differs beside the times is said before any number."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hroof.compare import compare, conditions, differ_in_size
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.units import MemoryLevel, Pipe, Precision


def said(base: Profile, new: Profile, **machines: Machine | None) -> list[str]:
    return conditions(compare(base, new, **machines))


@pytest.fixture
def both(machine: Machine) -> dict[str, Machine]:
    """The same ceilings for both runs."""
    return {"base_machine": machine, "new_machine": machine}


def test_equal_conditions_need_no_word(
    profile: Profile, build: Any, both: dict[str, Machine]
) -> None:
    assert said(profile, build.other({"fc1": 3.0}), **both) == []


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ({"device_name": "NVIDIA H200"}, "BASE ran on cpu, NEW on NVIDIA H200"),
        ({"device": {"name": "big cpu"}}, "BASE ran on cpu, NEW on big cpu"),
        ({"framework": "keras"}, "The frameworks differ: none and keras"),
        ({"status": "partial", "status_reason": "it was killed"}, "NEW is partial: it was killed."),
    ],
)
def test_what_the_runs_tell(
    profile: Profile, build: Any, both: dict[str, Machine], run: dict[str, Any], told: str
) -> None:
    (text,) = said(profile, build.other(**run), **both)
    assert told in text


def test_settings(build: Any, both: dict[str, Machine]) -> None:
    base = build.other(
        facts={"threads": 4, "float32": {"a": 1, "b": 1}, "caches": 1}, versions={"torch": "2.12"}
    )
    new = build.other(
        facts={"threads": 8, "float32": {"a": 2, "b": 1}, "caches": 2}, versions={"torch": "2.13"}
    )
    assert said(base, new, **both) == [
        "Settings differ: threads was 4 in BASE and is 8 in NEW.",
        "Settings differ: float32 a was 1 in BASE and is 2 in NEW.",
        "Settings differ: versions torch was 2.12 in BASE and is 2.13 in NEW.",
    ]


def test_a_setting_that_one_run_does_not_know_is_not_compared(
    profile: Profile, build: Any, both: dict[str, Machine]
) -> None:
    assert said(profile, build.other(facts={"threads": 8}), **both) == []
    assert said(build.other(facts="odd", versions=["odd"]), build.other(), **both) == []


class TestCeilings:
    def test_that_are_missing(self, profile: Profile, build: Any, machine: Machine) -> None:
        (text,) = said(profile, build.other())
        assert "no ceilings for BASE and NEW" in text
        assert "hroof ceilings" in text
        (text,) = said(profile, build.other(), base_machine=machine)
        assert "no ceilings for NEW:" in text

    def test_of_one_machine_that_differ(
        self, profile: Profile, build: Any, machine: Machine
    ) -> None:
        other = build.machine(bandwidths={MemoryLevel.DRAM: Ceiling(15e9)})
        (text,) = said(profile, build.other(), base_machine=machine, new_machine=other)
        assert "DRAM 10.0 G → 15.0 G" in text
        assert "matrix" not in text

    def test_that_differ_by_their_spread_only(
        self, profile: Profile, build: Any, machine: Machine
    ) -> None:
        peaks = {(Pipe.MATRIX, Precision.FP32): Ceiling(105e9)}
        other = build.machine(peaks=peaks)
        assert said(profile, build.other(), base_machine=machine, new_machine=other) == []

    def test_of_two_machines_are_not_held_against_one_another(
        self, profile: Profile, build: Any, machine: Machine
    ) -> None:
        fast = {(Pipe.MATRIX, Precision.FP32): Ceiling(1e15)}
        other = dataclasses.replace(machine, name="another", peaks=fast)
        assert said(profile, build.other(), base_machine=machine, new_machine=other) == []


@pytest.mark.parametrize(
    ("clocks", "told"), [((1.3e9, 1.5e9), True), ((1.5e9, 1.51e9), False), ((None, 1e9), False)]
)
def test_clocks(
    build: Any, both: dict[str, Machine], clocks: tuple[float | None, float], told: bool
) -> None:
    found = said(build.other(clock=clocks[0]), build.other(clock=clocks[1]), **both)
    assert [text.startswith("The clocks differ: 1.30 GHz") for text in found] == [True] * told


class TestSteps:
    @pytest.mark.parametrize(
        ("scales", "told"),
        [
            ((1.0,), "NEW has 1 step: nothing is known of its noise"),
            ((1.0, 1.1), "NEW has 2 steps: its noise is a guess"),
        ],
    )
    def test_few(
        self,
        profile: Profile,
        build: Any,
        both: dict[str, Machine],
        scales: tuple[float, ...],
        told: str,
    ) -> None:
        (text,) = said(profile, build.other(scales=scales), **both)
        assert text.startswith(told)

    def test_none(self, build: Any, both: dict[str, Machine]) -> None:
        run = Profile.from_rows([row | {"step": -1} for row in build.rows()], build.run())
        (text,) = said(run, run, **both)
        assert "sums over the whole runs" in text


def test_ranks(profile: Profile, build: Any, both: dict[str, Machine]) -> None:
    other = Profile.from_rows([row | {"rank": 1} for row in build.rows()], build.run())
    texts = said(profile, Profile.merge([profile, other]), **both)
    assert "BASE has 1 rank, NEW 2: launch times, FLOP and bytes are sums over all ranks." in texts


class TestSources:
    def test_bytes_and_flop_of_counters(
        self, profile: Profile, build: Any, both: dict[str, Machine]
    ) -> None:
        rows = [row | {"source_l1": "counter", "source_flop": "counter"} for row in build.rows()]
        texts = said(profile, Profile.from_rows(rows, build.run()), **both)
        assert [text.split(":")[0] for text in texts] == [
            "No differences of FLOP",
            "No differences of bytes at L1",
        ]
        assert "convention in BASE, counter in NEW" in texts[0]

    def test_runs_without_times(
        self, profile: Profile, build: Any, both: dict[str, Machine]
    ) -> None:
        rows = [row | {"duration": float("nan")} for row in build.rows()]
        paper = Profile.from_rows(rows, build.run())
        assert "NEW has no times: only FLOP, bytes" in " ".join(said(profile, paper, **both))
        assert "BASE has no times" in " ".join(said(paper, profile, **both))
        assert "Neither run has times" in " ".join(said(paper, paper, **both))


class TestSize:
    def scaled(self, build: Any, factor: float, only: str = "") -> Profile:
        """The small run with more FLOP in every layer, or in one."""
        rows = build.rows()
        for row in rows:
            if only in ("", row["layer"]):
                work = {name: value * factor for name, value in row.items() if "flop_" in name[:5]}
                row |= work
        return Profile.from_rows(rows, build.run())

    def test_another_batch_is_told(
        self, profile: Profile, build: Any, both: dict[str, Machine]
    ) -> None:
        text = said(profile, self.scaled(build, 2.0), **both)[0]
        assert "NEW does 2.00 times the forward FLOP of BASE in nearly every layer" in text
        assert "Per FLOP of these, NEW is 2.00 times as fast" in text

    def test_one_layer_that_does_more_is_no_other_batch(self, profile: Profile, build: Any) -> None:
        assert differ_in_size(compare(profile, self.scaled(build, 2.0, "fc1"))) is None
        assert differ_in_size(compare(profile, build.other())) is None

    def test_factor(self, profile: Profile, build: Any) -> None:
        assert differ_in_size(compare(profile, self.scaled(build, 0.5))) == pytest.approx(0.5)


def test_layers_above_their_roof_are_no_success(
    profile: Profile, build: Any, both: dict[str, Machine]
) -> None:
    (text,) = said(profile, build.other({"fc2": 0.1}), **both)
    assert text.startswith("Faster than the ceilings of NEW allow: fc2. A ceiling, a count")
    names = {f"l{i}": 1e-3 for i in range(5)}
    rows = [
        row | {"layer": name} for name in names for row in build.rows() if row["layer"] == "fc1"
    ]
    fast = [row | {"duration": row["duration"] * 1e-3} for row in rows]
    texts = said(Profile.from_rows(fast), Profile.from_rows(rows), **both)
    assert any("of BASE allow: l0, l1, l2 and 2 more." in text for text in texts)
