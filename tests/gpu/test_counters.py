"""Counters of a real GPU through ``hroof run --counters``; not run on a GPU so far.

They need a CUDA device, Nsight Compute (``ncu`` on the PATH, or named by ``HROOF_NCU``) and the right to read
counters; one of them needs a user without it. What a test finds out beside its verdict (passes, slowdown, coverage)
it prints: ``pytest -m gpu -s tests/gpu/test_counters.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import torch

from hroof import readers
from hroof.collect import nsight
from hroof.profile import Profile, flop_column
from hroof.readers.raw import Ranges
from hroof.units import Pipe, Precision

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

PARAMETERS = Path("/proc/driver/nvidia/params")
CAPTURED = {5, 6, 7}
TRUTH = "truth"
"""The domain in which a program marks by itself what step and phase it is in."""

TRANSFORMER = """
import contextlib, json, os, sys
import nvtx, torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
domain = nvtx.get_domain("truth")
known = {"step": 0}

@contextlib.contextmanager
def truth(phase):
    attributes = domain.get_event_attributes(message=f"{known['step']}.{phase}")
    opened = domain.start_range(attributes)
    try:
        yield
    finally:
        domain.end_range(opened)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.head = nn.Embedding(512, 256), nn.Linear(256, 512)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True) for _ in range(2)
        )
    def forward(self, ids):
        x = self.tok(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

net = Net().to(device)
adamw = torch.optim.AdamW(net.parameters(), 1e-3)
ids = torch.randint(0, 512, (8, 128), device=device)

def step():
    with truth("forward"):
        logits = net(ids)
    with truth("loss"):
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
    with truth("backward"):
        loss.backward()
    with truth("optimizer"):
        adamw.step()
    known["step"] += 1
    adamw.zero_grad()

def kernels():
    from torch.profiler import ProfilerActivity, profile
    for _ in range(5):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        for _ in range(3):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
    events = found.profiler.kineto_results.events()
    on_device = [e for e in events if e.device_type() == torch.autograd.DeviceType.CUDA]
    names = [e.name() for e in on_device if not e.name().startswith(("Memcpy", "Memset"))]
    print(json.dumps(sorted(names)))

if sys.argv[1:] == ["kernels"]:
    kernels()
else:
    for _ in range(12):
        step()
"""

WORK = """
import torch, hroof
from torch import nn
from torch.nn import functional

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.manual_seed(0)
bf16 = dict(device=device, dtype=torch.bfloat16)
wide = torch.randn(1 << 26, device=device) if device == "cuda" else torch.randn(64)
out = torch.empty_like(wide)

class Copy(nn.Module):
    def forward(self, x):
        return torch.neg(x, out=out)  # a contiguous copy of one type would be no kernel

class Reduction(nn.Module):
    def forward(self, x):
        return x.sum()

class Gemm(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.a, self.b = torch.randn(2048, 1024, **options), torch.randn(1024, 512, **options)
    def forward(self, x):
        return self.a @ self.b

class Fp8(nn.Module):
    def __init__(self):
        super().__init__()
        one = torch.ones((), device=device)
        self.a = torch.randn(2048, 1024, device=device).to(torch.float8_e4m3fn)
        self.b = torch.randn(512, 1024, device=device).to(torch.float8_e4m3fn).t()
        self.scales = (one, one)
    def forward(self, x):
        return torch._scaled_mm(self.a, self.b, *self.scales, out_dtype=torch.bfloat16)

class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(128, 256, 3, bias=False).to(**bf16, memory_format=torch.channels_last)
        self.images = torch.randn(32, 128, 34, 34, **bf16).to(memory_format=torch.channels_last)
    def forward(self, x):
        return self.conv(self.images)

class All(nn.Module):
    def __init__(self):
        super().__init__()
        self.copy, self.reduction = Copy(), Reduction()
        self.bf16, self.fp32 = Gemm(**bf16), Gemm(device=device)
        self.convolution = Convolution()
        if device == "cuda" and torch.cuda.get_device_capability() >= (8, 9):
            self.fp8 = Fp8()
    def forward(self, x):
        for part in self.children():
            part(x)

net = All()
with hroof.region("work", skip=2, steps=1), torch.no_grad():
    for _ in range(4):
        net(wide)
        hroof.step()
"""


@dataclass(frozen=True)
class Ended:
    """A command that ran to its end.

    Attributes:
        status: Its exit status.
        stdout: What it said.
        stderr: What it and hroof said on the side.
        folder: Where the result is, if there is one.
    """

    status: int
    stdout: str
    stderr: str
    folder: Path


Count = Callable[..., Ended]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Count:
    """Run a program under ``hroof run --counters``."""
    try:
        nsight.find()
    except nsight.NoProgramError as error:
        pytest.skip(str(error))

    def running(script: str, *options: str) -> Ended:
        folder = tmp_path_factory.mktemp("counted")
        (folder / "program.py").write_text(script)
        command = [sys.executable, "-m", "hroof", "run", "--counters", "--no-report"]
        command += ["--out", str(folder / "out"), *options]
        command += ["--", sys.executable, str(folder / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr, folder / "out")

    return running


@pytest.fixture(scope="module")
def counted(run: Count) -> Count:
    """The same, for tests that need the counters: who may not read them skips."""
    if _forbidden():
        pytest.skip("this user may not read the counters of the GPU (RmProfilingAdminOnly)")

    def counting(script: str, *options: str) -> Ended:
        ended = run(script, *options)
        assert ended.status == 0, ended.stderr
        return ended

    return counting


def _forbidden() -> bool:
    """Whether counters are for administrators only, and this user is none."""
    only_admins = PARAMETERS.exists() and "RmProfilingAdminOnly: 1" in PARAMETERS.read_text()
    return only_admins and os.geteuid() != 0


# --- exactly the captured steps -----------------------------------------------------------------


@pytest.fixture(scope="module")
def transformer(counted: Count) -> Ended:
    """Steps 5 to 7, the default, of a program that knows nothing of hroof."""
    return counted(TRANSFORMER)


def truths(ended: Ended) -> list[tuple[int, str]]:
    """What the program itself said of each launch: its step and its phase."""
    raw = readers.read([ended.folder / "counters.csv"])
    states = [*raw.ranges, Ranges()]
    found = [states[int(number)].started for number in raw.launches["ranges"]]
    said = [[name for domain, name in started if domain == TRUTH] for started in found]
    pairs = [names[-1].split(".") if names else ("-1", "between") for names in said]
    return [(int(step), phase) for step, phase in pairs]


def test_exactly_the_captured_steps(transformer: Ended) -> None:
    launches = Profile.load(transformer.folder).launches
    steps = [step for step, _ in truths(transformer)]
    within = [step for step in steps if step >= 0]
    assert set(within) == CAPTURED
    assert len(within) > 0.98 * len(steps), "between the steps there is next to nothing"
    assert set(launches["step"]) == {0, 1, 2}
    known = launches.assign(truth=steps)[lambda rows: rows["truth"] >= 0]
    assert (known["truth"] - 5 == known["step"]).all()


def test_no_kernel_of_them_is_missing(transformer: Ended) -> None:
    """As many kernels as PyTorch's own profiler sees in three steps of the same program."""
    program = transformer.folder.parent / "program.py"
    done = subprocess.run(
        [sys.executable, str(program), "kernels"], capture_output=True, text=True, check=True
    )
    expected: list[str] = json.loads(done.stdout.splitlines()[-1])
    found = Profile.load(transformer.folder).launches["kernel"].astype(str)
    assert len(found) == len(expected), (Counter(found), Counter(expected))


def test_every_phase_is_the_programs_own(transformer: Ended) -> None:
    launches = Profile.load(transformer.folder).launches
    said = [phase for _, phase in truths(transformer)]
    for phase in ("forward", "loss", "backward", "optimizer"):
        own = launches[[word == phase for word in said]]
        assert len(own) > 0, phase
        # The gradient that backward() starts from is made before the pass: it counts as loss.
        right = own["phase"].astype(str) == phase
        assert right.mean() > 0.95, own.loc[~right, ["kernel", "phase"]]


def test_backward_finds_its_layers(transformer: Ended) -> None:
    launches = Profile.load(transformer.folder).launches
    backward = launches[launches["phase"] == "backward"]
    layers = set(backward["layer"].dropna().astype(str))
    assert {"head", "tok", "blocks.0.linear1", "blocks.1.linear2", "blocks.0.norm1"} <= layers


def test_time_belongs_to_layers(transformer: Ended) -> None:
    launches = Profile.load(transformer.folder).launches
    for phase in ("forward", "backward"):
        own = launches[launches["phase"] == phase]
        share = own.loc[own["layer"].notna(), "duration"].sum() / own["duration"].sum()
        print(f"{phase}: {share:.1%} of the kernel time belongs to a layer")
        assert share >= 0.97


def test_passes_and_slowdown_are_known(transformer: Ended) -> None:
    described = Profile.load(transformer.folder).run
    passes = described["counters_mode"]["passes"]
    marked = pd.Series([step["marked_wall"] for step in described["steps"]]).median()
    undisturbed = described["undisturbed_step"]
    print(
        f"{passes} passes per kernel; a captured step takes {marked / undisturbed:.0f} times as long"
    )
    assert 1 <= passes <= 16
    assert marked > undisturbed


# --- work and bytes against formulas ------------------------------------------------------------


@pytest.fixture(scope="module")
def work(counted: Count) -> pd.DataFrame:
    """One step in which every layer does one thing."""
    return Profile.load(counted(WORK).folder).launches


def flop_of(work: pd.DataFrame, layer: str, pipe: Pipe, precision: Precision) -> float:
    own = work[work["layer"].astype(str).isin([layer, f"{layer}.conv"])]
    assert len(own) > 0, sorted(set(work["layer"].dropna().astype(str)))
    return float(own[flop_column("nominal", pipe, precision)].sum())


GEMM = 2.0 * 2048 * 1024 * 512
CONVOLUTION = 2.0 * (32 * 32 * 32) * 256 * (128 * 3 * 3)


@pytest.mark.parametrize(
    ("layer", "pipe", "precision", "expected"),
    [
        ("bf16", Pipe.MATRIX, Precision.BF16, GEMM),
        ("fp32", Pipe.VECTOR, Precision.FP32, GEMM),
        ("convolution", Pipe.MATRIX, Precision.BF16, CONVOLUTION),
        ("fp8", Pipe.MATRIX, Precision.FP8, GEMM),
    ],
)
def test_flop_are_those_of_the_formula(
    work: pd.DataFrame, layer: str, pipe: Pipe, precision: Precision, expected: float
) -> None:
    """Sizes are multiples of every tile; vector work also has the scaling of the result."""
    capability = torch.cuda.get_device_capability()
    if layer == "fp8" and capability < (8, 9):
        pytest.skip(f"compute capability {capability} has no FP8")
    if precision is Precision.BF16 and capability < (8, 0):
        pytest.skip(f"compute capability {capability} has no BF16 in its matrix units")
    tolerance = 0.02 if pipe is Pipe.VECTOR or layer == "convolution" else 1e-9
    assert flop_of(work, layer, pipe, precision) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(("layer", "passes"), [("copy", 2), ("reduction", 1)])
@pytest.mark.parametrize("level", ["l1", "l2", "dram"])
def test_bytes_are_those_that_have_to_move(
    work: pd.DataFrame, layer: str, passes: int, level: str
) -> None:
    """256 MiB, several times an L2 cache: every level moves each byte once per pass."""
    own = work[work["layer"].astype(str) == layer]
    moved = float(own[f"bytes_{level}"].sum())
    if pd.isna(own[f"bytes_{level}"]).all():
        pytest.skip(f"this chip has no counter of {level} bytes")
    assert moved == pytest.approx(passes * 4 * (1 << 26), rel=0.1)


# --- without the permission ---------------------------------------------------------------------


def test_a_user_without_the_right_is_told_the_way_out(run: Count) -> None:
    if not _forbidden():
        pytest.skip("this user may read counters")
    ended = run("print('the program ran')\n" + TRANSFORMER)
    assert ended.status == 5
    assert "the program ran" in ended.stdout
    assert "ERR_NVGPUCTRPERM" in ended.stderr
    for way in ("NVreg_RestrictProfilingToAdminUsers=0", "CAP_SYS_ADMIN", "provider"):
        assert way in ended.stderr
    assert not (ended.folder / "run.json").exists()
