"""What every verb that shows a run has in common."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hroof.cli import main, show
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.results import at_its_clock, saved_machine
from hroof.units import MemoryLevel, Pipe, Precision

PEAK = (Pipe.VECTOR, Precision.FP32)


def profile(**run: object) -> Profile:
    """One kernel of 11 GFLOP in a millisecond."""
    row = {
        "kernel": "void gemm<float>(T1::Params)",
        "duration": 1e-3,
        "flop_nominal_vector_fp32": 11e9,
        "flop_least_vector_fp32": 11e9,
        "source_flop": "counter",
        "source_time": "counter",
    }
    return Profile.from_rows([row], dict(run))


def machine(clock: float | None = 1.755e9) -> Machine:
    facts = {} if clock is None else {"clock": clock}
    return Machine(
        "GPU",
        "cuda:0",
        {PEAK: Ceiling(19e12)},
        {MemoryLevel.DRAM: Ceiling(1e12)},
        facts=facts,
    )


def test_layers_are_the_usual_rows_and_kernels_where_no_layer_is_known() -> None:
    assert show.keys(profile(), None) == ("kernel",)
    assert show.keys(Profile.from_rows([{"layer": "fc", "kernel": "k"}]), None) == ("layer",)
    assert show.keys(Profile.from_rows([{"op": "aten::mm"}]), None) == ("layer",)
    assert show.keys(profile(), ("phase", "layer")) == ("phase", "layer")


def test_the_compute_roof_is_that_of_the_clock_of_the_run() -> None:
    """A launch of 11 TFLOP/s at 1095 MHz reaches 92.8 % of the scaled roof, not 57.9 % of the measured one."""
    fitted = at_its_clock(profile(clock=1.095e9), machine())
    assert fitted is not None
    assert fitted.peaks[PEAK].rate == pytest.approx(19e12 * 1095 / 1755)
    assert fitted.bandwidths == machine().bandwidths
    assert 11e12 / fitted.peaks[PEAK].rate == pytest.approx(0.928, abs=5e-4)
    assert any("clock-control none" in text for text in fitted.warnings)


@pytest.mark.parametrize("clock", [1.755e9, 1.72e9, None, "fast"])
def test_equal_or_unknown_clocks_leave_the_roof_alone(clock: object) -> None:
    assert at_its_clock(profile(clock=clock), machine()) == machine()


def test_ceilings_without_a_clock_and_no_ceilings_at_all() -> None:
    assert at_its_clock(profile(clock=1e9), machine(None)) == machine(None)
    assert at_its_clock(profile(clock=1e9), None) is None


def test_the_report_says_that_it_scaled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = profile(clock=1.095e9, name="run").save(tmp_path / "run")
    machine().save(folder / "machine.json")
    assert main(["report", str(folder), "--full"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The compute roof was scaled" in text
    assert main(["report", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"][0]["kernel"] == "void gemm<float>(T1::Params)"
    assert found["rows"][0]["headroom"] == pytest.approx(1 / 0.928, rel=1e-3)
    assert found["machine"]["peaks"]["vector_fp32"] == pytest.approx(19e12 * 1095 / 1755)


def test_each_kernel_alone_under_counters_needs_no_second_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = profile(name="run", device="cuda:0").save(tmp_path / "run")
    machine().save(folder / "machine.json")
    assert main(["report", str(folder)]) == 0
    assert "No verdict" not in capsys.readouterr().out


def test_a_machine_beside_a_profile(tmp_path: Path) -> None:
    assert saved_machine(tmp_path) is None
    show.keep_machine(machine(), tmp_path, print)
    assert saved_machine(tmp_path) == machine()
