"""The clock of a CPU core, measured by additions that wait for each other.

Each of them takes one cycle on every x86-64 core, so their number ÷ the time is the clock. What the system says is no
substitute: in a virtual machine it is the nominal clock, and elsewhere that of some moment before. No compiler is
needed: the loop is a few bytes of machine code in a page of its own.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
import time
from collections.abc import Callable

Chain = Callable[[int], None]

_ADDITIONS = 64
_START = bytes.fromhex("f30f1efa")  # endbr64
_ADD = bytes.fromhex("4801d0")  # add rax, rdx
_COUNT = bytes.fromhex("48ffcf")  # dec rdi, the first argument
_JUMP = bytes.fromhex("0f85")  # jnz, relative to the next instruction
_JUMP_SIZE = len(_JUMP) + 4
_RETURN = bytes.fromhex("c3")
_LOOPS = 8_192
"""Half a million cycles, some 0.2 ms: shorter than a time slice."""
_TRIES = 5
_PLAUSIBLE = (1e8, 1e10)


def machine_code() -> bytes:
    """A function of one counter: as often as it says, 64 additions of which each needs the last one's result."""
    body = _ADD * _ADDITIONS + _COUNT
    back = struct.pack("<i", -(len(body) + _JUMP_SIZE))
    return _START + body + _JUMP + back + _RETURN


def can_run(system: str = sys.platform, machine: str = platform.machine()) -> bool:
    """Whether the machine code is for this processor and its calling convention."""
    return machine in ("x86_64", "AMD64") and system in ("linux", "darwin")


@functools.cache
def chain() -> Chain | None:
    """The function in memory that may be executed; None where it cannot run or the system forbids it."""
    if not can_run():
        return None
    code = machine_code()
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE)
        page.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        if not _make_executable(address, mmap.PAGESIZE):
            return None
    except (OSError, ValueError, AttributeError):
        return None
    function = ctypes.CFUNCTYPE(None, ctypes.c_long)(address)
    function.page = page  # type: ignore[attr-defined]  # it lives as long as the function
    return function


def _make_executable(address: int, size: int) -> bool:
    """Let a page be executed, and no longer written; some systems refuse that."""
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return bool(protect(address, size, mmap.PROT_READ | mmap.PROT_EXEC) == 0)


def measured_clock(
    run: Chain | None = None, *, clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """The clock of the core that this thread is on, now.

    Takes about a millisecond. Other programs can only make it look slower, so the best of five tries counts.

    Args:
        run: Instead of the chain of this processor.
        clock: Seconds, monotonic.

    Returns:
        Hertz; None where it cannot be measured.
    """
    run = run or chain()
    if run is None:
        return None
    shortest = min(_timed(run, clock) for _ in range(_TRIES))
    hertz = _LOOPS * _ADDITIONS / shortest if shortest > 0 else 0.0
    low, high = _PLAUSIBLE
    return hertz if low < hertz < high else None


def _timed(run: Chain, clock: Callable[[], float]) -> float:
    begun = clock()
    run(_LOOPS)
    return clock() - begun
