"""CUDA kernels compiled at run time: NVRTC and the driver, called through ctypes in the context that PyTorch made.

Nothing but the driver and the NVRTC library is needed, and PyTorch for CUDA brings the latter: no toolkit, no header,
no compiler. The calls follow the reference of NVRTC (``nvrtcCompileProgram``) and of the CUDA driver API
(``cuModuleLoadData``, ``cuLaunchKernel``). Not run on a GPU so far; compiling is tested without one.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from hroof.errors import MissingError

Argument = Any
"""A ctypes value, such as ``ctypes.c_uint(3)``: the type has to be the one that the kernel declares."""

_WINDOWS = sys.platform == "win32"
_PATTERN = re.compile(r"libnvrtc\.so\.(\d+)[\d.]*|nvrtc64_(\d+?)\d_0\.dll")
"""File names of NVRTC, with the major version; not those of its parts, ``alt`` and ``builtins``."""
_FOLDERS = ("lib", "bin", "bin/x86_64", "bin/x64", "lib64")
_CARVEOUT = 9
"""``CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT``: percent of L1 that becomes shared memory."""
_LOG_LINES = 3


# --- the libraries ------------------------------------------------------------------------------


def search_folders(environment: Mapping[str, str] | None = None) -> list[Path]:
    """Folders in which NVRTC may lie: NVIDIA's Python packages, PyTorch, a toolkit."""
    environment = os.environ if environment is None else environment
    spec = importlib.util.find_spec("nvidia")
    packages = [Path(root) for root in (spec.submodule_search_locations or [])] if spec else []
    roots = [part for package in packages for part in sorted(package.glob("*"), reverse=True)]
    roots.append(Path(torch.__file__).parent)
    roots += [
        Path(environment[name]) for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)
    ]
    roots.append(Path("/usr/local/cuda"))
    return [root / name for root in roots for name in _FOLDERS]


def library_names(cuda: str | None, folders: Iterable[Path]) -> list[str]:
    """What to ask the loader for, best first: files of PyTorch's own CUDA version come before others.

    Args:
        cuda: Version of CUDA that PyTorch was built with; None without.
        folders: Where files are looked for.
    """
    major = cuda.partition(".")[0] if cuda else ""
    found: list[tuple[bool, str]] = []
    for folder in folders:
        for path in sorted(folder.glob("*nvrtc*"), reverse=True) if folder.is_dir() else []:
            match = _PATTERN.fullmatch(path.name)
            if match:
                found.append(((match[1] or match[2]) != major, str(path)))
    ours = [path for other, path in found if not other]
    return [*ours, *_plain_names(major), *(path for other, path in found if other)]


def _plain_names(major: str) -> list[str]:
    """Names that the loader of the system resolves."""
    if _WINDOWS:
        return [f"nvrtc64_{major}0_0.dll"] if major else []
    return [*([f"libnvrtc.so.{major}"] if major else []), "libnvrtc.so"]


def _first(names: Iterable[str], load: Callable[[str], Any]) -> Any:
    """The first library that loads; None where none does."""
    for name in names:
        try:
            return load(name)
        except OSError:
            continue
    return None


@functools.cache
def compiler() -> Compiler:
    """NVRTC.

    Raises:
        MissingError: There is no such library.
    """
    library = _first(library_names(torch.version.cuda, search_folders()), ctypes.CDLL)
    if library is None:
        raise MissingError(
            "NVRTC, which compiles CUDA kernels at run time, was not found.",
            "Install a PyTorch build with CUDA from pip, or nvidia-cuda-nvrtc-cu12 (CUDA 13: nvidia-cuda-nvrtc).",
        )
    return Compiler(library)


@functools.cache
def driver() -> Driver:
    """The CUDA driver.

    Raises:
        MissingError: There is none.
    """
    library = _first(["nvcuda.dll"] if _WINDOWS else ["libcuda.so.1"], ctypes.CDLL)
    if library is None:
        raise MissingError(
            "The CUDA driver was not found.",
            "Install the driver of the GPU, or choose --device cpu.",
        )
    return Driver(library)


# --- compiling ----------------------------------------------------------------------------------


