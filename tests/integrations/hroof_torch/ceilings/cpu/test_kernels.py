"""PyTorch's devices and CPU ceiling kernels: what they say, run and count."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.ceilings import Plan, host, measure, products  # noqa: E402
from hroof.ceilings.host import Cache  # noqa: E402
from hroof.ceilings.sizes import Windows, WorkingSets  # noqa: E402
from hroof.errors import MissingError  # noqa: E402
from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from hroof_torch import ceilings  # noqa: E402
from hroof_torch.ceilings.cpu import kernels as ceilings_cpu  # noqa: E402
from hroof_torch.ceilings.cpu import peaks as ceilings_cpu_peaks  # noqa: E402

L1, L2, L3, DRAM = MemoryLevel
KIB = 1024
SMALL_CACHES = (
    Cache(L1, 48 * KIB, 2, 1, 96 * KIB),
    Cache(L2, 1024 * KIB, 2, 1, 2048 * KIB),
    Cache(L3, 8192 * KIB, 1, 2, 8192 * KIB),
)


def small_cpu(threads: int = 1) -> Device:
    """A CPU with small caches, so that its DRAM windows are few."""
    facts = {
        "threads": threads,
        "caches": [host.cache_fact(cache) for cache in SMALL_CACHES],
    }
    return Device("cpu", "small", {c.level: c.total for c in SMALL_CACHES}, True, facts)


def quickened(kernel: CeilingKernel, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, float]:
    """The kernel's call and work, with as little work per call as possible."""
    monkeypatch.setattr(ceilings_cpu, "_TRAFFIC", 1.0)
    monkeypatch.setattr(ceilings_cpu_peaks, "_FLOP", 1.0)
    return kernel.prepare()


def offer_small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small matrices, no sustained work, and bf16 whatever a probe on a busy machine would say."""
    monkeypatch.setattr(products, "_SUSTAIN", 0.0)
    monkeypatch.setattr(products, "_CUBES", (32, 48, 64))
    monkeypatch.setattr(ceilings_cpu_peaks, "is_offered", lambda p: p is Precision.BF16)


@pytest.fixture
def random_state() -> Iterator[None]:
    """Fails if the program's random state has changed."""
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before)


# --- the device ---------------------------------------------------------------------------------


def test_the_cpu_is_described() -> None:
    device = ceilings.device("cpu")
    assert device.device == "cpu" and device.name
    assert device.facts["versions"]["torch"] == torch.__version__
    assert 1 <= device.facts["threads"] <= device.facts["cores"]
    assert set(device.caches) == {MemoryLevel(c["level"]) for c in device.facts["caches"]}
    assert all(size > 0 for size in device.caches.values())
    assert set(device.facts["float32"]) >= {"matmul_precision", "cuda_matmul", "mkldnn_matmul"}


def test_facts_are_plain_json_and_the_same_next_time() -> None:
    device = ceilings.device("cpu")
    assert json.loads(json.dumps(device.facts)) == device.facts
    assert ceilings.device("cpu") == device


def test_threads_are_no_more_than_the_usable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "usable_cpus", lambda: (0,))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert ceilings.device("cpu").facts["threads"] == 1


@pytest.mark.parametrize(("flags", "shared"), [({"fma"}, True), ({"fma", "amx_tile"}, False)])
def test_a_matrix_unit_separates_the_pipes(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], shared: bool
) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset(flags))
    device = ceilings.device("cpu")
    assert device.shared_pipes is shared
    assert device.facts["matrix_unit"] is not shared


def test_variables_that_decide_speed_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    environment = ceilings.device("cpu").facts["environment"]
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["MKL_ENABLE_INSTRUCTIONS"] == "AVX2"
    assert "SECRET_TOKEN" not in environment


def properties(major: int = 9, minor: int = 0) -> SimpleNamespace:
    """What ``torch.cuda.get_device_properties`` says about a made-up GPU."""
    return SimpleNamespace(
        name="made-up GPU",
        major=major,
        minor=minor,
        multi_processor_count=100,
        total_memory=80 * 1024**3,
        L2_cache_size=50 * 1024**2,
    )


def test_the_default_is_the_first_gpu_or_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert ceilings.device().device == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties())
    assert ceilings.device().device == "cuda:0"
    assert ceilings.device("cuda:1").device == "cuda:1"
    with pytest.raises(MissingError, match=r"no device 'cuda:2'.*cpu, cuda:0, cuda:1"):
        ceilings.device("cuda:2")


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("toaster", "'toaster' is not a device"),
        ("meta", "cannot measure the device 'meta'"),
        ("cuda", "no device 'cuda' here"),
        ("cuda:7", "no device 'cuda:7' here"),
    ],
)
def test_an_absent_device_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, name: str, fact: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingError, match=fact) as caught:
        ceilings.device(name)
    assert caught.value.remedy.startswith("Choose one of: cpu.")


