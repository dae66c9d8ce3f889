"""Dense factorisations and solves: leading-order operation counts from textbooks, labelled as convention.

Source: Golub and Van Loan, Matrix Computations: Cholesky n³/3, LU 2n³/3, triangular solve n² per right-hand
side, inverse 2n³, Householder QR 2n²(m − n/3).
"""

from __future__ import annotations

from hroof.units import Pipe
from hroof_torch.counting.rules.flop import Call, Flop, matrix_precision, rule, size


def _flop(call: Call, operand: str, per_matrix: float) -> Flop:
    a = call[operand]
    total = size(a.shape[:-2]) * per_matrix * (4.0 if a.dtype.is_complex else 1.0)
    counts = {(Pipe.MATRIX, matrix_precision(a)): total}
    return Flop(counts, counts, False)


@rule("linalg_cholesky_ex", "cholesky")
def _cholesky(call: Call) -> Flop:
    return _flop(call, "self", call["self"].shape[-1] ** 3 / 3)


@rule("linalg_lu_factor_ex", "linalg_lu", "_linalg_det", "_linalg_slogdet")
def _lu(call: Call) -> Flop:
    return _flop(call, "A", 2 * call["A"].shape[-1] ** 3 / 3)


@rule("linalg_inv_ex", "cholesky_inverse")
def _inverse(call: Call) -> Flop:
    name = "A" if call["A"] is not None else "self"
    return _flop(call, name, 2 * call[name].shape[-1] ** 3)


@rule("linalg_solve_triangular", "triangular_solve")
def _solve_triangular(call: Call) -> Flop:
    matrix_name = "A" if call["A"] is not None else "self"
    right = call["B"] if call["B"] is not None else call["self"]
    if matrix_name == "self":
        right = call.outputs[0]
    return _flop(call, matrix_name, call[matrix_name].shape[-1] ** 2 * right.shape[-1])


@rule("_linalg_solve_ex")
def _solve(call: Call) -> Flop:
    n, right = call["A"].shape[-1], call["B"]
    columns = right.shape[-1] if right.dim() == call["A"].dim() else 1
    return _flop(call, "A", 2 * n**3 / 3 + 2 * n**2 * columns)


@rule("linalg_qr")
def _qr(call: Call) -> Flop:
    m, n = sorted(call["A"].shape[-2:], reverse=True)
    return _flop(call, "A", 2 * n**2 * (m - n / 3))


@rule("linalg_lu_solve")
def _lu_solve(call: Call) -> Flop:
    return _flop(call, "LU", 2 * call["LU"].shape[-1] ** 2 * call["B"].shape[-1])
