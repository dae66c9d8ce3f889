"""TensorFlow's own NVTX ranges (domain ``TSL``): which node of a graph, or instruction of XLA, a thread runs.

The graph executor names a node and its op; XLA on a GPU names a module and, inside it, an instruction with the
name of an op that it came from, whose beginning may be said once for the whole module:

    gradient_tape/net_1/fc1_1/MatMul/MatMul:MatMul
    XlaModule:#prefix=jit(train_step)/,hlo_module=jit_train_step,program_id=7#
    Thunk:#name=jvp(fc1)/dot_general,hlo_op=fusion.3#

[The first form was seen in TensorFlow 2.19 and 2.21; the others come from the sources of XLA and were not seen on a
GPU.]

Which layer a node or an instruction serves cannot be told from its name alone. The program that emits the ranges leaves
a table of it, ``places`` in ``run.json``::

    {"parts": [[["forward", "fc1", 1.0]], [["forward", "fc1", 0.75], ["loss", null, 0.25]]],
     "nodes": {"net_1/fc1_1/MatMul": 0},
     "modules": {"jit_train_step": {"fusion.3": 1}}}

where the numbers are places in ``parts`` and the shares of one entry sum to 1. A fourth value, true, says that forward
work is computed again inside the backward pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hroof.errors import ProfileError
from hroof.units import Phase

DOMAIN = "TSL"

_NODE = re.compile(r"(?P<name>[^:#]+):(?P<op>[A-Za-z_]\w*)(?:#.*#)?", re.DOTALL)
_XLA = re.compile(r"(?P<kind>XlaModule|Thunk):#(?P<fields>.*)#", re.DOTALL)
_FIELD = re.compile(r"(?:^|,)(name|prefix|hlo_op|hlo_module|program_id|unique_hlo_op_id)=")
_NUMBERED = re.compile(r"(?:\.\d+|\.clone|\.remat\d*)+$")
_REMEDY = "Collect the run again, or take places out of its run.json: layers are then called as their scopes are."
_ROUNDING = 1e-3
_CALL = re.compile(r"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")
"""What the runtime puts before the names of a function that it makes part of another."""


class Share(NamedTuple):
    """A part of a launch.

    Attributes:
        phase: What it serves.
        layer: Qualified name; None where it serves no layer.
        share: Of the launch's work and time; the shares of one launch sum to 1.
        recompute: Forward work that runs again inside the backward pass.
    """

    phase: Phase
    layer: str | None
    share: float = 1.0
    recompute: bool = False


Parts = tuple[Share, ...]


# --- messages -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a graph that the executor runs; ``op`` is its type."""

    name: str
    op: str


@dataclass(frozen=True, slots=True)
class Module:
    """A compiled program of XLA; ``prefix`` begins the op names of all its instructions."""

    name: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of XLA; ``op_name`` is that of an op which it came from, without the module's prefix."""

    name: str
    op_name: str = ""

    @property
    def op(self) -> str:
        """Its name without the number that tells it from others of its kind."""
        return _NUMBERED.sub("", self.name)


def parse(message: str) -> Node | Module | Instruction | None:
    """What a range of the domain stands for; None for one of the compiler's passes, or an unknown form."""
    xla = _XLA.fullmatch(message)
    if xla is not None:
        return _of_xla(xla["kind"], _fields(xla["fields"]))
    node = _NODE.fullmatch(message)
    return Node(node["name"], node["op"]) if node is not None else None


def _of_xla(kind: str, fields: Mapping[str, str]) -> Module | Instruction | None:
    if kind == "XlaModule" and fields.get("hlo_module"):
        return Module(fields["hlo_module"], fields.get("prefix", ""))
    if kind == "Thunk" and fields.get("hlo_op"):
        return Instruction(fields["hlo_op"], fields.get("name", ""))
    return None


def _fields(text: str) -> dict[str, str]:
    """Values by key; a value may hold commas and signs of equality of its own."""
    keys = list(_FIELD.finditer(text))
    ends = [*(key.start() for key in keys[1:]), len(text)]
    return {key[1]: text[key.end() : end] for key, end in zip(keys, ends, strict=True)}


@dataclass(frozen=True, slots=True)
class Running:
    """What the ranges of one thread say together.

    Attributes:
        op: Type of the node, or kind of the instruction.
        node: Name of the innermost node.
        module: Name of the module, within which ``instruction`` is.
        instruction: Name of the innermost instruction.
        op_name: Whole name of the op that the instruction came from.
    """

    op: str | None = None
    node: str | None = None
    module: str | None = None
    instruction: str | None = None
    op_name: str | None = None


