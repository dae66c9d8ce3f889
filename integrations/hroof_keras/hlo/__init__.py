"""Compiled programs of XLA: the work of every instruction by rules, and the layer and phase that it serves."""

from hroof_keras.hlo.module import HloModule, Instruction
from hroof_keras.hlo.places import HloPlaces

__all__ = ["HloModule", "HloPlaces", "Instruction"]
