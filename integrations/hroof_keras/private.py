"""Every private or fragile name of TensorFlow and Keras that hroof uses, in one place; each is probed where it is used.

TensorFlow is imported inside the functions: Keras may run without it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hroof.errors import MissingError

# --- The profiler ---------------------------------------------------------------------------------

_PROFILER = "tensorflow.python.profiler.internal._pywrap_profiler"
_TRACEME = "tensorflow.python.profiler.internal._pywrap_traceme"
_XPLANE = ("tensorflow.tsl.profiler.protobuf.xplane_pb2", "xla.tsl.profiler.protobuf.xplane_pb2")
_TRACE_LEVEL = "_ZN3tsl8profiler8internal13g_trace_levelE"


def _module(name: str) -> Any:
    """A module of TensorFlow, or None where this version has none of that name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def profiler_session() -> Any:
    """A new session of TensorFlow's profiler: ``start(folder, options)``, ``stop() -> bytes``.

    Raises:
        MissingError: This version of TensorFlow has no such session.
    """
    kind = getattr(_module(_PROFILER), "ProfilerSession", None)
    if kind is None or not hasattr(kind, "stop"):
        raise MissingError(
            "TensorFlow's profiler was not found where hroof looks for it, so no times can be taken.",
            "Use a version of TensorFlow that hroof was tested with (2.19 to 2.21).",
        )
    return kind()


def profiler_runs() -> bool:
    """Whether a session of TensorFlow's profiler is running, whoever started it."""
    enabled = getattr(_module(_TRACEME), "traceme_enabled", None)
    return enabled is not None and bool(enabled())


def trace_event(name: str) -> None:
    """Note one moment in the profile that is being taken; nothing where none is."""
    event = getattr(_module(_TRACEME), "TraceMe", None)
    if event is not None:
        event(name).Stop()


def trace_range(name: str) -> Any:
    """Begin a range of this thread in the profile; ``Stop()`` ends it."""
    return importlib.import_module(_TRACEME).TraceMe(name)


def before_profiling(call: Callable[[], None]) -> Callable[[], None]:
    """Call ``call`` just before anybody else starts a session of the profiler; the result undoes this.

    Every way to start one from Python ends in the same class, so it is replaced in its module.
    """
    module = _module(_PROFILER)
    original = getattr(module, "ProfilerSession", None)
    if original is None:
        return _nothing

    def session() -> Any:
        call()
        return original()

    module.ProfilerSession = session

    def undo() -> None:
        if module.ProfilerSession is session:
            module.ProfilerSession = original

    return undo


def _nothing() -> None:
    """Nothing to undo."""


def xspace(serialized: bytes) -> Any:
    """A profile of TensorFlow, parsed.

    Raises:
        MissingError: The message of profiles is not where hroof looks for it.
    """
    for name in _XPLANE:
        module = _module(name)
        if module is not None:
            return module.XSpace.FromString(serialized)
    raise MissingError(
        "TensorFlow brings no description of its profiles where hroof looks for it.",
        "Use a version of TensorFlow that hroof was tested with (2.19 to 2.21).",
    )


@functools.cache
def framework_library() -> Any:
    """TensorFlow's own shared library, loaded already; None where it is not found."""
    import tensorflow as tf

    folder = Path(tf.sysconfig.get_lib())
    for path in sorted(folder.glob("libtensorflow_framework*.so*")) + sorted(
        folder.glob("libtensorflow_framework*.dylib")
    ):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


def trace_level() -> Any:
    """The number that says how much a running profiler notes (``.value``; 3 with shapes of inputs); or None.

    TensorFlow 2.20 and 2.21 ignore the level that the options of a session ask for. The number is -1 while none runs
    and is set anew by each start and stop, so nothing has to be restored.
    """
    library = framework_library()
    if library is None:
        return None
    try:
        return ctypes.c_int.in_dll(library, _TRACE_LEVEL)
    except ValueError:
        return None


def sync_devices() -> None:
    """Wait until all devices have done what they were given; nothing before TensorFlow 2.12, which cannot."""
    import tensorflow as tf

    sync = getattr(getattr(tf.test, "experimental", None), "sync_devices", None)
    if sync is not None:
        sync()
