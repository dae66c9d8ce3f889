"""What a filter of Nsight Compute keeps of a real training loop, without a GPU.

The loop runs under the recorder with ``HROOF=marks``. A dispatch mode of the program's own, which knows nothing of
hroof, emits one NVTX mark per aten op in a second domain, on the thread that runs the op: the stand-in for a kernel
launch. Each says what the program itself knows: its step, its phase, and the module by forward hooks of its own.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hroof.collect import nvtx
from hroof.collect.nsight import filters
from hroof.profile import Profile
from hroof.readers.raw import Ranges
from hroof.regions import Kind, Mark

if TYPE_CHECKING:
    from tests.recorder import recorder
    from tests.recorder.recorder import Event, Recording
elif "recorder" in sys.modules:  # tests are no packages
    recorder = sys.modules["recorder"]
else:
    _path = Path(__file__).parents[1] / "recorder" / "recorder.py"
    _spec = importlib.util.spec_from_file_location("recorder", _path)
    recorder = sys.modules["recorder"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(recorder)

CAPTURED = ("5", "6", "7")
LOOP = """
import contextlib, json, os, sys, threading
import nvtx, torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
{imports}

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(16, 48), nn.Linear(16, 16)
    def forward(self, x):
        split = (x.shape[0], x.shape[1], 2, 8)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(x).split(16, dim=-1))
        heads = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(heads.transpose(1, 2).reshape(x.shape))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.attn, self.ln2 = nn.LayerNorm(16), Attention(), nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.LayerNorm(16)
    def forward(self, ids):
        x = self.tok(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant={reentrant})
        return self.head(self.norm(x) * 2)

torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
adamw = torch.optim.AdamW(net.parameters(), 1e-3)
ids = torch.randint(0, 50, (2, 12))

# What the program knows by itself: the step, the phase, and the modules that a thread is in.
known = {"step": 0, "phase": "other"}
inside = threading.local()

def follow(name, module):
    def enter(module, args):
        inside.__dict__.setdefault("stack", []).append(name)
    def leave(module, args, output):
        inside.stack.pop()
    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)

for name, module in net.named_modules():
    follow(name or "Net", module)

class Launching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "aten":
            stack = getattr(inside, "stack", None)
            told = [func.overloadpacket.__name__, known["step"], known["phase"], stack[-1] if stack else None]
            nvtx.mark(json.dumps(told), domain="launches")
        return func(*args, **(kwargs or {}))

@contextlib.contextmanager
def phase(name):
    known["phase"] = name
    yield
    known["phase"] = "other"

def backward_elsewhere(loss):
    def work():
        with Launching():
            loss.backward()
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()

losses = []
def train(steps):
    with Launching():
        for _ in range(steps):
            with phase("forward"):
                logits = net(ids)
            with phase("loss"):
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
            with phase("backward"):
                {backward}
            with phase("optimizer"):
                adamw.step()
            known["step"] += 1
            adamw.zero_grad()
            losses.append(loss.item().hex())