def running(messages: Iterable[str]) -> Running | None:
    """What runs within these ranges of one thread, outermost first; None where none says so.

    A node around a compiled program is the one that starts it: what is inside counts.
    """
    found = Running()
    module = Module("")
    for message in messages:
        match parse(message):
            case Node(name, op):
                found = Running(op=op, node=name)
            case Module() as module:
                found = Running(module=module.name)
            case Instruction(name, op_name) as instruction:
                whole = module.prefix + op_name if op_name else None
                found = Running(instruction.op, None, module.name or None, name, whole)
    return found if found != Running() else None


# --- the table ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """Places of nodes and instructions by name.

    Attributes:
        nodes: Of nodes, and of ops that instructions came from.
        modules: Of instructions, by module and name.
    """

    nodes: Mapping[str, Parts] = field(default_factory=dict)
    modules: Mapping[str, Mapping[str, Parts]] = field(default_factory=dict)

    def of(self, what: Running) -> Parts:
        """The parts of what runs; none where no name is known."""
        if what.instruction is None:
            return self._of_node(what.node or "")
        known = self.modules.get(what.module or "", {}).get(what.instruction)
        return known or self._of_node(what.op_name or "")

    def _of_node(self, name: str) -> Parts:
        """Of a node as it is called when it runs; or as it was traced, before its function became part of another."""
        return self.nodes.get(name) or self.nodes.get(_CALL.sub("", name), ())

    def joined(self, other: Places) -> Places:
        """With what another region or process of the program knows besides."""
        names = {**other.modules, **self.modules}
        modules = {
            name: {**other.modules.get(name, {}), **self.modules.get(name, {})} for name in names
        }
        return Places({**other.nodes, **self.nodes}, modules)

    def table(self) -> dict[str, Any]:
        """As ``run.json`` holds it; ``read`` is its inverse."""
        numbers: dict[Parts, int] = {}

        def numbered(entries: Mapping[str, Parts]) -> dict[str, int]:
            return {
                name: numbers.setdefault(parts, len(numbers)) for name, parts in entries.items()
            }

        nodes = numbered(self.nodes)
        modules = {name: numbered(entries) for name, entries in self.modules.items()}
        parts = [[_entry(part) for part in one] for one in numbers]
        return {"parts": parts, "nodes": nodes, "modules": modules}


def read(table: Any) -> Places:
    """The places that a run left.

    Args:
        table: What its ``run.json`` holds under ``places``.

    Raises:
        ProfileError: It is damaged.
    """
    try:
        parts = [_parts(entry) for entry in table["parts"]]
        modules = table["modules"].items()
        return Places(
            _named(table["nodes"], parts),
            {str(name): _named(entries, parts) for name, entries in modules},
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ProfileError(
            f"The table of places of this run is damaged: {error!r}.", _REMEDY
        ) from error


def _entry(part: Share) -> list[Any]:
    """A share as ``run.json`` holds it; that nothing is computed again goes without saying."""
    entry: list[Any] = [str(part.phase), part.layer, part.share]
    return [*entry, True] if part.recompute else entry


def _named(entries: Mapping[str, int], parts: Sequence[Parts]) -> dict[str, Parts]:
    if any(number < 0 for number in entries.values()):
        raise ValueError("a place before the first")
    return {str(name): parts[number] for name, number in entries.items()}


def _parts(entry: Sequence[Sequence[Any]]) -> Parts:
    parts = tuple(
        Share(Phase(phase), None if layer is None else str(layer), float(share), again == [True])
        for phase, layer, share, *again in entry
    )
    if not math.isclose(sum(part.share for part in parts), 1.0, abs_tol=_ROUNDING):
        raise ValueError(f"shares that do not sum to 1: {entry!r}")
    return parts


# --- without a table ----------------------------------------------------------------------------

_TAPE = "gradient_tape/"


def by_scope(what: Running) -> Parts:
    """The scope of a node stands for its layer, where no table says better.

    A scope is what the layer was called when its step was traced, with the numbers that TensorFlow appends.
    """
    name = _CALL.sub("", what.node or what.op_name or "")
    backward = _TAPE in name
    scope = name.partition(_TAPE)[2] if backward else name
    scope = scope.rpartition("/")[0]
    return (Share(Phase.BACKWARD if backward else Phase.OTHER, scope or None),) if name else ()
