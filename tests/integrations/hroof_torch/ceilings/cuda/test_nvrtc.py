"""NVRTC and the driver through ctypes: with stand-ins for both, and compiling for real where NVRTC is installed."""

from __future__ import annotations

import ctypes
import functools
import gc
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.errors import MissingError  # noqa: E402
from hroof_torch.ceilings.cuda import nvrtc  # noqa: E402
from hroof_torch.ceilings.cuda.program import source  # noqa: E402
from hroof_torch.ceilings.cuda.vector import CHAINS  # noqa: E402

OUT_OF_MEMORY = 2
COMPILATION = 6


# --- finding the libraries ----------------------------------------------------------------------


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_the_library_of_pytorchs_own_cuda_comes_first(tmp_path: Path) -> None:
    old = touch(tmp_path / "a", "libnvrtc.so.11.2")
    new = touch(tmp_path / "b", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9", "libnvrtc.alt.so.12")
    names = nvrtc.library_names("12.6", [old, new])
    assert names[0] == str(new / "libnvrtc.so.12")
    assert names[-1] == str(old / "libnvrtc.so.11.2")
    assert not any("builtins" in name or "alt" in name for name in names)


@pytest.mark.skipif(sys.platform == "win32", reason="names of Linux")
def test_the_loader_is_asked_by_name_too(tmp_path: Path) -> None:
    assert nvrtc.library_names("13.0", [tmp_path / "absent"]) == ["libnvrtc.so.13", "libnvrtc.so"]
    assert nvrtc.library_names(None, []) == ["libnvrtc.so"]


def test_libraries_of_windows_are_known_by_their_version(tmp_path: Path) -> None:
    names = ("nvrtc64_120_0.dll", "nvrtc64_130_0.dll", "nvrtc-builtins64_129.dll")
    folder = touch(tmp_path / "bin", *names)
    found = nvrtc.library_names("13.0", [folder])
    assert found[0].endswith("nvrtc64_130_0.dll") and found[-1].endswith("nvrtc64_120_0.dll")


def test_folders_of_a_toolkit_are_searched_last(tmp_path: Path) -> None:
    folders = nvrtc.search_folders({"CUDA_HOME": str(tmp_path), "CUDA_PATH": ""})
    assert tmp_path / "lib64" in folders
    ours = Path(torch.__file__).parent / "lib"
    assert folders.index(ours) < folders.index(tmp_path / "lib64")


def test_nvidias_packages_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "nvidia/cuda_nvrtc/lib", "libnvrtc.so.12")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    folders = nvrtc.search_folders({})
    assert folders[0] == tmp_path / "nvidia/cuda_nvrtc/lib"
    assert nvrtc.library_names("12.8", folders)[0].endswith("libnvrtc.so.12")


def fail_to_load(name: str) -> Any:
    raise OSError(name)


