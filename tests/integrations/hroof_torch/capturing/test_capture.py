"""A whole capture: exact FLOP by layer and phase, steps, odd programs, device rows, and the front door."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import hroof
from hroof.attribution import Counted, Timed
from hroof.launches import Table, Work
from hroof.profile import Profile
from hroof.regions import Region, Status
from hroof.units import Phase, Pipe, Precision, Source
from hroof_torch import private
from hroof_torch.capturing.recounting import Recounting
from hroof_torch.profiling.events import Event
from tests.integrations.hroof_torch import workloads

pytestmark = pytest.mark.usefixtures("only_optimizers_of_this_test")

BATCH, LENGTH, WIDTH, HEADS, BLOCKS, VOCABULARY = 8, 128, 256, 4, 4, 1000
TOKENS = BATCH * LENGTH


def launches(region: Region) -> pd.DataFrame:
    profile = region.outcome.profile
    assert profile is not None, region.outcome
    return with_sums(profile.launches)


def with_sums(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with the nominal FLOP of each pipe summed over precisions."""
    sums = {
        pipe: frame[[c for c in map(str, frame) if c.startswith(f"flop_nominal_{pipe}")]].sum(
            axis=1, min_count=1
        )
        for pipe in ("matrix", "vector")
    }
    return frame.assign(**sums)


def measure(step: Callable[[], Any], *, skip: int = 1, steps: int = 2, extra: int = 1) -> Region:
    region = Region(skip=skip, steps=steps)
    with region:
        for _ in range(skip + 1 + steps + extra):
            step()
    return region


