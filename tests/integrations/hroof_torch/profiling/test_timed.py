"""The profiler session of the timed steps: beside others, in threads, and gone afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from hroof.regions import Region
from hroof_torch import private
from hroof_torch.profiling.timed import TimedSteps


def trainer(width: int = 4) -> Callable[[], float]:
    net = nn.Sequential(nn.Linear(width, 8), nn.Linear(8, 2))
    sgd = torch.optim.SGD(net.parameters(), 0.01)

    def step() -> float:
        loss = net(torch.ones(3, width)).square().mean()
        loss.backward()
        sgd.step()
        sgd.zero_grad()
        return float(loss.detach())

    return step


# Regions here skip at least 2 steps: with fewer, optimizers that other tests left alive are waited for.


def warnings_of(region: Region) -> str:
    assert region.outcome.profile is not None, region.outcome
    return " ".join(region.outcome.profile.run["warnings"])


def test_a_session_has_its_steps() -> None:
    timed, step = TimedSteps(), trainer()
    timed.start()
    for _ in range(3):
        step()
        timed.step_ended()
    timed.stop()
    trace = timed.trace()
    assert trace is not None
    assert len(trace.steps) == 3
    assert {op.step for op in trace.ops} == {0, 1, 2}


def test_stopping_twice_and_never_starting() -> None:
    timed = TimedSteps()
    timed.stop()
    assert timed.trace() is None
    timed.start()
    timed.stop()
    timed.stop()
    assert timed.trace() is not None


def test_starting_again_drops_what_was() -> None:
    timed, step = TimedSteps(), trainer()
    timed.start()
    step()
    timed.step_ended()
    timed.start()
    timed.stop()
    trace = timed.trace()
    assert trace is not None and trace.steps == []


def test_the_hooks_on_the_profiler_are_gone_afterwards() -> None:
    module = torch.autograd.profiler
    before = (module._prepare_profiler, module._enable_profiler)
    timed = TimedSteps()
    timed.start()
    assert (module._prepare_profiler, module._enable_profiler) != before
    timed.stop()
    assert (module._prepare_profiler, module._enable_profiler) == before
    assert not private.foreign_profiler()


def test_a_profiler_of_the_program_keeps_its_events() -> None:
    step = trainer()
    region = Region(skip=2, steps=2)
    with profile(activities=[ProfilerActivity.CPU]) as theirs, region:
        for _ in range(6):
            step()
    names = [event.name() for event in theirs.profiler.kineto_results.events()]
    # The counted step adds some: a dispatch mode, or a replay, shows there as well.
    assert names.count("aten::addmm") >= 12
    assert "own profiler was running" in warnings_of(region)
    assert region.outcome.profile is not None
    assert region.outcome.profile.launches["duration"].isna().all()


SCHEDULED = """
import torch
from torch.profiler import ProfilerActivity, profile, schedule
from hroof.regions import Region

net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
sgd = torch.optim.SGD(net.parameters(), 0.01)
for skip in range(1, 7):
    cycles = []

    def ready(theirs):
        names = [event.name() for event in theirs.profiler.kineto_results.events()]
        cycles.append(names.count("aten::addmm"))

    plan = schedule(wait=1, warmup=1, active=2, repeat=3)
    with Region(skip=skip, steps=2), profile(
        activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready
    ) as theirs:
        for _ in range(14):
            net(torch.ones(3, 4)).square().mean().backward()
            sgd.step()
            sgd.zero_grad()
            theirs.step()
    print(skip, *cycles)
"""


def test_a_scheduled_profiler_gets_all_its_cycles() -> None:
    """In a process of its own: a profiler in a wrong state ends the process."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCHEDULED],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    rows = [[int(word) for word in line.split()] for line in child.stdout.splitlines()]
    assert [row[0] for row in rows] == list(range(1, 7))
    for _, *cycles in rows:
        assert len(cycles) == 3
        assert min(cycles) == 4  # a cycle with the counted step shows that one's ops twice


def test_a_profiler_that_starts_in_a_timed_step_ends_the_session() -> None:
    step = trainer()
    region = Region(skip=2, steps=4)
    with region:
        for _ in range(5):
            step()
        with profile(activities=[ProfilerActivity.CPU]) as theirs:
            step()
        for _ in range(4):
            step()
    names = [event.name() for event in theirs.profiler.kineto_results.events()]
    assert names.count("aten::addmm") == 2
    assert "started its own profiler" in warnings_of(region)
    assert region.outcome.profile is not None
    assert region.outcome.profile.step_count == 2


def test_a_model_in_another_thread_is_left_alone() -> None:
    step, ended = trainer(), threading.Event()
    failed: list[BaseException] = []

    def serve() -> None:
        other = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))
        try:
            with torch.no_grad():
                while not ended.is_set():
                    other(torch.ones(2, 5))
        except BaseException as error:
            failed.append(error)

    server = threading.Thread(target=serve)
    server.start()
    try:
        for _ in range(3):
            region = Region(skip=2, steps=3)
            with region:
                for _ in range(8):
                    step()
            assert region.outcome.profile is not None
            assert region.outcome.profile.step_count == 3
    finally:
        ended.set()
        server.join()
    assert failed == []


def test_a_training_in_another_thread_ends_none_of_the_steps() -> None:
    mine, theirs = trainer(), trainer(6)
    turn, done = threading.Semaphore(0), threading.Semaphore(0)

    def work() -> None:
        for _ in range(24):
            turn.acquire()
            theirs()
            done.release()

    worker = threading.Thread(target=work)
    worker.start()
    region = Region(skip=2, steps=3)
    with region:
        for _ in range(8):
            mine()
            for _ in range(3):
                turn.release()
                done.acquire()
    worker.join()
    assert region.finished_steps == 6  # the last that is listened to
    assert _get_current_dispatch_mode_stack() == []
    assert region.outcome.profile is not None
    assert region.outcome.profile.step_count == 3


def test_a_session_never_ends_inside_a_backward_pass() -> None:
    net = nn.Linear(4, 2)
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    net.bias.register_post_accumulate_grad_hook(lambda _: sgd.step())
    region = Region(skip=2, steps=2)
    with region:
        for _ in range(8):
            net(torch.ones(3, 4)).sum().backward()
    assert not torch._C._autograd._profiler_enabled()
    assert _get_current_dispatch_mode_stack() == []
    assert region.outcome.profile is not None
    assert region.outcome.profile.step_count == 2


def test_an_optimizer_that_raises_loses_nothing() -> None:
    net = nn.Linear(4, 2)

    class Stubborn(torch.optim.SGD):
        calls = 0

        def step(self, closure: None = None) -> None:
            self.calls += 1
            if self.calls % 3 == 0:
                raise RuntimeError("no")
            super().step(closure)

    stubborn = Stubborn(net.parameters(), 0.01)
    region = Region(skip=2, steps=2)
    with region:
        for _ in range(12):
            net(torch.ones(3, 4)).sum().backward()
            try:
                stubborn.step()
            except RuntimeError:
                continue
    assert region.outcome.profile is not None
    assert region.outcome.profile.step_count == 2


def test_an_unwritable_name_is_escaped() -> None:
    net = nn.ModuleDict()
    net.add_module("\ud800lone", nn.Linear(4, 2))
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    region = Region(skip=2, steps=1)
    with region:
        for _ in range(5):
            net["\ud800lone"](torch.ones(3, 4)).sum().backward()
            sgd.step()
    assert region.outcome.profile is not None, region.outcome
    region.outcome.profile.launches.to_json()
