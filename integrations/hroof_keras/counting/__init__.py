"""Counted work: FLOP and bytes of executed TensorFlow nodes from their types, attributes and shapes."""

from hroof_keras.counting.buffers import Buffers
from hroof_keras.counting.inference import output_specs
from hroof_keras.counting.names import plain
from hroof_keras.counting.work import has_rule, work_of

__all__ = ["Buffers", "has_rule", "output_specs", "plain", "work_of"]
