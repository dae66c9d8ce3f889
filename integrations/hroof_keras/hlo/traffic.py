"""Bytes that an instruction must read and write, and the buffers that they lie in.

Nothing stays in a cache between instructions and everything is reused within one: an instruction reads each
array that it takes once and writes what it gives. Of arrays that are only sliced, gathered from or updated in
place, the part that is touched counts, also where that happens inside a fusion (in the manner of XLA's own cost
analysis, ``xla/service/hlo_cost_analysis.cc``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hroof.traffic import Access
from hroof_keras.hlo import weights
from hroof_keras.hlo.buffers import Buffers, Position
from hroof_keras.hlo.custom_calls import FREE_TARGETS
from hroof_keras.hlo.fusions import SLICES, results, touched, update_of
from hroof_keras.hlo.messages import Computation, Hlo, Module
from hroof_keras.hlo.rules import contains_others


@dataclass(slots=True)
class Traffic:
    """Bytes of one instruction, by array.

    Attributes:
        read: Bytes read.
        written: Bytes written.
    """

    read: dict[Position, float] = field(default_factory=dict)
    written: dict[Position, float] = field(default_factory=dict)

    @property
    def bytes_read(self) -> float:
        """Σ bytes read."""
        return float(sum(self.read.values()))

    @property
    def bytes_written(self) -> float:
        """Σ bytes written."""
        return float(sum(self.written.values()))

    def accesses(self, buffers: Buffers) -> tuple[Access, ...]:
        """One access per buffer that is read or written; two where the amounts differ."""
        read, written = _by_buffer(self.read, buffers), _by_buffer(self.written, buffers)
        both = {buffer for buffer, size in read.items() if written.get(buffer) == size}
        found = [Access(buffer, size, True, buffer in both) for buffer, size in read.items()]
        rest = [item for item in written.items() if item[0] not in both]
        return (*found, *(Access(buffer, size, False, True) for buffer, size in rest))


def _by_buffer(entries: dict[Position, float], buffers: Buffers) -> dict[int, float]:
    sums: dict[int, float] = {}
    for (hlo, path), nbytes in entries.items():
        number = buffers.of(hlo, path)
        sums[number] = sums.get(number, 0.0) + nbytes
    return {number: nbytes for number, nbytes in sums.items() if nbytes}


def traffic_of(module: Module, hlo: Hlo) -> Traffic:
    """What one execution of an instruction reads and writes.

    Instructions that only name, view or contain others move nothing themselves.
    """
    traffic = Traffic()
    if hlo.opcode in weights.FREE or contains_others(hlo) or hlo.target in FREE_TARGETS:
        return traffic
    if hlo.opcode in ("fusion", "async-start") and hlo.called:
        _fusion(module.computations[hlo.called[0]], hlo, traffic)
    elif hlo.opcode == "dynamic-update-slice":
        _update(hlo, hlo.operands[1], traffic)
    elif hlo.opcode == "scatter":
        _scattered(hlo, traffic)
    else:
        for position, operand in enumerate(hlo.operands):
            _read(traffic, operand, _sliced(hlo, position))
        _write_all(traffic, hlo)
    return traffic


def _sliced(hlo: Hlo, position: int) -> float | None:
    """Bytes that an instruction takes of an operand where that is not all of it."""
    if position == 0 and hlo.opcode in SLICES:
        return hlo.shape.nbytes
    return None


def _read(traffic: Traffic, operand: Hlo, nbytes: float | None = None) -> None:
    for path, shape in operand.shape.leaves():
        whole = shape.nbytes
        amount = whole if nbytes is None else min(nbytes, whole)
        known = traffic.read.get((operand, path), 0.0)
        traffic.read[operand, path] = max(known, amount)


def _write_all(traffic: Traffic, hlo: Hlo) -> None:
    """All results; of a call of a library the first: the others are its work space."""
    leaves = list(hlo.shape.leaves())
    for path, shape in leaves[:1] if hlo.opcode == "custom-call" else leaves:
        traffic.written[hlo, path] = shape.nbytes


def _update(hlo: Hlo, update: Hlo, traffic: Traffic) -> None:
    """The update is read and written into the first operand, which stays in place."""
    for operand in hlo.operands[1:]:
        _read(traffic, operand)
    traffic.written[hlo, ()] = update.shape.nbytes


def _scattered(hlo: Hlo, traffic: Traffic) -> None:
    """Indices and updates are read, the places that they meet read and written."""
    arrays = (len(hlo.operands) - 1) // 2
    for operand in hlo.operands[arrays:]:
        _read(traffic, operand)
    leaves = list(hlo.shape.leaves())
    for (path, _), array, update in zip(
        leaves, hlo.operands[:arrays], hlo.operands[arrays + 1 :], strict=False
    ):
        _read(traffic, array, update.shape.nbytes)
        traffic.written[hlo, path] = min(update.shape.nbytes, array.shape.nbytes)


def _fusion(body: Computation, hlo: Hlo, traffic: Traffic) -> None:
    for number, nbytes in touched(body).items():
        if number < len(hlo.operands):
            _read(traffic, hlo.operands[number], nbytes)
    for path, value in results(body.root):
        update = update_of(value)
        for leaf, shape in value.shape.leaves():
            size = shape.nbytes if update is None else min(update.nbytes, shape.nbytes)
            traffic.written[hlo, (*path, *leaf)] = size