def gpt_truth() -> dict[tuple[str, str], int]:
    """Matrix FLOP by (layer, phase): 2·m·n·k per product, backward twice; attention 4·B·h·T²·d, backward 2.5 times."""
    linear = {"head": WIDTH * VOCABULARY}
    truth: dict[tuple[str, str], int] = {}
    for block in range(BLOCKS):
        linear |= {
            f"blocks.{block}.attn.qkv": 3 * WIDTH * WIDTH,
            f"blocks.{block}.attn.proj": WIDTH * WIDTH,
            f"blocks.{block}.mlp.0": 4 * WIDTH * WIDTH,
            f"blocks.{block}.mlp.2": 4 * WIDTH * WIDTH,
        }
        attention = 4 * BATCH * HEADS * LENGTH**2 * (WIDTH // HEADS)
        truth[f"blocks.{block}.attn", "forward"] = attention
        truth[f"blocks.{block}.attn", "backward"] = attention * 5 // 2
    for layer, weights in linear.items():
        truth[layer, "forward"] = 2 * TOKENS * weights
        truth[layer, "backward"] = 4 * TOKENS * weights
    return truth


def cnn_truth() -> dict[tuple[str, str], int]:
    """Matrix FLOP by (layer, phase): 2·pixels·9·in·out; the first layer has no gradient of its input."""
    images, truth = 16, {}
    sizes = {"stem.0": (64, 3, 32), "l1.0": (32, 32, 64), "l2.0": (16, 64, 128)}
    for layer, (side, inputs, outputs) in {**sizes, "l3.0": (8, 128, 256)}.items():
        flop = 2 * images * side**2 * 9 * inputs * outputs
        truth[layer, "forward"] = flop
        truth[layer, "backward"] = flop if layer == "stem.0" else 2 * flop
    truth["fc", "forward"] = 2 * images * 256 * 100
    truth["fc", "backward"] = 2 * truth["fc", "forward"]
    return truth


@functools.cache
def measured(name: str) -> Region:
    """Two steps of a workload, measured once for all tests."""
    return measure({"gpt": workloads.gpt, "cnn": workloads.cnn}[name]().step)


@pytest.mark.parametrize(
    ("name", "truth", "total"),
    [("gpt", gpt_truth(), 22_779_265_024), ("cnn", cnn_truth(), 5_664_768_000)],
)
def test_flop_by_layer_and_phase(name: str, truth: dict[tuple[str, str], int], total: int) -> None:
    frame = launches(measured(name))
    assert sum(truth.values()) == total
    for _, step in frame.groupby("step"):
        found = step.groupby(["layer", "phase"], observed=True).matrix.sum()
        assert {key: value for key, value in found.items() if value} == truth
        assert step.matrix.sum() == total
    assert set(frame.step) == {0, 1}


def test_work_per_element_stands_apart() -> None:
    frame = launches(measured("cnn"))
    relu = frame[(frame.step == 0) & (frame.layer == "stem.2") & (frame.phase == "forward")]
    assert relu.vector.sum() == 16 * 32 * 64 * 64
    assert relu.matrix.sum() == 0
    assert set(relu[relu.vector > 0].source_flop) == {"convention"}
    matrix = frame[frame.matrix > 0]
    assert set(matrix.source_flop) == {"counted"}


def test_times_have_a_step_a_phase_and_a_layer() -> None:
    frame = launches(measured("gpt"))
    named = frame[frame.phase.isin(["forward", "backward", "optimizer"])]
    time = named.duration.sum()
    assert named[named.layer.notna()].duration.sum() >= 0.99 * time
    known = frame[frame.source_flop != "missing"].duration.sum()
    assert known >= 0.99 * frame.duration.sum()


def test_flop_do_not_drift_over_five_steps() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    x = torch.randn(8, 16)

    def step() -> None:
        net(x).sum().backward()
        sgd.step()
        sgd.zero_grad()

    for _ in range(2):  # a second region in the same process counts no more than the first
        frame = launches(measure(step, steps=5))
        # forward 2·8·(16·32 + 32·4); backward without the gradient of the input
        truth = 2 * 8 * (16 * 32 + 32 * 4) + 2 * 8 * (16 * 32 + 2 * 32 * 4)
        assert frame.groupby("step").matrix.sum().tolist() == [truth] * 5


def test_steps_have_their_wall_times_and_spread(cnn_workload: Any) -> None:
    region = measure(cnn_workload.step, steps=3)
    assert region.outcome.profile is not None
    walls = [step["wall"] for step in region.outcome.profile.run["steps"]]
    frame = launches(region)
    assert len(walls) == 3
    for number, wall in enumerate(walls):
        ops = frame[(frame.step == number)]
        assert 0 < ops.duration.sum() <= wall * 1.05  # one thread runs the ops of a CPU


def test_a_ragged_last_batch_has_its_own_work() -> None:
    """Shapes that were not counted are counted from themselves, never given another shape's work."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)
    )
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    sizes = iter([8, 8, 8, 5, 8])

    def step() -> None:
        size = next(sizes)
        loss = functional.cross_entropy(net(torch.randn(size, 3, 16, 16)), torch.zeros(size).long())
        loss.backward()
        sgd.step()
        sgd.zero_grad()

    frame = launches(measure(step, steps=3, extra=0))
    per_image = 2 * 64 * 9 * 3 * 8 * 2 + 2 * 512 * 10 * 3
    assert frame.groupby("step").matrix.sum().tolist() == [
        8 * per_image,
        5 * per_image,
        8 * per_image,
    ]
    ragged = frame[frame.step == 1]
    assert ragged[ragged.source_flop == "missing"].matrix.isna().all()
    relu = ragged[(ragged.layer == "1") & (ragged.phase == "forward")]
    assert relu.vector.sum() == 5 * 8 * 64


def test_a_sequence_of_another_length_has_its_own_work(make_gpt: Callable[..., Any]) -> None:
    workload = make_gpt()
    lengths = iter([32, 32, 64, 48])
    optimizer = workload.optimizer

    def step() -> None:
        ids = torch.randint(0, VOCABULARY, (2, next(lengths)))
        workload.model(ids, ids).backward()
        optimizer.step()
        optimizer.zero_grad()

    frame = launches(measure(step, steps=2, extra=0))
    weights = BLOCKS * 12 * WIDTH**2 + WIDTH * VOCABULARY
    linear = frame[frame.op.isin(["aten::mm", "aten::addmm"])]
    assert linear.groupby("step").matrix.sum().tolist() == [
        6 * 2 * length * weights for length in (64, 48)
    ]
    attention = frame[frame.op.str.contains("flash_attention", na=False)]
    truth = {
        step: BLOCKS * 4 * 2 * HEADS * length**2 * (WIDTH // HEADS) * 7 // 2
        for step, length in enumerate((64, 48))
    }
    for number, rows in attention.groupby("step"):
        counted = rows[rows.matrix > 0]
        assert counted.matrix.sum() in (
            0,
            truth[int(str(number))],
        )  # its own work, or none with its time
        assert (rows.duration > 0).all()


def test_what_shapes_do_not_tell_is_taken_from_the_same_place_or_not_at_all() -> None:
    conv1, conv2 = _counted_convolutions()
    recounting = Recounting([conv1, conv2])
    longer = _signature_of(conv1, batch=4)

    def timed(ordinal: int) -> Timed:
        row = Timed(0, Phase.FORWARD, 0, False, False, conv1.op, longer, 0.0, 1.0)
        row.ordinal = ordinal
        return row

    both = [timed(0), timed(1)]
    recounting.learn(both)
    first, second = (recounting.work(row) for row in both)
    assert first is not None and second is not None
    assert first.flop(Pipe.MATRIX) == 4 * second.flop(Pipe.MATRIX)  # stride 1 and stride 2
    alone = Recounting([conv1, conv2])
    alone.learn([timed(0)])  # one of the two was skipped: which one cannot be told
    assert alone.work(timed(0)) is None


def _counted_convolutions() -> tuple[Counted, Counted]:
    from hroof_torch.counting import CountingMode

    found: list[Any] = []
    x, weight = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 1, 1)
    with CountingMode(record=found.append, where=lambda *call: None):
        functional.conv2d(x, weight)
        functional.conv2d(x, weight, stride=2)
    convolutions = [op for op in found if op.work.flop(Pipe.MATRIX) > 0]
    one, two = (
        Counted(Phase.FORWARD, 0, False, False, op.name, op.signature, op.work, 0, (), op.template)
        for op in convolutions
    )
    return one, two


def _signature_of(op: Counted, batch: int) -> Any:
    assert isinstance(op.signature, tuple)
    (shape, dtype), *rest = op.signature
    return (((batch, *shape[1:]), dtype), *rest)


def test_three_products_are_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiler and a dispatch mode never run together: that would show every op twice."""
    monkeypatch.setattr(private, "dynamo_graph_count", lambda: 0)  # of other tests
    a, b = torch.randn(64, 32), torch.randn(32, 16)
    region = Region(skip=1, steps=1)
    seen: list[tuple[str, bool, bool]] = []
    with region:
        for _ in range(3):
            for _ in range(3):
                torch.mm(a, b)
            profiling = torch.autograd.profiler._is_profiler_enabled
            seen.append((str(region.stage), torch._C._len_torch_dispatch_stack() > 0, profiling))
            hroof.step()
    assert seen == [("skip", False, False), ("count", True, False), ("time", False, True)]
    frame = launches(region)
    products = frame[frame.op == "aten::mm"]
    assert len(products) == 3
    assert products.matrix.tolist() == [2 * 64 * 32 * 16] * 3


def test_pure_tensor_code_without_a_model() -> None:
    weight = torch.randn(16, 4, requires_grad=True)
    adam = torch.optim.Adam([weight], 0.1)
    x = torch.randn(8, 16)

    def step() -> None:
        (x @ weight).square().mean().backward()
        adam.step()
        adam.zero_grad()

    frame = launches(measure(step))
    assert frame[frame.step == 0].matrix.sum() == 2 * 2 * 8 * 16 * 4
    assert {"backward", "optimizer"} <= set(frame.phase)
    assert frame[frame.phase == "optimizer"].vector.sum() > 0


def test_too_few_steps_for_timing_keep_the_counts() -> None:
    net = nn.Linear(16, 4)
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    region = Region(skip=1, steps=3)
    with region:
        for _ in range(2):
            net(torch.randn(8, 16)).sum().backward()
            sgd.step()
    assert region.outcome.status in (Status.PARTIAL, Status.EMPTY)
    assert "hroof.region(" in region.outcome.reason or "hroof.step()" in region.outcome.reason
    frame = launches(region)
    assert frame.matrix.sum() == 2 * 2 * 8 * 16 * 4
    assert frame.duration.isna().all() and set(frame.source_time) == {"missing"}


def test_no_step_at_all() -> None:
    region = Region(skip=1, steps=1)
    with region:
        torch.ones(2)
    assert region.outcome.status is Status.EMPTY
    assert region.outcome.profile is None and "hroof.step()" in region.outcome.reason


@pytest.mark.parametrize(("whole", "timed"), [(3, 0), (4, 1), (5, 2)])
def test_an_interrupt_saves_the_whole_steps(tmp_path: Path, whole: int, timed: int) -> None:
    net = nn.Linear(16, 4)
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    run = hroof.region(skip=1, steps=5, out=tmp_path / "run", show=False)
    with pytest.raises(KeyboardInterrupt), run:
        for number in range(9):
            loss = net(torch.randn(8, 16)).sum()
            if number == whole - 1:
                raise KeyboardInterrupt
            loss.backward()
            sgd.step()
    assert run.outcome.status is Status.PARTIAL
    saved = Profile.load(tmp_path / "run")
    assert "KeyboardInterrupt" in saved.run["status_reason"]
    assert len(saved.run["steps"]) == timed
    frame = with_sums(saved.launches)
    assert set(frame.step) == set(range(max(timed, 1)))  # the step that was cut short is not there
    assert frame[frame.step == 0].matrix.sum() == 2 * 2 * 8 * 16 * 4
    assert (frame.duration > 0).any() == (timed > 0)


def test_a_loss_that_is_not_finite_is_told() -> None:
    net = nn.Linear(4, 1)
    sgd = torch.optim.SGD(net.parameters(), 0.1)

    def step() -> None:
        (net(torch.randn(2, 4)).sum() * float("nan")).backward()
        sgd.step()

    region = measure(step)
    assert region.outcome.profile is not None
    assert any("NaN" in text for text in region.outcome.profile.run["warnings"])


def test_a_finite_loss_is_not_warned_of() -> None:
    net = nn.Linear(4, 1)
    sgd = torch.optim.SGD(net.parameters(), 0.1)

    def step() -> None:
        net(torch.randn(2, 4)).sum().backward()
        sgd.step()

    region = measure(step)
    assert region.outcome.profile is not None
    assert not any("NaN" in text for text in region.outcome.profile.run["warnings"])


# Device rows, from made-up events: no GPU is needed.


def _timed(op: str = "aten::mm", work: Work | None = None) -> tuple[Timed, list[Counted]]:
    row = Timed(0, Phase.FORWARD, None, False, False, op, (), 0.0, 5e-3)
    if work is None:
        return row, []
    row.counted = Counted(Phase.FORWARD, None, False, False, op, (), work, None)
    return row, [row.counted]


def _work(flop: float) -> Work:
    unit = (Pipe.MATRIX, Precision.FP32)
    return Work({unit: flop}, {unit: flop / 2}, 300.0, 100.0, Source.COUNTED)


def _device(name: str, start: int, end: int, kind: Any = "kernel") -> Event:
    return Event(name, start, end, kind=kind, device="cuda:0", stream=7)


def _table() -> Table:
    return Table(list, {}, lambda op: None, lambda signature: (), "cuda:0")


def test_an_op_shares_its_work_among_its_kernels() -> None:
    op, counted = _timed(work=_work(1000.0))
    kernels = [_device("gemm", 1_000, 4_000), _device("reduce", 4_000, 5_000)]
    table = _table()
    frame = with_sums(Profile.from_rows(table.rows([op], [kernels], counted), {}).launches)
    assert frame.kernel.tolist() == ["gemm", "reduce"]
    assert frame.matrix.tolist() == [750.0, 250.0]
    assert frame.bytes_l1.tolist() == [300.0, 100.0]
    assert frame.duration.tolist() == pytest.approx([3e-6, 1e-6])
    assert frame.flop_least_matrix_fp32.sum() == 500.0
    assert set(frame.device) == {"cuda:0"} and set(frame.stream) == {7}


def test_time_of_the_cpu_is_never_shown_as_time_of_the_device() -> None:
    (op, counted), (view, of_view) = _timed(work=_work(8.0)), _timed("aten::view")
    rows = _table().rows([op, view], [[_device("gemm", 0, 2_000)], []], [*counted, *of_view])
    frame = Profile.from_rows(rows, {}).launches
    assert frame.op.tolist() == ["aten::mm"]  # an op that starts nothing on the device has no row
    assert frame.duration.tolist() == pytest.approx([2e-6])  # not the 5 ms of its dispatch


def test_copies_and_fills_have_rows() -> None:
    copy, fill = _timed("aten::copy_"), _timed("aten::fill_")
    work = [
        [_device("Memcpy HtoD", 0, 1_000, "memcpy")],
        [_device("Memset", 2_000, 2_500, "memset")],
    ]
    frame = Profile.from_rows(_table().rows([copy[0], fill[0]], work, []), {}).launches
    assert frame.kernel.tolist() == ["Memcpy HtoD", "Memset"]
    assert set(frame.source_flop) == {"missing"}


def test_device_work_without_an_op_keeps_its_time() -> None:
    table = _table()
    op, counted = _timed(work=_work(8.0))
    rows = table.rows([op], [[_device("gemm", 0, 2_000)]], counted)
    rows += table.unlinked_rows([_device("graph_kernel", 3_000, 9_000)], 0)
    frame = with_sums(Profile.from_rows(rows, {}).launches)
    lost = frame[frame.kernel == "graph_kernel"]
    assert lost.duration.tolist() == pytest.approx([6e-6])
    assert lost.layer.isna().all() and lost.matrix.isna().all()
    assert set(lost.source_flop) == {"missing"} and set(lost.source_time) == {"measured"}
    assert frame.launch_id.is_unique and set(frame.step) == {0}


# The front door.


def _train(steps: int = 6) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(steps):
        net(torch.randn(8, 16)).sum().backward()
        sgd.step()
        sgd.zero_grad()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.delenv("HROOF_OUT", raising=False)
    monkeypatch.setattr(hroof.Run, "machine", lambda self: None)  # measuring ceilings takes seconds
    return tmp_path


def test_a_run_is_saved_and_reported(home: Path) -> None:
    with hroof.region("my net", skip=1, steps=2, show=False) as run:
        _train()
    assert run.outcome.status is Status.COMPLETE
    assert run.folder == Path("hroof-runs/my_net") and (home / run.folder / "run.json").exists()
    saved = Profile.load(run.folder)
    assert len(saved.launches) == len(run.profile.launches)
    assert saved.run["name"] == "my net" and saved.run["status"] == "complete"
    assert saved.run["framework"] == "torch" and len(saved.run["steps"]) == 2
    text = run.report()
    assert "forward" in run.report(by=("phase",)) and len(text.splitlines()) > 5


def test_runs_are_numbered(home: Path) -> None:
    folders = []
    for _ in range(3):
        gc.collect()
        with hroof.region(skip=1, steps=1, show=False) as run:
            _train(4)
        folders.append(str(run.folder))
    assert folders == [f"hroof-runs/region{end}" for end in ("", "-2", "-3")]


def test_the_report_goes_to_standard_error(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with hroof.region(skip=1, steps=1):
        _train(4)
    said = capsys.readouterr()
    assert said.out == ""
    assert "Saved in hroof-runs/region" in said.err


def test_switched_off(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HROOF", "off")
    call = nn.Module.__call__
    with hroof.region(skip=0, steps=1) as run:
        assert nn.Module.__call__ is call
        _train(3)
    assert run.outcome.status is Status.OFF and run.folder is None
    assert not (home / "hroof-runs").exists()
    with pytest.raises(hroof.CaptureError):
        run.report()


def test_the_folder_of_a_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HROOF_OUT", str(home / "asked"))
    with hroof.region(skip=1, steps=1) as run:
        _train(4)
    assert run.folder == home / "asked"
    assert (home / "asked" / "run.json").exists()


def test_a_folder_that_was_asked_for_and_is_there_already(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name in ("first", "second"):
        gc.collect()
        with hroof.region(name, skip=1, steps=1, show=False, out=home / "mine") as run:
            _train(4)
        runs.append(run)
    assert (runs[0].folder, runs[1].folder) == (home / "mine", None)
    assert "holds a profile already" in capsys.readouterr().err
    assert Profile.load(home / "mine").run["name"] == "first"
    assert runs[1].profile.run["status"] == "complete"  # kept in memory whatever is on disk
    assert Profile.load(home / "mine").run["status"] == "complete"


def test_a_decorated_function_adds_its_steps_up(home: Path) -> None:
    run = hroof.region("steps", skip=1, steps=2, show=False)
    net = nn.Linear(16, 4)
    sgd = torch.optim.SGD(net.parameters(), 0.1)

    @run
    def step(x: Tensor) -> Tensor:
        loss = net(x).sum()
        loss.backward()
        sgd.step()
        sgd.zero_grad()
        return loss.detach()

    for _ in range(6):
        assert step(torch.randn(8, 16)).shape == ()
    assert run.outcome.status is Status.COMPLETE
    assert with_sums(run.profile.launches).groupby("step").matrix.sum().tolist() == [2048.0] * 2
