"""Chains: which launches stand together, and which bytes pass from one to the next."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hroof.findings.context import Context
from hroof.findings.fusing import Chains, chains, fused_time
from hroof.profile import Profile


def found(
    build: SimpleNamespace, rows: list[dict[str, Any]], able: list[bool] | None = None
) -> Chains:
    """The chains of rows that are all elementwise, in one step."""
    profile = Profile.from_rows(
        [{"start": i * 1e-5, "step": 0, "stream": 0, "rank": 0} | row for i, row in enumerate(rows)]
    )
    run = Context.of(profile, build.machine())
    flags = np.ones(len(rows), dtype=bool) if able is None else np.array(able)
    return chains(run, flags, flags)


def op(read: float | None, written: float | None, **more: Any) -> dict[str, Any]:
    return {
        "bytes_read": read,
        "bytes_written": written,
        "duration": 1e-5,
        "phase": "forward",
    } | more


class TestWhatBelongsTogether:
    def test_one_reads_what_the_other_wrote(self, build: SimpleNamespace) -> None:
        chain = found(build, [op(8, 4), op(4, 4), op(4, 4)])
        assert chain.rows.tolist() == [True, True, True]
        assert chain.count == 1
        assert chain.removed == pytest.approx(16 / 28)

    def test_one_alone_is_no_chain(self, build: SimpleNamespace) -> None:
        chain = found(build, [op(8, 4)])
        assert not chain.rows.any()
        assert chain.count == 0
        assert math.isnan(chain.removed)

    def test_no_rows_no_chain(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows([op(None, None)])
        none = np.zeros(1, dtype=bool)
        assert chains(Context.of(profile, build.machine()), none, none).count == 0

    @pytest.mark.parametrize(
        "second",
        [
            op(3, 4),  # reads less than was written
            op(4, 4, step=1),
            op(4, 4, rank=1),
            op(4, 4, stream=7),
            op(4, 4, phase="backward"),
        ],
    )
    def test_what_keeps_two_apart(self, build: SimpleNamespace, second: dict[str, Any]) -> None:
        assert not found(build, [op(8, 4), second]).rows.any()

    def test_what_writes_nothing_hands_nothing_on(self, build: SimpleNamespace) -> None:
        assert not found(build, [op(8, 0), op(4, 4)]).rows.any()

    def test_something_else_between_two_ends_the_chain(self, build: SimpleNamespace) -> None:
        rows = [op(4, 4), op(4, 4), op(9, 9), op(4, 4), op(4, 4)]
        chain = found(build, rows, [True, True, False, True, True])
        assert chain.rows.tolist() == [True, True, False, True, True]
        assert chain.count == 2

    def test_views_stand_in_no_chains_way(self, build: SimpleNamespace) -> None:
        chain = found(build, [op(4, 4), op(0, 0), op(4, 4)], [True, False, True])
        assert chain.rows.tolist() == [True, False, True]

    def test_two_that_are_able_need_one_elementwise(self, build: SimpleNamespace) -> None:
        profile = Profile.from_rows([op(4, 4, start=0.0), op(4, 4, start=1e-5)])
        run = Context.of(profile, build.machine())
        able = np.array([True, True])
        assert not chains(run, able, np.array([False, False])).rows.any()
        assert chains(run, able, np.array([False, True])).rows.all()


class TestHowTheyAreFound:
    def test_by_their_starts_not_by_their_rows(self, build: SimpleNamespace) -> None:
        rows = [op(4, 4, start=2e-5), op(8, 8, start=0.0), op(8, 4, start=1e-5)]
        assert found(build, rows).removed == pytest.approx((16 + 8) / (8 + 16 + 12))

    def test_without_starts_by_their_rows(self, build: SimpleNamespace) -> None:
        assert found(build, [op(8, 4, start=None), op(4, 4, start=None)]).rows.all()

    def test_parts_of_a_launch_are_one(self, build: SimpleNamespace) -> None:
        half = {"launches": 0.5, "launch_id": 5, "start": 0.0}
        rows = [op(4, 2, **half), op(4, 2, **half), op(4, 4, launch_id=6, start=1e-5)]
        chain = found(build, rows)
        assert chain.rows.all()
        assert chain.count == 1
        assert chain.removed == pytest.approx(8 / 20)

    def test_the_same_number_on_two_ranks_is_two_launches(self, build: SimpleNamespace) -> None:
        rows = [op(4, 4, launch_id=1, rank=rank, start=0.0) for rank in (0, 1)]
        assert not found(build, rows).rows.any()

    def test_of_unknown_size_they_stand_together_without_traffic(
        self, build: SimpleNamespace
    ) -> None:
        chain = found(build, [op(None, None), op(None, None)])
        assert chain.rows.all()
        assert math.isnan(chain.removed)

    def test_known_traffic_counts_beside_unknown(self, build: SimpleNamespace) -> None:
        assert found(build, [op(8, 4), op(4, 4), op(None, None)]).removed == pytest.approx(0.4)

    def test_chains_are_counted_per_step(self, build: SimpleNamespace) -> None:
        rows = [op(4, 4, step=step) for step in (0, 0, 1, 1)]
        assert found(build, rows).count == 1


class TestFusedTime:
    def point(self, build: SimpleNamespace, **row: Any) -> Any:
        profile = Profile.from_rows([op(1, 1, step=0, launches=4.0) | row])
        run = Context.of(profile, build.machine())
        return run.point(np.ones(1, dtype=bool))

    def test_every_level_loses_its_share(self, build: SimpleNamespace) -> None:
        point = self.point(build, bytes_dram=1e6, **build.flop(vector_fp32=1.0))
        assert fused_time(point, 0.75, 1.0) == pytest.approx(25e-6)
        assert fused_time(point, float("nan"), 1.0) == pytest.approx(100e-6)

    def test_arithmetic_and_launches_stay(self, build: SimpleNamespace) -> None:
        point = self.point(build, bytes_dram=1.0, **build.flop(vector_fp32=2e6))
        assert fused_time(point, 1.0, 1.0) == pytest.approx(100e-6)
        small = self.point(build, bytes_dram=1.0, **build.flop(vector_fp32=1.0))
        assert fused_time(small, 0.5, 1.0) == pytest.approx(2e-6)
        assert fused_time(small, 0.5, 99.0) == pytest.approx(8e-6)
