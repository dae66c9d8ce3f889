"""Convolutions of every kind and their gradients, against convolutions of ones.

The sum of the result of a convolution of ones with ones is the number of multiply-adds that meet an input element, and
so is that of its gradients: TensorFlow itself counts the least work. The nominal work is counted by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from hroof.units import Pipe, Precision, Source  # noqa: E402
from hroof_keras.counting import Buffers  # noqa: E402
from hroof_keras.graph.nodes import TensorSpec  # noqa: E402
from tests.integrations.hroof_keras.counting.made import work  # noqa: E402
from tests.integrations.hroof_keras.counting.traced import gradient, one, trace  # noqa: E402

MATRIX, VECTOR = Pipe.MATRIX, Pipe.VECTOR


def least(work_: Any) -> float:
    return float(sum(work_.least.values()))


def ones(*shape: int) -> Any:
    return tf.ones(shape, tf.float64)


@dataclass(frozen=True)
class Case:
    """One convolution: spatial lengths, taps, how the window moves, channels."""

    image: tuple[int, ...]
    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    channels: tuple[int, int]
    groups: int = 1
    batch: int = 2

    @property
    def x(self) -> tuple[int, ...]:
        return (self.batch, *self.image, self.channels[0] * self.groups)

    @property
    def kernel(self) -> tuple[int, ...]:
        return (*self.taps, self.channels[0], self.channels[1] * self.groups)

    @property
    def steps(self) -> dict[str, Any]:
        return {
            "strides": [1, *self.strides, 1],
            "dilations": [1, *self.dilations, 1],
            "padding": self.padding,
        }

    def nominal(self, y: Any) -> float:
        """Every tap of every output position and channel, over the input channels of its group."""
        positions = y.shape[0] * y.shape[-1]
        for length in y.shape[1:-1]:
            positions *= length
        for taps in self.taps:
            positions *= taps
        return 2.0 * positions * self.channels[0]


def cases(dims: int, *, most_groups: int = 3, square: bool = False) -> st.SearchStrategy[Case]:
    lengths = st.integers(1, 3)

    def per_dimension(values: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, ...]]:
        same = values.map(lambda value: (value,) * dims)
        return same if square else st.tuples(*[values] * dims)

    return st.builds(
        Case,
        image=st.tuples(*[st.integers(5, 9)] * dims),
        taps=per_dimension(lengths),
        strides=per_dimension(lengths),
        dilations=per_dimension(st.integers(1, 2)),
        padding=st.sampled_from(["SAME", "VALID"]),
        channels=st.tuples(st.integers(1, 3), st.integers(1, 3)),
        groups=st.integers(1, most_groups),
    )


@given(cases(2))
@settings(max_examples=60)
def test_forward(case: Case) -> None:
    y = tf.nn.conv2d(
        ones(*case.x), ones(*case.kernel), case.strides, case.padding, dilations=case.dilations
    )
    counted = work("Conv2D", case.x, case.kernel, **case.steps)
    assert counted.nominal == {(MATRIX, Precision.FP32): case.nominal(y)}
    assert least(counted) == 2 * float(tf.reduce_sum(y))
    assert counted.bytes_written == 4 * float(tf.size(y))
    assert counted.source is Source.COUNTED


@given(cases(2, most_groups=1))
@settings(max_examples=60)
def test_gradients(case: Case) -> None:
    """TensorFlow runs neither groups nor dilation of a gradient in fp64 on a CPU: those by their forward pass."""
    x, kernel = ones(*case.x), ones(*case.kernel)
    y = tf.nn.conv2d(x, kernel, case.strides, case.padding, dilations=case.dilations)
    dy, sizes = tuple(y.shape), TensorSpec((4,), "int32")
    constants = ({0: case.x}, {1: case.kernel})
    operands: tuple[tuple[Any, ...], ...] = ((sizes, case.kernel, dy), (case.x, sizes, dy))
    names = ("Conv2DBackpropInput", "Conv2DBackpropFilter")
    works = [
        work(name, *shapes, constants=sizes_, **case.steps)
        for name, shapes, sizes_ in zip(names, operands, constants, strict=True)
    ]
    for counted in works:
        assert counted.flop(MATRIX) == case.nominal(y)
        assert least(counted) == 2 * float(tf.reduce_sum(y))
    if case.dilations == (1, 1):
        results = _run_gradients(case, x, kernel, tf.ones_like(y))
        for counted, result in zip(works, results, strict=True):
            assert least(counted) == 2 * float(tf.reduce_sum(result))
            assert counted.bytes_written == 4 * float(tf.size(result))


def _run_gradients(case: Case, x: Any, kernel: Any, dy: Any) -> list[Any]:
    return [
        tf.raw_ops.Conv2DBackpropInput(
            input_sizes=case.x, filter=kernel, out_backprop=dy, **case.steps
        ),
        tf.raw_ops.Conv2DBackpropFilter(
            input=x, filter_sizes=case.kernel, out_backprop=dy, **case.steps
        ),
    ]


@given(cases(3, most_groups=1))
@settings(max_examples=25)
def test_three_dimensions(case: Case) -> None:
    """TensorFlow has no dilated one on a CPU, so dilation is left to the two-dimensional tests."""
    steps: dict[str, Any] = {**case.steps, "dilations": [1] * 5}
    x, kernel = ones(*case.x), ones(*case.kernel)
    y = tf.nn.conv3d(x, kernel, [1, *case.strides, 1], case.padding)
    sizes = TensorSpec((5,), "int32")
    dy = tuple(y.shape)
    works = [
        work("Conv3D", case.x, case.kernel, **steps),
        work("Conv3DBackpropInputV2", sizes, case.kernel, dy, constants={0: case.x}, **steps),
        work("Conv3DBackpropFilterV2", case.x, sizes, dy, constants={1: case.kernel}, **steps),
    ]
    for counted in works:
        assert counted.flop(MATRIX) == case.nominal(y)
        assert least(counted) == 2 * float(tf.reduce_sum(y))


@given(cases(2, most_groups=1, square=True))
@settings(max_examples=40)
def test_depthwise(case: Case) -> None:
    """Every input channel has filters of its own; the filter is (taps, channels, multiplier)."""
    case = Case(**{**vars(case), "dilations": (1, 1)}) if case.strides[0] > 1 else case
    y = tf.nn.depthwise_conv2d(
        ones(*case.x),
        ones(*case.kernel),
        [1, *case.strides, 1],
        case.padding,
        dilations=case.dilations,
    )
    dy, sizes = tuple(y.shape), TensorSpec((4,), "int32")
    taps = case.taps[0] * case.taps[1]
    nominal = 2.0 * float(tf.size(y)) * taps
    works = [
        work("DepthwiseConv2dNative", case.x, case.kernel, **case.steps),
        work(
            "DepthwiseConv2dNativeBackpropInput",
            *(sizes, case.kernel, dy),
            constants={0: case.x},
            **case.steps,
        ),
        work(
            "DepthwiseConv2dNativeBackpropFilter",
            *(case.x, sizes, dy),
            constants={1: case.kernel},
            **case.steps,
        ),
    ]
    for counted in works:
        assert counted.flop(MATRIX) == nominal
        assert least(counted) == 2 * float(tf.reduce_sum(y))
    assert works[0].bytes_written == 4 * float(tf.size(y))


@given(cases(2), st.tuples(*[st.integers(0, 3)] * 4))
@settings(max_examples=40)
def test_explicit_padding(case: Case, zeros: tuple[int, ...]) -> None:
    pairs = [[0, 0], list(zeros[:2]), list(zeros[2:]), [0, 0]]
    steps: dict[str, Any] = {
        **case.steps,
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, *zeros, 0, 0],
    }
    y = tf.nn.conv2d(
        ones(*case.x), ones(*case.kernel), case.strides, pairs, dilations=case.dilations
    )
    counted = work("Conv2D", case.x, case.kernel, **steps)
    assert counted.flop(MATRIX) == case.nominal(y)
    assert least(counted) == 2 * float(tf.reduce_sum(y))
    # The same with the zeros in a Pad before it, as Grappler fuses it.
    fused = work(
        "_MklNativePadWithConv2D",
        *(case.x, case.kernel, TensorSpec((4, 2), "int32")),
        constants={2: pairs},
        out=tuple(y.shape),
        **{**case.steps, "padding": "VALID"},
    )
    assert (fused.nominal, fused.least) == (counted.nominal, counted.least)


def first(shape: Any) -> tuple[int, ...]:
    """Channels before positions."""
    return (shape[0], shape[-1], *shape[1:-1])


@given(cases(2))
@settings(max_examples=40)
def test_channels_first_counts_the_same(case: Case) -> None:
    """Of forward and both gradients; the filter keeps its layout."""
    last = work("Conv2D", case.x, case.kernel, **case.steps)
    strides, dilations = ([1, 1, *s] for s in (case.strides, case.dilations))
    steps: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "padding": case.padding,
        "data_format": "NCHW",
    }
    x = first(case.x)
    forward = work("Conv2D", x, case.kernel, **steps)
    assert (forward.nominal, forward.least) == (last.nominal, last.least)
    assert forward.bytes_written == last.bytes_written
    y = tf.nn.conv2d(
        ones(*case.x), ones(*case.kernel), case.strides, case.padding, dilations=case.dilations
    )
    dy, sizes = first(y.shape), TensorSpec((4,), "int32")
    for counted in (
        work("Conv2DBackpropInput", sizes, case.kernel, dy, constants={0: x}, **steps),
        work("Conv2DBackpropFilter", x, sizes, dy, constants={1: case.kernel}, **steps),
    ):
        assert (counted.nominal, counted.least) == (last.nominal, last.least)


def test_grouped_gradients_count_the_channels_of_a_group() -> None:
    """Six channels in three groups: each output channel sums over two input channels."""
    steps: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    sizes = TensorSpec((4,), "int32")
    x, kernel, dy = (2, 5, 5, 6), (3, 3, 2, 12), (2, 3, 3, 12)
    expected = 2 * (2 * 3 * 3 * 12) * (3 * 3) * 2
    works = [
        work("Conv2D", x, kernel, **steps),
        work("Conv2DBackpropInput", sizes, kernel, dy, constants={0: x}, **steps),
        work("Conv2DBackpropFilter", x, sizes, dy, constants={1: kernel}, **steps),
    ]
    for counted in works:
        assert counted.flop(MATRIX) == least(counted) == expected


def test_what_keras_layers_become() -> None:
    """Transposed, one-dimensional and separable convolutions by hand, from what Keras' ops are traced to."""
    transposed = one(
        "Conv2DBackpropInput",
        lambda x, w: tf.nn.conv2d_transpose(x, w, (2, 8, 8, 5), 2, "SAME"),
        *((2, 4, 4, 3), (3, 3, 5, 3)),
    )
    assert transposed.work().flop(MATRIX) == 2 * (2 * 4 * 4 * 3) * (3 * 3 * 5)
    flat = one("Conv2D", lambda x, w: tf.nn.conv1d(x, w, 1, "VALID"), (2, 9, 3), (4, 3, 5))
    assert flat.work().flop(MATRIX) == 2 * (2 * 6 * 5) * (4 * 3)
    separable = trace(
        lambda x, d, p: tf.nn.separable_conv2d(x, d, p, [1, 1, 1, 1], "SAME"),
        *((2, 6, 6, 3), (3, 3, 3, 2), (1, 1, 6, 5)),
    )
    total = sum(item.work().flop(MATRIX) for item in separable)
    assert total == 2 * (2 * 6 * 6) * (6 * 9 + 6 * 5)