class Compiler:
    """NVRTC.

    Args:
        library: As ``ctypes.CDLL`` opens it.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        library.nvrtcGetErrorString.restype = ctypes.c_char_p

    @property
    def version(self) -> str:
        """Such as ``12.9``."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._do("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def architectures(self) -> list[int]:
        """Compute capabilities that it can compile for, times ten, rising."""
        count = ctypes.c_int()
        self._do("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._do("nvrtcGetSupportedArchs", found)
        return sorted(found)

    def compile(self, source: str, capability: tuple[int, int], name: str = "hroof.cu") -> bytes:
        """Compile for a device.

        Where NVRTC is older than the device, the result is PTX for the newest architecture that it knows, which the
        driver translates when it is loaded.

        Args:
            source: CUDA C++; kernels are ``extern "C"``.
            capability: Compute capability of the device.
            name: What messages call the source.

        Returns:
            What ``Driver.load`` takes.

        Raises:
            RuntimeError: The source is wrong, or no architecture fits.
        """
        wanted = capability[0] * 10 + capability[1]
        known = [number for number in self.architectures() if number <= wanted]
        if not known:
            raise RuntimeError(
                f"NVRTC {self.version} cannot compile for compute capability {wanted / 10}"
            )
        if known[-1] == wanted:
            return self._build(source, name, f"sm_{wanted}", "nvrtcGetCUBIN")
        return self._build(source, name, f"compute_{known[-1]}", "nvrtcGetPTX")

    def _build(self, source: str, name: str, architecture: str, get: str) -> bytes:
        program = ctypes.c_void_p()
        text, title = source.encode(), name.encode()
        self._do("nvrtcCreateProgram", ctypes.byref(program), text, title, 0, None, None)
        try:
            options = [b"--std=c++17", f"--gpu-architecture={architecture}".encode()]
            packed = (ctypes.c_char_p * len(options))(*options)
            code = self._library.nvrtcCompileProgram(program, len(options), packed)
            if code:
                lines = (
                    self._text(program, "nvrtcGetProgramLog").decode(errors="replace").splitlines()
                )
                told = [line for line in lines if "error" in line][:_LOG_LINES]
                raise RuntimeError(
                    f"{self._error(code)} in {name}: {' '.join(told) or 'no message'}"
                )
            return self._text(program, get)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        """A text or an image that NVRTC holds ready."""
        size = ctypes.c_size_t()
        self._do(f"{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._do(what, program, buffer)
        return buffer.raw

    def _do(self, call: str, *arguments: Any) -> None:
        code = getattr(self._library, call)(*arguments)
        if code:
            raise RuntimeError(f"{call} failed: {self._error(code)}")

    def _error(self, code: int) -> str:
        text = self._library.nvrtcGetErrorString(code)
        return text.decode() if text else f"NVRTC error {code}"


# --- running ------------------------------------------------------------------------------------


class Driver:
    """The CUDA driver.

    Args:
        library: As ``ctypes.CDLL`` opens it.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        word, pointer = ctypes.c_uint, ctypes.c_void_p
        library.cuLaunchKernel.argtypes = [pointer, *[word] * 7, pointer, pointer, pointer]

    def load(self, image: bytes) -> Callable[[str], Function]:
        """Load a compiled program into the context of this thread.

        Args:
            image: As ``Compiler.compile`` gives it.

        Returns:
            Gives each kernel of the program by its name.

        Raises:
            RuntimeError: This thread has no context, or the driver refuses the image.
        """
        context = ctypes.c_void_p()
        self.do("cuCtxGetCurrent", ctypes.byref(context))
        if not context.value:
            raise RuntimeError("PyTorch has made no CUDA context on this thread")
        module = ctypes.c_void_p()
        self.do("cuModuleLoadData", ctypes.byref(module), image)
        return functools.partial(self._function, module)

    def _function(self, module: ctypes.c_void_p, name: str) -> Function:
        found = ctypes.c_void_p()
        self.do("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
        return Function(self, found)

    def do(self, call: str, *arguments: Any) -> None:
        """Make one call.

        Raises:
            RuntimeError: The driver answers with an error, of which it says name and meaning.
        """
        code = getattr(self._library, call)(*arguments)
        if code:
            raise RuntimeError(f"{call} failed: {self._error(code)}")

    def _error(self, code: int) -> str:
        said = []
        for ask in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            if not getattr(self._library, ask)(code, ctypes.byref(text)) and text.value:
                said.append(text.value.decode())
        return ": ".join(said) or f"CUDA error {code}"


class Function:
    """A kernel that is ready to be launched."""

    def __init__(self, driver: Driver, handle: ctypes.c_void_p) -> None:
        self._driver = driver
        self._handle = handle

    def prefer_l1(self) -> None:
        """Leave as much as possible of the memory that L1 and shared memory divide to L1."""
        self._driver.do("cuFuncSetAttribute", self._handle, _CARVEOUT, 0)

    def bind(self, grid: int, block: int, arguments: Sequence[Argument]) -> BoundKernel:
        """Fix what one launch needs, so that launching costs little.

        Args:
            grid: Blocks.
            block: Threads per block.
            arguments: In the order in which the kernel declares them.

        Raises:
            TypeError: An argument is no ctypes value, so that its size is not known.
        """
        for argument in arguments:
            if not isinstance(argument, ctypes._SimpleCData):
                raise TypeError(f"an argument of a kernel is {argument!r}, not a ctypes value")
        return BoundKernel(self._driver, self._handle, (grid, block), tuple(arguments))


class BoundKernel:
    """A kernel with its grid and its arguments."""

    def __init__(
        self,
        driver: Driver,
        handle: ctypes.c_void_p,
        shape: tuple[int, int],
        arguments: tuple[Argument, ...],
    ) -> None:
        self._driver = driver
        self._handle = handle
        self._grid, self._block = shape
        self._values = (
            arguments  # held: the driver reads them through their addresses at every launch
        )
        self._addresses = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))

    def __call__(self, stream: int) -> None:
        """Launch it on the stream with the given handle, and do not wait for it.

        Raises:
            RuntimeError: The driver refuses the launch.
        """
        handle, addresses = self._handle, self._addresses
        grid, block = (self._grid, 1, 1), (self._block, 1, 1)
        self._driver.do("cuLaunchKernel", handle, *grid, *block, 0, stream, addresses, None)
