"""Multiply-adds of convolutions, against counting every pair one by one and against convolutions of ones."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from hroof.units import Pipe, Precision, Source  # noqa: E402
from hroof_keras.hlo.convolution import Role, multiply_adds, role_of  # noqa: E402
from hroof_keras.hlo.messages import ConvolutionDimensions, Hlo, WindowDimension  # noqa: E402
from tests.integrations.hroof_keras.hlo.compiled import compiled  # noqa: E402
from tests.integrations.hroof_keras.hlo.made import (  # noqa: E402
    computation,
    f32,
    op,
    parameter,
    program,
)


def convolution(
    base: tuple[int, ...],
    kernel: tuple[int, ...],
    window: tuple[WindowDimension, ...],
    **more: Any,
) -> Hlo:
    """An instruction with channels last, as large as its window makes it."""
    outputs = tuple(positions(length, w) for length, w in zip(base[1:-1], window, strict=True))
    batch = base[0] // more.get("batch_groups", 1)
    spatial = tuple(range(1, 1 + len(window)))
    dims = ConvolutionDimensions(
        input_batch=0,
        input_feature=len(base) - 1,
        input_spatial=spatial,
        kernel_input=len(kernel) - 2,
        kernel_output=len(kernel) - 1,
        kernel_spatial=tuple(range(len(window))),
        output_batch=0,
        output_feature=len(base) - 1,
        output_spatial=spatial,
    )
    operands = (parameter(0, f32(*base)), parameter(1, f32(*kernel)))
    result = f32(batch, *outputs, kernel[-1])
    return op("conv", "convolution", result, *operands, window=window, convolution=dims, **more)


def positions(base: int, w: WindowDimension) -> int:
    """Results of a window over a base, as the semantics of HLO define them."""
    spread = (base - 1) * w.base_dilation + 1 if base else 0
    padded = spread + w.low + w.high
    reach = (w.size - 1) * w.dilation + 1
    return max(0, (padded - reach) // w.stride + 1) if padded >= reach else 0


def pairs(base: int, outputs: int, w: WindowDimension) -> int:
    """Pairs of result and tap that meet an element, one by one."""
    found = 0
    for output, tap in itertools.product(range(outputs), range(w.size)):
        place = output * w.stride - w.low + tap * w.dilation
        found += place % w.base_dilation == 0 and 0 <= place // w.base_dilation < base
    return found


WINDOWS = st.builds(
    WindowDimension,
    size=st.integers(1, 5),
    stride=st.integers(1, 3),
    low=st.integers(-1, 4),
    high=st.integers(-1, 4),
    dilation=st.integers(1, 3),
    base_dilation=st.integers(1, 3),
    reversed=st.booleans(),
)


@given(st.lists(st.tuples(st.integers(1, 7), WINDOWS), min_size=1, max_size=3), st.data())
def test_least_is_every_pair_that_meets_an_element(
    spatial: list[tuple[int, WindowDimension]], data: st.DataObject
) -> None:
    batch, features, outputs = (data.draw(st.integers(1, 3)) for _ in range(3))
    groups = data.draw(st.integers(1, 2))
    window = tuple(w for _, w in spatial)
    base = (batch, *(length for length, _ in spatial), features * groups)
    kernel = (*(w.size for w in window), features, outputs * groups)
    hlo = convolution(base, kernel, window, feature_groups=groups)
    expected = batch * features * outputs * groups
    for length, w in spatial:
        expected *= pairs(length, positions(length, w), w)
    nominal, least = multiply_adds(hlo)
    assert least == expected
    assert nominal == int(nominal)
    assert nominal >= least or Role.FORWARD is not role_of(hlo)


@given(st.integers(1, 9), WINDOWS)
def test_every_tap_counts_at_every_position(base: int, w: WindowDimension) -> None:
    """Of the result in a forward pass, of the output's gradient in that of the input."""
    assume(w.low or w.high or w.base_dilation == 1)  # else it may hold groups
    hlo = convolution((2, base, 3), (w.size, 3, 4), (w,))
    assert multiply_adds(hlo, Role.FORWARD)[0] == 2 * positions(base, w) * w.size * 3 * 4
    assert multiply_adds(hlo, Role.INPUT_GRADIENT)[0] == 2 * base * w.size * 3 * 4


