"""The schedule of a region, with a capture that only takes notes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import warnings
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any

import pytest

from hroof import integration, regions
from hroof.errors import UsageError
from hroof.integration import Stage
from hroof.profile import Profile
from hroof.regions import Outcome, Region, Status, open_regions
from hroof.regions.marks import Kind, Mark


class NotedCapture:
    """Fulfils ``Capture`` and writes down what it is told."""

    def __init__(self, steps: integration.StepSink) -> None:
        self.steps = steps
        self.log: list[str] = []
        self.released = False
        self.flushed = False

    def stage(self, stage: Stage) -> None:
        self.log.append(str(stage))

    def step_ended(self, number: int) -> None:
        self.log.append(f"step {number}")

    def profile(self) -> Profile | None:
        return Profile.from_rows([{"op": "aten::mm"}]) if "time" in self.log else None

    def flush(self) -> None:
        self.flushed = True

    def release(self) -> None:
        self.released = True

    def seen(self) -> str:
        return "It saw nothing else."


class FakeIntegration:
    FRAMEWORK = "fake"

    def __init__(self) -> None:
        self.captures: list[NotedCapture] = []

    def capture(self, steps: integration.StepSink) -> NotedCapture:
        self.captures.append(NotedCapture(steps))
        return self.captures[-1]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeIntegration:
    found = FakeIntegration()
    monkeypatch.setattr(integration, "active", lambda: [found])
    monkeypatch.delenv("HROOF", raising=False)
    return found


def run(region: Region, steps: int) -> None:
    with region:
        for _ in range(steps):
            region.boundary()


def test_skips_then_counts_one_step_then_times_some(fake: FakeIntegration) -> None:
    region = Region(skip=2, steps=3)
    run(region, 9)
    assert fake.captures[0].log == ["count", "time", "step 1", "step 2", "done"]
    assert region.outcome.status is Status.COMPLETE
    assert region.outcome.reason == ""


def test_the_capture_is_released_at_the_end(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)
    with region:
        assert not fake.captures[0].released
    assert fake.captures[0].released
    assert fake.captures[0].flushed


def test_the_pace_of_the_steps_before_is_kept(fake: FakeIntegration) -> None:
    region = Region(skip=4, steps=1)
    run(region, 8)
    assert region.outcome.profile is not None
    assert region.outcome.profile.run["undisturbed_step"] > 0
    hurried = Region(skip=0, steps=1)
    run(hurried, 3)
    assert hurried.outcome.profile is not None
    assert hurried.outcome.profile.run["undisturbed_step"] is None


def test_counts_the_first_step_when_nothing_is_skipped(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)
    with region:
        assert fake.captures[0].log == ["count"]
        region.boundary()
        assert fake.captures[0].log == ["count", "time"]
        region.boundary()
    assert fake.captures[0].log == ["count", "time", "done"]


def test_hears_nothing_after_the_last_captured_step(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)
    run(region, 50)
    assert fake.captures[0].log == ["count", "time", "done"]


def test_the_result_is_there_as_soon_as_the_last_step_is_timed(fake: FakeIntegration) -> None:
    heard: list[Outcome] = []
    region = Region(skip=0, steps=1, on_end=lambda _, outcome: heard.append(outcome))
    with region:
        region.boundary()
        region.boundary()
        assert [outcome.status for outcome in heard] == [Status.COMPLETE]
    assert len(heard) == 1


@pytest.mark.parametrize(
    ("seen", "call"), [(3, "skip=0, steps=2"), (6, "skip=2, steps=3"), (2, "skip=0, steps=1")]
)
def test_too_few_steps_tell_the_call_that_would_fit(
    fake: FakeIntegration, seen: int, call: str
) -> None:
    region = Region(skip=5, steps=3)
    run(region, seen)
    assert region.outcome.status is (Status.PARTIAL if seen == 6 else Status.EMPTY)
    assert f"saw {seen} steps and needs 9" in region.outcome.reason
    assert f"hroof.region({call})" in region.outcome.reason


def test_the_call_that_would_fit_fits(fake: FakeIntegration) -> None:
    for seen in range(2, 12):
        short = Region(skip=20, steps=3)
        run(short, seen)
        numbers = short.outcome.reason.split("hroof.region(")[1].rstrip(").")
        arguments = dict(part.split("=") for part in numbers.split(", "))
        region = Region(skip=int(arguments["skip"]), steps=int(arguments["steps"]))
        run(region, seen)
        assert region.outcome.status is Status.COMPLETE


def test_no_step_at_all_asks_for_explicit_steps(fake: FakeIntegration) -> None:
    region = Region()
    run(region, 0)
    assert region.outcome.status is Status.EMPTY
    assert "hroof.step()" in region.outcome.reason


def test_some_timed_steps_are_a_partial_result(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=5)
    run(region, 3)
    assert region.outcome.status is Status.PARTIAL
    assert region.outcome.profile is not None
    assert region.outcome.profile.run["status"] == "partial"


@pytest.mark.parametrize("error", [ValueError("boom"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_passes_and_the_partial_result_is_kept(
    fake: FakeIntegration, error: BaseException
) -> None:
    region = Region(skip=0, steps=5)
    with pytest.raises(type(error)), region:
        region.boundary()
        region.boundary()
        raise error
    assert region.outcome.status is Status.PARTIAL
    assert type(error).__name__ in region.outcome.reason
    assert fake.captures[0].log[-1] == "done"


def test_a_capture_that_says_what_it_is_short_of_is_not_complete(
    fake: FakeIntegration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The region has seen all its steps, but another profiler took them."""
    short = Profile.from_rows([{"op": "aten::mm"}], {"status_reason": "No step was timed."})
    monkeypatch.setattr(NotedCapture, "profile", lambda _: short)
    region = Region(skip=1, steps=2)
    run(region, 5)
    assert region.outcome.status is Status.PARTIAL
    assert region.outcome.reason == "No step was timed."
    assert region.outcome.profile is not None
    assert region.outcome.profile.run["status"] == "partial"
    assert region.outcome.profile.run["status_reason"] == "No step was timed."


