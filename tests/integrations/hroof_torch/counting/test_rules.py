"""FLOP rules, each against a count by hand or by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hroof.launches import Work
from hroof.traffic import MatrixShape
from hroof.units import Pipe, Precision, Source
from hroof_torch.counting import count_step, weights
from hroof_torch.counting.counter import Counter
from hroof_torch.counting.rules.attention import scores_needed
from hroof_torch.counting.rules.flop import RULES, rule, tf32_allowed
from hroof_torch.counting.rules.registry import find_rule
from hroof_torch.counting.schema import base_name, op_info

MATRIX, VECTOR = Pipe.MATRIX, Pipe.VECTOR


def only(step: Callable[[], object], part: str) -> Work:
    works = [op.work for op in count_step(step) if part in op.name]
    assert len(works) == 1, [op.name for op in count_step(step)]
    return works[0]


def meta(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta")


def new(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(torch.empty_like, result))
    return torch.empty_like(result)


def counted(function: Any, *args: Any, result: Any = (), **kwargs: Any) -> Work:
    """Work of a call that this machine cannot run; its results are new tensors like those given."""
    return Counter().count(op_info(function), args, kwargs, new(result))


# --- matrix products


@pytest.mark.parametrize(
    ("step", "flop", "bias"),
    [
        (lambda: torch.mm(torch.ones(3, 4), torch.ones(4, 5)), 120, 0),
        (lambda: torch.addmm(torch.ones(5), torch.ones(3, 4), torch.ones(4, 5)), 120, 15),
        (lambda: torch.addmm(torch.ones(5), torch.ones(3, 4), torch.ones(4, 5), beta=0), 120, 0),
        (lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 5)), 240, 0),
        (
            lambda: torch.baddbmm(torch.ones(2, 3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)),
            *(240, 30),
        ),
        (lambda: torch.addbmm(torch.ones(3, 5), torch.ones(2, 3, 4), torch.ones(2, 4, 5)), 240, 15),
        (lambda: torch.mv(torch.ones(3, 4), torch.ones(4)), 24, 0),
        (lambda: torch.addmv(torch.ones(3), torch.ones(3, 4), torch.ones(4)), 24, 3),
        (lambda: torch.dot(torch.ones(4), torch.ones(4)), 8, 0),
        (lambda: torch.ones(2, 3, 4) @ torch.ones(4, 5), 240, 0),
    ],
)
def test_products(step: Callable[[], object], flop: float, bias: float) -> None:
    work = Work.total(op.work for op in count_step(step))
    assert (work.flop(MATRIX), work.flop(VECTOR)) == (flop, bias)
    assert work.source is Source.COUNTED


def test_a_product_tells_its_shape() -> None:
    work = only(lambda: torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 5)), "bmm")
    assert work.touch.matrix == MatrixShape(2, 3, 5, 4, 4)


@pytest.mark.parametrize(
    ("dtype", "precision", "flop"),
    [
        (torch.float64, Precision.FP64, 120),
        (torch.bfloat16, Precision.BF16, 120),
        (torch.float16, Precision.FP16, 120),
        (torch.complex64, Precision.FP32, 480),
        (torch.complex128, Precision.FP64, 480),
        (torch.int64, Precision.INT32, 120),
        (torch.int8, Precision.INT8, 120),
    ],
)
def test_precision_of_products(dtype: Any, precision: Precision, flop: float) -> None:
    a, b = torch.ones(3, 4, dtype=dtype), torch.ones(4, 5, dtype=dtype)
    assert only(lambda: torch.mm(a, b), "mm").nominal == {(MATRIX, precision): flop}


def test_integer_and_scaled_products() -> None:
    a, b = meta(32, 16, dtype=torch.int8), meta(16, 24, dtype=torch.int8)
    out = meta(32, 24, dtype=torch.int32)
    work = counted(torch.ops.aten._int_mm.default, a, b, result=out)
    assert work.nominal == {(MATRIX, Precision.INT8): 2 * 32 * 16 * 24}
    a, b = meta(32, 16, dtype=torch.float8_e4m3fn), meta(16, 24, dtype=torch.float8_e4m3fn)
    scale, out = meta(), meta(32, 24, dtype=torch.bfloat16)
    function = torch.ops.aten._scaled_mm.default
    work = counted(function, a, b, scale, scale, meta(24), result=out)
    assert work.nominal == {
        (MATRIX, Precision.FP8): 2 * 32 * 16 * 24,
        (VECTOR, Precision.BF16): 32 * 24,
    }


def test_bilinear() -> None:
    layer = nn.Bilinear(4, 5, 3, bias=False)
    work = only(lambda: layer(torch.ones(7, 4), torch.ones(7, 5)), "_trilinear")
    assert work.flop(MATRIX) == 2 * 7 * 3 * 4 * 5


def test_tf32_follows_the_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for convolution, backend in (
        (False, torch.backends.cuda.matmul),
        (True, torch.backends.cudnn.conv),
    ):
        before = backend.fp32_precision
        try:
            for value, expected in (("tf32", True), ("ieee", False)):
                backend.fp32_precision = value
                assert tf32_allowed(convolution) is expected
        finally:
            backend.fp32_precision = before


# --- convolutions


CONVOLUTIONS = [
    (nn.Conv1d(3, 6, 4, stride=3, padding=2), (2, 3, 20)),
    (nn.Conv2d(4, 6, 3, stride=2, dilation=2, padding=1, groups=2), (1, 4, 17, 15)),
    (nn.Conv3d(2, 3, (1, 3, 2), padding=(0, 1, 1)), (1, 2, 4, 5, 5)),
    (nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1), (2, 4, 7)),
    (nn.ConvTranspose2d(4, 6, 4, stride=2, padding=1, groups=2, output_padding=1), (2, 4, 5, 6)),
    (nn.ConvTranspose3d(2, 3, 2, stride=2, padding=1), (1, 2, 3, 3, 3)),
]


def multiply_adds(layer: Any, shape: tuple[int, ...]) -> tuple[int, int]:
    """Nominal and least multiply-adds, by ones: a convolution of ones counts the taps that meet an input."""
    ones = type(layer)(
        *(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding),
        **({"output_padding": layer.output_padding} if layer.transposed else {}),
        groups=layer.groups,
        dilation=layer.dilation,
        bias=False,
    )
    nn.init.ones_(ones.weight)
    with torch.no_grad():
        y = ones(torch.ones(shape))
    taps = ones.weight[0, 0].numel()
    places = torch.Size(shape[2:]).numel() if layer.transposed else y[0, 0].numel()
    channels = layer.in_channels * layer.out_channels // layer.groups
    return shape[0] * places * taps * channels, int(y.sum())


@pytest.mark.parametrize(("layer", "shape"), CONVOLUTIONS)
def test_convolutions(layer: Any, shape: tuple[int, ...]) -> None:
    nominal, least = multiply_adds(layer, shape)
    x = torch.randn(shape, requires_grad=True)
    y = layer(x)
    forward = only(lambda: layer(x), "aten::convolution")
    assert forward.flop(MATRIX) == 2 * nominal
    assert (forward.least or {})[MATRIX, Precision.FP32] == 2 * least
    assert forward.flop(VECTOR) == y.numel()
    backward = only(lambda: y.sum().backward(), "convolution_backward")
    assert backward.flop(MATRIX) == 4 * nominal
    assert (backward.least or {})[MATRIX, Precision.FP32] == 4 * least
    assert backward.flop(VECTOR) == y.numel()


def test_gradients_that_nobody_asks_for_cost_nothing() -> None:
    layer = nn.Conv2d(3, 4, 3, bias=False)
    x = torch.randn(1, 3, 6, 6)
    once = 2 * 16 * 4 * 27
    y = layer(x)
    assert only(lambda: y.sum().backward(), "convolution_backward").flop() == once
    frozen = nn.Conv2d(3, 4, 3, bias=False).requires_grad_(False)
    z = frozen(x.requires_grad_())
    assert only(lambda: z.sum().backward(), "convolution_backward").flop() == once


def test_library_convolutions() -> None:
    x, weight, bias = meta(1, 3, 6, 6), meta(4, 3, 3, 3), meta(4)
    y, flop = meta(1, 4, 4, 4), 2 * 16 * 4 * 27
    work = counted(
        torch.ops.aten.cudnn_convolution_relu.default,
        *(x, weight, bias, [1, 1], [0, 0], [1, 1], 1),
        result=y,
    )
    assert (work.flop(MATRIX), work.flop(VECTOR)) == (flop, 2 * 64)
    work = counted(
        torch.ops.aten.cudnn_convolution.default,
        *(x, weight, [0, 0], [1, 1], [1, 1], 1, False, False, True),
        result=y,
    )
    assert work.flop() == flop
    up = meta(1, 5, 8, 8)
    work = counted(
        torch.ops.aten.cudnn_convolution_transpose.default,
        *(x, meta(3, 5, 3, 3), [0, 0], [0, 0], [1, 1], [1, 1], 1, False, False, True),
        result=up,
    )
    assert work.flop() == 2 * 36 * 3 * 5 * 9


# --- attention


def test_scores_needed() -> None:
    assert scores_needed(6, 8, False) == 48
    assert scores_needed(6, 6, True) == 18
    for queries, keys in ((3, 5), (5, 3), (1, 9)):
        mask = torch.ones(queries, keys).tril()
        assert scores_needed(queries, keys, True) == mask.sum()


def test_attention_with_unequal_features() -> None:
    q, k, v = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    work = only(lambda: F.scaled_dot_product_attention(q, k, v), "flash_attention")
    assert work.flop(MATRIX) == 2 * 6 * 5 * 7 * 16
    assert work.flop(VECTOR) == 6 * 35 * weights.SOFTMAX
    assert work.source is Source.COUNTED


def test_causal_attention_halves_only_the_least() -> None:
    q = torch.randn(1, 2, 6, 8, requires_grad=True)
    for part in ("for_cpu_backward", "for_cpu"):
        ops = count_step(
            lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
        )
        work = next(op.work for op in ops if op.name.endswith(part))
        unit = (MATRIX, Precision.FP32)
        assert (work.least or {})[unit] == (work.nominal or {})[unit] / 2


def test_math_attention_equals_the_fused_one() -> None:
    q = torch.randn(1, 2, 6, 8)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        ops = count_step(lambda: F.scaled_dot_product_attention(q, q, q))
    assert sum(op.work.flop(MATRIX) for op in ops) == 4 * 2 * 36 * 8


def cuda_attention(name: str) -> Any:
    return getattr(torch.ops.aten, name).default


def test_attention_of_other_libraries() -> None:
    q, k = meta(2, 8, 16, 32), meta(2, 2, 16, 32)
    lse = meta(2, 8, 16)
    forward, backward = 4 * 16 * 16 * 16 * 32, 10 * 16 * 16 * 16 * 32
    flash = counted(
        cuda_attention("_scaled_dot_product_flash_attention"), q, k, k, 0.0, True, result=(q, lse)
    )
    assert flash.flop(MATRIX) == forward
    efficient = counted(
        cuda_attention("_scaled_dot_product_efficient_attention"),
        *(q, k, k, None, True),
        result=(q, lse),
    )
    assert efficient.flop(MATRIX) == forward
    cudnn = counted(
        cuda_attention("_scaled_dot_product_cudnn_attention"), q, k, k, None, True, result=(q, lse)
    )
    assert cudnn.flop(MATRIX) == forward
    gradient = counted(
        cuda_attention("_scaled_dot_product_efficient_attention_backward"),
        *(q, q, k, k, None, q, lse, meta(), meta(), 0.0, [True] * 4),
        result=(q, k, k),
    )
    assert gradient.flop(MATRIX) == backward
    gradient = counted(
        cuda_attention("_scaled_dot_product_flash_attention_backward"),
        *(q, q, k, k, q, lse, None, None, 16, 16, 0.0, True, meta(2), meta(2)),
        result=(q, k, k),
    )
    assert gradient.flop(MATRIX) == backward
    assert gradient.least == {
        unit: value / 2 if unit[0] is MATRIX else value / 2 / weights.SOFTMAX
        for unit, value in (gradient.nominal or {}).items()
    }


def test_packed_sequences_have_no_rule() -> None:
    q, lengths = meta(40, 8, 32), meta(3, dtype=torch.int32)
    counter = Counter()
    info = op_info(torch.ops.aten._flash_attention_forward.default)
    work = counter.count(info, (q, q, q, lengths, lengths, 20, 20, 0.0, True, False), {}, new(q))
    assert work.nominal is None and work.least is None
    assert work.source is Source.MISSING
    assert work.bytes_read > 0
    assert "lengths are data" in next(iter(counter.faults))


# --- recurrent layers


def weights_of(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters() if p.dim() == 2)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_recurrent_layers(kind: Any, options: dict[str, Any]) -> None:
    net = kind(4, 6, **options)
    x = torch.randn(5, 3, 4, requires_grad=True)
    with torch.no_grad():
        forward = Work.total(op.work for op in count_step(lambda: net(x)))
    assert forward.flop(MATRIX) == 2 * 15 * weights_of(net)
    y = net(x)[0]
    backward = Work.total(op.work for op in count_step(lambda: y.sum().backward()))
    if kind is nn.LSTM:
        assert backward.flop(MATRIX) == 4 * 15 * weights_of(net)
    else:  # the first state needs no gradient, so one product per layer and direction is not run
        hidden = 36 * {nn.GRU: 3, nn.RNN: 1}[kind] * 3 * (4 if options else 1)
        assert backward.flop(MATRIX) == 4 * 15 * weights_of(net) - 2 * hidden


def test_cudnn_lstm() -> None:
    net = nn.LSTM(4, 6, 2)
    held = [meta(*p.shape) for p in net.parameters()]
    x, state, out = meta(5, 3, 4), meta(2, 3, 6), meta(5, 3, 6)
    args: tuple[Any, ...] = (
        x,
        held,
        4,
        meta(100),
        state,
        state,
        2,
        6,
        0,
        2,
        False,
        0.0,
        True,
        False,
        [],
        None,
    )
    forward = counted(
        torch.ops.aten._cudnn_rnn.default, *args, result=(out, state, state, meta(9), meta(9))
    )
    assert forward.flop(MATRIX) == 2 * 15 * weights_of(net)
    assert forward.flop(VECTOR) == 15 * 12 * weights.LSTM_CELL
    assert forward.bytes_written == 4 * (out.numel() + 2 * state.numel())
    back = torch.ops.aten._cudnn_rnn_backward.default
    shared = (x, held, 4, meta(100), state, state, out, out, state, state)
    rest: tuple[Any, ...] = (2, 6, 0, 2, False, 0.0, True, False, [], None, meta(9))
    for weights_too, passes in ((True, 4), (False, 2)):
        mask = [True, True, True, weights_too]
        work = counted(back, *shared, *rest, mask, result=(x, state, state))
        assert work.flop(MATRIX) == passes * 15 * weights_of(net)


def test_fused_cells() -> None:
    gates, state = meta(3, 24), meta(3, 6)
    lstm = counted(
        torch.ops.aten._thnn_fused_lstm_cell.default, gates, gates, state, result=(state,) * 3
    )
    assert lstm.nominal == {(VECTOR, Precision.FP32): 18 * weights.LSTM_CELL}
    gru = counted(
        torch.ops.aten._thnn_fused_gru_cell.default,
        meta(3, 18),
        meta(3, 18),
        state,
        result=(state, state),
    )
    assert gru.flop() == 18 * weights.GRU_CELL


# --- the convention


@pytest.mark.parametrize(
    ("step", "flop"),
    [
        (lambda x: x + x, 24),
        (lambda x: x - 1, 24),
        (lambda x: x * x, 24),
        (lambda x: x / 2, 24),
        (lambda x: x.exp(), 24),
        (lambda x: x.sigmoid(), 72),
        (lambda x: F.silu(x), 96),
        (lambda x: F.gelu(x), 192),
        (lambda x: x.softmax(-1), 96),
        (lambda x: F.layer_norm(x, (6,)), 192),
        (lambda x: x.sum(), 24),
        (lambda x: x.mean(0), 24),
        (lambda x: x.var(), 96),
        (lambda x: x.cumsum(0), 24),
        (lambda x: torch._foreach_add([x, x], 1), 48),
        (lambda x: torch._foreach_norm([x, x]), 96),
        (lambda x: F.mse_loss(x, x), 72),
        (lambda x: F.avg_pool2d(x[None], 2), 24),
        (lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"), 9 * 96),
        (lambda x: torch.fft.fft(torch.complex(x, x)[:, :4]), 5 * 16 * 2),
        (lambda x: torch.complex(x, x).mul(2), 6 * 24),
        (lambda x: x > 0, 0),
        (lambda x: x.clone(), 0),
        (lambda x: x.sort(), 0),
        (lambda x: torch.randn(4), 0),
        (lambda x: (x > 0) & (x < 1), 0),
    ],
)
def test_weights(step: Callable[[Any], object], flop: float) -> None:
    x = torch.rand(4, 6)
    works = [op.work for op in count_step(lambda: step(x))]
    assert sum(work.flop() for work in works) == flop
    assert any(work.source is Source.CONVENTION for work in works) == (flop > 0)


def test_least_is_one_per_element() -> None:
    work = only(lambda: F.gelu(torch.randn(4, 6)), "gelu")
    assert work.least == {(VECTOR, Precision.FP32): 24}


def test_integers_are_not_flop() -> None:
    work = only(lambda: torch.arange(6) * 2, "mul")
    ((pipe, precision),) = work.nominal or {}
    assert (pipe, precision.is_float) == (VECTOR, False)


def test_special_precisions() -> None:
    assert only(lambda: torch.ones(4).half() + 1, "add").nominal == {(VECTOR, Precision.FP16): 4}
    assert only(lambda: torch.ones(4, dtype=torch.int8) + 1, "add").nominal == {
        (VECTOR, Precision.INT8): 4
    }
    assert only(lambda: torch.ones(4, dtype=torch.bool).sum(), "sum").nominal == {}


def test_batch_norm_depends_on_training() -> None:
    norm, x = nn.BatchNorm1d(6), torch.randn(4, 6)
    with torch.no_grad():
        assert only(lambda: norm(x), "batch_norm").flop() == 8 * 24
        norm.eval()
        assert only(lambda: norm(x), "batch_norm").flop() == 4 * 24


def test_factorisations_are_conventions() -> None:
    work = only(lambda: torch.linalg.cholesky(torch.eye(6).repeat(2, 1, 1)), "cholesky")
    assert work.flop() == 2 * 6**3 / 3
    assert work.source is Source.CONVENTION


# --- names and tables


@pytest.mark.parametrize(
    ("name", "base", "foreach"),
    [
        ("aten::add", "add", False),
        ("aten::add_", "add", False),
        ("aten::_foreach_add_", "add", True),
        ("aten::_softmax", "_softmax", False),
        ("aten::_fused_adamw_", "_fused_adamw_", False),
        ("aten::__and__", "__and__", False),
        ("mine::add", "mine::add", False),
    ],
)
def test_base_names(name: str, base: str, foreach: bool) -> None:
    assert base_name(name) == (base, foreach)


def test_tables_do_not_contradict_each_other() -> None:
    tables = [set(weights.PER_OUTPUT), set(weights.PER_INPUT), set(weights.ZERO), set(RULES)]
    for one, other in itertools.combinations(tables, 2):
        assert not one & other


def test_tables_name_real_ops() -> None:
    """Every name is an op of this PyTorch, in place, out of place or as a list."""
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    known = {base_name(name)[0] for name in names}
    for base in [*weights.PER_OUTPUT, *weights.PER_INPUT, *weights.ZERO, *RULES]:
        if "::" not in base:
            assert base in known, base


def test_an_op_has_one_rule() -> None:
    with pytest.raises(ValueError, match="mm has two rules"):
        rule("mm")(lambda call: call)  # type: ignore[arg-type,return-value]


def test_no_rule_for_the_unknown() -> None:
    assert find_rule("mine::op") is None
    assert find_rule("no_such_op") is None
