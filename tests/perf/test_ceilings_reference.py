"""Ceilings of this CPU beside a plain C program with vector intrinsics, interleaved: ratios within one run.

``python -m pytest -m perf -s tests/perf/test_ceilings_reference.py`` prints the table; ``HROOF_ROUNDS`` and
``HROOF_SECONDS`` make it longer (7 rounds of 0.4 s per kernel by default). Only a quiet machine gives figures to keep.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hroof.ceilings import host  # noqa: E402
from hroof.ceilings.sampling import sample  # noqa: E402
from hroof.ceilings.sizes import dram_windows, working_sets  # noqa: E402
from hroof.integration import CeilingKernel, Device  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from hroof_torch import ceilings  # noqa: E402
from hroof_torch.ceilings.cpu import kernels as ceilings_cpu  # noqa: E402

pytestmark = pytest.mark.perf

SOURCE = Path(__file__).parent / "reference" / "reference.c"
ROUNDS = int(os.environ.get("HROOF_ROUNDS", "7"))
SECONDS = float(os.environ.get("HROOF_SECONDS", "0.4"))
PART = 0.05
"""Seconds at a time: one program after the other, so that both meet the same clock and the same neighbours."""
LOW, HIGH = 0.8, 1.08
LOOKS, KEPT = 3, 3
QUIET = 0.9
"""Share of the time in which this thread must have had a core; on a busier machine a low ratio means nothing."""
FREE = ("matrix bf16", "matrix int8")
"""On a matrix unit a product moves its operands as well; C multiplies what lies in the tiles already."""

L1, L2, L3, DRAM = MemoryLevel


class Reference:
    """The C program, waiting for commands.

    Args:
        program: Where it lies.
        threads: How many it uses.
    """

    def __init__(self, program: Path, threads: int) -> None:
        self._process = subprocess.Popen(
            [program, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def rate(self, command: str, seconds: float) -> float:
        """Its best sample, in bytes or operations per second; 0 for what the processor cannot do."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{command} {seconds}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=10)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program, compiled for this processor."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    if not {"avx2", "fma"} <= host.cpu_flags():
        pytest.skip("the C program needs AVX2 and FMA")
    target = tmp_path_factory.mktemp("reference") / "reference"
    flags = ["-O2", "-march=native", "-ffp-contract=off", "-funroll-loops", "-pthread"]
    subprocess.run([compiler, *flags, SOURCE, "-o", target], check=True)
    return target


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many threads both use."""
    wanted: int = request.param
    if wanted > len(host.usable_cpus()):
        pytest.skip(f"fewer than {wanted} cores")
    before, cores = torch.get_num_threads(), os.sched_getaffinity(0)
    torch.set_num_threads(wanted)
    if wanted == 1:  # both on one core: neighbours on the host slow some cores down and not others
        os.sched_setaffinity(0, {max(cores)})
    yield wanted
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(before)


@dataclass
class Contest:
    """One ceiling: hroof's candidates against one command of the C program.

    Attributes:
        name: Of the ceiling.
        command: What the C program is asked, without the seconds.
        calls: Kernels by name, each with its work per call.
        wall: Seconds that hroof's kernels took.
        own: Those of them in which this thread had a core.
    """

    name: str
    command: str
    calls: dict[str, tuple[Callable[[], object], float]]
    wall: float = 0.0
    own: float = 0.0

    def round(self, reference: Reference) -> tuple[str, float, float]:
        """The winner and its best rate, and the best rate of C."""
        best: dict[str, float] = dict.fromkeys(self.calls, 0.0)
        other = 0.0
        for _ in range(max(round(SECONDS / PART), 1)):
            for name, (call, work) in self.calls.items():
                wall, own = time.perf_counter(), time.thread_time()
                rates = sample(call, work, seconds=PART, clock=time.perf_counter)
                self.wall += time.perf_counter() - wall
                self.own += time.thread_time() - own
                best[name] = max(best[name], rates.best)
            other = max(other, reference.rate(self.command, PART))
        winner = max(best, key=lambda name: best[name])
        return winner, best[winner], other


def command(kernel: CeilingKernel, device: Device) -> str | None:
    """What C does at the same ceiling: at a cache, with the size that suits it best of those that hroof tries."""
    if kernel.level is DRAM:
        caches = max(device.caches.values(), default=None)
        windows = dram_windows(caches, host.available_memory(), device.facts["threads"])
        return f"walk {windows.count * windows.size} {windows.size}"
    if kernel.pipe is Pipe.MATRIX and kernel.precision in (Precision.BF16, Precision.INT8):
        return str(kernel.precision)
    if kernel.pipe is Pipe.VECTOR and kernel.precision in (Precision.FP64, Precision.FP32):
        kind = "plain" if kernel.variant else "fp"
        return f"{kind}{str(kernel.precision)[2:]}"
    return None


def sizes_of(device: Device) -> dict[MemoryLevel, str]:
    """Commands for the caches."""
    sets = {each.level: each for each in working_sets(host.caches_of(device))}
    found = {}
    for level, each in sets.items():
        size = each.sizes[-1 if level is L1 else 0]
        found[level] = f"{'load' if level in (L1, L2) else 'shared'} {size}"
    return found


def contests(device: Device) -> Iterable[Contest]:
    """Every ceiling that both measure."""
    caches = sizes_of(device)
    found: dict[str, Contest] = {}
    for kernel in ceilings_cpu.kernels(device):
        if kernel.variant not in ("", "no fma") or kernel.name.startswith("mul_"):
            continue
        asked = caches.get(kernel.level) if kernel.level else None
        asked = asked or command(kernel, device)
        if asked is None:
            continue
        level = kernel.level.label if kernel.level else f"{kernel.pipe} {kernel.precision}"
        name = f"{level} {kernel.variant}".strip()
        contest = found.setdefault(name, Contest(name, asked, {}))
        if not kernel.name.startswith("_foreach"):  # reads and writes: C only reads
            contest.calls[kernel.name] = kernel.prepare()
    return found.values()


def narrowed(contest: Contest) -> None:
    """Keep the best candidates after a first look, so that the rounds go to them; a look can be disturbed."""
    rates = dict.fromkeys(contest.calls, 0.0)
    for _ in range(LOOKS):
        for name, (call, work) in contest.calls.items():
            seen = sample(call, work, seconds=PART, clock=time.perf_counter).best
            rates[name] = max(rates[name], seen)
    kept = sorted(rates, key=lambda name: -rates[name])[:KEPT]
    contest.calls = {name: contest.calls[name] for name in kept}


def table(threads: int, found: list[tuple[str, str, float, float, list[float]]]) -> str:
    """The result as text: the maxima of all rounds, the median, lowest and highest ratio."""
    title = (
        f"{'ceiling':20} {'hroof':>9} {'C':>9} {'median':>7} {'lowest':>7} {'highest':>7}  kernel"
    )
    lines = [f"{threads} threads, {ROUNDS} rounds; GB/s or GFLOP/s", title]
    for name, winner, ours, theirs, ratios in found:
        lines.append(
            f"{name:20} {ours / 1e9:9.1f} {theirs / 1e9:9.1f} {statistics.median(ratios):7.3f} "
            f"{min(ratios):7.3f} {max(ratios):7.3f}  {winner}"
        )
    return "\n".join(lines)


def test_ceilings_are_those_of_a_plain_c_program(program: Path, threads: int) -> None:
    device = ceilings.device("cpu")
    assert device.facts["threads"] == threads
    reference = Reference(program, threads)
    found, wrong = [], []
    wall = own = 0.0
    for contest in contests(device):
        narrowed(contest)
        if not reference.rate(contest.command, PART):
            continue
        rounds = [contest.round(reference) for _ in range(ROUNDS)]
        wall, own = wall + contest.wall, own + contest.own
        ratios = [ours / theirs for _, ours, theirs in rounds]
        winner, ours, _ = max(rounds, key=lambda each: each[1])
        theirs = max(each[2] for each in rounds)
        found.append((contest.name, winner, ours, theirs, ratios))
        free = contest.name in FREE and device.facts["matrix_unit"]
        if not (0 if free else LOW) <= statistics.median(ratios) <= HIGH:
            wrong.append(found[-1])
    reference.close()
    print("\n" + table(threads, found))
    assert found
    if wrong and own < QUIET * wall:
        pytest.skip(
            f"other programs took {1 - own / wall:.0%} of the time: {table(threads, wrong)}"
        )
    assert not wrong, table(threads, wrong)
