"""Every private or fragile name of TensorFlow and Keras that hroof uses, in one place; each is probed where it is used.

TensorFlow is imported inside the functions: Keras may run without it.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hroof.errors import MissingError

# --- The profiler ---------------------------------------------------------------------------------

_PROFILER = "tensorflow.python.profiler.internal._pywrap_profiler"
_TRACEME = "tensorflow.python.profiler.internal._pywrap_traceme"
_XPLANE = ("tensorflow.tsl.profiler.protobuf.xplane_pb2", "xla.tsl.profiler.protobuf.xplane_pb2")
_TRACE_LEVEL = "_ZN3tsl8profiler8internal13g_trace_levelE"


def optional_module(name: str) -> Any:
    """A module of TensorFlow, or None where this version has none of that name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def profiler_session() -> Any:
    """A new session of TensorFlow's profiler: ``start(folder, options)``, then ``export_to_tb()``.

    Raises:
        MissingError: This version of TensorFlow has no such session.
    """
    kind = getattr(optional_module(_PROFILER), "ProfilerSession", None)
    if kind is None or not hasattr(kind, "export_to_tb"):
        raise MissingError(
            "TensorFlow's profiler was not found where hroof looks for it, so no times can be taken.",
            "Use a version of TensorFlow that hroof was tested with (2.19 to 2.21).",
        )
    return kind()


def profiler_runs() -> bool:
    """Whether a session of TensorFlow's profiler is running, whoever started it."""
    enabled = getattr(optional_module(_TRACEME), "traceme_enabled", None)
    return enabled is not None and bool(enabled())


def trace_event(name: str) -> None:
    """Note one moment in the profile that is being taken; nothing where none is."""
    event = getattr(optional_module(_TRACEME), "TraceMe", None)
    if event is not None:
        event(name).Stop()


def before_profiling(call: Callable[[], None]) -> Callable[[], None]:
    """Call ``call`` just before anybody else starts a session of the profiler; the result undoes this.

    Every way to start one from Python ends in the same class, so it is replaced in its module.
    """
    module = optional_module(_PROFILER)
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
        module = optional_module(name)
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


# --- Layers and graphs ----------------------------------------------------------------------------

_SCRATCH = "scratch_graph"
_AUTO_NAME = "keras.src.utils.naming"
_BACKPROP = "tensorflow.python.eager.backprop"


def sublayers(layer: Any) -> list[Any]:
    """The layers that a Keras layer holds directly."""
    return list(getattr(layer, "_layers", ()))


def own_weights(layer: Any) -> list[Any]:
    """The weights of a Keras layer that no layer below it holds."""
    below = {id(weight) for child in sublayers(layer) for weight in child.weights}
    return [weight for weight in layer.weights if id(weight) not in below]


def is_keras_own(kind: type) -> bool:
    """Whether a class comes with Keras."""
    return kind.__module__.split(".")[0] in ("keras", "tf_keras")


def has_made_up_name(layer: Any) -> bool:
    """Whether a layer's name is the one that Keras makes from its class, perhaps with a number."""
    to_snake_case = getattr(optional_module(_AUTO_NAME), "to_snake_case", None)
    if to_snake_case is None:
        return False
    made_up = to_snake_case(type(layer).__name__)
    return re.fullmatch(rf"{re.escape(made_up)}(_\d+)?", layer.name) is not None


def is_scratch(graph: Any) -> bool:
    """Whether a graph, or one around it, only serves Keras to infer shapes: its ops never run."""
    while graph is not None:
        if str(getattr(graph, "name", "")).startswith(_SCRATCH):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def outermost_graph(graph: Any) -> Any:
    """The graph of the function that is called from outside any, by way of the graphs of loops and inner functions."""
    while hasattr(getattr(graph, "outer_graph", None), "outer_graph"):
        graph = graph.outer_graph
    return graph


def default_graph() -> Any:
    """The graph that ops go into now."""
    import tensorflow as tf

    return tf.compat.v1.get_default_graph()


def optimizer_classes() -> list[type]:
    """The classes of Keras with an ``apply`` of their own through which optimizers update their variables."""
    import keras

    kinds = [*keras.optimizers.Optimizer.__mro__, keras.optimizers.LossScaleOptimizer]
    return [kind for kind in kinds if "apply" in vars(kind)]


