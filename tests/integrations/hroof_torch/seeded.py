"""Small training programs in pairs: one with a fault that a rule should find, one that does the same without it."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from hroof.findings import Finding, findings
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.regions import Region
from hroof.units import MemoryLevel, Pipe, Precision

Step = Callable[[], object]

PEAKS = {"vector_fp32": 50e9, "matrix_fp32": 100e9, "vector_fp64": 25e9, "matrix_fp64": 50e9}
MACHINE = Machine(
    "a processor with round numbers",
    peaks={
        (Pipe(pipe), Precision(q)): Ceiling(rate, "given")
        for (pipe, q), rate in ((name.split("_"), rate) for name, rate in PEAKS.items())
    },
    bandwidths={
        MemoryLevel.L1: Ceiling(100e9, "given"),
        MemoryLevel.L2: Ceiling(50e9, "given"),
        MemoryLevel.L3: Ceiling(25e9, "given"),
        MemoryLevel.DRAM: Ceiling(10e9, "given"),
    },
    launch_cost=Ceiling(2e-6, "given"),
    shared_pipes=True,
)
"""What bounds an op depends on its counts and these numbers only, on whatever computer the tests run."""

WITH_BF16 = dataclasses.replace(
    MACHINE, peaks={**MACHINE.peaks, (Pipe.MATRIX, Precision.BF16): Ceiling(400e9, "given")}
)


@dataclass(frozen=True)
class Pair:
    """A fault and its repair.

    Attributes:
        kind: Of the finding.
        faulty: Builds the step of the program with the fault.
        clean: Builds the step of the one without.
        beside: Kinds of findings that are right about the faulty program as well.
        machine: The ceilings.
        same_work: Both do the same work, so that their times can be compared.
    """

    kind: str
    faulty: Callable[[], Step]
    clean: Callable[[], Step]
    beside: tuple[str, ...] = ()
    machine: Machine = MACHINE
    same_work: bool = True


def trainer(model: nn.Module, batch: Callable[[], Tensor], **options: Any) -> Step:
    """A step of training with a mean of squares as the loss; SGD in one op for all parameters."""
    options = options or {"fused": True}
    parameters = [p for p in model.parameters() if p.requires_grad]
    sgd = torch.optim.SGD(parameters, 1e-6, **options)
    wanted: dict[tuple[torch.Size, torch.dtype], Tensor] = {}

    def step() -> None:
        out = model(batch())
        target = wanted.setdefault((out.shape, out.dtype), torch.zeros(()))
        if target.shape != out.shape:
            target = wanted[out.shape, out.dtype] = torch.zeros_like(out)
        functional.mse_loss(out, target).backward()
        sgd.step()
        sgd.zero_grad(set_to_none=True)

    return step


def constant(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    """The same batch again and again, made before the first step."""
    torch.manual_seed(0)
    batch = torch.randn(shape).to(dtype)
    return lambda: batch


def linears(count: int, width: int) -> nn.Sequential:
    """Linear layers of one width without biases."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(count)))


class Between(nn.Module):
    """Two linear layers with something between them."""

    def __init__(self, width: int, inner: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(width, width, bias=False)
        self.last = nn.Linear(width, width, bias=False)
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(self.first(x)))


# --- number formats -----------------------------------------------------------------------------


def wide() -> Step:
    return trainer(linears(3, 512), constant(512, 512))


def mixed() -> Step:
    return trainer(linears(3, 512).bfloat16(), constant(512, 512, dtype=torch.bfloat16))


def double() -> Step:
    return trainer(linears(3, 512).double(), constant(512, 512, dtype=torch.float64))


# --- elementwise --------------------------------------------------------------------------------


def gelu_by_hand(x: Tensor) -> Tensor:
    cubed = x * x * x
    return 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * cubed)))


def by_hand() -> Step:
    return trainer(Between(64, gelu_by_hand), constant(16384, 64))


def in_one_op() -> Step:
    return trainer(
        Between(64, lambda x: functional.gelu(x, approximate="tanh")), constant(16384, 64)
    )


# --- reuse --------------------------------------------------------------------------------------


