"""Matrix products: mm, addmm, bmm, vectors, integer and scaled products, sparse operands."""

from __future__ import annotations

from typing import Any

import torch

from hroof_torch.counting.rules.flop import Call, Flop, gemm, matrix, rule, size, vector


def _nnz(tensor: Any) -> int:
    return int(tensor._nnz())


def product(a: Any, b: Any) -> Flop:
    """(m × k)·(k × n); a sparse operand multiplies only its stored elements."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    if a.layout not in (torch.strided, torch._mkldnn):
        return matrix(a, _nnz(a) * n)
    if b.layout not in (torch.strided, torch._mkldnn):
        return matrix(b, _nnz(b) * m)
    return gemm(a, size(a.shape[:-2]), m, n, k)


def bias_add(call: Call, elements: int, dtype: Any) -> Flop:
    """One addition per element of the result, unless ``beta`` is 0."""
    return vector(dtype, elements, 0.0 if call["beta"] == 0 else 1.0)


@rule("mm", "bmm", "_sparse_mm", "hspmm")
def _mm(call: Call) -> Flop:
    a, b = call.inputs[:2]
    return product(a, b)


@rule("_int_mm")
def _int_mm(call: Call) -> Flop:
    return product(call["self"], call["mat2"])


@rule("addmm", "_addmm_activation", "sspaddmm", "_sparse_addmm")
def _addmm(call: Call) -> Flop:
    a, b = call.first("mat1"), call.first("mat2")
    flop = product(a, b) + bias_add(call, a.shape[0] * b.shape[1], call.out.dtype)
    if call.info.base == "_addmm_activation":
        flop += vector(call.out.dtype, call.out.numel(), 8.0 if call["use_gelu"] else 1.0)
    return flop


@rule("baddbmm")
def _baddbmm(call: Call) -> Flop:
    a, b = call["batch1"], call["batch2"]
    return product(a, b) + bias_add(call, a.shape[0] * a.shape[1] * b.shape[2], call.out.dtype)


@rule("addbmm")
def _addbmm(call: Call) -> Flop:
    a, b = call["batch1"], call["batch2"]
    return product(a, b) + bias_add(call, a.shape[1] * b.shape[2], call.out.dtype)


@rule("mv")
def _mv(call: Call) -> Flop:
    return product(call["self"], call["vec"].unsqueeze(-1))


@rule("addmv")
def _addmv(call: Call) -> Flop:
    a = call["mat"]
    return product(a, call["vec"].unsqueeze(-1)) + bias_add(call, a.shape[0], call.out.dtype)


@rule("dot", "vdot")
def _dot(call: Call) -> Flop:
    a = call["self"]
    return gemm(a, 1, 1, 1, a.numel())


@rule("linear", "mkldnn_linear", "mkldnn::_linear_pointwise")
def _linear(call: Call) -> Flop:
    x, weight, bias = call.first("self", "input", "X"), call.first("weight", "W"), call["bias"]
    rows = size(x.shape[:-1])
    outputs = weight.shape[0] if weight.dim() == 2 else 1
    flop = gemm(x, 1, rows, outputs, x.shape[-1])
    return flop if bias is None else flop + vector(x.dtype, rows * outputs, 1.0)


@rule("linear_backward")
def _linear_backward(call: Call) -> Flop:
    x, weight, mask = call["self"], call["weight"], call["output_mask"]
    rows, outputs = size(x.shape[:-1]), weight.shape[0]
    once = gemm(x, 1, rows, outputs, x.shape[-1])
    flop = vector(x.dtype, rows * outputs, 1.0 if mask[2] else 0.0)
    for wanted in mask[:2]:
        flop = flop + once if wanted else flop
    return flop


@rule("matmul")
def _matmul(call: Call) -> Flop:
    a, b = call["self"], call["other"]
    a = a.unsqueeze(0) if a.dim() == 1 else a
    b = b.unsqueeze(-1) if b.dim() == 1 else b
    batch = size(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    return gemm(a, batch, a.shape[-2], b.shape[-1], a.shape[-1])


@rule("_scaled_mm")
def _scaled_mm(call: Call) -> Flop:
    a, b, bias = call["self"], call["mat2"], call["bias"]
    flop = product(a, b)
    return flop if bias is None else flop + vector(call.out.dtype, call.out.numel(), 1.0)


@rule("_grouped_mm", "_scaled_grouped_mm")
def _grouped_mm(call: Call) -> Flop:
    """Groups partition one dimension, so the whole product is that of the concatenated operands."""
    a, b = call.first("self"), call.first("mat2")
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    batch = a.shape[0] if a.dim() == 3 and b.dim() == 3 else 1
    return gemm(a, batch, m, n, k)


@rule("_trilinear")
def _trilinear(call: Call) -> Flop:
    """Σ i1·i2·i3 over the expanded space: one product of the first two, then multiply-adds."""
    parts = [call["i1"], call["i2"], call["i3"]]
    shapes = [list(part.shape) for part in parts]
    for shape, name in zip(shapes, ("expand1", "expand2", "expand3"), strict=True):
        for position in sorted(call[name]):
            shape.insert(position, 1)
    pair = size(torch.broadcast_shapes(shapes[0], shapes[1]))
    space = size(torch.broadcast_shapes(*shapes))
    return matrix(parts[0], space) + vector(parts[0].dtype, pair, 1.0)


@rule("kron")
def _kron(call: Call) -> Flop:
    return vector(call.out.dtype, call.out.numel(), 1.0)


@rule("_cdist_forward", "_euclidean_dist")
def _cdist(call: Call) -> Flop:
    """Per pair of rows and feature: difference, square, sum."""
    a, b = call.first("x1"), call.first("x2")
    pairs = call.out.numel()
    return vector(a.dtype, pairs * b.shape[-1], 3.0)


@rule("_cdist_backward")
def _cdist_backward(call: Call) -> Flop:
    return vector(call["x1"].dtype, call["grad"].numel() * call["x1"].shape[-1], 4.0)


@rule("_pdist_forward", "_pdist_backward")
def _pdist(call: Call) -> Flop:
    x = call["self"]
    pairs = x.shape[0] * (x.shape[0] - 1) // 2
    return vector(x.dtype, pairs * x.shape[1], 3.0)


@rule("affine_grid_generator")
def _affine_grid(call: Call) -> Flop:
    """Every position of the grid, with a 1 appended, times the transform of its sample."""
    theta = call["theta"]
    return matrix(theta, call.out.numel() * theta.shape[-1])


@rule("affine_grid_generator_backward")
def _affine_grid_backward(call: Call) -> Flop:
    grad = call["grad"]
    return matrix(grad, grad.numel() * (grad.shape[-1] + 1))
