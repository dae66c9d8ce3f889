"""Counting again with other shapes gives what counting a real call of those shapes gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hroof.launches import Work
from hroof_torch.counting import CountedOp, count_step, recount

Ops = list[CountedOp[Any]]


def facts(work: Work | None) -> Any:
    if work is None:
        return None
    return (
        *(work.nominal, work.least, work.bytes_read, work.bytes_written),
        *(work.source, work.touch.matrix, work.is_view),
    )


def transformer(length: int) -> Ops:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.1)
    x = torch.randn(3, length, 16)
    step: Ops = count_step(lambda: layer(x).sum().backward())
    return step


def vision(size: int) -> Ops:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3, stride=2, groups=2),
        nn.GroupNorm(2, 6),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 5),
    )
    x, targets = torch.randn(2, 3, size, size), torch.tensor([0, 1])
    step: Ops = count_step(lambda: F.cross_entropy(net(x), targets).backward())
    return step


def language(length: int) -> Ops:
    torch.manual_seed(0)
    table, net, head = nn.Embedding(50, 12), nn.LSTM(12, 7, batch_first=True), nn.Linear(7, 50)
    ids = torch.randint(0, 50, (3, length))
    logits: Callable[[], Any] = lambda: head(net(table(ids))[0])  # noqa: E731
    step: Ops = count_step(
        lambda: F.cross_entropy(logits().flatten(0, 1), ids.flatten()).backward()
    )
    return step


@pytest.mark.parametrize(
    ("program", "one", "other"),
    [(transformer, 7, 11), (vision, 21, 29), (language, 5, 9)],
)
def test_templates(program: Callable[[int], Ops], one: int, other: int) -> None:
    """Every op that is told again is told right, and all but a few are told."""
    first, second = program(one), program(other)
    assert [op.name for op in first] == [op.name for op in second]
    silent = []
    for template, truth in zip(first, second, strict=True):
        again = recount(truth.name, truth.signature, template.template)
        if again is None:
            silent.append(truth.name)
        else:
            assert (truth.name, facts(again)) == (truth.name, facts(truth.work))
    assert len(silent) <= 0.05 * len(first), silent


def test_the_same_shapes_give_the_same_work() -> None:
    for op in vision(21):
        assert facts(recount(op.name, op.signature, op.template)) == facts(op.work)


X, Y = torch.randn(6, 8), torch.randn(6, 8)
Z, SQUARE, DOUBLE = torch.randn(6, 8), torch.randn(8, 8), torch.randn(6, 8).double()
ROW, IDS = torch.randn(8), torch.randint(0, 8, (6,))
LIST, OTHERS = [torch.randn(3, 4), torch.randn(5)], [torch.randn(3, 4), torch.randn(5)]
MORE = [torch.randn(3, 4), torch.randn(5)]

BY_NAME: dict[str, Callable[[], Any]] = {
    "add": lambda: X + Y,
    "add a row": lambda: X + ROW,
    "add a number": lambda: X + 2,
    "mul": lambda: DOUBLE * DOUBLE.clone(),
    "add in place": lambda: X.clone().add_(Y, alpha=3),
    "addcdiv in place": lambda: X.clone().addcdiv_(Y, Z, value=-0.1),
    "lerp": lambda: torch.lerp(X, Y, 0.3),
    "sqrt": lambda: X.abs().sqrt(),
    "gelu": lambda: F.gelu(X),
    "comparison": lambda: X > Y,
    "where": lambda: torch.where(X > 0, X, Y),
    "copy": lambda: X.clone().copy_(Y),
    "mm": lambda: X @ Y.T,
    "addmm": lambda: torch.addmm(ROW, X, SQUARE),
    "bmm": lambda: torch.bmm(X[None], Y.T[None]),
    "softmax": lambda: X.softmax(-1),
    "layer norm": lambda: F.layer_norm(X, (8,), ROW, ROW.clone()),
    "mse": lambda: F.mse_loss(X, Y),
    "nll": lambda: F.nll_loss(X, IDS),
    "foreach add": lambda: torch._foreach_add_([t.clone() for t in LIST], OTHERS),
    "foreach mul": lambda: torch._foreach_mul_([t.clone() for t in LIST], 0.9),
    "foreach addcmul": lambda: torch._foreach_addcmul(LIST, OTHERS, MORE),
    "foreach sqrt": lambda: torch._foreach_sqrt(LIST),
    "foreach norm": lambda: torch._foreach_norm(LIST),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_by_name(name: str) -> None:
    for op in count_step(BY_NAME[name]):
        again = recount(op.name, op.signature)
        assert again is not None, op.name
        assert facts(again) == facts(op.work)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("more", [{}, {"amsgrad": True}])
def test_fused_optimizers_by_name(kind: Any, more: dict[str, Any]) -> None:
    if kind is torch.optim.SGD:
        more = {"momentum": 0.9, "weight_decay": 0.0} if more else {"lr": 0.1}
    parameters = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5))]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = kind(parameters, fused=True, **more)
    optimizer.step()
    (op,) = [op for op in count_step(optimizer.step) if "_fused_" in op.name]
    again = recount(op.name, op.signature)
    assert again is not None
    assert again.nominal == op.work.nominal
    assert (again.bytes_read, again.bytes_written) == (op.work.bytes_read, op.work.bytes_written)


@pytest.mark.parametrize(
    "step",
    [
        lambda: X.sum(1),
        lambda: X.sum(),
        lambda: F.scaled_dot_product_attention(X[None, None], X[None, None], X[None, None]),
        lambda: F.conv2d(torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)),
        lambda: torch.cat([X, Y]),
        lambda: X.var(0),
        lambda: F.max_pool2d(torch.randn(1, 2, 6, 6), 2),
    ],
)
def test_what_names_and_shapes_do_not_decide_stays_open(step: Callable[[], Any]) -> None:
    (op,) = [op for op in count_step(step) if not op.work.is_view][-1:]
    assert recount(op.name, op.signature) is None


def test_unknown_ops_and_wrong_signatures() -> None:
    f32 = ((2, 3), "float")
    assert recount("mine::op", (f32,)) is None
    assert recount("aten::no_such_op", (f32,)) is None
    assert recount("aten::mm", (f32, f32)) is None
    assert recount("aten::mm", ()) is None
    assert recount("aten::add", (((2, 3), "no dtype"),) * 2) is None
    assert recount("", ()) is None


def test_a_template_of_another_op_is_not_used() -> None:
    (op,) = count_step(lambda: torch.add(X, Y))
    again = recount("aten::mul", op.signature, op.template)
    assert facts(again) == facts(op.work)


def test_a_template_with_other_dtypes_says_nothing() -> None:
    (op,) = count_step(lambda: torch.cumsum(X, 0))
    assert recount(op.name, (((6, 8), "double"),), op.template) is None
    assert recount(op.name, (((9, 8), "float"),), op.template) is not None


def test_ambiguous_lengths_say_nothing() -> None:
    """Both dimensions of the template have the same length, so a repeated length cannot be told."""
    square = torch.zeros(4, 4, requires_grad=True)
    ops = count_step(lambda: square[1:].sum().backward())
    (op,) = [op for op in ops if op.name == "aten::slice_backward"]
    assert recount(op.name, (((3, 4), "float"),), op.template) is not None
    view = next(op for op in ops if op.name == "aten::slice")
    assert recount(view.name, (((9, 5), "float"),), view.template) == Work(
        *({}, {}, 0.0, 0.0),
        source=view.work.source,
        is_view=True,
    )


def test_strides_of_zero_stay() -> None:
    (op,) = [op for op in count_step(lambda: X + ROW.expand(6, 8)) if op.name == "aten::add"]
    again = recount(op.name, (((9, 8), "float"), ((9, 8), "float")), op.template)
    assert again is not None
    assert again.bytes_read == 4 * (72 + 8)


def test_the_order_of_strides_stays() -> None:
    (op,) = [op for op in count_step(lambda: X.t() * 2) if op.name == "aten::mul"]
    again = recount(op.name, (((8, 9), "float"), ((), "long int")), op.template)
    assert again is not None
    assert (again.bytes_read, again.flop()) == (4 * 72, 72)


def test_buffers_are_not_followed() -> None:
    again = recount("aten::add", (((2, 3), "float"),) * 2)
    assert again is not None
    assert again.touch.accesses == ()
