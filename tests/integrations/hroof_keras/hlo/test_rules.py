"""FLOP of instructions by hand, and of fusions, calls and what applies a computation again and again."""

from __future__ import annotations

import math
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from hroof.traffic import MatrixShape  # noqa: E402
from hroof.units import Pipe, Precision, Source  # noqa: E402
from hroof_keras.hlo import HloModule  # noqa: E402
from hroof_keras.hlo.messages import Computation, DotDimensions, Hlo, WindowDimension  # noqa: E402
from hroof_keras.hlo.shapes import Shape  # noqa: E402
from tests.integrations.hroof_keras.hlo.compiled import compiled  # noqa: E402
from tests.integrations.hroof_keras.hlo.made import (  # noqa: E402
    alone,
    combining,
    computation,
    f32,
    op,
    parameter,
    program,
    shape,
    tuple_of,
)

VECTOR = (Pipe.VECTOR, Precision.FP32)
MATRIX = (Pipe.MATRIX, Precision.FP32)


def work(hlo: Hlo, *others: Computation) -> Any:
    return alone(hlo, *others).instruction(hlo.name).work  # type: ignore[union-attr]


def unary(opcode: str, of: Shape, operand: Shape | None = None, **more: Any) -> Hlo:
    return op("it", opcode, of, parameter(0, operand or of), **more)


class TestDot:
    def dot(self, lhs: Shape, rhs: Shape, of: Shape, dims: DotDimensions) -> Any:
        return work(op("it", "dot", of, parameter(0, lhs), parameter(1, rhs), dot=dims))

    def test_product(self) -> None:
        dims = DotDimensions((1,), (0,))
        one = self.dot(f32(4, 5), f32(5, 6), f32(4, 6), dims)
        assert one.nominal == one.least == {MATRIX: 2.0 * 4 * 5 * 6}
        assert one.touch.matrix == MatrixShape(1, 4, 6, 5, 4)
        assert one.source is Source.COUNTED

    def test_batches_stand_anywhere(self) -> None:
        dims = DotDimensions((0,), (2,), (2, 3), (0, 1))
        one = self.dot(f32(5, 4, 2, 3), f32(2, 3, 5, 6), f32(2, 3, 4, 6), dims)
        assert one.nominal == {MATRIX: 2.0 * 6 * 4 * 5 * 6}
        assert one.touch.matrix == MatrixShape(6, 4, 6, 5, 4)

    def test_several_dimensions_are_summed_over(self) -> None:
        dims = DotDimensions((0, 1), (0, 1))
        one = self.dot(f32(5, 7, 4), f32(5, 7, 6), f32(4, 6), dims)
        assert one.nominal == {MATRIX: 2.0 * 35 * 4 * 6}

    def test_an_outer_product_sums_over_nothing(self) -> None:
        one = self.dot(f32(4), f32(6), f32(4, 6), DotDimensions())
        assert one.nominal == {MATRIX: 2.0 * 24}

    @pytest.mark.parametrize(
        ("dtype", "precision", "factor"),
        [
            ("bfloat16", Precision.BF16, 2),
            ("float16", Precision.FP16, 2),
            ("float8_e4m3fn", Precision.FP8, 2),
            ("int8", Precision.INT8, 2),
            ("complex64", Precision.FP32, 8),
            ("float64", Precision.FP64, 2),
        ],
    )
    def test_the_operands_say_what_computes(
        self, dtype: str, precision: Precision, factor: int
    ) -> None:
        dims = DotDimensions((1,), (0,))
        one = self.dot(shape(dtype, 4, 5), shape(dtype, 5, 6), f32(4, 6), dims)
        assert one.nominal == {(Pipe.MATRIX, precision): factor * 120.0}

    def test_a_ragged_product_counts_each_row_once(self) -> None:
        lhs, rhs, sizes = f32(10, 4), f32(3, 4, 6), shape("int32", 3)
        operands = [parameter(i, s) for i, s in enumerate((lhs, rhs, sizes))]
        hlo = op("it", "ragged-dot", f32(10, 6), *operands, dot=DotDimensions((1,), (1,)))
        assert work(hlo).nominal == {MATRIX: 2.0 * 10 * 4 * 6}


