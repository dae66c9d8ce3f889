"""Machine: the Roofline's two formulas, and the way to disk and back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.errors import OutputError, ProfileError
from hroof.machine import MACHINE_SCHEMA, Ceiling, How, Machine, Sweep
from hroof.units import MemoryLevel, Pipe, Precision

RATES = st.floats(min_value=1e-9, max_value=1e18)
CEILINGS = st.builds(
    Ceiling,
    rate=RATES,
    how=st.sampled_from(list(get_args(How))),
    kernel=st.text(max_size=8),
    median=RATES | st.just(math.nan),
    spread=st.floats(0, 1) | st.just(math.nan),
    samples=st.integers(0, 99),
    note=st.text(max_size=8),
)
MACHINES = st.builds(
    Machine,
    name=st.text(max_size=9),
    device=st.sampled_from(["cpu", "cuda:0"]),
    peaks=st.dictionaries(
        st.tuples(st.sampled_from(Pipe), st.sampled_from(Precision)), CEILINGS, max_size=4
    ),
    bandwidths=st.dictionaries(st.sampled_from(MemoryLevel), CEILINGS, max_size=4),
    launch_cost=st.none() | CEILINGS,
    caches=st.dictionaries(st.sampled_from(MemoryLevel), st.integers(1, 2**40), max_size=3),
    shared_pipes=st.booleans(),
    facts=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
    warnings=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    others=st.dictionaries(
        st.sampled_from(["dram copy", "vector_fp32 no fma", "matrix_bf16 burst"]), CEILINGS
    ),
    sweep=st.none()
    | st.builds(
        Sweep,
        sizes=st.lists(st.integers(1, 2**40), max_size=3).map(tuple),
        rates=st.lists(RATES, max_size=3).map(tuple),
        kernel=st.text(max_size=5),
        threads=st.integers(1, 64),
        plateaus=st.lists(st.tuples(RATES, st.integers(1, 2**40)), max_size=2).map(tuple),
    ),
)


def small() -> Machine:
    """100 GFLOP/s in matrix fp32 over 20 GB/s of DRAM: the ridge point is at 5 FLOP/B."""
    return Machine(
        name="chip",
        peaks={(Pipe.MATRIX, Precision.FP32): Ceiling(100e9, kernel="mm", samples=5)},
        bandwidths={MemoryLevel.DRAM: Ceiling(20e9, how="datasheet")},
        launch_cost=Ceiling(2e-6),
        caches={MemoryLevel.L2: 2_000_000},
        facts={"threads": 2},
        warnings=("The clock moved.",),
    )


def attainable(machine: Machine, intensity: float) -> float:
    value = machine.attainable(intensity, Pipe.MATRIX, Precision.FP32, MemoryLevel.DRAM)
    assert value is not None
    return value


def test_balance_is_the_ridge_point() -> None:
    assert small().balance(Pipe.MATRIX, Precision.FP32, MemoryLevel.DRAM) == 5.0


@pytest.mark.parametrize(("intensity", "rate"), [(0, 0), (1, 20e9), (5, 100e9), (500, 100e9)])
def test_the_roofline_slopes_up_to_the_ridge_and_is_flat_beyond(
    intensity: float, rate: float
) -> None:
    assert attainable(small(), intensity) == rate


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_intensity_never_attains_less(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert attainable(small(), low) <= attainable(small(), high) <= 100e9


def test_what_was_not_measured_is_missing() -> None:
    machine = small()
    assert machine.balance(Pipe.VECTOR, Precision.FP32, MemoryLevel.DRAM) is None
    assert machine.balance(Pipe.MATRIX, Precision.FP32, MemoryLevel.L1) is None
    assert machine.attainable(1, Pipe.MATRIX, Precision.FP64, MemoryLevel.DRAM) is None
    assert machine.attainable(1, Pipe.MATRIX, Precision.FP32, MemoryLevel.L2) is None


def test_the_json_has_stable_keys_and_base_units() -> None:
    data = small().to_json()
    assert data["peaks"] == {"matrix_fp32": 100e9}
    assert data["bandwidths"] == {"dram": 20e9}
    assert data["launch_cost"] == 2e-6
    assert data["how"] == {
        "matrix_fp32": "framework-reachable",
        "dram": "datasheet",
        "launch_cost": "framework-reachable",
    }
    assert data["schema"] == MACHINE_SCHEMA


def test_missing_is_null_in_json() -> None:
    assert small().to_json()["spread"]["dram"] is None
    assert "NaN" not in json.dumps(small().to_json())


@given(MACHINES)
def test_any_machine_comes_back_as_it_was(machine: Machine) -> None:
    data = json.loads(json.dumps(machine.to_json(), allow_nan=False))
    back = Machine.from_json(data)
    assert repr(back) == repr(machine)
    assert back.to_json() == machine.to_json()


def test_a_machine_comes_back_from_disk(tmp_path: Path) -> None:
    path = small().save(tmp_path / "deep" / "machine.json")
    assert repr(Machine.load(path)) == repr(small())
    assert Machine.load(str(path)).warnings == ("The clock moved.",)


def test_saving_again_replaces(tmp_path: Path) -> None:
    small().save(tmp_path / "machine.json")
    Machine("other").save(tmp_path / "machine.json")
    assert Machine.load(tmp_path / "machine.json").name == "other"


def test_saving_where_it_cannot_be_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="taken"):
        small().save(tmp_path / "taken" / "machine.json")


def test_an_old_file_without_the_optional_parts_loads() -> None:
    data = {"kind": "hroof machine", "schema": 1, "name": "a", "device": "cpu"}
    machine = Machine.from_json({**data, "peaks": {"vector_fp32": 1e9}, "bandwidths": {}})
    ceiling = machine.peaks[Pipe.VECTOR, Precision.FP32]
    assert (ceiling.rate, ceiling.how, ceiling.samples) == (1e9, "given", 0)
    assert math.isnan(ceiling.median)
    assert machine.launch_cost is None


@pytest.mark.parametrize("schema", [MACHINE_SCHEMA + 1, 0, None, "1", True])
def test_a_newer_or_invalid_schema_is_refused(schema: object) -> None:
    with pytest.raises(ProfileError, match=f"reads up to {MACHINE_SCHEMA}") as caught:
        Machine.from_json({**small().to_json(), "schema": schema})
    assert "Upgrade" in caught.value.remedy


@pytest.mark.parametrize("kind", [None, "hroof profile", 3])
def test_a_foreign_file_is_refused_by_name(kind: object) -> None:
    with pytest.raises(ProfileError, match=r"'m\.json' is not a machine"):
        Machine.from_json({**small().to_json(), "kind": kind}, where="m.json")


@pytest.mark.parametrize(
    "damage",
    [
        {"peaks": None},
        {"peaks": {"matrix": 1.0}},
        {"peaks": {"warp_fp32": 1.0}},
        {"peaks": {"matrix_fp31": 1.0}},
        {"peaks": {"matrix_fp32": None}},
        {"peaks": {"matrix_fp32": "fast"}},
        {"peaks": {"matrix_fp32": 0}},
        {"peaks": {"matrix_fp32": -1.0}},
        {"bandwidths": {"dram": math.nan}},
        {"bandwidths": {"dram": math.inf}},
        {"bandwidths": {"l9": 1.0}},
        {"bandwidths": []},
        {"launch_cost": 0},
        {"caches": {"l2": "big"}},
        {"how": {"dram": "guessed"}},
        {"how": ["dram"]},
        {"facts": "none"},
        {"warnings": "one"},
    ],
)
def test_a_damaged_machine_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ProfileError, match=r"'m\.json' is a damaged machine") as caught:
        Machine.from_json({**small().to_json(), **damage}, where="m.json")
    assert "again" in caught.value.remedy


@pytest.mark.parametrize("key", ["name", "device", "peaks", "bandwidths"])
def test_a_machine_without_an_essential_part_is_refused(key: str) -> None:
    data = small().to_json()
    del data[key]
    with pytest.raises(ProfileError, match=key):
        Machine.from_json(data)


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="does not exist"):
        Machine.load(tmp_path / "machine.json")


def test_a_half_file_is_refused(tmp_path: Path) -> None:
    path = small().save(tmp_path / "machine.json")
    path.write_text(path.read_text()[:100])
    with pytest.raises(ProfileError, match="damaged"):
        Machine.load(path)


def test_a_machine_of_before_has_neither_sweep_nor_other_rates() -> None:
    data = small().to_json()
    del data["others"], data["sweep"]
    found = Machine.from_json(data)
    assert (found.others, found.sweep) == ({}, None)


def test_a_damaged_sweep_is_refused() -> None:
    data = {**small().to_json(), "sweep": {"sizes": [1]}}
    with pytest.raises(ProfileError, match="damaged"):
        Machine.from_json(data)


def test_other_rates_carry_their_evidence() -> None:
    machine = Machine("chip", others={"dram copy": Ceiling(5e9, kernel="copy_", spread=0.1)})
    assert machine.to_json()["kernel"]["dram copy"] == "copy_"
    assert Machine.from_json(machine.to_json()).others["dram copy"].spread == 0.1


def test_the_circumstances_of_a_ceiling_are_kept() -> None:
    known = Ceiling(1e9, threads=2, size=4096, clock=3e9)
    machine = Machine("chip", bandwidths={MemoryLevel.L1: known, MemoryLevel.DRAM: Ceiling(1e8)})
    data = machine.to_json()
    assert (data["threads"]["l1"], data["size"]["l1"], data["clock"]["l1"]) == (2, 4096, 3e9)
    assert (data["size"]["dram"], data["clock"]["dram"]) == (None, None)
    back = Machine.from_json(data).bandwidths
    assert back[MemoryLevel.L1] == known
    assert back[MemoryLevel.DRAM].threads == 0 and math.isnan(back[MemoryLevel.DRAM].clock)
