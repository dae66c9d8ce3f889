"""The two training programs whose FLOP were worked out by hand, on this machine and on paper."""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hroof.units import Pipe, Precision
from hroof_torch.counting import CountedOp, count_step, on_paper
from tests.integrations.hroof_torch import workloads

MATRIX_FP32 = (Pipe.MATRIX, Precision.FP32)
Make = Callable[..., Any]
Ops = list[CountedOp[Any]]


@functools.cache
def counted(which: str, **options: bool) -> Ops:
    """A step of a workload, with options for its optimizer, counted once for all tests."""
    return count_step({"gpt": workloads.gpt, "cnn": workloads.cnn}[which](**options).step)


def matrix_flop(ops: Ops, name: str = "") -> float:
    return sum(op.work.flop(Pipe.MATRIX) for op in ops if name in op.name)


def facts(ops: Ops) -> list[tuple[Any, ...]]:
    return [(op.name, op.signature, *_numbers(op)) for op in ops]


def _numbers(op: CountedOp[Any]) -> tuple[Any, ...]:
    work = op.work
    return (
        *(work.nominal, work.least, work.bytes_read, work.bytes_written),
        *(work.source, work.is_view, work.touch.matrix),
    )


def test_sizes(make_gpt: Make, make_cnn: Make) -> None:
    sizes = [[p.numel() for p in make().model.parameters()] for make in (make_gpt, make_cnn)]
    assert [(sum(size), len(size)) for size in sizes] == [(3_704_320, 53), (414_596, 14)]


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}])
def test_a_gpt_step(options: dict[str, bool]) -> None:
    ops = counted("gpt", **options)
    assert matrix_flop(ops) == 22_779_265_024
    assert {unit for op in ops for unit in op.work.nominal or {} if unit[0] is Pipe.MATRIX} == {
        MATRIX_FP32
    }


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}])
def test_a_cnn_step(options: dict[str, bool]) -> None:
    assert matrix_flop(counted("cnn", **options)) == 5_664_768_000


def test_forward_passes(make_gpt: Make, make_cnn: Make) -> None:
    for make, flop in ((make_gpt, 7_503_609_856), (make_cnn, 1_926_004_736)):
        workload = make()
        forward = functools.partial(workload.model, *workload.batch)
        assert matrix_flop(count_step(forward)) == flop


def test_attention_backward_is_two_and_a_half_times_forward() -> None:
    ops = counted("gpt")
    forward = matrix_flop([op for op in ops if op.name.endswith("flash_attention_for_cpu")])
    backward = matrix_flop(ops, "flash_attention_for_cpu_backward")
    assert forward == 4 * 134_217_728
    assert backward == 2.5 * forward


def test_least_leaves_out_the_mask_and_the_padding() -> None:
    for op in counted("gpt"):
        nominal, least = op.work.nominal or {}, op.work.least or {}
        share = 0.5 if "attention" in op.name else 1.0
        assert least.get(MATRIX_FP32, 0) == share * nominal.get(MATRIX_FP32, 0)
    stem = next(op for op in counted("cnn") if op.name == "aten::convolution")
    assert stem.work.least == {MATRIX_FP32: 2 * 16 * 32 * 3 * (3 * 64 - 2) ** 2}


def test_fused_and_looped_optimizers_count_the_same(make_cnn: Make) -> None:
    """14 FLOP per parameter; the loop has a few scalar ops more."""
    parameters = 414_596
    totals = []
    for options in ({}, {"foreach": True}, {"fused": True}):
        workload = make_cnn(**options)
        workload.step()
        workload.model(*workload.batch).backward()
        ops = count_step(workload.optimizer.step)
        totals.append(sum(op.work.flop() for op in ops))
    assert totals[2] == 14 * parameters + 14  # a step counter per tensor
    assert totals[2] <= totals[1] <= totals[2] + 100
    assert totals[2] <= totals[0] <= totals[2] + 200


def test_steps_do_not_drift(make_cnn: Make) -> None:
    workload = make_cnn()
    workload.step()
    first, second = (facts(count_step(workload.step)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}])
@pytest.mark.parametrize("which", ["gpt", "cnn"])
def test_on_paper_equals_the_real_run(
    which: str, options: dict[str, bool], make_gpt: Make, make_cnn: Make
) -> None:
    make = {"gpt": make_gpt, "cnn": make_cnn}[which]
    assert facts(on_paper(lambda: make(**options).step)) == facts(counted(which, **options))


def test_on_paper_after_a_warm_up(make_cnn: Make) -> None:
    workload = make_cnn()
    workload.step()
    on_fake = on_paper(lambda: make_cnn().step, warm_up=1)
    assert facts(on_fake) == facts(count_step(workload.step))


class BigBlock(nn.Module):
    """Block of a large language model."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = (batch, length, self.heads, -1)
        q, k, v = (
            part.view(split).transpose(1, 2) for part in self.qkv(self.norm(x)).split(width, dim=-1)
        )
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(seen.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(x)


def test_a_large_model_on_paper() -> None:
    """A quarter of a model of 6.7 billion parameters: 8 blocks of width 4096, 2048 tokens; 3.2 GB of weights alone."""
    width, blocks, tokens = 4096, 8, 2048

    def build() -> Callable[[], object]:
        torch.set_default_dtype(torch.bfloat16)
        try:
            model = nn.Sequential(*(BigBlock(width, 32) for _ in range(blocks)))
            x = torch.randn(1, tokens, width)
        finally:
            torch.set_default_dtype(torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

        def step() -> None:
            model(x).sum().backward()
            optimizer.step()

        return step

    tracemalloc.start()
    ops = on_paper(build)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    weights, scores = 12 * width * width * blocks, tokens * width * tokens * blocks
    linear = 6 * tokens * weights
    attention = 2 * 2 * scores * (1 + 2.5)
    assert matrix_flop(ops) == linear + attention
    assert peak < 1e9