def test_explicit_steps_replace_those_found(fake: FakeIntegration) -> None:
    region = Region(skip=1, steps=2)
    with region:
        for _ in range(4):
            region.boundary()  # the optimizer's
            regions.step()
    assert region.finished_steps == 4
    assert region.outcome.status is Status.COMPLETE
    assert region.explicit


def test_explicit_steps_count_where_the_optimizer_did_not_step(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=2)
    with region:
        for _ in range(3):
            regions.step()
    assert region.finished_steps == 3
    assert fake.captures[0].log == ["count", "time", "step 1", "done"]


def test_a_late_boundary_only_counts(fake: FakeIntegration) -> None:
    region = Region(skip=1, steps=1)
    with region:
        region.boundary(count=1, clean=False)
        assert fake.captures[0].log == []
        region.boundary(count=1, clean=True)
        assert fake.captures[0].log == ["count"]


def test_a_counted_step_that_was_two_is_counted_again(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)
    with region:
        region.boundary(count=2)
        region.boundary()
        region.boundary()
    assert fake.captures[0].log == ["count", "count", "time", "done"]


def test_a_counted_step_whose_end_was_seen_late_is_counted_again(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)
    with region:
        region.boundary(clean=False)
        region.boundary()
        region.boundary()
        region.boundary()
    assert fake.captures[0].log == ["count", "count", "time", "done"]


def test_an_inner_region_only_marks(fake: FakeIntegration) -> None:
    outer, inner = Region(name="outer", skip=0, steps=1), Region(name="inner", skip=0, steps=1)
    with outer, inner:
        outer.boundary()
        outer.boundary()
    assert outer.outcome.status is Status.COMPLETE
    assert inner.outcome.status is Status.MARKS
    assert len(fake.captures) == 1


def test_the_next_region_collects_again(fake: FakeIntegration) -> None:
    for _ in range(2):
        region = Region(skip=0, steps=1)
        run(region, 2)
        assert region.outcome.status is Status.COMPLETE
    assert len(fake.captures) == 2


def test_one_region_entered_twice_collects_once(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)
    with region:
        with region:
            region.boundary()
        region.boundary()
    assert region.outcome.status is Status.COMPLETE
    assert len(fake.captures) == 1


