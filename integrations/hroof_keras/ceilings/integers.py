"""Matrix products in int8 on a CPU: XLA's, which use a matrix unit; TensorFlow's own op for them is a scalar loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from hroof.integration import CeilingKernel
from hroof.units import Pipe, Precision
from hroof_keras.ceilings.xla import Call, Prepared, Program, Team, on_cpu

_CUBES = (512, 1024)
_PROBE = 128
_PROBE_TRIES = 5
_SLOWEST = 1e10
"""Operations per second that no scalar loop reaches."""
_NOTE = (
    "int8 times int8 into int32, compiled by XLA; every thread has a product of its own. "
    "A multiply-add is 2 operations."
)


def integer_kernels(team: Team) -> Iterator[CeilingKernel]:
    """The products, where XLA does not compute them in a scalar loop."""
    if _probe() < _SLOWEST:
        return
    for size in _CUBES:
        yield CeilingKernel(
            f"XLA int8 product {size}",
            "peak",
            product(size, team),
            pipe=Pipe.MATRIX,
            precision=Precision.INT8,
            threads=team.threads,
            note=_NOTE,
        )


def product(size: int, team: Team) -> Callable[[], Prepared]:
    """A square product on every thread: 2·size³ operations each.

    Raises:
        ArithmeticError: When it is prepared: its results are wrong.
    """

    def prepare() -> Prepared:
        call, left, right = multiply(size)
        _check(call(), left, right)
        calls = [call, *(multiply(size)[0] for _ in range(team.threads - 1))]
        return team.together(calls), 2.0 * size**3 * team.threads

    return prepare


def multiply(size: int) -> tuple[Call, Any, Any]:
    """The call and its operands."""
    import numpy
    import tensorflow

    def exact(left: Any, right: Any) -> Any:
        return tensorflow.linalg.matmul(left, right, output_type=tensorflow.int32)

    values = numpy.random.default_rng(0).integers(-64, 64, (2, size, size), numpy.int8)
    left, right = on_cpu(lambda: [tensorflow.constant(each) for each in values])
    return Program(exact).call(left, right), left, right


def _check(result: Any, left: Any, right: Any) -> None:
    import numpy

    whole = left.numpy()[:32].astype(numpy.int32) @ right.numpy().astype(numpy.int32)
    if not numpy.array_equal(result[0].numpy()[:32], whole):
        raise ArithmeticError("its int32 results are wrong, so it computes something else")


def _probe() -> float:
    """Operations per second of a small product, the best of a few."""
    call, _, _ = multiply(_PROBE)
    call()
    times = []
    for _ in range(_PROBE_TRIES):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return 2.0 * _PROBE**3 / max(min(times), 1e-9)
