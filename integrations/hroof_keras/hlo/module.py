"""A compiled program with the work of every instruction: what profiles of XLA are joined with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hroof.launches import Work
from hroof.traffic import Touch
from hroof.units import Source
from hroof_keras.hlo.buffers import Buffers
from hroof_keras.hlo.messages import Computation, Hlo, Module, read_module
from hroof_keras.hlo.rules import FlopCounter, contains_others
from hroof_keras.hlo.traffic import traffic_of
from hroof_keras.hlo.turns import written_down
from hroof_keras.hlo.weights import words

_UNTIMED = words(
    """
    parameter constant tuple get-tuple-element bitcast after-all add-dependency opt-barrier domain
    """
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction with its work.

    Attributes:
        name: What profiles call it.
        opcode: ``fusion``, ``dot`` and so on; for the call of a library, its target.
        op_name: Name of the op of the framework that it comes from; may be empty.
        work: Of one execution.
        contains: It runs other instructions, which are executed, and profiled, as such.
    """

    name: str
    opcode: str
    op_name: str
    work: Work
    contains: bool


class HloModule:
    """A compiled program.

    Args:
        module: The program as read.
        tf32: The device computes products and convolutions of fp32 numbers in tf32.
    """

    def __init__(self, module: Module, *, tf32: bool = False) -> None:
        self.module = module
        self.counter = FlopCounter(module, tf32=tf32)
        self._known: dict[str, Instruction] = {}

    @classmethod
    def read(cls, serialized: bytes, *, tf32: bool = False) -> HloModule:
        """Read an ``HloProto`` or ``HloModuleProto``.

        Raises:
            ProfileError: The bytes are neither.
        """
        return cls(read_module(serialized), tf32=tf32)

    @property
    def name(self) -> str:
        """Name of the program."""
        return self.module.name

    @property
    def without_rule(self) -> set[str]:
        """Opcodes and targets without a rule, among the instructions that were asked for."""
        return self.counter.without_rule

    @cached_property
    def hlos(self) -> Mapping[str, Hlo]:
        """Every instruction of every computation by name."""
        return {
            hlo.name: hlo
            for computation in self.module.computations.values()
            for hlo in computation.instructions
        }

    @cached_property
    def _buffers(self) -> Buffers:
        # Programs of one process have numbers of their own, so that their buffers never meet.
        return Buffers(self.module, self.module.id << 32)

    def instruction(self, name: str) -> Instruction | None:
        """An instruction by name; None where the program has none of that name."""
        hlo = self.hlos.get(name)
        if hlo is None:
            return None
        if name not in self._known:
            self._known[name] = self._instruction(hlo)
        return self._known[name]

    def _instruction(self, hlo: Hlo) -> Instruction:
        return Instruction(
            hlo.name,
            hlo.target or hlo.opcode,
            hlo.op_name,
            self._work(hlo),
            contains_others(hlo),
        )

    def _work(self, hlo: Hlo) -> Work:
        flop = self.counter.of(hlo)
        traffic = traffic_of(self.module, hlo)
        touch = Touch(traffic.accesses(self._buffers), flop.matrix if flop else None)
        read, written = traffic.bytes_read, traffic.bytes_written
        if flop is None:
            return Work(None, None, read, written, Source.MISSING, touch)
        source = Source.COUNTED if flop.exact else Source.CONVENTION
        is_view = not read and not written and not flop.nominal
        return Work(flop.nominal, flop.least, read, written, source, touch, is_view)

    def executions(self) -> dict[str, float]:
        """How often each instruction that profiles see is executed in one run.

        Bodies of loops count their turns, see ``Turns``; NaN where they are not known, or where a branch decides.
        Instructions that contain others are left out.
        """
        counts: dict[str, float] = {}
        self._execute(self.module.entry, 1.0, counts)
        return counts

    def _execute(self, computation: Computation, times: float, counts: dict[str, float]) -> None:
        for hlo in computation.instructions:
            if hlo.opcode in _UNTIMED:
                continue
            if not contains_others(hlo):
                counts[hlo.name] = counts.get(hlo.name, 0.0) + times
                continue
            for number, runs in zip(hlo.called, self._runs(hlo), strict=False):
                if runs:
                    self._execute(self.module.computations[number], times * runs, counts)

    def _runs(self, hlo: Hlo) -> list[float]:
        """How often one execution runs each computation that it calls.

        The condition of a loop runs once more than its body, and not at all where the turns are written down.
        """
        if hlo.opcode == "call":
            return [1.0]
        if hlo.opcode == "conditional":
            return [math.nan] * len(hlo.called)
        turns = self.counter.turns.of(hlo)
        return [turns, turns + 1 if math.isnan(written_down(hlo)) else 0.0]
