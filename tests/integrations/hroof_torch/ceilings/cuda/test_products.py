"""Matrix products for the tensor cores of a GPU: formats, shapes, trials, bursts, switches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof.units import Pipe, Precision  # noqa: E402
from hroof_torch.ceilings import float32_switches  # noqa: E402
from hroof_torch.ceilings.cuda import products  # noqa: E402
from hroof_torch.ceilings.cuda.memory import random_values  # noqa: E402
from hroof_torch.ceilings.cuda.products import SHAPES, Shape, Trial  # noqa: E402

GIB = 1024**3
FAST = SHAPES[5]


def trials(device: Device, precision: Precision, shapes: Sequence[Shape]) -> list[Trial]:
    """One shape is faster than all others."""
    return [Trial(shape, 2.0 if shape == FAST else 1.0) for shape in shapes]


def offered(
    device: Device, card: Any, *, own: bool = True, trials: Any = trials
) -> list[CeilingKernel]:
    timer = card.timer()
    return list(products.product_kernels(device, timer, 80 * GIB, own=own, trials=trials))


def precisions(kernels: list[CeilingKernel], pipe: Pipe, variant: str = "") -> set[Any]:
    return {k.precision for k in kernels if k.pipe is pipe and k.variant == variant}


# --- formats ------------------------------------------------------------------------------------


def test_tensor_cores_multiply_what_the_capability_allows(
    gpu: Callable[..., Device], card: Any
) -> None:
    volta = {Precision.FP64, Precision.FP32, Precision.FP16}
    ampere = volta | {Precision.INT8, Precision.TF32, Precision.BF16}
    assert precisions(offered(gpu(7, 0), card), Pipe.MATRIX) == volta
    assert precisions(offered(gpu(8, 0), card), Pipe.MATRIX) == ampere
    assert precisions(offered(gpu(8, 9), card), Pipe.MATRIX) == ampere | {Precision.FP8}


def test_fp64_products_on_tensor_cores_say_nothing_about_the_vector_unit(
    gpu: Callable[..., Device], card: Any
) -> None:
    assert Precision.FP64 in precisions(offered(gpu(8, 6), card), Pipe.VECTOR)
    assert Precision.FP64 not in precisions(offered(gpu(8, 0), card), Pipe.VECTOR)
    assert Precision.FP32 in precisions(offered(gpu(8, 0), card), Pipe.VECTOR)


def test_without_chains_fp32_stands_for_short_formats(
    gpu: Callable[..., Device], card: Any
) -> None:
    short = {Precision.FP16, Precision.BF16}
    assert not short & precisions(offered(gpu(), card), Pipe.VECTOR)
    kernels = offered(gpu(), card, own=False)
    assert short <= precisions(kernels, Pipe.VECTOR)
    notes = [k.note for k in kernels if k.pipe is Pipe.VECTOR and k.precision in short]
    assert all("computes elementwise" in note and "in fp32" in note for note in notes)


def test_a_ceiling_of_products_is_a_lower_bound(gpu: Callable[..., Device], card: Any) -> None:
    assert {kernel.how for kernel in offered(gpu(), card)} == {"framework-reachable"}


def test_fp8_says_how_it_adds_up(gpu: Callable[..., Device], card: Any) -> None:
    told = {k.precision for k in offered(gpu(), card) if "fast accumulation" in k.note}
    assert told == {Precision.FP8}


# --- shapes -------------------------------------------------------------------------------------


def test_shapes_grow_and_fit_every_format() -> None:
    assert len(SHAPES) == 12
    assert [shape.flop for shape in SHAPES] == sorted(shape.flop for shape in SHAPES)
    assert any(len({shape.m, shape.n, shape.k}) > 1 for shape in SHAPES)
    for shape in SHAPES:
        assert not any(side % 16 for side in (shape.m, shape.n, shape.k))


def test_a_shape_knows_its_work_and_its_name() -> None:
    shape = Shape(8, 16, 32)
    assert shape.flop == 2 * 8 * 16 * 32
    assert shape.elements == 8 * 32 + 32 * 16 + 8 * 16
    assert str(shape) == "8 × 16 × 32"


def test_shapes_fit_the_free_memory() -> None:
    assert products.fitting(Precision.BF16, 80 * GIB) == list(SHAPES)
    assert products.fitting(Precision.BF16, 0) == list(SHAPES)
    some = products.fitting(Precision.FP64, GIB)
    assert some and all(shape.elements * 12 <= GIB // 4 for shape in some)
    assert products.fitting(Precision.BF16, 1) == [SHAPES[0]]


def test_the_fastest_shape_measures_the_ceiling(gpu: Callable[..., Device], card: Any) -> None:
    names = {k.name for k in offered(gpu(), card) if k.precision is Precision.BF16}
    assert names == {f"mm {FAST}", f"mm {FAST} burst"}
    eights = {k.name.split()[0] for k in offered(gpu(), card) if k.precision is Precision.INT8}
    assert eights == {"_int_mm"}


def test_where_no_shape_runs_the_smallest_one_tells_why(
    gpu: Callable[..., Device], card: Any
) -> None:
    kernels = offered(gpu(), card, trials=lambda device, precision, shapes: [])
    assert {k.name.removesuffix(" burst").split(" ", 1)[1] for k in kernels} == {str(SHAPES[0])}


def test_a_quick_measurement_tries_fewer_shapes_and_sustains_nothing(
    gpu: Callable[..., Device], card: Any
) -> None:
    seen: list[int] = []

    def counted(device: Device, precision: Precision, shapes: Sequence[Shape]) -> list[Trial]:
        seen.append(len(shapes))
        return trials(device, precision, shapes)

    device = gpu()
    quick = Device(device.device, device.name, device.caches, facts={**device.facts, "quick": True})
    kernels = offered(quick, card, trials=counted)
    assert set(seen) == {4}
    assert {kernel.variant for kernel in kernels} == {""}
    assert not any("Sustained" in kernel.note for kernel in kernels)


# --- trials -------------------------------------------------------------------------------------


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> dict[Shape, int]:
    """How often each shape was launched; the products themselves do nothing."""
    counts: dict[Shape, int] = {}

    def product(device: str, precision: Precision, shape: Shape) -> Callable[[], None]:
        def launch() -> None:
            counts[shape] = counts.get(shape, 0) + 1

        return launch

    monkeypatch.setattr(products, "product", product)
    return counts


def test_every_shape_is_tried_for_some_milliseconds(
    gpu: Callable[..., Device], launched: dict[Shape, int]
) -> None:
    def elapsed(launch: Callable[[], object], times: int, device: str) -> float:
        for _ in range(times):
            launch()
        return times * 1e-3

    tried = products.try_shapes(gpu(), Precision.BF16, SHAPES, elapsed)
    assert [trial.shape for trial in tried] == list(SHAPES)
    assert tried[0].rate == pytest.approx(SHAPES[0].flop / 1e-3)
    assert set(launched.values()) == {1 + 1 + 5}


def test_after_a_slow_product_no_larger_one_is_tried(
    gpu: Callable[..., Device], launched: dict[Shape, int]
) -> None:
    def elapsed(launch: Callable[[], object], times: int, device: str) -> float:
        launch()
        return 0.05 * times if SHAPES[3] in launched else 1e-3 * times

    tried = products.try_shapes(gpu(), Precision.FP64, SHAPES, elapsed)
    assert [trial.shape for trial in tried] == list(SHAPES[:4])


def test_a_shape_that_fails_is_left_out(
    gpu: Callable[..., Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    def product(device: str, precision: Precision, shape: Shape) -> Callable[[], None]:
        if shape == SHAPES[1]:
            raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")
        return lambda: None

    monkeypatch.setattr(products, "product", product)
    tried = products.try_shapes(gpu(), Precision.FP8, SHAPES[:3], lambda *arguments: 1e-3)
    assert [trial.shape for trial in tried] == [SHAPES[0], SHAPES[2]]


def test_without_a_gpu_no_shape_runs(gpu: Callable[..., Device]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert products.try_shapes(gpu(), Precision.BF16, SHAPES) == []


# --- calls --------------------------------------------------------------------------------------


def test_a_sustained_call_is_long_and_a_burst_is_short_after_a_pause(
    card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "product", lambda *arguments: card.kernel(1e-3, "mm"))
    kernels = [k for k in offered(card.device, card) if k.precision is Precision.BF16]
    sustained, burst = kernels
    call, work = sustained.prepare()
    begun = card.now
    call()
    assert card.now - begun == pytest.approx(products.SUSTAINED, abs=2e-3)
    assert work / FAST.flop == pytest.approx(200, abs=1) and card.slept == []
    call, work = burst.prepare()
    begun = card.now
    call()
    assert card.now - begun == pytest.approx(1e-2, abs=2e-3)
    assert card.slept == [0.2] and burst.variant == "burst" and "Burst" in burst.note


def test_fp32_without_tensor_cores_has_no_burst(gpu: Callable[..., Device], card: Any) -> None:
    kernels = [k for k in offered(gpu(), card) if k.precision is Precision.FP32]
    assert [(k.pipe, k.variant) for k in kernels] == [(Pipe.MATRIX, ""), (Pipe.VECTOR, "")]
    assert len({kernel.prepare for kernel in kernels}) == 1


SMALL = Shape(32, 48, 64)


def plain(precision: Precision, shape: Shape) -> Any:
    """The operands that a product uses, multiplied in fp64."""
    left = random_values("cpu", shape.m, shape.k)
    right = random_values("cpu", shape.n, shape.k)
    if precision is Precision.INT8:
        left, right = ((value * 32).clamp(-127, 127).to(torch.int8) for value in (left, right))
    else:
        dtype = products._DTYPES[precision]
        left, right = left.to(dtype), right.to(dtype)
    return left.double() @ right.double().t()


@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [(Precision.FP64, 1e-12), (Precision.FP32, 1e-5), (Precision.BF16, 1e-2), (Precision.INT8, 0)],
)
def test_products_are_right(precision: Precision, tolerance: float) -> None:
    result = products._multiplication("cpu", precision, SMALL)()
    wanted = plain(precision, SMALL)
    assert tuple(result.shape) == (SMALL.m, SMALL.n)
    assert float((result.double() - wanted).abs().max()) <= tolerance * float(wanted.abs().max())


def test_fp8_products_are_right_where_this_pytorch_has_them() -> None:
    try:
        result = products._multiplication("cpu", Precision.FP8, SMALL)()
    except (NotImplementedError, RuntimeError) as error:
        pytest.skip(f"no fp8 products on this CPU: {str(error).splitlines()[0]}")
    wanted = plain(Precision.FP8, SMALL)
    assert result.dtype == torch.bfloat16
    assert float((result.double() - wanted).abs().max()) <= 0.02 * float(wanted.abs().max())


@pytest.mark.parametrize("tf32", [True, False])
def test_the_fp32_switch_is_put_back(tf32: bool) -> None:
    before = float32_switches()
    with pytest.raises(RuntimeError, match="stop"), products.fp32_products(tf32=tf32):
        matmul = torch.backends.cuda.matmul
        allowed = getattr(matmul, "fp32_precision", None) or matmul.allow_tf32
        assert allowed in (("tf32", True) if tf32 else ("ieee", False))
        raise RuntimeError("stop")
    assert float32_switches() == before


@pytest.mark.parametrize("precision", [Precision.TF32, Precision.FP32])
def test_a_product_runs_in_its_format_inside_a_programs_autocast(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, bool]] = []

    def multiplication(device: str, precision: Precision, shape: Shape) -> Callable[[], None]:
        matmul = torch.backends.cuda.matmul

        def launch() -> None:
            allowed = getattr(matmul, "fp32_precision", None) or matmul.allow_tf32
            seen.append((allowed, torch.is_autocast_enabled("cuda")))

        return launch

    monkeypatch.setattr(products, "_multiplication", multiplication)
    products.product("cuda:0", precision, SMALL)()
    ((allowed, autocast),) = seen
    assert allowed in (("tf32", True) if precision is Precision.TF32 else ("ieee", False))
    assert not autocast
