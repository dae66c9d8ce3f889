"""The counting mode sees everything, changes nothing and never breaks the program."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

from hroof.units import Source
from hroof_torch.counting import CountedOp, CountingMode, Spec, count_step
from hroof_torch.counting.rules import registry

Ops = list[CountedOp[Any]]
X = torch.randn(4, 8)


def nowhere(function: Any, args: Any, kwargs: Any) -> None:
    return None


def names(ops: Ops) -> list[str]:
    return [op.name for op in ops]


class Watched:
    """A mode with what it recorded."""

    def __init__(self) -> None:
        self.ops: Ops = []
        self.mode: CountingMode[None] = CountingMode(self.ops.append, nowhere)


@pytest.fixture
def watched() -> Watched:
    return Watched()


# --- nothing changes


def net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.SiLU(),
        nn.Dropout(0.3),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 16),
        nn.GELU(),
        nn.Linear(16, 5),
    )


def train(model: nn.Module, count: bool) -> list[Tensor]:
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []

    def step() -> None:
        loss = nn.functional.cross_entropy(model(torch.randn(2, 3, 8, 8)), torch.tensor([0, 3]))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().clone())

    for _ in range(3):
        count_step(step) if count else step()
    return [*losses, *(p.detach() for p in model.parameters()), *model.buffers()]


def test_training_is_the_same_bit_for_bit() -> None:
    model = net()
    plain = train(copy.deepcopy(model), count=False)
    counted = train(copy.deepcopy(model), count=True)
    assert all(map(torch.equal, plain, counted))


def kernels(step: Any) -> set[str]:
    """Names of the ops of a step; a call that a mode passes on shows twice, so they are not numbered."""
    with profile() as profiler:
        step()
    events = profiler.profiler.kineto_results.events()
    found = [event.name() for event in events if event.name().startswith("aten::")]
    views = ("aten::detach", "aten::empty", "aten::resolve_conj", "aten::resolve_neg")
    return {name for name in found if name not in views}


@pytest.mark.parametrize("inference", [False, True])
def test_the_same_kernels_run(inference: bool) -> None:
    """Ops without a rule for their parts are not taken apart: batch norm, SiLU and its gradient stay whole."""
    model, x = net(), torch.randn(2, 3, 8, 8, requires_grad=not inference)

    def step() -> None:
        with torch.inference_mode(inference):
            y = model(x)
        if not inference:
            y.sum().backward()

    def counting() -> None:
        torch.manual_seed(0)
        count_step(step)

    step()
    plain, counted = kernels(step), kernels(counting)
    assert "aten::native_batch_norm" in counted
    assert inference or "aten::silu_backward" in counted
    assert plain == counted


def test_whole_ops_are_entered_in_inference_mode() -> None:
    layer = nn.Linear(8, 3)

    def step() -> None:
        with torch.inference_mode():
            layer(X)

    assert names(count_step(step)) == ["aten::t", "aten::addmm"]


def test_random_numbers_stay_in_step() -> None:
    torch.manual_seed(3)
    plain = [nn.functional.dropout(X), torch.randn(2)]
    torch.manual_seed(3)
    counted: list[Tensor] = []
    count_step(lambda: counted.extend([nn.functional.dropout(X), torch.randn(2)]))
    assert all(map(torch.equal, plain, counted))


# --- what a record holds


def test_a_record() -> None:
    (op,) = count_step(lambda: torch.addmm(torch.ones(3), X, torch.ones(8, 3)))[2:]
    assert op.name == "aten::addmm"
    assert op.signature == (((3,), "float"), ((4, 8), "float"), ((8, 3), "float"))
    assert op.where is None
    assert op.template is not None
    assert op.template.function is torch.ops.aten.addmm.default
    assert op.template.args[1] == Spec((4, 8), torch.float32, (8, 1), "cpu")


def test_records_keep_no_tensor_alive() -> None:
    made: list[weakref.ref[Tensor]] = []

    def step() -> None:
        x = torch.randn(4, 8)
        y = torch.cat([x, x * 2])[torch.tensor([0])]
        made.extend([weakref.ref(x), weakref.ref(y)])

    ops = count_step(step)
    gc.collect()
    assert len(ops) > 3
    assert [reference() for reference in made] == [None, None]


def test_where_is_asked_before_the_op_runs() -> None:
    y = torch.zeros(3)
    seen: list[tuple[float, str]] = []

    def where(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        with torch.utils._python_dispatch._disable_current_modes():
            seen.append((float(args[0].sum()), threading.current_thread().name))
        return f"here {len(seen)}"

    ops: Ops = []
    with CountingMode(ops.append, where):
        y.add_(1)
        y.add_(1)
    assert seen == [(0.0, "MainThread"), (3.0, "MainThread")]
    assert [op.where for op in ops] == ["here 1", "here 2"]


def test_shapes_are_those_before_the_op() -> None:
    def step() -> None:
        torch.zeros(2, 3).t_()

    assert [op.signature for op in count_step(step)] == [(), (((2, 3), "float"),)]


def test_active(watched: Watched) -> None:
    assert not watched.mode.active
    with watched.mode:
        assert watched.mode.active
        with watched.mode:
            pass
        assert watched.mode.active
    assert not watched.mode.active
    _ = X + 1
    assert watched.ops == []


# --- other modes, subclasses, fake tensors


class Renamed(TorchDispatchMode):
    """Another tool's mode."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_other_modes_inside_and_outside(watched: Watched) -> None:
    for first, second in ((Renamed(), watched.mode), (watched.mode, Renamed())):
        watched.ops.clear()
        with first, second:
            _ = X * 2
        other = first if isinstance(first, Renamed) else second
        assert isinstance(other, Renamed)
        assert names(watched.ops) == other.seen == ["aten::mul"]


