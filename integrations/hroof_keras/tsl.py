"""Ranges of TensorFlow's own for a tool outside the process: they name each node that the graph executor runs.

TensorFlow launches from threads of its own, where no range of a Python thread is open. Its executor can name what it
runs itself (``hroof.collect.tsl``), but does so only while its own profiler of devices is at work. ``Unlock`` turns the
same switch for the steps that are captured.

What can be known before: that the library has the switch, that turning it has an effect, and that a tool listens to the
copy of NVTX within TensorFlow. What the tool then hears cannot be seen from here. [Heard by a tool without a GPU in
TensorFlow 2.19 and 2.21; that kernels on a GPU carry these ranges, and all that concerns XLA, was not run on one.]
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from types import TracebackType
from typing import Any, Self

from hroof.collect import nvtx
from hroof_keras.private import nvtx as private_nvtx

XLA_FLAGS = "XLA_FLAGS"
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
_COMMAND_BUFFERS = "xla_gpu_enable_command_buffer"


class Unlock:
    """Lets the graph executor name its nodes between ``start`` and ``stop``; also a context manager.

    Where they are named already, because TensorFlow's own profiler of devices runs, nothing is touched.
    """

    def __init__(self, annotations: private_nvtx.Annotations | None) -> None:
        self._annotations = annotations
        self._ours = False

    @property
    def running(self) -> bool:
        """Whether this object has switched the names on."""
        return self._ours

    def start(self) -> None:
        """From now on nodes are named; nothing where there is no switch."""
        if self._annotations is None or self._annotations.on:
            return
        self._annotations.on = True
        self._ours = self._annotations.on

    def stop(self) -> None:
        """As it was before; safe to call twice."""
        if self._annotations is not None and self._ours:
            self._ours = False
            self._annotations.on = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def unlock() -> Unlock:
    """The switch of the ranges of nodes; one that does nothing where ``why_not()`` gives a reason."""
    return Unlock(None if why_not() else private_nvtx.annotation_switch())


def why_not() -> str:
    """Why the graph executor's nodes will have no ranges, as the end of a sentence; empty where they should.

    TensorFlow has to be imported. For a moment nodes are named, to see that the switch has an effect.
    """
    annotations = private_nvtx.annotation_switch()
    if annotations is None:
        return f"TensorFlow {_version()} does not have the switch for them where hroof looks for it"
    if not annotations.heard():
        if not nvtx.active():
            return "no tool listens to NVTX in this process"
        return (
            f"this build of TensorFlow {_version()} emits no NVTX ranges "
            "(tensorflow-cpu does not; tensorflow for Linux on x86-64 does)"
        )
    if not _works(annotations):
        return f"the switch for them has no effect in TensorFlow {_version()}"
    return ""


def without_ranges(why: str) -> str:
    """The sentence for a run whose nodes have no ranges.

    Args:
        why: What ``why_not()`` said.
    """
    return (
        f"Steps have ranges, but the nodes within them have none, so layers and phases stay unknown: {why}. "
        "Kernels, their order and their steps are known all the same."
    )


def _works(annotations: private_nvtx.Annotations) -> bool:
    """Whether the switch can be turned on and off; on it may be already."""
    if annotations.on:
        return True
    annotations.on = True
    turned = annotations.on
    annotations.on = False
    return turned and not annotations.on


def _version() -> str:
    import tensorflow as tf

    return str(tf.__version__)


# --- the environment ----------------------------------------------------------------------------


def keep_thunks_apart(environment: MutableMapping[str, str] | None = None) -> str:
    """Ask XLA to launch each kernel by itself, since a graph of many hides which instruction launched what.

    It has an effect only before XLA compiles for the first time, and only on a GPU. [Not run on one.]

    Args:
        environment: By default that of this process.

    Returns:
        Why it was not asked for, as the end of a sentence; empty where it was, or where the user has decided it.
    """
    env = os.environ if environment is None else environment
    flags = env.get(XLA_FLAGS, "").strip()
    if f"--{_COMMAND_BUFFERS}" in flags:
        return ""
    if flags and not flags.startswith("-"):
        return f"{XLA_FLAGS} names a file of options ({flags}); add --{_COMMAND_BUFFERS}= to it"
    if not private_nvtx.has_xla_flag(_COMMAND_BUFFERS):
        return f"XLA in TensorFlow {_version()} has no option {_COMMAND_BUFFERS}"
    env[XLA_FLAGS] = f"{flags} --{_COMMAND_BUFFERS}=".strip()
    return ""


def memory_hint(environment: Mapping[str, str] | None = None) -> str:
    """A sentence for programs that hold nearly all memory of a GPU, as TensorFlow does by default; else empty.

    [Not run on a GPU.]
    """
    import tensorflow as tf

    env = os.environ if environment is None else environment
    devices = tf.config.list_physical_devices("GPU")
    if not devices or GROWTH in env or all(map(_grows, devices)):
        return ""
    return (
        "TensorFlow holds nearly all of the device's memory, which ncu may have to save for each kernel that it "
        f"repeats. To make it less, run with {GROWTH}=true."
    )


def _grows(device: Any) -> bool:
    import tensorflow as tf

    try:
        return bool(tf.config.experimental.get_memory_growth(device))
    except ValueError:  # the device has a fixed limit
        return True
