"""Arrows on the Roofline: which layers, at which level, where they begin and end."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hroof.compare import Change, Comparison, compare
from hroof.errors import MissingError, UsageError
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report.compared import arrows
from hroof.report.compared.arrows import CHANGE_COLOURS, MOST, captions, draw, draw_file
from hroof.units import MemoryLevel

L1, _, _, DRAM = MemoryLevel


class TestChoice:
    def test_the_level_that_most_layers_have(self, compared: Comparison) -> None:
        shown = arrows.arrows(compared)
        # At DRAM only fc1 and fc2 have bytes; at L1 the model itself as well.
        assert shown.level is L1
        assert [pair.row.name for pair in shown.arrows] == ["fc1", "Net", "fc2"]
        assert shown.left_out == 1

    def test_of_equals_the_farthest(self, profile: Profile, build: Any) -> None:
        rows = [row for row in build.rows() if row["layer"] == "fc1" and "bytes_dram" in row]
        run = Profile.from_rows(rows, build.run())
        assert arrows.arrows(compare(run, run)).level is DRAM

    def test_bytes_of_other_kinds_have_no_arrow(self, profile: Profile, build: Any) -> None:
        rows = [row | {"source_l1": "counter"} for row in build.rows()]
        shown = arrows.arrows(compare(profile, Profile.from_rows(rows, build.run())))
        assert shown.level is DRAM

    def test_nothing_can_be_drawn_without_times(self, build: Any) -> None:
        rows = [row | {"duration": math.nan} for row in build.rows()]
        run = Profile.from_rows(rows, build.run())
        found = compare(run, run)
        shown = arrows.arrows(found)
        assert (shown.arrows, shown.level, shown.left_out) == ((), None, 4)
        assert "nothing to draw" in captions(found, shown)[1]
        assert draw(found).joins == {}

    def test_only_the_largest_changes(self, build: Any) -> None:
        rows = [
            build.row(f"l{i:02}", "forward", "mm", 10 + i, step=s, launch_id=100 * s + i, start=0.0,
                      bytes_l1=1e4, **build.flop(matrix_fp32=1e6))
            for i in range(MOST + 5)
            for s in range(3)
        ]  # fmt: skip
        slow = [row | {"duration": row["duration"] * 2} for row in rows]
        shown = arrows.arrows(compare(Profile.from_rows(rows), Profile.from_rows(slow)))
        assert len(shown.arrows) == MOST
        assert shown.arrows[0].row.name == f"l{MOST + 4}"
        assert shown.left_out == 5


class TestDrawing:
    def test_an_arrow_goes_from_base_to_new(self, compared: Comparison) -> None:
        drawn = draw(compared)
        fc1 = next(row for row in compared.layers if row.name == "fc1")
        assert fc1.base is not None
        assert fc1.new is not None
        arrow = drawn.joins["fc1"]
        assert arrow.xyann == pytest.approx(
            (fc1.base.point.intensity[L1], fc1.base.point.flop_rate)
        )
        assert arrow.xy == pytest.approx((fc1.new.point.intensity[L1], fc1.new.point.flop_rate))

    def test_colours_say_what_became_of_a_layer(self, compared: Comparison) -> None:
        from matplotlib.colors import to_hex

        drawn = draw(compared)
        assert (
            to_hex(drawn.joins["fc1"].arrow_patch.get_edgecolor()) == CHANGE_COLOURS[Change.SLOWER]
        )

    def test_base_is_hollow_and_new_is_filled(self, compared: Comparison) -> None:
        drawn = draw(compared)
        markers = dict(zip(drawn.names[L1], drawn.markers[L1], strict=True))
        assert markers["fc1 · BASE"].get_facecolor()[0][:3] == pytest.approx((1.0, 1.0, 1.0))
        assert markers["fc1 · NEW"].get_facecolor()[0][:3] != pytest.approx((1.0, 1.0, 1.0))

    def test_a_layer_that_did_not_move_has_no_arrow(self, compared: Comparison) -> None:
        assert list(draw(compared).joins) == ["fc1", "Net"]

    def test_the_legend_says_what_is_what(self, compared: Comparison) -> None:
        legend = draw(compared).axes.get_legend()
        assert legend is not None
        texts = [text.get_text() for text in legend.get_texts()]
        assert texts[:4] == ["From BASE to NEW", "BASE", "NEW", "Time per step"]
        assert texts[4:7] == ["faster", "slower", "within noise"]
        assert "Bytes by memory level" in texts
        assert "Layer group" not in texts

    def test_roofs_are_those_of_the_new_machine(
        self, compared: Comparison, machine: Machine
    ) -> None:
        assert "dram" in draw(compared).roofs
        other = dataclasses.replace(compared.new, machine=dataclasses.replace(machine, name="big"))
        found = dataclasses.replace(compared, new=other)
        about = captions(found, arrows.arrows(found))[1]
        assert about.endswith("roofs of NEW's machine, big; BASE ran on small cpu")

    def test_without_ceilings_there_are_no_roofs(self, profile: Profile, build: Any) -> None:
        drawn = draw(compare(profile, build.other({"fc1": 3.0})))
        assert drawn.roofs == {}
        assert list(drawn.joins) == ["fc1"]

    def test_hostile_names(
        self, hostile: Callable[[str], Comparison], name: str, tmp_path: Path
    ) -> None:
        path = draw_file(hostile(name), tmp_path / "a.svg")
        assert "<script" not in path.read_text(encoding="utf-8")

    def test_the_same_comparison_gives_the_same_bytes(
        self, compared: Comparison, tmp_path: Path
    ) -> None:
        first, second = (draw_file(compared, tmp_path / f"{i}.svg").read_bytes() for i in "ab")
        assert first == second

    def test_an_unknown_ending_is_refused(self, compared: Comparison, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"a\.gif"):
            draw_file(compared, tmp_path / "a.gif")

    def test_without_matplotlib(
        self, compared: Comparison, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingError, match="matplotlib"):
            draw(compared)
