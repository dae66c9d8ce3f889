"""Private parts of JAX that hroof relies on: what is traced, in which scopes, and its profiler. Each is probed."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from hroof.errors import MissingError

_LIBRARY = "jax._src.lib"
_PROFILE = "jax._src.profiler"
_SCOPES = "jax._src.source_info_util"
_CORE = "jax._src.core"
_SYMBOLIC = "keras.src.backend.common.symbolic_scope"


def traces() -> bool:
    """Whether a function of JAX is being traced on this thread; ops run at once otherwise."""
    clean = getattr(_module(_CORE), "trace_state_clean", None)
    return clean is not None and not clean()


def is_symbolic() -> bool:
    """Whether Keras only works out shapes, for instance to build a model."""
    inside = getattr(_module(_SYMBOLIC), "in_symbolic_scope", None)
    return inside is not None and bool(inside())


def scopes() -> str:
    """The name scopes that are open, outermost first; empty where JAX does not tell."""
    stack = getattr(_module(_SCOPES), "current_name_stack", None)
    return "" if stack is None else str(stack())


def can_be_profiled() -> bool:
    """Whether what JAX runs here can be read from its profiler: on a processor, with the parts that are probed.

    On a GPU nothing of this was tried.
    """
    import jax

    library = getattr(_module(_LIBRARY), "_profiler", None)
    there = hasattr(library, "ProfilerSession") and hasattr(library, "ProfileOptions")
    names = hasattr(_module(_SCOPES), "current_name_stack")
    states = hasattr(_module(_CORE), "trace_state_clean")
    return there and names and states and jax.default_backend() == "cpu"


def profiler_session() -> Any:
    """A session of JAX' profiler, which takes a profile from now until its ``stop()``.

    Raises:
        MissingError: The profiler is not where hroof looks for it.
    """
    library = getattr(_module(_LIBRARY), "_profiler", None)
    session = getattr(library, "ProfilerSession", None)
    options = getattr(library, "ProfileOptions", None)
    if session is None or options is None:
        raise MissingError(
            "The profiler of JAX is not where hroof looks for it.",
            "Use a version of JAX that hroof was tested with (0.10).",
        )
    chosen = options()
    chosen.python_tracer_level = 0
    return session(chosen)


def profiler_runs() -> bool:
    """Whether the program takes a profile with JAX by itself."""
    state = getattr(_module(_PROFILE), "_profile_state", None)
    return getattr(state, "profile_session", None) is not None


def before_profiling(call: Callable[[], None]) -> Callable[[], None]:
    """Call ``call`` just before the program starts a profile with JAX; the result undoes this."""
    import jax

    module = _module(_PROFILE)
    original = jax.profiler.start_trace

    @functools.wraps(original)
    def start_trace(*args: Any, **kwargs: Any) -> Any:
        call()
        return original(*args, **kwargs)

    places = [place for place in (jax.profiler, module) if hasattr(place, "start_trace")]
    for place in places:
        setattr(place, "start_trace", start_trace)  # noqa: B010 - modules of several kinds

    def undo() -> None:
        for place in places:
            if place.start_trace is start_trace:
                place.start_trace = original

    return undo


def mark(name: str) -> None:
    """An instant of this thread in a profile of JAX."""
    import jax

    with jax.profiler.TraceAnnotation(name):
        pass


def _module(name: str) -> Any:
    """A module; None where this version has none of that name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
