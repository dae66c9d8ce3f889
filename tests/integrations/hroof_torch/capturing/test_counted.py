"""The counting step: where ops belong, phases of the gaps, recomputation that is cut short."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from hroof.attribution import Counted, Timed
from hroof.launches import LOSS, Work
from hroof.units import Phase
from hroof_torch.capturing.counted import CountingStep, gap_phase, mark_cut_short
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Tracker


def count(program: Callable[[], object]) -> tuple[list[Counted], LayerMap]:
    """Count a program as the step of a capture."""
    layers = LayerMap()
    tracker = Tracker(layers)
    step = CountingStep(tracker)
    tracker.attach(step)
    step.start()
    try:
        program()
    finally:
        step.stop()
        tracker.detach()
    assert step.faults == ()
    return step.result(), layers


def places(ops: list[Counted], layers: LayerMap, *names: str) -> list[tuple[str, str, str]]:
    """(op, phase, owner) of the ops of some names."""
    known = layers.names()
    return [
        (op.op.removeprefix("aten::"), str(op.phase), _owner(op, known))
        for op in ops
        if op.op.removeprefix("aten::") in names
    ]


def _owner(op: Counted, names: list[str]) -> str:
    return "" if op.owner is None else "(loss)" if op.owner == LOSS else names[op.owner]


@pytest.fixture
def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2, bias=False))


def test_a_training_step(net: nn.Sequential) -> None:
    sgd = torch.optim.SGD(net.parameters(), 0.1, foreach=False)

    def program() -> None:
        net(torch.ones(5, 3)).square().mean().backward()
        sgd.step()

    ops, layers = count(program)
    assert places(ops, layers, "mm", "tanh", "tanh_backward", "pow", "mean", "div") == [
        ("mm", "forward", "0"),
        ("tanh", "forward", "1"),
        ("mm", "forward", "2"),
        ("pow", "loss", "(loss)"),
        ("mean", "loss", "(loss)"),
        ("div", "backward", "(loss)"),
        ("pow", "backward", "(loss)"),
        ("mm", "backward", "2"),
        ("mm", "backward", "2"),
        ("tanh_backward", "backward", "1"),
        ("mm", "backward", "0"),
    ]
    updates = [op for op in ops if op.phase is Phase.OPTIMIZER]
    assert [[layers.names()[part.layer or 0] for part in op.parts] for op in updates] == [
        ["0"],
        ["2"],
    ]
    assert all(op.work.nominal is not None for op in ops)


@pytest.mark.parametrize(
    ("before", "after", "phase"),
    [
        ("forward-", "backward+", Phase.LOSS),
        ("backward-", "optimizer+", Phase.OPTIMIZER),
        ("", "forward+", Phase.OTHER),
        ("optimizer-", "", Phase.OTHER),
        ("backward-", "forward+", Phase.OTHER),
        ("forward-", "forward+", Phase.OTHER),
    ],
)
def test_gaps_have_the_phase_of_their_neighbours(before: str, after: str, phase: Phase) -> None:
    assert gap_phase(before, after) is phase


def test_a_step_that_fails_leaves_no_mode(net: nn.Sequential) -> None:
    with pytest.raises(RuntimeError):
        count(lambda: net(torch.ones(5, 7)))
    assert _get_current_dispatch_mode() is None


def test_nested_backward_passes_keep_their_sums(net: nn.Sequential) -> None:
    """The pass within (as reentrant checkpointing runs one) does not forget the outer one's."""

    class Within(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: object, *gradients: Tensor) -> Tensor:
            with torch.enable_grad():
                inner = torch.ones(2, requires_grad=True).exp()
                (inner.sin() + inner.cos()).sum().backward()
            return gradients[0]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor) -> Tensor:
            y = self.net(x)
            return y.sin() + Within.apply(y.cos())

    model = Model()
    ops, layers = count(lambda: model(torch.ones(5, 3)).sum().backward())
    sums = [op for op in ops if op.is_sum and op.signature[0][0] == (5, 2)]  # type: ignore[index]
    assert [_owner(op, layers.names()) for op in sums] == ["net.2"]


def test_zeroing_before_the_model_is_known(net: nn.Sequential) -> None:
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    net(torch.ones(5, 3)).sum().backward()

    def program() -> None:
        torch.ones(7).zero_()
        sgd.zero_grad(set_to_none=False)
        net(torch.ones(5, 3)).sum().backward()

    ops, layers = count(program)
    zeroed = [op for op in ops if "zero" in op.op]
    assert zeroed[0].phase is Phase.OTHER and zeroed[0].parts == ()
    shares = {layers.names()[p.layer or 0]: p.share for op in zeroed[1:] for p in op.parts}
    assert set(shares) == {"0", "2"}
    assert {op.phase for op in zeroed[1:]} == {Phase.OPTIMIZER}


# --- recomputation that is cut short ------------------------------------------------------------


def timed(op: str, ordinal: int = 0, *, recompute: bool = True, layer: int = 1) -> Timed:
    shapes = (((2, 2), "float"),)
    return Timed(0, Phase.BACKWARD, layer, recompute, False, op, shapes, 0.0, 1e-6, ordinal=ordinal)


def counted(op: str, *, layer: int = 1) -> Counted:
    work = Work.total([])
    return Counted(Phase.BACKWARD, layer, True, False, op, (), work, layer)


def test_the_last_op_of_a_recomputation_without_a_twin_has_no_work() -> None:
    ops = [timed("aten::mm"), timed("aten::addmm"), timed("aten::mm", recompute=False)]
    ops[0].counted = counted("aten::mm")
    mark_cut_short(ops, [counted("aten::mm")])
    assert [op.composite for op in ops] == [False, True, False]


def test_other_ops_without_a_twin_keep_their_work() -> None:
    """Shapes that changed: the counted step had the op, with others."""
    ops = [timed("aten::addmm"), timed("aten::mm"), timed("aten::mm", recompute=False)]
    mark_cut_short(ops, [counted("aten::addmm"), counted("aten::mm")])
    assert not any(op.composite for op in ops)


def test_an_op_that_is_not_the_last_keeps_its_work() -> None:
    ops = [timed("aten::addmm"), timed("aten::mm"), timed("aten::t", recompute=False)]
    ops[1].counted = counted("aten::mm")
    mark_cut_short(ops, [counted("aten::mm")])
    assert not any(op.composite for op in ops)


def test_a_layer_that_is_recomputed_once_more_than_counted() -> None:
    ops = [timed("aten::mm"), timed("aten::mm", 1), timed("aten::t", recompute=False)]
    ops[0].counted = counted("aten::mm")
    mark_cut_short(ops, [counted("aten::mm")])
    assert [op.composite for op in ops] == [False, True, False]


def test_nothing_is_recomputed() -> None:
    ops = [timed("aten::mm", recompute=False)]
    mark_cut_short(ops, [])
    assert not ops[0].composite
    assert math.isclose(ops[0].duration, 1e-6)