class TestElementwise:
    @pytest.mark.parametrize(
        ("opcode", "weight"), [("add", 1), ("exponential", 1), ("logistic", 3), ("tanh", 1)]
    )
    def test_weight_per_element(self, opcode: str, weight: int) -> None:
        one = work(unary(opcode, f32(3, 4)))
        assert one.nominal == {VECTOR: 12.0 * weight}
        assert one.least == {VECTOR: 12.0}
        assert one.source is Source.CONVENTION

    @pytest.mark.parametrize("opcode", ["select", "compare", "convert", "copy", "gather", "sort"])
    def test_what_moves_computes_nothing(self, opcode: str) -> None:
        one = work(unary(opcode, f32(3, 4)))
        assert one.nominal == {}
        assert one.source is Source.COUNTED
        assert one.bytes_written == 48

    def test_integers_count_as_integer_operations_and_truth_values_as_nothing(self) -> None:
        assert work(unary("add", shape("int64", 7))).nominal == {
            (Pipe.VECTOR, Precision.INT32): 7.0
        }
        assert work(unary("maximum", shape("bool", 7))).nominal == {}

    def test_complex_numbers_count_their_real_operations(self) -> None:
        assert work(unary("multiply", shape("complex64", 5))).nominal == {VECTOR: 30.0}
        assert work(unary("add", shape("complex128", 5))).nominal == {
            (Pipe.VECTOR, Precision.FP64): 10.0
        }
        assert work(unary("abs", f32(5), shape("complex64", 5))).nominal == {VECTOR: 20.0}

    def test_batch_normalisation_as_one_instruction(self) -> None:
        of = tuple_of(f32(2, 8, 4), f32(4), f32(4))
        one = work(unary("batch-norm-training", of, f32(2, 8, 4)))
        assert one.nominal == {VECTOR: 8.0 * 64}


class TestReductions:
    def reduction(self, reducer: Computation, operand: Shape, of: Shape) -> Any:
        start = parameter(1, Shape(operand.dtype), "start")
        hlo = op("it", "reduce", of, parameter(0, operand), start, called=(reducer.id,))
        return work(hlo, reducer)

    def test_every_element_is_combined_once(self) -> None:
        one = self.reduction(combining(1), f32(6, 5), f32(6))
        assert one.nominal == one.least == {VECTOR: 30.0}

    def test_truth_values_are_combined_for_nothing(self) -> None:
        one = self.reduction(combining(1, "and", "bool"), shape("bool", 6, 5), shape("bool", 6))
        assert one.nominal == {}

    def test_the_place_of_a_maximum_counts_like_a_maximum(self) -> None:
        """Compare and select are no FLOP, but together they are what a maximum is."""
        x, i, y, j = (parameter(n, Shape("float32"), f"p{n}") for n in range(4))
        greater = op("greater", "compare", Shape("bool"), x, y)
        value = op("value", "select", Shape("float32"), greater, x, y)
        place = op("place", "select", Shape("float32"), greater, i, j)
        root = op("root", "tuple", tuple_of(value.shape, place.shape), value, place)
        reducer = computation(1, x, i, y, j, greater, value, place, root)
        of = tuple_of(f32(6), f32(6))
        hlo = op("it", "reduce", of, parameter(0, f32(6, 5)), parameter(1, f32(6, 5)), called=(1,))
        assert work(hlo, reducer).nominal == {VECTOR: 30.0}

    def test_a_window_counts_its_taps_and_least_those_that_meet_an_element(self) -> None:
        window = (WindowDimension(1), WindowDimension(3, 2, 1, 1))
        operands = parameter(0, f32(4, 7)), parameter(1, f32())
        hlo = op("it", "reduce-window", f32(4, 4), *operands, window=window, called=(1,))
        one = work(hlo, combining(1, "maximum"))
        assert one.nominal == {VECTOR: 4.0 * 4 * 3}
        assert one.least == {VECTOR: 4.0 * (2 + 3 + 3 + 2)}

    def test_scattered_additions(self) -> None:
        operands = (
            parameter(0, f32(100, 8)),
            parameter(1, shape("int32", 5, 1)),
            parameter(2, f32(5, 8)),
        )
        hlo = op("it", "scatter", f32(100, 8), *operands, called=(1,))
        assert work(hlo, combining(1)).nominal == {VECTOR: 40.0}

    def test_scattered_values_that_replace_compute_nothing(self) -> None:
        old, new = parameter(0, f32(), "old"), parameter(1, f32(), "new")
        replace = computation(1, old, new)
        operands = (parameter(0, f32(9)), parameter(1, shape("int32", 5, 1)), parameter(2, f32(5)))
        hlo = op("it", "scatter", f32(9), *operands, called=(1,))
        assert work(hlo, replace).nominal == {}

    def test_the_gradient_of_a_maximum_pool_adds_each_element_once(self) -> None:
        operands = parameter(0, f32(4, 8)), parameter(1, f32(4, 4)), parameter(2, f32())
        window = (WindowDimension(1), WindowDimension(2, 2))
        hlo = op("it", "select-and-scatter", f32(4, 8), *operands, window=window, called=(1, 2))
        one = work(hlo, combining(1, "compare", "bool"), combining(2))
        assert one.nominal == {VECTOR: 16.0}

    def test_map(self) -> None:
        hlo = op("it", "map", f32(5), parameter(0, f32(5)), parameter(1, f32(5)), called=(1,))
        assert work(hlo, combining(1, "multiply")).nominal == {VECTOR: 5.0}


