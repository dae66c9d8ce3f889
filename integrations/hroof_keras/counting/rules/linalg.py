"""Dense factorisations and solves: leading-order operation counts from textbooks, labelled as convention.

Source: Golub and Van Loan, Matrix Computations: Cholesky n³/3, LU 2n³/3, triangular solve n² per right-hand
side, inverse 2n³, Householder QR 2n²(m − n/3).
"""

from __future__ import annotations

from hroof.units import Pipe
from hroof_keras.counting.flop import Call, Flop, is_complex, precision_of, rule, size


def _flop(call: Call, per_matrix: float) -> Flop:
    dtype = call.dtype()
    total = size(call.shape(0)[:-2]) * per_matrix * (4.0 if is_complex(dtype) else 1.0)
    counts = {(Pipe.MATRIX, precision_of(dtype)): total}
    return Flop(counts, counts, False)


@rule("Cholesky")
def _cholesky(call: Call) -> Flop:
    return _flop(call, call.shape(0)[-1] ** 3 / 3)


@rule("Lu", "MatrixDeterminant", "LogMatrixDeterminant")
def _lu(call: Call) -> Flop:
    return _flop(call, 2 * call.shape(0)[-1] ** 3 / 3)


@rule("MatrixInverse")
def _inverse(call: Call) -> Flop:
    return _flop(call, 2 * call.shape(0)[-1] ** 3)


@rule("MatrixTriangularSolve")
def _solve_triangular(call: Call) -> Flop:
    return _flop(call, call.shape(0)[-1] ** 2 * call.shape(1)[-1])


@rule("MatrixSolve")
def _solve(call: Call) -> Flop:
    n, columns = call.shape(0)[-1], call.shape(1)[-1]
    return _flop(call, 2 * n**3 / 3 + 2 * n**2 * columns)


@rule("Qr")
def _qr(call: Call) -> Flop:
    m, n = sorted(call.shape(0)[-2:], reverse=True)
    return _flop(call, 2 * n**2 * (m - n / 3))