@dataclass(frozen=True)
class Case:
    """A convolution: image, taps, strides, dilations, padding, channels in and out of each group, groups."""

    image: tuple[int, ...]
    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    channels: tuple[int, int]
    groups: int = 1

    @property
    def x(self) -> tuple[int, ...]:
        return (2, *self.image, self.channels[0] * self.groups)

    @property
    def kernel(self) -> tuple[int, ...]:
        return (*self.taps, self.channels[0], self.channels[1] * self.groups)

    def run(self, x: Any, kernel: Any) -> Any:
        functions = {1: tf.nn.conv1d, 2: tf.nn.conv2d, 3: tf.nn.conv3d}
        function = functions[len(self.image)]
        strides = self.strides if len(self.image) < 3 else (1, *self.strides, 1)
        dilations = self.dilations if len(self.image) < 3 else (1, *self.dilations, 1)
        return function(x, kernel, strides, self.padding, dilations=dilations)

    def input_gradient(self, x: Any, kernel: Any, dy: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = self.run(x, kernel)
        return tape.gradient(y, x, dy)

    def kernel_gradient(self, x: Any, kernel: Any, dy: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            y = self.run(x, kernel)
        return tape.gradient(y, kernel, dy)

    @property
    def y(self) -> tuple[int, ...]:
        outputs = []
        for n, k, s, d in zip(self.image, self.taps, self.strides, self.dilations, strict=True):
            reach = n if self.padding == "SAME" else n - (k - 1) * d
            outputs.append(-(-reach // s))
        return (2, *outputs, self.channels[1] * self.groups)

    @property
    def nominal(self) -> float:
        """FLOP of each pass by hand: output positions × taps × channels, FMA = 2."""
        return 2.0 * math.prod(self.y) * math.prod(self.taps) * self.channels[0]

    @property
    def least(self) -> float:
        """A convolution of ones with ones adds up the multiply-adds that meet an element."""
        axes = zip(self.image, self.y[1:-1], self.taps, self.strides, self.dilations, strict=True)
        met = [self._met(*axis) for axis in axes]
        return 2.0 * self.y[0] * self.y[-1] * self.channels[0] * math.prod(met)

    def _met(self, n: int, y: int, k: int, s: int, d: int) -> int:
        padding = max((y - 1) * s + (k - 1) * d + 1 - n, 0) if self.padding == "SAME" else 0
        padded = np.pad(np.ones(n), (padding // 2, padding - padding // 2))
        return int(sum(padded[o * s + t * d] for o in range(y) for t in range(k)))


CASES = {
    "same": Case((9, 8), (3, 3), (1, 1), (1, 1), "SAME", (3, 5)),
    "valid": Case((9, 8), (3, 2), (1, 1), (1, 1), "VALID", (3, 5)),
    "strided": Case((9, 8), (3, 3), (2, 2), (1, 1), "SAME", (3, 5)),
    "strided valid": Case((10, 7), (3, 2), (3, 2), (1, 1), "VALID", (2, 4)),
    "even taps, strided": Case((9, 9), (4, 2), (2, 2), (1, 1), "SAME", (2, 3)),
    "dilated": Case((11, 12), (3, 2), (1, 1), (2, 3), "SAME", (2, 4)),
    "dilated valid": Case((11, 12), (3, 2), (1, 1), (2, 3), "VALID", (2, 4)),
    "one tap": Case((5, 5), (1, 1), (1, 1), (1, 1), "VALID", (4, 3)),
    "one tap, strided": Case((6, 5), (1, 1), (2, 2), (1, 1), "SAME", (4, 3)),
    "small image": Case((2, 1), (3, 3), (1, 1), (1, 1), "SAME", (3, 2)),
    "one dimension": Case((17,), (5,), (2,), (1,), "SAME", (3, 4)),
    "three dimensions": Case((4, 5, 6), (2, 3, 3), (1, 2, 1), (1, 1, 1), "SAME", (2, 3)),
    "grouped": Case((7, 6), (3, 3), (1, 1), (1, 1), "SAME", (2, 3), 2),
    "grouped, strided": Case((7, 6), (3, 3), (2, 2), (1, 1), "SAME", (2, 3), 3),
}


def counted(op_type: str, function: Any, *shapes: tuple[int, ...]) -> tuple[float, float]:
    """Nominal and least FLOP of the convolutions that ops of a type become, before they are laid out anew."""
    module = compiled(function, *(tf.ones(shape) for shape in shapes), stage="hlo_serialized")
    works = [
        module.instruction(name).work  # type: ignore[union-attr]
        for name, hlo in module.hlos.items()
        if hlo.opcode == "convolution" and op_type in hlo.op_type
    ]
    assert works
    assert all(work.source is Source.COUNTED for work in works)
    unit = (Pipe.MATRIX, Precision.FP32)
    nominal = sum(work.nominal[unit] for work in works if work.nominal)
    return nominal, sum(work.least[unit] for work in works if work.least)


def executed(function: Any, *shapes: tuple[int, ...]) -> tuple[float, float]:
    """Nominal and least matrix FLOP of a function as XLA executes it here, laid out anew."""
    module = compiled(function, *(tf.ones(shape) for shape in shapes))
    works = [module.instruction(name).work for name in module.executions()]  # type: ignore[union-attr]
    assert all(work.nominal is not None for work in works)
    nominal = sum(work.flop(Pipe.MATRIX) for work in works)
    unit = (Pipe.MATRIX, Precision.FP32)
    return nominal, sum(work.least.get(unit, 0.0) for work in works if work.least)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
class TestPasses:
    """The three passes as TensorFlow gives them to XLA."""

    def test_forward(self, case: Case) -> None:
        assert counted("Conv", case.run, case.x, case.kernel) == (case.nominal, case.least)

    def test_gradient_of_the_input(self, case: Case) -> None:
        shapes = (case.x, case.kernel, case.y)
        assert counted("BackpropInput", case.input_gradient, *shapes) == (case.nominal, case.least)

    def test_gradient_of_the_kernel(self, case: Case) -> None:
        shapes = (case.x, case.kernel, case.y)
        assert counted("BackpropFilter", case.kernel_gradient, *shapes) == (
            case.nominal,
            case.least,
        )

    def test_gradient_of_the_input_as_executed(self, case: Case) -> None:
        shapes = (case.x, case.kernel, case.y)
        assert executed(case.input_gradient, *shapes) == (case.nominal, case.least)

    def test_gradient_of_the_kernel_as_executed(self, case: Case) -> None:
        """XLA spreads groups over a dimension of their own, whose taps are not padding."""
        shapes = (case.x, case.kernel, case.y)
        assert executed(case.kernel_gradient, *shapes) == (case.nominal, case.least)


def test_depthwise_and_transposed_convolutions() -> None:
    """Each channel has a kernel of its own; a transposed one puts the kernel on positions of its input."""
    x, kernel = (2, 8, 7, 3), (3, 3, 3, 2)
    nominal, _ = executed(
        lambda a, k: tf.nn.depthwise_conv2d(a, k, [1, 1, 1, 1], "SAME"), x, kernel
    )
    assert nominal == 2 * 2 * 8 * 7 * 9 * 3 * 2
    small, kernel = (2, 4, 5, 3), (3, 3, 4, 3)
    nominal, _ = executed(
        lambda a, k: tf.nn.conv2d_transpose(a, k, [2, 8, 10, 4], 2), small, kernel
    )
    assert nominal == 2 * 2 * 4 * 5 * 9 * 3 * 4


class TestRole:
    """Which pass an instruction is."""

    WINDOW = (WindowDimension(3, low=1, high=1),)

    def role(self, **more: Any) -> Role:
        return role_of(convolution((2, 8, 3), (3, 3, 4), more.pop("window", self.WINDOW), **more))

    def test_its_own_word_comes_first(self) -> None:
        assert self.role(convolution_kind=3, op_type="Conv2DBackpropInput") is Role.KERNEL_GRADIENT
        assert self.role(convolution_kind=2) is Role.INPUT_GRADIENT

    def test_the_op_comes_next(self) -> None:
        assert self.role(op_type="Conv2DBackpropInput") is Role.INPUT_GRADIENT
        assert self.role(op_type="DepthwiseConv2dNativeBackpropFilter") is Role.KERNEL_GRADIENT
        assert self.role(op_type="Conv2D") is Role.FORWARD

    def test_a_spread_or_reversed_window_is_a_gradient_of_the_input(self) -> None:
        assert self.role(window=(WindowDimension(3, base_dilation=2),)) is Role.INPUT_GRADIENT
        assert self.role(window=(WindowDimension(3, reversed=True),)) is Role.INPUT_GRADIENT

    def test_a_result_that_grows_is_one_where_the_name_is_kept(self) -> None:
        grows = (WindowDimension(3, low=2, high=2),)
        assert self.role(window=grows, op_name="a") is Role.INPUT_GRADIENT
        assert self.role(window=grows) is Role.FORWARD
        assert self.role(window=(WindowDimension(3, low=3, high=2),), op_name="a") is Role.FORWARD

    def test_a_kernel_that_is_turned_round(self) -> None:
        plain = convolution((2, 8, 3), (3, 3, 4), self.WINDOW)
        turned = op("r", "reverse", plain.operands[1].shape, plain.operands[1])
        hlo = op(
            "c",
            "convolution",
            plain.shape,
            plain.operands[0],
            turned,
            window=self.WINDOW,
            convolution=plain.convolution,
        )
        assert role_of(hlo) is Role.INPUT_GRADIENT

    def test_a_sum_over_the_first_dimension_is_a_gradient_of_the_kernel(self) -> None:
        plain = convolution((2, 8, 3), (3, 3, 4), self.WINDOW)
        dims = dataclasses.replace(plain.convolution, input_batch=2, input_feature=0)
        assert role_of(dataclasses.replace(plain, convolution=dims)) is Role.KERNEL_GRADIENT


def test_groups_are_told_from_a_spread_image() -> None:
    groups = WindowDimension(3, stride=2, base_dilation=3)
    hlo = convolution((1, 3, 1), (3, 1, 1), (groups,))
    assert hlo.shape.dims == (1, 3, 1)
    assert multiply_adds(hlo) == (3.0, 3.0)
    spread = convolution(
        (1, 3, 1), (3, 1, 1), (WindowDimension(3, low=2, high=2, base_dilation=3),)
    )
    assert spread.shape.dims[1] > 3
    assert multiply_adds(spread)[0] == 9.0


def test_complex_numbers_and_tf32() -> None:
    hlo = convolution((2, 8, 3), (3, 3, 4), (WindowDimension(3),))
    macs = 2 * 6 * 3 * 3 * 4
    assert work_of(hlo) == {(Pipe.MATRIX, Precision.FP32): 2.0 * macs}
    assert work_of(hlo, tf32=True) == {(Pipe.MATRIX, Precision.TF32): 2.0 * macs}
    operands = tuple(
        dataclasses.replace(o, shape=dataclasses.replace(o.shape, dtype="complex64"))
        for o in hlo.operands
    )
    assert work_of(dataclasses.replace(hlo, operands=operands)) == {
        (Pipe.MATRIX, Precision.FP32): 8.0 * macs
    }


def work_of(hlo: Hlo, *, tf32: bool = False) -> Any:
    entry = computation(0, *hlo.operands, hlo)
    return program(entry, tf32=tf32).instruction("conv").work.nominal  # type: ignore[union-attr]
