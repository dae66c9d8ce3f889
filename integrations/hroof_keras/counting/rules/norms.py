"""Batch norms, whose weight depends on whether they train, and losses that come with their gradient."""

from __future__ import annotations

from hroof_keras.counting import weights
from hroof_keras.counting.flop import NO_FLOP, Call, Flop, rule, size, vector


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "FusedBatchNormEx")
def _batch_norm(call: Call) -> Flop:
    """An activation or a second summand that is fused in adds one operation each per element."""
    trains = call.node.flag("is_training", True)
    weight = weights.BATCH_NORM_TRAINING if trains else weights.BATCH_NORM_INFERENCE
    elements = size(call.shape(0))
    extra = float(call.node.integer("num_side_inputs") > 0)
    extra += call.node.text("activation_mode", "Identity") != "Identity"
    flop = vector(call.dtype(), elements, weight)
    return flop + vector(call.dtype(), elements, extra, least=0.0) if extra else flop


@rule("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", "FusedBatchNormGradEx")
def _batch_norm_gradient(call: Call) -> Flop:
    return vector(call.dtype(), size(call.shape(0)), weights.BATCH_NORM_BACKWARD)


@rule("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_loss(call: Call) -> Flop:
    """Softmax, loss and gradient of one class per row."""
    logits = call.shape(0)
    flop = vector(call.dtype(), size(logits), weights.SOFTMAX_LOSS)
    return flop + vector(call.dtype(), size(logits[:-1]), weights.SPARSE_TARGET)


@rule("SoftmaxCrossEntropyWithLogits")
def _dense_loss(call: Call) -> Flop:
    """Softmax, loss and gradient of a distribution per row."""
    elements = size(call.shape(0))
    return vector(call.dtype(), elements, weights.SOFTMAX_LOSS + weights.DENSE_TARGET)


@rule("LRN")
def _local_response(call: Call) -> Flop:
    """Squares, the sum over the neighbouring channels, scale, power and product, per element."""
    if (elements := size(call.shape(0))) == 0:
        return NO_FLOP
    window = 2 * call.node.integer("depth_radius", 5) + 1
    return vector(call.dtype(), elements, window + 5.0)
