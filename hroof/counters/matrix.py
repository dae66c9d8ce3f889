"""FLOP of the matrix units (Tensor Cores), from the best kind of counter that each launch has.

In this order: operations (``sm__ops_path_tensor_…``, exact); instructions by opcode, whose strings hold their shape
(exact); all instructions of the unit times the shape that the kernel's name holds (predicted), or times the only
shape there is, which is so on GV100. Otherwise unknown: no shape is ever assumed, since an instruction stands for
512 to 131,072 FLOP.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hroof.counters.chips import Chip, work_metrics
from hroof.counters.columns import OPCODES, Columns, Flags, Floats
from hroof.counters.shapes import looks_like_matrix, named_shape, opcode_work
from hroof.units import Pipe, Precision

_PATH = re.compile(
    r"sm__ops_path_tensor_(?:op_(?P<op>[a-z]+)_)?src_(?P<src>[a-z0-9_]+?)"
    r"(?:_dst_(?P<dst>[a-z0-9]+))?(?:_sparsity_(?P<sparsity>on|off))?\.sum(?P<rate>\.per_\w+)?"
)
_INSTRUCTIONS = "sm__inst_executed_pipe_tensor"
_BY_KIND = tuple(f"{_INSTRUCTIONS}_op_{kind}" for kind in ("hmma", "imma", "dmma", "gmma"))
_CONSTANT_LOADS = f"{_INSTRUCTIONS}_op_hmma_type_hfma2"
_HALF_FMA = "sm__sass_thread_inst_executed_op_hfma_pred_on"
_ACTIVE = tuple(
    f"{name}.avg.pct_of_peak_sustained_{what}"
    for what in ("elapsed", "active")
    for name in ("sm__pipe_tensor_cycles_active", "sm__inst_executed_pipe_tensor")
)
_WARP = 32
_GV100_FLOP = 512.0
"""One HMMA.884 step with FP32 sums: a quarter of a warp's 4 × (8 × 8 × 4) FMAs."""
_SHARED = {"fp16_bf16_tf32": Precision.FP16, "fp4_fp6_fp8": Precision.FP8, "fp4_fp6": Precision.FP8}
"""Counters of several formats at once: the one that the chip has, or whose rate they run at."""


_SPARSE = (
    "Part of the matrix work used structured sparsity; whether its counters mean the products that were left out as "
    "well is not known."
)


@dataclass
class Matrix:
    """What is known about the matrix work of every launch.

    Attributes:
        flop: FLOP by precision, NaN where a launch has none of that kind or it is not known.
        unknown: Launches with matrix work, or perhaps with some, that no counter gives.
        predicted: Launches whose FLOP follow from a shape in the kernel's name.
        notes: Sentences for the reader.
    """

    flop: dict[Precision, Floats]
    unknown: Flags
    predicted: Flags
    notes: list[str]


