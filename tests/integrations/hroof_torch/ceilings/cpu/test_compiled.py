"""Compiled ceiling kernels of a CPU: what they compute, what they count, when they are offered."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.ceilings import host  # noqa: E402
from hroof.ceilings.sizes import WorkingSets  # noqa: E402
from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from hroof_torch import private  # noqa: E402
from hroof_torch.ceilings.cpu import compiled as ceilings_cpu_compiled  # noqa: E402
from hroof_torch.ceilings.cpu import kernels as ceilings_cpu  # noqa: E402
from hroof_torch.ceilings.cpu.compiled import Chains, Fold, pieces  # noqa: E402
from hroof_torch.ceilings.cpu.compiler import Compiled, Workshop, compiler  # noqa: E402

L1, L2, L3, DRAM = MemoryLevel
KIB = 1024
SETS = (
    WorkingSets(L1, (19 * KIB, 25 * KIB, 32 * KIB), each=True),
    WorkingSets(L2, (190 * KIB, 900 * KIB, 1100 * KIB, 1400 * KIB), each=True),
    WorkingSets(L3, (8000 * KIB, 64000 * KIB, 80000 * KIB), each=True),
)


class Uncompiled(Workshop):
    """Runs functions as they are."""

    def compile(self, function: Any, example: Any, *, fma: bool, dynamic: bool = False) -> Any:
        return function


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """As little work per call as possible."""
    monkeypatch.setattr(ceilings_cpu_compiled, "_TRAFFIC", dict.fromkeys(MemoryLevel, 1.0))
    monkeypatch.setattr(
        ceilings_cpu_compiled, "_CHAIN_FLOP", {Precision.FP32: 1.0, Precision.FP64: 1.0}
    )


# --- bandwidth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [1, 8, 16])
@pytest.mark.parametrize(("slices", "joined"), [(9, 6.0), (27, 42.0)])
@pytest.mark.parametrize("apart", [False, True])
def test_a_fold_reads_every_value_once(
    passes: int, slices: int, joined: float, apart: bool
) -> None:
    """Three ones become 1 · 1 + 1 = 2, three of those 2 · 2 + 2 = 6, three of those 6 · 6 + 6 = 42."""
    shape = Fold(passes, slices, apart)
    x = torch.ones(2, 3, 2 * shape.block)
    assert torch.equal(shape.function()(x), torch.full((2, 3), joined * 2 * shape.block / slices))
    for place in (0, shape.block - 1, 2 * shape.block - 1):
        changed = x.clone()
        changed[0, 0, place] = 2.0
        assert shape.function()(changed)[0, 0] != shape.function()(x)[0, 0], place


@pytest.mark.parametrize(
    ("size", "block", "wanted"),
    [
        (32 * KIB, 2304, (1, 3 * 2304)),  # 32 KiB hold three blocks of 9 KiB
        (64 * KIB, 144, (1, 113 * 144)),
        (65 * KIB, 144, (2, 57 * 144)),
        (1000, 2304, (1, 2304)),  # never less than a block
    ],
)
def test_a_working_set_becomes_short_rows(size: int, block: int, wanted: tuple[int, int]) -> None:
    assert pieces(size, block) == wanted


@pytest.mark.parametrize("size", [190 * KIB, 900 * KIB, 64000 * KIB])
def test_rows_are_short_and_leave_little_of_the_set_unread(size: int) -> None:
    rows, columns = pieces(size, 144)
    assert columns <= 16 * KIB
    assert columns % 144 == 0
    assert 0.95 * size < rows * columns * 4 <= size


def test_folds_count_what_they_read(little: None) -> None:
    for kernel in ceilings_cpu_compiled.bandwidth_kernels(SETS, 2, Uncompiled()):
        call, work = kernel.prepare()
        result: Any = call()
        assert kernel.size is not None
        assert work == 2 * kernel.size  # one repeat for each thread
        assert result.shape[0] == 2
        assert kernel.name == f"compiled fold {kernel.size // KIB} KiB"


def test_repeats_are_divided_among_the_threads() -> None:
    compiled = Compiled(Uncompiled(), ceilings_cpu_compiled.fold, fma=True)
    # A block of 4608 bytes, 100 times for about 460,800 bytes per thread.
    call, work = ceilings_cpu_compiled.folds(compiled, 4608, 3, 460_800.0)()
    assert work == 3 * 100 * 4608
    assert call().shape == (300, 1)  # type: ignore[attr-defined]


def test_each_level_has_few_kernels_because_each_is_compiled() -> None:
    offered = list(ceilings_cpu_compiled.bandwidth_kernels(SETS, 1, Uncompiled()))
    sizes = {level: [k.size for k in offered if k.level is level] for level in (L1, L2, L3)}
    assert [len(found) for found in sizes.values()] == [1, 2, 1]
    for sets in SETS:
        assert all(size and size <= max(sets.sizes) for size in sizes[sets.level])


def test_a_level_without_a_kernel_is_left_out() -> None:
    dram = WorkingSets(DRAM, (10**9,), each=True)
    assert not list(ceilings_cpu_compiled.bandwidth_kernels((dram,), 1, Uncompiled()))


# --- peaks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "steps"), [(3, 1), (5, 2), (17, 4)])
def test_chains_compute_what_they_count(count: int, steps: int) -> None:
    shape = Chains(count, steps)
    used: list[str] = []

    class Counted:
        """A number that notes each multiplication and addition."""

        def __mul__(self, other: object) -> Counted:
            used.append("mul")
            return self

        def __add__(self, other: object) -> Counted:
            used.append("add")
            return self

        def sum(self, dim: int) -> Counted:
            used.append("sum")
            return self

    value: Any = Counted()
    shape.function()(value, value, value)
    assert used.count("mul") == used.count("add") == shape.multiply_adds
    assert used[-1] == "sum"


def test_chains_depend_on_every_operand() -> None:
    function = Chains(5, 3).function()
    x, y, z = torch.rand(2, 8), torch.full((1, 1), 0.5), torch.full((1, 1), 0.25)
    before = function(x, y, z)
    assert before.shape == (2,)
    assert not torch.allclose(function(x + 1, y, z), before)
    assert not torch.allclose(function(x, y * 2, z), before)
    assert not torch.allclose(function(x, y, z * 2), before)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP64])
def test_peaks_count_two_per_multiply_add(precision: Precision, little: None) -> None:
    shape = Chains(3, 2)
    compiled = Compiled(Uncompiled(), shape.function(), fma=True)
    call, work = ceilings_cpu_compiled.chains(compiled, shape, precision, 2)()
    itemsize = 4 if precision is Precision.FP32 else 8
    assert work == 2 * 2 * (3 * 2 + 1) * (16 * KIB // itemsize)
    result: Any = call()
    assert result.dtype is (torch.float32 if precision is Precision.FP32 else torch.float64)
    assert bool(result.isfinite().all())


def test_the_values_of_long_chains_stay_finite(little: None) -> None:
    for kernel in ceilings_cpu_compiled.peak_kernels(1, Uncompiled()):
        result: Any = kernel.prepare()[0]()
        assert bool(result.isfinite().all()), kernel.name


def offered_peaks() -> list[CeilingKernel]:
    return list(ceilings_cpu_compiled.peak_kernels(2, Uncompiled()))


def test_vector_and_matrix_peaks_are_one_measurement() -> None:
    for precision in (Precision.FP32, Precision.FP64):
        both = [k for k in offered_peaks() if k.precision is precision and not k.variant]
        assert {k.pipe for k in both} == {Pipe.VECTOR, Pipe.MATRIX}
    kernels = offered_peaks()
    fp64 = [k.prepare for k in kernels if k.precision is Precision.FP64 and not k.variant]
    assert len(set(fp64)) == 1


def test_short_floats_have_the_rate_of_fp32_and_are_not_called_measured() -> None:
    kernels = offered_peaks()
    (fp32,) = {k.prepare for k in kernels if k.precision is Precision.FP32 and not k.variant}
    for precision in (Precision.FP16, Precision.BF16):
        (short,) = (k for k in kernels if k.precision is precision)
        assert (short.pipe, short.prepare, short.how) == (Pipe.VECTOR, fp32, "framework-reachable")
        assert f"elementwise {precision} in fp32" in short.note


def test_the_rate_without_fusing_stands_beside_the_ceiling() -> None:
    apart = [k for k in offered_peaks() if k.variant]
    assert {(k.variant, k.pipe, k.precision) for k in apart} == {
        ("no fma", Pipe.VECTOR, Precision.FP32),
        ("no fma", Pipe.VECTOR, Precision.FP64),
    }
    assert all("not fused" in k.note for k in apart)


def test_only_the_ceiling_itself_may_be_fused(
    monkeypatch: pytest.MonkeyPatch, little: None
) -> None:
    fused: dict[str, bool] = {}

    class Noting(Uncompiled):
        def compile(self, function: Any, example: Any, *, fma: bool, dynamic: bool = False) -> Any:
            fused[current.variant] = fma
            return function

    for current in ceilings_cpu_compiled.peak_kernels(1, Noting()):
        current.prepare()
    assert fused == {"": True, "no fma": False}


@pytest.mark.parametrize(
    ("flags", "how"), [({"avx512f"}, "measured"), (set(), "framework-reachable")]
)
def test_evidence_follows_the_vectors(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], how: str
) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset(flags))
    offered = [*ceilings_cpu_compiled.bandwidth_kernels(SETS, 1, Uncompiled()), *offered_peaks()]
    assert {k.how for k in offered if k.precision not in (Precision.FP16, Precision.BF16)} == {how}


# --- when they are offered ----------------------------------------------------------------------


def cpu(**facts: Any) -> Device:
    return Device("cpu", "small", {L1: 48 * KIB, L2: 2048 * KIB}, True, {"threads": 1, **facts})


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"compiler": "/usr/bin/g++"}, True),
        ({"compiler": "/usr/bin/g++", "quick": False}, True),
        ({"compiler": "/usr/bin/g++", "quick": True}, False),
        ({"compiler": None}, False),
        ({}, False),
    ],
)
def test_kernels_are_compiled_with_a_compiler_and_without_hurry(
    facts: dict[str, Any], wanted: bool
) -> None:
    offered = list(ceilings_cpu.kernels(cpu(**facts)))
    assert any(kernel.name.startswith("compiled") for kernel in offered) is wanted
    names = [(k.what, k.level, k.pipe, k.precision, k.variant, k.name) for k in offered]
    assert len(set(names)) == len(names)


# --- with a real compiler -----------------------------------------------------------------------


def test_compiled_kernels_compute_the_same_as_eager_ones(little: None) -> None:
    if compiler() is None:
        pytest.skip("no C++ compiler, or no headers of Python")
    graphs = private.dynamo_graph_count()

    def offered(workshop: Workshop) -> list[CeilingKernel]:
        bandwidths = ceilings_cpu_compiled.bandwidth_kernels(SETS[:1], 2, workshop)
        peaks = ceilings_cpu_compiled.peak_kernels(2, workshop)
        return [*bandwidths, *(k for k in peaks if k.precision is Precision.FP64 and not k.variant)]

    for kernel, eager in zip(
        {k.prepare: k for k in offered(Workshop(math.inf))}.values(),
        {k.prepare: k for k in offered(Uncompiled())}.values(),
        strict=True,
    ):
        call, work = kernel.prepare()
        wanted, same_work = eager.prepare()
        assert work == same_work
        assert torch.allclose(call(), wanted(), rtol=1e-3, atol=0.05), kernel.name
    assert private.dynamo_graph_count() == graphs