class Wrapped(Tensor):
    """A subclass that computes on the tensor it holds."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapped:
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        bare = [arg.inner if isinstance(arg, Wrapped) else arg for arg in args]
        result = func(*bare, **(kwargs or {}))
        return Wrapped(result) if isinstance(result, Tensor) else result


class Refusing(Tensor):
    """A subclass that knows no op."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


class Tagged(Tensor):
    """A subclass of the public kind, which acts above the dispatcher."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses_act_first_and_are_counted_inside(watched: Watched) -> None:
    held = Wrapped(X)
    with watched.mode:
        result = held * 2
    assert isinstance(result, Wrapped)
    assert torch.equal(result.inner, X * 2)
    assert names(watched.ops) == ["aten::mul"]
    assert watched.ops[0].work.bytes_written == 128


def test_refusals_stay_refusals(watched: Watched) -> None:
    refusing = X.as_subclass(Refusing)
    with pytest.raises(TypeError), watched.mode:
        torch.add(refusing, 1)
    assert watched.ops == []


def test_torch_function_subclasses(watched: Watched) -> None:
    tagged = X.as_subclass(Tagged)
    with watched.mode:
        result = tagged + 1
    assert type(result) is Tagged
    assert "aten::add" in names(watched.ops)


def test_fake_tensors(watched: Watched) -> None:
    with FakeTensorMode() as fake, watched.mode:
        y = fake.from_tensor(X) @ torch.ones(8, 3)
        z = y + y
    assert tuple(z.shape) == (4, 3)
    products = [op for op in watched.ops if op.name == "aten::mm"]
    assert products[0].work.flop() == 2 * 4 * 8 * 3
    written = [access.buffer for access in products[0].work.touch.accesses if access.written]
    read = [access.buffer for access in watched.ops[-1].work.touch.accesses if access.read]
    assert written == read
    assert written[0] < 0


def test_virtual_buffers_are_never_used_twice(watched: Watched) -> None:
    with FakeTensorMode(), watched.mode:
        for _ in range(20):
            torch.ones(100)
    buffers = [access.buffer for op in watched.ops for access in op.work.touch.accesses]
    assert len(set(buffers)) == 20


# --- faults


def test_errors_of_the_program_pass_through(watched: Watched) -> None:
    class Mine(Exception):
        pass

    with pytest.raises(RuntimeError, match="shape"), watched.mode:
        torch.ones(2, 3) @ torch.ones(2, 3)
    with pytest.raises(Mine), watched.mode:
        raise Mine
    with watched.mode:
        _ = X + 1
    assert names(watched.ops)[-1] == "aten::add"
    assert not watched.mode.active


def test_a_fault_in_a_rule_is_missing_work(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(call: Any) -> Any:
        raise ZeroDivisionError("by rule")

    monkeypatch.setitem(registry._found, "mul", broken)
    with watched.mode:
        y = X * 2
        _ = X * 3
        _ = X + 1
    assert torch.equal(y, X + X)
    first = watched.ops[0].work
    assert (first.nominal, first.least, first.source) == (None, None, Source.MISSING)
    assert (first.bytes_read, first.bytes_written) == (128, 128)
    assert watched.mode.faults == (
        "aten::mul: its FLOP cannot be counted (ZeroDivisionError: by rule)",
    )
    assert watched.ops[-1].work.flop() == 32


def test_faults_of_the_listeners_do_not_reach_the_program() -> None:
    def broken(*args: Any) -> Any:
        raise ValueError("no place")

    ops: Ops = []
    mode: CountingMode[Any] = CountingMode(ops.append, broken)
    with mode:
        y = X + 1
    assert torch.equal(y, X + 1)
    assert ops[0].where is None
    assert mode.faults == ("aten::add: it cannot be attributed (ValueError: no place)",)
    mode = CountingMode(broken, nowhere)
    with mode:
        _ = X + 1
    assert mode.faults == ("aten::add: it cannot be recorded (ValueError: no place)",)


def test_interrupts_are_not_swallowed() -> None:
    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), CountingMode(print, interrupted):
        _ = X + 1


# --- unusual ops


def test_ops_that_return_no_tensor(watched: Watched) -> None:
    with watched.mode:
        assert X.sum().item() is not None
        assert torch.equal(X, X)
        assert not torch.is_nonzero(torch.zeros(1))
    assert all(op.work.nominal is not None for op in watched.ops)
    assert watched.mode.faults == ()


def test_custom_ops_are_listed_without_flop(watched: Watched) -> None:
    @torch.library.custom_op("hroof_mode_test::scale", mutates_args=())
    def scale(x: Tensor, by: float) -> Tensor:
        return x * by

    with watched.mode:
        scale(X, 2.0)
    (op,) = [op for op in watched.ops if op.name == "hroof_mode_test::scale"]
    assert op.work.source is Source.MISSING
    assert op.work.nominal is None
    assert (op.work.bytes_read, op.work.bytes_written) == (128, 128)


@pytest.mark.filterwarnings("ignore")
def test_quantised_tensors(watched: Watched) -> None:
    with watched.mode:
        q = torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)
        q.dequantize()
    assert "aten::quantize_per_tensor" in names(watched.ops)
    assert torch.equal(
        q.dequantize(), torch.quantize_per_tensor(X, 0.1, 0, torch.qint8).dequantize()
    )
    assert [op.work.bytes_read for op in watched.ops if op.name == "aten::dequantize"] == [32]


@pytest.mark.filterwarnings("ignore")
def test_sparse_and_nested_tensors(watched: Watched) -> None:
    with watched.mode:
        sparse = torch.eye(4).to_sparse()
        _ = (sparse @ torch.ones(4, 2), sparse.to_dense(), sparse * 2, sparse.coalesce())
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
        _ = nested * 2
    assert {op.name for op in watched.ops} >= {"aten::mm", "aten::mul"}


@pytest.mark.filterwarnings("ignore")
def test_higher_order_ops_run(watched: Watched) -> None:
    """Uncompiled they reach the mode as they are: they run, and are listed without FLOP."""
    from torch._higher_order_ops.flex_attention import flex_attention

    q = torch.randn(1, 2, 16, 8)
    nothing = torch.zeros(1, 1, 1, dtype=torch.int32)
    mask = (1, 1, nothing, nothing, *(None,) * 6, 16, 16, lambda *place: torch.tensor(True))
    arguments: tuple[Any, ...] = (q, q, q, lambda score, *place: score, mask, 1.0, {})
    with torch.no_grad():
        try:
            plain = flex_attention(*arguments)
        except Exception as problem:
            pytest.fail(f"the call is wrong on its own: {problem}")
        with watched.mode:
            counted = flex_attention(*arguments)
    assert torch.equal(plain[0], counted[0])
    (op,) = [op for op in watched.ops if op.name == "higher_order::flex_attention"]
    assert op.work.source is Source.MISSING
    assert op.template is None


def test_marks_of_the_profiler_are_not_ops(watched: Watched) -> None:
    with watched.mode, torch.profiler.record_function("mine"):
        _ = X + 1
    assert names(watched.ops) == ["aten::add"]


def test_double_backward_and_functional_transforms(watched: Watched) -> None:
    x = torch.randn(3, requires_grad=True)
    with watched.mode:
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        slope.sum().backward()
        torch.func.vmap(lambda row: row @ row)(X)
        torch.func.grad(lambda row: (row**2).sum())(X[0])
    assert watched.mode.faults == ()
    assert all(op.work.nominal is not None for op in watched.ops)


def test_threads_are_counted_where_the_mode_is(watched: Watched) -> None:
    with watched.mode:
        thread = threading.Thread(target=lambda: X + 1)
        thread.start()
        thread.join()
    assert watched.ops == []
