"""What to do about a finding where that depends on the framework: wordings as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LAYER: Mapping[str, Mapping[str, str]] = {
    "launch": {
        "": "Launch fewer, larger ops: fuse small ones (compile the model), or use a larger batch.",
        "torch": "Launch fewer, larger ops: torch.compile the model, or use a larger batch.",
        "keras": "Launch fewer, larger ops: compile the step with jit_compile=True, or use a larger batch.",
        "keras compiled": "Launch fewer, larger ops: use a larger batch, or fewer and wider layers.",
    },
    "memory": {
        "": (
            "Move fewer bytes through {bound}: fuse neighbouring ops, avoid copies and layout "
            "changes, or use a smaller number format."
        ),
    },
    "compute": {
        "": (
            "Use the {bound} unit better: larger or rounder shapes, another memory layout, or a "
            "faster implementation of the op."
        ),
    },
    "latency": {
        "": (
            "Give each launch more that can run in parallel (a larger batch, one batched op for a loop of small ones), "
            "let it read memory in order, or take another implementation of the op."
        ),
        "torch": (
            "Give each launch more that can run in parallel (a larger batch, torch.bmm or torch.vmap for a loop of "
            "small ops), let it read memory in order (.contiguous() before many passes), or take another op."
        ),
        "keras": (
            "Give each launch more that can run in parallel (a larger batch, keras.ops.vectorized_map for a loop of "
            "small ops), let it read memory in order, or take another op for the same."
        ),
    },
}
"""One layer, by the kind of its finding; ``{bound}`` is what bounds it."""

PRECISION = {
    "": "Train in mixed precision with {precision} where the model tolerates it.",
    "torch": (
        "Train in mixed precision with {precision} where the model tolerates it: torch.autocast(device_type, "
        "dtype=torch.{name}) around the forward pass and the loss."
    ),
    "keras": (
        "Train in mixed precision with {precision} where the model tolerates it: keras.config.set_dtype_policy("
        '"mixed_{name}") before the model is built.'
    ),
}
"""Matrix work in a wide format; ``{precision}`` is the narrower one and ``{name}`` its name in the framework."""

TF32 = {
    "": "Let matrix products round their inputs to {precision} where the model tolerates it.",
    "torch": (
        'Let matrix products round their inputs to {precision}: torch.set_float32_matmul_precision("high"), where the '
        "model tolerates it."
    ),
    "keras": (
        "Let matrix products round their inputs to {precision}: tf.config.experimental."
        "enable_tensor_float_32_execution(True), where the model tolerates it."
    ),
    "keras on torch": (
        'Let matrix products round their inputs to {precision}: torch.set_float32_matmul_precision("high"), where the '
        "model tolerates it."
    ),
    "keras on jax": (
        "Let matrix products round their inputs to {precision}: "
        'jax.config.update("jax_default_matmul_precision", "tensorfloat32"), where the model tolerates it.'
    ),
}
"""Matrix work in fp32 on a unit that takes TF32."""

DOUBLE = {
    "": "Hand the model fp32: convert the data where they are read.",
    "torch": (
        "Hand the model fp32: convert the data where they are read (array.astype(numpy.float32) or .float()), and "
        "leave torch.set_default_dtype and .double() out."
    ),
    "keras": (
        'Hand the model fp32: convert the data where they are read, and leave keras.config.set_floatx("float64") out.'
    ),
}
"""Work in fp64."""

LAUNCHES = {
    "": "Fuse them: compile the model, batch small ops together, or replay the step as a graph.",
    "torch": (
        "Fuse them: torch.compile the model (on a GPU with mode='reduce-overhead', which replays it as a graph), or "
        "batch small ops together."
    ),
    "keras": (
        "Fuse them: compile the step with jit_compile=True, batch small ops together, or run several steps a call with "
        "steps_per_execution."
    ),
    "keras compiled": "Batch small ops together: what is compiled already still launches them one by one.",
    "keras on torch": "Fuse them: compile the step with jit_compile=True, or batch small ops together.",
}
"""Launches that cost more than their work."""

FUSING = {
    "": "Fuse neighbouring elementwise ops, so that intermediate results stay in registers.",
    "torch": (
        "Fuse neighbouring elementwise ops with torch.compile, so that intermediate results stay in registers, or "
        "write them as one op that PyTorch has (torch.addcmul, functional.gelu, functional.layer_norm …)."
    ),
    "keras": (
        "Fuse neighbouring elementwise ops with jit_compile=True, so that intermediate results stay in registers."
    ),
    "keras compiled": (
        "Write these elementwise ops as fewer ones: the compiler left them apart, as it does where another op needs a "
        "result too."
    ),
}
"""Chains of elementwise ops."""

REUSE = {
    "": (
        "Do more with what {near} holds: a larger batch, one batched op for many small calls, or an implementation "
        "that works in blocks."
    ),
    "torch": (
        "Do more with what {near} holds: a larger batch, one call with all rows (torch.stack, torch.bmm) for many "
        "small calls, or an implementation that works in blocks (functional.scaled_dot_product_attention)."
    ),
    "keras": (
        "Do more with what {near} holds: a larger batch, one call with all rows (keras.ops.stack) for many small "
        "calls, or an implementation that works in blocks (keras.ops.dot_product_attention)."
    ),
}
"""Matrix work that a far level bounds; ``{near}`` is the level before it."""

LAYOUTS = {
    "": "Keep one memory layout from layer to layer, and write results where they are wanted instead of joining them.",
    "torch": (
        "Keep one memory layout from layer to layer: leave .contiguous() and .clone() out, convert model and input to "
        "channels_last once, and write into slices of one tensor instead of torch.cat."
    ),
    "keras": (
        "Keep one data_format from layer to layer (keras.config.image_data_format()), leave Permute and Reshape "
        "between layers out, and concatenate once instead of at each layer."
    ),
}
"""Copies and layout changes."""

FORMATS = {
    "": "Keep one number format from op to op, and convert data and weights once, outside the step.",
    "torch": (
        "Keep one number format from op to op: leave .to(dtype), .float() and .half() out of the forward pass, and "
        "convert data once, where they are read; torch.autocast converts each weight once a step, not once a use."
    ),
    "keras": (
        "Keep one number format from layer to layer: one dtype policy for the whole model, no keras.ops.cast between "
        "layers, and data that come in the format of the first layer."
    ),
}
"""Conversions of number formats."""

PADDING = {
    "": "Use smaller kernels or less padding where maps are small, or fewer strides before them.",
    "keras": (
        'Use smaller kernels or padding="valid" where maps are small, or fewer strides before them.'
    ),
}
"""Convolutions that multiply padding."""

RECOMPUTE = {
    "": "Checkpoint fewer layers, or keep the cheap-to-store results.",
    "torch": (
        "Checkpoint fewer layers, or keep the results that are dear to compute: "
        "torch.utils.checkpoint.create_selective_checkpoint_contexts."
    ),
    "keras": (
        'Checkpoint fewer layers, or only large results: keras.RematScope(mode="larger_than").'
    ),
}
"""Work that checkpointing runs again."""

IDLE = {
    "": "Look for waiting on data, synchronisation and slow Python between the ops, or compile.",
    "torch": (
        "Look for waiting on data, for synchronisation (.item(), .cpu(), print of a loss) and for slow Python between "
        "the ops, or torch.compile the model."
    ),
    "keras": (
        "Look for waiting on data, for callbacks that work after each batch and for run_eagerly=True, or run several "
        "steps a call with steps_per_execution."
    ),
    "keras on torch": (
        "Look for waiting on data, for callbacks that work after each batch and for slow Python between the ops, or "
        "compile the step with jit_compile=True."
    ),
}
"""Time in which nothing runs."""

RANKS = {
    "": "Give each rank the same work, and compare the clocks of their devices.",
    "torch": (
        "Give each rank the same work: batches of equal length (sorted into buckets, or a limit of tokens), stages of "
        "equal time, drop_last=True; then compare the clocks of their devices."
    ),
}
"""Ranks that wait for the slowest one."""

OPTIMIZER = {
    "": "Use the fused variant of the optimizer, or the foreach one where there is none.",
    "torch": (
        "Use the fused variant of the optimizer: fused=True, which Adam, AdamW, SGD and Adagrad take; for others "
        "foreach=True, which spares launches on a GPU."
    ),
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


def dtype(precision: str) -> str:
    """The name that the frameworks give a number format: ``bfloat16``."""
    return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}.get(precision, precision)


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