class TestFactorisations:
    def test_cholesky_and_solve(self) -> None:
        assert work(unary("cholesky", f32(2, 6, 6))).nominal == {MATRIX: 2 * 6**3 / 3}
        operands = parameter(0, f32(2, 6, 6)), parameter(1, f32(2, 6, 4))
        hlo = op("it", "triangular-solve", f32(2, 6, 4), *operands, left_side=True)
        one = work(hlo)
        assert one.nominal == {MATRIX: 2.0 * 36 * 4}
        assert one.source is Source.CONVENTION
        other = op("it", "triangular-solve", f32(2, 4, 6), operands[0], parameter(1, f32(2, 4, 6)))
        assert work(other).nominal == {MATRIX: 2.0 * 36 * 4}

    def test_fourier_transforms(self) -> None:
        c = shape("complex64", 3, 8, 16)
        assert work(unary("fft", c, fft_length=(8, 16))).nominal == {
            VECTOR: 5.0 * 3 * 128 * math.log2(128)
        }
        real = unary("fft", shape("complex64", 3, 9), f32(3, 16), fft_type=2, fft_length=(16,))
        assert work(real).nominal == {VECTOR: 2.5 * 48 * 4}
        back = unary("fft", f32(3, 16), shape("complex64", 3, 9), fft_type=3, fft_length=(16,))
        assert work(back).nominal == {VECTOR: 2.5 * 48 * 4}


def fusion_of(*opcodes: str, size: int = 8, number: int = 1) -> Computation:
    """A chain of instructions on one vector."""
    chain = [parameter(0, f32(size), f"p{number}")]
    for opcode in opcodes:
        chain.append(op(f"{opcode}.{number}.{len(chain)}", opcode, f32(size), chain[-1]))
    return computation(number, *chain, fusion=True)


