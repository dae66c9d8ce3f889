"""``hroof run`` end to end: real programs with PyTorch, each run once and looked at from many sides."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("torch")

from hroof import integration
from hroof.ceilings.cache import cache_path
from hroof.cli import main
from hroof.machine import Ceiling, Machine
from hroof.profile import Profile
from hroof.units import MemoryLevel, Pipe, Precision

PREAMBLE = """
import os, signal, sys, time
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.second = nn.Linear(32, 8)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def train(steps, batch=None):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = net(torch.ones(16, 32) if batch is None else batch).square().mean()
        loss.backward()
        optimizer.step()
    return float(loss.detach())
"""


@dataclass(frozen=True)
class Done:
    """What one command line left."""

    status: int
    out: str
    err: str
    folder: Path

    def profile(self, name: str = "out") -> Profile:
        return Profile.load(self.folder / name)


@contextlib.contextmanager
def output_in(out: Path, err: Path) -> Iterator[None]:
    """Send the output of this process and of its children to files."""
    with contextlib.ExitStack() as stack:
        for number, path, name in ((1, out, "stdout"), (2, err, "stderr")):
            stack.callback(os.dup2, os.dup(number), number)
            file = stack.enter_context(path.open("w", encoding="utf-8"))
            os.dup2(file.fileno(), number)
            stream = stack.enter_context(os.fdopen(os.dup(number), "w", encoding="utf-8"))
            stack.callback(setattr, sys, name, getattr(sys, name))
            setattr(sys, name, stream)
        yield


Go = Callable[..., Done]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ceilings of this machine that nobody had to measure."""
    folder = tmp_path_factory.mktemp("cache")
    chosen = integration.load("torch")
    machine = Machine(
        name="made up",
        peaks={
            (pipe, precision): Ceiling(1e11, samples=5, spread=0.01)
            for pipe in Pipe
            for precision in Precision
        },
        bandwidths={level: Ceiling(1e10, samples=5, spread=0.01) for level in MemoryLevel},
        launch_cost=Ceiling(1e-6, how="measured", samples=5),
        shared_pipes=True,
        facts={"quick": False},
    )
    machine.save(cache_path(chosen, chosen.device("cpu"), folder))
    return folder


@pytest.fixture(scope="module")
def hroof(cache: Path) -> Go:
    """One command line, in this process: importing PyTorch twice would double the time."""

    def run(folder: Path, *arguments: str) -> Done:
        out, err = folder / "stdout.txt", folder / "stderr.txt"
        with pytest.MonkeyPatch.context() as patch, output_in(out, err):
            for name in ("HROOF", "HROOF_OUT", "HROOF_START"):
                patch.delenv(name, raising=False)
            patch.setenv("HROOF_CACHE", str(cache))
            patch.setattr(sys, "path", [*sys.path])
            patch.chdir(folder)
            status = main(list(arguments))
        return Done(status, out.read_text(), err.read_text(), folder)

    return run


@pytest.fixture(scope="module")
def go(hroof: Go, tmp_path_factory: pytest.TempPathFactory) -> Go:
    """Run a program, given as the text after the preamble, under ``hroof run``."""

    def run(text: str, *options: str, folder: Path | None = None) -> Done:
        folder = folder or tmp_path_factory.mktemp("run")
        command = write(folder, text)
        return hroof(folder, "run", "--out", "out", *options, "--", *command)

    return run


def write(folder: Path, text: str) -> list[str]:
    """A program; the command that runs it."""
    script = folder / "train.py"
    script.write_text(PREAMBLE + textwrap.dedent(text))
    return [sys.executable, str(script)]


SHORT = ("--skip", "2", "--steps", "2")


# --- training without a region -------------------------------------------------------------------


@pytest.fixture(scope="module")
def training(go: Go) -> Done:
    return go("print('loss', train(8).hex())", *SHORT)


def test_training_is_captured_without_a_word_in_the_program(training: Done) -> None:
    assert training.status == 0
    run = training.profile().run
    assert run["status"] == "complete"
    assert run["schedule"] == {"skip": 2, "steps": 2}
    assert run["name"] == "train"
    assert len(run["steps"]) == 2


def test_layers_and_phases_are_found(training: Done) -> None:
    launches = training.profile().launches
    assert {"first", "second"} <= set(launches["layer"].dropna())
    assert {"forward", "backward", "optimizer"} <= set(launches["phase"].dropna())


def test_the_report_comes_after_the_programs_output(training: Done) -> None:
    first, *rest = training.out.splitlines()
    assert first.startswith("loss ")
    assert any("Verdict" in line for line in rest)
    assert "Traceback" not in training.err
    assert "Saved in out." in training.err


def test_only_the_result_is_left(training: Done) -> None:
    names = sorted(path.name for path in (training.folder / "out").iterdir())
    assert names == ["launches-0.parquet", "machine.json", "run.json"]


def test_the_ceilings_were_those_of_the_cache(training: Done) -> None:
    assert Machine.load(training.folder / "out" / "machine.json").name == "made up"
    assert "measuring" not in training.err


