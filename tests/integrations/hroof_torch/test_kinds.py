"""Layers and phases of every kind of program: one small net each, counted and timed alike."""

from __future__ import annotations

import copy
import importlib.util
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from tests.integrations.hroof_torch import seeing
    from tests.integrations.hroof_torch.seeing import Seen
else:  # tests are no packages
    _spec = importlib.util.spec_from_file_location("seeing", Path(__file__).with_name("seeing.py"))
    seeing = sys.modules["seeing"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(seeing)

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


def trainer(model: nn.Module, loss: Callable[[], Tensor], **options: Any) -> Callable[[], None]:
    """A step of plain training: forward, backward, SGD."""
    sgd = torch.optim.SGD(model.parameters(), 0.01, **options)

    def step() -> None:
        loss().backward()
        sgd.step()
        sgd.zero_grad()

    return step


def products(seen: Seen, phase: str, *, counted: bool = True) -> list[tuple[str | None, bool]]:
    """(layer, recompute) of every matrix product of a phase, in order."""
    found = seen.ops(phase, *PRODUCTS, counted=counted)
    return [(op.layer, op.recompute) for op in found]


def both(seen: Seen, phase: str) -> list[tuple[str | None, bool]]:
    """``products`` where the counted and the timed step must agree."""
    found = products(seen, phase)
    assert products(seen, phase, counted=False) == found
    return found


def layers_of(seen: Seen, phase: str) -> list[str | None]:
    """Layers of the products of a phase, none of them recomputed."""
    found = both(seen, phase)
    assert not any(recompute for _, recompute in found)
    return [layer for layer, _ in found]


def table(seen: Seen, phase: str) -> dict[str, float]:
    """Matrix FLOP by layer in one step of the launch table."""
    rows = seen.launches[seen.launches.phase == phase]
    columns = [c for c in rows.columns if c.startswith("flop_nominal_matrix_")]
    flop = rows[columns].sum(axis=1).groupby(rows.layer.astype(str)).sum()
    return {str(layer): float(value) for layer, value in flop.items() if value}


# --- the shape of the model ---------------------------------------------------------------------


class Holder(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_a_shared_module_counts_under_each_parent() -> None:
    shared = linear(6, 6)
    net = nn.ModuleDict({"a": Holder(shared), "b": Holder(shared)})

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = net

        def forward(self, x: Tensor) -> Tensor:
            return self.parts["b"](torch.relu(self.parts["a"](x)))

    model = Net()
    seen = seeing.see(trainer(model, lambda: model(torch.randn(3, 6)).sum()))
    a, b = "parts.a.inner", "parts.b.inner"
    assert layers_of(seen, "forward") == [a, b]
    assert layers_of(seen, "backward") == [b, b, a]
    assert table(seen, "backward") == {a: 216.0, b: 432.0}
    assert {op.layer for op in seen.ops("optimizer")} == {a}, "its weight is updated once"


def test_calls_of_one_module_many_times_add_up() -> None:
    """A recurrent net by hand."""

    class Rnn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = linear(5, 5), linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(4):
                x = torch.tanh(self.cell(x))
            return self.out(x)

    model = Rnn()
    seen = seeing.see(trainer(model, lambda: model(torch.randn(3, 5)).sum()))
    assert layers_of(seen, "forward") == ["cell"] * 4 + ["out"]
    assert layers_of(seen, "backward") == ["out"] * 2 + ["cell"] * 7
    assert seen.places("aten::tanh", "forward") == ["Rnn"] * 4
    assert seen.places("aten::tanh_backward", "backward") == ["Rnn"] * 4
    sums = [op for op in seen.ops("backward") if op.is_sum]
    assert [op.layer for op in sums] == ["cell"] * 3, "the weight's gradients meet at its layer"


def test_nested_calls_and_work_between_them() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return torch.sigmoid(self.fc(x))

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.w = Inner(), nn.Parameter(torch.randn(4, 7))

        def forward(self, x: Tensor) -> Tensor:
            return torch.exp(self.inner(x) @ self.w)

    model = Outer()
    seen = seeing.see(trainer(model, lambda: model(torch.randn(3, 4)).sum()))
    assert layers_of(seen, "forward") == ["inner.fc", "Outer"]
    assert layers_of(seen, "backward") == ["Outer", "Outer", "inner.fc"]
    assert seen.places("aten::sigmoid", "forward") == ["inner"]
    assert seen.places("aten::sigmoid_backward", "backward") == ["inner"]
    assert seen.places("aten::exp", "forward") == ["Outer"]


@dataclass
class Output:
    loss: Tensor
    hidden: list[Tensor]


@pytest.mark.parametrize("kind", ["tensor", "tuple", "list", "dict", "dataclass"])
def test_what_a_module_returns_does_not_matter(kind: str) -> None:
    class Body(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 5))

        def forward(self, x: Tensor) -> Any:
            y = x @ self.w
            returns: dict[str, Any] = {
                "tensor": y,
                "tuple": (None, 3, y),
                "list": [[y]],
                "dict": {"a": {"y": y}, "n": 1},
                "dataclass": Output(y, [y]),
            }
            return returns[kind]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.body = linear(3, 4), Body()

        def forward(self, x: Tensor) -> Any:
            return self.body(self.enter(x))

    model = Net()
    take: dict[str, Callable[[Any], Tensor]] = {
        "tensor": lambda y: y,
        "tuple": lambda y: y[2],
        "list": lambda y: y[0][0],
        "dict": lambda y: y["a"]["y"],
        "dataclass": lambda y: y.loss,
    }
    seen = seeing.see(trainer(model, lambda: take[kind](model(torch.randn(2, 3))).sum()))
    assert layers_of(seen, "forward") == ["enter", "body"]
    assert layers_of(seen, "backward") == ["body", "body", "enter"]


def test_in_place_activations() -> None:
    model = nn.Sequential(linear(4, 6), nn.ReLU(inplace=True), linear(6, 3))
    seen = seeing.see(trainer(model, lambda: model(torch.randn(2, 4)).sum()))
    assert seen.places("aten::relu_", "forward") == ["1"]
    assert seen.places("aten::threshold_backward", "backward") == ["1"]
    assert layers_of(seen, "backward") == ["2", "2", "0"]


class Lora(nn.Module):
    """A frozen weight beside a trained product of two narrow ones."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.down, self.up = linear(8, 9), linear(8, 2), linear(2, 9)
        self.base.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


def test_frozen_and_lora_weights() -> None:
    model = nn.Sequential(linear(5, 8), Lora())
    trained = [p for p in model.parameters() if p.requires_grad]
    sgd = torch.optim.SGD(trained, 0.1)

    def step() -> None:
        model(torch.randn(3, 5)).sum().backward()
        sgd.step()

    seen = seeing.see(step)
    assert layers_of(seen, "forward") == ["0", "1.base", "1.down", "1.up"]
    backward = layers_of(seen, "backward")
    assert backward.count("1.base") == 1, "no gradient of the frozen weight"
    assert {layer: backward.count(layer) for layer in ("0", "1.down", "1.up")} == {
        "0": 1,
        "1.down": 2,
        "1.up": 2,
    }
    assert {op.layer for op in seen.ops("optimizer")} == {"0", "1.down", "1.up"}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(50, 8), linear(8, 50)
        self.head.weight = self.emb.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.emb(ids))


def test_tied_embeddings() -> None:
    model = Tied()
    ids = torch.randint(0, 50, (2, 6))
    seen = seeing.see(trainer(model, lambda: model(ids).sum()))
    assert table(seen, "forward") == {"head": 9600.0}
    assert table(seen, "backward") == {"head": 19200.0}
    assert seen.places("aten::embedding_dense_backward", "backward") == ["emb"]
    assert [op.layer for op in seen.ops("backward") if op.is_sum] == ["emb"]
    assert {op.layer for op in seen.ops("optimizer")} == {"emb"}


# --- autograd -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_work_is_marked_and_keeps_its_layer(reentrant: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = linear(4, 5)
            self.body = nn.Sequential(linear(5, 6), nn.GELU(), linear(6, 7))

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.body, self.enter(x), use_reentrant=reentrant)

    model = Net()
    seen = seeing.see(trainer(model, lambda: model(torch.randn(3, 4)).sum()))
    assert layers_of(seen, "forward") == ["enter", "body.0", "body.2"]
    again = [layer for layer, recompute in products(seen, "backward") if recompute]
    assert again == (["body.0", "body.2"] if reentrant else ["body.0"])
    rest = [layer for layer, recompute in products(seen, "backward") if not recompute]
    assert sorted(map(str, rest)) == ["body.0"] * 2 + ["body.2"] * 2 + ["enter"]
    flop = {name: 2 * 3 * size for name, size in (("enter", 20), ("body.0", 30), ("body.2", 42))}
    recomputed = seen.launches[seen.launches.recompute]
    expected = flop["body.0"] + (flop["body.2"] if reentrant else 0)
    assert recomputed.flop_nominal_matrix_fp32.sum() == expected, "what was cut short did not run"
    assert table(seen, "forward") == flop


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_method_of_the_model(reentrant: bool) -> None:
    """Its parts are called from outside every module when they are recomputed."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = linear(4, 5), linear(5, 4)

        def part(self, x: Tensor) -> Tensor:
            return self.b(torch.tanh(self.a(x)))

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.part, x, use_reentrant=reentrant)

    model = Net()
    x = torch.randn(3, 4, requires_grad=True)
    seen = seeing.see(trainer(model, lambda: model(x).sum()))
    again = [layer for layer, again in products(seen, "backward") if again]
    assert again == (["a", "b"] if reentrant else ["a"])
    assert {op.layer for op in seen.ops("backward", "aten::tanh_backward")} == {"Net"}
    for counted in (True, False):
        again_tanh = seen.ops("backward", "aten::tanh", counted=counted)
        assert [(op.layer, op.recompute) for op in again_tanh] == [("Net", True)]


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_shared_module_that_is_recomputed_stays_under_its_parent(reentrant: bool) -> None:
    shared = linear(6, 6)

    class Segment(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = shared

        def part(self, x: Tensor) -> Tensor:
            return torch.tanh(self.inner(x))

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.part, x, use_reentrant=reentrant)

    model = nn.Sequential(Segment(), Segment())
    x = torch.randn(3, 6, requires_grad=True)
    seen = seeing.see(trainer(model, lambda: model(x).sum()))
    again = [layer for layer, again in both(seen, "backward") if again]
    assert again == ["1.inner", "0.inner"]
    rest = [layer for layer, again in both(seen, "backward") if not again]
    assert rest == ["1.inner", "1.inner", "0.inner", "0.inner"]


