"""Predicted traffic against the clock of this CPU, and the cost of a prediction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hroof.traffic import Access, Touch, predict
from hroof.units import MemoryLevel

pytestmark = pytest.mark.perf

L1, L2, L3, DRAM = MemoryLevel
CPU = Path("/sys/devices/system/cpu/cpu0/cache")
PIECE = 128 * 1024
"""Bytes of one buffer: larger than L1 so that each op streams, small enough for several in L2."""


# --- Levels -------------------------------------------------------------------------------------


def caches_of_one_core() -> dict[MemoryLevel, int]:
    """Data caches in bytes that one thread can use."""
    caches: dict[MemoryLevel, int] = {}
    for index in sorted(CPU.glob("index*")):
        level, kind, size = (
            (index / name).read_text().strip() for name in ("level", "type", "size")
        )
        if kind != "Instruction" and level in "123":
            caches[(L1, L2, L3)[int(level) - 1]] = int(size.removesuffix("K")) * 1024
    return caches


Pairs = list[tuple[int, int]]
"""Which buffer each op of a lap reads and which it writes."""


def chain(buffers: int) -> Pairs:
    """Each op reads what the op before it wrote."""
    return [(i, (i + 1) % buffers) for i in range(buffers)]


def apart(buffers: int) -> Pairs:
    """No op touches what another one did."""
    return [(i, i + 1) for i in range(0, buffers - 1, 2)]


def stream(pairs: Pairs) -> list[Touch]:
    """What a lap does: target = source · a."""
    return [
        Touch(
            (
                Access(source, PIECE, read=True, written=False),
                Access(target, PIECE, read=False, written=True),
            )
        )
        for source, target in pairs
    ]


def predicted(pairs: Pairs, caches: dict[MemoryLevel, int]) -> dict[MemoryLevel, float]:
    """Share of an op's bytes that crosses each level; the same for every op of these laps."""
    first, *others = predict(stream(pairs), caches)
    assert all(other == first for other in others)
    return {level: nbytes / (2 * PIECE) for level, nbytes in first.items()}


def lap(pairs: Pairs, ops: int) -> Callable[[], float]:
    """A call that runs at least so many ops in laps and gives the seconds per byte touched."""
    torch = pytest.importorskip("torch")
    pool = torch.ones(max(map(max, pairs)) + 1, PIECE // 4)
    operands = [(pool[source], pool[target]) for source, target in pairs]
    laps = max(ops // len(pairs), 1)

    def run() -> float:
        start = time.perf_counter()
        for _ in range(laps):
            for source, target in operands:
                torch.mul(source, 1.0, out=target)
        return (time.perf_counter() - start) / (laps * len(pairs) * 2 * PIECE)

    run()
    return run


@contextmanager
def one_thread() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def best_seconds_per_byte(laps: dict[str, Pairs], rounds: int) -> dict[str, float]:
    """Interleaved, the best of many rounds for each kind of lap."""
    with one_thread():
        runs = {name: lap(pairs, ops=512) for name, pairs in laps.items()}
        times = [{name: run() for name, run in runs.items()} for _ in range(rounds)]
    return {name: min(each[name] for each in times) for name in laps}


def laps_of_this_cpu() -> dict[str, Pairs]:
    """Working sets that are predicted to live in L2, L3 and DRAM, far from the capacities."""
    caches = caches_of_one_core() if CPU.exists() else {}
    if set(caches) != {L1, L2, L3}:
        pytest.skip(f"needs the sizes of L1, L2 and L3; /sys tells {sorted(caches)}")
    if caches[L2] < 6 * PIECE or caches[L3] < 8 * caches[L2] or caches[L3] > 2**29:
        pytest.skip(f"these caches leave no clear levels for the test: {caches}")
    in_l2, in_l3 = caches[L2] // 2 // PIECE, min(4 * caches[L2], caches[L3] // 2) // PIECE
    in_dram = 4 * caches[L3] // PIECE
    laps = {
        "L2": apart(in_l2),
        "L3": apart(in_l3),
        "DRAM": apart(in_dram),
        "DRAM chain": chain(in_dram),
    }
    assert {name: predicted(pairs, caches) for name, pairs in laps.items()} == {
        "L2": {L2: 1, L3: 0, DRAM: 0},
        "L3": {L2: 1, L3: 1, DRAM: 0},
        "DRAM": {L2: 1, L3: 1, DRAM: 1},
        "DRAM chain": {L2: 1, L3: 0.5, DRAM: 0.5},
    }
    return laps


def test_time_per_byte_grows_where_traffic_is_predicted_to_leave_a_cache(
    record_property: Callable[[str, object], None],
) -> None:
    laps = laps_of_this_cpu()
    for attempt in range(3):
        seconds = best_seconds_per_byte(laps, rounds=12)
        ratios = {name: round(each / seconds["L2"], 2) for name, each in seconds.items()}
        record_property(f"attempt_{attempt}", ratios)
        print(ratios, {name: f"{1e-9 / each:.0f} GB/s" for name, each in seconds.items()})
        if (
            ratios["L3"] > 1.05
            and ratios["DRAM"] > max(1.3, 1.1 * ratios["L3"])
            and ratios["DRAM"] > 1.1 * ratios["DRAM chain"]
        ):
            return
    pytest.fail(f"time per byte relative to the lap that is predicted to stay in L2: {ratios}")


# --- Cost ---------------------------------------------------------------------------------------


def tangled(ops: int) -> list[Touch]:
    """Ops that read one recent and one old result and write a new one."""
    rng = random.Random(0)
    return [
        Touch(
            (
                Access(rng.randrange(i - 200, i + 1), 400_000, read=True, written=False),
                Access(rng.randrange(i - 2_000, i + 1), 400_000, read=True, written=False),
                Access(i, 400_000, read=False, written=True),
            )
        )
        for i in range(ops)
    ]


def seconds_to_predict(ops: int) -> float:
    touches = tangled(ops)
    start = time.perf_counter()
    predict(touches, {L1: 100_000, L2: 2_000_000, L3: 500_000_000})
    return time.perf_counter() - start


def test_cost_grows_little_faster_than_the_stream() -> None:
    """100,000 accesses against 12,500: 8 times with a constant cost each, 64 times if quadratic."""
    for _ in range(3):
        small, large = (min(seconds_to_predict(ops) for _ in range(2)) for ops in (4_167, 33_333))
        print(f"{large / small:.1f} times, {large:.2f} s")
        if large < 20 * small:
            return
    pytest.fail(f"8 times the accesses take {large / small:.1f} times as long")
