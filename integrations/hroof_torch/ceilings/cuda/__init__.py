"""Kernels that measure a CUDA device, and what is known of it."""