def collect_graphs(on: bool) -> None:
    """Let TensorFlow keep the graphs of functions that it instantiates, or no longer."""
    from tensorflow.python.eager import context

    if on:
        context.context().enable_graph_collection()
    else:
        context.context().disable_graph_collection()


def collected() -> Any:
    """The ``RunMetadata`` with the graphs that were kept since collection began or this was last asked."""
    from tensorflow.python.eager import context

    return context.context().export_run_metadata()


def array(tensor: Any) -> Any:
    """The NumPy array in a ``TensorProto``."""
    import tensorflow as tf

    return tf.make_ndarray(tensor)


def inside_gradient(frame: Any) -> bool:
    """Whether code runs on behalf of a gradient that is being traced, as recomputation does."""
    while frame is not None:
        if frame.f_globals.get("__name__") == _BACKPROP and frame.f_code.co_name == "gradient":
            return True
        frame = frame.f_back
    return False


# --- Traced functions -----------------------------------------------------------------------------


def traced_graphs() -> list[Any]:
    """The graphs of traced functions that still exist, without those that serve Keras or the input pipeline."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    if not tf.executing_eagerly() or not context.context().list_function_names():
        return []
    return [g for g in _function_graphs() if not _of_pipeline(g) and not is_scratch(g)]


def pipeline_graphs() -> list[Any]:
    """The graphs of the functions with which the input pipeline makes batches, as far as they still exist."""
    return [graph for graph in _function_graphs() if _of_pipeline(graph)]


def _function_graphs() -> list[Any]:
    import tensorflow as tf

    kind = tf.__internal__.FuncGraph
    return [known for known in gc.get_objects() if issubclass(type(known), kind)]


def _of_pipeline(graph: Any) -> bool:
    return str(graph.name).startswith("Dataset_")


def keras_layers() -> list[Any]:
    """All layers and models that exist."""
    import keras

    return [known for known in gc.get_objects() if issubclass(type(known), keras.Layer)]


def keras_optimizers() -> list[Any]:
    """All optimizers that exist."""
    import keras

    kinds = (keras.Optimizer, keras.optimizers.LossScaleOptimizer)
    return [known for known in gc.get_objects() if issubclass(type(known), kinds)]


def captures(graph: Any) -> list[tuple[Any, Any]]:
    """What a traced function takes from outside: (tensor outside, tensor inside)."""
    return list(graph.captures)


def handle(variable: Any) -> Any:
    """The tensor through which graphs reach a Keras variable; None while it has no value."""
    return getattr(getattr(variable, "value", None), "handle", None)


def node_definitions(graph: Any) -> list[Any]:
    """The ``NodeDef`` messages of a traced function and of all that it calls."""
    definition = graph.as_graph_def()
    return [*definition.node, *(n for f in definition.library.function for n in f.node_def)]


def instantiate_anew() -> Callable[[], None]:
    """Let this thread's calls of traced functions make new executables, beside those there are; the result ends this.

    The name that is given to the session means nothing to what is computed, but it is part of what executables are kept
    by. Nothing is traced again.

    Raises:
        MissingError: This version of TensorFlow keeps the options of calls elsewhere.
    """
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context

    options: Any = getattr(context.context(), "function_call_options", None)
    serialized = getattr(options, "config_proto_serialized", None)
    if serialized is None:
        raise MissingError(
            "The graphs of functions that were traced before the region began cannot be had.",
            "Open the region before the first step.",
        )
    config = config_pb2.ConfigProto.FromString(serialized)
    config.experimental.session_metadata.name = "hroof"
    context.context().function_call_options = context.FunctionCallOptions(
        executor_type=options.executor_type, config_proto=config
    )

    def restore() -> None:
        context.context().function_call_options = options

    return restore


# --- Ceilings -------------------------------------------------------------------------------------


def direct_call(concrete: Any) -> Callable[..., Any]:
    """The shortest way to call a concrete function: a third of the time of its own ``__call__``, which is the fallback.

    Args:
        concrete: Without captured tensors; its arguments are given one after the other.
    """
    inner = getattr(concrete, "_inference_function", None)
    short: Callable[..., Any] | None = getattr(inner, "call_flat", None)
    return concrete if short is None else short


def graph_of_function(function: Any) -> tuple[Any, dict[str, str]]:
    """A ``FunctionDef`` as a ``GraphDef``, and its tensors' names there by their names in the function."""
    from tensorflow.python.framework import function_def_to_graph

    graph, names = function_def_to_graph.function_def_to_graph_def(function)
    return graph, names
