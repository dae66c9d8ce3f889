"""HLO made by hand."""

from __future__ import annotations

from typing import Any

from hroof_keras.hlo import HloModule
from hroof_keras.hlo.messages import Alias, Computation, Hlo, Module
from hroof_keras.hlo.shapes import Shape


def f32(*dims: int) -> Shape:
    return Shape("float32", dims)


def shape(dtype: str, *dims: int) -> Shape:
    return Shape(dtype, dims)


def tuple_of(*parts: Shape) -> Shape:
    return Shape("tuple", (), parts)


def parameter(number: int, of: Shape, name: str = "") -> Hlo:
    return Hlo(name or f"arg{number}", "parameter", of, parameter=number)


def op(name: str, opcode: str, of: Shape, *operands: Hlo, **more: Any) -> Hlo:
    return Hlo(name, opcode, of, operands, **more)


def part(name: str, of: Hlo, index: int) -> Hlo:
    return op(name, "get-tuple-element", of.shape.parts[index], of, tuple_index=index)


def computation(number: int, *instructions: Hlo, fusion: bool = False) -> Computation:
    """The last instruction is the root."""
    return Computation(number, f"computation{number}", instructions, instructions[-1], fusion)


def combining(number: int, opcode: str = "add", dtype: str = "float32") -> Computation:
    """What reductions apply: one instruction on two scalars."""
    one, other = parameter(0, Shape(dtype), f"x{number}"), parameter(1, Shape(dtype), f"y{number}")
    return computation(
        number, one, other, op(f"{opcode}{number}", opcode, Shape(dtype), one, other)
    )


def module(
    entry: Computation, *others: Computation, aliases: tuple[Alias, ...] = (), number: int = 1
) -> Module:
    computations = {item.id: item for item in (entry, *others)}
    return Module("made", number, computations, entry, aliases)


def program(entry: Computation, *others: Computation, tf32: bool = False) -> HloModule:
    return HloModule(module(entry, *others), tf32=tf32)


def alone(hlo: Hlo, *others: Computation) -> HloModule:
    """A program of one instruction and its operands."""
    return program(computation(0, *hlo.operands, hlo), *others)
