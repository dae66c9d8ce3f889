"""Layers, phases and steps of PyTorch programs as an NVTX tool sees them, without a GPU."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hroof.collect.nvtx import parse

if TYPE_CHECKING:
    from tests.recorder import recorder
    from tests.recorder.recorder import Recording
elif "recorder" in sys.modules:  # tests are no packages
    recorder = sys.modules["recorder"]
else:
    _path = Path(__file__).parents[2] / "recorder" / "recorder.py"
    _spec = importlib.util.spec_from_file_location("recorder", _path)
    recorder = sys.modules["recorder"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(recorder)

Watch = Callable[..., "Recording"]
Row = tuple[str, str | None, str | None, bool | None, tuple[str, ...]]

PROGRAM = """
import json, threading, warnings
import torch, hroof
from torch import nn
from torch.utils.checkpoint import checkpoint
from launches import launches_of_ops
linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
{net}
sgd = torch.optim.SGD(net.parameters(), 0.01, foreach=False)
def step():
    forward_and_backward()
    sgd.step()
    sgd.zero_grad()
with launches_of_ops(), hroof.region("train", skip=2, steps=2, show=False) as run:
    for number in range(6):
        step()
print(json.dumps(hroof.Profile.load(run.folder).run["nvtx"]))
"""

PLAIN = """
net = nn.Sequential(linear(3, 4), nn.Tanh(), nn.Sequential(linear(4, 2)))
def forward_and_backward():
    net(torch.ones(5, 3)).sum().backward()
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled recorder."""
    return recorder.build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture
def watch(library: Path, tmp_path: Path) -> Watch:
    """Run the program with a net of its own under the recorder; everything must be balanced."""
    pytest.importorskip("nvtx")

    def watching(net: str, **more: Any) -> Recording:
        out = {"HROOF_OUT": str(tmp_path / "out")}
        program = PROGRAM.replace("{net}", net)
        recording = recorder.run(program, library, tmp_path / "run", environment=out, **more)
        recorder.check_balanced(recording.events)
        return recording

    return watching


def table(recording: Recording) -> dict[str, Any]:
    """The names that the program printed."""
    printed: dict[str, Any] = json.loads(recording.stdout.splitlines()[-1])
    return printed


def rows(recording: Recording) -> list[Row]:
    """For every op: its name, layer, phase, recompute, and the process-wide ranges around it."""
    known, found = table(recording), []
    for placed in recorder.placed(recording.events):
        mark = parse(placed.layer, known) if placed.layer else None
        around = [parse(message, known) for message in placed.around if message]
        spans = tuple(f"{m.kind} {m.name}" for m in around if m is not None)
        where = (mark.name, mark.phase, mark.recompute) if mark else (None, None, None)
        found.append((str(placed.launch), *where, spans))
    return found


def in_step(recording: Recording, number: int, *ops: str) -> list[tuple[Any, ...]]:
    """(op, layer, layer's phase, recompute, phase) of the ops of one step."""
    found = []
    for op, layer, phase, again, spans in rows(recording):
        phases = [span.removeprefix("phase ") for span in spans if span.startswith("phase ")]
        if f"step {number}" in spans and (not ops or op in ops):
            found.append((op, layer, phase, again, phases[-1] if phases else None))
    return found


def test_every_op_lies_in_its_layer_phase_step_and_region(watch: Watch) -> None:
    recording = watch(PLAIN)
    for number in (2, 3, 4):  # counted, timed, timed
        assert in_step(recording, number, "mm", "tanh", "tanh_backward", "add_", "sum") == [
            ("mm", "0", "forward", False, "forward"),
            ("tanh", "1", "forward", False, "forward"),
            ("mm", "2.0", "forward", False, "forward"),
            ("sum", None, None, None, None),
            ("mm", "2.0", "backward", False, "backward"),
            ("mm", "2.0", "backward", False, "backward"),
            ("tanh_backward", "1", "backward", False, "backward"),
            ("mm", "0", "backward", False, "backward"),
            ("add_", None, None, None, "optimizer"),
            ("add_", None, None, None, "optimizer"),
        ]
    outside = [spans for *_, spans in rows(recording) if not any("step" in s for s in spans)]
    assert ("region train",) in outside, "steps that are not captured are not marked"
    assert all(spans in ((), ("region train",)) for spans in outside)


def test_layers_are_pushed_and_everything_else_is_started(watch: Watch) -> None:
    recording = watch(PLAIN)
    pushed = {message[0] for e in recording.of("push") if (message := e.message)}
    started = {message[0] for e in recording.of("start") if (message := e.message)}
    assert (pushed, started) == ({"L"}, {"R", "S", "P"})
    assert [s.message for s in recorder.spans(recording.events)][:1] == ["R1|train"]


def test_the_names_are_those_of_the_messages(watch: Watch) -> None:
    recording = watch(PLAIN)
    messages = {e.message for e in recording.of("push", "start")}
    assert messages == set(table(recording))
    layers = {mark["name"] for mark in table(recording).values() if mark["kind"] == "layer"}
    assert layers == {"Sequential", "0", "1", "2", "2.0"}


def test_ranges_nest_as_the_calls_do(watch: Watch) -> None:
    recording = watch(PLAIN)
    known = table(recording)
    paths = set()
    for mark in recording.of("mark", domain="launches"):
        path = recorder.path_at(recording.events, mark.thread, mark.time)
        paths.add(tuple(known[message]["name"] for message in path if message))
    assert ("Sequential", "2", "2.0") in paths
    assert ("Sequential", "0") in paths
    assert ("2.0",) in paths, "backward runs node by node"


RAISES = """
class Fragile(nn.Module):
    calls = 0
    def forward(self, x):
        Fragile.calls += 1
        if Fragile.calls % 2:
            {how}
        return x.tanh()
def fail(gradient=None):
    raise ValueError("no")
net = nn.Sequential(linear(3, 4), nn.Sequential(Fragile()), linear(4, 2))
def forward_and_backward():
    for _ in range(2):
        try:
            net(torch.ones(5, 3)).sum().backward()
        except ValueError:
            pass
"""


@pytest.mark.parametrize("how", ["fail()", "x.register_hook(fail)"], ids=["forward", "backward"])
def test_an_exception_ends_its_ranges(watch: Watch, how: str) -> None:
    recording = watch(RAISES.replace("{how}", how))
    for number in (2, 3, 4):
        seen = in_step(recording, number, "mm")
        assert seen[-5:] == [
            ("mm", "0", "forward", False, "forward"),
            ("mm", "2", "forward", False, "forward"),
            ("mm", "2", "backward", False, "backward"),
            ("mm", "2", "backward", False, "backward"),
            ("mm", "0", "backward", False, "backward"),
        ]


CHECKPOINTED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = linear(3, 4)
        self.body = nn.Sequential(linear(4, 5), nn.Tanh(), linear(5, 6), nn.Tanh())
    def forward(self, x):
        return checkpoint(self.body, self.enter(x), use_reentrant={reentrant})
net = Net()
def forward_and_backward():
    net(torch.ones(5, 3)).sum().backward()
"""


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_layers_say_so(watch: Watch, reentrant: bool) -> None:
    recording = watch(CHECKPOINTED.replace("{reentrant}", str(reentrant)))
    again = [
        ("mm", "body.0", "backward", True, "backward"),
        ("tanh", "body.1", "backward", True, "backward"),
        ("mm", "body.2", "backward", True, "backward"),
        ("tanh", "body.3", "backward", True, "backward"),
    ]
    for number in (2, 3, 4):
        seen = in_step(recording, number, "mm", "tanh", "tanh_backward")
        recomputed = [row for row in seen if row[3]]
        assert recomputed == again
        assert [row for row in seen if not row[3]] == [
            ("mm", "enter", "forward", False, "forward"),
            ("mm", "body.0", "forward", False, "forward"),
            ("tanh", "body.1", "forward", False, "forward"),
            ("mm", "body.2", "forward", False, "forward"),
            ("tanh", "body.3", "forward", False, "forward"),
            ("tanh_backward", "body.3", "backward", False, "backward"),
            ("mm", "body.2", "backward", False, "backward"),
            ("mm", "body.2", "backward", False, "backward"),
            ("tanh_backward", "body.1", "backward", False, "backward"),
            ("mm", "body.0", "backward", False, "backward"),
            ("mm", "body.0", "backward", False, "backward"),
            ("mm", "enter", "backward", False, "backward"),
        ]


THREADED = """
net = nn.Sequential(linear(3, 4), nn.Tanh(), linear(4, 2))
other = nn.Sequential(linear(7, 7), linear(7, 7), linear(7, 7))
def behind(loss):
    with launches_of_ops():
        other(torch.ones(2, 7))
        loss.backward()
def forward_and_backward():
    worker = threading.Thread(target=behind, args=(net(torch.ones(5, 3)).sum(),))
    worker.start()
    worker.join()
"""


def test_backward_is_marked_on_the_thread_that_runs_it(watch: Watch) -> None:
    recording = watch(THREADED)
    for number in (2, 3, 4):
        seen = [row for row in in_step(recording, number, "mm") if row[4] == "backward"]
        layers = [layer for _, layer, *_ in seen]
        assert layers == ["Sequential.2", "Sequential.2", "Sequential.0"]
    pushing = {e.thread for e in recording.of("push") if "p=backward" in (e.message or "")}
    main = {e.thread for e in recording.of("start") if (e.message or "").startswith("R")}
    assert pushing and not pushing & main