def test_a_question_that_pytorch_refuses_has_no_answer() -> None:
    def refused() -> Any:
        raise RuntimeError("mix of the legacy and new APIs")

    assert ceilings._answer(refused) is None
    assert ceilings._answer(lambda: torch.no_such_name) is None
    assert ceilings._answer(lambda: 1) == 1


# --- CPU kernels --------------------------------------------------------------------------------


def test_every_kernel_runs_and_has_work(
    monkeypatch: pytest.MonkeyPatch, random_state: None
) -> None:
    offer_small_products(monkeypatch)
    offered = list(ceilings_cpu.kernels(small_cpu()))
    for kernel in {kernel.prepare: kernel for kernel in offered}.values():
        call, work = quickened(kernel, monkeypatch)
        call()
        assert math.isfinite(work) and work > 0, kernel.name


def test_every_ceiling_of_a_cpu_has_a_candidate() -> None:
    offered = list(ceilings_cpu.kernels(small_cpu()))
    assert {kernel.level for kernel in offered} == {None, *MemoryLevel}
    pairs = {(k.pipe, k.precision) for k in offered if k.what == "peak"}
    assert pairs >= {
        (pipe, precision) for pipe in Pipe for precision in (Precision.FP64, Precision.FP32)
    }
    assert any(kernel.what == "launch" for kernel in offered)


def test_names_are_distinct_within_a_ceiling_and_notes_say_what_is_counted() -> None:
    offered = list(ceilings_cpu.kernels(small_cpu(threads=2)))
    keys = [(k.what, k.level, k.pipe, k.precision, k.name) for k in offered]
    assert len(set(keys)) == len(keys)
    assert all(kernel.note.endswith(".") for kernel in offered)
    assert all(kernel.threads == 2 for kernel in offered if kernel.what != "launch")


def test_three_working_sets_per_level_and_candidate() -> None:
    offered = list(ceilings_cpu.kernels(small_cpu()))
    names = {
        level: {k.name.split()[0] for k in offered if k.level is level and not k.variant}
        for level in MemoryLevel
    }
    assert names == {
        L1: {"expand.sum", "embedding_bag"},
        L2: {"expand.sum"},
        L3: {"expand.sum", "_foreach_mul_"},
        DRAM: {"sum", "dot", "mul_"},
    }
    counts = [sum(k.level is level and not k.variant for k in offered) for level in MemoryLevel]
    assert counts == [6, 3, 6, 3]


def test_data_that_all_threads_must_share_are_only_read() -> None:
    sets = WorkingSets(L3, (4_000_000,), each=False)
    assert [k.name.split()[0] for k in ceilings_cpu.cache_kernels(sets, 4)] == ["expand.sum"]


def test_row_sums_count_the_rows_that_are_read() -> None:
    # 4 KiB hold 1024 floats; 32 MB per thread are 7812.5 such rows, 7812 of them rounded.
    call, work = ceilings_cpu.row_sums(4096, threads=2)()
    assert work == 2 * 7812 * 1024 * 4
    assert call().shape == (2 * 7812,)  # type: ignore[attr-defined]


def test_a_row_is_whole_lines_and_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu, "_TRAFFIC", 1.0)
    assert ceilings_cpu.row_sums(1000, threads=3)()[1] == 3 * 192 * 4
    assert ceilings_cpu.row_sums(10, threads=1)()[1] == 64 * 4


def test_embedding_bag_counts_the_rows_that_it_adds_up() -> None:
    call, work = ceilings_cpu.embedding_bag(18 * 448 * 4, threads=1)()
    assert work == 64 * 512 * 448 * 4
    assert call().shape == (64, 448)  # type: ignore[attr-defined]


def test_in_place_counts_reads_and_writes_and_keeps_the_values() -> None:
    # 4000 bytes are 1000 floats per thread, 2000 in all: 2 × 8000 bytes a pass, 4000 passes.
    call, work = ceilings_cpu.in_place(4000, threads=2)()
    assert work == 2 * 8000 * 4000
    call()


def test_dram_kernels_walk_through_the_same_windows() -> None:
    walk = ceilings_cpu.Walk(Windows(3, 4000, enough=True))
    following = walk.next_window()
    addresses = [following().data_ptr() for _ in range(6)]
    assert addresses[:3] == addresses[3:]
    assert len(set(addresses)) == 3
    assert walk.next_window()().data_ptr() == addresses[0]