class TestContainers:
    def test_a_fusion_is_the_sum_of_its_body(self) -> None:
        hlo = unary("fusion", f32(8), called=(1,))
        one = work(hlo, fusion_of("negate", "logistic", "copy"))
        assert one.nominal == {VECTOR: 8.0 * 4}
        assert one.least == {VECTOR: 16.0}
        assert one.source is Source.CONVENTION

    def test_fusions_in_fusions_and_bodies_that_are_used_twice(self) -> None:
        inner = fusion_of("negate", number=2)
        x = parameter(0, f32(8), "x")
        first = op("first", "fusion", f32(8), x, called=(2,))
        second = op("second", "call", f32(8), first, called=(2,))
        outer = computation(1, x, first, second, fusion=True)
        assert work(unary("fusion", f32(8), called=(1,)), outer, inner).nominal == {VECTOR: 16.0}

    def test_matrix_work_makes_a_fusion_exact(self) -> None:
        a, b = parameter(0, f32(4, 5), "a"), parameter(1, f32(5, 6), "b")
        dot = op("d", "dot", f32(4, 6), a, b, dot=DotDimensions((1,), (0,)))
        relu = op("r", "maximum", f32(4, 6), dot, dot)
        body = computation(1, a, b, dot, relu, fusion=True)
        operands = parameter(0, f32(4, 5)), parameter(1, f32(5, 6))
        one = work(op("it", "fusion", f32(4, 6), *operands, called=(1,)), body)
        assert one.nominal == {MATRIX: 240.0, VECTOR: 24.0}
        assert one.source is Source.COUNTED
        assert one.touch.matrix == MatrixShape(1, 4, 6, 5, 4)

    def test_loops_and_branches_count_nothing_themselves(self) -> None:
        for opcode in ("while", "conditional"):
            bodies = fusion_of("negate"), fusion_of("is-finite", number=2)
            one = work(unary(opcode, f32(8), called=(1, 2)), *bodies)
            assert one.nominal == {}
            assert (one.bytes_read, one.bytes_written) == (0, 0)

    def test_an_unknown_part_makes_the_whole_unknown_and_is_named(self) -> None:
        x = parameter(0, f32(8), "x")
        odd = op("odd", "quantum-leap", f32(8), x)
        body = computation(1, x, odd, fusion=True)
        module = alone(unary("fusion", f32(8), called=(1,)), body)
        one = module.instruction("it").work  # type: ignore[union-attr]
        assert one.nominal is None
        assert one.least is None
        assert one.source is Source.MISSING
        assert one.bytes_read == one.bytes_written == 32
        assert module.without_rule == {"quantum-leap"}

    def test_tf32_of_products(self) -> None:
        a, b = parameter(0, f32(4, 5)), parameter(1, f32(5, 6))
        dot = op("it", "dot", f32(4, 6), a, b, dot=DotDimensions((1,), (0,)))
        module = program(computation(0, a, b, dot), tf32=True)
        assert module.instruction("it").work.nominal == {  # type: ignore[union-attr]
            (Pipe.MATRIX, Precision.TF32): 240.0
        }


def flop(module: HloModule) -> dict[Any, float]:
    total: dict[Any, float] = {}
    for name, count in module.executions().items():
        nominal = module.instruction(name).work.nominal  # type: ignore[union-attr]
        assert nominal is not None, name
        for unit, value in nominal.items():
            total[unit] = total.get(unit, 0.0) + value * count
    return total


class TestAsCompiled:
    """What the compiler of this machine makes of small functions."""

    def test_a_dense_layer(self) -> None:
        module = compiled(lambda x, w, b: tf.nn.relu(x @ w + b), *map(tf.ones, ((8, 5), (5, 6), 6)))
        assert flop(module) == {MATRIX: 480.0, VECTOR: 96.0}

    def test_an_einsum_with_batch_dimensions(self) -> None:
        module = compiled(
            lambda a, b: tf.einsum("bqhd,bkhd->bhqk", a, b),
            tf.ones((2, 6, 3, 4)),
            tf.ones((2, 7, 3, 4)),
        )
        assert flop(module) == {MATRIX: 2.0 * 2 * 3 * 6 * 7 * 4}

    def test_half_precision(self) -> None:
        """A compiler may compute in another precision than the program asks for; what is executed counts."""
        x = tf.ones((8, 8), tf.bfloat16)
        total = flop(compiled(lambda a, b: a @ b, x, x))
        assert sum(v for (pipe, _), v in total.items() if pipe is Pipe.MATRIX) == 1024.0
        assert {p for (pipe, p) in total if pipe is Pipe.MATRIX} <= {Precision.BF16, Precision.FP32}
