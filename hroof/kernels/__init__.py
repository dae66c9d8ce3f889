"""Kernels: short names and families."""

from hroof.kernels.communication import COMMUNICATION, WITHOUT_COMMUNICATION
from hroof.kernels.families import family, op_family
from hroof.kernels.names import base_name, display_name, operation_name
from hroof.kernels.rules import Family

__all__ = [
    "COMMUNICATION",
    "WITHOUT_COMMUNICATION",
    "Family",
    "base_name",
    "display_name",
    "family",
    "op_family",
    "operation_name",
]
