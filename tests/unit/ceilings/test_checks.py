"""Checks: each doubt has its sentence, and a sound machine has none."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.ceilings import checks
from hroof.machine import Machine, Sweep
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


# --- more than the hardware can do --------------------------------------------------------------

CORES = {"per_cycle": {"l1": 128.0, "vector_fp32": 64.0, "matrix_int8": 256.0}, "threads": 2}
"""At 1 GHz: 256 GB/s, 128 GFLOP/s, 512 GOP/s."""


def test_a_level_above_width_and_clock_is_named_with_its_limit(
    sound: Any, fake: SimpleNamespace
) -> None:
    machine = sound(facts={**CORES, "clock": 1e9})
    assert list(checks.too_fast(machine)) == ["l1"]
    (warning,) = checks.warnings(machine)
    assert warning.startswith("L1 (400 GB/s) is more than the cores can do (256 GB/s by their")


@pytest.mark.parametrize(("clock", "fast"), [(1.48e9, True), (1.5e9, False)])
def test_five_percent_above_are_allowed(sound: Any, clock: float, fast: bool) -> None:
    assert bool(checks.too_fast(sound(facts={**CORES, "clock": clock}))) is fast


def test_peaks_above_their_limit_have_their_unit(sound: Any, fake: SimpleNamespace) -> None:
    pair = (Pipe.VECTOR, Precision.FP32)
    found = {pair: fake.ceiling(200e9), (Pipe.MATRIX, Precision.INT8): fake.ceiling(900e9)}
    machine = sound(peaks=found, facts={**CORES, "clock": 1e9}, bandwidths={})
    texts = checks.too_fast(machine)
    assert texts["vector_fp32"].startswith("vector fp32 (200 GFLOP/s) is more")
    assert "(512 GOP/s by" in texts["matrix_int8"]


def test_without_a_clock_nothing_is_too_fast(sound: Any) -> None:
    assert checks.too_fast(sound(facts=CORES)) == {}


@pytest.fixture
def gpu(fake: SimpleNamespace) -> Any:
    """Builds an A100 with some ceilings."""

    def build(dram: float = 1.8e12, bf16: float = 270e12, **facts: Any) -> Machine:
        return Machine(
            "NVIDIA A100-SXM4-80GB",
            "cuda:0",
            peaks=peaks(fake, bf16=bf16),
            bandwidths={DRAM: fake.ceiling(dram)},
            facts={"clock": 1.41e9, **facts},
        )

    return build


def test_a_gpu_within_its_data_sheet_has_no_warnings(gpu: Any) -> None:
    assert checks.warnings(gpu()) == ()


@pytest.mark.parametrize(("dram", "fast"), [(2.05e12, False), (2.07e12, True)])
def test_one_percent_above_the_sheet_is_allowed(gpu: Any, dram: float, fast: bool) -> None:
    machine = gpu(dram=dram)
    assert bool(checks.too_fast(machine)) is fast
    assert any("102 % of the data sheet" in w for w in checks.warnings(machine)) is fast


def test_far_below_the_sheet_is_told_and_not_measured_again(gpu: Any) -> None:
    machine = gpu(bf16=150e12)
    (warning,) = checks.warnings(machine)
    assert warning.startswith("Less than 60 % of the data sheet: matrix bf16 48 %.")
    assert checks.too_fast(machine) == {} and checks.too_slow(machine) == set()


# --- ceilings that a user gives -----------------------------------------------------------------


def test_a_given_peak_with_sparsity_is_told_once(gpu: Any) -> None:
    (warning,) = checks.given(gpu(bf16=624e12))
    assert warning.startswith("The peak of matrix bf16 is twice what the data sheet gives")


def test_a_given_peak_above_the_sheet_is_told(gpu: Any) -> None:
    (warning,) = checks.given(gpu(bf16=400e12))
    assert warning.startswith("matrix bf16 (400 TFLOP/s) is 128 % of the data sheet")


def test_given_peaks_within_the_sheet_or_of_unknown_devices_are_fine(gpu: Any, sound: Any) -> None:
    assert checks.given(gpu()) == ()
    assert checks.given(sound()) == ()


# --- levels that are the same -------------------------------------------------------------------


def test_equal_levels_are_not_resolved(sound: Any, fake: SimpleNamespace) -> None:
    bandwidths = {L1: fake.ceiling(205e9), L2: fake.ceiling(200e9), DRAM: fake.ceiling(20e9)}
    (warning,) = checks.warnings(sound(bandwidths=bandwidths, caches={L1: 1, L2: 2}))
    assert warning.startswith("L1 (205 GB/s) and L2 (200 GB/s) are not resolved: no kernel")


def test_the_reason_is_the_width_of_the_kernel_where_that_shows(
    sound: Any, fake: SimpleNamespace
) -> None:
    bandwidths = {L1: fake.ceiling(205e9), L2: fake.ceiling(200e9)}
    facts = {**CORES, "clock": 1.6e9}
    (warning,) = checks.warnings(sound(bandwidths=bandwidths, caches={L1: 1, L2: 2}, facts=facts))
    assert "the kernel takes 50 % of what the cores can load" in warning
    assert "so L1 is a lower bound" in warning


def test_a_cache_like_dram_points_at_the_sizes(sound: Any, fake: SimpleNamespace) -> None:
    bandwidths = {L2: fake.ceiling(200e9), L3: fake.ceiling(42e9), DRAM: fake.ceiling(40e9)}
    (warning,) = checks.warnings(sound(bandwidths=bandwidths, caches={L2: 1, L3: 2}))
    assert "and DRAM (40.0 GB/s) are not resolved" in warning and "cache sizes" in warning


@pytest.mark.parametrize("near", [180e9, 221e9])
def test_levels_apart_or_out_of_order_are_no_equal_ones(
    sound: Any, fake: SimpleNamespace, near: float
) -> None:
    bandwidths = {L1: fake.ceiling(near), L2: fake.ceiling(200e9)}
    assert not list(checks.unresolved(sound(bandwidths=bandwidths)))


# --- other signs --------------------------------------------------------------------------------


def test_a_sweep_without_plateau_confirms_nothing(sound: Any) -> None:
    flat = Sweep((1024, 2048), (2e9, 1e9))
    (warning,) = checks.warnings(sound(sweep=flat))
    assert "shows no plateau" in warning
    assert (
        checks.warnings(sound(sweep=dataclasses.replace(flat, plateaus=((2e9, 2), (1e9, 2048)))))
        == ()
    )


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"stolen_share": 0.2}, "The hypervisor gave 20 % of the processor time"),
        ({"quota_hits": 3}, "A quota of the container stopped this program 3 times"),
        ({"throttles": 2}, "Cores slowed down 2 times meanwhile because they were too hot"),
    ],
)
def test_what_held_the_cores_back_is_told(sound: Any, facts: dict[str, Any], text: str) -> None:
    (warning,) = checks.warnings(sound(facts=facts))
    assert warning.startswith(text)


@pytest.mark.parametrize("facts", [{"stolen_share": 0.01}, {"quota_hits": 0}, {"throttles": None}])
def test_a_quiet_machine_has_no_such_signs(sound: Any, facts: dict[str, Any]) -> None:
    assert checks.warnings(sound(facts=facts)) == ()


def test_stolen_time_is_a_disturbance(sound: Any) -> None:
    assert checks.is_disturbed(sound(facts={"stolen_share": 0.2}))
    assert not checks.is_disturbed(sound(facts={"quota_hits": 5}))


def test_both_levels_of_an_inverted_pair_are_too_slow(sound: Any, fake: SimpleNamespace) -> None:
    bandwidths = {L1: fake.ceiling(1e9), L2: fake.ceiling(2e9), DRAM: fake.ceiling(1e8)}
    assert checks.too_slow(sound(bandwidths=bandwidths)) == {"l1", "l2"}


def test_a_copy_slower_than_that_of_the_next_level_is_told_and_measured_again(
    sound: Any, fake: SimpleNamespace
) -> None:
    others = {
        "l2 copy": fake.ceiling(1e9),
        "l3 copy": fake.ceiling(2e9),
        "l3 triad": fake.ceiling(3e9),
    }
    machine = sound(others=others)
    assert checks.too_slow(machine) == {"l2 copy", "l3 copy"}
    (told,) = checks.orders(machine)
    assert told.startswith("L2 copy (1.00 GB/s) is slower than L3 copy (2.00 GB/s)")


def test_a_level_is_compared_only_with_the_same_mix(sound: Any, fake: SimpleNamespace) -> None:
    others = {"l2 copy": fake.ceiling(1e6), "l3 triad": fake.ceiling(3e9)}
    assert checks.too_slow(sound(others=others)) == set()
