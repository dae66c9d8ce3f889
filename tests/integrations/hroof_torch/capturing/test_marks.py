"""Regions of PyTorch programs that only mark: what is attached, what is heard, what is known afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

import hroof
from hroof.cli.target import environment
from hroof.collect import nvtx
from hroof.profile import Profile
from hroof.regions import Kind, Mark, Region, Status, listen, unlisten
from hroof.run import OUT_VARIABLE
from hroof_torch import capture
from hroof_torch.capturing.capture import TorchCapture
from hroof_torch.capturing.marks import MarksCapture

CALL = nn.Module.__call__
ENGINE = torch.autograd._engine_run_backward


class Heard:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []

    def start(self, mark: Mark) -> Mark:
        self.log.append(("start", mark))
        return mark

    def end(self, handle: Mark) -> None:
        self.log.append(("end", handle))

    def push(self, mark: Mark) -> None:
        self.log.append(("push", mark))

    def pop(self) -> None:
        self.log.append(("pop", None))

    def spans(self, *kinds: Kind) -> list[str]:
        """``+name`` and ``-name`` of the process-wide marks of these kinds."""
        signs = {"start": "+", "end": "-"}
        return [
            f"{signs[event]}{mark.name}"
            for event, mark in self.log
            if event in signs and mark.kind in kinds
        ]

    def layers(self, phase: str) -> list[str]:
        return [m.name for event, m in self.log if event == "push" and m.phase == phase]

    def balanced(self) -> bool:
        events = [event for event, _ in self.log]
        pairs = (("start", "end"), ("push", "pop"))
        return all(events.count(one) == events.count(other) for one, other in pairs)


@pytest.fixture(autouse=True)
def marks_only(monkeypatch: pytest.MonkeyPatch, only_optimizers_of_this_test: None) -> None:
    monkeypatch.setenv("HROOF", "marks")
    monkeypatch.delenv(OUT_VARIABLE, raising=False)


@pytest.fixture
def heard() -> Iterator[Heard]:
    listener = Heard()
    listen(listener)
    yield listener
    unlisten(listener)


def program() -> Callable[[], Any]:
    """A step: forward, a loss that no module computes, backward, optimizer."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    adamw = torch.optim.AdamW(net.parameters())

    def step() -> None:
        nn.functional.mse_loss(net(torch.ones(5, 3)), torch.zeros(5, 2)).backward()
        adamw.step()
        adamw.zero_grad()

    return step


def train(region: Region, steps: int, *step: Callable[[], Any]) -> Region:
    """Run a step, or what it consists of, some times within a region."""
    parts = step or (program(),)
    with region:
        for _ in range(steps):
            for part in parts:
                part()
    return region


# --- what is chosen and attached ----------------------------------------------------------------


def test_the_switch_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    region = Region()
    made = capture(region)
    made.release()
    assert isinstance(made, MarksCapture)
    monkeypatch.delenv("HROOF")
    measuring = capture(region)
    measuring.release()
    assert isinstance(measuring, TorchCapture)


def attached() -> tuple[bool, bool, int, int]:
    """Whether calls and the engine are wrapped, and how many optimizer hooks there are."""
    wrapped = nn.Module.__call__ is not CALL
    engine = torch.autograd._engine_run_backward is not ENGINE
    return wrapped, engine, len(_global_optimizer_pre_hooks), len(_global_optimizer_post_hooks)


def test_only_a_counting_hook_outside_the_captured_steps_and_nothing_after(heard: Heard) -> None:
    step, seen = program(), []
    before = attached()
    with Region(skip=2, steps=2):
        for _ in range(6):
            seen.append(attached())
            step()
    counting = (False, False, before[2], before[3] + 1)
    marking = (True, True, before[2] + 1, before[3] + 1)
    assert seen == [counting, counting, marking, marking, before, before]


def test_no_profiler_and_no_dispatch_mode_runs(heard: Heard) -> None:
    step, seen = program(), []

    def look(*ignored: Any) -> None:
        seen.append((len(_get_current_dispatch_mode_stack()), torch.autograd._profiler_enabled()))

    net = nn.Linear(1, 1)
    net.register_forward_hook(look)
    train(Region(skip=1, steps=2), 4, lambda: net(torch.ones(1, 1)), step)
    assert seen == [(0, False)] * 4


# --- what is heard ------------------------------------------------------------------------------


def test_the_captured_steps_are_those_of_the_schedule(heard: Heard) -> None:
    train(Region(name="train"), 12)
    assert heard.spans(Kind.REGION, Kind.STEP) == [
        *("+train", "+5", "-5", "+6", "-6", "+7", "-7", "-train"),
    ]
    assert heard.balanced()


