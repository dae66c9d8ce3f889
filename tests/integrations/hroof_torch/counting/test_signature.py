"""Signatures of counted and of timed ops are equal, op by op."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import profile

from hroof_torch.counting import count_step, is_composite, profiler_signature
from hroof_torch.counting.schema import op_info
from hroof_torch.counting.signature import DTYPE_NAMES, signature_of

Named = tuple[str, Any]

NOT_COMPARED = {"aten::detach", "aten::detach_", "aten::empty"}
"""A dispatch mode sees aliases of saved results that no profiler event shows, and a constant without its empty."""


def timed(step: Callable[[], object]) -> list[Named]:
    """Ops of a profiled step, entered only below composite ones, in order."""
    with profile(record_shapes=True) as profiler:
        step()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name().startswith("aten::")]
    events.sort(key=lambda event: (event.start_ns(), -event.end_ns()))
    return list(_outermost(events))


def _outermost(events: list[Any]) -> Iterator[Named]:
    inside: dict[int, int] = {}
    for event in events:
        thread = event.start_thread_id()
        if event.start_ns() < inside.get(thread, 0):
            continue
        if is_composite(event.name(), event.dtypes()):
            continue
        inside[thread] = event.end_ns()
        yield (
            event.name(),
            profiler_signature(event.structured_input_shapes(), event.dtypes()),
        )


def counted(step: Callable[[], object]) -> list[Named]:
    return [(op.name, op.signature) for op in count_step(step)]


def compared(ops: list[Named]) -> list[Named]:
    """What both sides show; the engine adds gradients in place where no mode looks."""
    sums = {"aten::add_": "aten::add"}
    return [(sums.get(name, name), rest) for name, rest in ops if name not in NOT_COMPARED]


def lstm_step(**options: Any) -> Callable[[], object]:
    net, head = nn.LSTM(12, 20, 2, batch_first=True), nn.Linear(20, 3)
    x, targets = torch.randn(3, 7, 12), torch.randint(0, 3, (3,))
    optimizer = torch.optim.AdamW([*net.parameters(), *head.parameters()], **options)

    def step() -> None:
        states, _ = net(x)
        nn.functional.cross_entropy(head(states[:, -1]), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}])
@pytest.mark.parametrize("which", ["gpt", "cnn", "lstm"])
def test_training_steps(which: str, options: dict[str, bool], make_gpt: Any, make_cnn: Any) -> None:
    makers: dict[str, Callable[[], Any]] = {
        "gpt": lambda: make_gpt(**options).step,
        "cnn": lambda: make_cnn(**options).step,
        "lstm": lambda: lstm_step(**options),
    }
    step = makers[which]()
    step()
    ours = compared(counted(step))
    assert len(ours) > 20
    assert ours == compared(timed(step))


X, WEIGHT = torch.randn(4, 4), torch.randn(4, 4)

CALLS: dict[str, Callable[[], object]] = {
    "a number in the place of a tensor": lambda: (X * 2, X + 1.5, X / True, 2 - X),
    "a scalar overload": lambda: (X > 1, X.pow(2), X.fill_(1)),
    "lists": lambda: (torch.cat([X, X]), torch.stack([X, X]), torch._foreach_mul([X, X[0]], 2.0)),
    "lists with gaps": lambda: (X[:, torch.tensor([0, 1])], X[torch.tensor([0])]),
    "absent tensors": lambda: nn.functional.layer_norm(X, [4]),
    "optional tensors": lambda: torch.clamp(X, min=WEIGHT),
    "keyword tensors": lambda: torch.mul(X, X, out=torch.empty(4, 4)),
    "attention mask": lambda: nn.functional.scaled_dot_product_attention(
        X[None, None], X[None, None], X[None, None], attn_mask=WEIGHT
    ),
    "dtypes": lambda: (X.half() + X.half(), X.bfloat16() * 2, X.long() + X.int(), X.double().to(torch.complex64)),
    "bytes": lambda: (X.to(torch.int8), X.bool(), X.to(torch.uint8), X.short()),
    "overloads that only call others": lambda: (torch.max(X, WEIGHT), X.max(), X.max(1)),
    "reductions": lambda: (X.sum(), X.sum(1), X.mean(), X.std(), X.norm()),
    "shapes": lambda: (X.reshape(2, 8).t().contiguous(), X[0], X[:, ::2], X.split(2)),
    "matrix products": lambda: (X @ X, torch.einsum("ij,jk->ik", X, X), X @ X[0], X[0] @ X[0]),
    "no tensor": lambda: (torch.zeros(3), torch.randn(2), torch.arange(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("inference", [False, True])
def test_single_calls(name: str, inference: bool) -> None:
    def step() -> None:
        with torch.inference_mode(inference):
            CALLS[name]()

    step()
    ours = compared(counted(step))
    assert ours
    assert ours == compared(timed(step))


def test_tensor_lists_have_one_entry_per_tensor() -> None:
    (op,) = [op for op in count_step(lambda: torch.cat([X, X])) if op.name == "aten::cat"]
    assert op.signature == (((4, 4), "TensorList@0"), ((4, 4), "TensorList@0"))


def test_the_profiler_side_leaves_out_what_is_no_tensor() -> None:
    shapes = [[2, 3], [], [[1], [2, 2]], [], []]
    dtypes = ["float", "Scalar", "TensorList", "", "ScalarList"]
    assert profiler_signature(shapes, dtypes) == (
        *(((2, 3), "float"), ((1,), "TensorList@2"), ((2, 2), "TensorList@2")),
    )


def test_a_scalar_tensor_has_no_dimensions() -> None:
    assert profiler_signature([[], []], ["double", ""]) == (((), "double"),)


def _view(dtype: Any) -> Tensor:
    return torch.zeros(3, dtype=dtype).view(3, 1)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_every_common_dtype_is_spelled_as_the_profiler_does() -> None:
    for dtype, spelled in DTYPE_NAMES.items():
        if "q" in str(dtype) or "float8" in str(dtype):
            continue
        ops = timed(functools.partial(_view, dtype))
        assert dict(ops)["aten::view"] == (((3,), spelled),)


def test_signatures_need_no_values() -> None:
    info = op_info(torch.ops.aten.addmm.default)
    x = torch.empty(2, 2, device="meta")
    assert signature_of(info, (x, x, x), {}) == (((2, 2), "float"),) * 3


COMPOSITE = [
    *("linear", "matmul", "conv2d", "layer_norm", "batch_norm"),
    *("dropout", "einsum", "to", "contiguous", "reshape"),
    *("lstm", "gru", "cross_entropy_loss", "scaled_dot_product_attention", "group_norm"),
    *("instance_norm", "max_pool2d", "type_as", "flatten", "tensor_split"),
]
KERNELS = [
    *("addmm", "mm", "add", "add_", "sum"),
    *("view", "convolution", "native_layer_norm", "embedding", "copy_"),
    *("mkldnn_rnn_layer", "silu_backward", "relu", "empty", "zeros"),
    *("ones_like", "_softmax", "cat", "where", "index"),
    *("gelu_backward", "native_batch_norm", "_foreach_add_", "_fused_adamw_"),
]


@pytest.mark.parametrize("name", COMPOSITE)
def test_composite_ops(name: str) -> None:
    assert is_composite(f"aten::{name}")


@pytest.mark.parametrize("name", KERNELS)
def test_ops_with_kernels(name: str) -> None:
    assert not is_composite(f"aten::{name}")


@pytest.mark.parametrize(
    "name", ["", "nothing", "aten::no_such_op", "mine::op", "Optimizer.step#SGD"]
)
def test_unknown_names_are_not_composite(name: str) -> None:
    assert not is_composite(name)


def test_dtypes_tell_overloads_apart() -> None:
    assert not is_composite("aten::max")
    assert is_composite("aten::max", ["float", "float"])
    assert not is_composite("aten::max", ["float"])
    assert not is_composite("aten::max", ["float", "Scalar", "Scalar"])
    assert is_composite("aten::where", ["bool", "float", "Scalar"])
    assert not is_composite("aten::where", ["bool", "float", "float"])


def test_dtypes_that_fit_nothing_fall_back_to_the_name() -> None:
    assert is_composite("aten::linear", ["Scalar"] * 9)
    assert not is_composite("aten::addmm", ["Scalar"] * 9)


def test_the_answer_is_cached() -> None:
    from hroof_torch.counting import overloads

    assert inspect.unwrap(overloads.overloads) is not overloads.overloads
    before = overloads.overloads.cache_info().hits
    assert is_composite("aten::linear") and is_composite("aten::linear")
    assert overloads.overloads.cache_info().hits > before


def test_a_custom_composite_op() -> None:
    library = torch.library.Library("hroof_signature_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", lambda x: x * 3, "CPU")
    assert is_composite("hroof_signature_test::twice")
    assert not is_composite("hroof_signature_test::thrice")
    y: Tensor = torch.ops.hroof_signature_test.twice(X)
    assert torch.equal(y, X + X)
