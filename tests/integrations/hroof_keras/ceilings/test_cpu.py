"""TensorFlow's kernels for launches, caches and DRAM of a CPU: what they offer, run and count."""

from __future__ import annotations

import math
from typing import Any

import pytest

tensorflow = pytest.importorskip("tensorflow")

from hroof.ceilings import host, products  # noqa: E402
from hroof.ceilings.host import Cache  # noqa: E402
from hroof.ceilings.sizes import Windows, WorkingSets  # noqa: E402
from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from hroof_keras.ceilings import cpu as ceilings_cpu  # noqa: E402
from hroof_keras.ceilings import dram as ceilings_dram  # noqa: E402
from hroof_keras.ceilings import integers as ceilings_integers  # noqa: E402
from hroof_keras.ceilings import launch as ceilings_launch  # noqa: E402
from hroof_keras.ceilings import peaks as ceilings_peaks  # noqa: E402
from hroof_keras.ceilings import xla as ceilings_xla  # noqa: E402
from hroof_keras.ceilings.memory import Memory, Walker  # noqa: E402
from hroof_keras.ceilings.xla import Load, Team  # noqa: E402

L1, L2, L3, DRAM = MemoryLevel
KIB, MIB = 1024, 1024**2
CACHES = (
    Cache(L1, 48 * KIB, 2, 1, 96 * KIB),
    Cache(L2, 1024 * KIB, 2, 1, 2048 * KIB),
    Cache(L3, 8192 * KIB, 1, 2, 8192 * KIB),
)


def small_cpu(threads: int = 1, **facts: Any) -> Device:
    """A CPU with small caches, so that its DRAM windows are few."""
    described = [host.cache_fact(cache) for cache in CACHES]
    totals = {cache.level: cache.total for cache in CACHES}
    return Device("cpu", "small", totals, True, {"threads": threads, "caches": described, **facts})


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As little work per call as possible, and the formats that every processor has."""
    monkeypatch.setattr(ceilings_cpu, "_TRAFFIC", dict.fromkeys(MemoryLevel, 1.0))
    monkeypatch.setattr(ceilings_dram, "_TRAFFIC", 1.0)
    monkeypatch.setattr(ceilings_peaks, "_FLOP", 1.0)
    monkeypatch.setattr(ceilings_peaks, "_CHAIN_FLOP", {Precision.FP32: 1.0, Precision.FP64: 1.0})
    monkeypatch.setattr(products, "_CUBES", (32, 48, 64))
    monkeypatch.setattr(products, "_SUSTAIN", 0.0)
    monkeypatch.setattr(ceilings_peaks, "is_offered", lambda p: p is Precision.BF16)
    monkeypatch.setattr(ceilings_integers, "_CUBES", (32,))
    monkeypatch.setattr(ceilings_integers, "_probe", lambda: 1e12)


def team(threads: int = 1) -> Team:
    return Team(threads, Load())


def prepared(kernel: CeilingKernel) -> tuple[Any, float]:
    """The kernel's call, whose result may be anything, and its work."""
    return kernel.prepare()


# --- all of them --------------------------------------------------------------------------------


def test_every_kernel_runs_and_has_work() -> None:
    """On one thread; ``test_the_suite_measures_this_cpu`` runs them on two."""
    random = tensorflow.random.get_global_generator().state.numpy().tolist()
    offered = list(ceilings_cpu.kernels(small_cpu()))
    for kernel in {kernel.prepare: kernel for kernel in offered}.values():
        call, work = kernel.prepare()
        call()
        assert math.isfinite(work) and work > 0, kernel.name
    assert tensorflow.random.get_global_generator().state.numpy().tolist() == random


def test_every_ceiling_of_a_cpu_has_a_candidate() -> None:
    offered = list(ceilings_cpu.kernels(small_cpu()))
    assert {kernel.level for kernel in offered} == {None, *MemoryLevel}
    pairs = {(k.pipe, k.precision) for k in offered if k.what == "peak" and not k.variant}
    both = (Precision.FP64, Precision.FP32, Precision.BF16)
    assert pairs >= {(pipe, precision) for pipe in Pipe for precision in both}
    assert (Pipe.MATRIX, Precision.INT8) in pairs
    assert any(kernel.what == "launch" and not kernel.variant for kernel in offered)


def test_names_are_distinct_within_a_ceiling_and_notes_say_what_is_counted() -> None:
    offered = list(ceilings_cpu.kernels(small_cpu(threads=2)))
    keys = [(k.what, k.level, k.pipe, k.precision, k.variant, k.name) for k in offered]
    assert len(set(keys)) == len(keys)
    assert all(kernel.note.endswith(".") for kernel in offered)
    assert all(kernel.threads == 2 for kernel in offered if kernel.what != "launch")