{run}
print(json.dumps(losses))
"""
OWN_REGION = "with hroof.region('train'):\n    train(12)"
BACKWARDS = {"here": "loss.backward()", "elsewhere": "backward_elsewhere(loss)"}


@dataclass(frozen=True)
class Launch:
    """One stand-in for a kernel.

    Attributes:
        op: Its aten op.
        step: Of the program's own counter.
        phase: As the program knows it.
        module: The module whose forward was running, by the program's own hooks; None outside.
        process: Where it ran.
        thread: Where in it.
        ranges: What was open then.
    """

    op: str
    step: str
    phase: str
    module: str | None
    process: int
    thread: int
    ranges: Ranges


Watch = Callable[..., "Recording"]


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    """Run the loop under the recorder; every range must have its end."""
    pytest.importorskip("nvtx")
    pytest.importorskip("torch")
    library = recorder.build(tmp_path_factory.mktemp("recorder"))

    def watching(
        backward: str, *, reentrant: bool, run: str = OWN_REGION, hroof: str = "marks"
    ) -> Recording:
        program = LOOP.replace("{reentrant}", str(reentrant)).replace("{imports}", "import hroof")
        program = program.replace("{backward}", BACKWARDS[backward]).replace("{run}", run)
        folder = tmp_path_factory.mktemp("loop")
        recording = recorder.run(program, library, folder / "run", environment={"HROOF": hroof})
        recorder.check_balanced(recording.events)
        return recording

    return watching


@pytest.fixture(
    scope="module", params=[("here", False), ("here", True), ("elsewhere", False), ("elsewhere", True)],
    ids=lambda param: f"backward {param[0]}, {'reentrant' if param[1] else 'plain'} checkpoints",
)  # fmt: skip
def recorded(request: pytest.FixtureRequest, watch: Watch) -> Recording:
    """The loop with a region around it, four ways."""
    backward, reentrant = request.param
    return watch(backward, reentrant=reentrant)


def launches(events: list[Event]) -> Iterator[Launch]:
    """Every stand-in with the ranges that ncu would know at it: a replay of the recording."""
    pushed: dict[tuple[int, str], list[str]] = {}
    started: dict[int, tuple[str, str]] = {}
    for event in events:
        place = (event.thread, event.domain or filters.DEFAULT_DOMAIN)
        if event.event == "push":
            pushed.setdefault(place, []).append(event.message or "")
        elif event.event == "pop":
            pushed[place].pop()
        elif event.event == "start":
            assert event.id is not None
            started[event.id] = (place[1], event.message or "")
        elif event.event == "end":
            assert event.id is not None
            del started[event.id]
        elif event.event == "mark" and event.domain == recorder.LAUNCHES:
            mine = [
                (domain, name)
                for (thread, domain), names in pushed.items()
                if thread == event.thread
                for name in names
            ]
            op, step, phase, module = json.loads(event.message or "")
            ranges = Ranges(tuple(mine), tuple(started.values()))
            yield Launch(op, str(step), phase, module, event.pid, event.thread, ranges)


def kept(found: list[Launch], expression: str) -> list[Launch]:
    """What ``ncu --nvtx-include`` would profile."""
    matches = filters.parse(expression).matches
    return [launch for launch in found if matches(launch.ranges)]


def marks_of(launch: Launch) -> list[Mark]:
    found = (nvtx.parse(name, {}) for domain, name in launch.ranges.pushed if domain == "hroof")
    return [mark for mark in found if mark is not None]


def marked_phase(launch: Launch) -> str:
    """The phase as the program knows it, but for the gradient that ``backward()`` makes before the pass begins."""
    first = launch.phase == "backward" and launch.op == "ones_like"
    return "loss" if first else launch.phase


def message(recording: Recording, kind: Kind, name: str) -> str:
    """The message that stands for a step or a phase."""
    found = {e.message for e in recording.of("start") if e.message}
    (one,) = (text for text in found if nvtx.parse(text, {}) == Mark(kind, name))
    return one


def test_the_filter_keeps_exactly_the_ops_of_the_targeted_steps(recorded: Recording) -> None:
    found = list(launches(recorded.events))
    wanted = [launch for launch in found if launch.step in CAPTURED]
    assert kept(found, filters.STEPS) == wanted
    assert len(wanted) > 500 and len(found) > 3 * len(wanted)


def test_backward_is_among_them_whichever_thread_ran_it(recorded: Recording) -> None:
    found = kept(list(launches(recorded.events)), filters.STEPS)
    backward = [launch for launch in found if launch.phase == "backward"]
    assert {launch.step for launch in backward} == set(CAPTURED)
    per_step = [sum(launch.step == step for launch in backward) for step in CAPTURED]
    assert per_step[0] == per_step[1] == per_step[2] > 100


def test_backward_on_another_thread_would_be_lost_by_a_push_pop_range(watch: Watch) -> None:
    """The reason why steps are start/end ranges: the same names, pushed, are not seen there."""
    found = list(launches(watch("elsewhere", reentrant=False).events))
    (main,) = {launch.thread for launch in found if launch.phase == "forward"}
    backward = [launch for launch in found if launch.phase == "backward"]
    assert main not in {launch.thread for launch in backward}
    of_a_step = kept(found, "regex:^hroof$@^S/")
    assert of_a_step == []


@pytest.mark.parametrize("step", CAPTURED)
def test_one_step_alone(recorded: Recording, step: str) -> None:
    found = list(launches(recorded.events))
    expression = filters.started(message(recorded, Kind.STEP, step), "hroof")
    assert kept(found, expression) == [launch for launch in found if launch.step == step]


@pytest.mark.parametrize("phase", ["forward", "loss", "backward", "optimizer"])
def test_one_phase_of_one_step(recorded: Recording, phase: str) -> None:
    found = list(launches(recorded.events))
    names = (message(recorded, Kind.STEP, "6"), message(recorded, Kind.PHASE, phase))
    expression = filters.started(names[0], "hroof") + "," + filters.escape(names[1])
    got = kept(found, expression)
    wanted = [launch for launch in found if (launch.step, marked_phase(launch)) == ("6", phase)]
    assert got == wanted and wanted


def test_the_layer_is_the_module_that_the_program_knows(recorded: Recording) -> None:
    found = kept(list(launches(recorded.events)), filters.STEPS)
    in_modules = [launch for launch in found if launch.module is not None]
    recomputed = [launch for launch in in_modules if launch.phase == "backward"]
    assert recomputed, "checkpointing runs the blocks again"
    for launch in in_modules:
        mark = marks_of(launch)[-1]
        assert (mark.name, mark.recompute) == (launch.module, launch.phase == "backward"), launch


def test_every_backward_op_has_a_layer(recorded: Recording) -> None:
    found = kept(list(launches(recorded.events)), filters.STEPS)
    backward = [launch for launch in found if launch.phase == "backward"]
    bare = [launch.op for launch in backward if not marks_of(launch)]
    assert set(bare) <= {"ones_like", "detach"}, "what the engine itself does before the first node"
    for layer, products in {"head": 2, "blocks.1.mlp.0": 2, "blocks.0.attn.qkv": 2}.items():
        own = [
            launch.op
            for launch in backward
            if (marks := marks_of(launch)) and marks[-1] == Mark(Kind.LAYER, layer, "backward")
        ]
        assert own.count("mm") == products * len(CAPTURED), layer


def test_sums_of_gradients_belong_to_the_layer_that_receives_them(
    recorded: Recording, request: pytest.FixtureRequest
) -> None:
    """Each block adds what it computes to its input, twice, so that two gradients meet twice per block.

    Those of ``h + mlp(ln2(h))`` meet in the block's own first sum; those of ``x + attn(ln1(x))`` in what made ``x``,
    which is the block before. A reentrant checkpoint cuts ``x`` off: there the module that calls it receives them.
    """
    found = kept(list(launches(recorded.events)), filters.STEPS)
    sums = [
        marks_of(launch)[-1].name
        for launch in found
        if launch.op == "add" and launch.phase == "backward" and launch.module is None
    ]
    plain = ["blocks.2", "blocks.1", "blocks.1", "blocks.0", "blocks.0", "tok"]
    cut_off = ["blocks.2", "Net", "blocks.1", "Net", "blocks.0", "Net"]
    reentrant = "reentrant" in request.node.callspec.id
    assert sums == (cut_off if reentrant else plain) * len(CAPTURED)


def test_nothing_of_the_program_is_marked_outside_the_captured_steps(recorded: Recording) -> None:
    within, outside = False, []
    for event in recorded.of("push", "pop", "start", "end"):
        step = (event.message or "").startswith("S")
        if event.event == "start" and step:
            within, last = True, event.id
        elif event.event == "end" and within and event.id == last:
            within = False
        elif not within:
            outside.append((event.event, event.message))
    assert outside == [("start", "R1|train"), ("end", None)]


def test_the_losses_are_those_of_the_undisturbed_program(watch: Watch) -> None:
    marked = watch("here", reentrant=False)
    alone = watch("here", reentrant=False, hroof="off")
    assert alone.of("push", "start") == []
    assert json.loads(marked.stdout.splitlines()[-1]) == json.loads(alone.stdout.splitlines()[-1])


# --- the whole way: hroof run --counters ---------------------------------------------------------

NCU = """#!{python} -I
import importlib.util, json, os, subprocess, sys
from pathlib import Path