@pytest.mark.parametrize(
    ("find", "fact"),
    [(nvrtc.compiler, r"NVRTC.* was not found"), (nvrtc.driver, "driver was not found")],
)
def test_an_absent_library_is_an_error_with_a_remedy(
    find: Any, fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", fail_to_load)
    with pytest.raises(MissingError, match=fact) as caught:
        find()
    assert caught.value.remedy.startswith("Install")
    find.cache_clear()


def test_a_library_that_does_not_load_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeNvrtc()

    def load(name: str) -> Any:
        return library if name == "good" else fail_to_load(name)

    nvrtc.compiler.cache_clear()
    monkeypatch.setattr(nvrtc, "library_names", lambda cuda, folders: ["broken", "good", "never"])
    monkeypatch.setattr(ctypes, "CDLL", load)
    assert nvrtc.compiler().version == "12.9"
    nvrtc.compiler.cache_clear()


# --- compiling, with a stand-in -----------------------------------------------------------------


class FakeNvrtc:
    """Answers as NVRTC 12.9 does."""

    def __init__(
        self, known: tuple[int, ...] = (75, 80, 90), log: bytes = b"", code: int = 0
    ) -> None:
        self.options: list[str] = []
        self.sources: list[tuple[bytes, bytes]] = []
        self.destroyed = 0
        texts = {"CUBIN": b"\x7fELF\x00image", "PTX": b".version 8.8\x00", "ProgramLog": log}

        def version(major: Any, minor: Any) -> int:
            major._obj.value, minor._obj.value = 12, 9
            return 0

        def count(number: Any) -> int:
            number._obj.value = len(known)
            return 0

        def architectures(into: Any) -> int:
            into[:] = known
            return 0

        def create(program: Any, text: bytes, name: bytes, *headers: Any) -> int:
            program._obj.value = 7
            self.sources.append((text, name))
            assert headers == (0, None, None)
            return 0

        def compile(program: Any, number: int, options: Any) -> int:
            assert program.value == 7
            self.options = [options[i].decode() for i in range(number)]
            return code

        def destroy(program: Any) -> int:
            self.destroyed += program._obj.value == 7
            return 0

        def error(number: int) -> bytes | None:
            return {COMPILATION: b"NVRTC_ERROR_COMPILATION"}.get(number)

        self.nvrtcVersion, self.nvrtcGetNumSupportedArchs = version, count
        self.nvrtcGetSupportedArchs, self.nvrtcCreateProgram = architectures, create
        self.nvrtcCompileProgram, self.nvrtcDestroyProgram = compile, destroy
        self.nvrtcGetErrorString = error
        for what, text in texts.items():
            setattr(self, f"nvrtcGet{what}Size", self._size(text))
            setattr(self, f"nvrtcGet{what}", self._text(text))

    @staticmethod
    def _size(text: bytes) -> Callable[..., int]:
        def size(program: Any, into: Any) -> int:
            into._obj.value = len(text)
            return 0

        return size

    @staticmethod
    def _text(text: bytes) -> Callable[..., int]:
        def get(program: Any, into: Any) -> int:
            ctypes.memmove(into, text, len(text))
            return 0

        return get


def test_a_known_device_gets_machine_code() -> None:
    library = FakeNvrtc()
    image = nvrtc.Compiler(library).compile("text", (9, 0), "x.cu")
    assert image == b"\x7fELF\x00image"
    assert "--gpu-architecture=sm_90" in library.options
    assert library.sources == [(b"text", b"x.cu")]
    assert library.destroyed == 1


def test_a_device_newer_than_nvrtc_gets_ptx_of_the_newest_known() -> None:
    library = FakeNvrtc()
    image = nvrtc.Compiler(library).compile("text", (10, 0))
    assert image == b".version 8.8\x00"
    assert "--gpu-architecture=compute_90" in library.options


def test_a_device_older_than_nvrtc_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"NVRTC 12\.9 cannot compile for .* 7\.0"):
        nvrtc.Compiler(FakeNvrtc()).compile("text", (7, 0))


def test_architectures_are_sorted() -> None:
    assert nvrtc.Compiler(FakeNvrtc((90, 75, 120))).architectures() == [75, 90, 120]


def test_a_wrong_source_is_told_with_the_first_messages_and_leaves_nothing_behind() -> None:
    log = b"x.cu(3): warning: dull\nx.cu(4): error: expected a ;\n\n1 error detected\n"
    library = FakeNvrtc(log=log, code=COMPILATION)
    with pytest.raises(RuntimeError) as caught:
        nvrtc.Compiler(library).compile("text", (9, 0), "x.cu")
    text = str(caught.value)
    assert text.startswith("NVRTC_ERROR_COMPILATION in x.cu: x.cu(4): error: expected a ;")
    assert "dull" not in text and "\n" not in text
    assert library.destroyed == 1


def test_an_error_without_a_name_or_message_is_still_told() -> None:
    with pytest.raises(RuntimeError, match=r"NVRTC error 99 in hroof\.cu: no message"):
        nvrtc.Compiler(FakeNvrtc(code=99)).compile("text", (9, 0))


