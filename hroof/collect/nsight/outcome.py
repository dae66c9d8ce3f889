"""What ``ncu`` said when it ended: told apart by condition, each with its remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hroof.errors import CaptureError, HroofError, MissingError, OutputError, UsageError


class Condition(StrEnum):
    """How a run under ncu went."""

    COLLECTED = "collected"
    NO_DRIVER = "no driver"
    NO_PERMISSION = "no permission"
    NOT_SUPPORTED = "not supported"
    COUNTERS_HELD = "counters held"
    LOCKED = "locked"
    REFUSED = "refused"
    NOT_STARTED = "not started"
    NOT_WRITTEN = "not written"
    LATE = "late"
    NOTHING_CAPTURED = "nothing captured"
    FAILED = "failed"


PERMISSION_REMEDY = """\
The ways out:
  1. The administrator of the machine opens the counters to everybody: put
       options nvidia NVreg_RestrictProfilingToAdminUsers=0
     into /etc/modprobe.d/nvidia-profiling.conf, rebuild the initramfs where the module is in it, and restart.
  2. Run as root, or with the capability CAP_SYS_ADMIN; a container with: docker run --cap-add=SYS_ADMIN …
  3. In a cloud or on a rented machine, ask the provider: the setting is the host's.
Without counters, work is counted from shapes and times are measured: leave --counters out."""

_ROOM = "Make room, or choose another folder with --out; its temporary files go to TMPDIR."

_RULES: tuple[tuple[Condition, str, type[HroofError], str, str], ...] = (
    (
        Condition.NO_PERMISSION,
        r"ERR_NVGPUCTRPERM|does not have permission to access NVIDIA GPU Performance Counters",
        CaptureError,
        "No permission to read the counters of the GPU (ERR_NVGPUCTRPERM).",
        PERMISSION_REMEDY,
    ),
    (
        Condition.NO_DRIVER,
        r"failed to connect to the CUDA driver|Failed to load the driver|Driver could not be loaded",
        MissingError,
        "There is no NVIDIA driver here (libcuda.so.1), so there are no counters.",
        "Run it on a machine with an NVIDIA GPU; in a container, with the GPU passed in (--gpus all).",
    ),
    (
        Condition.NOT_SUPPORTED,
        r"Insufficient driver version|driver is not compatible|[Pp]rofiling is not supported|ERR_NVCMPGPU"
        r"|confidential computing mode",
        MissingError,
        "Nsight Compute cannot profile this device or with this driver.",
        "Versions of driver and Nsight Compute belong together: update the older of the two.",
    ),
    (
        Condition.COUNTERS_HELD,
        r"driver resource was unavailable|other tool.*collecting profiling data",
        CaptureError,
        "Another program holds the counters of the GPU, often a monitor such as DCGM.",
        "Pause it (dcgmi profile --pause, afterwards --resume), or end the other profiler.",
    ),
    (
        Condition.LOCKED,
        r"nsight-compute-lock|InterprocessLock|lock file",
        CaptureError,
        "The lock file of Nsight Compute belongs to somebody else.",
        "Let the other one end, or set TMPDIR to a folder of your own.",
    ),
    (
        Condition.REFUSED,
        r"Failed to find metric|unrecognised option|option is ambiguous|Invalid configuration|not a valid metric",
        CaptureError,
        "This version of Nsight Compute does not accept what hroof asks for.",
        "Install a newer one, or name it with --ncu.",
    ),
    (
        Condition.NOT_STARTED,
        r"does not exist or is not an executable",
        UsageError,
        "Nsight Compute cannot start the program.",
        "Give its path.",
    ),
    (
        Condition.NOT_WRITTEN,
        r"No space left|[Uu]nable to write to file|cannot be used as the output log file|Failed to save profile result"
        r"|already exists\. Use '-f'",
        OutputError,
        "Nsight Compute could not write its report.",
        _ROOM,
    ),
)
_APPLICATION = re.compile(r"The application returned an error code \((\d+)\)")
_PROFILED = re.compile(r"^==PROF== Profiling ")
_TROUBLE = re.compile(r"^==(?:ERROR|WARNING)== ?")
_NOT_A_CAUSE = re.compile(r"The application returned|No (?:kernels|ranges) were profiled")
_NONE = re.compile(r"No (?:kernels|ranges) were profiled")
_PASSES = re.compile(r" - (\d+) pass")


@dataclass(frozen=True)
class Outcome:
    """How a run under ncu went.

    Attributes:
        condition: In one word.
        status: Exit status of the program, as far as ncu passes it on.
        profiled: How many launches ncu says that it profiled.
        passes: The most passes that it needed for one.
        problem: What to tell, for a condition that has a remedy of its own.
        said: Errors and warnings of ncu, without those that follow from others.
        late: It had to be ended, whatever else there is to say.
    """

    condition: Condition
    status: int
    profiled: int = 0
    problem: HroofError | None = None
    said: tuple[str, ...] = ()
    passes: int | None = None
    late: bool = False


def judge(status: int, lines: Sequence[str], *, report: bool, late: bool = False) -> Outcome:
    """Tell what happened.

    Args:
        status: Exit status of ncu; it says little, since a run without permission may end with 0.
        lines: What ncu said, in its log and elsewhere.
        report: There is a report.
        late: It had to be ended.
    """
    text = "\n".join(lines)
    application = _APPLICATION.search(text)
    stated = [line for line in lines if not (report and line.startswith("==WARNING=="))]
    condition, problem = _known(stated) or (_plain(status, text, report, late), None)
    profiled = sum(bool(_PROFILED.match(line)) for line in lines)
    if condition is Condition.NOTHING_CAPTURED and profiled:
        condition = Condition.NOT_WRITTEN
        problem = OutputError(f"ncu profiled {profiled} launches, but left no report.", _ROOM)
    return Outcome(
        condition=condition,
        status=int(application[1]) if application else status,
        profiled=profiled,
        passes=max(map(int, _PASSES.findall(text)), default=None),
        problem=problem,
        said=_troubles(lines),
        late=late,
    )


def _known(lines: Sequence[str]) -> tuple[Condition, HroofError] | None:
    """A condition that ncu states in so many words."""
    for condition, pattern, kind, fact, remedy in _RULES:
        line = next((line for line in lines if re.search(pattern, line)), None)
        if line is not None:
            return condition, kind(f"{fact} ncu: {_TROUBLE.sub('', line).strip()}", remedy)
    return None


def no_driver() -> HroofError:
    """The error where ncu itself has not been heard saying it."""
    kind, fact, remedy = next(rule[2:] for rule in _RULES if rule[0] is Condition.NO_DRIVER)
    return kind(fact, remedy)


def _plain(status: int, text: str, report: bool, late: bool) -> Condition:
    if late:
        return Condition.LATE
    if report:
        return Condition.COLLECTED
    if _NONE.search(text) or status == 0:
        return Condition.NOTHING_CAPTURED
    return Condition.FAILED


def _troubles(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        _TROUBLE.sub("", line)
        for line in dict.fromkeys(lines)
        if _TROUBLE.match(line) and not _NOT_A_CAUSE.search(line)
    )
