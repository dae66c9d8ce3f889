"""Situations in which other counters went wrong, as described by a folder of cases, and the same kinds in small."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hroof.launches import Work
from hroof.units import Pipe, Source
from hroof_torch.counting import CountedOp, CountingMode

Ops = list[CountedOp[Any]]


class ModuleStack:
    """Names of the modules that run, and of those whose nodes run backward."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.open: list[str] = []
        self.owners: dict[Any, str] = {}

    def where(self, function: Any, args: Any, kwargs: Any) -> tuple[str, tuple[str, ...]]:
        if torch._C._current_graph_task_id() != -1 and not self.open:
            node = torch._C._current_autograd_node()
            return "backward", (self.owners.get(node, ""),)
        return "forward", tuple(self.open)

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Follow module calls; the nodes that a call adds belong to it."""
        original, stack = nn.Module.__call__, self

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            stack.open.append(stack.names.get(module, type(module).__name__))
            try:
                result = original(module, *args, **kwargs)
                stack.own(result)
                return result
            finally:
                stack.open.pop()

        nn.Module.__call__ = call
        try:
            yield
        finally:
            nn.Module.__call__ = original

    def own(self, result: Any) -> None:
        pending = [result.grad_fn] if isinstance(result, torch.Tensor) and result.grad_fn else []
        while pending:
            node = pending.pop()
            if node not in self.owners:
                self.owners[node] = self.open[-1]
                pending += [following for following, _ in node.next_functions if following]


def counted(model: nn.Module, step: Callable[[], object]) -> Ops:
    ops: Ops = []
    stack = ModuleStack(model)
    with stack.following(), CountingMode(ops.append, stack.where) as mode:
        step()
    assert not mode.faults
    return ops


def layer_of(op: CountedOp[Any]) -> str:
    assert op.where is not None
    return str(op.where[1][-1])


def matrix(ops: Ops) -> float:
    return sum(op.work.flop(Pipe.MATRIX) for op in ops)


def vector(ops: Ops) -> float:
    return sum(op.work.flop(Pipe.VECTOR) for op in ops)


def nbytes(ops: Ops) -> float:
    work = Work.total(op.work for op in ops)
    return work.bytes_read + work.bytes_written


def by_layer(ops: Ops) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for op in ops:
        assert op.where is not None
        phase, layers = op.where
        for layer in set(layers):
            table[layer][phase] += op.work.flop(Pipe.MATRIX)
    return table


class Case:
    """One case: its program and what it expects."""

    def __init__(self, number: str) -> None:
        root = os.environ.get("HROOF_CASES")
        if not root:
            pytest.skip("HROOF_CASES does not name a folder of cases")
        (folder,) = Path(root).glob(f"{number}-*")
        self.expect = json.loads((folder / "expected.json").read_text())["expect"]
        spec = importlib.util.spec_from_file_location(f"case_{number}", folder / "input.py")
        assert spec is not None and spec.loader is not None
        self.program: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.program)

    def run(self, *names: str) -> Ops:
        state = self.program.setup()
        model = state.get("model", nn.Module())
        return counted(model, lambda: self.program.run(state, *names))


FLOP_CASES = [
    *("01", "02", "03", "05", "07", "08", "09", "11", "12"),
    *("13", "16", "17", "20", "21", "22", "24", "25", "94"),
]


@pytest.mark.parametrize("number", FLOP_CASES)
def test_matrix_flop(number: str) -> None:
    case = Case(number)
    ops = case.run()
    assert matrix(ops) == case.expect["matmul_flops"]
    table = by_layer(ops)
    for layer, phases in case.expect.get("per_layer", {}).items():
        assert {phase: table[layer][phase] for phase in phases} == phases
    assert all(op.work.nominal is not None for op in ops)


def test_least_convolution() -> None:
    case = Case("02")
    for op in case.run():
        layer = layer_of(op)
        (least,) = (op.work.least or {}).values()
        assert least == case.expect["effective_flops_optional"][layer]


def test_bias_and_lookup_extras() -> None:
    case = Case("05")
    assert vector(case.run()) == case.expect["extras"]["bias_add"]
    case = Case("16")
    lookups = [op for op in case.run() if op.name == "aten::embedding_dense_backward"]
    assert vector(lookups) == case.expect["extras"]["embedding_backward_adds"]


def test_grouped_queries() -> None:
    case = Case("09")
    (op,) = [op for op in case.run() if "attention" in op.name]
    log_sums = 2 * 8 * 16 * 4
    assert nbytes([op]) - log_sums == case.expect["bytes_compulsory"]


@pytest.mark.parametrize("mode", ["none", "nonreentrant", "reentrant"])
@pytest.mark.filterwarnings("ignore")
def test_checkpointing(mode: str) -> None:
    case = Case("15")
    assert matrix(case.run(mode)) == case.expect["by_mode"][mode]["hardware_flops"]


def test_shared_modules() -> None:
    case = Case("17")
    table = by_layer(case.run())
    assert {name: table[name]["forward"] for name in "abc"} == case.expect["per_parent"]


def test_transforms_are_estimates() -> None:
    case = Case("20")
    (op,) = [op for op in case.run() if "fft" in op.name]
    assert op.work.flop() == case.expect["fft_estimate_optional"]
    assert op.work.source is Source.CONVENTION


def test_steps_are_equal() -> None:
    case = Case("22")
    state = case.program.setup()
    steps = [counted(state["model"], lambda: case.program.step(state)) for _ in range(5)]
    assert [matrix(ops) for ops in steps] == case.expect["per_step"]


def test_elementwise_policy() -> None:
    case = Case("24")
    ops = case.run()
    assert vector(ops) in case.expect["elementwise_flops_any_of"]
    assert {op.work.flop() for op in ops} == {6.0}


def test_bytes_in_place() -> None:
    case = Case("26")
    ops = case.run()
    assert {op.name.removeprefix("aten::"): nbytes([op]) for op in ops} == case.expect["per_op"]
    assert nbytes(ops) == case.expect["bytes_compulsory"]


def test_bytes_of_views() -> None:
    case = Case("28")
    ops = case.run()
    assert nbytes(ops) in case.expect["bytes_compulsory_any_of"]
    assert nbytes([op for op in ops if op.work.is_view]) == case.expect["views_bytes"]


def test_bytes_of_norms() -> None:
    case = Case("29")
    ops = case.run()
    low, high = case.expect["layernorm_bytes_range"]
    norm = [op for op in ops if op.name == "aten::native_layer_norm"]
    softmax = [op for op in ops if op.name == "aten::_softmax"]
    assert low <= nbytes(norm) <= high
    assert nbytes(softmax) == case.expect["softmax_bytes"]
    assert {layer_of(op) for op in ops} >= set(case.expect["layers_listed"])
    assert {op.work.source for op in norm + softmax} == {Source.CONVENTION}


def test_bytes_of_lookups() -> None:
    case = Case("31")
    distinct, equal = case.run()
    assert nbytes([distinct]) == case.expect["distinct_ids_bytes"]
    assert nbytes([equal]) in case.expect["equal_ids_bytes_any_of"]
    assert distinct.work.flop() == case.expect["flops"]


@pytest.mark.filterwarnings("ignore")
def test_compiled_models() -> None:
    case = Case("92")
    state = case.program.setup()
    flop = {}
    for name in ("cold_forward", "warm_forward"):
        call = functools.partial(getattr(case.program, name), state)
        flop[name] = matrix(counted(state["model"], call))
    case.program.warm_step(state)
    ops = counted(state["model"], lambda: case.program.warm_step(state))
    flop["step_after_one_uncounted_step"] = matrix(ops)
    assert flop == case.expect


def test_layout_conversions_are_copies() -> None:
    case = Case("94")
    copies = [op for op in case.run() if op.name == "aten::clone"]
    assert nbytes(copies) == case.expect["conversion_bytes"]
    assert vector(copies) == 0


# The same kinds in small, for machines without the folder.


def test_depthwise_backward_costs_twice_the_forward() -> None:
    layer = nn.Conv2d(6, 6, 3, groups=6, bias=False)
    x = torch.randn(1, 6, 5, 5, requires_grad=True)
    table = by_layer(counted(layer, lambda: layer(x).sum().backward()))
    assert table[""] == {"forward": 2 * 6 * 9 * 9, "backward": 4 * 6 * 9 * 9}


def test_the_first_layer_has_no_input_gradient() -> None:
    net = nn.Sequential(nn.Linear(3, 5, bias=False), nn.Tanh(), nn.Linear(5, 2, bias=False))
    table = by_layer(counted(net, lambda: net(torch.randn(7, 3)).sum().backward()))
    assert table["0"] == {"forward": 210, "backward": 210}
    assert table["2"] == {"forward": 140, "backward": 280}


def test_inference_mode_counts_like_no_grad() -> None:
    net = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2))
    totals = []
    for context in (torch.no_grad, torch.inference_mode):

        def step(context: Any = context) -> None:
            with context():
                net(torch.randn(4, 3))

        totals.append(Work.total(op.work for op in counted(net, step)))
    assert totals[0].nominal == totals[1].nominal
    assert totals[0].bytes_read == totals[1].bytes_read


def test_fused_encoder_layer_equals_the_open_one() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    x, flop = torch.randn(3, 5, 16), []
    for training in (True, False):
        layer.train(training)
        with torch.no_grad():
            flop.append(matrix(counted(layer, lambda: layer(x))))
    assert flop[0] == flop[1] == 2 * 15 * (4 * 16 * 16 + 2 * 16 * 32) + 4 * 3 * 5 * 5 * 16


def test_tied_weights_are_multiplied_for_every_use() -> None:
    layer = nn.Linear(4, 4, bias=False)
    net = nn.Sequential(layer, layer)
    with torch.no_grad():
        assert matrix(counted(net, lambda: net(torch.randn(2, 4)))) == 2 * 64
