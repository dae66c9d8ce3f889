"""What ncu said: every condition by its words, and what follows from them."""

from __future__ import annotations

import pytest

from hroof.collect.nsight import Condition, judge, no_driver
from hroof.errors import CaptureError, HroofError, MissingError, OutputError, UsageError

DENIED = (
    "ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
)
NONE = "==WARNING== No kernels were profiled."
CONNECTED = "==PROF== Connected to process 42 (/usr/bin/python3)"


def returned(status: int) -> str:
    return f"==ERROR== The application returned an error code ({status})."


@pytest.mark.parametrize(
    ("line", "condition", "kind", "remedy"),
    [
        (f"==ERROR== {DENIED}", Condition.NO_PERMISSION, CaptureError, "NVreg_RestrictProfilingToAdminUsers=0"),
        (DENIED, Condition.NO_PERMISSION, CaptureError, "--cap-add=SYS_ADMIN"),
        ("==ERROR== The user does not have permission to access NVIDIA GPU Performance Counters on the target vGPU "
         "device 0.", Condition.NO_PERMISSION, CaptureError, "ask the provider"),
        ("==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] on path?).",
         Condition.NO_DRIVER, MissingError, "NVIDIA GPU"),
        ("==ERROR== Insufficient driver version to profile on device 0.",
         Condition.NOT_SUPPORTED, MissingError, "update"),
        ("==ERROR== Profiling is not supported on device 0.", Condition.NOT_SUPPORTED, MissingError, "update"),
        ("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) "
         "is concurrently collecting profiling data.", Condition.COUNTERS_HELD, CaptureError, "dcgmi profile --pause"),
        ("==ERROR== Failed to create lock file /tmp/nsight-compute-lock.", Condition.LOCKED, CaptureError, "TMPDIR"),
        ("==ERROR== Failed to find metric a__b.sum", Condition.REFUSED, CaptureError, "newer"),
        ("==ERROR== unrecognised option '--new'. Use --help for further details.",
         Condition.REFUSED, CaptureError, "newer"),
        ("==ERROR== Invalid configuration for nvtx-include : a@", Condition.REFUSED, CaptureError, "newer"),
        ("==ERROR== 'nothing' does not exist or is not an executable.", Condition.NOT_STARTED, UsageError, "path"),
        ("==ERROR== Unable to write to file c.ncu-rep. Please verify this file is not locked, and writable.",
         Condition.NOT_WRITTEN, OutputError, "room"),
        ("==ERROR== '/no/log' cannot be used as the output log file", Condition.NOT_WRITTEN, OutputError, "--out"),
        ("==ERROR== Failed to save profile results: No space left on device",
         Condition.NOT_WRITTEN, OutputError, "room"),
    ],
)  # fmt: skip
def test_what_ncu_states(
    line: str, condition: Condition, kind: type[HroofError], remedy: str
) -> None:
    found = judge(1, [CONNECTED, line, returned(1), NONE], report=False)
    assert found.condition is condition
    assert type(found.problem) is kind
    assert line.removeprefix("==ERROR== ") in found.problem.fact
    assert remedy in found.problem.remedy


def test_a_success_without_permission_is_none() -> None:
    """The program runs to its end, and ncu may end with 0."""
    found = judge(0, [CONNECTED, f"==ERROR== {DENIED}"], report=False)
    assert found.condition is Condition.NO_PERMISSION
    assert found.problem is not None
    assert found.problem.exit_code != 0
    assert "leave --counters out" in found.problem.remedy


@pytest.mark.parametrize(
    ("status", "lines", "report", "late", "condition"),
    [
        (0, [CONNECTED], True, False, Condition.COLLECTED),
        (3, [CONNECTED, returned(3)], True, False, Condition.COLLECTED),
        (0, [CONNECTED, NONE], False, False, Condition.NOTHING_CAPTURED),
        (0, ["==WARNING== No ranges were profiled."], False, False, Condition.NOTHING_CAPTURED),
        (0, [], False, False, Condition.NOTHING_CAPTURED),
        (1, [returned(3), NONE], False, False, Condition.NOTHING_CAPTURED),
        (3, [], False, False, Condition.FAILED),
        (-9, [], False, False, Condition.FAILED),
        (130, [], True, True, Condition.LATE),
        (1, [NONE], False, True, Condition.LATE),
    ],
)
def test_what_follows_otherwise(
    status: int, lines: list[str], report: bool, late: bool, condition: Condition
) -> None:
    found = judge(status, lines, report=report, late=late)
    assert (found.condition, found.problem) == (condition, None)


def test_the_status_is_the_programs() -> None:
    assert judge(1, [returned(3), NONE], report=False).status == 3
    assert judge(7, [], report=True).status == 7


def test_launches_and_passes_are_counted() -> None:
    lines = [
        '==PROF== Profiling "a" - 0: 0%....50%....100% - 3 passes',
        '==PROF== Profiling "b" - 1: 0%....50%....100% - 12 passes',
        '==PROF== Profiling "c" - 2: 0%....50%....100% - 1 pass',
    ]
    found = judge(0, lines, report=True)
    assert (found.profiled, found.passes) == (3, 12)
    assert judge(0, [], report=True).passes is None


def test_profiled_launches_without_a_report_are_lost() -> None:
    found = judge(0, ['==PROF== Profiling "a" - 0: 100% - 3 passes'], report=False)
    assert found.condition is Condition.NOT_WRITTEN
    assert isinstance(found.problem, OutputError)
    assert "profiled 1 launches" in found.problem.fact


def test_beside_a_report_a_warning_is_no_condition() -> None:
    lines = ["==WARNING== The lock file is old."]
    assert judge(0, lines, report=True).condition is Condition.COLLECTED
    assert judge(0, lines, report=False).condition is Condition.LOCKED


def test_a_driver_that_nobody_mentioned() -> None:
    stated = judge(1, ["==ERROR== Failed to load the driver."], report=False).problem
    assert stated is not None
    assert type(no_driver()) is type(stated)
    assert stated.fact.startswith(no_driver().fact)


def test_what_else_was_said_is_kept_once() -> None:
    lines = [CONNECTED, "==WARNING== odd", "==WARNING== odd", "==ERROR== odder", returned(1), NONE]
    assert judge(1, lines, report=False).said == ("odd", "odder")


def test_a_late_run_is_late_whatever_else_was_said() -> None:
    plain = judge(1, ["==WARNING== No kernels were profiled."], report=False, late=True)
    assert (plain.condition, plain.late) == (Condition.LATE, True)
    stated = judge(1, ["==ERROR== Failed to load the driver."], report=False, late=True)
    assert (stated.condition, stated.late) == (Condition.NO_DRIVER, True)
    assert not judge(0, [], report=True).late
