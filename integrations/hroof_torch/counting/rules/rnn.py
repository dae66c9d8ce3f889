"""Recurrent layers: per time step, sample, layer and direction, one multiply-add per weight.

With gates G (4 for LSTM, 3 for GRU, 1 for a plain RNN), inputs I and hidden units H that is ``G · H · (I + H)``.
The backward pass multiplies twice: by the transposed weights for the inputs, and for the weights themselves.
Biases and gates are vector work by convention.
"""

from __future__ import annotations

from typing import Any

from hroof_torch.counting import weights
from hroof_torch.counting.rules.flop import Call, Flop, matrix, rule, size, vector

_LSTM, _GRU = 2, 3
"""Values of ``mode`` in the library ops; 0 and 1 are plain RNNs."""

_CELLS = {
    False: {_LSTM: weights.LSTM_CELL, _GRU: weights.GRU_CELL},
    True: {_LSTM: weights.LSTM_CELL_BACKWARD, _GRU: weights.GRU_CELL_BACKWARD},
}


def _cell(mode: int, backward: bool) -> float:
    plain = weights.RNN_CELL_BACKWARD if backward else weights.RNN_CELL
    return _CELLS[backward].get(mode, plain)


def _recurrent(
    x: Any, matrices: list[Any], mode: int, units: int, *, backward: bool = False, passes: int = 1
) -> Flop:
    """Work of weights that are applied once per time step and sample.

    Args:
        x: Input (T, B, I), (B, T, I), or (tokens, I) when packed.
        matrices: The two-dimensional weights.
        mode: 2 for LSTM, 3 for GRU.
        units: Hidden units of all layers and directions.
        backward: The gradient.
        passes: How often each weight is multiplied.
    """
    steps = size(x.shape[:-1])
    macs = steps * sum(weight.numel() for weight in matrices)
    return matrix(x, passes * macs) + vector(x.dtype, steps * units, _cell(mode, backward))


@rule("mkldnn_rnn_layer")
def _mkldnn(call: Call) -> Flop:
    return _recurrent(
        call["input"], [call["weight0"], call["weight1"]], call["mode"], call["hidden_size"]
    )


@rule("mkldnn_rnn_layer_backward")
def _mkldnn_backward(call: Call) -> Flop:
    matrices = [call["weight1"], call["weight2"]]
    return _recurrent(
        call["input"], matrices, call["mode"], call["hidden_size"], backward=True, passes=2
    )


def _stack(call: Call) -> tuple[list[Any], int]:
    matrices = [weight for weight in call["weight"] if weight.dim() == 2]
    directions = 2 if call["bidirectional"] else 1
    return matrices, call["hidden_size"] * call["num_layers"] * directions


@rule("_cudnn_rnn", "miopen_rnn")
def _library(call: Call) -> Flop:
    matrices, units = _stack(call)
    return _recurrent(call["input"], matrices, call["mode"], units)


@rule("_cudnn_rnn_backward", "miopen_rnn_backward")
def _library_backward(call: Call) -> Flop:
    """Gradients of the inputs always; of the weights when they are asked for."""
    matrices, units = _stack(call)
    passes = 1 + int(call["output_mask"][3])
    return _recurrent(call["input"], matrices, call["mode"], units, backward=True, passes=passes)


@rule("_thnn_fused_lstm_cell")
def _lstm_cell(call: Call) -> Flop:
    return vector(call.out.dtype, call.out.numel(), weights.LSTM_CELL)


@rule("_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_lstm_cell_backward")
def _lstm_cell_backward(call: Call) -> Flop:
    cell = call["cx"]
    return vector(cell.dtype, cell.numel(), weights.LSTM_CELL_BACKWARD)


@rule("_thnn_fused_gru_cell")
def _gru_cell(call: Call) -> Flop:
    return vector(call.out.dtype, call.out.numel(), weights.GRU_CELL)


@rule("_thnn_fused_gru_cell_backward")
def _gru_cell_backward(call: Call) -> Flop:
    grad = call["grad_hy"]
    return vector(grad.dtype, grad.numel(), weights.GRU_CELL_BACKWARD)
