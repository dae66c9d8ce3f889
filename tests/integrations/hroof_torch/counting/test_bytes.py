"""Bytes and FLOP of single ops, each worked out by hand (fp32 is 4 bytes, int64 is 8, bool is 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from hroof.launches import Work
from hroof.units import Pipe
from hroof_torch.counting import count_step


def total(step: Callable[[], object]) -> Work:
    return Work.total(op.work for op in count_step(step))


def only(step: Callable[[], object], name: str) -> Work:
    works = [op.work for op in count_step(step) if op.name == name]
    assert len(works) == 1
    return works[0]


def x() -> Tensor:
    return torch.ones(4, 8)


X, Y, W, B, Q = x(), x(), torch.ones(16, 8), torch.ones(16), torch.ones(1, 2, 5, 8)
TABLE, ROW, OUT = torch.ones(1000, 8), torch.ones(8), torch.empty(4, 8)
IDS = torch.tensor([3, 5])
IMAGES, KERNELS = torch.ones(2, 3, 8, 8), torch.ones(5, 3, 3, 3)

BY_HAND: dict[str, tuple[Callable[[], Any], int, int, int]] = {
    # what runs; FLOP of the pipe that matters; bytes read; bytes written
    "views move nothing": (
        lambda: (X.view(8, 4), X.reshape(32), X.t(), X.unsqueeze(0).expand(3, 4, 8)),
        *(0, 0, 0),
    ),
    "linear reads x, weight and bias": (lambda: F.linear(X, W, B), 2 * 4 * 16 * 8, 704, 256),
    "sum with a copy": (lambda: X + X.clone(), 32, 128 + 256, 128 + 128),
    "one tensor twice is read once": (lambda: torch.add(X, X), 32, 128, 128),
    "broadcast row is read once": (lambda: X + ROW, 32, 128 + 32, 128),
    "expanded row is read once": (lambda: X + ROW.expand(4, 8), 32, 128 + 32, 128),
    "in place reads its target": (lambda: Y.add_(X), 32, 256, 128),
    "copy does not": (lambda: Y.copy_(X), 0, 128, 128),
    "fill does not": (lambda: Y.fill_(1), 0, 0, 128),
    "out is only written": (lambda: torch.mul(X, X, out=OUT), 32, 128, 128),
    "a comparison gives one byte": (lambda: X > 0, 0, 128, 32),
    "selection": (lambda: torch.where(X > 0, X, Y), 0, 128 + 32 + 256, 32 + 128),
    "lists are opened": (lambda: torch._foreach_add_([Y, OUT], [X, X]), 64, 128 + 256, 256),
    "a slice reads its own elements": (lambda: X[:, ::2] + 1, 16, 64, 64),
    "lookup reads rows": (lambda: F.embedding(IDS, TABLE), 0, 2 * 32 + 2 * 8, 64),
    "casts count": (lambda: X.half() + X.half(), 32, 2 * 128 + 2 * 64, 3 * 64),
    "attention writes log-sums too": (
        lambda: F.scaled_dot_product_attention(Q, Q, Q),
        *(2 * 2 * 5 * 5 * 16, 320, 320 + 40),
    ),
    "sum over rows": (lambda: X.sum(1), 32, 128, 16),
    "convolution": (
        lambda: F.conv2d(IMAGES, KERNELS, padding=1),
        *(2 * 2 * 64 * 5 * 27, 4 * (384 + 135), 4 * 640),
    ),
    "empty": (lambda: torch.empty(1000), 0, 0, 0),
    "join": (lambda: torch.cat([X, Y]), 0, 256, 256),
    # beyond the first list
    "a random fill only writes": (lambda: Y.normal_(), 0, 0, 128),
    "zeros like looks at no data": (lambda: torch.zeros_like(X), 0, 0, 128),
    "windows overlap": (lambda: torch.ones(10).unfold(0, 4, 1) + 1, 28, 40, 40 + 112),
    "the same view twice": (lambda: X[0] + X[0], 8, 32, 32),
    "an empty tensor": (lambda: torch.empty(0, 4) + 1, 0, 0, 0),
    "gather": (lambda: X.gather(1, torch.zeros(4, 2).long()), 0, 32 + 64 + 32, 32 + 64 + 32),
    "index": (lambda: TABLE[IDS], 0, 64 + 16, 64),
    "index select": (lambda: TABLE.index_select(0, IDS), 0, 64 + 16, 64),
    "item": (lambda: ROW[0].item(), 0, 0, 0),
    "detach in place": (lambda: x().detach_(), 0, 0, 128),
    "transpose in place": (lambda: x().t_(), 0, 0, 128),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    step, flop, read, written = BY_HAND[name]
    work = total(step)
    pipe = Pipe.MATRIX if work.flop(Pipe.MATRIX) else None
    assert (work.flop(pipe), work.bytes_read, work.bytes_written) == (flop, read, written)


def test_views_are_marked() -> None:
    ops = count_step(lambda: (X.view(32), X.t().contiguous(), torch.ops.aten._unsafe_view(X, [32])))
    marked = {op.name: op.work.is_view for op in ops}
    assert marked == {
        "aten::view": True,
        "aten::t": True,
        "aten::clone": False,
        "aten::_unsafe_view": True,
    }


def test_scatters_in_place_touch_what_they_address() -> None:
    index = torch.zeros(4, 2, dtype=torch.long)
    put = only(lambda: x().scatter_(1, index, 1.0), "aten::scatter_")
    assert (put.bytes_read, put.bytes_written) == (64, 32)
    added = only(lambda: x().scatter_add_(1, index, torch.ones(4, 2)), "aten::scatter_add_")
    assert (added.bytes_read, added.bytes_written) == (64 + 32 + 32, 32)
    copied = only(lambda: x().scatter(1, index, 1.0), "aten::scatter")
    assert (copied.bytes_read, copied.bytes_written) == (128 + 64, 128)


def test_index_put() -> None:
    values = torch.ones(2, 8)

    def put(accumulate: bool) -> Work:
        return only(lambda: x().index_put_((IDS % 4,), values, accumulate), "aten::index_put_")

    assert (put(False).bytes_read, put(False).bytes_written) == (16 + 64, 64)
    assert (put(True).bytes_read, put(True).bytes_written) == (16 + 64 + 64, 64)
    assert put(False).flop() == 0
    assert put(True).flop() == 16


def test_index_add_and_copy() -> None:
    added = only(lambda: x().index_add_(0, IDS % 4, torch.ones(2, 8)), "aten::index_add_")
    assert (added.flop(), added.bytes_read, added.bytes_written) == (16, 16 + 64 + 64, 64)
    copied = only(lambda: x().index_copy_(0, IDS % 4, torch.ones(2, 8)), "aten::index_copy_")
    assert (copied.flop(), copied.bytes_read, copied.bytes_written) == (0, 16 + 64, 64)


def test_gradient_of_an_embedding_zeroes_the_table_and_adds_rows() -> None:
    table = torch.ones(100, 8, requires_grad=True)
    work = only(lambda: F.embedding(IDS, table).sum().backward(), "aten::embedding_dense_backward")
    # The gradient is one expanded number.
    assert work.bytes_read == 4 + 16 + 64
    assert work.bytes_written == 3200 + 64
    assert work.flop() == 16


def test_a_lookup_never_reads_more_than_the_table() -> None:
    work = only(lambda: F.embedding(torch.zeros(500).long(), torch.ones(3, 8)), "aten::embedding")
    assert work.bytes_read == 500 * 8 + 3 * 32


def test_target_losses_read_one_probability_per_target() -> None:
    logs = torch.zeros(6, 10, requires_grad=True)
    ops = count_step(lambda: F.nll_loss(logs, torch.zeros(6).long()).backward())
    work = {op.name: op.work for op in ops}
    assert work["aten::nll_loss_forward"].bytes_read == 6 * 4 + 6 * 8
    assert work["aten::nll_loss_backward"].bytes_read == 4 + 6 * 8 + 4
    assert work["aten::nll_loss_backward"].bytes_written == 240


def test_convolution_gradients_read_what_they_need() -> None:
    weight = torch.ones(5, 3, 3, 3, requires_grad=True)

    def backward(images: Tensor) -> Work:
        loss = F.conv2d(images, weight, padding=1)
        return only(lambda: loss.backward(torch.ones_like(loss)), "aten::convolution_backward")

    first = backward(IMAGES)
    assert (first.bytes_read, first.bytes_written) == (4 * (640 + 384), 4 * 135)
    later = backward(torch.ones(2, 3, 8, 8, requires_grad=True))
    assert (later.bytes_read, later.bytes_written) == (4 * (640 + 384 + 135), 4 * (384 + 135))


def test_pooling_gradient_needs_indices_not_inputs() -> None:
    images = torch.rand(2, 3, 8, 8, requires_grad=True)
    loss = F.max_pool2d(images, 2)
    work = only(
        lambda: loss.backward(torch.ones_like(loss)), "aten::max_pool2d_with_indices_backward"
    )
    assert (work.bytes_read, work.bytes_written) == (96 * 4 + 96 * 8, 384 * 4)


def test_batch_norm_updates_its_running_statistics() -> None:
    norm = torch.nn.BatchNorm2d(3)
    with torch.no_grad():
        trained = only(lambda: norm(IMAGES), "aten::native_batch_norm")
        norm.eval()
        used = only(lambda: norm(IMAGES), "aten::native_batch_norm")
    assert trained.bytes_read == used.bytes_read == 4 * 384 + 4 * 4 * 3
    assert trained.bytes_written == 4 * 384 + 2 * 12 + 2 * 12
    assert used.bytes_written == 4 * 384


def test_fused_adamw_leaves_gradients_alone() -> None:
    parameter = torch.nn.Parameter(torch.ones(10))
    parameter.grad = torch.ones(10)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    optimizer.step()
    work = only(optimizer.step, "aten::_fused_adamw_")
    assert work.bytes_read == 4 * 40 + 4
    assert work.bytes_written == 4 * 30
    assert work.flop() == 14 * 10


def test_accesses_name_storages() -> None:
    base = torch.ones(4, 8)
    (op,) = [op for op in count_step(lambda: base[1].add_(base[2])) if op.name == "aten::add_"]
    accesses = {access.buffer: access for access in op.work.touch.accesses if access.read}
    assert set(accesses) == {base.data_ptr()}
    assert accesses[base.data_ptr()].nbytes == 64


def test_an_in_place_access_is_read_and_written() -> None:
    (op,) = count_step(lambda: Y.mul_(2))
    (access,) = op.work.touch.accesses
    assert (access.buffer, access.nbytes, access.read, access.written) == (
        *(Y.data_ptr(), 128),
        *(True, True),
    )


def test_accesses_sum_to_the_bytes() -> None:
    def step() -> None:
        table = torch.ones(100, 8, requires_grad=True)
        (F.embedding(IDS, table) @ torch.ones(8, 3)).relu().sum().backward()

    for op in count_step(step):
        accesses = op.work.touch.accesses
        assert sum(access.nbytes for access in accesses if access.read) == op.work.bytes_read
        assert sum(access.nbytes for access in accesses if access.written) == op.work.bytes_written


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_tensors_count_their_parts() -> None:
    sparse = torch.eye(6).to_sparse()
    work = only(lambda: torch.mm(sparse, torch.ones(6, 4)), "aten::mm")
    assert work.flop() == 2 * 6 * 4
    assert work.bytes_read == 2 * 6 * 8 + 6 * 4 + 24 * 4
    rows = torch.eye(6).to_sparse_csr()
    assert only(lambda: torch.mm(rows, torch.ones(6, 4)), "aten::mm").flop() == 48
