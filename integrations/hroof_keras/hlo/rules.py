"""The FLOP of every instruction: own rule, or the sum of what it calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

from hroof_keras.counting.flop import NO_FLOP, Flop, matrix
from hroof_keras.hlo import convolution, dots, elementwise, weights
from hroof_keras.hlo.custom_calls import custom_call
from hroof_keras.hlo.flop import summed, times
from hroof_keras.hlo.messages import Computation, Hlo, Module
from hroof_keras.hlo.turns import Turns

_ONE_KERNEL = "xla_cpu_small_call"


def contains_others(hlo: Hlo) -> bool:
    """Whether the instructions that it calls are executed, and profiled, as such.

    The CPU backend makes one kernel of a small loop, called through an instruction that it marks.
    """
    if hlo.opcode == "call":
        return hlo.attributes.get(_ONE_KERNEL) != "true"
    return hlo.opcode in ("while", "conditional")


class FlopCounter:
    """Counts the instructions of a module, each once.

    Args:
        module: The module.
        tf32: The device computes products and convolutions of fp32 numbers in tf32.
        role: Which pass a convolution is, where more is known than the instruction tells.
    """

    def __init__(
        self,
        module: Module,
        *,
        tf32: bool = False,
        role: Callable[[Hlo], convolution.Role] = convolution.role_of,
    ) -> None:
        self.without_rule: set[str] = set()
        self._module, self._tf32, self._role = module, tf32, role
        self._known: dict[Hlo, Flop | None] = {}
        self._bodies: dict[int, Flop | None] = {}

    @cached_property
    def turns(self) -> Turns:
        """How often loops turn."""
        return Turns(self._module)

    def of(self, hlo: Hlo) -> Flop | None:
        """FLOP of one execution; None where it, or something in it, has no rule.

        ``while``, ``conditional`` and a ``call`` that is not one kernel count nothing themselves, since what they
        run is executed as instructions of its own.
        """
        if hlo not in self._known:
            self._known[hlo] = self._count(hlo)
            if self._known[hlo] is None and not hlo.called:
                self.without_rule.add(hlo.target or hlo.opcode)
        return self._known[hlo]

    def body(self, computation: Computation) -> Flop | None:
        """FLOP of one run of a computation."""
        if computation.id not in self._bodies:
            parts = [self._inside(hlo) for hlo in computation.instructions]
            self._bodies[computation.id] = summed(parts)
        return self._bodies[computation.id]

    def _inside(self, hlo: Hlo) -> Flop | None:
        """FLOP of an instruction within one kernel: loops count their turns, a branch is not known."""
        if hlo.opcode == "call":
            return self._called(hlo)
        if hlo.opcode == "conditional":
            return None
        if hlo.opcode != "while":
            return self.of(hlo)
        turns = self.turns.of(hlo)
        if math.isnan(turns):
            return None
        body, condition = (self.body(self._module.computations[i]) for i in hlo.called[:2])
        return summed(
            None if part is None else times(part, count)
            for part, count in ((body, turns), (condition, turns + 1))
        )

    def _count(self, hlo: Hlo) -> Flop | None:
        if contains_others(hlo) or hlo.opcode in weights.FREE or hlo.opcode in weights.MOVES:
            return NO_FLOP
        if hlo.opcode in weights.PER_ELEMENT:
            return elementwise.elementwise(hlo)
        if hlo.opcode in elementwise.NORMS:
            return elementwise.norm(hlo)
        if hlo.opcode == "custom-call":
            return custom_call(hlo, tf32=self._tf32)
        rule = _RULES.get(hlo.opcode)
        return None if rule is None else rule(self, hlo)

    def _called(self, hlo: Hlo) -> Flop | None:
        return summed(self.body(self._module.computations[number]) for number in hlo.called)

    def _dot(self, hlo: Hlo) -> Flop:
        lhs, rhs = (operand.shape for operand in hlo.operands[:2])
        return dots.product(lhs, rhs, hlo.dot, tf32=self._tf32)

    def _ragged_dot(self, hlo: Hlo) -> Flop:
        return dots.ragged_product(hlo.operands[0].shape, hlo.shape, hlo.dot)

    def _convolution(self, hlo: Hlo) -> Flop:
        nominal, least = convolution.multiply_adds(hlo, self._role(hlo))
        return matrix(hlo.operands[0].shape.dtype, nominal, least=least, tf32=self._tf32)

    def _repeated(self, hlo: Hlo, count: float, least: float | None = None) -> Flop | None:
        once = self._called(hlo)
        return None if once is None else elementwise.combined(hlo, once, count, least)

    def _map(self, hlo: Hlo) -> Flop | None:
        once = self._called(hlo)
        return None if once is None else times(once, hlo.shape.size)

    def _reduce(self, hlo: Hlo) -> Flop | None:
        """Every element of the input is combined once."""
        return self._repeated(hlo, hlo.operands[0].shape.size)

    def _reduce_window(self, hlo: Hlo) -> Flop | None:
        """One operation per tap that is read."""
        taps = elementwise.window_taps(hlo, hlo.operands[0].shape.dims, hlo.shape.first.dims)
        return self._repeated(hlo, *taps)

    def _scatter(self, hlo: Hlo) -> Flop | None:
        """Operands, indices, updates; a computation that only replaces counts nothing."""
        once = self._called(hlo)
        updates = hlo.operands[-1].shape.size
        return None if once is None else times(once, updates)

    def _select_and_scatter(self, hlo: Hlo) -> Flop | None:
        """One addition per element of the gradient; finding its place is a comparison."""
        _, scatter = (self.body(self._module.computations[number]) for number in hlo.called)
        return None if scatter is None else times(scatter, hlo.operands[1].shape.size)

    def _fourier(self, hlo: Hlo) -> Flop:
        return elementwise.fourier(hlo)

    def _cholesky(self, hlo: Hlo) -> Flop:
        return elementwise.cholesky(hlo)

    def _triangular_solve(self, hlo: Hlo) -> Flop:
        return elementwise.triangular_solve(hlo)


_RULES: dict[str, Callable[[FlopCounter, Hlo], Flop | None]] = {
    "dot": FlopCounter._dot,
    "ragged-dot": FlopCounter._ragged_dot,
    "convolution": FlopCounter._convolution,
    "fusion": FlopCounter._called,
    "call": FlopCounter._called,
    "async-start": FlopCounter._called,
    "map": FlopCounter._map,
    "reduce": FlopCounter._reduce,
    "reduce-window": FlopCounter._reduce_window,
    "scatter": FlopCounter._scatter,
    "select-and-scatter": FlopCounter._select_and_scatter,
    "fft": FlopCounter._fourier,
    "cholesky": FlopCounter._cholesky,
    "triangular-solve": FlopCounter._triangular_solve,
}