def test_a_decorated_function_adds_its_calls_up(fake: FakeIntegration) -> None:
    region = Region(skip=2, steps=2)

    @region
    def train_step(value: int) -> int:
        region.boundary()
        return value + 1

    assert [train_step(value) for value in range(6)] == [1, 2, 3, 4, 5, 6]
    assert region.outcome.status is Status.COMPLETE
    assert fake.captures[0].log == ["count", "time", "step 1", "done"]


def test_a_decorated_function_that_raises_ends_the_region(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=2)

    @region
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    assert region.outcome.status is Status.EMPTY


def test_a_decorated_coroutine_runs_inside(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)

    @region
    async def train() -> str:
        region.boundary()
        await asyncio.sleep(0)
        region.boundary()
        return "done"

    assert asyncio.run(train()) == "done"
    assert region.outcome.status is Status.COMPLETE


def test_a_decorated_generator_runs_inside(fake: FakeIntegration) -> None:
    region = Region(skip=1, steps=2)

    @region
    def batches(count: int) -> Generator[int, str, str]:
        said = []
        for number in range(count):
            said.append((yield number))
            region.boundary()
        return ",".join(said)

    items = batches(4)
    assert not open_regions()
    assert next(items) == 0
    assert open_regions() == (region,)
    assert [items.send(word) for word in "abc"] == [1, 2, 3]
    with pytest.raises(StopIteration, match="a,b,c,d"):
        items.send("d")
    assert not open_regions()
    assert region.outcome.status is Status.COMPLETE


def test_a_decorated_generator_may_be_closed_early(fake: FakeIntegration) -> None:
    region = Region(skip=1, steps=2)

    @region
    def batches() -> Generator[int]:
        while True:
            yield 1
            region.boundary()

    for _ in range(2):
        for number, _ in enumerate(batches()):
            if number == 2:
                break
    assert region.outcome.status is Status.COMPLETE


def test_a_decorated_asynchronous_generator_runs_inside(fake: FakeIntegration) -> None:
    region = Region(skip=1, steps=2)
    closed = []

    @region
    async def batches() -> AsyncGenerator[str, str]:
        try:
            sent = yield "first"
            region.boundary()
            try:
                yield sent
            except KeyError:
                region.boundary()
                yield "caught"
            for _ in range(2):
                region.boundary()
        finally:
            closed.append(open_regions())

    async def take() -> list[str]:
        items = batches()
        got = [await anext(items), await items.asend("sent"), await items.athrow(KeyError())]
        return got + [item async for item in items]

    assert asyncio.run(take()) == ["first", "sent", "caught"]
    assert closed == [(region,)]
    assert region.outcome.status is Status.COMPLETE


@pytest.mark.parametrize("steps", [4, 3])
def test_an_interrupt_while_the_result_is_saved_does_not_take_it(
    fake: FakeIntegration, steps: int
) -> None:
    saved = []

    def save(region: Region, outcome: Outcome) -> None:
        signal.raise_signal(signal.SIGINT)
        saved.append(outcome.status)

    before = signal.getsignal(signal.SIGINT)
    run(Region(skip=1, steps=2, on_end=save), steps)
    assert saved == [Status.COMPLETE if steps == 4 else Status.PARTIAL]
    assert signal.getsignal(signal.SIGINT) is before


def test_interleaved_async_tasks_leave_in_any_order(fake: FakeIntegration) -> None:
    async def task(region: Region, first: asyncio.Event, wait: asyncio.Event) -> None:
        with region:
            first.set()
            await wait.wait()

    async def both() -> list[Region]:
        one, two = Region(name="one"), Region(name="two")
        started, release_one, release_two = asyncio.Event(), asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(task(one, started, release_one))]
        await started.wait()
        started.clear()
        tasks.append(asyncio.create_task(task(two, started, release_two)))
        await started.wait()
        release_one.set()  # the first entered leaves first
        await tasks[0]
        release_two.set()
        await tasks[1]
        return [one, two]

    one, two = asyncio.run(both())
    assert one.outcome.status is Status.EMPTY
    assert two.outcome.status is Status.MARKS