def test_dram_kernels_count_one_window() -> None:
    read, dot, both = ceilings_cpu.dram_kernels(Windows(2, 1024**2, enough=True), threads=1)
    assert read.name == "sum of 2 × 1 MiB"
    call, work = read.prepare()
    assert work == 1024**2
    assert float(call()) == 1024**2 / 4  # type: ignore[arg-type]
    halves, work = dot.prepare()
    assert work == 1024**2
    assert float(halves()) == 1024**2 / 4 / 2  # type: ignore[arg-type]
    assert both.prepare()[1] == 2 * 1024**2
    assert "Too little" not in read.note


def test_dram_windows_that_fit_a_cache_are_noted() -> None:
    for kernel in ceilings_cpu.dram_kernels(Windows(2, 1024**2, enough=False), threads=1):
        assert "Too little free memory" in kernel.note


def test_a_thousand_launches_are_one_call() -> None:
    for kernel in ceilings_cpu.launch_kernels():
        call, work = kernel.prepare()
        call()
        assert work == 1000


@pytest.mark.parametrize("precision", [Precision.FP64, Precision.FP32, Precision.BF16])
def test_a_product_counts_two_operations_per_multiply_add(precision: Precision) -> None:
    # 2 × 400³ = 0.128 GFLOP, twice for 0.3 GFLOP per thread.
    _, work = ceilings_cpu_peaks.product(precision, 400, threads=1)()
    assert work == 2 * 2 * 400**3
    _, work = ceilings_cpu_peaks.product(precision, 400, threads=2)()
    assert work == 5 * 2 * 400**3


def test_a_convolution_counts_no_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu_peaks, "_FLOP", 1.0)
    call, work = ceilings_cpu_peaks.convolution(threads=1)()
    images, channels, side = 2, 128, 28
    assert call().shape == (images, channels, side, side)  # type: ignore[attr-defined]
    assert work == 2 * images * channels * side**2 * channels * 9


def test_products_are_right_in_every_precision() -> None:
    for precision in (Precision.FP64, Precision.FP32, Precision.BF16, Precision.INT8):
        call, left, right = ceilings_cpu_peaks.multiply(precision, 64)
        wanted = left.double() @ right.double()
        assert torch.allclose(call().double(), wanted, rtol=0.02, atol=0.1), precision


def test_cubes_grow_with_the_threads() -> None:
    assert products.cubes(1) == products.cubes(8) == (512, 768, 1024)
    assert products.cubes(64) == (2048, 3072, 4096)


def test_vector_peaks_are_the_same_measurement_and_say_so() -> None:
    offered = [k for k in ceilings_cpu_peaks.peak_kernels(threads=1) if not k.variant]
    for precision in (Precision.FP64, Precision.FP32):
        matrix = [k for k in offered if (k.pipe, k.precision) == (Pipe.MATRIX, precision)]
        vector = [k for k in offered if (k.pipe, k.precision) == (Pipe.VECTOR, precision)]
        assert [k.prepare for k in vector] == [k.prepare for k in matrix] != []
        assert all("Same FMA unit as the matrix products" in k.note for k in vector)


def test_short_floats_are_computed_in_fp32_by_the_vector_unit_and_say_so() -> None:
    offered = [k for k in ceilings_cpu_peaks.peak_kernels(threads=1) if not k.variant]
    fp32 = {k.prepare for k in offered if k.precision is Precision.FP32}
    for precision in (Precision.FP16, Precision.BF16):
        vector = [k for k in offered if (k.pipe, k.precision) == (Pipe.VECTOR, precision)]
        assert {k.prepare for k in vector} == fp32
        assert all(f"elementwise {precision} in fp32" in k.note for k in vector)


