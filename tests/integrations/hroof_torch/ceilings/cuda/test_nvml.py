"""What NVML tells: looks, facts, doubts; with a stand-in for the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof_torch.ceilings.cuda import nvml  # noqa: E402
from hroof_torch.ceilings.cuda.nvml import Look  # noqa: E402

NOT_SUPPORTED = 3


def word(value: int) -> Callable[..., int]:
    """A call whose last argument takes a number."""

    def answer(handle: Any, *rest: Any) -> int:
        rest[-1]._obj.value = value
        return 0

    return answer


class Library:
    """NVML of one GPU, by its calls; a call that is not here is one that an old library lacks."""

    def __init__(self, uuid: bytes = b"GPU-1234", bus: bytes = b"00000000:3B:00.0") -> None:
        self.asked: list[bytes] = []

        def by_uuid(key: bytes, handle: Any) -> int:
            self.asked.append(key)
            handle._obj.value = 42
            return 0 if key == uuid else 6

        def by_bus(key: bytes, handle: Any) -> int:
            self.asked.append(key)
            handle._obj.value = 43
            return 0 if key == bus else 6

        self.nvmlDeviceGetHandleByUUID = by_uuid
        self.nvmlDeviceGetHandleByPciBusId_v2 = by_bus

    def with_answers(self) -> Library:
        """The same with an answer to every question."""

        def clock(handle: Any, kind: Any, into: Any) -> int:
            into._obj.value = {1: 1980, 2: 3201}[kind.value]
            return 0

        def driver(into: Any, length: Any) -> int:
            text = b"575.57.08"
            assert length.value > len(text)
            ctypes.memmove(into, text + b"\0", len(text) + 1)
            return 0

        def mig(handle: Any, now: Any, later: Any) -> int:
            now._obj.value, later._obj.value = 0, 1
            return 0

        def rates(handle: Any, into: Any) -> int:
            into._obj.gpu, into._obj.memory = 37, 12
            return 0

        vars(self).update(
            nvmlDeviceGetClockInfo=clock,
            nvmlDeviceGetMaxClockInfo=clock,
            nvmlDeviceGetPowerUsage=word(654_321),
            nvmlDeviceGetEnforcedPowerLimit=word(700_000),
            nvmlDeviceGetTemperature=word(61),
            nvmlDeviceGetCurrentClocksThrottleReasons=word(0x4 | 0x20),
            nvmlSystemGetDriverVersion=driver,
            nvmlDeviceGetMigMode=mig,
            nvmlDeviceGetUtilizationRates=rates,
        )
        return self


def gpu(library: Any) -> nvml.Gpu:
    found = nvml.find(SimpleNamespace(uuid="1234"), library)
    assert found is not None
    return found


# --- finding the device -------------------------------------------------------------------------


def test_a_device_is_found_by_its_uuid_with_or_without_prefix() -> None:
    for uuid in ("1234", "GPU-1234"):
        library = Library()
        assert nvml.find(SimpleNamespace(uuid=uuid), library) is not None
        assert library.asked[-1] == b"GPU-1234"


def test_a_part_of_a_gpu_is_found_by_its_uuid() -> None:
    library = Library(uuid=b"MIG-1234")
    assert nvml.find(SimpleNamespace(uuid="1234"), library) is not None


def test_a_device_without_uuid_is_found_by_its_place_on_the_bus() -> None:
    library = Library()
    place = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x3B, pci_device_id=0)
    assert nvml.find(place, library) is not None
    assert library.asked == [b"00000000:3B:00.0"]


def test_a_device_that_nvml_does_not_know_is_not_found() -> None:
    library = Library(uuid=b"GPU-other", bus=b"other")
    place = {"pci_domain_id": 0, "pci_bus_id": 1, "pci_device_id": 0}
    assert nvml.find(SimpleNamespace(uuid="1234", **place), library) is None
    assert len(library.asked) == 4
    assert nvml.find(SimpleNamespace(), library) is None


def load_as(result: Any) -> Callable[[str], Any]:
    def load(name: str) -> Any:
        assert "nvidia-ml" in name or "nvml" in name
        if isinstance(result, Exception):
            raise result
        return result

    return load


@pytest.mark.parametrize(
    ("library", "found"),
    [
        (SimpleNamespace(nvmlInit_v2=lambda: 0), True),
        (SimpleNamespace(nvmlInit_v2=lambda: 9), False),
        (SimpleNamespace(), False),
        (OSError("no such file"), False),
    ],
)
def test_a_library_counts_once_it_is_initialised(
    library: Any, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.library.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", load_as(library))
    assert (nvml.library() is not None) is found
    nvml.library.cache_clear()


def test_without_a_library_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "library", lambda: None)
    assert nvml.find(SimpleNamespace(uuid="1234")) is None


# --- answers ------------------------------------------------------------------------------------


def test_a_look_is_in_base_units() -> None:
    look = gpu(Library().with_answers()).look()
    assert (look.clock, look.memory_clock, look.temperature) == (1.98e9, 3.201e9, 61)
    assert look.power == pytest.approx(654.321)
    assert look.reasons == ("power limit", "temperature")


def test_facts_stay_the_same_from_run_to_run() -> None:
    assert gpu(Library().with_answers()).facts() == {
        "driver": "575.57.08",
        "clock_max": 1.98e9,
        "memory_clock_max": 3.201e9,
        "power_limit": 700.0,
        "mig": False,
    }


def test_utilization_is_a_share() -> None:
    assert gpu(Library().with_answers()).utilization() == 0.37


def test_what_an_old_library_lacks_is_not_known() -> None:
    bare = gpu(Library())
    assert bare.look() == Look()
    assert bare.facts() == {}
    assert bare.utilization() is None


def test_what_a_virtual_gpu_refuses_is_not_known() -> None:
    library = Library().with_answers()
    for name in [name for name in vars(library) if name.startswith("nvmlDeviceGet")]:
        if "Handle" not in name:
            setattr(library, name, lambda *arguments: NOT_SUPPORTED)
    refused = gpu(library)
    assert refused.look() == Look() and refused.utilization() is None
    assert refused.facts() == {"driver": "575.57.08"}


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (None, ()),
        (0, ()),
        (0x1, ("idle",)),
        (0x48, ("hardware slowdown", "hardware temperature slowdown")),
        (0x80000000, ()),
    ],
)
def test_reasons_are_words(bits: int | None, words: tuple[str, ...]) -> None:
    assert nvml.reasons(bits) == words


# --- several looks ------------------------------------------------------------------------------


def test_a_summary_has_medians_and_every_reason_once() -> None:
    looks = [
        Look(1.0e9, 3e9, 400.0, 50.0, ("idle",)),
        Look(1.9e9, 3e9, 600.0, 60.0, ("power limit",)),
        Look(1.8e9, None, 700.0, 61.0, ("power limit", "temperature")),
    ]
    assert nvml.summary(looks) == {
        "clock": 1.8e9,
        "memory_clock": 3e9,
        "power": 600.0,
        "temperature": 60.0,
        "reasons": ["power limit", "temperature"],
    }


def test_a_summary_of_nothing_says_nothing() -> None:
    assert nvml.summary([]) == {}
    assert nvml.summary([Look(reasons=("idle",))]) == {}


def test_a_power_limit_is_no_cause_for_doubt() -> None:
    expected = ["power limit", "applications clock setting"]
    assert nvml.warnings(0.0, {"reasons": expected}) == []
    assert nvml.warnings(None, {}) == []
    assert nvml.warnings(0.05, {}) == []


def test_heat_and_other_programs_are_told() -> None:
    busy, hot = nvml.warnings(0.5, {"reasons": ["power limit", "hardware temperature slowdown"]})
    assert busy.startswith("The GPU was 50 % busy with other programs")
    assert "(hardware temperature slowdown)" in hot
