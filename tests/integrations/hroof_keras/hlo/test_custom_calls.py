"""FLOP of calls of libraries, from settings in the form that XLA's sources give them; none was run on a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("keras")

from hroof.units import Pipe, Precision, Source
from hroof_keras.hlo.messages import ConvolutionDimensions, Hlo, WindowDimension
from hroof_keras.hlo.shapes import Shape
from tests.integrations.hroof_keras.hlo.made import (
    alone,
    computation,
    f32,
    op,
    parameter,
    program,
    shape,
    tuple_of,
)

MATRIX, VECTOR = (Pipe.MATRIX, Precision.FP32), (Pipe.VECTOR, Precision.FP32)
WORKSPACE = shape("int8", 4_194_304)


def call(target: str, of: Shape, *operands: Shape, config: Any = None, **more: Any) -> Hlo:
    settings = b"" if config is None else json.dumps(config).encode()
    arguments = (parameter(i, s) for i, s in enumerate(operands))
    return op("it", "custom-call", of, *arguments, target=target, backend_config=settings, **more)


def work(hlo: Hlo, *, tf32: bool = False) -> Any:
    entry = computation(0, *hlo.operands, hlo)
    return program(entry, tf32=tf32).instruction("it").work  # type: ignore[union-attr]


def gemm(**more: Any) -> dict[str, Any]:
    """Settings of a product of (batch, m, k) with (batch, n, k)."""
    return {
        "operation_queue_id": "0",
        "gemm_backend_config": {
            "alpha_real": 1,
            "beta": 0,
            "dot_dimension_numbers": {
                "lhs_contracting_dimensions": ["2"],
                "rhs_contracting_dimensions": ["2"],
                "lhs_batch_dimensions": ["0"],
                "rhs_batch_dimensions": ["0"],
            },
            "epilogue": "DEFAULT",
            **more,
        },
    }


class TestCublas:
    SHAPES = f32(3, 4, 5), f32(3, 6, 5)
    OUT = tuple_of(f32(3, 4, 6), WORKSPACE)
    FLOP = 2.0 * 3 * 4 * 6 * 5

    @pytest.mark.parametrize("target", ["__cublas$gemm", "__cublas$lt$matmul"])
    def test_product(self, target: str) -> None:
        one = work(call(target, self.OUT, *self.SHAPES, config=gemm()))
        assert one.nominal == {MATRIX: self.FLOP}
        assert one.source is Source.COUNTED
        assert one.touch.matrix is not None

    def test_the_work_space_is_no_traffic(self) -> None:
        one = work(call("__cublas$gemm", self.OUT, *self.SHAPES, config=gemm()))
        assert one.bytes_read == 4 * (60 + 90)
        assert one.bytes_written == 4 * 72

    def test_tf32(self) -> None:
        hlo = call("__cublas$gemm", self.OUT, *self.SHAPES, config=gemm())
        assert work(hlo, tf32=True).nominal == {(Pipe.MATRIX, Precision.TF32): self.FLOP}

    @pytest.mark.parametrize(
        ("more", "weight"),
        [
            ({"epilogue": "BIAS"}, 1),
            ({"epilogue": "BIAS_RELU"}, 2),
            ({"epilogue": "GELU_AUX"}, 8),
            ({"beta": 1}, 1),
            ({"beta": 1.0, "epilogue": "BIAS"}, 2),
        ],
    )
    def test_what_is_fused_onto_it(self, more: dict[str, Any], weight: int) -> None:
        one = work(call("__cublas$lt$matmul", self.OUT, *self.SHAPES, config=gemm(**more)))
        assert one.nominal == {MATRIX: self.FLOP, VECTOR: 72.0 * weight}

    def test_eight_bits(self) -> None:
        operands = (shape("float8_e4m3fn", 3, 4, 5), shape("float8_e4m3fn", 3, 6, 5))
        one = work(call("__cublas$lt$matmul$f8", f32(3, 4, 6), *operands, config=gemm()))
        assert one.nominal == {(Pipe.MATRIX, Precision.FP8): self.FLOP}

    @pytest.mark.parametrize("config", [None, {}, {"gemm_backend_config": {}}])
    def test_without_dimensions_it_is_unknown(self, config: Any) -> None:
        module = alone(call("__cublas$gemm", self.OUT, *self.SHAPES, config=config))
        assert module.instruction("it").work.nominal is None  # type: ignore[union-attr]
        assert module.without_rule == {"__cublas$gemm"}


class TestCudnn:
    """Window and dimensions are those of the forward pass for each of the three."""

    X, KERNEL, Y = f32(2, 8, 9, 3), f32(5, 3, 3, 3), f32(2, 4, 5, 5)
    DIMS = ConvolutionDimensions(0, 3, (1, 2), 3, 0, (1, 2), 0, 3, (1, 2))
    WINDOW = WindowDimension(3, 2, 0, 1), WindowDimension(3, 2, 1, 1)
    NOMINAL = 2.0 * 2 * 4 * 5 * 5 * 9 * 3
    LEAST = 2.0 * 2 * 5 * 3 * (4 * 3 - 1) * (5 * 3 - 2)

    def run(self, target: str, of: Shape, *operands: Shape, **more: Any) -> Any:
        whole = tuple_of(of, WORKSPACE)
        return work(
            call(target, whole, *operands, window=self.WINDOW, convolution=self.DIMS, **more)
        )

    def test_forward(self) -> None:
        one = self.run("__cudnn$convForward", self.Y, self.X, self.KERNEL)
        assert one.nominal == {MATRIX: self.NOMINAL}
        assert one.least == {MATRIX: self.LEAST}

    def test_gradient_of_the_input(self) -> None:
        one = self.run("__cudnn$convBackwardInput", self.X, self.Y, self.KERNEL)
        assert (one.nominal, one.least) == ({MATRIX: self.NOMINAL}, {MATRIX: self.LEAST})

    def test_gradient_of_the_kernel(self) -> None:
        one = self.run("__cudnn$convBackwardFilter", self.KERNEL, self.X, self.Y)
        assert (one.nominal, one.least) == ({MATRIX: self.NOMINAL}, {MATRIX: self.LEAST})

    def test_bias_side_input_and_activation(self) -> None:
        target = "__cudnn$convBiasActivationForward"
        operands = self.X, self.KERNEL, f32(5)
        one = self.run(target, self.Y, *operands)
        assert one.nominal == {MATRIX: self.NOMINAL, VECTOR: 200.0}
        config = {"cudnn_conv_backend_config": {"activation_mode": "kRelu"}}
        one = self.run(target, self.Y, *operands, self.Y, config=config)
        assert one.nominal == {MATRIX: self.NOMINAL, VECTOR: 600.0}

    def test_without_a_window_it_is_unknown(self) -> None:
        assert work(call("__cudnn$convForward", self.Y, self.X, self.KERNEL)).nominal is None


class TestOneDnn:
    @pytest.mark.parametrize("transposed", [False, True])
    def test_product(self, transposed: bool) -> None:
        config = {"onednn_matmul_config": {"transpose_b": transposed}}
        right = f32(3, 6, 5) if transposed else f32(3, 5, 6)
        one = work(call("__onednn$matmul", f32(3, 4, 6), f32(3, 4, 5), right, config=config))
        assert one.nominal == {MATRIX: 2.0 * 3 * 4 * 6 * 5}

    def test_fused_ops(self) -> None:
        config = {"onednn_matmul_config": {"fusions": {"ops": ["BIAS", "RELU"]}}}
        one = work(call("__onednn$matmul", f32(4, 6), f32(4, 5), f32(5, 6), f32(6), config=config))
        assert one.nominal == {MATRIX: 240.0, VECTOR: 48.0}


class TestOthers:
    @pytest.mark.parametrize("target", ["Sharding", "LayoutConstraint"])
    def test_words_to_the_compiler(self, target: str) -> None:
        one = work(call(target, f32(8), f32(8)))
        assert one.nominal == {}
        assert (one.bytes_read, one.bytes_written) == (0, 0)

    def test_sorting_and_drawing_compute_nothing_and_move(self) -> None:
        one = work(call("__cub$DeviceRadixSort", f32(8), f32(8)))
        assert one.nominal == {}
        assert (one.bytes_read, one.bytes_written) == (32, 32)

    @pytest.mark.parametrize(
        ("target", "flop"),
        [
            ("lapack_spotrf_ffi", 2 * 6**3 / 3),
            ("cusolver_getrf_ffi", 2 * 2 * 6**3 / 3),
            ("lapack_sgeqrf_ffi", 2 * 2 * 36 * 4),
        ],
    )
    def test_factorisations(self, target: str, flop: float) -> None:
        one = work(call(target, f32(2, 6, 6), f32(2, 6, 6)))
        assert one.nominal == {MATRIX: pytest.approx(flop)}
        assert one.source is Source.CONVENTION

    @pytest.mark.parametrize("target", ["my_kernel", "__cublas$lt$groupedMatmul", "lapack_sgees"])
    def test_others_are_unknown_and_named(self, target: str) -> None:
        module = alone(call(target, f32(2, 6, 6), f32(2, 6, 6)))
        one = module.instruction("it")
        assert one is not None
        assert one.opcode == target
        assert one.work.nominal is None
        assert one.work.source is Source.MISSING
        assert module.without_rule == {target}
