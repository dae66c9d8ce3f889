"""Layers of every op against a truth that knows nothing of hroof: op names and shapes alone.

Every layer of the nets here has widths of its own, so that for most ops (name, input shapes) leaves
only one layer that can have issued it. An op with several candidates, or none, is undecidable and
is left out; the share of decidable ops has a lower bound for each phase.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from tests.integrations.hroof_torch import seeing
    from tests.integrations.hroof_torch.seeing import Op, Seen
else:  # tests are no packages
    _spec = importlib.util.spec_from_file_location("seeing", Path(__file__).with_name("seeing.py"))
    seeing = sys.modules["seeing"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(seeing)

Shape = tuple[int, ...]


# --- nets whose layers all have shapes of their own ---------------------------------------------


class Attention(nn.Module):
    """Causal self-attention with an inner width of its own."""

    def __init__(self, width: int, inner: int, out: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * inner)
        self.proj = nn.Linear(inner, out, bias=False)
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        split = (batch, length, 2, self.inner // 2)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(heads.transpose(1, 2).reshape(batch, length, self.inner))


class Block(nn.Module):
    """A pre-norm block that changes the width twice."""

    def __init__(self, width: int, inner: int, middle: int, hidden: int, out: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = Attention(width, inner, middle)
        self.skip = nn.Linear(width, middle, bias=False)
        self.ln2 = nn.LayerNorm(middle)
        self.mlp = nn.Sequential(
            nn.Linear(middle, hidden), nn.GELU(), nn.Linear(hidden, out, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.ln2(self.skip(x) + self.attn(self.ln1(x))))


class Gpt(nn.Module):
    """A language model of blocks of different widths."""

    def __init__(self) -> None:
        super().__init__()
        self.tok = nn.Embedding(97, 16)
        self.pos = nn.Embedding(10, 16)
        self.blocks = nn.ModuleList([Block(16, 20, 24, 56, 28), Block(28, 36, 40, 72, 44)])
        self.lnf = nn.LayerNorm(44)
        self.head = nn.Linear(44, 97, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.lnf(x))


class Residual(nn.Module):
    """Two convolutions beside a third, added."""

    def __init__(self, inputs: int, middle: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, middle, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(middle, outputs, 3, padding=1)
        self.short = nn.Conv2d(inputs, outputs, 1, stride=2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.relu(self.bn1(self.conv1(x)))) + self.short(x)


class Cnn(nn.Module):
    """A convolution net of different widths; its activations work in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True)
        )
        self.stages = nn.ModuleList([Residual(6, 8, 10), Residual(10, 12, 14)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(14, 9)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.fc(torch.flatten(self.pool(x), 1))


class Lstm(nn.Module):
    """Two LSTMs of different widths."""

    def __init__(self) -> None:
        super().__init__()
        self.tok = nn.Embedding(61, 12)
        self.first = nn.LSTM(12, 20, batch_first=True)
        self.second = nn.LSTM(20, 28, batch_first=True)
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(28, 61)

    def forward(self, ids: Tensor) -> Tensor:
        x, _ = self.first(self.tok(ids))
        x, _ = self.second(x)
        return self.head(self.drop(x))


def _segment(width: int, hidden: int, out: int) -> nn.Sequential:
    norm, first = nn.LayerNorm(width), nn.Linear(width, hidden, bias=False)
    return nn.Sequential(norm, first, nn.GELU(), nn.Linear(hidden, out))


class Checkpointed(nn.Module):
    """Segments that are recomputed in backward, by either way of checkpointing."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(11, 13, bias=False)
        self.old = _segment(13, 17, 19)
        self.new = _segment(19, 23, 29)
        self.head = nn.Linear(29, 7, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.old, self.enter(x), use_reentrant=True)
        return self.head(checkpoint(self.new, x, use_reentrant=False))


# --- the truth ----------------------------------------------------------------------------------

PRODUCTS = ("mm", "addmm", "bmm")
SDPA = "_scaled_dot_product_flash_attention_for_cpu"

ISSUES: dict[str, tuple[str, ...]] = {
    "Linear": ("sum", "t", "view", "_unsafe_view", "detach", "clone", "add", "add_"),
    "LayerNorm": ("native_layer_norm", "native_layer_norm_backward", "detach"),
    "BatchNorm2d": ("native_batch_norm", "native_batch_norm_backward", "detach"),
    "Conv2d": ("convolution", "convolution_backward", "detach"),
    "Embedding": ("embedding", "embedding_dense_backward", "detach"),
    "GELU": ("gelu", "gelu_backward", "detach"),
    "ReLU": ("relu_", "threshold_backward", "detach"),
    "AdaptiveAvgPool2d": ("mean", "expand", "div"),
    "Dropout": ("empty_like", "bernoulli_", "div_", "mul", "detach"),
    "LSTM": ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "transpose", "select", "stack",
             "clone", "unsqueeze", "detach"),
    "Attention": ("split", "view", "transpose", "cat", "detach", SDPA, f"{SDPA}_backward"),
    "Block": ("add",),
    "Residual": ("add", "add_"),
    "Gpt": ("add", "add_", "sum", "arange"),
    "Cnn": ("view",),
    "(loss)": ("_log_softmax", "_log_softmax_backward_data", "nll_loss_forward", "to",
               "nll_loss_backward", "view", "detach", "ones_like"),
}  # fmt: skip
"""What a module of each type calls itself, forward or backward, beside matrix products."""

CALLS = {
    "Attention": ("chunk", "reshape", "scaled_dot_product_attention", "clone", "_unsafe_view"),
    "Cnn": ("flatten", "reshape"),
    "Gpt": ("view",),
    "Checkpointed": ("detach",),
    "(loss)": (
        "flatten",
        "reshape",
        "cross_entropy_loss",
        "log_softmax",
        "nll_loss_nd",
        "nll_loss",
    ),
}
"""Ops of the containers' own that only call others, or that shapes never decide."""


@dataclass
class Facts:
    """What a layer can touch.

    Attributes:
        type: Class of the module.
        shapes: Of what goes in, comes out, and lies between.
        parameters: Shapes of its parameters.
        triple: Rows, inputs and outputs of its matrix product, sorted.
        leaf: It has no children.
    """

    type: str
    shapes: set[Shape] = field(default_factory=set)
    parameters: list[Shape] = field(default_factory=list)
    triple: Shape = ()
    leaf: bool = True


@dataclass
class Case:
    """A net, its training step and the truth about it.

    Attributes:
        model: The net.
        step: One training step.
        facts: By layer name.
        forks: Shape of a tensor that is used twice, to the layer that made it: its gradients meet there.
    """

    model: nn.Module
    step: Callable[[], None]
    facts: dict[str, Facts]
    forks: dict[Shape, str]


def facts_of(model: nn.Module, call: Callable[[], Tensor]) -> dict[str, Facts]:
    """Run the model once, without hroof, and note what every layer touches."""
    facts: dict[str, Facts] = {}
    handles = []
    for name, module in model.named_modules():
        fact = Facts(type(module).__name__, leaf=not list(module.children()))
        fact.parameters = [tuple(p.shape) for p in module.parameters(recurse=False)]
        facts[name or fact.type] = fact
        handles.append(module.register_forward_hook(_noting(fact)))
    logits = call()
    for handle in handles:
        handle.remove()
    flat = (logits.numel() // logits.shape[-1], logits.shape[-1])
    facts["(loss)"] = Facts("(loss)", {tuple(logits.shape), flat, flat[:1]})
    return facts


def _noting(fact: Facts) -> Callable[..., None]:
    def note(module: nn.Module, args: Any, output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        seen = [tuple(t.shape) for t in (*args, *outputs) if isinstance(t, Tensor)]
        fact.shapes.update(seen)
        first = seen[0]
        if isinstance(module, nn.Linear):
            rows = math.prod(first[:-1])
            sides = (rows, module.in_features), (rows, module.out_features)
            fact.triple = tuple(sorted((rows, module.in_features, module.out_features)))
            fact.shapes.update(sides, (side[::-1] for side in fact.parameters))
            fact.shapes.add((1, module.out_features))
        elif isinstance(module, Attention):
            fact.shapes = _inside(first[0], first[1], module.inner)
        elif isinstance(module, Block):
            fact.shapes = {(*first[:2], module.skip.out_features)}
        elif isinstance(module, Cnn):
            fact.shapes = {(first[0], module.fc.in_features)}
            fact.shapes.add((first[0], module.fc.in_features, 1, 1))
        elif isinstance(module, Gpt):
            fact.shapes = {(*first, 16), (first[1], 16)}
        elif isinstance(module, nn.LSTM):
            swapped = {(s[1], s[0], s[2]) for s in seen if len(s) == 3}
            fact.shapes |= swapped | {(first[0], module.hidden_size)}

    return note


def _inside(batch: int, length: int, inner: int) -> set[Shape]:
    """Shapes of q, k, v and the heads within an attention."""
    width = inner // 2
    whole = {(batch, length, 3 * inner), (batch, length, inner)}
    return whole | {(batch, length, 2, width), (batch, 2, length, width), (batch, 2, length)}


def candidates(op: Op, case: Case) -> set[str]:
    """The layers that can have issued an op of forward, loss or backward."""
    name = op.op.removeprefix("aten::")
    shapes = [shape for shape in op.shapes if shape]
    if name in PRODUCTS:
        (rows, middle), columns = shapes[-2], shapes[-1][-1]
        triple = tuple(sorted((rows, middle, columns)))
        return {layer for layer, fact in case.facts.items() if triple == fact.triple}
    if op.phase == "backward" and name in ("add", "add_") and len(set(shapes)) == 1:
        return {layer for shape, layer in case.forks.items() if shape == shapes[0]}
    return {
        layer
        for layer, fact in case.facts.items()
        if name in ISSUES.get(fact.type, ()) and _touches(name, fact, shapes)
    }


def _touches(name: str, fact: Facts, shapes: list[Shape]) -> bool:
    """Whether a layer can touch these tensors."""
    if fact.type == "Linear" and name in ("add", "add_"):
        return any(shape in fact.parameters for shape in shapes)
    if fact.type == "Linear" and name == "sum":  # the gradient of a bias
        return any(len(held) == 1 and shapes[0][-1:] == held for held in fact.parameters)
    if any(len(shape) > 0 and shape in fact.parameters for shape in shapes):
        return True
    return bool(shapes) and all(shape in fact.shapes for shape in shapes)


def true_parts(op: Op, case: Case) -> dict[str, float] | None:
    """Shares of an op of the optimizer by layer; None where the shapes do not tell."""
    held = [(layer, shape) for layer, fact in case.facts.items() for shape in fact.parameters]
    shapes = list(op.shapes)
    order = [tuple(p.shape) for p in case.model.parameters()]
    if len(shapes) >= len(order) > 1 and shapes[: len(order)] == order:
        total = sum(math.prod(shape) for _, shape in held)
        shares: dict[str, float] = {}
        for layer, shape in held:
            shares[layer] = shares.get(layer, 0.0) + math.prod(shape) / total
        return shares
    owners = {layer for layer, shape in held if shapes and shape and shape == shapes[0]}
    return {owners.pop(): 1.0} if len(owners) == 1 else None


def truth(op: Op, case: Case) -> dict[str, float] | None:
    """Shares by layer as the shapes tell them; None for an undecidable op."""
    if op.phase == "optimizer":
        return true_parts(op, case)
    able = candidates(op, case)
    return {able.pop(): 1.0} if len(able) == 1 else None


# --- cases --------------------------------------------------------------------------------------

NETS = ("gpt", "cnn", "lstm", "checkpointed")
WAYS: dict[str, dict[str, bool]] = {
    "loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


def make(net: str, way: str = "loop") -> Case:
    """A net with its optimizer in one of the three ways."""
    torch.manual_seed(0)
    model: nn.Module = {"gpt": Gpt, "cnn": Cnn, "lstm": Lstm, "checkpointed": Checkpointed}[net]()
    inputs = {
        "gpt": torch.randint(0, 97, (3, 10)),
        "cnn": torch.randn(5, 3, 16, 16),
        "lstm": torch.randint(0, 61, (3, 11)),
        "checkpointed": torch.randn(5, 11),
    }[net]
    logits = model(inputs)
    targets = torch.randint(0, logits.shape[-1], logits.shape[:-1]).flatten()
    optimizer = torch.optim.AdamW(model.parameters(), **WAYS[way])

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs).flatten(0, -2), targets).backward()
        optimizer.step()

    forks: dict[str, dict[Shape, str]] = {
        "gpt": {(3, 10, 28): "blocks.0.mlp.2", (3, 10, 16): "Gpt"},
        "cnn": {(5, 10, 8, 8): "stages.0", (5, 6, 16, 16): "stem.2"},
    }
    return Case(model, step, facts_of(model, lambda: model(inputs)), forks.get(net, {}))


@pytest.fixture(scope="module", params=[(net, way) for net in NETS for way in WAYS], ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    """Every net with every way of the optimizer."""
    return make(*request.param)


@pytest.fixture(scope="module")
def seen(case: Case) -> Seen:
    """What a capture of two timed steps says of it."""
    return seeing.see(case.step, steps=2)


def launched(seen: Seen) -> list[Op]:
    """The rows of the launch table as ops: their layers are the table's, their shapes the trace's."""
    of_start: dict[tuple[float, str], dict[str | None, float]] = {}
    for row in seen.launches.itertuples():
        layer = row.layer if isinstance(row.layer, str) else None
        parts = of_start.setdefault((row.start, row.op), {})
        parts[layer] = parts.get(layer, 0.0) + row.launches
    return [replace(op, parts=of_start[op.start, op.op]) for op in seen.timed]


IDLE = ("view", "_unsafe_view", "t", "transpose", "select", "expand", "unsqueeze", "detach", "empty",
        "zeros", "arange", "to", "lift_fresh", "ones_like", "empty_like", "split")  # fmt: skip
"""Views, and ops that read no tensor."""


def works(op: Op) -> bool:
    """Whether an op reads the elements of some tensor that is no single number."""
    return op.op.removeprefix("aten::") not in IDLE and any(op.shapes)


def wrong(ops: Iterable[Op], case: Case) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """The ops whose layer is not the true one; and by phase (decidable, all) of those that work."""
    mistakes: list[str] = []
    counts: dict[str, tuple[int, int]] = {}
    for op in ops:
        if op.composite or op.phase == "other":
            continue
        true = truth(op, case)
        if works(op):
            decidable, total = counts.get(op.phase, (0, 0))
            counts[op.phase] = (decidable + (true is not None), total + 1)
        if true is not None and op.parts != pytest.approx(true):
            mistakes.append(f"{op.phase} {op.op} {op.shapes[:4]}: {op.parts}, truly {true}")
    return mistakes, counts


# --- correctness --------------------------------------------------------------------------------

DECIDABLE = {"forward": 0.85, "loss": 1.0, "backward": 0.9, "optimizer": 0.7}
"""The least part of the working ops of each phase that the truth has to decide."""


@pytest.mark.parametrize("where", ["counted", "timed", "launched"])
def test_every_decidable_op_is_right(case: Case, seen: Seen, where: str) -> None:
    ops = {"counted": seen.counted, "timed": seen.timed, "launched": launched(seen)}[where]
    mistakes, counts = wrong(ops, case)
    assert not mistakes, "\n".join(mistakes)
    assert set(counts) == set(DECIDABLE)
    for phase, (decidable, total) in counts.items():
        assert decidable >= DECIDABLE[phase] * total, (phase, decidable, total)


def test_the_truth_notices_a_wrong_layer() -> None:
    case = make("gpt")
    ops = [replace(op, parts={"head": 1.0}) for op in seeing.see(case.step).counted]
    mistakes, counts = wrong(ops, case)
    assert len(mistakes) > 0.8 * sum(decidable for decidable, _ in counts.values())


# --- coverage -----------------------------------------------------------------------------------


def belongs(op: Op, case: Case) -> bool:
    """Whether an op lies on a layer that calls it itself: any leaf, or a container whose own op it is."""
    for layer in op.parts:
        fact = case.facts.get(layer) if layer is not None else None
        if fact is None:
            return False
        own = (*ISSUES.get(fact.type, ()), *CALLS.get(fact.type, ()))
        whole = fact.type != "(loss)" and fact.leaf
        if not whole and op.op.removeprefix("aten::") not in own:
            return False
    return True


def covered(ops: Iterable[Op], case: Case) -> dict[tuple[str, int], tuple[float, float]]:
    """Parts of time and of ops that lie where they belong, by phase and depth of the layer."""
    sums: dict[tuple[str, int], list[float]] = {}
    for op in ops:
        if op.phase == "other":
            continue
        layer = next(iter(op.parts)) or ""
        depth = 0 if case.facts.get(layer, Facts("")).type == type(case.model).__name__ else 1
        key = (op.phase, depth + layer.count("."))
        row = sums.setdefault(key, [0.0, 0.0, 0.0, 0.0])
        right = belongs(op, case)
        for index, value in enumerate((right * op.duration, op.duration, right, 1)):
            row[index] += value
    return {key: (row[0] / row[1] if row[1] else 1.0, row[2] / row[3]) for key, row in sums.items()}


def total(ops: Iterable[Op], case: Case, phase: str) -> tuple[float, float]:
    """Parts of the time and of the ops of a phase that lie where they belong."""
    inside = [op for op in ops if op.phase == phase]
    right = [op for op in inside if belongs(op, case)]
    time = sum(op.duration for op in right) / sum(op.duration for op in inside)
    return time, len(right) / len(inside)


def test_the_launch_table_covers_every_phase(case: Case, seen: Seen) -> None:
    rows = launched(seen)
    for phase in ("forward", "loss", "backward", "optimizer"):
        time, count = total(rows, case, phase)
        stray = {
            (op.op, str(op.parts)) for op in rows if op.phase == phase and not belongs(op, case)
        }
        assert time >= 0.99 and count >= 0.99, (phase, time, count, stray)


def test_the_launch_table_covers_every_depth(case: Case, seen: Seen) -> None:
    shares = covered(launched(seen), case)
    assert {phase for phase, _ in shares} == set(DECIDABLE)
    assert {key: share for key, share in shares.items() if min(share) < 0.99} == {}


def test_the_share_of_an_optimizer_step_follows_the_parameters(case: Case, seen: Seen) -> None:
    """The update's FLOP by layer, in every implementation, are as its parameters."""
    table = seen.launches[seen.launches.phase == "optimizer"]
    by_layer = table.groupby("layer", observed=True)["flop_nominal_vector_fp32"].sum()
    sizes = {
        layer: sum(map(math.prod, fact.parameters))
        for layer, fact in case.facts.items()
        if fact.parameters
    }
    assert set(by_layer.index) == set(sizes)
    whole = sum(sizes.values())
    for layer, size in sizes.items():
        assert by_layer[layer] / by_layer.sum() == pytest.approx(size / whole, abs=0.02)
