"""What hroof costs: outside the captured steps, in a timed step, in the counted step, in memory, at import.

All ratios come from one process: after a warm-up, plain blocks and blocks under hroof alternate; per round the
fastest step of one is divided by the fastest of the other, and the median over the rounds is given with its inner
range. Plain against plain is the noise floor. The whole table:

    python -m pytest -m perf tests/perf/test_overhead.py -s
"""

from __future__ import annotations

import gc
import importlib.util
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hroof.regions import Region, Status  # noqa: E402

pytestmark = pytest.mark.perf

ROUNDS = 9
WARM_UP = 5
NEVER = 10**9
HEAVY = ("torch", "tensorflow", "pandas", "matplotlib", "numpy", "pyarrow", "jinja2", "rich")


def _workloads() -> Any:
    """The two reference programs, which live with the tests of the integration."""
    path = Path(__file__).parents[1] / "integrations" / "hroof_torch" / "conftest.py"
    spec = importlib.util.spec_from_file_location("hroof_workloads", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def tiny() -> Callable[[], object]:
    """A step of about a tenth of a millisecond: the worst case for a cost per op."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    x = torch.randn(8, 16)

    def step() -> None:
        net(x).sum().backward()
        sgd.step()
        sgd.zero_grad()

    return step


PROGRAMS: dict[str, tuple[Callable[[], Callable[[], object]], int]] = {
    "gpt": (lambda: _workloads().gpt().step, 5),
    "cnn": (lambda: _workloads().cnn().step, 10),
    "mlp": (tiny, 50),
}


@dataclass
class Ratios:
    """One ratio per round.

    Attributes:
        values: Fastest step under hroof over fastest plain step.
    """

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        low, _, high = statistics.quantiles(self.values, n=4)
        return f"{self.median:6.3f} [{low:5.3f} {high:5.3f}]"


def block(step: Callable[[], object], steps: int) -> list[float]:
    """Seconds of each of some steps."""
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


COLUMNS = ("plain", "outside", "after", "timed", "counted")


@dataclass
class Cost:
    """The table's row of one program.

    Attributes:
        plain_step: Seconds of the fastest plain step.
        ratios: By what runs: plain again, outside the captured steps, after them, timed, counted.
        enter: Seconds to enter a region, one per round.
        finish: Seconds from the last captured step to the profile, one per round.
    """

    plain_step: float = float("inf")
    ratios: dict[str, Ratios] = field(default_factory=lambda: {name: Ratios() for name in COLUMNS})
    enter: list[float] = field(default_factory=list)
    finish: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        ratios = " | ".join(str(self.ratios[column]) for column in COLUMNS)
        enter, finish = (statistics.median(times) * 1e3 for times in (self.enter, self.finish))
        return (
            f"{name:>4} | {self.plain_step * 1e3:8.2f} ms | {ratios} | {enter:6.1f} | {finish:7.1f}"
        )


def _round(step: Callable[[], object], steps: int, cost: Cost) -> None:
    plain = min(block(step, steps))
    cost.plain_step = min(cost.plain_step, plain)
    cost.ratios["plain"].values.append(min(block(step, steps)) / plain)

    with Region(skip=NEVER, steps=1):
        outside = min(block(step, steps))
    cost.ratios["outside"].values.append(outside / plain)

    region = Region(skip=2, steps=steps + 1)
    begin = time.perf_counter()
    with region:
        cost.enter.append(time.perf_counter() - begin)
        block(step, 2)
        (counted,) = block(step, 1)
        *timed, last = block(step, steps + 1)
        assert region.outcome.status is Status.COMPLETE
        after = min(block(step, steps))
    cost.finish.append(last - min(timed))
    for name, seconds in (("counted", counted), ("timed", min(timed)), ("after", after)):
        cost.ratios[name].values.append(seconds / plain)


def measure(name: str) -> Cost:
    """The cost of one program, over all rounds."""
    make, steps = PROGRAMS[name]
    step = make()
    gc.collect()  # optimizers of earlier programs would be waited for
    block(step, WARM_UP)
    _round(step, steps, Cost())  # imports and first calls
    cost = Cost()
    for _ in range(ROUNDS):
        _round(step, steps, cost)
    return cost


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, str]]:
    """Lines of the table, printed when all programs are through."""
    lines: dict[str, str] = {}
    yield lines
    head = " | ".join(f"{column:^20}" for column in COLUMNS)
    print(f"\n{'':>4} | {'plain step':>11} | {head} | enter/ms | finish/ms")
    for line in lines.values():
        print(line)


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_cost_little(name: str, table: dict[str, str]) -> None:
    cost = measure(name)
    table[name] = cost.line(name)
    floor = max(cost.ratios["plain"].median, 1.0)
    assert cost.ratios["outside"].median < 1.5 * floor
    assert cost.ratios["after"].median < 1.5 * floor
    assert cost.ratios["timed"].median < (60 if name == "mlp" else 4) * floor
    assert cost.ratios["counted"].median < (400 if name == "mlp" else 12) * floor


def _of_hroof(snapshot: tracemalloc.Snapshot) -> int:
    """Bytes that live now and were allocated anywhere below a file of hroof."""
    return sum(
        trace.size
        for trace in snapshot.traces
        if any("hroof" in Path(frame.filename).parts[-2] for frame in trace.traceback)
    )


def test_uncaptured_steps_keep_no_memory() -> None:
    """Exact, not a matter of time: a thousand steps inside a region leave not one object and not one byte."""
    step = tiny()
    with Region(skip=NEVER, steps=1):
        tracemalloc.start(12)
        try:
            block(
                step, 300
            )  # small whole numbers are shared, larger ones are objects: be past them
            gc.collect()
            objects, before = len(gc.get_objects()), _of_hroof(tracemalloc.take_snapshot())
            for _ in range(1000):
                step()
            gc.collect()
            after, grown = _of_hroof(tracemalloc.take_snapshot()), len(gc.get_objects()) - objects
        finally:
            tracemalloc.stop()
    print(
        f"\nmemory of hroof after 1000 uncaptured steps: {after - before:+d} bytes, {grown:+d} objects"
    )
    assert before > 0, "nothing of hroof was seen: the filter looks in the wrong place"
    assert abs(after - before) < 48  # a free list lends or takes back a number
    assert grown <= 2  # the names of this test itself


def _run(code: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


def test_import_is_quick() -> None:
    _run("import hroof")  # byte code is there
    pairs = [(_run("pass"), _run("import hroof")) for _ in range(15)]
    bare, whole = (statistics.median(times) for times in zip(*pairs, strict=True))
    least = min(whole for _, whole in pairs) - min(bare for bare, _ in pairs)
    print(
        f"\nimport hroof: {1e3 * (whole - bare):.0f} ms over the interpreter's {1e3 * bare:.0f} ms "
        f"(medians of {len(pairs)}; fastest against fastest {1e3 * least:.0f} ms)"
    )
    assert least < 0.060


def test_import_loads_nothing_heavy() -> None:
    code = f"import hroof, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
