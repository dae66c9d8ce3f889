"""Every job of the project. Plain ``nox`` is the whole check: lint, types, imports, tests.

The jobs share the environment that ``dev`` makes (``.nox/dev``). Only those that are about what gets
installed have their own.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
CONSTRAINTS = ROOT / "constraints.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_KERAS = ("keras", "tensorflow-cpu")
KERAS_TESTS = "tests/integrations/hroof_keras"
TORCH_TESTS = "tests/integrations/hroof_torch"
KERAS_GRAPHS = [f"{KERAS_TESTS}/{room}" for room in ("graph", "scopes")]
KERAS_WHOLE = [f"{KERAS_TESTS}/{name}" for name in ("test_identity.py", "test_capture.py", "whole")]
PARTS = {
    "others": [f"--ignore={folder}" for folder in (KERAS_TESTS, TORCH_TESTS)],
    "torch": [TORCH_TESTS],
    "keras": [KERAS_TESTS, *(f"--ignore={room}" for room in (*KERAS_GRAPHS, *KERAS_WHOLE))],
    "keras-whole": KERAS_WHOLE,
    "keras-graph": KERAS_GRAPHS[:1],
    "keras-scopes": KERAS_GRAPHS[1:],
}
"""Arguments of pytest, the longest part first.

Models and compiled programs of one part are not looked through by the regions of another. XLA keeps its programs until
the process ends, and they lie in every profile: so what profiles most often comes before what compiles most.
"""
BIN = ROOT / ".nox" / "dev" / ("Scripts" if os.name == "nt" else "bin")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["lint", "types", "imports", "tests"]


@nox.session(reuse_venv=True, default=False)
def dev(session: nox.Session) -> None:
    """Make the shared environment."""
    # The exact torch comes first and alone: a CPU build is taken wherever pip is offered one.
    session.install(_pin("torch"))
    _install(session, "-e", ".", *_KERAS, *_group("test"), *_group("lint"))


@nox.session(venv_backend="none", requires=["dev"])
def lint(session: nox.Session) -> None:
    """Style and format."""
    _run(session, "ruff", "check", ".")
    _run(session, "ruff", "format", "--check", ".")


@nox.session(venv_backend="none", requires=["dev"])
def types(session: nox.Session) -> None:
    """Types, strictly."""
    _run(session, "mypy", *session.posargs)


@nox.session(venv_backend="none", requires=["dev"])
def imports(session: nox.Session) -> None:
    """The contract of which package may import which."""
    _run(session, "lint-imports", "--no-cache")


@nox.session(venv_backend="none", requires=["dev"])
def tests(session: nox.Session) -> None:
    """Every test that needs neither a GPU nor a stopwatch, in parts that run two at a time."""
    if session.posargs:
        _run(session, "python", "-m", "pytest", *session.posargs)
        return
    folder = Path(session.create_tmp())
    with ThreadPoolExecutor(max_workers=2) as pool:
        started = [pool.submit(_part, name, PARTS[name], folder) for name in PARTS]
    failed = [name for name, each in zip(PARTS, started, strict=True) if each.result()]
    if failed:
        session.error(f"tests failed: {', '.join(failed)}")


def _part(name: str, arguments: list[str], folder: Path) -> int:
    """Run pytest; what it says is shown when it ends."""
    log = folder / f"{name}.txt"
    with log.open("wb") as output:
        command = [BIN / "python", "-m", "pytest", *arguments]
        done = subprocess.run(command, stdout=output, stderr=output, cwd=ROOT, check=False)
    sys.stdout.write(f"{name}\n{log.read_text(encoding='utf-8', errors='replace')}")
    sys.stdout.flush()
    return done.returncode


@nox.session(venv_backend="none", requires=["dev"])
def perf(session: nox.Session) -> None:
    """Ratios of speed within one run; wants a machine with nothing else to do."""
    _run(session, "python", "-m", "pytest", "-m", "perf", *session.posargs)


@nox.session(venv_backend="none", requires=["dev"])
def browser(session: nox.Session) -> None:
    """The pages in a real Chromium, headless."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    named = os.environ.get("HROOF_CHROMIUM")
    if not any(map(shutil.which, [named] if named else names)):
        session.skip(
            "there is no Chromium (chromium is not on PATH, and HROOF_CHROMIUM names none)"
        )
    _run(session, "python", "-m", "pytest", "-m", "browser", "tests/browser", *session.posargs)


@nox.session(venv_backend="none", requires=["dev"])
def gpu(session: nox.Session) -> None:
    """The tests that need a CUDA device."""
    if shutil.which("nvidia-smi") is None:
        session.skip("there is no NVIDIA driver on this machine (nvidia-smi is absent)")
    _run(session, "python", "-m", "pytest", "-m", "gpu", *session.posargs)


@nox.session(venv_backend="none", requires=["dev"])
def ncu(session: nox.Session) -> None:
    """The tests that ask a real Nsight Compute; it needs no GPU for them."""
    if shutil.which(os.environ.get("HROOF_NCU") or "ncu") is None:
        session.skip(
            "there is no Nsight Compute (ncu is not on PATH, and HROOF_NCU does not name it)"
        )
    found = [str(path) for path in sorted(ROOT.glob("tests/integrations/test_ncu_*.py"))]
    _run(session, "python", "-m", "pytest", *found, *session.posargs)