def test_rates_beside_the_ceilings() -> None:
    beside = {
        (k.level or k.precision or k.what, k.variant)
        for k in ceilings_cpu.kernels(small_cpu())
        if k.variant
    }
    assert beside >= {(level, mix) for level in (L2, L3, DRAM) for mix in ("copy", "triad")}
    assert beside >= {("launch", "eager"), ("launch", "call"), (Precision.FP32, "no fma")}
    assert (L1, "copy") not in beside


def test_in_a_hurry_no_integers_are_tried() -> None:
    offered = {k.precision for k in ceilings_cpu.kernels(small_cpu(quick=True))}
    assert Precision.INT8 not in offered and Precision.FP32 in offered


def test_without_cache_sizes_dram_and_peaks_are_still_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "available_memory", lambda: 64 * MIB)
    offered = list(ceilings_cpu.kernels(Device("cpu", "bare", facts={"threads": 1})))
    assert {kernel.level for kernel in offered} == {None, DRAM}


def test_evidence_depends_on_the_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    for whole, how in ((True, "measured"), (False, "framework-reachable")):
        monkeypatch.setattr(ceilings_xla, "uses_whole_vectors", lambda whole=whole: whole)
        kernel = ceilings_cpu.near_kernel(32 * KIB, team())
        assert kernel.how == how


# --- caches -------------------------------------------------------------------------------------


def test_sets_of_a_level_are_within_it_and_told() -> None:
    sets = WorkingSets(L2, (200_000, 600_000), each=True)
    small, large = ceilings_cpu.read_kernels(sets, team())
    # Rows of 27 slices of 1200 floats, where there are four of them; else of 9 slices of 912.
    assert small.size == 200_000 // 32_832 * 32_832
    assert large.size == 600_000 // 129_600 * 129_600


def test_a_set_that_holds_no_few_rows_has_no_kernel() -> None:
    sets = WorkingSets(L2, (100_000,), each=True)
    assert list(ceilings_cpu.read_kernels(sets, team())) == []


def test_work_in_l1_is_all_that_the_slices_read() -> None:
    # 32 KiB are 8192 floats; 81 slices, each 64 floats after the one before, are 3072 floats wide.
    _, work = prepared(ceilings_cpu.near_kernel(32 * KIB, team(2)))
    assert work == 2 * 81 * 3072 * 4


@pytest.mark.parametrize(
    ("kib", "parts", "width"),
    [(48, 81, 7168), (24, 81, 1024), (23, 27, 4224), (12, 27, 1408), (4, 9, 512)],
)
def test_small_sets_are_read_by_fewer_slices(kib: int, parts: int, width: int) -> None:
    """Each slice begins 64 floats after the one before, and they end with the set."""
    fold = ceilings_cpu.near_fold(kib * KIB // 4)
    assert (fold.parts, fold.width) == (parts, width)
    assert fold.row * 4 == kib * KIB


def test_work_beyond_l1_is_rows_times_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu, "_TRAFFIC", {L3: 10e6})
    sets = WorkingSets(L3, (5 * 32_832,), each=True)
    (kernel,) = ceilings_cpu.read_kernels(sets, team(3))
    _, work = prepared(kernel)
    assert work == 3 * 61 * 5 * 32_832


def test_sets_of_a_level_share_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []

    class Watched(Memory):
        def __init__(self, team: Team, row: int, nbytes: int) -> None:
            made.append((4 * row, nbytes))
            super().__init__(team, row, nbytes)

    monkeypatch.setattr(ceilings_cpu, "Memory", Watched)
    sets = WorkingSets(L3, (300_000, 600_000, 700_000), each=True)
    assert len(list(ceilings_cpu.read_kernels(sets, team()))) == 3
    assert made == [(32_832, 300_000), (129_600, 700_000)]


@pytest.mark.parametrize(("variant", "arrays", "passes"), [("copy", 2, 2), ("triad", 3, 3)])
def test_mixes_count_what_they_read_and_write(variant: str, arrays: int, passes: int) -> None:
    sets = WorkingSets(L3, (1_000_000, 2_000_000, 3_000_000), each=True)
    found = [k for k in ceilings_cpu.mix_kernels(sets, team(2)) if k.variant == variant]
    rows = 1_000_000 // (arrays * 32_832)
    assert len(found) == 2 and found[0].size == rows * arrays * 32_832
    assert prepared(found[0])[1] == 2 * rows * 32_832 * passes
    assert "write-allocate" in found[0].note


