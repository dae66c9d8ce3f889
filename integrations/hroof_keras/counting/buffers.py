"""Which tensors share storage: identities that the traffic model can follow from op to op."""

from __future__ import annotations

from hroof_keras.counting.names import plain
from hroof_keras.graph.nodes import Node


class Buffers:
    """Names the storages of one step by numbers.

    A result has a storage of its own unless the op only passes an input on. A node of a loop body has one
    storage for all its iterations, as if the allocator gave it the same place again; a variable is its handle.
    Work is to be counted in the order of execution, so that what is passed on is known by then.

    Attributes:
        faults: Why work could not be counted, each text once, in order of appearance.
    """

    def __init__(self) -> None:
        self.faults: dict[str, None] = {}
        self._names: dict[str, int] = {}
        self._next = 1

    def name(self, tensor: str) -> int:
        """Identity of the storage of ``node:port``."""
        key = _whole(tensor)
        if key not in self._names:
            self._names[key] = self._next
            self._next += 1
        return self._names[key]

    def knows(self, tensor: str) -> bool:
        """Whether this tensor has been seen."""
        return _whole(tensor) in self._names

    def alias(self, tensor: str, source: str) -> None:
        """From here on ``tensor`` lies where ``source`` lies."""
        self._names[_whole(tensor)] = self.name(source)

    def note(self, op: str, problem: object) -> None:
        """Remember why something of an op is missing."""
        self.faults.setdefault(f"{op}: {problem}")

    def pass_on(self, node: Node) -> None:
        """Let the results of a view refer to its inputs."""
        if not node.inputs:
            return
        op = plain(node.op)
        if op == "IdentityN":
            for port, source in enumerate(node.inputs):
                self.alias(f"{node.name}:{port}", source)
        elif op in ("Merge", "RefMerge"):
            # The first pass of a loop comes from outside, each later one from the node that runs last.
            known = [source for source in node.inputs if self.knows(source)]
            self.alias(f"{node.name}:0", (known or list(node.inputs))[-1])
        else:
            for port in range(2 if "Switch" in op else 1):
                self.alias(f"{node.name}:{port}", node.inputs[0])


def _whole(tensor: str) -> str:
    """With its port: a name alone means port 0."""
    return tensor if ":" in tensor else f"{tensor}:0"