class _Search:
    """Goes through the kinds of counters, best first, for the launches that are still open."""

    def __init__(self, columns: Columns, chip: Chip | None, kernels: Sequence[str]) -> None:
        self.columns = columns
        self.chip = chip
        self.kernels = kernels
        self.flop: dict[Precision, Floats] = {}
        self.open = np.ones(columns.rows, dtype=bool)
        self.predicted = np.zeros(columns.rows, dtype=bool)
        self.unknown = np.zeros(columns.rows, dtype=bool)
        self.notes: list[str] = []
        self.asked = False
        """The table has counters of matrix work: where they are empty, there may be some."""

    @cached_property
    def names(self) -> tuple[NDArray[np.int64], list[str]]:
        """A number for every row, and the kernels' names that the numbers stand for."""
        return _numbered(self.kernels)

    def give(self, rows: Flags, precision: Precision, flop: Floats) -> None:
        """Add FLOP of a precision to some launches."""
        old = self.flop.setdefault(precision, np.full(self.columns.rows, np.nan))
        old[rows] = np.where(np.isnan(old[rows]), 0.0, old[rows]) + flop[rows]

    def settle(self, rows: Flags) -> None:
        """These launches are known from here on."""
        self.open &= ~rows

    def paths(self) -> None:
        """Operations: already FLOP, never doubled."""
        found = _paths(self.columns, self.chip)
        self.asked |= any(_PATH.fullmatch(name) for name in self.columns.names)
        if not found:
            return
        known = self.open.copy()
        for column in found.values():
            known &= ~np.isnan(column)
        for precision, column in found.items():
            self.give(known, precision, column)
        self.settle(known)
        self._tell_uncovered(set(found))
        self._tell_sparse()

    def _tell_uncovered(self, found: set[Precision]) -> None:
        listed = {q for pipe, q in work_metrics(self.chip) if pipe is Pipe.MATRIX}
        rest = [q.value for q in Precision if q in listed - found]
        if rest:
            self.notes.append(f"Matrix work in {', '.join(rest)} was not collected.")

    def _tell_sparse(self) -> None:
        for name in self.columns.names:
            if "_sparsity_on.sum" in name and _PATH.fullmatch(name):
                count = self.columns.get(name)
                if count is not None and (np.nan_to_num(count) > 0).any():
                    self.notes.append(_SPARSE)

    def opcodes(self) -> None:
        """Instructions by opcode: shape × count."""
        counts, known = self.columns.opcodes(OPCODES)
        rows = self.open & known
        for opcode, column in counts.items():
            self._opcode(opcode, rows & (np.nan_to_num(column) > 0), column)
        self.settle(rows)

    def _opcode(self, opcode: str, rows: Flags, count: Floats) -> None:
        work = opcode_work(opcode)
        if work is None or not rows.any():
            return
        if work.flop is None:
            self.unknown |= rows
            self.notes.append(f"The shape of the matrix instruction {opcode} is not known.")
        else:
            self.give(rows, work.precision, count * work.flop)

    def instructions(self) -> None:
        """All instructions of the unit, with the one shape of the chip or that of the kernel's name."""
        count = _instructions(self.columns)
        self.asked |= any(map(self.columns.is_named, (_INSTRUCTIONS, *_BY_KIND)))
        if count is None:
            return
        rows = self.open & ~np.isnan(count)
        none = rows & ((count == 0) | self._only_constants(count))
        self.give(none, Precision.FP16, np.zeros(self.columns.rows))
        self._shaped(rows & ~none, count)
        self.settle(none)

    def _only_constants(self, count: Floats) -> Flags:
        """Launches whose every matrix instruction is a half FMA, as loads of constants are."""
        half = self.columns.count(_HALF_FMA)
        if half is None or self.chip is None or not self.chip.constant_loads:
            return np.zeros(self.columns.rows, dtype=bool)
        only: Flags = (count > 0) & (half == count * _WARP)
        return only

    def _shaped(self, rows: Flags, count: Floats) -> None:
        """FLOP where the shape of the instruction is known, kernel by kernel."""
        codes, names = self.names
        for code in np.unique(codes[rows]).tolist():
            shape = self._shape(names[code])
            if shape is not None:
                precision, flop, guessed = shape
                own = rows & (codes == code)
                self.give(own, precision, count * flop)
                self.predicted |= own & guessed
                self.settle(own)

    def _shape(self, kernel: str) -> tuple[Precision, float, bool] | None:
        """Precision, FLOP per instruction, and whether that is read from the kernel's name."""
        named = named_shape(kernel, self.chip)
        if self.chip is not None and self.chip.name == "GV100":
            halves = re.search(r"(?:^|_)h884", kernel) is not None
            return None if halves else (Precision.FP16, _GV100_FLOP, False)
        return None if named is None else (*named, True)

    def idle(self) -> None:
        """Launches during which the unit did nothing."""
        active = self.columns.first(*_ACTIVE)
        none = self.open & (active == 0)
        self.give(none, Precision.FP16, np.zeros(self.columns.rows))
        self.settle(none)
        self.unknown |= self.open & (active > 0)

    def rest(self) -> None:
        """Launches that nothing tells about: without any counter, the kernel's name decides."""
        left = self.open & ~self.unknown
        if self.asked:
            self.unknown |= left
            return
        codes, names = self.names
        working = np.array([looks_like_matrix(name) for name in names], dtype=bool)
        self.unknown |= left & (working[codes] if names else False)
        if left.any():
            self.notes.append(
                "Nothing about the matrix units was collected. FLOP are unknown where the name of a kernel says "
                "that it uses these units; every other kernel is taken not to use them."
            )


