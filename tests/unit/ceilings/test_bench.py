"""Bench: shared measurements, kept operands, and kernels that fail."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.ceilings.bench import Bench, reason
from hroof.integration import CeilingKernel
from hroof.units import MemoryLevel, Pipe, Precision


def prepared(kernel: CeilingKernel, log: list[str]) -> CeilingKernel:
    """The kernel, which notes each time its operands are built."""

    def prepare() -> Any:
        log.append(kernel.name)
        return kernel.prepare()

    return dataclasses.replace(kernel, prepare=prepare)


def test_kernels_that_share_their_operands_are_one_measurement(
    fake: SimpleNamespace, clock: Any
) -> None:
    log: list[str] = []
    matrix = prepared(fake.peak("mm", 5e9, Precision.FP32), log)
    vector = dataclasses.replace(matrix, pipe=Pipe.VECTOR, note="same unit")
    bench = Bench([matrix, vector], clock=clock)
    assert bench.unique(bench.kernels) == [matrix]
    bench.measure(matrix, 0.01)
    first, second = bench.results
    assert (first.kernel, second.kernel) == (matrix, vector)
    assert first.samples is second.samples
    assert log == ["mm"]


def test_measuring_again_adds_samples(fake: SimpleNamespace, clock: Any) -> None:
    log: list[str] = []
    kernel = prepared(fake.level("sum", 1e9, MemoryLevel.L1), log)
    bench = Bench([kernel], clock=clock)
    bench.measure(kernel, 0.01)
    once = len(bench.results[0].samples)
    bench.measure(kernel, 0.01)
    assert len(bench.results[0].samples) == 2 * once
    assert log == ["sum", "sum"]


def test_kept_operands_are_built_once_until_released(fake: SimpleNamespace, clock: Any) -> None:
    log: list[str] = []
    kernel = prepared(fake.level("sum", 1e9, MemoryLevel.DRAM), log)
    bench = Bench([kernel], clock=clock)
    bench.measure(kernel, 0.01, keep=True)
    bench.measure(kernel, 0.01, keep=True)
    bench.measure(kernel, 0.01)
    assert log == ["sum"]
    bench.release()
    bench.measure(kernel, 0.01)
    assert log == ["sum", "sum"]


def test_a_failing_kernel_becomes_one_warning_and_is_not_tried_again(
    fake: SimpleNamespace, clock: Any
) -> None:
    log: list[str] = []
    error = RuntimeError("not enough memory: you tried to allocate 9 TB.\nMore lines")
    bad = prepared(fake.failing("mm", error, what="launch"), log)
    bench = Bench([bad], clock=clock)
    bench.measure(bad, 0.01)
    bench.measure(bad, 0.01)
    assert log == ["mm"]
    assert bench.results == []
    assert bench.warnings == [
        "mm could not run, so it did not compete for launch: "
        "RuntimeError: not enough memory: you tried to allocate 9 TB."
    ]


def test_samples_from_before_a_failure_still_count(fake: SimpleNamespace, clock: Any) -> None:
    good = fake.level("sum", 1e9, MemoryLevel.DRAM)
    broken: list[bool] = []

    def prepare() -> Any:
        if broken:
            raise MemoryError
        return good.prepare()

    kernel = dataclasses.replace(good, prepare=prepare)
    bench = Bench([kernel], clock=clock)
    bench.measure(kernel, 0.01)
    broken.append(True)
    bench.measure(kernel, 0.01)
    assert len(bench.results) == 1
    assert bench.warnings == ["sum could not run, so it did not compete for DRAM: MemoryError."]


def test_a_kernel_without_work_is_a_failure(fake: SimpleNamespace, clock: Any) -> None:
    idle = fake.kernel("idle", 1.0, work=0.0, what="launch")
    bench = Bench([idle], clock=clock)
    bench.measure(idle, 0.01)
    assert "its work is 0.0, not a positive number" in bench.warnings[0]


def test_a_kernel_without_a_target_is_left_out(fake: SimpleNamespace, clock: Any) -> None:
    lost = fake.kernel("lost", 1.0, what="bandwidth")
    bench = Bench([lost], clock=clock)
    assert bench.kernels == []
    assert bench.warnings == ["lost was left out: it does not say which bandwidth it measures."]


def test_progress_hears_ceiling_and_kernel(fake: SimpleNamespace, clock: Any) -> None:
    heard: list[str] = []
    kernel = fake.level("sum", 1e9, MemoryLevel.DRAM)
    Bench([kernel], clock=clock, progress=heard.append).measure(kernel, 0.01)
    assert heard == ["DRAM: sum"]


def test_an_interrupt_is_no_failure_of_a_kernel(clock: Any) -> None:
    def prepare() -> Any:
        raise KeyboardInterrupt

    kernel = CeilingKernel("sum", "launch", prepare)
    with pytest.raises(KeyboardInterrupt):
        Bench([kernel], clock=clock).measure(kernel, 0.01)


def test_a_reason_is_one_line_without_a_full_stop() -> None:
    assert reason(ValueError("bad thing.\nstack")) == "ValueError: bad thing"
    assert reason(ValueError()) == "ValueError"
    assert reason(ValueError("  \n ")) == "ValueError"


def test_the_place_in_the_plan_is_said_before_the_kernel(fake: SimpleNamespace, clock: Any) -> None:
    heard: list[str] = []
    kernel = fake.level("sum", 1e9, MemoryLevel.DRAM)
    bench = Bench([kernel], clock=clock, progress=heard.append)
    bench.measure(kernel, 0.01, place="3 of 40")
    assert heard == ["3 of 40: DRAM: sum"]


def test_forgotten_samples_do_not_count(fake: SimpleNamespace, clock: Any) -> None:
    kernel = fake.level("sum", [9e9] * 300 + [1e9], MemoryLevel.L1)
    bench = Bench([kernel], clock=clock)
    bench.measure(kernel, 0.01)
    assert bench.results[0].samples.best == pytest.approx(9e9)
    bench.forget(kernel)
    assert bench.results == []
    bench.measure(kernel, 0.5)
    bench.forget(kernel)
    bench.measure(kernel, 0.01)
    assert bench.results[0].samples.best == pytest.approx(1e9)


def test_the_highest_clock_of_several_visits_counts(fake: SimpleNamespace, clock: Any) -> None:
    clocks = iter([3.0e9, 3.3e9, 2.0e9, None])
    first, second = fake.level("a", 1e9, MemoryLevel.L1), fake.level("b", 1e9, MemoryLevel.L2)
    bench = Bench([first, second], clock=clock, core_clock=lambda: next(clocks))
    for _ in range(3):
        bench.measure(first, 0.01)
    bench.measure(second, 0.01)
    assert [result.clock for result in bench.results] == [
        3.3e9,
        pytest.approx(math.nan, nan_ok=True),
    ]
    assert bench.clock == 3.3e9


def test_without_a_way_to_measure_it_the_clock_is_unknown(
    fake: SimpleNamespace, clock: Any
) -> None:
    kernel = fake.level("a", 1e9, MemoryLevel.L1)
    bench = Bench([kernel], clock=clock)
    bench.measure(kernel, 0.01)
    assert bench.clock is None and math.isnan(bench.results[0].clock)