def test_the_program_computes_the_same_with_and_without(training: Done, tmp_path: Path) -> None:
    command = write(tmp_path, "print('loss', train(8).hex())")
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    assert training.out.splitlines()[0] == plain.stdout.strip()


# --- a region of the program's own ---------------------------------------------------------------


@pytest.fixture(scope="module")
def regions(go: Go) -> Done:
    return go("""
        import hroof
        train(2)
        with hroof.region("mine", skip=1, steps=2):
            train(5)
        with hroof.region("again", skip=1, steps=1):
            train(4)
        train(9)
    """, "--json")  # fmt: skip


def test_regions_of_the_program_come_instead(regions: Done) -> None:
    assert regions.status == 0
    assert regions.profile("out").name == "mine"
    assert regions.profile("out-2").name == "again"
    assert not (regions.folder / "out-3").exists()


def test_json_of_all_of_them_is_all_of_standard_output(regions: Done) -> None:
    found = json.loads(regions.out)
    assert [report["run"]["name"] for report in found["runs"]] == ["mine", "again"]
    assert all(report["run"]["status"] == "complete" for report in found["runs"])


def test_the_report_is_told_once(regions: Done) -> None:
    """In the program the regions are silent: the command reports."""
    assert "Verdict" not in regions.err


# --- inference -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inference(go: Go) -> Done:
    return go("""
        with torch.no_grad():
            for _ in range(9):
                net(torch.ones(16, 32))
    """, *SHORT, "--name", "only forward")  # fmt: skip


def test_inference_is_captured_by_calls_of_the_model(inference: Done) -> None:
    assert inference.status == 0
    profile = inference.profile()
    assert profile.run["status"] == "complete"
    assert profile.name == "only forward"
    phases = set(profile.launches["phase"].dropna())
    assert "forward" in phases
    assert not phases & {"backward", "optimizer", "loss"}
    assert len(profile.run["steps"]) == 2


def test_each_call_of_the_model_is_one_step(inference: Done) -> None:
    launches = inference.profile().launches
    products = launches[launches["op"].str.contains("addmm", na=False)]
    assert products.groupby("step").size().to_dict() == {0: 2, 1: 2}


def test_inference_before_training_is_forgotten(go: Go) -> None:
    done = go("""
        with torch.no_grad():
            for _ in range(9):
                net(torch.ones(16, 32))
        train(8)
    """, *SHORT)  # fmt: skip
    assert done.status == 0
    assert {"backward", "optimizer"} <= set(done.profile().launches["phase"].dropna())
    assert not (done.folder / "out-2").exists()


# --- programs that end early ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def raising(go: Go) -> Done:
    return go("train(4); raise ValueError('my own')", *SHORT)


def test_an_exception_keeps_its_traceback_and_status(raising: Done) -> None:
    assert raising.status == 1
    assert "ValueError: my own" in raising.err
    assert "train.py" in raising.err


def test_what_was_captured_before_is_reported_as_partial(raising: Done) -> None:
    run = raising.profile().run
    assert run["status"] == "partial"
    assert "ValueError" in run["status_reason"]
    assert "exit status 1. What it did until then" in raising.err
    assert "Verdict" in raising.out


def test_too_few_steps(go: Go) -> None:
    """Nothing was counted or timed: what was seen, and the call that would fit."""
    done = go("train(4)", "--skip", "5", "--steps", "3")
    assert done.status == 5
    assert "--skip 5 --steps 3" in done.err
    assert "did 4 steps and needs 9" in done.err
    assert "hroof run --skip 1 --steps 2" in done.err
    assert done.out == ""
    assert not (done.folder / "out").exists()


def test_no_work_at_all(go: Go) -> None:
    done = go("print(torch.ones(3).sum())")
    assert done.status == 5
    assert "opened no region, took no optimizer step" in done.err


