"""What one multiprocessor of a CUDA device can do in a cycle at most, by compute capability.

From the table of arithmetic throughput in the CUDA C++ Programming Guide and, for tensor cores and L1, from the peaks
per cycle that Nsight Compute reports for A100 and H100 (dense). A capability or a unit that is not listed has no limit
here, and is not checked.
"""

from __future__ import annotations

_FMA = 2
_L1 = 128.0

_FMA_LANES: dict[tuple[int, int], dict[str, int]] = {
    (7, 0): {"fp64": 32, "fp32": 64, "fp16": 128, "int32": 64},
    (7, 5): {"fp64": 2, "fp32": 64, "fp16": 128, "int32": 64},
    (8, 0): {"fp64": 32, "fp32": 64, "fp16": 256, "bf16": 256, "int32": 64},
    (8, 6): {"fp64": 2, "fp32": 128, "fp16": 256, "bf16": 256, "int32": 64},
    (8, 9): {"fp64": 2, "fp32": 128, "fp16": 256, "bf16": 256, "int32": 64},
    (9, 0): {"fp64": 64, "fp32": 128, "fp16": 256, "bf16": 256, "int32": 64},
}
"""Multiply-adds per cycle in the vector units; two values in one register count twice."""
_TENSOR: dict[tuple[int, int], dict[str, int]] = {
    (8, 0): {"fp64": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048, "int8": 4096},
    (9, 0): {
        "fp64": 256,
        "tf32": 2048,
        "fp16": 4096,
        "bf16": 4096,
        "fp8": 8192,
        "int8": 8192,
    },
}
"""Operations per cycle in the tensor cores; a multiply-add is two."""


def per_cycle(capability: tuple[int, int]) -> dict[str, float]:
    """The most that a multiprocessor can do in a cycle: operations, or bytes.

    Args:
        capability: Compute capability of the device.

    Returns:
        By name of the ceiling, such as ``vector_fp32``, ``matrix_bf16`` and ``l1``; empty where nothing is known.
    """
    lanes = _FMA_LANES.get(capability, {})
    found = {f"vector_{precision}": float(_FMA * count) for precision, count in lanes.items()}
    if "fp32" in lanes:
        # Products of fp32 values that are not shortened run in the vector units.
        found["matrix_fp32"] = found["vector_fp32"]
        found["l1"] = _L1
    tensor = _TENSOR.get(capability, {})
    return found | {f"matrix_{precision}": float(rate) for precision, rate in tensor.items()}
