"""Kernels that measure the vector units of a CUDA device: chains of multiply-adds in registers.

Each thread has 8 independent chains and each multiprocessor 1024 threads, so no instruction waits for another one.
The values alternate between x and 1 − x, with scattered low bits: nothing overflows, and bits change as they do in a
program. Not run on a GPU so far.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from hroof.integration import CeilingKernel, Device
from hroof.units import Pipe, Precision
from hroof_torch.ceilings.cuda.memory import multiprocessors
from hroof_torch.ceilings.cuda.program import Launcher, capability
from hroof_torch.ceilings.cuda.timing import Prepared, Timer

_BLOCKS_PER_UNIT, _THREADS = 2, 512
_CHAINS, _STEPS = 8, 16
_ROUNDS = 4096
_FP64_ROUNDS = 1024
"""Fewer, since on many devices the unit for fp64 is 64 times slower than that for fp32."""
_GIGA = 1e9
_COUNTED = "A multiply-add is 2 operations; 8 independent chains per thread, in registers."
_APART = "Products and sums as instructions of their own: what a program without multiply-adds can reach."


@dataclass(frozen=True)
class Bits:
    """Start, the bits of it that are scattered over threads and chains, factor and term of x → x·factor + term."""

    start: int
    loose: int
    factor: int
    term: int

    def twice(self, width: int) -> Bits:
        """The same for two values in one register, each of some bits."""
        both = (1 << width) + 1
        return Bits(self.start * both, self.loose * both, self.factor * both, self.term * both)


# From 0.5 to 1, and −1 and 1: x → 1 − x is exact, there and back.
_FP64 = Bits(0x3FE0000000000000, 0x000FFFFFFFFFFFFF, 0xBFF0000000000000, 0x3FF0000000000000)
_FP32 = Bits(0x3F000000, 0x007FFFFF, 0xBF800000, 0x3F800000)
_FP16 = Bits(0x3800, 0x03FF, 0xBC00, 0x3C00).twice(16)
_BF16 = Bits(0x3F00, 0x007F, 0xBF80, 0x3F80).twice(16)
_INT = Bits(0x00000001, 0xFFFFFFFF, 0x9E3779B1, 0x7F4A7C15)


@dataclass(frozen=True)
class Chain:
    """One of the kernels of chains.

    Attributes:
        kernel: Its name in the source.
        precision: Which ceiling it measures.
        operations: Per thread and step.
        bits: Its values.
        first: The compute capability from which it exists.
        apart: Products and sums are separate instructions.
    """

    kernel: str
    precision: Precision
    operations: int
    bits: Bits
    first: tuple[int, int] = (7, 0)
    apart: bool = False


CHAINS = (
    Chain("fma_f64", Precision.FP64, 2, _FP64),
    Chain("fma_f32", Precision.FP32, 2, _FP32),
    Chain("fma_f32x2", Precision.FP32, 4, _FP32.twice(32), (10, 0)),
    Chain("fma_f16x2", Precision.FP16, 4, _FP16),
    Chain("fma_bf16x2", Precision.BF16, 4, _BF16, (8, 0)),
    Chain("mad_s32", Precision.INT32, 2, _INT),
    Chain("dp4a_s32", Precision.INT8, 8, _INT),
    Chain("two_f64", Precision.FP64, 2, _FP64, apart=True),
    Chain("two_f32", Precision.FP32, 2, _FP32, apart=True),
    Chain("two_f16x2", Precision.FP16, 4, _FP16, apart=True),
    Chain("two_bf16x2", Precision.BF16, 4, _BF16, (9, 0), apart=True),
)


class Clocks:
    """The clock of a multiprocessor during each kernel, from the cycles and nanoseconds that its first thread saw."""

    def __init__(self) -> None:
        self._counters: dict[str, torch.Tensor] = {}

    def counter(self, name: str, device: str) -> torch.Tensor:
        """Where a kernel notes its cycles and nanoseconds."""
        self._counters[name] = torch.zeros(2, dtype=torch.int64, device=device)
        return self._counters[name]

    def hertz(self) -> dict[str, float]:
        """The clock during the last launch of each kernel; those that never ran are left out."""
        seen = {name: counter.tolist() for name, counter in self._counters.items()}
        return {
            name: cycles / nanoseconds * _GIGA
            for name, (cycles, nanoseconds) in seen.items()
            if cycles > 0 and nanoseconds > 0
        }


def vector_kernels(device: Device, timer: Timer, clocks: Clocks) -> Iterator[CeilingKernel]:
    """Chains in every format that the vector units of a device have, with and without multiply-adds."""
    for chain in CHAINS:
        if capability(device) >= chain.first:
            yield CeilingKernel(
                f"{chain.kernel} chains",
                "peak",
                _prepare(chain, device, timer, clocks),
                pipe=Pipe.VECTOR,
                precision=chain.precision,
                threads=multiprocessors(device),
                note=_APART if chain.apart else _COUNTED,
                variant="no fma" if chain.apart else "",
                how="measured",
            )


def operations(chain: Chain, blocks: int) -> float:
    """Operations of one launch of a chain."""
    return float(blocks * _THREADS * _rounds(chain) * _CHAINS * _STEPS * chain.operations)


def _rounds(chain: Chain) -> int:
    return _FP64_ROUNDS if chain.precision is Precision.FP64 else _ROUNDS


def _prepare(chain: Chain, device: Device, timer: Timer, clocks: Clocks) -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        blocks = multiprocessors(device) * _BLOCKS_PER_UNIT
        bits = chain.bits
        values = map(ctypes.c_ulonglong, (bits.start, bits.loose, bits.factor, bits.term))
        never = torch.zeros(_THREADS, dtype=torch.int32, device=device.device)
        name = f"{chain.kernel} chains"
        counter = clocks.counter(name, device.device)
        arguments = (*values, ctypes.c_uint(_rounds(chain)), never, counter)
        launch = Launcher(device, chain.kernel, (blocks, _THREADS), arguments)
        return timer.batched(name, launch, operations(chain, blocks))

    return prepare
