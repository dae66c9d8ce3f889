"""Batch norms, whose weight depends on whether they train; the other norms follow the tables."""

from __future__ import annotations

from hroof_torch.counting import weights
from hroof_torch.counting.rules.flop import Call, Flop, rule, vector


@rule(
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "_batch_norm_with_update",
    "_batch_norm_with_update_functional",
    "_batch_norm_no_update",
    "cudnn_batch_norm",
    "miopen_batch_norm",
)
def _batch_norm(call: Call) -> Flop:
    training = call.first("training", "train")
    if training is None:
        training = "update" in call.info.base and "no_update" not in call.info.base
    weight = weights.BATCH_NORM_TRAINING if training else weights.BATCH_NORM_INFERENCE
    x = call["input"]
    return vector(x.dtype, x.numel(), weight)


@rule(
    "native_batch_norm_backward",
    "batch_norm_backward",
    "cudnn_batch_norm_backward",
    "miopen_batch_norm_backward",
)
def _batch_norm_backward(call: Call) -> Flop:
    x = call["input"]
    return vector(x.dtype, x.numel(), weights.BATCH_NORM_BACKWARD)


@rule("batch_norm_stats", "batch_norm_backward_reduce")
def _statistics(call: Call) -> Flop:
    x = call["input"]
    return vector(x.dtype, x.numel(), 4.0)


@rule("batch_norm_elemt", "batch_norm_backward_elemt")
def _elements(call: Call) -> Flop:
    x = call["input"]
    return vector(x.dtype, x.numel(), 4.0)


@rule("batch_norm_gather_stats", "batch_norm_gather_stats_with_counts", "batch_norm_update_stats")
def _gathered(call: Call) -> Flop:
    x = call.first("mean", "input")
    return vector(x.dtype, x.numel(), 4.0)