def matrix_work(columns: Columns, chip: Chip | None, kernels: Sequence[str]) -> Matrix:
    """The matrix FLOP of every launch.

    Args:
        columns: The counters.
        chip: The chip; None where it is not known.
        kernels: The kernel's name of every row.
    """
    search = _Search(columns, chip, kernels)
    if chip is None or chip.matrix:
        for step in (search.paths, search.opcodes, search.instructions, search.idle, search.rest):
            step()
    for column in search.flop.values():
        column[search.unknown] = np.nan
    notes = list(dict.fromkeys(search.notes))
    return Matrix(search.flop, search.unknown, search.predicted & ~search.unknown, notes)


def _numbered(kernels: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """A number for every row and the names that the numbers stand for."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(name, len(numbers)) for name in kernels]
    return np.array(codes, dtype=np.int64), list(numbers)


def _instructions(columns: Columns) -> Floats | None:
    """Warp instructions of the matrix unit, without loads of constants where they are told apart."""
    whole = columns.count(_INSTRUCTIONS)
    parts = [column for column in map(columns.count, _BY_KIND) if column is not None]
    if whole is None and not parts:
        return None
    count = whole if whole is not None else np.sum(parts, axis=0)
    loads = columns.count(_CONSTANT_LOADS)
    return count if loads is None else np.maximum(count - np.nan_to_num(loads), 0.0)


def _paths(columns: Columns, chip: Chip | None) -> dict[Precision, Floats]:
    """Operations by precision, each from the coarsest counters that there are."""
    found: dict[Precision, dict[tuple[bool, bool], dict[str, Floats]]] = {}
    for name in sorted(columns.names):
        parts = _PATH.fullmatch(name)
        column = None if parts is None else columns.count(name.partition(".sum")[0])
        precision = None if parts is None else source_precision(parts["src"])
        if parts is not None and column is not None and precision is not None:
            detail = parts["op"] is not None, parts["sparsity"] is not None
            metric = name.partition(".sum")[0]
            found.setdefault(precision, {}).setdefault(detail, {})[metric] = column
    return {
        precision: _sum(kinds[min(kinds)], precision, chip) for precision, kinds in found.items()
    }


def _sum(columns: dict[str, Floats], precision: Precision, chip: Chip | None) -> Floats:
    """Counters of one precision that do not contain each other, added; NaN where one that the chip has is missing."""
    listed = work_metrics(chip).get((Pipe.MATRIX, precision), {})
    kept = {name: column for name, column in columns.items() if not _inside(name, columns)}
    # A counter that the chip does not have is empty in the tables of people who ask for all of them.
    real = [column for name, column in kept.items() if name in listed or not np.isnan(column).all()]
    total: Floats = np.sum(real or list(kept.values()), axis=0)
    return total


def _inside(name: str, others: dict[str, Floats]) -> bool:
    """Whether another counter is the same without the destination's format."""
    return "_dst_" in name and re.sub(r"_dst_[a-z0-9]+", "", name) in others


def source_precision(source: str) -> Precision | None:
    """The precision of a counter, by what its name says of the operands, e.g. ``bf16`` or ``fp4_fp6``."""
    if source in _SHARED:
        return _SHARED[source]
    return Precision(source) if source in set(Precision) else None