def interrupt(folder: Path, number: int) -> Done:
    """Start a long training, wait until it is under way, send hroof a signal."""
    program = write(folder, "train(4)\nprint('under way', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "hroof", "run", "--out", "out", "--no-report", *SHORT, "--"]
    # Its own session has no terminal, so that hroof has to pass the signal on.
    child = subprocess.Popen(
        [*command, *program], cwd=folder, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "under way\n"
    time.sleep(0.1)
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    return Done(child.returncode, out, err, folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_program_leaves_a_partial_result(
    tmp_path: Path, number: signal.Signals
) -> None:
    done = interrupt(tmp_path, number)
    assert done.status == 128 + number
    assert f"ended by {number.name}. What it did until then" in done.err
    assert "Saved in out" in done.err
    assert done.profile().run["status"] == "partial"


# --- workers and children ------------------------------------------------------------------------


def test_workers_of_a_data_loader_do_not_measure(go: Go) -> None:
    done = go("""
        from torch.utils.data import DataLoader
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 128
            def __getitem__(self, at):
                net(torch.ones(1, 32))
                return torch.ones(32)
        for batch in DataLoader(Data(), batch_size=16, num_workers=2, multiprocessing_context="fork"):
            train(1, batch)
    """, *SHORT)  # fmt: skip
    assert done.status == 0
    assert done.profile().run["status"] == "complete"
    assert not (done.folder / "out-2").exists()
    assert "failed" not in done.err


def test_a_child_process_that_does_the_work_is_a_named_cause(go: Go) -> None:
    done = go("""
        if len(sys.argv) == 1:
            import subprocess
            subprocess.run([sys.executable, __file__, "child"], check=True)
        else:
            train(9)
    """, *SHORT)  # fmt: skip
    assert done.status == 5
    assert "A child process does the work" in done.err


def test_torch_compile_goes_on_working(go: Go) -> None:
    done = go("""
        graphs = []
        def backend(graph, inputs):
            graphs.append(graph)
            return graph.forward
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        fast = torch.compile(net, backend=backend)
        for _ in range(8):
            optimizer.zero_grad()
            fast(torch.ones(16, 32)).square().mean().backward()
            optimizer.step()
        print("graphs", len(graphs))
    """, *SHORT)  # fmt: skip
    assert done.out.splitlines()[0] == "graphs 1"
    assert done.status == 0
    assert done.profile().run["status"] == "complete"


# --- folders -------------------------------------------------------------------------------------


def test_a_second_run_is_refused_and_then_replaces(go: Go, training: Done) -> None:
    refused = go("print('started')", *SHORT, folder=training.folder)
    assert (refused.status, refused.out) == (4, "")
    assert "--force" in refused.err
    failed = go("train(1)", *SHORT, "--force", folder=training.folder)
    assert failed.status == 5
    assert failed.profile().run["name"] == "train"  # the old one is back
    replaced = go("train(8)", *SHORT, "--force", "--name", "new", folder=training.folder)
    assert replaced.status == 0
    assert replaced.profile().name == "new"


def test_a_disk_that_fills_up_while_the_program_runs(go: Go) -> None:
    """The program goes on; the command names the folder as the cause."""
    done = go("""
        import shutil
        train(2)
        shutil.rmtree(os.environ["HROOF_OUT"])
        open(os.environ["HROOF_OUT"], "w").close()
        train(8)
        print("goes on")
    """, *SHORT)  # fmt: skip
    assert done.out == "goes on\n"
    assert done.status == 4
    assert "Cannot write" in done.err


def test_a_full_disk(go: Go) -> None:
    """A file size limit of the program stands for a full disk: every larger write fails."""
    done = go("""
        import resource
        train(2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        train(8)
        print("goes on")
    """, *SHORT)  # fmt: skip
    assert done.out == "goes on\n"
    assert done.status == 5
    assert "Cannot write" in done.err
    assert "Traceback" not in done.err


# --- the other verbs -----------------------------------------------------------------------------


def test_the_demo(hroof: Go, tmp_path: Path) -> None:
    done = hroof(tmp_path, "demo", "--steps", "1", "--html", "demo.html")
    assert done.status == 0, done.err
    assert "Verdict: demo" in done.out
    assert "hroof-runs/demo" in done.err
    assert (tmp_path / "demo.html").stat().st_size > 10_000
    launches = Profile.load(tmp_path / "hroof-runs" / "demo").launches
    assert {"blocks.0.attn.qkv", "head"} <= set(launches["layer"].dropna())


def test_counting_on_paper(hroof: Go, tmp_path: Path) -> None:
    """A layer of 2 TB of weights: FLOP and parameters by hand."""
    (tmp_path / "big_model.py").write_text(textwrap.dedent("""
        import torch
        def build():
            model = torch.nn.Sequential(torch.nn.Linear(1 << 20, 1 << 19, bias=False))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            data = torch.ones(4, 1 << 20, requires_grad=True)
            def step():
                model(data).sum().backward()
                optimizer.step()
            return step
    """))  # fmt: skip
    done = hroof(tmp_path, "count", "big_model.py:build", "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    rows = {(row["layer"], row["phase"]): row for row in found["rows"]}
    weights = 1 << 39
    assert found["parameters"] == weights
    assert rows["0", "forward"]["flop_matrix"] == 2 * 4 * weights
    assert rows["0", "backward"]["flop_matrix"] == 2 * 2 * 4 * weights
    assert rows["0", "optimizer"]["flop_elementwise"] >= weights
    assert found["machine"]["name"] == "made up"
    text = hroof(tmp_path, "count", "big_model.py:build")
    assert text.out.splitlines()[-3].split()[:2] == ["total", "550"]


def test_a_step_that_looks_at_values_cannot_be_counted(hroof: Go, tmp_path: Path) -> None:
    (tmp_path / "looking.py").write_text(
        "import torch\ndef build():\n    return lambda: torch.ones(3).sum().item()\n"
    )
    done = hroof(tmp_path, "count", "looking.py:build")
    assert done.status == 5
    assert "no .item()" in done.err