def test_rewriting_in_place_competes_for_the_ceiling_of_l3() -> None:
    sets = WorkingSets(L2, (1_000_000,), each=True)
    assert all(kernel.variant for kernel in ceilings_cpu.mix_kernels(sets, team()))
    sets = WorkingSets(L3, (1_000_000,), each=True)
    (kernel,) = (k for k in ceilings_cpu.mix_kernels(sets, team()) if not k.variant)
    assert prepared(kernel)[1] == 2 * (1_000_000 // 32_832) * 32_832


def test_data_that_all_threads_must_share_are_not_written() -> None:
    sets = WorkingSets(L3, (4_000_000,), each=False)
    assert list(ceilings_cpu.mix_kernels(sets, team())) == []


# --- DRAM ---------------------------------------------------------------------------------------

FEW = Windows(4, MIB, enough=True)


def test_ops_walk_through_the_same_windows() -> None:
    walk = ceilings_dram.Walk(Windows(3, 4000, enough=True))
    following = walk.next_window()
    seen = [id(following()) for _ in range(6)]
    assert seen[:3] == seen[3:] and len(set(seen)) == 3
    assert id(walk.next_window()()) == seen[0]
    assert following().shape == (1000,)


def test_dram_kernels_count_what_they_read_and_write() -> None:
    work = {
        (kernel.name.rsplit(" ", 2)[0], kernel.variant): prepared(kernel)[1]
        for kernel in ceilings_dram.dram_kernels(FEW, team(2))
    }
    assert work == {
        ("XLA fold", ""): 2 * 32_832,
        ("XLA rewrite", ""): 2 * 2 * 32_832,
        ("ResourceApplyGradientDescent", ""): 3 * MIB,
        ("XLA copy", "copy"): 2 * 2 * 32_832,
        ("XLA triad", "triad"): 2 * 3 * 32_832,
    }


def test_windows_keep_their_values() -> None:
    """The gradient is multiplied by zero, so the values stay of the order of one."""
    walk = ceilings_dram.Walk(FEW)
    call, _ = ceilings_dram.descending(walk)()
    for _ in range(5):
        call()
    following = walk.next_window()
    assert all(bool((following().numpy() == 0.5).all()) for _ in range(4))


def test_with_few_windows_no_op_meets_one_twice() -> None:
    few = Windows(3, MIB, enough=False)
    names = [k.name.rsplit(" ", 2)[0] for k in ceilings_dram.dram_kernels(few, team())]
    assert names == ["XLA fold", "XLA rewrite", "XLA copy", "XLA triad"]


def test_windows_that_fit_a_cache_are_noted() -> None:
    for enough, how in ((True, "measured"), (False, "framework-reachable")):
        for kernel in ceilings_dram.dram_kernels(Windows(4, MIB, enough), team()):
            assert kernel.how == how
            assert ("Too little free memory" in kernel.note) is not enough


def test_memory_of_all_threads_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []

    def by_parts(self: Walker, rows: int, traffic: float, *, fits: bool) -> Any:
        asked.append((rows, self._memory.rows, self._memory.row))
        return (lambda: None), 1.0

    monkeypatch.setattr(Walker, "by_parts", by_parts)
    windows = Windows(8, 3 * 32_832, enough=True)
    for kernel in ceilings_dram.dram_kernels(windows, team(2)):
        if kernel.name.startswith("XLA"):
            kernel.prepare()
    assert asked == [(rows, rows, 8208) for rows in (12, 12, 6, 4)]


# --- launches -----------------------------------------------------------------------------------


def test_launches_are_counted() -> None:
    work = {k.variant: prepared(k)[1] for k in ceilings_launch.launch_kernels()}
    assert work == {"": 1000, "eager": 1000, "call": 100}


@pytest.mark.parametrize("op", ["Maximum", "RealDiv"])
def test_the_graph_that_runs_has_as_many_nodes(op: str) -> None:
    """TensorFlow simplifies graphs: of a chain of additions it makes one op."""
    from tensorflow.python.eager import context

    call: Any = ceilings_launch._nodes(op)()[0]
    context.context().enable_graph_collection()
    try:
        assert call()[0].numpy().tolist() == [1.0]
        found = context.context().export_run_metadata()
    finally:
        context.context().disable_graph_collection()
    graphs = [graph for one in found.function_graphs for graph in one.partition_graphs]
    assert [sum(node.op == op for node in graph.node) for graph in graphs] == [1000]
