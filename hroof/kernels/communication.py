"""Which kernels wait for other processes or devices: one pattern for Python and for ``ncu -k regex:``.

A collective waits for its peers. Under kernel replay launches are serialised, so that the peer never comes and the
program hangs: such kernels have to stay out of replay.
"""

from __future__ import annotations

COMMUNICATION = "|".join(
    (
        "[Nn][Cc][Cc][Ll]",  # NCCL and RCCL: ncclDevKernel_…, ncclKernel_…
        "[Mm][Ss][Cc][Cc][Ll]",  # MSCCL, MSCCL++
        "[Nn][Vv][Ss][Hh][Mm][Ee][Mm]",
        # PyTorch symmetric memory, by namespace and, where the name is printed without, by function
        "symmetric_memory",
        "(one|two)_shot_all_reduce",
        "multimem_(one_shot_)?(all|reduce)",
        "(put|wait)_signal_kernel",
        # TensorRT-LLM, vLLM, Transformer Engine, DeepEP
        "(one|two)ShotAllReduce",
        "allreduce_fusion_kernel",
        "cross_device_reduce",
        "userbuffers_",
        "deep_ep::",
    )
)
"""Finds (not: matches whole) the name of a kernel that communicates; read alike by Python and ECMAScript."""

WITHOUT_COMMUNICATION = f"^(?!.*({COMMUNICATION}))"
"""Finds the name of every other kernel: ``ncu -k regex:`` keeps what is found and has no negation of its own."""
