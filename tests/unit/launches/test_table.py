"""Rows of the launch table: layers, shares, work and its sources."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from hroof.attribution import Counted, Part, Timed
from hroof.launches import LOSS, Label, Table, Work, scaled
from hroof.profile import Profile
from hroof.units import Phase, Pipe, Precision, Source

Labels = list[Label]


@dataclass
class Kernel:
    """Device work as a profiler gives it."""

    name: str
    start: int
    end: int
    device: str = "cuda:0"
    stream: int = 7


@pytest.fixture
def layers() -> Labels:
    return [Label("Sequential", "Sequential"), Label("0", "Linear"), Label("1", "Linear")]


def work(flop: float = 60.0) -> Work:
    pair = {(Pipe.MATRIX, Precision.FP32): flop}
    return Work(nominal=pair, least=pair, bytes_read=8.0, bytes_written=4.0, source=Source.COUNTED)


def timed(op: str = "aten::mm", phase: Phase = Phase.FORWARD, **more: Any) -> Timed:
    values: dict[str, Any] = {
        "step": 0,
        "phase": phase,
        "layer": 1,
        "recompute": False,
        "is_sum": False,
        "op": op,
        "signature": (),
        "start": 1.0,
        "duration": 6e-6,
    }
    return Timed(**values | more)


def counted(of: Timed, **more: Any) -> Counted:
    values: dict[str, Any] = {
        "phase": of.phase,
        "layer": of.layer,
        "recompute": of.recompute,
        "is_sum": of.is_sum,
        "op": of.op,
        "signature": of.signature,
        "work": work(),
        "owner": of.layer,
    }
    return Counted(**values | more)


def build(
    layers: Labels,
    ops: list[Timed],
    device_work: list[list[Kernel]] | None = None,
    *,
    recount: Work | None = None,
    by_shape: tuple[Part, ...] = (),
) -> list[dict[str, Any]]:
    table = Table(lambda: layers, {}, lambda op: recount, lambda signature: by_shape)
    twins = [op.counted for op in ops if op.counted is not None]
    rows = table.rows(ops, device_work or [[] for _ in ops], twins)
    Profile.from_rows(rows)  # the rows fit the schema
    return rows


def shares(rows: list[dict[str, Any]]) -> dict[str | None, float]:
    return {row.get("layer"): row["launches"] for row in rows}


FLOP = "flop_nominal_matrix_fp32"


def test_a_counted_op_has_its_layer_time_and_work(layers: Labels) -> None:
    op = timed()
    op.counted = counted(op)
    (row,) = build(layers, [op])
    assert (row["layer"], row["layer_type"], row["phase"]) == ("0", "Linear", "forward")
    assert (row["duration"], row["launches"], row[FLOP]) == (6e-6, 1.0, 60.0)
    assert row["bytes_l1"] == 12.0 and row["source_flop"] == "counted"


def test_a_sum_goes_to_the_layer_that_receives_it(layers: Labels) -> None:
    op = timed("aten::add_", Phase.BACKWARD, is_sum=True)
    op.counted = counted(op, owner=2)
    assert shares(build(layers, [op])) == {"1": 1.0}


def test_the_loss_and_no_layer(layers: Labels) -> None:
    rows = build(layers, [timed(layer=LOSS, phase=Phase.LOSS), timed(layer=None)])
    assert [row.get("layer") for row in rows] == ["(loss)", None]


def test_an_optimizer_op_is_split(layers: Labels) -> None:
    op = timed("aten::_fused_adamw_", Phase.OPTIMIZER, layer=None)
    op.counted = counted(op, parts=(Part(1, 0.25), Part(2, 0.75)))
    rows = build(layers, [op])
    assert shares(rows) == {"0": 0.25, "1": 0.75}
    assert [row[FLOP] for row in rows] == [15.0, 45.0]
    assert sum(row["duration"] for row in rows) == pytest.approx(6e-6)
    assert rows[0]["launch_id"] == rows[1]["launch_id"]


def test_a_fused_op_is_split_over_phases_too(layers: Labels) -> None:
    op = timed("fusion.1", Phase.BACKWARD, layer=1)
    parts = (Part(1, 0.75), Part(2, 0.25, Phase.OPTIMIZER))
    op.counted = counted(op, parts=parts)
    rows = build(layers, [op])
    assert [(row["layer"], row["phase"]) for row in rows] == [("0", "backward"), ("1", "optimizer")]
    assert [row[FLOP] for row in rows] == [45.0, 15.0]
    assert rows[0]["launch_id"] == rows[1]["launch_id"]


def test_an_optimizer_op_that_was_not_counted_is_split_by_shapes(layers: Labels) -> None:
    op = timed("aten::_foreach_mul_", Phase.OPTIMIZER, layer=None)
    assert shares(build(layers, [op], by_shape=(Part(1, 0.5), Part(2, 0.5)))) == {
        "0": 0.5,
        "1": 0.5,
    }
    assert shares(build(layers, [timed(layer=None)], by_shape=(Part(1, 1.0),))) == {None: 1.0}


def test_optimizer_ops_without_parameters_serve_the_update_beside_them(layers: Labels) -> None:
    item = timed("aten::item", Phase.OPTIMIZER, layer=None, composite=True)
    first, last = (timed("aten::add_", Phase.OPTIMIZER, layer=None) for _ in range(2))
    first.counted = counted(first, parts=(Part(1, 1.0),))
    last.counted = counted(last, parts=(Part(2, 1.0),))
    end = timed("aten::empty", Phase.OPTIMIZER, layer=None)
    rows = build(layers, [item, first, timed(layer=None), item, last, end])
    assert [row.get("layer") for row in rows[1:]] == ["0", None, "1", "1", "1"]


def test_an_update_of_another_step_or_thread_says_nothing(layers: Labels) -> None:
    update = timed("aten::add_", Phase.OPTIMIZER, layer=None)
    update.counted = counted(update, parts=(Part(1, 1.0),))
    others = [
        timed("aten::empty", Phase.OPTIMIZER, layer=None, step=1),
        timed("aten::empty", Phase.OPTIMIZER, layer=None, thread=9),
    ]
    assert [row.get("layer") for row in build(layers, [update, *others])] == ["0", None, None]


def test_a_composite_op_has_time_and_no_work(layers: Labels) -> None:
    (row,) = build(layers, [timed("aten::linear", composite=True)])
    assert row[FLOP] == 0.0 and row["bytes_l1"] == 0.0 and row["duration"] == 6e-6


def test_an_op_without_a_twin_is_counted_anew_or_missing(layers: Labels) -> None:
    (row,) = build(layers, [timed()], recount=work(7.0))
    assert row[FLOP] == 7.0
    (row,) = build(layers, [timed()])
    assert FLOP not in row, "missing, not zero"


def test_an_op_without_a_rule_is_named(layers: Labels) -> None:
    op = timed("aten::odd")
    unknown = Work(
        nominal=None, least=None, bytes_read=8.0, bytes_written=4.0, source=Source.MISSING
    )
    op.counted = counted(op, work=unknown)
    table = Table(lambda: layers, {}, lambda op: None, lambda signature: ())
    (row,) = table.rows([op], [[]], [op.counted])
    assert table.without_rule == {"aten::odd"}
    assert FLOP not in row and row["bytes_l1"] == 12.0


def test_kernels_share_the_work_of_their_op(layers: Labels) -> None:
    op = timed()
    op.counted = counted(op)
    kernels = [
        Kernel(f"k{n}", start, end) for n, (start, end) in enumerate([(0, 1000), (1000, 4000)])
    ]
    rows = build(layers, [op, timed("aten::view")], [kernels, []])
    assert [row["kernel"] for row in rows] == ["k0", "k1"], "an op without kernels has no row"
    assert [row[FLOP] for row in rows] == [15.0, 45.0]
    assert [row["duration"] for row in rows] == pytest.approx([1e-6, 3e-6])
    assert len({row["launch_id"] for row in rows}) == 2


def test_a_share_scales_work_and_nothing_else() -> None:
    row = {"flop_x": 4.0, "bytes_l1": 2.0, "duration": 1.0, "step": 3, "launches": 1.0, "op": "a"}
    half = {"flop_x": 2.0, "bytes_l1": 1.0, "duration": 0.5, "step": 3, "launches": 0.5, "op": "a"}
    assert scaled(row, 0.5) == half and scaled(row, 1.0) == row


def test_counted_work_that_nothing_timed_has_rows_without_time(layers: Labels) -> None:
    works = [counted(timed()), counted(timed("aten::add", Phase.BACKWARD, layer=2))]
    rows = Table(lambda: layers, {}, lambda op: None, lambda signature: ()).untimed_rows(works)
    Profile.from_rows(rows)
    assert [(row["layer"], row["op"], row["phase"]) for row in rows] == [
        ("0", "aten::mm", "forward"),
        ("1", "aten::add", "backward"),
    ]
    assert [row[FLOP] for row in rows] == [60.0, 60.0]
    assert {row["source_time"] for row in rows} == {"missing"}
    assert all(math.isnan(row["duration"]) and math.isnan(row["start"]) for row in rows)