argv = sys.argv[1:]
if "--version" in argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2024.1.1.0 (build 1)")
elif "--import" in argv:
    spec = importlib.util.spec_from_file_location("semantics", {tests!r})
    semantics = sys.modules["semantics"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(semantics)
    told = json.loads(Path(argv[argv.index("--import") + 1]).read_text())
    sys.stdout.write(semantics.as_table(Path(told["events"]), told["include"]))
else:
    include = [argv[at + 1] for at, word in enumerate(argv) if word == "--nvtx-include"]
    report = Path(argv[argv.index("-o") + 1])
    events = report.with_name("events")
    events.mkdir()
    variables = {{"NVTX_INJECTION64_PATH": {library!r}, "RECORDER_OUT": str(events)}}
    done = subprocess.run(argv[argv.index("-o") + 2 :], env=os.environ | variables)
    report.write_text(json.dumps({{"events": str(events), "include": include}}))
    sys.exit(done.returncode)
"""
HEADER = [
    *("ID", "Process ID", "Process Name", "Host Name"),
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    *("Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"),
    *("dram__bytes.sum", "gpu__time_duration.sum"),
]


def as_table(folder: Path, include: list[str]) -> str:
    """The stand-ins that pass one of the filters, as ncu prints kernels."""
    wanted = [filters.parse(expression).matches for expression in include]
    rows = [
        [
            *(number, launch.process, "python", "host"),
            f"{launch.thread} " + " ".join(_block(*one) for one in launch.ranges.pushed),
            " ".join(
                _block(f"{at}:{d}", name) for at, (d, name) in enumerate(launch.ranges.started)
            ),
            *(launch.op, 1, 7, "(32, 1, 1)", "(4, 1, 1)", 0, "8.6", 4096, 1000),
        ]
        for number, launch in enumerate(launches(recorder.read(folder)))
        if any(matches(launch.ranges) for matches in wanted)
    ]
    text = io.StringIO()
    units = ["", *[""] * (len(HEADER) - 3), "byte", "nsecond"]
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([HEADER, units, *rows])
    return text.getvalue()


def _block(domain: str, name: str) -> str:
    return f'"{domain}:{name}:none:none:none:none:none:none"'


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, list[Launch]]:
    """The loop, which knows nothing of hroof, under a made-up ncu that filters what the recorder heard.

    The result, and every stand-in that the program emitted.
    """
    pytest.importorskip("nvtx")
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("counted")
    library = recorder.build(folder)
    ncu, script, out = folder / "ncu", folder / "loop.py", folder / "out"
    ncu.write_text(NCU.format(python=sys.executable, tests=__file__, library=str(library)))
    ncu.chmod(0o755)
    script.write_text(
        LOOP.replace("{reentrant}", "False")
        .replace("{imports}", "")
        .replace("{backward}", BACKWARDS["elsewhere"])
        .replace("{run}", "train(12)")
    )
    command = [sys.executable, "-m", "hroof", "run", "--counters", "--ncu", str(ncu), "--no-report"]
    command += ["--out", str(out), "--", sys.executable, str(script)]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("HROOF", "NVTX"))}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return Profile.load(out), list(launches(recorder.read(out / "events")))


def test_through_hroof_run_the_launches_are_those_of_the_captured_steps(
    counted: tuple[Profile, list[Launch]],
) -> None:
    table, emitted = counted[0].launches, counted[1]
    wanted = [launch for launch in emitted if launch.step in CAPTURED]
    assert table["kernel"].tolist() == [launch.op for launch in wanted]
    assert table["step"].tolist() == [int(launch.step) - 5 for launch in wanted]
    assert table["phase"].tolist() == [marked_phase(launch) for launch in wanted]


def test_through_hroof_run_layers_have_their_true_names_and_types(
    counted: tuple[Profile, list[Launch]],
) -> None:
    table, emitted = counted[0].launches, counted[1]
    wanted = [launch for launch in emitted if launch.step in CAPTURED]
    rows = zip(table["layer"], table["layer_type"], table["recompute"], wanted, strict=True)
    in_modules = [row for row in rows if row[3].module is not None]
    assert [row[0] for row in in_modules] == [row[3].module for row in in_modules]
    assert [row[2] for row in in_modules] == [row[3].phase == "backward" for row in in_modules]
    types = {layer: kind for layer, kind, *_ in in_modules}
    assert (types["blocks.0.attn"], types["blocks.2.mlp.0"]) == ("Attention", "Linear")


def test_through_hroof_run_the_result_says_how_it_came(
    counted: tuple[Profile, list[Launch]],
) -> None:
    run = counted[0].run
    assert (run["name"], run["status"]) == ("loop", "complete")
    assert [step["number"] for step in run["steps"]] == [5, 6, 7]
    assert run["how"]["bytes"] == "hardware counters"
    assert {mark["kind"] for mark in run["nvtx"].values()} == {"region", "step", "phase", "layer"}
