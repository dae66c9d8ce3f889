"""The kernels' program: found, compiled once per device, launched on the stream of its device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.errors import MissingError  # noqa: E402
from hroof.integration import Device  # noqa: E402
from hroof_torch.ceilings.cuda import nvrtc, program  # noqa: E402


def missing(fact: str) -> Callable[[], Any]:
    def fail() -> Any:
        raise MissingError(fact, "Install it.")

    return fail


def test_the_capability_is_read_from_the_facts(gpu: Callable[..., Device]) -> None:
    assert program.capability(gpu(8, 6)) == (8, 6)
    assert program.capability(gpu(10, 0)) == (10, 0)


def test_the_source_says_what_it_is_and_needs_no_header() -> None:
    text = program.source()
    assert text.startswith("// Kernels that measure the caches and the vector units of a GPU.")
    assert "#include" not in text


def test_nothing_hinders_where_driver_and_compiler_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(nvrtc, "driver", lambda: None)
    monkeypatch.setattr(nvrtc, "compiler", lambda: None)
    assert program.obstacle() is None


@pytest.mark.parametrize("absent", ["driver", "compiler"])
def test_what_is_missing_is_named(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    for name in ("driver", "compiler"):
        found = missing(f"no {name}") if name == absent else lambda: None
        monkeypatch.setattr(nvrtc, name, found)
    obstacle = program.obstacle()
    assert obstacle is not None and obstacle.fact == f"no {absent}"


def test_rocm_has_no_kernels_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    obstacle = program.obstacle()
    assert obstacle is not None and "NVRTC does not compile for this GPU" in obstacle.fact


class Cuda:
    """In place of ``torch.cuda``, PyTorch's compiler and the driver: notes what is done, and on which device."""

    def __init__(self) -> None:
        self.current = "cuda:0"
        self.done: list[tuple[Any, ...]] = []
        self.kernel = SimpleNamespace(prefer_l1=self._prefer_l1, bind=self._bind)

    def device(self, device: str) -> Any:
        cuda = self

        class Guard:
            def __enter__(self) -> None:
                self.before, cuda.current = cuda.current, device

            def __exit__(self, *error: object) -> None:
                cuda.current = self.before

        return Guard()

    def synchronize(self, device: str) -> None:
        self.done.append(("synchronize", device, self.current))

    def current_stream(self) -> Any:
        return SimpleNamespace(cuda_stream=1000 + int(self.current[-1]))

    def compile(self, source: str, capability: tuple[int, int], name: str) -> bytes:
        assert source == program.source()
        self.done.append(("compile", capability, name))
        return b"image"

    def load(self, image: bytes) -> Callable[[str], Any]:
        self.done.append(("load", image, self.current))

        def function(name: str) -> Any:
            self.done.append(("function", name))
            return self.kernel

        return function

    def _prefer_l1(self) -> None:
        self.done.append(("prefer_l1",))

    def _bind(self, grid: int, block: int, arguments: list[Any]) -> Callable[[int], None]:
        self.done.append(("bind", grid, block, [argument.value for argument in arguments]))
        return lambda stream: self.done.append(("launch", stream, self.current))


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuda]:
    """CUDA with two devices, of which the first is the current one."""
    made = Cuda()
    monkeypatch.setattr(torch, "cuda", made)
    monkeypatch.setattr(nvrtc, "compiler", lambda: made)
    monkeypatch.setattr(nvrtc, "driver", lambda: made)
    program.load.cache_clear()
    yield made
    program.load.cache_clear()


def test_a_program_is_loaded_in_the_context_of_its_device(cuda: Cuda) -> None:
    program.load("cuda:1", (9, 0))
    assert cuda.done == [
        ("synchronize", "cuda:1", "cuda:1"),
        ("compile", (9, 0), "kernels.cu"),
        ("load", b"image", "cuda:1"),
    ]
    assert cuda.current == "cuda:0"


def test_a_program_is_compiled_once_per_device(cuda: Cuda) -> None:
    for device in ("cuda:0", "cuda:0", "cuda:1", "cuda:0"):
        program.load(device, (9, 0))
    assert [what for what, *_ in cuda.done].count("compile") == 2


def test_a_kernel_is_launched_on_the_stream_of_its_device(
    cuda: Cuda, gpu: Callable[..., Device]
) -> None:
    device = Device("cuda:1", "second", facts=gpu(8, 0).facts)
    tensor = torch.zeros(4)
    launch = program.Launcher(device, "k", (3, 64), (tensor, ctypes.c_uint(5)))
    cuda.done.clear()
    launch()
    assert cuda.done == [("launch", 1001, "cuda:1")]
    assert cuda.current == "cuda:0"


def test_tensors_become_addresses_and_stay_alive(cuda: Cuda, gpu: Callable[..., Device]) -> None:
    tensor = torch.zeros(4)
    address = tensor.data_ptr()
    launch = program.Launcher(gpu(), "k", (3, 64), (tensor, ctypes.c_uint(5)))
    assert cuda.done[-1] == ("bind", 3, 64, [address, 5])
    assert any(held is tensor for held in launch._arguments)


@pytest.mark.parametrize("prefer", [True, False])
def test_l1_is_preferred_only_on_request(
    cuda: Cuda, gpu: Callable[..., Device], prefer: bool
) -> None:
    program.Launcher(gpu(), "k", (1, 32), (), prefer_l1=prefer)
    assert (("prefer_l1",) in cuda.done) is prefer