def test_another_call_that_fails_is_named() -> None:
    library = FakeNvrtc()
    library.nvrtcCreateProgram = lambda *arguments: OUT_OF_MEMORY
    with pytest.raises(RuntimeError, match="nvrtcCreateProgram failed: NVRTC error 2"):
        nvrtc.Compiler(library).compile("text", (9, 0))


# --- running, with a stand-in -------------------------------------------------------------------


class FakeCuda:
    """Answers as the driver does, and reads a launch's arguments as it would."""

    def __init__(self, *, context: int | None = 5, failing: dict[str, int] | None = None) -> None:
        self.failing = failing or {}
        self.images: list[bytes] = []
        self.attributes: list[tuple[Any, ...]] = []
        self.launched: list[tuple[Any, ...]] = []
        self.kinds: tuple[Any, ...] = ()

        def current(into: Any) -> int:
            into._obj.value = context
            return self.failing.get("cuCtxGetCurrent", 0)

        def load(into: Any, image: bytes) -> int:
            into._obj.value = 11
            self.images.append(image)
            return self.failing.get("cuModuleLoadData", 0)

        def function(into: Any, module: Any, name: bytes) -> int:
            assert module.value == 11
            into._obj.value = len(name)
            return self.failing.get("cuModuleGetFunction", 0)

        def attribute(*arguments: Any) -> int:
            self.attributes.append(arguments)
            return 0

        def launch(handle: Any, *rest: Any) -> int:
            addresses = rest[8]
            values = [kind.from_address(addresses[i]) for i, kind in enumerate(self.kinds)]
            self.launched.append(
                (handle.value, *rest[:8], *(value.value for value in values), rest[9])
            )
            return self.failing.get("cuLaunchKernel", 0)

        def name(code: int, into: Any) -> int:
            into._obj.value = {OUT_OF_MEMORY: b"CUDA_ERROR_OUT_OF_MEMORY"}.get(code)
            return 0 if code == OUT_OF_MEMORY else 1

        def meaning(code: int, into: Any) -> int:
            into._obj.value = b"out of memory" if code == OUT_OF_MEMORY else None
            return 0

        self.cuCtxGetCurrent, self.cuModuleLoadData = current, load
        self.cuModuleGetFunction, self.cuFuncSetAttribute = function, attribute
        self.cuLaunchKernel, self.cuGetErrorName, self.cuGetErrorString = launch, name, meaning


def test_a_kernel_is_launched_with_its_grid_stream_and_arguments() -> None:
    library = FakeCuda()
    kernel = nvrtc.Driver(library).load(b"image\x00with zeros")("four")
    library.kinds = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_ulonglong)
    arguments = [ctypes.c_void_p(2**40), ctypes.c_uint(3), ctypes.c_ulonglong(2**63)]
    launch = kernel.bind(132, 1024, arguments)
    launch(stream=77)
    assert library.images == [b"image\x00with zeros"]
    handle, grid, block, shared, stream = 4, (132, 1, 1), (1024, 1, 1), 0, 77
    wanted = (handle, *grid, *block, shared, stream, 2**40, 3, 2**63, None)
    assert library.launched == [wanted]


def test_arguments_live_as_long_as_the_bound_kernel() -> None:
    library = FakeCuda()
    library.kinds = (ctypes.c_uint,) * 50
    values = [ctypes.c_uint(number) for number in range(50)]
    launch = nvrtc.Driver(library).load(b"")("k").bind(1, 32, values)
    del values
    gc.collect()
    _ = [ctypes.c_uint(0xDEAD) for _ in range(500)]
    launch(0)
    assert library.launched[0][9:59] == tuple(range(50))


def test_an_argument_without_a_size_is_refused() -> None:
    kernel = nvrtc.Driver(FakeCuda()).load(b"")("k")
    with pytest.raises(TypeError, match="an argument of a kernel is 3, not a ctypes value"):
        kernel.bind(1, 32, [3])


def test_the_driver_knows_the_types_of_a_launch() -> None:
    library = FakeCuda()
    nvrtc.Driver(library)
    kinds = library.cuLaunchKernel.argtypes  # type: ignore[attr-defined]
    assert len(kinds) == 11 and kinds[1] is ctypes.c_uint and kinds[8] is ctypes.c_void_p