def test_the_phases_of_a_step_in_order(heard: Heard) -> None:
    train(Region(skip=1, steps=2), 4)
    phases = ["forward", "loss", "backward", "optimizer"]
    step = [sign + name for name in phases for sign in "+-"]
    assert heard.spans(Kind.PHASE) == step * 2
    assert heard.spans(Kind.STEP, Kind.PHASE)[:2] == ["+1", "+forward"]
    assert heard.spans(Kind.STEP, Kind.PHASE)[-2:] == ["-optimizer", "-2"]


def test_the_layers_of_forward_and_backward(heard: Heard) -> None:
    train(Region(skip=1, steps=1), 3)
    assert heard.layers("forward") == ["Sequential", "0", "1", "2"]
    backward = list(dict.fromkeys(heard.layers("backward")))
    assert backward == ["(loss)", "2", "1", "0"]


def test_a_loss_module_is_one_loss_with_what_is_around_it(heard: Heard) -> None:
    net, loss = nn.Linear(3, 2), nn.MSELoss()

    def step() -> None:
        (loss(net(torch.ones(5, 3)), torch.zeros(5, 2)) * 2).backward()
        hroof.step()

    train(Region(skip=1, steps=1), 3, step)
    assert heard.spans(Kind.PHASE) == [
        *("+forward", "-forward", "+loss", "-loss", "+loss", "-loss", "+loss", "-loss"),
        *("+backward", "-backward"),
    ]
    assert heard.layers("loss") == ["MSELoss"]


def test_inference_has_no_loss(heard: Heard) -> None:
    net = nn.Linear(3, 2)

    def step() -> None:
        with torch.no_grad():
            net(torch.ones(1, 3))
        hroof.step()

    train(Region(skip=1, steps=2), 4, step)
    assert heard.spans(Kind.PHASE) == ["+forward", "-forward"] * 2


def test_the_loss_ends_with_the_step_where_nothing_follows(heard: Heard) -> None:
    net = nn.Linear(3, 2)
    train(Region(skip=1, steps=2), 4, lambda: net(torch.ones(1, 3)), hroof.step)
    one = ["+forward", "-forward", "+loss", "-loss"]
    assert heard.spans(Kind.STEP, Kind.PHASE) == ["+1", *one, "-1", "+2", *one, "-2"]


