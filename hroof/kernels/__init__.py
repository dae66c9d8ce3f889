"""Kernels: short names and families."""

from hroof.kernels.names import base_name, display_name, operation_name

__all__ = ["base_name", "display_name", "operation_name"]