@nox.session
def nvrtc(session: nox.Session) -> None:
    """The kernels that measure a GPU, compiled for real; it needs no GPU for that."""
    session.install(_pin("torch"))
    _install(session, "-e", ".", *_group("test"), "nvidia-cuda-nvrtc-cu12")
    test = "tests/integrations/hroof_torch/ceilings/cuda/test_nvrtc.py"
    session.run("python", "-m", "pytest", test, *session.posargs)


@nox.session
def torch_only(session: nox.Session) -> None:
    """PyTorch without Keras and TensorFlow: every test that can run there; the others skip and say so.

    Then Keras comes on top, with PyTorch as its backend.
    """
    session.install(_pin("torch"))
    _test_without(session, "keras", "tensorflow")
    _install(session, "keras")
    on_torch = "tests/integrations/hroof_torch/test_keras_backend.py"
    session.run("python", "-m", "pytest", on_torch, "tests/integrations/test_examples_keras.py")


@nox.session
def keras_only(session: nox.Session) -> None:
    """Keras and TensorFlow without PyTorch: every test that can run there; the others skip and say so."""
    _install(session, *_KERAS)
    _test_without(session, "torch")


@nox.session
def jax(session: nox.Session) -> None:
    """Keras on JAX, with neither TensorFlow nor PyTorch."""
    _install(session, "-e", ".", "keras", "jax", *_group("test"))
    found = [
        str(path) for path in sorted(ROOT.glob("tests/integrations/hroof_keras/on_jax/test_*.py"))
    ]
    environment = {"KERAS_BACKEND": "jax"}
    session.run("python", "-m", "pytest", *found, *session.posargs, env=environment)


@nox.session
def tensorflow(session: nox.Session) -> None:
    """TensorFlow's own ranges as a tool hears them: takes the full wheel (572 MB), and no GPU."""
    version = _pin("tensorflow-cpu").partition("==")[2]
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        session.skip("only the wheel of TensorFlow for Linux on x86-64 emits NVTX ranges")
    try:
        _install(session, f"tensorflow=={version}", "keras")
    except CommandFailed:
        session.skip(f"the full wheel of TensorFlow {version} cannot be installed here")
    _install(session, "-e", ".", *_group("test"))
    found = [f"tests/integrations/hroof_keras/test_{name}.py" for name in ("nvtx", "tsl")]
    session.run("python", "-m", "pytest", *found, *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build a wheel from the source archive; run the tests against it, not against this folder."""
    _install(session, "hatchling")
    dist = Path(session.create_tmp()) / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.run("python", "-m", "hatchling", "build", "-t", "sdist", "-d", str(dist))
    sdist = next(dist.glob("*.tar.gz"))
    session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(dist), str(sdist))
    built = next(dist.glob("*.whl"))
    session.install(_pin("torch"))
    _install(session, str(built), *_KERAS, *_group("test"))
    _check_complete(session, built)
    # This folder stays off sys.path, also in the tests' own subprocesses, so that a file that the
    # wheel lacks is missed.
    _in_parts(session, "-Im", env={"PYTHONSAFEPATH": "1"})


@nox.session
def minimums(session: nox.Session) -> None:
    """The unit tests with the lowest versions that pyproject.toml allows; no framework."""
    lowest = [spec.replace(">=", "==") for spec in PROJECT["project"]["dependencies"]]
    # Old matplotlib fits the parser of its time; later ones warn of it.
    session.install(*lowest, *_group("test"), "pyparsing<3.3")
    session.install("--no-deps", "-e", ".")
    session.run("python", "-m", "pytest", "tests/unit", *session.posargs)


def _install(session: nox.Session, *arguments: str) -> None:
    """Install with the pins, also in the environment where pip builds this project."""
    pins = str(CONSTRAINTS)
    session.install("-c", pins, *arguments, env={"PIP_BUILD_CONSTRAINT": pins})


def _test_without(session: nox.Session, *absent: str) -> None:
    """Run the tests where these packages are not installed."""
    _install(session, "-e", ".", *_group("test"))
    for name in absent:
        there = f"import importlib.util as u, sys; sys.exit(u.find_spec({name!r}) is not None)"
        session.run("python", "-c", there)
    _in_parts(session, "-m")


def _in_parts(session: nox.Session, switch: str, **options: Any) -> None:
    """Run the tests as the job of that name does, one part after the other.

    Where a framework is absent, every file of a part may be skipped: pytest calls that 5.
    """
    for arguments in [session.posargs] if session.posargs else PARTS.values():
        session.run("python", switch, "pytest", *arguments, success_codes=[0, 5], **options)


def _run(session: nox.Session, program: str, *arguments: str) -> None:
    """Run a program of the shared environment."""
    session.run(str(BIN / program), *arguments, external=True)


def _check_complete(session: nox.Session, built: Path) -> None:
    """Every tracked file of the packages (templates, py.typed) lies in the wheel."""
    listing = session.run("git", "ls-files", "hroof", "integrations", external=True, silent=True)
    tracked = {name.removeprefix("integrations/") for name in str(listing).split()}
    missing = sorted(tracked - set(zipfile.ZipFile(built).namelist()))
    if missing or not tracked:
        session.error(f"{built.name} lacks {missing or 'everything: git lists no file'}")


def _group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(PROJECT, name))


def _pin(package: str) -> str:
    """The exact requirement of one package in constraints.txt."""
    found = re.search(rf"^{package}==\S+$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise LookupError(f"constraints.txt has no line {package}==...")
    return found.group()