def test_threads_share_one_region(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)
    barrier = threading.Barrier(4)

    def work() -> None:
        with region:
            barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.captures) == 1
    assert region.outcome.status is Status.EMPTY
    run(follow := Region(skip=0, steps=1), 2)
    assert follow.outcome.status is Status.COMPLETE


def test_off_does_nothing(fake: FakeIntegration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HROOF", "off")
    region = Region()
    run(region, 20)
    assert fake.captures == []
    assert region.outcome.status is Status.OFF


def test_a_region_without_a_framework_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration, "active", list)
    region = Region()
    run(region, 3)
    assert "import it before the region" in region.outcome.reason


@pytest.mark.parametrize("where", ["stage", "step_ended", "profile"])
def test_a_failing_capture_never_breaks_the_program(
    fake: FakeIntegration, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("inside hroof")

    monkeypatch.setattr(NotedCapture, where, fail)
    region = Region(skip=0, steps=2)
    with pytest.warns(regions.HroofWarning, match="inside hroof"):
        run(region, 6)
    assert region.outcome.status is Status.EMPTY
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.undo()
        monkeypatch.setattr(integration, "active", lambda: [fake])
        run(after := Region(skip=0, steps=1), 3)
    assert after.outcome.status is Status.COMPLETE


@pytest.mark.parametrize(
    "arguments",
    [{"skip": -1}, {"steps": 0}, {"skip": 1.5}, {"steps": True}, {"name": ""}, {"name": 3}],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Region(**arguments)


def test_a_forked_child_captures_nothing(fake: FakeIntegration) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    region = Region(skip=1, steps=1)
    with region:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests
            child = os.fork()
        if child == 0:
            region.boundary()
            region.boundary()
            regions.step()
            os._exit(0 if fake.captures[0].log == [] and region.stage is Stage.DONE else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        for _ in range(3):
            region.boundary()
    assert region.outcome.status is Status.COMPLETE


class Noted:
    """A listener that writes everything down."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []

    def start(self, mark: Mark) -> Mark:
        self.log.append(("start", f"{mark.kind} {mark.name}"))
        return mark

    def end(self, handle: Mark) -> None:
        self.log.append(("end", f"{handle.kind} {handle.name}"))

    def push(self, mark: Mark) -> None:
        self.log.append(("push", mark.name))

    def pop(self) -> None:
        self.log.append(("pop", ""))


@pytest.fixture
def noted() -> Iterator[Noted]:
    listener = Noted()
    regions.listen(listener)
    yield listener
    regions.unlisten(listener)


def leave_by(way: str) -> Callable[[], object]:
    def returns() -> int:
        with Region(name=way):
            return 1

    def breaks() -> None:
        for _ in range(3):
            with Region(name=way):
                break

    def closes() -> None:
        def generator() -> Generator[int, None, None]:
            with Region(name=way):
                yield 1
                yield 2

        values = generator()
        next(values)
        values.close()

    def raises() -> None:
        with pytest.raises(ZeroDivisionError), Region(name=way), Region(name=way):
            raise ZeroDivisionError

    return {"returns": returns, "breaks": breaks, "closes": closes, "raises": raises}[way]


@pytest.mark.parametrize("way", ["returns", "breaks", "closes", "raises"])
def test_every_mark_that_starts_ends(fake: FakeIntegration, noted: Noted, way: str) -> None:
    leave_by(way)()
    starts = [what for event, what in noted.log if event == "start"]
    ends = [what for event, what in noted.log if event == "end"]
    assert sorted(starts) == sorted(ends)
    assert f"{Kind.REGION} {way}" in starts


def test_captured_steps_are_marked(fake: FakeIntegration, noted: Noted) -> None:
    run(Region(name="train", skip=1, steps=2), 6)
    assert [what for event, what in noted.log if event == "start"] == [
        "region train",
        "step 1",
        "step 2",
        "step 3",
    ]
    assert noted.log[-1] == ("end", "region train")


def passed(region: Region) -> list[bool]:
    """The end of four steps, said the short way where the region lets them pass so."""
    said = []
    for _ in range(4):
        said.append(region.let_pass())
        if not said[-1]:
            region.boundary()
    return said


def test_steps_to_skip_are_let_pass_the_short_way_up_to_the_last(fake: FakeIntegration) -> None:
    region = Region(skip=4, steps=1)
    with region:
        assert passed(region) == [False, True, True, False]  # the fourth begins the counted step
        assert region.finished_steps == 4
        assert fake.captures[0].log == ["count"]
        assert not region.let_pass()


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_no_short_way_where_every_step_matters(fake: FakeIntegration, skip: int) -> None:
    with Region(skip=skip, steps=3) as region:
        assert not any(passed(region))
    assert region.finished_steps == 4


def test_no_short_way_once_the_program_says_its_steps(fake: FakeIntegration) -> None:
    with Region(skip=9, steps=3) as region:
        passed(region)
        regions.step()
        assert not region.let_pass()
        region.boundary()
        assert not region.let_pass()
        regions.step()
    assert region.finished_steps == 5


def test_no_short_way_after_the_end(fake: FakeIntegration) -> None:
    region = Region(skip=9, steps=3)
    with region:
        passed(region)
    assert not region.let_pass()


def test_steps_of_both_ways_set_the_pace(fake: FakeIntegration) -> None:
    region = Region(skip=5, steps=1)
    with region:
        passed(region)
        region.boundary()
        region.boundary()
        region.boundary()
    assert region.outcome.profile is not None
    assert region.outcome.profile.run["undisturbed_step"] > 0


# --- marks for a tool outside -------------------------------------------------------------------


@pytest.fixture
def outside(fake: FakeIntegration, monkeypatch: pytest.MonkeyPatch) -> FakeIntegration:
    monkeypatch.setenv("HROOF", "marks")
    return fake


def test_no_step_is_counted_where_a_tool_outside_measures(outside: FakeIntegration) -> None:
    region = Region(skip=2, steps=3)
    run(region, 9)
    assert region.only_marks
    assert outside.captures[0].log == ["time", "step 1", "step 2", "done"]
    assert region.outcome.status is Status.COMPLETE


@pytest.mark.parametrize(("skip", "marked"), [(5, ["5", "6", "7"]), (0, ["0", "1", "2"])])
def test_the_marked_steps_are_those_right_after_the_skipped(
    outside: FakeIntegration, noted: Noted, skip: int, marked: list[str]
) -> None:
    run(Region(name="train", skip=skip, steps=3), 12)
    starts = [what for event, what in noted.log if event == "start"]
    assert starts == ["region train", *(f"step {number}" for number in marked)]
    assert [what for event, what in noted.log if event == "end"] == [*starts[1:], starts[0]]


class Ordered(NotedCapture):
    """Notes in the listener's log when it waits for the device, that is at every edge of a step."""

    noted: Noted

    def stage(self, stage: Stage) -> None:
        super().stage(stage)
        self.noted.log.append(("wait", str(stage)))

    def step_ended(self, number: int) -> None:
        self.noted.log.append(("wait", "step"))


def test_a_step_is_ended_when_the_capture_has_waited_for_the_device(
    outside: FakeIntegration, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ordered.noted = noted
    monkeypatch.setattr(outside, "capture", Ordered)
    run(Region(name="train", skip=1, steps=2), 4)
    assert noted.log == [
        ("start", "region train"),
        ("wait", "time"),
        ("start", "step 1"),
        ("wait", "step"),
        ("end", "step 1"),
        ("start", "step 2"),
        ("wait", "done"),
        ("end", "step 2"),
        ("end", "region train"),
    ]


@pytest.mark.parametrize("steps", [3, 4])
def test_a_step_that_is_cut_short_is_ended_after_the_wait(
    outside: FakeIntegration, noted: Noted, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    Ordered.noted = noted
    monkeypatch.setattr(outside, "capture", Ordered)
    run(Region(name="train", skip=1, steps=9), steps)
    assert noted.log[-3:] == [
        ("wait", "done"),
        ("end", f"step {steps}"),
        ("end", "region train"),
    ]


@pytest.mark.parametrize(
    ("seen", "call"), [(3, "skip=0, steps=3"), (6, "skip=3, steps=3"), (1, "skip=0, steps=1")]
)
def test_too_few_steps_to_mark_tell_the_call_that_would_fit(
    outside: FakeIntegration, seen: int, call: str
) -> None:
    region = Region(skip=5, steps=3)
    run(region, seen)
    assert region.outcome.status is (Status.PARTIAL if seen == 6 else Status.EMPTY)
    assert "needs 8 (5 skipped, 3 marked)" in region.outcome.reason
    assert f"hroof.region({call})" in region.outcome.reason


def test_no_step_at_all_asks_for_one_to_mark(outside: FakeIntegration) -> None:
    region = Region(skip=5, steps=3)
    run(region, 0)
    assert "let the region see at least 1 step." in region.outcome.reason


def test_a_marked_step_that_was_two_is_marked_again(outside: FakeIntegration, noted: Noted) -> None:
    with Region(name="train", skip=1, steps=1) as region:
        region.boundary()
        region.boundary(count=2)
        region.boundary()
    assert outside.captures[0].log == ["time", "time", "done"]
    assert [what for event, what in noted.log if event == "start"][1:] == ["step 1", "step 3"]


def test_what_a_region_is_told_while_it_runs_does_not_change_how(
    fake: FakeIntegration, monkeypatch: pytest.MonkeyPatch
) -> None:
    region = Region(skip=1, steps=1)
    with region:
        monkeypatch.setenv("HROOF", "marks")
        with region:
            run(region, 3)
    assert not region.only_marks
    assert fake.captures[0].log == ["count", "time", "done"]


def executions(region: Region, number: int, at_once: int) -> None:
    """As Keras' own loops tell of them: what lies between two of them belongs to no step."""
    region.pause()
    for _ in range(number):
        region.resume(at_once)
        region.pause()
        region.boundary(count=at_once, at_once=at_once > 1)


def test_steps_that_run_at_once_are_counted_and_timed_together(fake: FakeIntegration) -> None:
    region = Region(skip=5, steps=5)
    with region:
        executions(region, 9, 4)
    assert fake.captures[0].log == ["count", "time", "step 4", "done"]
    assert region.outcome.status is Status.COMPLETE
    assert region.finished_steps == 36


def test_steps_that_ran_at_once_and_were_too_few_are_explained(fake: FakeIntegration) -> None:
    region = Region(skip=1, steps=1)
    with region:
        executions(region, 1, 20)
    assert "up to 20 ran at once" in region.outcome.reason


def test_steps_that_were_only_told_together_are_captured_again(fake: FakeIntegration) -> None:
    region = Region(skip=0, steps=1)
    with region:
        region.boundary(count=2)
        region.boundary()
        region.boundary()
    assert fake.captures[0].log == ["count", "count", "time", "done"]


def test_the_mark_of_a_step_is_that_of_its_execution(fake: FakeIntegration, noted: Noted) -> None:
    region = Region(skip=1, steps=3)
    with region:
        executions(region, 4, 2)
    steps = [(what, name[5:]) for what, name in noted.log if name.startswith("step ")]
    names = ["2-3", "4-5", "6-7"]
    assert steps == [pair for name in names for pair in (("start", name), ("end", name))]


def test_a_program_that_tells_steps_itself_has_no_gaps(fake: FakeIntegration, noted: Noted) -> None:
    region = Region(skip=0, steps=1)
    with region:
        region.boundary(explicit=True)
        region.pause()
        region.resume()
        region.boundary(explicit=True)
    steps = [(what, name[5:]) for what, name in noted.log if name.startswith("step ")]
    assert steps == [("start", "0"), ("end", "0"), ("start", "1"), ("end", "1")]


def test_steps_of_something_else_are_forgotten_while_they_are_skipped(
    fake: FakeIntegration,
) -> None:
    region = Region(skip=3, steps=1)
    with region:
        region.boundary()
        region.boundary()
        region.forget_steps()
        assert region.finished_steps == 0
        for _ in range(4):
            region.boundary()
        assert region.stage is Stage.TIME
        region.forget_steps()
        assert region.finished_steps == 4
