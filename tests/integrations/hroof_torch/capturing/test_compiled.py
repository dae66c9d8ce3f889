"""Compiled code: counted beside the run, one row per region, and nothing of the program changed."""

from __future__ import annotations

import gc
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hroof.attribution import Counted, Timed
from hroof.launches import Work
from hroof.regions import Region
from hroof.traffic import Access, Touch
from hroof.units import Phase, Pipe, Precision, Source
from hroof_torch import private
from hroof_torch.profiling.folding import fold_regions, fused_work
from hroof_torch.profiling.rows import COMPILED_OP
from hroof_torch.tracking.layers import LayerMap
from hroof_torch.tracking.tracker import Tracker

pytestmark = pytest.mark.usefixtures("only_optimizers_of_this_test")

FORWARD = 2 * 8 * (16 * 32 + 32 * 4)
BACKWARD = 2 * 8 * (16 * 32 + 2 * 32 * 4)
BACKENDS = ["aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    gc.collect()  # optimizers of earlier tests would be waited for
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        # The compiler's own: deprecations inside PyTorch, and a look at .grad that it means to hide.
        warnings.filterwarnings("ignore", message="The .grad attribute", category=UserWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        yield
    torch._dynamo.reset()


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32, bias=False), nn.ReLU(), nn.Linear(32, 4, bias=False))


def launches(region: Region) -> pd.DataFrame:
    """The table of a region with the nominal FLOP of both pipes summed over precisions."""
    profile = region.outcome.profile
    assert profile is not None, region.outcome
    frame = profile.launches
    sums = {
        pipe: frame[[c for c in map(str, frame) if c.startswith(f"flop_nominal_{pipe}")]].sum(
            axis=1, min_count=1
        )
        for pipe in ("matrix", "vector")
    }
    return frame.assign(**sums)


def train(
    model: Callable[..., Any],
    parameters: Any,
    *,
    skip: int = 2,
    loss: Callable[[Any], Tensor] = lambda y: y.sum(),
    x: Tensor | None = None,
    steps: int = 2,
) -> Region:
    """Six or more steps of a model under a region."""
    x = torch.randn(8, 16) if x is None else x
    sgd = torch.optim.SGD(list(parameters), 0.01)
    region = Region(skip=skip, steps=steps)
    with region:
        for _ in range(skip + steps + 2):
            loss(model(x)).backward()
            sgd.step()
            sgd.zero_grad()
    return region


def regions(frame: pd.DataFrame, step: int = 0) -> list[tuple[str, Any, float]]:
    rows = frame[(frame.op == COMPILED_OP) & (frame.step == step)]
    columns = zip(rows["phase"].astype(str), rows["layer"], rows["matrix"], strict=True)
    return [(phase, layer, float(matrix)) for phase, layer, matrix in columns]


