"""Kernels: short names and families."""
