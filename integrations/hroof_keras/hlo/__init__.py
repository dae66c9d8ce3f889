"""Compiled programs of XLA: the work of every instruction by rules, and the layer and phase that it serves."""

from hroof_keras.hlo.module import HloModule, Instruction

__all__ = ["HloModule", "Instruction"]
