"""Compiled regions in the trace: each gets the work of the ops that it stands for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hroof.attribution import Counted, Timed
from hroof.launches import Work
from hroof.units import Phase, Pipe, Source
from hroof_torch.profiling.rows import COMPILED_OP

Place = tuple[Phase, int | None]


def fold_regions(
    ops: Sequence[Timed], runs: Sequence[Sequence[Counted]]
) -> tuple[list[Counted], list[Counted]]:
    """Give each compiled region of one step the work of the ops that it stands for.

    Ops that ran beside a region in the same layer and phase take theirs first, by name and shapes. Where the
    regions of a layer and phase are as many as its replayed calls, or a multiple, each call's work goes to its
    own; pieces of one call (graph breaks) share it in proportion to their time.

    Args:
        ops: Timed ops of one step in order; ``counted`` of regions is written.
        runs: Counted ops per replayed call, forward or backward, in order.

    Returns:
        The counted ops that no region stands for, and those made for the regions.
    """
    regions: dict[Place, list[Timed]] = {}
    for op in ops:
        if op.op == COMPILED_OP:
            regions.setdefault(_place(op), []).append(op)
    beside = _taken_beside(ops, runs, set(regions))
    made: list[Counted] = []
    for place, rows in regions.items():
        inside = [
            [op for op in run if _place(op) == place and id(op) not in beside] for run in runs
        ]
        made += _spread(rows, [run for run in inside if run])
    rest = [op for run in runs for op in run if _place(op) not in regions or id(op) in beside]
    return rest, made


def _place(op: Timed | Counted) -> Place:
    return (op.phase, op.layer)


def _taken_beside(
    ops: Sequence[Timed], runs: Sequence[Sequence[Counted]], places: set[Place]
) -> set[int]:
    """Counted ops in the places of regions that an op outside any region did."""
    free: dict[object, list[Counted]] = {}
    for run in reversed(runs):
        for op in reversed(run):
            if _place(op) in places:
                free.setdefault((_place(op), op.op, op.signature), []).append(op)
    taken = set()
    for row in ops:
        if row.op != COMPILED_OP and not row.composite and _place(row) in places:
            twins = free.get((_place(row), row.op, row.signature))
            if twins:
                taken.add(id(twins.pop()))
    return taken


def _spread(rows: list[Timed], runs: list[list[Counted]]) -> list[Counted]:
    """Work of the calls to the regions of one place."""
    if not runs:
        return []
    if len(rows) % len(runs):
        return _share(rows, [op for run in runs for op in run])
    pieces = len(rows) // len(runs)
    made = []
    for number, run in enumerate(runs):
        made += _share(rows[number * pieces : (number + 1) * pieces], run)
    return made


def _share(rows: list[Timed], inside: list[Counted]) -> list[Counted]:
    work = fused_work([op.work for op in inside])
    total = sum(row.duration for row in rows)
    made = []
    for row in rows:
        share = row.duration / total if total else 1 / len(rows)
        row.counted = Counted(
            row.phase,
            row.layer,
            row.recompute,
            False,
            row.op,
            row.signature,
            work.scaled(share),
            row.layer,
        )
        made.append(row.counted)
    return made


def fused_work(works: Sequence[Work]) -> Work:
    """Work of a region from that of its ops: FLOP add up, bytes are those that must cross its border.

    A buffer is read if an op needs it before any op of the region wrote it, and written if no later op of the
    region reads it: what lies between may stay in registers.
    """
    known: set[int] = set()
    results: dict[int, float] = {}
    read = 0.0
    for work in works:
        for access in work.touch.accesses:
            if access.read:
                read += 0.0 if access.buffer in known else access.nbytes
                results.pop(access.buffer, None)
            known.add(access.buffer)
        results |= {
            access.buffer: access.nbytes for access in work.touch.accesses if access.written
        }
    merged = Work.total(works)
    exact = merged.source is Source.CONVENTION and merged.flop(Pipe.MATRIX) > 0
    return dataclasses.replace(
        merged,
        bytes_read=read,
        bytes_written=sum(results.values()),
        source=Source.COUNTED if exact else merged.source,
    )