def test_autocast_of_the_program_does_not_shorten_a_product() -> None:
    call, _, _ = ceilings_cpu_peaks.multiply(Precision.FP32, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prepared, _ = ceilings_cpu_peaks.convolution(threads=1)()
        assert prepared().dtype is torch.float32  # type: ignore[attr-defined]
        assert ceilings_cpu_peaks.without_autocast(call, 2)().dtype is torch.float32


def test_a_default_dtype_of_the_program_does_not_widen_a_kernel() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert ceilings_cpu_peaks.random_values(2).dtype is torch.float32
        call, _ = ceilings_cpu.row_sums(256, threads=1)()
        assert call().dtype is torch.float32  # type: ignore[attr-defined]
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("short", ["bfloat16", "float16"])
def test_a_product_in_a_shorter_format_is_no_fp32_ceiling(short: str) -> None:
    left, right = (ceilings_cpu_peaks.random_values(64, 64) for _ in range(2))
    dtype = getattr(torch, short)
    cheap = left.to(dtype).float() @ right.to(dtype).float()
    with pytest.raises(ArithmeticError, match="shorter format"):
        ceilings_cpu_peaks._check_fp32(cheap, left, right)
    ceilings_cpu_peaks._check_fp32(left @ right, left, right)


def test_a_product_of_nan_is_no_fp32_ceiling() -> None:
    ones = torch.ones(4, 4)
    with pytest.raises(ArithmeticError):
        ceilings_cpu_peaks._check_fp32(ones * math.nan, ones, ones)


# --- what is offered ----------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "software"), [(6e9, True), (24.9e9, True), (25e9, False)])
def test_a_format_far_below_fp32_runs_in_software(rate: float, software: bool) -> None:
    assert products.is_software(rate, 100e9) is software


def test_a_slow_fp32_probe_does_not_let_a_scalar_loop_pass() -> None:
    assert products.is_software(6e9, 12e9)
    assert not products.is_software(11e9, 12e9)


def test_a_format_in_software_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {Precision.FP32: 1e11, Precision.BF16: 2e11, Precision.FP16: 5e9}

    def probe(precision: Precision) -> float:
        if precision not in rates:
            raise RuntimeError("not implemented for 'Char'")
        return rates[precision]

    monkeypatch.setattr(ceilings_cpu_peaks, "_probe", probe)
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset({"fma"}))
    offered = {
        kernel.precision
        for kernel in ceilings_cpu_peaks.peak_kernels(threads=1)
        if kernel.pipe is Pipe.MATRIX
    }
    assert offered == {Precision.FP64, Precision.FP32, Precision.BF16}


def test_a_known_instruction_set_needs_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu_peaks, "_probe", lambda precision: 1.0)
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset({"avx512_bf16", "i8mm"}))
    assert ceilings_cpu_peaks.is_offered(Precision.BF16)
    assert ceilings_cpu_peaks.is_offered(Precision.INT8)
    assert not ceilings_cpu_peaks.is_offered(Precision.FP16)


def test_bf16_in_software_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu_peaks, "is_offered", lambda precision: False)
    offered = ceilings_cpu_peaks.peak_kernels(threads=1)
    (refused,) = (k for k in offered if (k.pipe, k.precision) == (Pipe.MATRIX, Precision.BF16))
    with pytest.raises(ArithmeticError, match="scalar loop"):
        refused.prepare()


def test_a_probe_is_a_rate() -> None:
    assert ceilings_cpu_peaks._probe(Precision.FP32) > 0


def test_a_build_without_onednn_offers_only_mm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not ceilings_cpu_peaks.has_onednn()
    names = {k.name.split()[0] for k in ceilings_cpu_peaks._fp32_kernels(threads=1)}
    assert names == {"mm"}


def test_onednn_without_its_product_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ops", SimpleNamespace(mkldnn=SimpleNamespace()))
    assert not ceilings_cpu_peaks.has_onednn()


def test_caches_come_back_from_the_facts() -> None:
    assert host.caches_of(small_cpu()) == SMALL_CACHES
    bare = Device("cpu", "bare", {L1: 1000})
    assert host.caches_of(bare) == (Cache(L1, 1000, 1, 1, 1000),)


def test_without_cache_sizes_dram_and_peaks_are_still_measured() -> None:
    offered = list(ceilings_cpu.kernels(Device("cpu", "bare", facts={"threads": 1})))
    assert {kernel.level for kernel in offered} == {None, DRAM}


def test_the_suite_measures_this_cpu(monkeypatch: pytest.MonkeyPatch, random_state: None) -> None:
    offer_small_products(monkeypatch)
    monkeypatch.setattr(ceilings_cpu_peaks, "_FLOP", 1.0)
    monkeypatch.setattr(ceilings_cpu, "_TRAFFIC", 1e5)
    integration: Any = SimpleNamespace(
        FRAMEWORK="torch",
        device=lambda name: small_cpu(),
        ceiling_kernels=ceilings.ceiling_kernels,
    )
    machine = measure(integration, "cpu", plan=Plan(seconds=0.001, spread_seconds=0.001))
    assert set(machine.bandwidths) == set(MemoryLevel)
    assert (Pipe.MATRIX, Precision.FP32) in machine.peaks
    assert machine.launch_cost is not None and 0 < machine.launch_cost.rate < 1
    assert not [text for text in machine.warnings if "could not run" in text]