class Distilled(nn.Module):
    """A student of a large frozen layer that is asked row by row, or for all rows at once."""

    def __init__(self, *, rows_at_once: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.teacher = nn.Linear(2048, 2048, bias=False).requires_grad_(False)
        self.student = nn.Linear(2048, 64, bias=False)
        self.rows = rows_at_once

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            taught = torch.cat([self.teacher(part) for part in x.split(self.rows)])
        return self.student(x) - taught[:, :64]


def row_by_row() -> Step:
    return trainer(Distilled(rows_at_once=1), constant(48, 2048))


def all_rows() -> Step:
    return trainer(Distilled(rows_at_once=48), constant(48, 2048))


# --- launches -----------------------------------------------------------------------------------


class Heads(nn.Module):
    """Many small products, in a loop or as one batched product."""

    def __init__(self, *, loop: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weights = nn.Parameter(torch.randn(256, 16, 16))
        self.loop = loop

    def forward(self, x: Tensor) -> Tensor:
        if not self.loop:
            return torch.bmm(x, self.weights)
        return torch.stack([part @ w for part, w in zip(x, self.weights, strict=True)])


def one_by_one() -> Step:
    return trainer(Heads(loop=True), constant(256, 32, 16))


def batched() -> Step:
    return trainer(Heads(loop=False), constant(256, 32, 16))


# --- zero-FLOP work -----------------------------------------------------------------------------


def there_and_back(x: Tensor) -> Tensor:
    turned = x.view(16, 64, 32, 32).permute(0, 2, 3, 1).contiguous()
    return turned.permute(0, 3, 1, 2).contiguous().view(-1, 64)


def layouts() -> Step:
    return trainer(Between(64, there_and_back), constant(16384, 64))


def formats() -> Step:
    return trainer(Between(64, lambda x: x.double().float().double().float()), constant(16384, 64))


def plain() -> Step:
    return trainer(Between(64, lambda x: x), constant(16384, 64))


# --- padding ------------------------------------------------------------------------------------


def convolutions(kernel: int, padding: int) -> Step:
    torch.manual_seed(0)
    layers = [nn.Conv2d(64, 64, kernel, padding=padding, bias=False) for _ in range(2)]
    return trainer(nn.Sequential(*layers), constant(64, 64, 6, 6))


# --- recompute ----------------------------------------------------------------------------------


class Checkpointed(nn.Module):
    """Layers whose results are dropped and worked out again."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.layers, x, use_reentrant=False)


def checkpointed() -> Step:
    return trainer(Checkpointed(linears(3, 512)), constant(512, 512))


# --- optimizer ----------------------------------------------------------------------------------


def with_adamw(**options: Any) -> Step:
    model = linears(32, 128)
    adamw = torch.optim.AdamW(model.parameters(), 1e-6, **options)
    batch = constant(256, 128)

    def step() -> None:
        model(batch()).square().mean().backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)

    return step


# --- data ---------------------------------------------------------------------------------------


class Packed(Dataset[Tensor]):
    """Samples that are unpacked when they are asked for, each time anew."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.samples = [zlib.compress(torch.randn(65536).numpy().tobytes(), 1) for _ in range(16)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Tensor:
        packed = bytearray(zlib.decompress(self.samples[index]))
        return torch.frombuffer(packed, dtype=torch.float32)[:8192].view(16, 512)


def endless(loader: Iterable[Tensor]) -> Callable[[], Tensor]:
    """Asks a loader for its next batch, again and again."""

    def forever() -> Iterable[Tensor]:
        while True:
            yield from loader

    batches = iter(forever())
    return lambda: next(batches)


def unpacking() -> Step:
    return trainer(linears(2, 512), endless(DataLoader(Packed(), batch_size=16)))


def unpacked_before() -> Step:
    return trainer(linears(2, 512), constant(16, 16, 512))


# --- latency ------------------------------------------------------------------------------------


def by_channel() -> Step:
    """A convolution of each channel for itself, which is a slow loop in fp64."""
    torch.manual_seed(0)
    layer = nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False, dtype=torch.float64)
    return trainer(layer, constant(4, 32, 32, 32, dtype=torch.float64))


def all_channels() -> Step:
    torch.manual_seed(0)
    return trainer(nn.Conv2d(32, 32, 3, padding=1, bias=False), constant(32, 32, 32, 32))


# --- idle ---------------------------------------------------------------------------------------


class Thinking(nn.Module):
    """Plain Python in the middle of the forward pass."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.layers, self.rounds = linears(2, 512), rounds

    def forward(self, x: Tensor) -> Tensor:
        first = self.layers[0](x)
        for number in range(self.rounds):
            zlib.crc32(bytes(number % 256 for _ in range(1000)))
        return self.layers[1](first)


def thinking() -> Step:
    return trainer(Thinking(500), constant(512, 512))


def not_thinking() -> Step:
    return trainer(Thinking(0), constant(512, 512))


# --- work of unknown size -----------------------------------------------------------------------


@torch.library.custom_op("seeded::sorted_twice", mutates_args=())
def sorted_twice(x: Tensor) -> Tensor:
    return x.sort(0).values.sort(1).values


def own_op() -> Step:
    return trainer(Between(64, lambda x: x + sorted_twice(x.detach())), constant(1024, 64))


def no_own_op() -> Step:
    return trainer(Between(64, lambda x: x), constant(1024, 64))


# --- all of them --------------------------------------------------------------------------------

PAIRS = {
    "fp32 products": Pair("precision", wide, mixed, machine=WITH_BF16),
    "fp64": Pair("precision", double, wide),
    "elementwise by hand": Pair("elementwise", by_hand, in_one_op),
    "row by row": Pair("reuse", row_by_row, all_rows),
    "one by one": Pair("small-launches", one_by_one, batched),
    "layouts": Pair("conversion", layouts, plain),
    "formats": Pair("conversion", formats, plain),
    "large kernels": Pair(
        "padding", lambda: convolutions(5, 2), lambda: convolutions(3, 0), same_work=False
    ),
    "checkpoint": Pair("recompute", checkpointed, wide),
    "loop of AdamW": Pair(
        "optimizer", lambda: with_adamw(foreach=False), lambda: with_adamw(fused=True)
    ),
    "lists of AdamW": Pair(
        "optimizer", lambda: with_adamw(foreach=True), lambda: with_adamw(fused=True)
    ),
    "unpacking": Pair("data", unpacking, unpacked_before),
    "slow loop": Pair(
        "latency",
        by_channel,
        all_channels,
        ("precision",),
        same_work=False,
    ),
    "thinking": Pair("idle", thinking, not_thinking),
    "own op": Pair("no-rule", own_op, no_own_op, same_work=False),
}


KINDS = {*(pair.kind for pair in PAIRS.values()), "imbalance"}


def profile_of(step: Step, *, skip: int = 3, steps: int = 5) -> Profile:
    """Run a program under a region."""
    region = Region("seeded", skip=skip, steps=steps)
    with region:
        for _ in range(skip + 1 + steps):
            step()
    assert region.outcome.profile is not None, region.outcome
    return region.outcome.profile


def quiet(profile: Profile) -> Profile:
    """The profile as on an idle computer: each op, and each gap before one, takes what it took in the fastest step.

    Other programs stop an op of one step or another, hardly ever the same op of all of them.
    """
    launches = profile.launches.sort_values("start", kind="stable")
    ends = (launches["start"] + launches["duration"]).cummax().shift()
    gaps = (launches["start"] - ends).clip(lower=0.0)
    gaps[launches["step"] != launches["step"].shift()] = float("nan")
    same = [launches[key] for key in ("phase", "layer", "op", "recompute", "ordinal")]
    options = {"observed": True, "dropna": False}
    times = launches["duration"].groupby(same, **options).transform("min")
    between = gaps.groupby(same, **options).transform("min")
    walls = (times + between.fillna(0.0)).groupby(launches["step"]).sum()
    steps = profile.run["steps"]
    waits = [step["loading"] for step in steps if "loading" in step]
    least = {"loading": min(waits)} if waits else {}
    run = {key: value for key, value in profile.run.items() if key != "undisturbed_step"}
    run["steps"] = [{**step, "wall": float(walls[step["step"]]), **least} for step in steps]
    return profile.replace(launches=profile.launches.assign(duration=times), run=run)


def claims(profile: Profile, machine: Machine) -> set[str]:
    """The kinds of faults that hroof finds in a program and that matter there.

    A finding counts from a tenth of the step; idle time from a half of it, since the profiler leaves gaps between ops.
    """
    step = float(np.median([step["wall"] for step in profile.run["steps"]]))
    return {
        finding.kind
        for finding in findings(profile, machine)
        if finding.kind in KINDS
        and _weight(finding, step) >= (0.5 if finding.kind == "idle" else 0.1)
    }


def _weight(finding: Finding, step: float) -> float:
    """Share of the step that it could save; of one that saves nothing by itself, the share that it speaks of."""
    return finding.share_of_step if finding.kind == "no-rule" else finding.saves / step


def two_ranks(first: Profile, second: Profile) -> Profile:
    """The profiles of two programs as those of two ranks."""
    return Profile.merge([first, second.replace(launches=second.launches.assign(rank=1))])