def test_nested_checkpoints() -> None:
    inner = nn.Sequential(linear(5, 5), nn.Tanh())

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.inner, self.leave = linear(4, 5), inner, linear(5, 3)

        def segment(self, x: Tensor) -> Tensor:
            return self.leave(checkpoint(self.inner, self.enter(x), use_reentrant=False))

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.segment, x, use_reentrant=False)

    model = Net()
    seen = seeing.see(trainer(model, lambda: model(torch.randn(2, 4)).sum()))
    assert {layer for layer, _ in products(seen, "backward")} == {"enter", "inner.0", "leave"}
    assert {op.layer for op in seen.ops("backward", "aten::tanh_backward")} == {"inner.1"}
    assert {op.recompute for op in seen.ops("backward", "aten::tanh")} == {True}


class Twice(torch.autograd.Function):
    """A function of its own whose backward adds two tensors of the same shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        x, w = ctx.saved_tensors
        back = gradient @ w.t()
        return back + back, x.t() @ gradient


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: Tensor) -> Tensor:
        return Twice.apply(x, self.w)


def test_a_function_of_the_users_own() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.custom = linear(4, 5), Custom()

        def forward(self, x: Tensor) -> Tensor:
            x = self.enter(x)
            return self.custom(x) + x

    model = Net()
    seen = seeing.see(trainer(model, lambda: model(torch.randn(3, 4)).sum()))
    assert layers_of(seen, "forward") == ["enter", "custom"]
    assert layers_of(seen, "backward") == ["custom", "custom", "enter"]
    for counted in (True, False):
        ops = seen.ops("backward", "aten::add", "aten::add_", counted=counted)
        assert [(op.layer, op.is_sum) for op in ops] == [("custom", False), ("enter", True)]


def test_double_backward() -> None:
    model = nn.Sequential(linear(4, 5), nn.Tanh(), linear(5, 1))
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        x = torch.randn(3, 4, requires_grad=True)
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        gradient.square().sum().backward()
        sgd.step()

    seen = seeing.see(step)
    assert not any(op.recompute for op in seen.counted + seen.timed)
    assert layers_of(seen, "forward") == ["0", "2"]
    assert {layer for layer, _ in both(seen, "backward")} <= {"0", "2", "(loss)"}
    first = [layer for layer, _ in products(seen, "backward")][:2]
    assert first == ["2", "0"]
    assert {"0", "2"} <= {op.layer for op in seen.ops("optimizer")}


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_an_exception_in_the_captured_step_is_survived(where: str) -> None:
    failing = [4]  # the counted step is the fourth

    class Fragile(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            failing[0] -= 1
            if failing[0] == 0 and where == "forward":
                raise ValueError("once")
            if failing[0] == 0:
                x.register_hook(_raise)
            return x.tanh()

    model = nn.Sequential(linear(4, 5), Fragile(), linear(5, 2))
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        try:
            model(torch.randn(3, 4)).sum().backward()
        except ValueError:
            model(torch.randn(3, 4)).sum().backward()
        sgd.step()

    seen = seeing.see(step, skip=3)
    assert failing[0] < 0
    assert [layer for layer, _ in products(seen, "forward")][-2:] == ["0", "2"]
    assert [layer for layer, _ in products(seen, "backward")][-3:] == ["2", "2", "0"]
    assert products(seen, "forward", counted=False) == [("0", False), ("2", False)]
    assert products(seen, "backward", counted=False) == [("2", False), ("2", False), ("0", False)]


def _raise(gradient: Tensor) -> None:
    raise ValueError("once")


def test_an_exception_out_of_the_region_leaves_nothing_behind() -> None:
    model = nn.Sequential(linear(4, 5), linear(5, 2))
    call, calls = nn.Module.__call__, 0

    def step() -> None:
        nonlocal calls
        calls += 1
        model(torch.randn(3, 5 if calls == 4 else 4)).sum().backward()
        sgd.step()

    sgd = torch.optim.SGD(model.parameters(), 0.01)
    seen = seeing.see(step, skip=3, raises=RuntimeError)
    assert isinstance(seen.error, RuntimeError)
    assert nn.Module.__call__ is call
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    assert seen.outcome is not None and seen.outcome.status == "partial"


def test_hooks_of_the_users_own() -> None:
    model = nn.Sequential(linear(4, 5), nn.Tanh(), linear(5, 2))
    called: list[str] = []

    def scale(module: nn.Module, gradients: Any, outputs: Any) -> Any:
        called.append("backward")
        return tuple(None if g is None else g * 2 for g in gradients)

    model[0].register_forward_hook(lambda module, args, output: output * 3)
    model[2].register_full_backward_hook(scale)
    seen = seeing.see(trainer(model, lambda: model(torch.randn(3, 4)).sum()))
    assert called
    assert layers_of(seen, "forward") == ["0", "2"]
    assert layers_of(seen, "backward") == ["2", "2", "0"]
    assert seen.places("aten::mul", "forward") == ["0"], "a hook's work is its module's"
    assert set(seen.places("aten::mul", "backward")) <= {"0", "2"}


# --- the loop -----------------------------------------------------------------------------------


def test_gradient_accumulation() -> None:
    model = nn.Sequential(linear(4, 5), linear(5, 2))
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        sgd.zero_grad()
        for _ in range(3):
            (model(torch.randn(3, 4)).sum() / 3).backward()
        sgd.step()

    seen = seeing.see(step)
    assert layers_of(seen, "forward") == ["0", "1"] * 3
    assert layers_of(seen, "backward") == ["1", "1", "0"] * 3
    sums = seen.ops("backward", "aten::add_", "aten::add")
    assert sorted(map(str, (op.layer for op in sums))) == ["0", "0", "1", "1"]
    assert {op.layer for op in seen.ops("optimizer")} == {"0", "1"}


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = linear(4, 6)

    def forward(self, z: Tensor) -> Tensor:
        return self.fc(z).tanh()


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def test_two_models_in_one_loop() -> None:
    generator, critic = Generator(), Critic()
    ours = torch.optim.SGD(generator.parameters(), 0.01)
    theirs = torch.optim.SGD(critic.parameters(), 0.01)

    def step() -> None:
        theirs.zero_grad()
        fake = generator(torch.randn(3, 4)).detach()
        (critic(fake) - critic(torch.randn(3, 6))).mean().backward()
        theirs.step()
        ours.zero_grad()
        (-critic(generator(torch.randn(3, 4)))).mean().backward()
        ours.step()

    seen = seeing.see(step, skip=3)
    g, c = "Generator.fc", "Critic.fc"
    assert layers_of(seen, "forward") == [g, c, c, g, c]
    assert layers_of(seen, "backward") == [c, c, c, c, g]
    assert [op.layer for op in seen.ops("optimizer") if op.op.endswith("add_")] == [c, g]
    assert set(seen.names) == {"Generator", "Critic", g, c}


def test_two_models_of_one_class_have_names_of_their_own() -> None:
    student, teacher = Generator(), Generator()
    step = trainer(
        student,
        lambda: functional.mse_loss(student(torch.ones(2, 4)), teacher(torch.ones(2, 4)).detach()),
    )
    seen = seeing.see(step)
    assert layers_of(seen, "forward") == ["Generator.fc", "Generator#2.fc"]
    assert layers_of(seen, "backward") == ["Generator.fc"]


def test_parts_of_a_model_called_by_themselves() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = nn.Sequential(linear(4, 5), nn.Tanh()), linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.encoder(x))

    model = Net()

    def loss() -> Tensor:
        return model(torch.randn(3, 4)).sum() + model.head(model.encoder(torch.ones(3, 4))).sum()

    seen = seeing.see(trainer(model, loss))
    assert layers_of(seen, "forward") == ["encoder.0", "head"] * 2
    assert set(layers_of(seen, "backward")) == {"encoder.0", "head"}


def test_functional_call_keeps_the_names() -> None:
    model = nn.Sequential(linear(4, 5), linear(5, 2))
    weights = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    sgd = torch.optim.SGD(weights.values(), 0.01)

    def step() -> None:
        torch.func.functional_call(model, weights, torch.randn(3, 4)).sum().backward()
        sgd.step()

    seen = seeing.see(step)
    assert layers_of(seen, "forward") == ["0", "1"]
    assert layers_of(seen, "backward") == ["1", "1", "0"]


def test_a_copy_is_a_model_of_its_own() -> None:
    model = Generator()
    average = copy.deepcopy(model)

    def loss() -> Tensor:
        with torch.no_grad():
            average(torch.randn(3, 4))
        return model(torch.randn(3, 4)).sum()

    seen = seeing.see(trainer(model, loss))
    assert layers_of(seen, "forward") == ["Generator.fc", "Generator#2.fc"]
    assert layers_of(seen, "backward") == ["Generator#2.fc"]


def test_evaluation_inside_the_loop() -> None:
    model = nn.Sequential(linear(4, 5), nn.Dropout(0.5), linear(5, 2))
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        model(torch.randn(3, 4)).sum().backward()
        sgd.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(7, 4))
        model.train()

    seen = seeing.see(step, skip=3)
    assert sorted(map(str, layers_of(seen, "forward"))) == ["0", "0", "2", "2"]
    assert layers_of(seen, "backward") == ["2", "2", "0"]


def test_autocast_casts_belong_to_the_layer() -> None:
    model = nn.Sequential(linear(4, 6), nn.GELU(), linear(6, 3))

    def loss() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(torch.randn(2, 4)).float().sum()

    seen = seeing.see(trainer(model, loss))
    assert layers_of(seen, "forward") == ["0", "2"]
    assert layers_of(seen, "backward") == ["2", "2", "0"]
    assert set(seen.places("aten::_to_copy", "forward")) == {"0", "2"}
    assert table(seen, "forward") == {"0": 96.0, "2": 72.0}
    assert seen.launches.flop_nominal_matrix_bf16.sum() == 3 * 72 + 2 * 96


def test_clipping_serves_the_optimizer() -> None:
    model = nn.Sequential(linear(4, 5), linear(5, 2))
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        sgd.zero_grad()
        model(torch.randn(3, 4)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        sgd.step()

    seen = seeing.see(step)
    for ops in (seen.counted, seen.timed):
        clipping = [op for op in ops if "norm" in op.op or op.op == "aten::_foreach_mul_"]
        assert len(clipping) >= 3 and {op.phase for op in clipping} == {"optimizer"}
        scaled = [op for op in clipping if op.op == "aten::_foreach_mul_"]
        assert [op.parts for op in scaled] == [pytest.approx({"0": 20 / 30, "1": 10 / 30})]


def test_gradients_set_to_zero() -> None:
    model = nn.Sequential(linear(4, 5), linear(5, 2))
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        sgd.zero_grad(set_to_none=False)
        model(torch.randn(3, 4)).sum().backward()
        sgd.step()

    seen = seeing.see(step)
    for counted in (True, False):
        ops = seen.counted if counted else seen.timed
        zeros = [op for op in ops if "zero" in op.op and not op.composite]
        assert zeros and {op.phase for op in zeros} == {"optimizer"}, zeros
        layers = {layer for op in zeros for layer in op.parts}
        assert layers == {"0", "1"}


def test_the_loss_outside_every_module_and_as_a_module() -> None:
    model, criterion = nn.Sequential(linear(4, 5)), nn.CrossEntropyLoss()
    targets = torch.randint(0, 5, (3,))
    plain = seeing.see(
        trainer(model, lambda: functional.cross_entropy(model(torch.randn(3, 4)), targets))
    )
    module = seeing.see(trainer(model, lambda: criterion(model(torch.randn(3, 4)), targets)))
    for seen, layer in ((plain, "(loss)"), (module, "CrossEntropyLoss")):
        assert seen.places("aten::_log_softmax", "loss") == [layer]
        assert seen.places("aten::_log_softmax_backward_data", "backward") == [layer]
        assert seen.places("aten::nll_loss_forward", "loss", counted=False) == [layer]
        assert layers_of(seen, "backward") == ["0"]


def test_data_loading_is_a_phase() -> None:
    data = TensorDataset(torch.randn(30, 4), torch.randn(30, 2))
    model = nn.Sequential(linear(4, 2))
    sgd = torch.optim.SGD(model.parameters(), 0.01)
    with seeing.seeing() as seen:
        for inputs, targets in DataLoader(data, batch_size=5):
            functional.mse_loss(model(inputs), targets).backward()
            sgd.step()
            sgd.zero_grad()
    stacked = [op for op in seen.timed if op.op == "aten::stack"]
    assert stacked and {op.phase for op in stacked} == {"data"}
    table = seen.launches[seen.launches.op == "aten::stack"]
    assert set(table.phase) == {"data"} and table.layer.isna().all()
    assert layers_of(seen, "backward") == ["0"]


def test_an_optimizer_inside_backward() -> None:
    model = nn.Sequential(linear(4, 5), linear(5, 2))
    optimizers = {p: torch.optim.SGD([p], 0.01) for p in model.parameters()}

    def update(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    def step() -> None:
        model(torch.randn(3, 4)).sum().backward()

    with seeing.seeing(skip=3) as seen:
        for _ in range(9):
            step()
    assert seen.profile is not None
    assert set(layers_of(seen, "forward")) == {"0", "1"}
    updates = [op.layer for op in seen.ops("optimizer", "aten::add_", counted=False)]
    assert set(updates) == {"0", "1"}
    assert {layer for layer, _ in products(seen, "backward", counted=False)} == {"0", "1"}


# --- threads ------------------------------------------------------------------------------------


def test_backward_in_a_thread_that_had_a_forward_of_its_own() -> None:
    """Node numbers of the two threads collide; the layers must not."""
    model = nn.Sequential(linear(4, 5), nn.Tanh(), linear(5, 6), nn.Sigmoid(), linear(6, 2))
    other = nn.Sequential(linear(7, 7), linear(7, 7), linear(7, 7), linear(7, 7), linear(7, 7))
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def behind(loss: Tensor) -> None:
        other(torch.randn(2, 7))
        loss.backward()

    def step() -> None:
        loss = model(torch.randn(3, 4)).sum()
        worker = threading.Thread(target=behind, args=(loss,))
        worker.start()
        worker.join()
        sgd.step()

    seen = seeing.see(step)
    timed = [op for op in seen.timed if op.phase == "backward" and not op.composite]
    by_op = {
        name: [op.layer for op in timed if op.op == name]
        for name in ("aten::mm", "aten::tanh_backward", "aten::sigmoid_backward")
    }
    assert by_op == {
        "aten::mm": [
            "Sequential.4",
            "Sequential.4",
            "Sequential.2",
            "Sequential.2",
            "Sequential.0",
        ],
        "aten::tanh_backward": ["Sequential.1"],
        "aten::sigmoid_backward": ["Sequential.3"],
    }
    flop = table(seen, "backward")
    assert flop == {"Sequential.4": 144.0, "Sequential.2": 360.0, "Sequential.0": 120.0}


def test_forward_and_backward_in_another_thread() -> None:
    model = nn.Sequential(linear(4, 5), linear(5, 2))
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        def work() -> None:
            model(torch.randn(3, 4)).sum().backward()

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        sgd.step()

    seen = seeing.see(step)
    assert [op.layer for op in seen.ops("forward", "aten::mm", counted=False)] == ["0", "1"]
    backward = [op.layer for op in seen.ops("backward", "aten::mm", counted=False)]
    assert backward == ["1", "1", "0"]
    assert table(seen, "backward") == {"0": 120.0, "1": 120.0}
