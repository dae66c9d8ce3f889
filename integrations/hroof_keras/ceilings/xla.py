"""Programs that XLA compiles for ceilings: its flags, short calls, and threads that run one program side by side.

A loop that XLA compiles runs on the thread that calls it. As many calls at once use all threads of a machine, since
TensorFlow gives Python's lock away meanwhile.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from hroof.ceilings import host, limits
from hroof_keras.private.runtime import direct_call

Call = Callable[[], object]
Prepared = tuple[Call, float]

_FLAGS = "XLA_FLAGS"
_WIDTH = "--xla_cpu_prefer_vector_width"
_USUAL_BITS = 256
"""What XLA takes on a CPU unless it is told otherwise."""
_KNOWN = ("2.19.", "2.20.", "2.21.")
"""Versions of TensorFlow that are known to have the flag; XLA ends a process that gives it one that it lacks."""
_TRIAL = "import tensorflow as tf; tf.function(lambda x: x + 1.0, jit_compile=True)(tf.ones(2))"
_PATIENCE = 120.0
_DEVICE = "/CPU:0"
_FEW_THREADS = 4


# --- flags --------------------------------------------------------------------------------------


class _Own:
    """Whether this process is hroof's own, and what was added to its flags then."""

    process = False
    flag = ""


def own_process() -> None:
    """No program runs in this process but hroof: the flags of XLA may be changed when ceilings are measured."""
    _Own.process = True


def use_whole_vectors() -> None:
    """Let XLA use vectors of 512 bits where the processor has them.

    It has to come before the first program is compiled. A flag that the user gave stays.
    """
    bits = 8 * (limits.vector_bytes(host.cpu_flags()) or 0)
    flags = os.environ.get(_FLAGS, "")
    if bits <= _USUAL_BITS or _WIDTH in flags:
        return
    flag = f"{_WIDTH}={bits}"
    if _is_accepted(flag):
        os.environ[_FLAGS] = f"{flags} {flag}".strip()
        _Own.flag = flag


