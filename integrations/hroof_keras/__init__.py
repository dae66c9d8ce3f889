"""Keras and TensorFlow for hroof: a callback, layers and phases, counted work, timing, ceiling kernels."""

from __future__ import annotations

FRAMEWORK = "keras"

__all__ = ["FRAMEWORK"]