def test_gradients_of_a_traced_convolution_find_their_shapes() -> None:
    """Also where the sizes are not constants: then the shape of the result tells."""
    nodes = trace(gradient(lambda x, w: tf.nn.conv2d(x, w, 2, "SAME")), (2, 9, 8, 3), (3, 3, 3, 5))
    counted = {item.node.op: item.work() for item in nodes}
    flop = 2 * (2 * 5 * 4 * 5) * (3 * 3 * 3)
    for op in ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"):
        assert counted[op].flop() == flop


def test_fused_bias_and_activation_are_vector_work() -> None:
    steps: dict[str, Any] = {
        "strides": [1, 1, 1, 1],
        "padding": "SAME",
        "fused_ops": ["BiasAdd", "Relu"],
    }
    counted = work("_MklNativeFusedConv2D", (2, 6, 6, 3), (3, 3, 3, 5), (5,), **steps)
    elements = 2 * 6 * 6 * 5
    assert counted.nominal == {
        (MATRIX, Precision.FP32): 2 * elements * 27,
        (VECTOR, Precision.FP32): 2 * elements,
    }
    assert counted.source is Source.COUNTED
    biased = work(
        "_MklNativeConv2DBackpropFilterWithBias",
        *((2, 6, 6, 3), TensorSpec((4,), "int32"), (2, 6, 6, 5)),
        constants={1: (3, 3, 3, 5)},
        strides=[1, 1, 1, 1],
        padding="SAME",
    )
    assert biased.flop(MATRIX) == 2 * elements * 27
    assert biased.flop(VECTOR) == elements
    assert biased.bytes_written == 4 * (3 * 3 * 3 * 5 + 5)


def test_precision_follows_the_type() -> None:
    for dtype, precision in ((tf.bfloat16, Precision.BF16), (tf.half, Precision.FP16)):
        steps: dict[str, Any] = {"strides": [1] * 4, "padding": "SAME", "T": dtype}
        counted = work("Conv2D", (2, 6, 6, 3), (3, 3, 3, 5), **steps)
        assert list(counted.nominal or {}) == [(MATRIX, precision)]
        assert counted.bytes_read == 2 * (2 * 36 * 3 + 9 * 15)


def test_a_convolution_that_does_not_tell_its_steps_is_missing() -> None:
    buffers = Buffers()
    counted = work("Conv2D", (2, 6, 6, 3), (3, 3, 3, 5), out=(2, 6, 6, 5), buffers=buffers)
    assert (counted.nominal, counted.source) == (None, Source.MISSING)
    assert "strides or its padding" in next(iter(buffers.faults))
