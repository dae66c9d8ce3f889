"""Private and fragile names of TensorFlow behind ranges of its own, and behind the programs that XLA makes of steps.

Like those of ``private``, each is probed where it is used.
"""

from __future__ import annotations

import ctypes
import inspect
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from hroof_keras.private import runtime as private

# --- NVTX -----------------------------------------------------------------------------------------

_ANNOTATIONS = "_ZN3tsl8profiler15AnnotationStack"
_ENABLE, _GENERATION = f"{_ANNOTATIONS}6EnableEb", f"{_ANNOTATIONS}11generation_E"
_DOMAIN = "_ZN3tsl8profiler21DefaultProfilerDomainEv"


class Annotations:
    """The switch of TensorFlow's annotations: while it is on, the graph executor names every node that it runs.

    A tool that listens to NVTX hears the names as ranges of the domain ``TSL``; without one they go to TensorFlow's
    own profiler of devices, which is what the switch is for.

    Raises:
        AttributeError: This build of TensorFlow does not have it.
    """

    def __init__(self, library: Any) -> None:
        try:
            self._enable, self._domain = library[_ENABLE], library[_DOMAIN]
            self._generation = ctypes.c_int.in_dll(library, _GENERATION)
        except ValueError as error:
            raise AttributeError(str(error)) from error
        self._enable.argtypes, self._enable.restype = [ctypes.c_bool], None
        self._domain.argtypes, self._domain.restype = [], ctypes.c_void_p

    @property
    def on(self) -> bool:
        """Whether nodes are named now."""
        return bool(self._generation.value & 1)

    @on.setter
    def on(self, value: bool) -> None:
        self._enable(value)

    def heard(self) -> bool:
        """Whether a tool listens to TensorFlow's own copy of NVTX; never in a build without NVTX."""
        return self._domain() is not None


def annotation_switch() -> Annotations | None:
    """The switch of annotations; None where this build of TensorFlow has none."""
    library = private.framework_library()
    if library is None:
        return None
    try:
        return Annotations(library)
    except AttributeError:
        return None


def has_xla_flag(name: str) -> bool:
    """Whether XLA has an option of this name. It ends the process over one in ``XLA_FLAGS`` that it does not have.

    No function tells without reading the variable for good, so the name is looked for in the libraries.
    """
    import tensorflow as tf

    folder = Path(tf.sysconfig.get_lib())
    for path in sorted(folder.glob("libtensorflow_*.*"), reverse=True):  # the small one first
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as library:
            if library.find(f"\0{name}\0".encode()) >= 0:
                return True
    return False


# --- Functions of a model -------------------------------------------------------------------------

_STEP_FUNCTIONS = ("train_function", "test_function", "predict_function")


def _closed_over(function: Any, name: str) -> Any:
    """A variable of the function around a function; None where there is none."""
    function = inspect.unwrap(function) if callable(function) else None
    if not inspect.isfunction(function):
        return None
    return inspect.getclosurevars(function).nonlocals.get(name)


def _step_functions(model: Any) -> list[Any]:
    """The TensorFlow functions of a Keras model that run one step, or several at once, as far as they were made."""
    made = (getattr(model, name, None) for name in _STEP_FUNCTIONS)
    found = (_closed_over(function, "multi_step_on_iterator") for function in made)
    return [function for function in found if _is_tf_function(function)]


def _is_tf_function(value: Any) -> bool:
    return hasattr(value, "_list_all_concrete_functions")


def compiled_programs(model: Any) -> list[bytes]:
    """The programs that XLA makes of a model's steps, serialised ``HloProto`` messages; each is compiled once more."""
    programs: dict[str, bytes] = {}
    for function in _step_functions(model):
        step = _closed_over(getattr(function, "python_function", None), "one_step_on_data")
        jitted: Any = None if step is None else inspect.unwrap(step, stop=_is_tf_function)
        if not _is_tf_function(jitted) or not getattr(jitted, "_jit_compile", False):
            continue
        for concrete in jitted._list_all_concrete_functions():
            arguments = _zeros(concrete.structured_input_signature)
            signature = str(concrete.structured_input_signature)
            if arguments is not None and signature not in programs:
                compiler = jitted.experimental_get_compiler_ir(*arguments[0], **arguments[1])
                programs[signature] = bytes(compiler(stage="optimized_hlo_proto_serialized"))
    return list(programs.values())


def _zeros(signature: Any) -> Any:
    """Tensors for a signature; None where a length is left open, for any that was chosen would be traced anew."""
    import tensorflow as tf

    if not all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(signature)):
        return None
    return tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), signature)


def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU."""
    import tensorflow

    return bool(tensorflow.config.list_physical_devices("GPU"))