def _is_accepted(flag: str) -> bool:
    """Whether XLA takes a flag: known of some versions, tried out in another process with all others."""
    if _version().startswith(_KNOWN):
        return True
    environment = {**os.environ, _FLAGS: f"{os.environ.get(_FLAGS, '')} {flag}"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRIAL],
            env=environment,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _version() -> str:
    for package in ("tensorflow", "tensorflow-cpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return ""


def without_own_flags(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables as the user gave them, so that ceilings measured in any process are found again."""
    if not _Own.flag or _FLAGS not in environment:
        return dict(environment)
    left = environment[_FLAGS].replace(_Own.flag, "").strip()
    others = {name: value for name, value in environment.items() if name != _FLAGS}
    return dict(sorted({**others, **({_FLAGS: left} if left else {})}.items()))


def vector_bits(flags: str | None = None) -> int:
    """Bits of the vectors that XLA uses here, by the processor and the flags of this process."""
    words = (os.environ.get(_FLAGS, "") if flags is None else flags).split()
    asked = [word.partition("=")[2] for word in words if word.startswith(f"{_WIDTH}=")]
    wanted = int(asked[-1]) if asked and asked[-1].isdigit() else _USUAL_BITS
    return min(wanted, 8 * (limits.vector_bytes(host.cpu_flags()) or wanted // 8))


def uses_whole_vectors() -> bool:
    """Whether XLA's vectors are known to be the widest of this processor."""
    widest = limits.vector_bytes(host.cpu_flags())
    return widest is not None and vector_bits() == 8 * widest


def evidence() -> Literal["measured", "framework-reachable"]:
    """What a program of XLA's proves: it uses the whole unit where its vectors are the widest."""
    return "measured" if uses_whole_vectors() else "framework-reachable"


# --- programs -----------------------------------------------------------------------------------


def compiled(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Compile a function for arguments of a kind with XLA.

    Args:
        function: Of tensors; Python code in it runs once.
        arguments: Tensors like those that will follow.

    Returns:
        It, to be called with such tensors on the CPU.
    """
    import tensorflow

    traced = tensorflow.function(function, jit_compile=True, autograph=False)
    with tensorflow.device(_DEVICE):
        return direct_call(traced.get_concrete_function(*arguments))


def on_cpu(make: Callable[[], Any]) -> Any:
    """What a function makes, with its tensors in the memory of the CPU."""
    import tensorflow

    with tensorflow.device(_DEVICE):
        return make()


def filled(rows: int, columns: int, value: float = 0.5) -> Any:
    """A matrix in fp32; a half stays of the order of one in every loop."""
    import tensorflow

    return on_cpu(lambda: tensorflow.fill([rows, columns], tensorflow.constant(value)))


def constant(value: float) -> Any:
    """A number in fp32."""
    import tensorflow

    return on_cpu(lambda: tensorflow.constant(value, tensorflow.float32))


def scalar(value: int) -> Any:
    """A number that a program gets to know only when it runs."""
    import tensorflow

    return on_cpu(lambda: tensorflow.constant(value, tensorflow.int32))


class Program:
    """A function that is compiled when its first kernel is prepared; a failure is remembered as well.

    Args:
        function: Of tensors.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._failure: Exception | None = None

    def call(self, *arguments: Any) -> Call:
        """The program with its arguments, tensors or variables; compiled once for each kind of them.

        Raises:
            Exception: Whatever TensorFlow raised, also for the kernels that come later.
        """
        if self._failure is not None:
            raise self._failure
        kind = tuple((tuple(tensor.shape), tensor.dtype) for tensor in arguments)
        try:
            if kind not in self._compiled:
                self._compiled[kind] = compiled(self._function, *arguments)
        except Exception as error:
            self._failure = error
            raise
        program, given = self._compiled[kind], [_handle(argument) for argument in arguments]
        return lambda: on_cpu(lambda: program(*given))


def _handle(argument: Any) -> Any:
    """A program that is called directly takes the handle of a variable."""
    import tensorflow

    return argument.handle if isinstance(argument, tensorflow.Variable) else argument


# --- threads ------------------------------------------------------------------------------------


class Load:
    """How much of the time of some threads this process had a core.

    Args:
        clock: Seconds, monotonic.
        own_clock: Seconds of all cores that this process has had.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        own_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock, self._own_clock = clock, own_clock
        self._wanted = self._had = 0.0

    def timed(self, call: Call, threads: int) -> Call:
        """The call, of which note is taken each time."""

        def run() -> None:
            begun, had = self._clock(), self._own_clock()
            call()
            self._had += self._own_clock() - had
            self._wanted += (self._clock() - begun) * threads

        return run

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None where nothing ran yet."""
        return min(self._had / self._wanted, 1.0) if self._wanted else None


class Team:
    """Threads that run a program at the same time, each on data of its own.

    Args:
        threads: How many; the one that calls is one of them.
        load: Takes note of every call.
    """

    def __init__(self, threads: int, load: Load) -> None:
        self.threads = threads
        self._load = load

    def scaled(self, work: float) -> float:
        """Work per thread and call: the more threads there are, the longer they take to begin, one after the other."""
        return work * max(self.threads / _FEW_THREADS, 1.0)

    @functools.cached_property
    def _others(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads - 1, thread_name_prefix="hroof ceilings")

    def together(self, calls: Sequence[Call]) -> Call:
        """One call that runs a call on each thread, to the end.

        Args:
            calls: As many as there are threads.
        """
        own, *rest = calls

        def run() -> None:
            waiting = [self._others.submit(call) for call in rest]
            own()
            for each in waiting:
                each.result()

        return self._load.timed(run, self.threads)


# --- what was seen ------------------------------------------------------------------------------


class _Last:
    """The load of the measurement that goes on, or was the last one."""

    load = Load()


def begin() -> Load:
    """A measurement begins: the load is noted anew, and vectors are the widest in a process of hroof's own."""
    if _Own.process:
        use_whole_vectors()
    _Last.load = Load()
    return _Last.load


def seen() -> dict[str, Any]:
    """What was seen since the last ``begin()``.

    Returns:
        ``own_share``: of the time of the threads of XLA's programs, the share in which they had a core. The time of the
        thread that calls says nothing, since it waits for those of TensorFlow. ``xla_vector_bits``. ``xla_flags``,
        where hroof added some. ``doubts`` for the warnings.
    """
    found: dict[str, Any] = {"own_share": _Last.load.share, "xla_vector_bits": vector_bits()}
    if _Own.flag:
        found["xla_flags"] = _Own.flag
    if not uses_whole_vectors() and limits.vector_bytes(host.cpu_flags()):
        found["doubts"] = [
            f"XLA uses vectors of {vector_bits()} bits, and this processor has wider ones, so L1 and what XLA computes "
            "are lower bounds. In a process of its own hroof lets XLA use them: hroof ceilings --refresh."
        ]
    return found
