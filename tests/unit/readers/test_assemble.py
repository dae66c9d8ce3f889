"""From what a file says to the launch table and the machine that it knows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from hroof import counters
from hroof.collect import tsl
from hroof.collect.nvtx import Names
from hroof.errors import ProfileError
from hroof.profile import Profile
from hroof.readers import Ranges, Raw, profile_of
from hroof.regions import Kind, Mark
from hroof.units import Phase

BASIC = {
    "gpu__time_duration.sum": 1e-5,
    "sm__cycles_elapsed.avg.per_second": 1e9,
    "dram__bytes.sum": 6400.0,
}


def raw(*launches: dict[str, Any], ranges: tuple[Ranges, ...] = (), **changes: Any) -> Raw:
    """Launches of an A100; what begins with a small letter and has dots is a counter."""
    rows = [{"kernel": "gemm", "capability": "8.0", **BASIC, **row} for row in launches]
    frame = pd.DataFrame(rows)
    metrics = [name for name in frame if "__" in str(name)]
    usual: dict[str, Any] = {"devices": {0: {"name": "NVIDIA A100", "capability": "8.0"}}}
    values = {**usual, **changes}
    return Raw(frame.drop(columns=metrics), frame[metrics].astype(float), ranges, **values)


def marked(*sets: list[Mark]) -> tuple[tuple[Ranges, ...], dict[str, Any]]:
    """The ranges of several launches, and the table of their names."""
    names = Names()
    states = []
    for marks in sets:
        told = [("hroof", names.message(mark)) for mark in marks]
        layers = tuple(t for t, mark in zip(told, marks, strict=True) if mark.kind is Kind.LAYER)
        others = tuple(
            t for t, mark in zip(told, marks, strict=True) if mark.kind is not Kind.LAYER
        )
        states.append(Ranges(pushed=layers, started=others))
    return tuple(states), names.table()


def step(number: int) -> Mark:
    return Mark(Kind.STEP, str(number))


def layer(name: str, phase: str = "forward") -> Mark:
    return Mark(Kind.LAYER, name, phase)


def table(profile: Profile, *columns: str) -> list[tuple[Any, ...]]:
    frame = profile.launches[list(columns)].astype(object)
    return [tuple(None if pd.isna(v) else v for v in row) for row in frame.to_numpy()]


def test_work_times_and_the_raw_counters() -> None:
    profile, _ = profile_of(raw({}, {"dram__bytes.sum": float("nan")}))
    assert profile.launches["duration"].tolist() == [1e-5, 1e-5]
    assert table(profile, "bytes_dram", "source_dram") == [(6400.0, "counter"), (None, "missing")]
    assert profile.counters is not None
    assert profile.counters["dram__bytes.sum"].tolist()[0] == 6400.0
    assert profile.run["clock"] == 1e9


def test_steps_phases_and_layers_come_from_the_ranges() -> None:
    ranges, names = marked(
        [step(5), Mark(Kind.PHASE, "forward"), layer("fc")],
        [step(7), Mark(Kind.PHASE, "backward"), layer("fc", "backward")],
    )
    layers = [{"name": "fc", "type": "Linear", "depth": 1, "parameters": 9}]
    launches = ({"ranges": 0}, {"ranges": 1}, {"ranges": 1}, {"ranges": -1})
    profile, _ = profile_of(raw(*launches, ranges=ranges), {"nvtx": names, "layers": layers})
    assert table(profile, "step", "phase", "layer", "layer_type", "ordinal") == [
        (0, "forward", "fc", "Linear", 0),
        (1, "backward", "fc", "Linear", 0),
        (1, "backward", "fc", "Linear", 1),
        (-1, "other", None, None, 0),
    ]


def test_a_loss_that_no_module_computes_has_its_name() -> None:
    ranges, names = marked([step(5), Mark(Kind.PHASE, "loss")])
    profile, _ = profile_of(raw({"ranges": 0}, ranges=ranges), {"nvtx": names})
    assert table(profile, "phase", "layer") == [("loss", "(loss)")]


def test_steps_of_another_region_are_none_of_this_one() -> None:
    ranges, names = marked(
        [Mark(Kind.REGION, "train"), step(5)], [Mark(Kind.REGION, "train (inference)"), step(5)]
    )
    launches = raw({"ranges": 0}, {"ranges": 1}, ranges=ranges)
    profile, _ = profile_of(launches, {"nvtx": names, "name": "train"})
    assert profile.launches["step"].tolist() == [0, -1]


def test_what_is_known_of_the_run_stays() -> None:
    known = {
        "name": "train",
        "program": ["python", "x.py"],
        "warnings": ["w"],
        "framework": "torch",
    }
    profile, _ = profile_of(raw({}, problems=("p",)), known)
    assert profile.run["program"] == ["python", "x.py"]
    assert profile.run["warnings"][:2] == ["w", "p"]
    assert profile.run["status"] == "complete"
    assert profile.run["device_name"] == "NVIDIA A100"
    assert profile.run["devices"] == {
        "0": {"name": "NVIDIA A100", "capability": "8.0", "chip": "GA100"}
    }


@pytest.mark.parametrize(
    ("incomplete", "known", "status"),
    [
        (True, {}, "partial"),
        (False, {"status": "partial", "status_reason": "It was ended."}, "partial"),
        (False, {"status": "complete"}, "complete"),
    ],
)
def test_a_part_is_called_a_part(incomplete: bool, known: dict[str, Any], status: str) -> None:
    profile, _ = profile_of(raw({}, incomplete=incomplete), known)
    assert profile.run["status"] == status
    assert bool(profile.run["status_reason"]) == (status == "partial")


def test_processes_are_ranks_in_their_order() -> None:
    profile, _ = profile_of(raw({"process": 70}, {"process": 12}, {"process": 70}))
    assert profile.launches["rank"].tolist() == [0, 1, 0]


def test_devices_of_two_chips_are_counted_each_by_its_own_rules() -> None:
    tensor = {"sm__inst_executed_pipe_tensor.sum": 10.0}
    launches = (
        {"capability": "7.0", "device": 0, **tensor},
        {"capability": "8.0", "device": 1, **tensor},
    )
    devices = {0: {"name": "V100", "capability": "7.0"}, 1: {"name": "A100", "capability": "8.0"}}
    profile, _ = profile_of(raw(*launches, devices=devices))
    flop = table(profile, "flop_nominal_matrix_fp16")
    assert flop[0] == (
        5120.0,
    )  # HMMA.884 is 512 FLOP; another chip's instructions have other shapes
    assert flop[1] == (None,)
    assert [entry["chip"] for entry in profile.run["devices"].values()] == ["GV100", "GA100"]
    assert table(profile, "device") == [("cuda:0",), ("cuda:1",)]


def test_a_chip_that_was_named_stands_for_what_the_file_leaves_open() -> None:
    launches = {"capability": "", "sm__inst_executed_pipe_tensor.sum": 10.0}
    open_ = raw(launches, devices={})
    assert table(profile_of(open_)[0], "flop_nominal_matrix_fp16") == [(None,)]
    named, _ = profile_of(open_, chip=counters.by_name("V100"))
    assert table(named, "flop_nominal_matrix_fp16") == [(5120.0,)]


def test_peaks_in_the_counters_become_the_machine() -> None:
    peaks = {
        "dram__bytes.sum.peak_sustained": 1000.0,
        "dram__cycles_elapsed.avg.per_second": 1.2e9,
    }
    _, machine = profile_of(raw(peaks))
    assert machine is not None
    assert machine.name == "NVIDIA A100"
    assert {c.how for c in machine.bandwidths.values()} == {"counter peak"}
    assert (
        profile_of(raw({"gpu__time_duration.sum": 1e-5}, devices={}))[0].run["device"] == "cuda:0"
    )


def test_aggregates_stay_aggregates() -> None:
    profile, _ = profile_of(raw({"launches": 12.0, "aggregate": True}))
    assert table(profile, "launches", "aggregate") == [(12.0, True)]


# --- nodes of TensorFlow ------------------------------------------------------------------------

TABLE = tsl.Places(
    {
        "net/fc/MatMul": (tsl.Share(Phase.FORWARD, "fc"),),
        "loss/Sum": (tsl.Share(Phase.LOSS, None),),
    },
    {
        "m": {
            "fusion.1": (
                tsl.Share(Phase.FORWARD, "fc", 0.75),
                tsl.Share(Phase.LOSS, None, 0.25),
            )
        }
    },
).table()


def on_thread(*messages: str) -> Ranges:
    """Ranges of TensorFlow on a thread, within step 5."""
    return Ranges(tuple(("TSL", message) for message in messages), (("hroof", "S1|5"),))


def test_nodes_have_the_places_that_the_run_left() -> None:
    ranges = (on_thread("net/fc/MatMul:MatMul"), on_thread("loss/Sum:Sum"), on_thread("x/y:Add"))
    launches = raw(*({"ranges": at} for at in (0, 1, 2)), ranges=ranges)
    layers = [{"name": "fc", "type": "Dense"}]
    profile, _ = profile_of(launches, {"places": TABLE, "nvtx": {}, "layers": layers})
    assert table(profile, "step", "phase", "layer", "layer_type", "op") == [
        (0, "forward", "fc", "Dense", "MatMul"),
        (0, "loss", "(loss)", None, "Sum"),
        (0, "other", None, None, "Add"),
    ]
    assert profile.run["places"] == TABLE


def test_a_fused_launch_is_shared_and_counted_once() -> None:
    fused = on_thread("XlaModule:#hlo_module=m#", "Thunk:#hlo_op=fusion.1#")
    launches = raw({"ranges": 0}, {"ranges": 0}, {"ranges": -1}, ranges=(fused,))
    profile, _ = profile_of(launches, {"places": TABLE})
    assert table(profile, "launch_id", "phase", "layer", "launches", "ordinal") == [
        (0, "forward", "fc", 0.75, 0),
        (0, "loss", "(loss)", 0.25, 0),
        (1, "forward", "fc", 0.75, 1),
        (1, "loss", "(loss)", 0.25, 1),
        (2, "other", None, 1.0, 0),
    ]
    assert profile.launches["bytes_dram"].sum() == pytest.approx(3 * 6400.0)
    assert profile.launches["duration"].sum() == pytest.approx(3e-5)
    assert profile.counters is not None
    assert profile.counters["launch_id"].tolist() == [0, 1, 2]


def test_layers_that_are_only_scopes_are_told() -> None:
    launches = raw({"ranges": 0}, ranges=(on_thread("net_1/fc_1/MatMul:MatMul"),))
    profile, _ = profile_of(launches)
    assert table(profile, "layer", "op") == [("net_1/fc_1", "MatMul")]
    assert any("scopes of nodes" in text for text in profile.run["warnings"])
    known, _ = profile_of(launches, {"places": TABLE})
    assert not any("scopes of nodes" in text for text in known.run["warnings"])
    assert table(known, "layer", "op") == [(None, "MatMul")]


def test_a_damaged_table_of_places_is_told() -> None:
    with pytest.raises(ProfileError, match="places"):
        profile_of(raw({}), {"places": {"parts": []}})
