"""Kernels that measure what a launch costs in TensorFlow: a node of a graph, an eager op, a call of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hroof.integration import CeilingKernel
from hroof_keras.ceilings.xla import Prepared, on_cpu
from hroof_keras.private.runtime import direct_call

_LAUNCHES = 1000
_IN_A_FUNCTION = 50
"""Nodes that are traced; other functions call them, so that the graph that runs has as many as are counted."""
_CALLS = 100
_NODES = ("Maximum", "RealDiv")
"""Ops of which many in a row stay as many: a chain of Tanh, or of additions, becomes one op."""


def launch_kernels() -> Iterator[CeilingKernel]:
    """The dispatch of a node by the executor of graphs; beside it that of an eager op, and a call of a function."""
    for op in _NODES:
        yield CeilingKernel(
            f"graph of {_LAUNCHES} nodes {op}",
            "launch",
            _nodes(op),
            note="A node of a graph on one element, one after the other; the call of the graph is part of it.",
        )
    yield CeilingKernel(
        "Neg of 1 element",
        "launch",
        _eager,
        note="One eager op on one element, with its call from Python.",
        variant="eager",
    )
    yield CeilingKernel(
        "call of a graph",
        "launch",
        _call,
        note="One call of a tf.function from Python that computes one node.",
        variant="call",
    )


def _one() -> Any:
    import tensorflow

    return on_cpu(lambda: tensorflow.ones(1))


def _ops() -> dict[str, Callable[[Any, Any], Any]]:
    import tensorflow

    ops = tensorflow.raw_ops
    return {
        "Maximum": lambda x, y: ops.Maximum(x=x, y=y),
        "RealDiv": lambda x, y: ops.RealDiv(x=x, y=y),
    }


def _nodes(name: str) -> Callable[[], Prepared]:
    """A chain of nodes, each of which needs the one before; nothing can be simplified in it."""

    def prepare() -> Prepared:
        import tensorflow

        op, one = _ops()[name], _one()

        @tensorflow.function(autograph=False)
        def some(x: Any, y: Any) -> Any:
            for _ in range(_IN_A_FUNCTION):
                x = op(x, y)
            return x

        def chain(x: Any, y: Any) -> Any:
            for _ in range(_LAUNCHES // _IN_A_FUNCTION):
                x = some(x, y)
            return x

        traced = tensorflow.function(chain, autograph=False)
        graph = on_cpu(lambda: direct_call(traced.get_concrete_function(one, one)))
        return lambda: on_cpu(lambda: graph(one, one)), float(_LAUNCHES)

    return prepare


def _eager() -> Prepared:
    import tensorflow

    one, op = _one(), tensorflow.raw_ops.Neg

    def many() -> None:
        for _ in range(_LAUNCHES):
            op(x=one)

    return lambda: on_cpu(many), float(_LAUNCHES)


def _call() -> Prepared:
    import tensorflow

    one = _one()
    function = tensorflow.function(lambda x: tensorflow.raw_ops.Neg(x=x), autograph=False)

    def many() -> None:
        for _ in range(_CALLS):
            function(one)

    return lambda: on_cpu(many), float(_CALLS)
