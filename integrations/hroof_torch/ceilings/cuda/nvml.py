"""What NVML tells of a GPU: clocks, power, temperature, reasons for a lower clock, other programs.

NVML is part of the driver and is called through ctypes (https://docs.nvidia.com/deploy/nvml-api). Every answer may be
missing: where the library, the device or the right to ask is not there, nothing is known, and nothing is said. Not run
on a GPU so far.
"""

from __future__ import annotations

import ctypes
import functools
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hroof.units import percent

_MEGA = 1e6
_MILLI = 1e-3
_SM, _MEMORY = 1, 2
_CORE_SENSOR = 0
_MIG_ON = 1
_TEXT = 96

REASONS = {
    0x1: "idle",
    0x2: "applications clock setting",
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "temperature",
    0x40: "hardware temperature slowdown",
    0x80: "external power brake",
    0x100: "display clock setting",
}
"""Bits of ``nvmlDeviceGetCurrentClocksThrottleReasons`` (nvml.h, ``nvmlClocksEventReason…``)."""
_EXPECTED = {"applications clock setting", "power limit", "sync boost", "display clock setting"}
"""Reasons that belong to the device as it is set up: told as facts, no cause for doubt."""
_BUSY = 5
"""Percent of utilisation above which other programs are at work."""


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


@dataclass(frozen=True, slots=True)
class Look:
    """What is seen at one moment; None where NVML does not tell.

    Attributes:
        clock: Of the SMs, in Hz.
        memory_clock: Hz.
        power: Watts.
        temperature: °C.
        reasons: Why the clock is lower than it might be.
    """

    clock: float | None = None
    memory_clock: float | None = None
    power: float | None = None
    temperature: float | None = None
    reasons: tuple[str, ...] = ()


@functools.cache
def library() -> Any:
    """NVML, initialised; None where it is not there."""
    try:
        found = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
        return None if found.nvmlInit_v2() else found
    except (OSError, AttributeError):
        return None


def find(properties: Any, nvml: Any = None) -> Gpu | None:
    """The device that PyTorch describes, whatever its number in NVML is.

    Args:
        properties: Of ``torch.cuda.get_device_properties``.
        nvml: Instead of the library of this machine.
    """
    nvml = nvml or library()
    if nvml is None:
        return None
    handle = ctypes.c_void_p()
    for call, key in _keys(properties):
        ask = getattr(nvml, call, None)
        if ask is not None and not ask(key.encode(), ctypes.byref(handle)):
            return Gpu(nvml, handle)
    return None


def _keys(properties: Any) -> Iterable[tuple[str, str]]:
    """Names of the device for NVML: by its UUID, of a part of a GPU too, and by its place on the bus."""
    uuid = str(getattr(properties, "uuid", "") or "")
    if uuid:
        for prefix in ("", "GPU-", "MIG-"):
            yield "nvmlDeviceGetHandleByUUID", prefix + uuid
    bus = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    if None not in bus:
        domain, number, slot = map(int, bus)  # type: ignore[arg-type]
        yield "nvmlDeviceGetHandleByPciBusId_v2", f"{domain:08X}:{number:02X}:{slot:02X}.0"


class Gpu:
    """One device of NVML.

    Args:
        nvml: The library.
        handle: Of the device.
    """

    def __init__(self, nvml: Any, handle: ctypes.c_void_p) -> None:
        self._nvml = nvml
        self._handle = handle

    def look(self) -> Look:
        """How the device is now; takes some ten microseconds, sometimes a millisecond."""
        return Look(
            clock=self._scaled(_MEGA, "nvmlDeviceGetClockInfo", _SM),
            memory_clock=self._scaled(_MEGA, "nvmlDeviceGetClockInfo", _MEMORY),
            power=self._scaled(_MILLI, "nvmlDeviceGetPowerUsage"),
            temperature=self._scaled(1.0, "nvmlDeviceGetTemperature", _CORE_SENSOR),
            reasons=reasons(
                self._word("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
            ),
        )

    def facts(self) -> dict[str, Any]:
        """What stays the same from run to run: driver, highest clocks (Hz), power limit (W), partition (MIG)."""
        found = {
            "driver": self._driver(),
            "clock_max": self._scaled(_MEGA, "nvmlDeviceGetMaxClockInfo", _SM),
            "memory_clock_max": self._scaled(_MEGA, "nvmlDeviceGetMaxClockInfo", _MEMORY),
            "power_limit": self._scaled(_MILLI, "nvmlDeviceGetEnforcedPowerLimit"),
            "mig": self._mig(),
        }
        return {key: value for key, value in found.items() if value is not None}

    def utilization(self) -> float | None:
        """Share of the last moment in which some kernel ran, of whatever program."""
        rates = _Utilization()
        if self._fails("nvmlDeviceGetUtilizationRates", self._handle, ctypes.byref(rates)):
            return None
        return rates.gpu / 100

    def _driver(self) -> str | None:
        text = ctypes.create_string_buffer(_TEXT)
        failed = self._fails("nvmlSystemGetDriverVersion", text, ctypes.c_uint(_TEXT))
        return None if failed else text.value.decode()

    def _mig(self) -> bool | None:
        now, later = ctypes.c_uint(), ctypes.c_uint()
        failed = self._fails(
            "nvmlDeviceGetMigMode", self._handle, ctypes.byref(now), ctypes.byref(later)
        )
        return None if failed else now.value == _MIG_ON

    def _scaled(self, unit: float, call: str, *which: int) -> float | None:
        word = self._word(call, ctypes.c_uint, *which)
        return None if word is None else word * unit

    def _word(self, call: str, kind: Callable[[], Any], *which: int) -> int | None:
        value = kind()
        choice = map(ctypes.c_uint, which)
        failed = self._fails(call, self._handle, *choice, ctypes.byref(value))
        return None if failed else int(value.value)

    def _fails(self, call: str, *arguments: Any) -> bool:
        """Make one call; an older library may lack it, and a virtual GPU may refuse it."""
        ask = getattr(self._nvml, call, None)
        return ask is None or bool(ask(*arguments))


def reasons(bits: int | None) -> tuple[str, ...]:
    """Why the clock is lower than it might be, in words."""
    return tuple(word for bit, word in REASONS.items() if bits is not None and bits & bit)


def summary(looks: Iterable[Look]) -> dict[str, Any]:
    """Several looks as plain JSON values: medians in Hz, W and °C, and every reason that was given."""
    seen = list(looks)
    found: dict[str, Any] = {}
    for name in ("clock", "memory_clock", "power", "temperature"):
        values = [value for look in seen if (value := getattr(look, name)) is not None]
        if values:
            found[name] = statistics.median(values)
    given = dict.fromkeys(reason for look in seen for reason in look.reasons)
    told = [reason for reason in given if reason != "idle"]
    return {**found, "reasons": told} if told else found


def warnings(utilization: float | None, during: Mapping[str, Any]) -> list[str]:
    """What is doubtful about ceilings of a GPU that was busy or held back, one sentence each.

    Args:
        utilization: Before the first kernel ran.
        during: As ``summary`` gives it.
    """
    found = []
    if utilization is not None and utilization * 100 > _BUSY:
        found.append(
            f"The GPU was {percent(utilization, 0)} busy with other programs before its ceilings were measured, so "
            "they may be too low: measure again when it is idle."
        )
    given = [reason for reason in during.get("reasons", []) if reason not in _EXPECTED]
    if given:
        found.append(
            f"The GPU lowered its clock while its ceilings were measured ({', '.join(given)}): the sustained rates "
            "are those of a device that is too hot or too short of power."
        )
    return found