def test_a_sum_of_gradients_is_the_receivers(heard: Heard) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.left, self.right = (nn.Linear(3, 3, bias=False) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            return self.left(x).tanh() + self.right(x)

    net = Twice()
    train(Region(skip=1, steps=1), 3, lambda: net(torch.ones(5, 3)).sum().backward(), hroof.step)
    pushed = heard.layers("backward")
    meeting = pushed.index("first")
    assert pushed[meeting - 1] == "left" or pushed[meeting - 1] == "right"
    assert {"left", "right"} & {*pushed[meeting:]}, "the sum comes before the last of both has run"
    assert heard.balanced()


def test_a_graph_made_in_backward_is_not_taken_for_a_loss(heard: Heard) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def step() -> None:
        x = torch.ones(5, 3, requires_grad=True)
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        hroof.step()

    train(Region(skip=1, steps=1), 3, step)
    assert {*heard.layers("backward")} == {"0", "1"}


def test_backward_of_another_thread_is_marked_there(heard: Heard) -> None:
    net = nn.Linear(3, 2)
    sgd = torch.optim.SGD(net.parameters(), 0.1)

    def step() -> None:
        worker = threading.Thread(target=net(torch.ones(5, 3)).sum().backward)
        worker.start()
        worker.join()
        sgd.step()

    train(Region(skip=1, steps=1), 3, step)
    assert "Linear" in heard.layers("backward")
    assert heard.balanced()


def test_an_optimizer_within_backward(heard: Heard) -> None:
    """The boundary waits until the pass is over, and the next step is not marked before."""
    net = nn.Linear(3, 2, bias=False)
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    net.weight.register_post_accumulate_grad_hook(lambda parameter: sgd.step())
    train(Region(skip=2, steps=2), 6, lambda: net(torch.ones(5, 3)).sum().backward())
    steps = heard.spans(Kind.STEP, Kind.PHASE)
    assert [name for name in steps if name[1:].isdigit()] == ["+2", "-2", "+3", "-3"]
    last = steps[steps.index("-3") :]
    assert last == ["-3"], "what begins after the last step is not marked"
    assert heard.balanced()


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_an_exception_ends_what_is_open(heard: Heard, where: str) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    calls: list[int] = []

    def fail(*ignored: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError

    if where == "forward":
        net[0].register_forward_hook(fail)
    else:
        net[1].weight.register_hook(fail)
    region = Region(skip=1, steps=3)
    with pytest.raises(ZeroDivisionError):
        train(region, 5, lambda: net(torch.ones(1, 3)).sum().backward(), hroof.step)
    assert heard.balanced()
    assert attached()[:2] == (False, False)
    assert region.outcome.status is Status.PARTIAL
    assert "ZeroDivisionError after 2 steps" in region.outcome.reason


# --- the device ---------------------------------------------------------------------------------


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, heard: Heard) -> None:
    """A CUDA device that the program uses, as far as the edges of steps see it."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: heard.log.append(("wait", None)))
    monkeypatch.setattr("hroof_torch.capturing.marks._device_name", lambda: "cpu")


def test_the_device_is_waited_for_at_both_edges_of_each_step(heard: Heard, device: None) -> None:
    train(Region(skip=1, steps=2), 4)
    edges = [
        "wait" if event == "wait" else ("+" if event == "start" else "-") + mark.name
        for event, mark in heard.log
        if event == "wait" or (event in ("start", "end") and mark.kind is Kind.STEP)
    ]
    assert edges == ["wait", "+1", "wait", "-1", "+2", "wait", "-2"]


def test_no_wait_while_the_program_captures_a_graph(
    heard: Heard, device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    train(Region(skip=1, steps=1), 3)
    assert "wait" not in [event for event, _ in heard.log]
    assert heard.spans(Kind.STEP) == ["+1", "-1"]


def test_a_device_that_the_program_does_not_use_is_left_alone(
    heard: Heard, device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    train(Region(skip=1, steps=1), 3)
    assert "wait" not in [event for event, _ in heard.log]


# --- what is known afterwards -------------------------------------------------------------------


def test_the_profile_says_what_was_marked() -> None:
    profile = train(Region(name="train", skip=1, steps=2), 5).outcome.profile
    assert profile is not None
    assert profile.launches.empty
    run = profile.run
    assert (run["name"], run["status"], run["framework"]) == ("train", "complete", "torch")
    assert run["schedule"] == {"skip": 1, "steps": 2}
    assert [(step["step"], step["number"], step["wall"]) for step in run["steps"]] == [
        (0, 1, None),
        (1, 2, None),
    ]
    assert all(step["marked_wall"] > 0 for step in run["steps"])
    assert {text.split(":")[0] for text in run["how"].values()} == {"marks only"}
    assert run["versions"]["torch"] == torch.__version__
    assert run["device"] == "cpu"
    assert [layer["name"] for layer in run["layers"]] == ["Sequential", "0", "1", "2", "(loss)"]
    assert [layer["type"] for layer in run["layers"]][1] == "Linear"
    assert len(run["warnings"]) == 1 and "hroof.step()" in run["warnings"][0]


def test_it_can_be_kept_and_read_again(tmp_path: Path) -> None:
    profile = train(Region(skip=1, steps=1), 3).outcome.profile
    assert profile is not None
    loaded = Profile.load(profile.save(tmp_path / "run"))
    assert loaded.run["how"] == profile.run["how"]
    assert loaded.launches.empty


@pytest.mark.parametrize(("seen", "whole"), [(2, [1]), (3, [1, 2])])
def test_a_region_that_ends_too_early_is_partial(seen: int, whole: list[int]) -> None:
    region = train(Region(skip=1, steps=5), seen)
    assert region.outcome.status is Status.PARTIAL
    profile = region.outcome.profile
    assert profile is not None
    assert [step["number"] for step in profile.run["steps"]] == whole
    assert f"Only {len(whole)} of 5 steps were marked to their end." in profile.run["warnings"]


def test_steps_that_were_taken_for_one_do_not_count(heard: Heard) -> None:
    with Region(skip=1, steps=1) as region:
        region.boundary()
        region.boundary(count=2)
        region.boundary()
    profile = region.outcome.profile
    assert profile is not None
    assert [(step["step"], step["number"]) for step in profile.run["steps"]] == [(0, 3)]
    assert heard.spans(Kind.STEP) == ["+1", "-1", "+3", "-3"]


def test_a_region_without_a_captured_step_is_empty() -> None:
    region = train(Region(skip=5, steps=3), 3)
    assert region.outcome.status is Status.EMPTY
    assert "needs 8 (5 skipped, 3 marked). It saw 3 optimizer steps." in region.outcome.reason


# --- whole programs -----------------------------------------------------------------------------

SCRIPT = """
import hroof, os, signal, sys, torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
sgd = torch.optim.SGD(net.parameters(), 0.1)
{before}
for number in range(9):
    if number == 6:
        {at_six}
    net(torch.ones(1, 3)).sum().backward()
    sgd.step()
    sgd.zero_grad()
"""


def run_program(
    tmp_path: Path, *, before: str = "", at_six: str = "pass", script: str = SCRIPT
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run a program as ``hroof run --counters`` starts it, but without a tool outside."""
    out = tmp_path / "out"
    out.mkdir()
    program = tmp_path / "train.py"
    program.write_text(
        textwrap.dedent(script).replace("{before}", before).replace("{at_six}", at_six)
    )
    env = environment(out, skip=5, steps=3, name=None) | {"HROOF": "marks"}
    env.pop(nvtx.INJECTION, None)
    done = subprocess.run(
        [sys.executable, str(program)], env=env, capture_output=True, text=True, check=False
    )
    return done, out


def test_a_program_without_a_region_gets_one(tmp_path: Path) -> None:
    done, out = run_program(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    run = Profile.load(out).run
    assert (run["name"], run["status"]) == ("train", "complete")
    assert [step["number"] for step in run["steps"]] == [5, 6, 7]
    assert [layer["name"] for layer in run["layers"]] == ["Sequential", "0", "1", "(loss)"]
    assert run["nvtx"] == {}
    assert "No tool listened to NVTX in this process: no range was emitted." in run["warnings"]


ENDS = {
    "exception": ("raise ZeroDivisionError", 1, "ZeroDivisionError"),
    "terminated": ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "_Terminated"),
    "interrupted": ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
    "exit": ("sys.exit(3)", 3, "needs 8 (5 skipped, 3 marked)"),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_was_marked_until_a_hard_end_is_kept(tmp_path: Path, end: str) -> None:
    at_six, status, reason = ENDS[end]
    done, out = run_program(tmp_path, at_six=at_six)
    assert done.returncode == status
    run = Profile.load(out).run
    assert run["status"] == "partial"
    assert [step["number"] for step in run["steps"]] == [5]
    assert reason in run["status_reason"]


def test_a_region_of_the_program_comes_first(tmp_path: Path) -> None:
    before = "run = hroof.region('own', skip=2, steps=1); run.__enter__()"
    done, out = run_program(tmp_path, before=before, at_six="run.__exit__(None, None, None)")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.glob("out*")] == ["out"]
    run = Profile.load(out).run
    assert (run["name"], run["schedule"]) == ("own", {"skip": 2, "steps": 1})


ACCUMULATING = """
import torch
from torch import nn
net = nn.Linear(3, 2)
sgd = torch.optim.SGD(net.parameters(), 0.1)
net.eval()
with torch.no_grad():
    for _ in range({evaluated}):
        net(torch.ones(1, 3))
net.train()
for number in range(9):
    for _ in range(10):
        net(torch.ones(1, 3)).sum().backward()
    sgd.step()
"""


@pytest.mark.parametrize("evaluated", [0, 12])
def test_calls_before_training_are_not_taken_for_its_steps(tmp_path: Path, evaluated: int) -> None:
    """What a tool outside captured of them could not be taken back; their marks are named otherwise."""
    hearing = """
from hroof.regions import listen
class Say:
    def start(self, mark):
        if mark.kind != "phase":
            print("+", mark.name, flush=True)
    def end(self, handle): pass
    def push(self, mark): pass
    def pop(self): pass
listen(Say())
"""
    script = hearing + ACCUMULATING.replace("{evaluated}", str(evaluated))
    done, out = run_program(tmp_path, script=script)
    inference = ["+ train (inference)", "+ 5", "+ 6", "+ 7"] if evaluated else []
    assert done.stdout.splitlines() == [*inference, "+ train", "+ 5", "+ 6", "+ 7"]
    assert Profile.load(out).run["name"] == "train"
    assert [path.name for path in tmp_path.glob("out*")] == ["out"]


def test_a_program_that_only_infers(tmp_path: Path) -> None:
    script = """
        import torch
        net = torch.nn.Linear(3, 2).eval()
        for _ in range(9):
            net(torch.ones(1, 3))
    """
    done, out = run_program(tmp_path, script=script)
    assert (done.returncode, done.stderr) == (0, "")
    run = Profile.load(out).run
    assert (run["name"], run["status"]) == ("train (inference)", "complete")
    assert [step["number"] for step in run["steps"]] == [5, 6, 7]


def test_without_hroof_run_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = hroof.region("train", skip=1, steps=2)
    train(run, 4)
    assert os.listdir(tmp_path) == []
    assert capsys.readouterr().err == run.report() + "\n"
    assert run.report().startswith("Region 'train' only marked steps 1 to 2 for the tool")
