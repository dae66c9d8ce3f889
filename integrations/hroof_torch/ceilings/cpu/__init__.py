"""Kernels that measure a CPU."""
