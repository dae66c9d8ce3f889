"""Rates beside the ceilings of a CPU: copy and triad of a level, products without a pause."""

from __future__ import annotations

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.ceilings import host, products  # noqa: E402
from hroof.ceilings.sizes import Windows, WorkingSets  # noqa: E402
from hroof.integration import CeilingKernel  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from hroof_torch.ceilings.cpu import kernels as ceilings_cpu  # noqa: E402
from hroof_torch.ceilings.cpu import peaks as ceilings_cpu_peaks  # noqa: E402

L1, L2, L3, DRAM = MemoryLevel
COPY, TRIAD = ceilings_cpu.MIXES
MEBI = 1024**2


# --- copy and triad -----------------------------------------------------------------------------


def test_copy_and_triad_do_what_stream_calls_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu, "_SCALE", 3.0)
    a, b, c = torch.tensor([1.0]), torch.tensor([2.0]), torch.zeros(1)
    COPY.run([a, c])
    assert c.item() == 1
    TRIAD.run([a, b, c])
    assert c.item() == 1 + 3 * 2
    assert (a.item(), b.item()) == (1, 2)


@pytest.mark.parametrize("mix", ceilings_cpu.MIXES, ids=lambda mix: mix.variant)
def test_tensor_bytes_are_counted_and_the_write_allocate_is_not(mix: ceilings_cpu.Mix) -> None:
    # 24 KiB per thread in all arrays together, twice for two threads; 32 MB per thread and call.
    call, work = ceilings_cpu.mixed(mix, 24 * 1024, threads=2)()
    arrays = 2 * 24 * 1024 // 256 // mix.arrays * mix.arrays * 256
    assert work == pytest.approx(2 * 32e6, rel=0.01)
    assert work % arrays == 0
    call()
    assert "write-allocate" in mix.note


def test_a_working_set_is_shared_by_all_arrays_of_a_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    mix = ceilings_cpu.Mix("noted", 3, seen.append, "A note.")
    monkeypatch.setattr(ceilings_cpu, "_TRAFFIC", 1.0)
    call, work = ceilings_cpu.mixed(mix, 96 * 1024, threads=2)()
    call()
    (arrays,) = seen
    assert [len(array) for array in arrays] == [2 * 8192] * 3
    assert work == 3 * 2 * 8192 * 4


def test_each_cache_beyond_l1_has_a_copy_and_a_triad_per_size() -> None:
    sizes = (100_000, 200_000, 300_000)
    for level in (L2, L3):
        offered = list(ceilings_cpu.mix_kernels(WorkingSets(level, sizes, each=True), 2))
        assert [(k.variant, k.size) for k in offered] == [
            ("copy", 100_000),
            ("copy", 200_000),
            ("triad", 100_000),
            ("triad", 200_000),
        ]
        assert {(k.level, k.threads, k.how) for k in offered} == {(level, 2, "framework-reachable")}
        assert all("dispatch" in k.note for k in offered)


@pytest.mark.parametrize(
    "sets",
    [WorkingSets(L1, (20_000,), each=True), WorkingSets(L3, (4_000_000,), each=False)],
    ids=["too short a pass", "threads would write the same data"],
)
def test_levels_where_a_mix_says_nothing_have_none(sets: WorkingSets) -> None:
    assert not list(ceilings_cpu.mix_kernels(sets, 2))


def dram(windows: Windows) -> list[CeilingKernel]:
    return list(ceilings_cpu.dram_kernels(windows, threads=1))


def test_dram_has_a_copy_and_a_triad_beside_its_ceiling() -> None:
    offered = dram(Windows(4, MEBI, enough=True))
    assert [k.variant for k in offered] == ["", "", "", "copy", "triad"]
    works = [kernel.prepare()[1] for kernel in offered]
    assert works == [MEBI, MEBI, 2 * MEBI, 2 * MEBI, 3 * MEBI]
    for kernel in offered:
        kernel.prepare()[0]()


def test_a_mix_of_dram_leaves_the_values_that_its_windows_share() -> None:
    read, _, _, _, triad = dram(Windows(4, MEBI, enough=True))
    add = triad.prepare()[0]
    for _ in range(20):
        add()
    total: Any = read.prepare()[0]()
    assert float(total) == MEBI / 4


def test_too_few_windows_for_a_triad_offer_no_mix() -> None:
    assert [k.variant for k in dram(Windows(3, MEBI, enough=True))] == ["", "", ""]


@pytest.mark.parametrize(("enough", "how"), [(True, "measured"), (False, "framework-reachable")])
def test_dram_is_measured_only_where_no_cache_can_hold_the_windows(enough: bool, how: str) -> None:
    assert {kernel.how for kernel in dram(Windows(4, MEBI, enough=enough))} == {how}


# --- sustained ----------------------------------------------------------------------------------


def plain(work: float, calls: list[int]) -> CeilingKernel:
    return CeilingKernel(
        "mm 8",
        "peak",
        lambda: (lambda: calls.append(1), work),
        pipe=Pipe.MATRIX,
        precision=Precision.FP32,
        note="A note.",
    )


def test_sustained_work_is_many_calls_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([10.0, 10.05])
    monkeypatch.setattr(time, "perf_counter", lambda: next(seconds))
    calls: list[int] = []
    call, work = products.sustained(plain(7.0, calls)).prepare()
    calls.clear()
    call()
    assert len(calls) == 5  # a quarter of a second, 50 ms each
    assert work == 5 * 7.0


def test_one_long_call_is_sustained_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 3.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(seconds))
    assert products.sustained(plain(7.0, [])).prepare()[1] == 7.0


def test_sustained_rates_stand_beside_their_ceiling() -> None:
    kernel = products.sustained(plain(1.0, []))
    assert (kernel.variant, kernel.name, kernel.pipe) == (
        "sustained",
        "mm 8 sustained",
        Pipe.MATRIX,
    )
    assert kernel.note.startswith("A note. ") and "without a pause" in kernel.note


def test_every_offered_precision_has_one_sustained_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu_peaks, "is_offered", lambda p: p is not Precision.FP16)
    offered = list(ceilings_cpu_peaks.peak_kernels(1))
    assert sorted(str(k.precision) for k in offered if k.variant == "sustained") == [
        "bf16",
        "fp32",
        "fp64",
        "int8",
    ]


# --- products -----------------------------------------------------------------------------------


def test_bf16_has_a_convolution_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu_peaks, "_FLOP", 1.0)
    call, work = ceilings_cpu_peaks.convolution(1, Precision.BF16)()
    result: Any = call()
    assert result.dtype is torch.bfloat16
    assert work == ceilings_cpu_peaks.convolution(1)()[1]


@pytest.mark.parametrize(
    ("flags", "precision", "told"),
    [
        ({"amx_bf16", "amx_int8"}, Precision.BF16, True),
        ({"amx_bf16", "amx_int8"}, Precision.INT8, True),
        ({"amx_bf16", "amx_int8"}, Precision.FP16, False),
        ({"amx_bf16", "amx_int8"}, Precision.FP32, False),
        ({"avx512_bf16"}, Precision.BF16, False),
    ],
)
def test_products_on_a_matrix_unit_say_that_it_may_do_more(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], precision: Precision, told: bool
) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset(flags))
    kernels = list(ceilings_cpu_peaks._products(precision, 1))
    assert all(("matrix unit may reach more" in k.note) is told for k in kernels)
    assert {k.how for k in kernels} == {"framework-reachable"}