def test_without_a_context_nothing_is_loaded() -> None:
    library = FakeCuda(context=None)
    with pytest.raises(RuntimeError, match="no CUDA context on this thread"):
        nvrtc.Driver(library).load(b"image")
    assert library.images == []


@pytest.mark.parametrize("call", ["cuCtxGetCurrent", "cuModuleLoadData"])
def test_an_error_of_the_driver_has_its_name_and_meaning(call: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        nvrtc.Driver(FakeCuda(failing={call: OUT_OF_MEMORY})).load(b"image")
    assert str(caught.value) == f"{call} failed: CUDA_ERROR_OUT_OF_MEMORY: out of memory"


def test_an_error_that_the_driver_does_not_know_is_told_by_its_number() -> None:
    load = nvrtc.Driver(FakeCuda(failing={"cuModuleGetFunction": 999})).load(b"image")
    with pytest.raises(RuntimeError, match="cuModuleGetFunction failed: CUDA error 999"):
        load("absent")


def test_a_launch_that_fails_is_an_error() -> None:
    launch = nvrtc.Driver(FakeCuda(failing={"cuLaunchKernel": 700})).load(b"")("k").bind(1, 1, [])
    with pytest.raises(RuntimeError, match="cuLaunchKernel failed: CUDA error 700"):
        launch(0)


def test_l1_can_be_preferred_to_shared_memory() -> None:
    library = FakeCuda()
    nvrtc.Driver(library).load(b"")("k").prefer_l1()
    ((handle, attribute, percent),) = library.attributes
    assert (handle.value, attribute, percent) == (1, 9, 0)


# --- compiling for real -------------------------------------------------------------------------

DEVICES = [(7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0)]
FMA = {
    "fma_f64": "fma.rn.f64",
    "fma_f32": "fma.rn.f32",
    "fma_f32x2": "fma.rn.f32x2",
    "fma_f16x2": "fma.rn.f16x2",
    "fma_bf16x2": "fma.rn.bf16x2",
    "mad_s32": "mad.lo.s32",
    "dp4a_s32": "dp4a.s32.s32",
}
SASS = {
    "fma_f64": "DFMA",
    "fma_f32": "FFMA",
    "fma_f32x2": "FFMA",
    "fma_f16x2": "HFMA2",
    "fma_bf16x2": "HFMA2",
    "mad_s32": "IMAD",
    "dp4a_s32": "IDP",
}
PER_ROUND = 8 * 16


class OlderCompiler(nvrtc.Compiler):
    """Pretends that the device is newer than anything it knows, so that it gives PTX."""

    def __init__(self, library: Any, known: int) -> None:
        super().__init__(library)
        self._known = known

    def architectures(self) -> list[int]:
        return [self._known]


@pytest.fixture(scope="module")
def compiler() -> nvrtc.Compiler:
    """The NVRTC of this machine."""
    nvrtc.compiler.cache_clear()
    try:
        return nvrtc.compiler()
    except MissingError as error:
        pytest.skip(f"{error.fact} pip install nvidia-cuda-nvrtc-cu12 for this test")


def kernels_of(ptx: str) -> dict[str, str]:
    """The text of each kernel of a PTX program."""
    bodies = re.split(r"\.visible \.entry (\w+)\(", ptx)
    return dict(zip(bodies[1::2], bodies[2::2], strict=True))


@functools.cache
def image_for(compiler: nvrtc.Compiler, device: tuple[int, int]) -> bytes:
    """The kernels as machine code; compiled once for all tests."""
    skip_unless_known(compiler, device)
    return compiler.compile(source(), device)


def skip_unless_known(compiler: nvrtc.Compiler, device: tuple[int, int]) -> None:
    if device[0] * 10 + device[1] not in compiler.architectures():
        pytest.skip(f"NVRTC {compiler.version} does not know compute capability {device}")


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_every_kernel_compiles_to_machine_code(
    compiler: nvrtc.Compiler, device: tuple[int, int]
) -> None:
    image = image_for(compiler, device)
    assert image.startswith(b"\x7fELF")
    names = {chain.kernel for chain in CHAINS if device >= chain.first}
    for name in names | {"window_near", "window_far", "shared_window"}:
        assert f".text.{name}\0".encode() in image, name


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_kernels_hold_the_instructions_that_are_counted(
    compiler: nvrtc.Compiler, device: tuple[int, int]
) -> None:
    skip_unless_known(compiler, device)
    known = device[0] * 10 + device[1]
    older = OlderCompiler(compiler._library, known)
    text = older.compile(source(), (device[0], device[1] + 1)).rstrip(b"\0").decode()
    assert f".target sm_{known}" in text
    kernels = kernels_of(text)
    chains = {chain.kernel for chain in CHAINS if device >= chain.first}
    assert set(kernels) == chains | {"window_near", "window_far", "shared_window"}
    for name in chains & set(FMA):
        assert kernels[name].count(f"{FMA[name]} ") == PER_ROUND, name
    for name in chains - set(FMA):
        kind = name.removeprefix("two_")
        assert kernels[name].count(f"mul.rn.{kind} ") == PER_ROUND, name
        assert kernels[name].count(f"add.rn.{kind} ") == PER_ROUND, name
        assert "fma.rn" not in kernels[name], name
    for name in chains:
        assert kernels[name].count("%clock64") == kernels[name].count("%globaltimer") == 2
    assert kernels["window_near"].count("ld.global.v4.f32") == 4
    assert kernels["window_far"].count("ld.global.cg.v4.f32") == 4
    assert kernels["shared_window"].count("ld.shared.v4.f32") >= 2


def disassembled(image: bytes, folder: Path) -> dict[str, Counter[str]]:
    """How often each instruction stands in each kernel of machine code."""
    tool = shutil.which("nvdisasm")
    if tool is None:
        pytest.skip("there is no nvdisasm on the PATH")
    file = folder / "kernels.cubin"
    file.write_bytes(image)
    done = subprocess.run(
        [tool, str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        pytest.skip(f"this nvdisasm does not read the file: {done.stderr.strip()}")
    found: dict[str, Counter[str]] = {}
    current: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        section = re.match(r"\.text\.(\w+):", line)
        if section:
            current = found.setdefault(section[1], Counter())
        word = re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9_.]*)", line)
        if word:
            current[word[1]] += 1
    return found


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_machine_code_keeps_loads_and_multiply_adds(
    compiler: nvrtc.Compiler, device: tuple[int, int], tmp_path: Path
) -> None:
    found = disassembled(image_for(compiler, device), tmp_path)

    def count(kernel: str, start: str) -> int:
        return sum(number for word, number in found[kernel].items() if word.startswith(start))

    for name in {chain.kernel for chain in CHAINS if device >= chain.first} & set(SASS):
        lanes = 2 if name == "fma_f32x2" and not count(name, "FFMA2") else 1
        assert PER_ROUND * lanes <= count(name, SASS[name]) <= PER_ROUND * lanes + 16, name
    assert count("two_f32", "FFMA") == count("two_f64", "DFMA") == 0
    assert (count("two_f32", "FMUL"), count("two_f32", "FADD")) == (PER_ROUND, PER_ROUND)
    for name in ("window_near", "window_far"):
        loads = {word for word in found[name] if word.startswith("LDG")}
        assert len(loads) == 1 and ".128" in loads.pop()
        assert count(name, "LDG") == 4
    assert any("STRONG.GPU" in word for word in found["window_far"])  # not out of L1
    assert not any("STRONG" in word for word in found["window_near"])
    assert count("shared_window", "LDS") >= 2


def test_a_wrong_source_is_told_by_the_real_compiler(compiler: nvrtc.Compiler) -> None:
    with pytest.raises(RuntimeError, match=r"NVRTC_ERROR_COMPILATION in x\.cu: .*error.*undefined"):
        compiler.compile('extern "C" __global__ void k() { absent(); }', (9, 0), "x.cu")
