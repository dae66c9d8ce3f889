"""Keras on the JAX backend."""
