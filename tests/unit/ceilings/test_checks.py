"""Checks: each doubt has its sentence, and a sound machine has none."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.ceilings import checks
from hroof.machine import Machine
from hroof.units import MemoryLevel, Pipe, Precision

L1, L2, L3, DRAM = MemoryLevel


@pytest.fixture
def sound(fake: SimpleNamespace) -> Any:
    """Builds a machine with nothing to complain about, but for the given changes."""

    def build(**changes: Any) -> Machine:
        matrix = {Precision.FP64: 50e9, Precision.FP32: 100e9, Precision.BF16: 200e9}
        values: dict[str, Any] = {
            "name": "sound",
            "peaks": {(Pipe.MATRIX, p): fake.ceiling(rate) for p, rate in matrix.items()},
            "bandwidths": {
                level: fake.ceiling(rate)
                for level, rate in zip(MemoryLevel, (400e9, 200e9, 100e9, 40e9), strict=True)
            },
            "launch_cost": fake.ceiling(1e-6),
            "caches": {L1: 1, L2: 2, L3: 3},
        }
        return Machine(**values | changes)

    return build


def peaks(fake: SimpleNamespace, **rates: float) -> dict[tuple[Pipe, Precision], Any]:
    return {(Pipe.MATRIX, Precision(name)): fake.ceiling(rate) for name, rate in rates.items()}


def test_a_sound_machine_has_no_warnings(sound: Any) -> None:
    assert checks.warnings(sound()) == ()


@pytest.mark.parametrize(
    ("share", "disturbed"), [(0.99, False), (0.5, True), (None, False), ("odd", False)]
)
def test_processor_time_of_other_programs_disturbs(
    sound: Any, share: object, disturbed: bool
) -> None:
    machine = sound(facts={"own_share": share})
    assert checks.is_disturbed(machine) is disturbed
    assert bool(checks.warnings(machine)) is disturbed


def test_odd_ratios_are_not_told_when_other_programs_explain_them(
    sound: Any, fake: SimpleNamespace
) -> None:
    odd = {"peaks": peaks(fake, fp64=1e9, fp32=100e9, bf16=5e9)}
    assert len(checks.warnings(sound(**odd))) == 2
    (only,) = checks.warnings(sound(**odd, facts={"own_share": 0.4}))
    assert only.startswith("Other programs took 60 % of the processor time")


def test_levels_out_of_order_are_a_disturbance(sound: Any, fake: SimpleNamespace) -> None:
    assert not checks.is_disturbed(sound())
    bandwidths = {L1: fake.ceiling(1e9), L2: fake.ceiling(2e9)}
    assert checks.is_disturbed(sound(bandwidths=bandwidths))


def test_a_nearer_level_that_is_slower_is_named_with_both_rates(
    sound: Any, fake: SimpleNamespace
) -> None:
    bandwidths = {L1: fake.ceiling(100e9), L2: fake.ceiling(200e9)}
    (warning,) = checks.warnings(sound(bandwidths=bandwidths, caches={L1: 1}))
    assert warning.startswith("L1 (100 GB/s) is slower than L2 (200 GB/s)")


@pytest.mark.parametrize(
    ("near", "spread", "warned"),
    [(96e9, 0.0, False), (94e9, 0.0, True), (85e9, 0.2, False), (75e9, 0.2, True)],
)
def test_equality_within_the_spread_is_allowed(
    fake: SimpleNamespace, near: float, spread: float, warned: bool
) -> None:
    bandwidths = {L2: fake.ceiling(near, spread=spread), L3: fake.ceiling(100e9, spread=0.0)}
    assert bool(list(checks.level_order(bandwidths))) is warned


def test_an_unknown_spread_counts_as_none(fake: SimpleNamespace) -> None:
    bandwidths = {
        L2: fake.ceiling(90e9, spread=math.nan),
        L3: fake.ceiling(100e9, spread=math.nan),
    }
    assert len(list(checks.level_order(bandwidths))) == 1


def test_inverted_levels_are_found_across_a_gap(fake: SimpleNamespace) -> None:
    bandwidths = {L1: fake.ceiling(10), DRAM: fake.ceiling(30), L3: fake.ceiling(20)}
    assert checks.inverted(bandwidths) == [(L1, L3), (L3, DRAM)]
    assert checks.inverted({}) == []


def test_a_cache_without_a_roof_is_named(sound: Any, fake: SimpleNamespace) -> None:
    bandwidths = {L1: fake.ceiling(2e9), DRAM: fake.ceiling(1e9)}
    found = checks.warnings(sound(bandwidths=bandwidths, caches={L1: 1, L3: 3}))
    assert found == ("No kernel measured L3, so it has no roof.",)


def test_unknown_caches_are_named(sound: Any, fake: SimpleNamespace) -> None:
    (warning,) = checks.warnings(sound(bandwidths={DRAM: fake.ceiling(1e9)}, caches={}))
    assert "how large the caches are" in warning


def test_a_slow_fp64_kernel_is_a_lower_bound(sound: Any, fake: SimpleNamespace) -> None:
    (warning,) = checks.warnings(sound(peaks=peaks(fake, fp64=25e9, fp32=100e9)))
    assert warning.startswith("fp64 reaches 50 % of half the fp32 peak: it is a lower bound")


def test_a_slow_fp32_kernel_is_doubtful(sound: Any, fake: SimpleNamespace) -> None:
    (warning,) = checks.warnings(sound(peaks=peaks(fake, fp64=50e9, fp32=60e9)))
    assert warning.startswith("fp32 is only 1.2 times as fast as fp64")


@pytest.mark.parametrize("name", ["bf16", "fp16", "int8"])
def test_a_format_slower_than_fp32_is_converted(
    sound: Any, fake: SimpleNamespace, name: str
) -> None:
    (warning,) = checks.warnings(sound(peaks=peaks(fake, fp32=100e9, **{name: 60e9})))
    assert f"Matrix products in {name} are slower" in warning


def test_ratios_of_precisions_are_not_expected_of_a_gpu(sound: Any, fake: SimpleNamespace) -> None:
    gpu = sound(device="cuda:0", peaks=peaks(fake, fp64=1e9, fp32=64e9), caches={L1: 1, L2: 2})
    assert checks.warnings(gpu) == ()


@pytest.mark.parametrize("more", [{"spread": 0.4}, {"median": 50e9}])
def test_unsteady_samples_are_named_together(
    sound: Any, fake: SimpleNamespace, more: dict[str, float]
) -> None:
    machine = sound(
        bandwidths={L1: fake.ceiling(100e9, **more)},
        caches={L1: 1},
        peaks={(Pipe.MATRIX, Precision.FP32): fake.ceiling(100e9, **more)},
        launch_cost=fake.ceiling(1e-6, median=2e-6),
    )
    (warning,) = checks.warnings(machine)
    assert warning.startswith("The samples of L1, matrix fp32, launch vary much")


def test_ceilings_without_statistics_are_not_called_unsteady(
    sound: Any, fake: SimpleNamespace
) -> None:
    unknown = fake.ceiling(1e9, median=math.nan, spread=math.nan)
    assert checks.warnings(sound(bandwidths={L1: unknown}, caches={L1: 1})) == ()