@pytest.mark.parametrize("skip", [0, 1, 2], ids=["cold", "cold-before", "warm"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_flop_are_those_of_eager_code(backend: str, skip: int) -> None:
    model = net()
    region = train(torch.compile(model, backend=backend), model.parameters(), skip=skip)
    frame = launches(region)
    assert frame.groupby("step").matrix.sum().tolist() == [FORWARD + BACKWARD] * 2
    for step in range(2):
        assert regions(frame, step) == [
            ("forward", "Sequential", FORWARD),
            ("backward", "Sequential", BACKWARD),
        ]
    assert set(frame[frame.op == COMPILED_OP].source_flop) == {"counted"}
    assert not frame.recompute.any()
    assert region.outcome.profile is not None
    assert region.outcome.profile.run["counting"] == "by a replay on fake tensors beside the run"


def test_forward_alone() -> None:
    model = net()
    compiled = torch.compile(model, backend="aot_eager")
    region = Region(skip=1, steps=1)
    import hroof

    with region, torch.no_grad():
        for _ in range(3):
            compiled(torch.randn(8, 16))
            hroof.step()
    assert regions(launches(region)) == [("forward", "Sequential", FORWARD)]


class Net(nn.Module):
    """The same net as a class of the program, which ``module.compile()`` needs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = net()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


@pytest.mark.parametrize("skip", [0, 2])
def test_module_compile(skip: int) -> None:
    model = Net()
    model.compile(backend="aot_eager")
    frame = launches(train(model, model.parameters(), skip=skip))
    assert regions(frame) == [("forward", "Net", FORWARD), ("backward", "Net", BACKWARD)]


class Part(nn.Module):
    """An eager model around a compiled one."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.inner = inner
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(self.first(x)))


def test_the_compiler_does_not_take_the_wrapper_for_the_original() -> None:
    """As if torch.compile were imported while hroof is attached: it notes what an unpatched call is."""
    import torch._dynamo.utils as compiler

    original = nn.Module.__call__
    tracker = Tracker(LayerMap())
    tracker.attach()
    compiler.unpatched_nn_module_call = nn.Module.__call__
    assert compiler.unpatched_nn_module_call is not original
    tracker.detach()
    assert compiler.unpatched_nn_module_call is original


@pytest.mark.parametrize("skip", [0, 2])
def test_a_compiled_part_of_an_eager_model(skip: int) -> None:
    model = Part(torch.compile(net(), backend="aot_eager"))
    frame = launches(train(model, model.parameters(), skip=skip))
    by_place = frame[frame.step == 0].groupby(["phase", "layer"], observed=True).matrix.sum()
    full = FORWARD * 2
    assert by_place["forward", "inner"] == FORWARD
    assert by_place["backward", "inner"] == full
    assert by_place["forward", "first"] == 2 * 8 * 16 * 16
    assert by_place["backward", "first"] == 2 * 8 * 16 * 16  # the input needs no gradient
    assert by_place["backward", "last"] == 2 * 2 * 8 * 4 * 2
    assert [place[:2] for place in regions(frame)] == [("forward", "inner"), ("backward", "inner")]


def test_the_parameters_of_a_compiled_part_belong_to_its_layers() -> None:
    model = Part(torch.compile(net(), backend="aot_eager"))
    frame = launches(train(model, model.parameters()))
    optimizer = frame[(frame.phase == "optimizer") & (frame.step == 0)]
    assert set(optimizer.layer) == {"first", "inner.0", "inner.2", "last"}
    per_layer = optimizer.groupby("layer", observed=True).vector.sum()
    assert per_layer["inner.0"] == 16 * 32 and per_layer["last"] == 4 * 2 + 2


class Broken(nn.Module):
    """Two graph breaks in one call."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(16, 32, bias=False)
        self.b = nn.Linear(32, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x).relu()
        torch._dynamo.graph_break()
        y = y * 1.0
        torch._dynamo.graph_break()
        return self.b(y)


def test_graph_breaks() -> None:
    model = Broken()
    frame = launches(train(torch.compile(model, backend="aot_eager"), model.parameters()))
    found = regions(frame)
    assert found[0] == ("forward", "Broken", FORWARD)
    backward = [flop for phase, _, flop in found if phase == "backward"]
    assert len(backward) == 3  # one per graph; they share the work of the call by their time
    assert sum(backward) == pytest.approx(BACKWARD)


class BreaksInChild(nn.Module):
    """A graph break inside a child: the child is then called by eager code inside a compiled call."""

    def __init__(self) -> None:
        super().__init__()
        self.child = Broken()
        self.last = nn.Linear(4, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.child(x))


def test_breaks_in_a_child_start_no_compilation_of_hroof() -> None:
    model = BreaksInChild()
    compiled = torch.compile(model, backend="aot_eager")
    x = torch.randn(8, 16)
    for _ in range(2):
        compiled(x).sum().backward()
    model.zero_grad()
    before = private.dynamo_graph_count()
    frames = dict(torch._dynamo.utils.counters["frames"])
    frame = launches(train(compiled, model.parameters(), x=x))
    assert private.dynamo_graph_count() == before
    assert dict(torch._dynamo.utils.counters["frames"]) == frames
    assert frame[frame.step == 0].matrix.sum() == pytest.approx(
        FORWARD + BACKWARD + 3 * 2 * 8 * 4 * 4
    )


def test_several_compiled_models_and_calls() -> None:
    one, two = net(), nn.Linear(4, 4, bias=False)
    first, second = (torch.compile(m, backend="aot_eager") for m in (one, two))
    sgd = torch.optim.SGD([*one.parameters(), *two.parameters()], 0.01)
    region = Region(skip=1, steps=2)
    x, short = torch.randn(8, 16), torch.randn(2, 16)
    with region:
        for _ in range(5):
            second(first(x)).sum().backward()
            first(short).sum().backward()
            sgd.step()
            sgd.zero_grad()
    found = regions(launches(region))
    assert [(phase, layer, flop) for phase, layer, flop in found if layer == "Linear"] == [
        ("forward", "Linear", 2 * 8 * 4 * 4),
        ("backward", "Linear", 2 * 2 * 8 * 4 * 4),
    ]
    calls = [(phase, flop) for phase, layer, flop in found if layer == "Sequential"]
    assert calls == [  # each call has its own work, also with other shapes
        ("forward", FORWARD),
        ("backward", BACKWARD),
        ("forward", FORWARD / 4),
        ("backward", BACKWARD / 4),
    ]


def test_only_the_outputs_that_the_loss_needs_are_followed_backward() -> None:
    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(16, 4, bias=False), nn.Linear(16, 4, bias=False)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"a": self.a(x), "b": self.b(x)}

    model = TwoHeads()
    # Eager, so that nodes are not merged; something else was compiled.
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    frame = launches(train(model, model.parameters(), loss=lambda y: y["b"].sum()))
    by_place = frame[frame.step == 0].groupby(["phase", "layer"], observed=True).matrix.sum()
    assert by_place["forward", "a"] == by_place["forward", "b"] == 2 * 8 * 16 * 4
    assert by_place["backward", "b"] == 2 * 8 * 16 * 4
    assert by_place.get(("backward", "a"), 0) == 0


def test_autocast() -> None:
    model = net()
    compiled = torch.compile(model, backend="aot_eager")

    def call(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return compiled(x)

    frame = launches(train(call, model.parameters(), loss=lambda y: y.float().sum()))
    compiled_rows = frame[(frame.op == COMPILED_OP) & (frame.step == 0)]
    assert compiled_rows.flop_nominal_matrix_bf16.tolist() == [FORWARD, BACKWARD]
    assert compiled_rows.flop_nominal_matrix_fp32.sum() == 0


def test_a_compiled_function_inside_a_layer() -> None:
    @torch.compile(backend="aot_eager")
    def mix(x: Tensor, weight: Tensor) -> Tensor:
        return (x @ weight).sin()

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 4))

        def forward(self, x: Tensor) -> Tensor:
            return mix(x * 2, self.weight) * 3

    model = Layer()
    frame = launches(train(model, model.parameters()))
    flop = 2 * 8 * 16 * 4
    assert regions(frame) == [("forward", "Layer", flop), ("backward", "Layer", flop)]
    eager = frame[(frame.step == 0) & (frame.layer == "Layer") & (frame.op == "aten::mul")]
    assert eager[eager.phase == "forward"].vector.tolist() == [8 * 16, 8 * 4]


@pytest.mark.parametrize("skip", [0, 2])
def test_a_compiled_function_outside_any_module_keeps_its_time_only(skip: int) -> None:
    calls: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        calls.append(1)
        return graph.forward

    @torch.compile(backend=backend)
    def loss(y: Tensor) -> Tensor:
        return (y * y).sum()

    model = net()
    region = train(model, model.parameters(), loss=loss, skip=skip)
    frame = launches(region)
    assert calls == [1]  # it is compiled once, as without hroof
    rows = frame[(frame.op == COMPILED_OP) & (frame.step == 0)]
    assert rows.phase.tolist() == ["loss"] and rows.layer.tolist() == ["(loss)"]
    assert rows.matrix.isna().all() and (rows.duration > 0).all()
    assert set(rows.source_flop) == {"missing"}
    assert frame[frame.step == 0].matrix.sum() == FORWARD + BACKWARD
    assert region.outcome.profile is not None
    assert any("outside every module" in text for text in region.outcome.profile.run["warnings"])


def test_a_function_compiled_inside_the_counted_step() -> None:
    model = net()
    sgd = torch.optim.SGD(model.parameters(), 0.01)
    region = Region(skip=0, steps=2)
    with region:
        compiled = torch.compile(model, backend="aot_eager")
        for _ in range(4):
            compiled(torch.randn(8, 16)).sum().backward()
            sgd.step()
            sgd.zero_grad()
    # A graph made while hroof is attached is made again after it, since its wrapper was part of the call.
    assert private.dynamo_graph_count() <= 2
    assert [flop for _, _, flop in regions(launches(region))] == [FORWARD, BACKWARD]


def test_a_compiled_training_step() -> None:
    model = net()
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    @torch.compile(backend="aot_eager")
    def step(x: Tensor) -> None:
        model(x).sum().backward()
        sgd.step()
        sgd.zero_grad()

    region = Region(skip=2, steps=2)
    with region:
        for _ in range(6):
            step(torch.randn(8, 16))
    frame = launches(region)
    assert set(frame.step) >= {0, 1}
    assert frame[frame.op == COMPILED_OP].duration.sum() > 0


class Stateful(nn.Module):
    """Changes everything that a call can change: buffers, attributes, lists, three random states."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(()))
        self.calls, self.last = 0, None
        self.history: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.history.append(random.random() + float(np.random.rand()))
        self.seen += 1
        if self.last is not None:
            x = x + 0.1 * self.last
        y = self.drop(self.norm(self.linear(x)))
        self.last = y.detach()
        self.new = y
        return y


def run_stateful(measured: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    torch._dynamo.reset()
    model = Stateful()
    heard: list[Tensor] = []
    model.linear.register_forward_hook(lambda module, args, output: heard.append(output))
    helper = torch.compile(nn.Linear(16, 16), backend="aot_eager")
    sgd = torch.optim.SGD([*model.parameters(), *helper.parameters()], 0.01)
    losses = []
    x = torch.randn(8, 16)
    region = Region(skip=1, steps=2)

    def loop() -> None:
        for _ in range(6):
            loss = helper(model(x)).square().mean()
            loss.backward()
            sgd.step()
            sgd.zero_grad()
            losses.append(loss.detach())

    if measured:
        with region:
            loop()
        assert region.outcome.profile is not None
        assert region.outcome.profile.run["counting"].startswith("by a replay")
        assert not any(
            "could not be replayed" in text for text in region.outcome.profile.run["warnings"]
        )
    else:
        loop()
    return {
        "losses": losses,
        "state": [value.clone() for value in model.state_dict().values()],
        "attributes": [torch.tensor([model.calls, len(heard), *model.history])],
        "last": [model.last, model.new, *heard],
        "random": [
            torch.get_rng_state(),
            torch.tensor([random.random(), float(np.random.rand())]),
        ],
    }


def test_the_replay_changes_nothing() -> None:
    plain, measured = run_stateful(False), run_stateful(True)
    for what, values in plain.items():
        for one, other in zip(values, measured[what], strict=True):
            assert type(other) is type(one), what
            assert torch.equal(one, other), what


def test_a_replay_that_fails_is_reported_and_harms_nothing() -> None:
    class Depends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            return y if y.sum().item() > 0 else -y

    def run(measured: bool) -> tuple[list[float], Region]:
        torch.manual_seed(0)
        model = Depends()
        other = torch.compile(nn.Linear(4, 4), backend="aot_eager")
        sgd = torch.optim.SGD([*model.parameters(), *other.parameters()], 0.1)
        region = Region(skip=1, steps=1)
        losses = []
        with region if measured else torch.enable_grad():
            for _ in range(5):
                loss = other(model(torch.randn(8, 16))).square().sum()
                loss.backward()
                sgd.step()
                sgd.zero_grad()
                losses.append(loss.item())
        return losses, region

    plain, _ = run(False)
    measured, region = run(True)
    assert plain == measured
    assert region.outcome.profile is not None
    told = [t for t in region.outcome.profile.run["warnings"] if "could not be replayed" in t]
    assert len(told) == 1 and "Depends" in told[0]
    # What was not replayed is counted from its own shapes: addmm forward, two mm backward (one unneeded).
    frame = launches(region)
    assert frame[frame.op == "aten::addmm"].matrix.tolist() == [2 * 8 * 16 * 4]


def test_checkpointed_parts_are_recomputed_in_the_replay() -> None:
    class Checkpointed(nn.Module):
        def __init__(self, reentrant: bool) -> None:
            super().__init__()
            self.body, self.head, self.reentrant = net(), nn.Linear(4, 4, bias=False), reentrant

        def forward(self, x: Tensor) -> Tensor:
            return self.head(checkpoint(self.body, x, use_reentrant=self.reentrant))

    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    for reentrant in (False, True):
        model = Checkpointed(reentrant)
        x = torch.randn(8, 16, requires_grad=True)
        region = train(model, model.parameters(), x=x)
        frame = launches(region)
        assert region.outcome.profile is not None
        assert not any(
            "could not be replayed" in text for text in region.outcome.profile.run["warnings"]
        )
        again = frame[(frame.step == 0) & frame.recompute]
        assert again.matrix.sum() == FORWARD if reentrant else again.matrix.sum() >= 2 * 8 * 16 * 32
        assert all(not isinstance(p.grad, torch._subclasses.FakeTensor) for p in model.parameters())


def test_weight_normalisation_and_user_hooks() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.utils.weight_norm(nn.Linear(16, 4)))
    outputs: list[Tensor] = []
    model[0].register_forward_hook(lambda module, args, output: outputs.append(output))
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    region = train(model, model.parameters())
    assert len(outputs) == 6 and all(type(output) is Tensor for output in outputs)
    assert region.outcome.profile is not None
    assert not any("not be replayed" in text for text in region.outcome.profile.run["warnings"])


def test_a_model_that_returns_its_loss_is_replayed() -> None:
    """Whoever looks at losses meets the replayed one too, which has no value."""

    class WithLoss(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).square().mean()

    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    model = WithLoss()
    region = train(model, model.parameters(), loss=lambda loss: loss)
    assert region.outcome.profile is not None
    assert "replay" in region.outcome.profile.run["counting"]
    assert not any("not be replayed" in text for text in region.outcome.profile.run["warnings"])
    products = launches(region).query("op in ('aten::addmm', 'aten::mm')")
    assert set(products.source_flop) == {"counted"}


class Service(nn.Module):
    """A model of another thread; a call that is replayed waits inside until it may go."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.calls = 0
        self.arrived, self.go = threading.Event(), threading.Event()

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 1:
            self.arrived.set()
            self.go.wait(20)
        return self.linear(x)


def test_a_model_in_another_thread_is_not_replayed() -> None:
    """Its replay once stood in the way of a backward pass of this thread, which then failed."""
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    model, service = Net(), Service()
    sgd = torch.optim.SGD(model.parameters(), 0.01)

    def serve() -> None:
        with torch.no_grad():
            service(torch.ones(2, 3))
        service.arrived.set()

    def meanwhile(gradient: Tensor) -> None:
        server.start()
        service.arrived.wait(20)

    server = threading.Thread(target=serve)
    region = Region(skip=2, steps=2)
    with region:
        for number in range(6):
            y = model(torch.randn(8, 16))
            if number == 2:  # the counted step
                y.register_hook(meanwhile)
            y.sum().backward()
            service.go.set()
            sgd.step()
            sgd.zero_grad()
    server.join()
    assert service.calls == 1
    assert region.outcome.profile is not None
    assert region.outcome.profile.step_count == 2
    assert not any("not be replayed" in text for text in region.outcome.profile.run["warnings"])


def test_inference_mode() -> None:
    import hroof

    model = net()
    compiled = torch.compile(model, backend="aot_eager")
    region = Region(skip=1, steps=1)
    with region, torch.inference_mode():
        for _ in range(3):
            compiled(torch.randn(8, 16))
            hroof.step()
    assert regions(launches(region)) == [("forward", "Sequential", FORWARD)]


def timed(op: str, phase: Phase, duration: float, signature: Any = ()) -> Timed:
    return Timed(0, phase, 1, False, False, op, signature, 0.0, duration)


def counted(op: str, phase: Phase, flop: float, signature: Any = ()) -> Counted:
    work = Work(
        {(Pipe.MATRIX, Precision.FP32): flop},
        {(Pipe.MATRIX, Precision.FP32): flop},
        4.0,
        4.0,
        Source.COUNTED,
    )
    return Counted(phase, 1, False, False, op, signature, work, 1)


def test_regions_share_the_calls_in_order_and_pieces_by_time() -> None:
    rows = [timed(COMPILED_OP, Phase.FORWARD, t) for t in (1.0, 3.0, 1.0, 1.0)]
    runs = [[counted("mm", Phase.FORWARD, 100.0)], [counted("mm", Phase.FORWARD, 60.0)]]
    rest, made = fold_regions(rows, runs)
    assert rest == []
    assert [op.work.flop() for op in made] == [25.0, 75.0, 30.0, 30.0]
    assert [row.counted for row in rows] == made


def test_work_beside_a_region_is_not_given_to_it() -> None:
    beside, region = timed("mm", Phase.FORWARD, 1.0, "a"), timed(COMPILED_OP, Phase.FORWARD, 1.0)
    runs = [
        [counted("mm", Phase.FORWARD, 10.0, "a"), counted("mm", Phase.FORWARD, 5.0, "b")],
        [counted("mm", Phase.BACKWARD, 7.0, "a")],
    ]
    rest, made = fold_regions([beside, region], runs)
    assert [op.work.flop() for op in rest] == [10.0, 7.0]
    assert [op.work.flop() for op in made] == [5.0]


def test_a_region_without_counted_ops_stays_without_work() -> None:
    row = timed(COMPILED_OP, Phase.LOSS, 1.0)
    assert fold_regions([row], [[counted("mm", Phase.FORWARD, 10.0)]])[1] == []
    assert row.counted is None


def test_bytes_of_a_region_are_those_that_cross_its_border() -> None:
    def work(*accesses: Access) -> Work:
        return Work({}, {}, 0.0, 0.0, Source.CONVENTION, Touch(accesses))

    fused = fused_work(
        [
            work(Access(1, 40.0, True, False), Access(2, 20.0, False, True)),  # 1 → 2
            work(Access(2, 20.0, True, False), Access(3, 10.0, False, True)),  # 2 → 3
            work(Access(4, 8.0, True, True)),  # in place
        ]
    )
    assert (fused.bytes_read, fused.bytes_written) == (48.0, 18.0)
    assert fused.source is Source.CONVENTION
