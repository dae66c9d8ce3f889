"""How much one matrix instruction does: shapes in opcodes and in the names of kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hroof.counters.chips import Chip
from hroof.units import Precision

_SHAPES = {
    "884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32),
    "16864": (16, 8, 64), "8816": (8, 8, 16), "8832": (8, 8, 32), "88128": (8, 8, 128),
    "168128": (16, 8, 128), "168256": (16, 8, 256),
}  # fmt: skip
"""m, n, k of the instructions that a warp executes alone, by the digits that names write."""
_WARPS_OF_A_GROUP = 4
_FIRST_TF32 = 8.0


@dataclass(frozen=True, slots=True)
class InstructionWork:
    """What one warp instruction of the matrix unit does.

    Attributes:
        precision: Format of the factors.
        flop: FLOP (operations, for integers); None where the shape is not known.
    """

    precision: Precision
    flop: float | None


def _flop(m: int, n: int, k: int) -> float:
    return 2.0 * m * n * k


# --- opcodes ------------------------------------------------------------------------------------

_OPCODE = re.compile(r"(?P<kind>[A-Z]+MMA)(?:\.(?P<rest>.*))?")
_FORMATS = {
    "H": Precision.FP16, "D": Precision.FP64, "I": Precision.INT8, "B": Precision.INT1, "Q": Precision.FP8,
    "O": Precision.FP4,
}  # fmt: skip
"""First letter of an opcode: the format where no modifier tells another."""
_MODIFIERS = {
    "BF16": Precision.BF16,
    "TF32": Precision.TF32,
    "U4": Precision.INT4,
    "S4": Precision.INT4,
}


@lru_cache(maxsize=4096)
def opcode_work(opcode: str) -> InstructionWork | None:
    """What an opcode such as ``HMMA.16816.F32.BF16`` does.

    Returns:
        None for an opcode that multiplies no matrices; half FMAs (``HFMA2.MMA``) and moves (``MOVM``) do not.
    """
    parts = _OPCODE.fullmatch(opcode)
    if parts is None:
        return None
    kind, modifiers = parts["kind"], (parts["rest"] or "").split(".")
    precision = next(
        (_MODIFIERS[one] for one in modifiers if one in _MODIFIERS),
        _FORMATS.get(kind.removeprefix("UT").removeprefix("C")[0], Precision.FP16),
    )
    return InstructionWork(precision, _opcode_flop(kind, modifiers))


def _opcode_flop(kind: str, modifiers: list[str]) -> float | None:
    if "SP" in modifiers:  # whether its counts mean the dense product is not known
        return None
    group = next(
        (re.fullmatch(r"(64)X(\d+)X(\d+)", one, re.IGNORECASE) for one in modifiers if one), None
    )
    if kind.endswith("GMMA") and group is not None:
        m, n, k = map(int, group.groups())
        return _flop(m, n, k) / _WARPS_OF_A_GROUP
    shape = next((_SHAPES[one] for one in modifiers if one in _SHAPES), None)
    if shape is None or kind.endswith("GMMA"):
        return None
    if any(one.startswith("STEP") for one in modifiers):
        return _step(modifiers)
    return _flop(*shape)


def _step(modifiers: list[str]) -> float | None:
    """A step of Volta's HMMA.884: a quarter of 4 × (8 × 8 × 4) FMAs where sums are FP32; else not known."""
    return _flop(8, 8, 4) if "F32" in modifiers else None


# --- names of kernels ---------------------------------------------------------------------------

_DIGITS = "|".join(sorted(_SHAPES, key=len, reverse=True))
_PREFIXED = re.compile(rf"(?:^|[^a-z0-9])(?P<letter>[shidb])(?P<digits>{_DIGITS})(?=[a-z_]|$)")
_SPELLED = re.compile(r"tensor(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)")
_GROUPED = re.compile(r"(?:^|[^a-z0-9])(?P<letter>[shidb])64x(?P<n>\d+)x(?P<k>\d+)(?=[a-z_]|$)")
_MATRIX = re.compile(
    r"tensorop|tensor\d+x\d+|h[g]?mma|wgmma|imma|flash_(fwd|bwd|attn|attention)|fmha|nvjet|_xmma_(?!.*ffma)|"
    r"wmma|utcmma|tcgen05"
)


def _precision(name: str, letter: str, chip: Chip | None) -> Precision:
    if letter in "dib":
        wide = {"d": Precision.FP64, "i": Precision.INT8, "b": Precision.INT1}
        return Precision.INT4 if letter == "i" and re.search(r"[su]4|int4", name) else wide[letter]
    if "bf16" in name:
        return Precision.BF16
    if "e4m3" in name or "e5m2" in name or "fp8" in name:
        return Precision.FP8
    halves = "f16" in name or "fp16" in name or letter == "h"
    newer = chip is None or not chip.capability or float(chip.capability) >= _FIRST_TF32
    single = "tf32" in name or ("1688" in name and not halves) or not halves
    return Precision.TF32 if newer and single and not halves else Precision.FP16


def named_shape(kernel: str, chip: Chip | None) -> tuple[Precision, float] | None:
    """Precision and FLOP of the matrix instruction that a kernel's name tells, as the libraries of NVIDIA do.

    ``ampere_fp16_s16816gemm_…`` multiplies 16 × 8 × 16: 4096 FLOP; ``…_tensor16x8x8_…`` 16 × 8 × 8: 2048.

    Returns:
        None where the name holds no shape.
    """
    name = kernel.lower()
    prefixed = _PREFIXED.search(name)
    if prefixed is not None:
        return _precision(name, prefixed["letter"], chip), _flop(*_SHAPES[prefixed["digits"]])
    spelled = _SPELLED.search(name)
    if spelled is not None:
        return _precision(name, "s", chip), _flop(
            int(spelled["m"]), int(spelled["n"]), int(spelled["k"])
        )
    grouped = _GROUPED.search(name)
    if grouped is not None:
        flop = _flop(64, int(grouped["n"]), int(grouped["k"])) / _WARPS_OF_A_GROUP
        return _precision(name, grouped["letter"], chip), flop
    return None


def looks_like_matrix(kernel: str) -> bool:
    """Whether a kernel's name shows that it uses the matrix units."""
    return named_shape(kernel, None) is not None or _MATRIX.search(kernel.lower()) is not None
