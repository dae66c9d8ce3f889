"""Executed instructions of compiled programs → what they serve and what they have to compute."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from hroof.attribution import Counted, Part
from hroof.errors import ProfileError
from hroof.launches import Work
from hroof.units import Phase, Source
from hroof_keras.graph.places import Place
from hroof_keras.hlo import HloModule, HloPlaces
from hroof_keras.profiling.events import Event

_UNKNOWN = Work(None, None, math.nan, math.nan, Source.MISSING)
_NUMBER = re.compile(r"(\.\d+)+$")


class XlaOps:
    """Places and work of instructions.

    Args:
        programs: Serialised ``HloProto`` by number of the program.
        place_of_name: What the name of an op tells.
    """

    def __init__(
        self, programs: Mapping[int, bytes], place_of_name: Callable[[str], Place | None]
    ) -> None:
        self._programs = programs
        self._place_of_name = place_of_name
        self._read: dict[int, tuple[HloModule, HloPlaces] | None] = {}
        self.faults: dict[str, None] = {}

    def counted(self, event: Event) -> Counted:
        """What an instruction serves and computes."""
        known = self._program(event)
        parts = known[1].parts(event.name) if known is not None else ()
        parts = parts or (Part(None, 1.0, Phase.OTHER),)
        main = max(parts, key=lambda part: part.share)
        instruction = known[0].instruction(event.name) if known is not None else None
        return Counted(
            phase=main.phase or Phase.OTHER,
            layer=main.layer,
            recompute=False,
            is_sum=False,
            op=_NUMBER.sub("", event.name),
            signature=(event.hlo_program, event.name),
            work=_UNKNOWN if instruction is None else instruction.work,
            owner=None,
            parts=parts,
        )

    def executed(self, pieces: Sequence[Event]) -> Counted:
        """What an instruction serves, and computed in one step, whose kernels are known but not its executions.

        Args:
            pieces: Its kernels; of each execution there may be several.
        """
        event = replace(pieces[0], name=pieces[0].instruction)
        counted = self.counted(event)
        known = self._program(event)
        runs = known[0].executions().get(event.name, math.nan) if known is not None else math.nan
        work = counted.work.scaled(runs) if runs == runs else _UNKNOWN
        return replace(counted, work=work)

    def contains_others(self, event: Event) -> bool:
        """Whether an instruction only runs others, which have events of their own; a small loop is one kernel."""
        if event.kind != "hlo" or not event.name.startswith("call"):
            return False
        known = self._program(event)
        instruction = known[0].instruction(event.name) if known is not None else None
        return instruction is None or instruction.contains

    def rule(self, event: Event) -> str:
        """How it is known what an instruction serves."""
        known = self._program(event)
        return "none" if known is None else known[1].rule(event.name)

    def op_names(self, events: Iterable[Event]) -> set[str]:
        """Names of the ops that the programs which ran come from; a profile holds all that were ever compiled.

        Args:
            events: What ran.
        """
        ran = {event.hlo_program for event in events}
        known = (self._numbered(number, str(number)) for number in self._programs if number in ran)
        modules = [program[0] for program in known if program is not None]
        return {hlo.op_name for module in modules for hlo in module.hlos.values() if hlo.op_name}

    def _program(self, event: Event) -> tuple[HloModule, HloPlaces] | None:
        number = event.hlo_program
        if number is None or number not in self._programs:
            self.faults.setdefault(f"The compiled program {event.hlo_module} is not in the profile")
            return None
        return self._numbered(number, str(event.hlo_module))

    def _numbered(self, number: int, name: str) -> tuple[HloModule, HloPlaces] | None:
        if number not in self._read:
            self._read[number] = self._parsed(number, name)
        return self._read[number]

    def _parsed(self, number: int, name: str) -> tuple[HloModule, HloPlaces] | None:
        try:
            module = HloModule.read(self._programs[number])
        except ProfileError as error:
            self.faults.setdefault(f"The compiled program {name} is not read: {error}")
            return None
        return module, HloPlaces(module, self._place_of_name)
