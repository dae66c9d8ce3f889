"""The work of one executed node: FLOP by rule, bytes by shapes, never an error for the program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hroof.launches import Work
from hroof.traffic import Touch
from hroof.units import Source
from hroof_keras.counting.buffers import Buffers
from hroof_keras.counting.flop import Call, Flop, UncountableError
from hroof_keras.counting.inference import output_specs
from hroof_keras.counting.names import NOTHING, VIEWS, makes_dataset, plain
from hroof_keras.counting.rules.registry import find_rule
from hroof_keras.counting.traffic import Traffic, traffic_of
from hroof_keras.graph.nodes import Node, TensorSpec

_VIEW = Work({}, {}, 0.0, 0.0, Source.COUNTED, is_view=True)
_NOTHING = Work({}, {}, 0.0, 0.0, Source.COUNTED)
_BETWEEN_DEVICES = frozenset({"Send", "Recv", "HostSend", "HostRecv"})


def work_of(
    node: Node,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec | None],
    buffers: Buffers,
) -> Work:
    """The work of a node as it ran.

    Args:
        node: The node.
        inputs: Shapes and types of its data inputs; None for a handle, or where nothing is known.
        outputs: Likewise of its results; what is missing is inferred where that is possible.
        buffers: Identities of storages, shared by all nodes of a step; it also takes the faults.

    Returns:
        Its work. ``nominal`` is None for an op without a rule and where the shapes do not suffice.
    """
    op = plain(node.op)
    if op in VIEWS or (op in _BETWEEN_DEVICES and _stays(node)):
        buffers.pass_on(node)
        return _VIEW
    if (op in NOTHING and op not in _BETWEEN_DEVICES) or makes_dataset(op):
        return _NOTHING
    call = Call(node, op, inputs, _completed(node, inputs, outputs), _uses_tf32(node))
    traffic, flop = _traffic(call, buffers), _flop(call, buffers)
    touch = Touch(traffic.accesses(buffers), flop.matrix if flop else None)
    read, written = traffic.bytes_read, traffic.bytes_written
    if flop is None:
        return Work(None, None, read, written, Source.MISSING, touch)
    source = Source.COUNTED if flop.exact else Source.CONVENTION
    return Work(flop.nominal, flop.least, read, written, source, touch)


def _stays(node: Node) -> bool:
    """Whether what is sent stays on its device, so that only a reference is passed on."""
    return node.text("send_device") == node.text("recv_device")


def has_rule(op: str) -> bool:
    """Whether an op type, with or without the prefixes of a library variant, has a FLOP rule."""
    return find_rule(plain(op)) is not None


def _completed(
    node: Node, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec | None]
) -> list[TensorSpec | None]:
    """The known results, and the inferred ones where they are not known."""
    inferred = output_specs(node, inputs)
    count = max(len(outputs), len(inferred))
    return [
        (outputs[port] if port < len(outputs) else None)
        or (inferred[port] if port < len(inferred) else None)
        for port in range(count)
    ]


def _traffic(call: Call, buffers: Buffers) -> Traffic:
    try:
        return traffic_of(call)
    except Exception as problem:  # a fault in counting must not become one of the program
        buffers.note(call.node.op, f"its bytes cannot be counted ({_reason(problem)})")
        return Traffic({"": float("nan")}, {"": float("nan")})


def _flop(call: Call, buffers: Buffers) -> Flop | None:
    rule = find_rule(call.op)
    if rule is None:
        return None
    try:
        return rule(call)
    except Exception as problem:  # as above
        buffers.note(call.node.op, f"its FLOP cannot be counted ({_reason(problem)})")
        return None


def _reason(problem: Exception) -> str:
    if isinstance(problem, UncountableError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}".splitlines()[0]


def _uses_tf32(node: Node) -> bool:
    """Whether TensorFlow may compute products of fp32 numbers in tf32 here; from its switch, not run on a GPU."""
    if "GPU" not in node.device:
        return False
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return False
    return bool(tensorflow.config.experimental.tensor_float_32_execution_enabled())
