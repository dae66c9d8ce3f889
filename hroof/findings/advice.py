"""What to do about a finding where that depends on the framework: wordings as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OPTIMIZER = {
    "": "Use the fused variant of the optimizer, or the foreach one where there is none.",
    "keras": "Compile the step with jit_compile=True, which fuses the updates of the optimizer.",
    "keras compiled": (
        "Its updates are compiled already: keep its state in a smaller format, or update fewer, larger tensors."
    ),
    "keras on torch": (
        "Update fewer, larger tensors: Keras' optimizers take no fused variant of PyTorch's; a loop of your own can."
    ),
}
"""An optimizer that launches many ops."""

LOADING = {
    "": "Load ahead: more loader workers, prefetching, pinned memory.",
    "keras": (
        "Load ahead: tf.data with map(…, num_parallel_calls=…) and prefetch(tf.data.AUTOTUNE), or "
        "PyDataset(workers=…, use_multiprocessing=True)."
    ),
    "keras on torch": (
        "Load ahead: a DataLoader with more workers and pinned memory, or PyDataset(workers=…)."
    ),
    "keras on jax": "Load ahead: tf.data with prefetch, or PyDataset(workers=…).",
}
"""Data that are loaded inside the step."""


def advice(about: Mapping[str, str], run: Mapping[str, Any]) -> str:
    """The words for the framework of a run: for its backend, else for the framework, else the general ones.

    Args:
        about: One of the tables above.
        run: The facts of a run, as a file may hold them.
    """
    facts = run.get("facts")
    known: Mapping[str, Any] = facts if isinstance(facts, Mapping) else {}
    # Only Keras notes a backend; where PyTorch computes for it, the framework is that.
    framework = "keras" if known.get("backend") else run.get("framework")
    names = [f"{framework} on {known.get('backend')}"]
    names += [f"{framework} compiled"] if known.get("jit_compile") is True else []
    return next((about[name] for name in (*names, str(framework)) if name in about), about[""])
