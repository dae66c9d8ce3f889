"""Recurrent layers in one op: per time step, sample, layer and direction, one multiply-add per weight.

With gates G (4 for LSTM, 3 for GRU, 1 for a plain RNN), inputs I and hidden units H that is ``G · H · (I + H)``.
The backward pass multiplies twice: by the transposed weights for the inputs, and for the weights themselves.
Biases and gates are vector work by convention. The cuDNN ops were written from their definitions and not run
on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from hroof_keras.counting import weights
from hroof_keras.counting.flop import Call, Flop, UncountableError, matrix, rule, size, vector

_GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}
_FORWARD = {"lstm": weights.LSTM_CELL, "gru": weights.GRU_CELL}
_BACKWARD = {"lstm": weights.LSTM_CELL_BACKWARD, "gru": weights.GRU_CELL_BACKWARD}


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers of one cuDNN op.

    Attributes:
        tokens: Time steps times samples.
        weights: Matrix elements of all layers and directions.
        units: Hidden units of all layers and directions.
        mode: ``lstm``, ``gru``, ``rnn_relu`` or ``rnn_tanh``.
    """

    tokens: int
    weights: int
    units: int
    mode: str


def _stack(call: Call) -> Stack:
    node = call.node
    mode = node.text("rnn_mode", "lstm")
    if mode not in _GATES:
        raise UncountableError(f"its mode {mode!r} is not known")
    directions = 2 if node.text("direction", "unidirectional") == "bidirectional" else 1
    x, state = call.shape(0), call.shape(1)
    layers, fed_back = state[0] // directions, state[-1]
    hidden = call.shape(2)[-1] if node.integer("num_proj") else fed_back
    per_layer = [
        _GATES[mode] * hidden * ((x[-1] if layer == 0 else directions * fed_back) + fed_back)
        for layer in range(layers)
    ]
    projection = fed_back * hidden if node.integer("num_proj") else 0
    elements = directions * (sum(per_layer) + layers * projection)
    return Stack(size(x[:-1]), elements, layers * directions * hidden, mode)


def _recurrent(call: Call, stack: Stack, passes: int, cell: float) -> Flop:
    products = matrix(call.dtype(), float(passes * stack.tokens * stack.weights), tf32=call.tf32)
    return products + vector(call.dtype(), float(stack.tokens * stack.units), cell)


@rule("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def _cudnn(call: Call) -> Flop:
    stack = _stack(call)
    return _recurrent(call, stack, 1, _FORWARD.get(stack.mode, weights.RNN_CELL))


@rule("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3")
def _cudnn_gradient(call: Call) -> Flop:
    """Gradients of the inputs and of the weights; cuDNN gives both."""
    stack = _stack(call)
    return _recurrent(call, stack, 2, _BACKWARD.get(stack.mode, weights.RNN_CELL_BACKWARD))


def _block(call: Call, x: int, w: int, passes: int, cell: float) -> Flop:
    steps, weight = call.shape(x), call.shape(w)
    tokens = size(steps[:-1])
    stack = Stack(tokens, size(weight), weight[-1] // 4, "lstm")
    return _recurrent(call, stack, passes, cell)


@rule("BlockLSTM", "BlockLSTMV2")
def _block_lstm(call: Call) -> Flop:
    """Inputs: sequence length, x (time, batch, features), the two states, the weights of input and state."""
    return _block(call, 1, 4, 1, weights.LSTM_CELL)


@rule("BlockLSTMGrad", "BlockLSTMGradV2")
def _block_lstm_gradient(call: Call) -> Flop:
    return _block(call, 1, 4, 2, weights.LSTM_CELL_BACKWARD)


@rule("LSTMBlockCell")
def _lstm_cell(call: Call) -> Flop:
    """Inputs: x (batch, features), the two states, the weights."""
    return _block(call, 0, 3, 1, weights.LSTM_CELL)
