"""Cases of behaviour: where HROOF_CASES names a folder of them they are run as they are; small ones always."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import hroof
from hroof.collect import nvtx
from hroof.regions import HroofWarning, Mark, Region, listen, unlisten
from hroof_torch import annotate

if TYPE_CHECKING:
    from tests.integrations.hroof_torch import seeing
    from tests.integrations.hroof_torch.seeing import Seen
else:  # tests are no packages
    _spec = importlib.util.spec_from_file_location("seeing", Path(__file__).with_name("seeing.py"))
    seeing = sys.modules["seeing"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(seeing)

Log = list[tuple[Any, ...]]


class Logging:
    """A listener that appends every range to a log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open: list[Mark] = []

    def start(self, mark: Mark) -> None:
        """Process-wide ranges are not of interest here."""

    def end(self, handle: Any) -> None:
        """Nor their end."""

    def push(self, mark: Mark) -> None:
        self._open.append(mark)
        self._log.append(("push", mark.name, mark.phase))

    def pop(self) -> None:
        mark = self._open.pop()
        self._log.append(("pop", mark.name, mark.phase))


@pytest.fixture
def log() -> Iterator[Log]:
    """What a listener hears of layers."""
    entries: Log = []
    listener = Logging(entries)
    listen(listener)
    yield entries
    unlisten(listener)


def case(number: int) -> tuple[Any, Any]:
    """A case's module and what it expects."""
    root = os.environ.get("HROOF_CASES")
    if not root:
        pytest.skip("HROOF_CASES names no folder of cases")
    (folder,) = Path(root).glob(f"{number:02d}-*")
    spec = importlib.util.spec_from_file_location(f"case{number}", folder / "input.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, json.loads((folder / "expected.json").read_text())["expect"]


def ops_by_layer(log: Log) -> tuple[dict[str, int], int]:
    """Ops between the marks ``backward`` and ``end`` by innermost layer; and how many lie in none."""
    layers: dict[str, int] = {}
    outside, inside, stack = 0, False, []
    for entry in log:
        if entry[0] == "mark":
            inside = entry[1] == "backward"
        elif entry[0] == "push":
            stack.append(entry[1])
        elif entry[0] == "pop":
            assert stack.pop() == entry[1]
        elif inside and stack:
            layers[stack[-1]] = layers.get(stack[-1], 0) + 1
        elif inside:
            outside += 1
    assert stack == []
    return layers, outside


@pytest.mark.parametrize("number", [32, 33])
def test_backward_ops_lie_in_their_layers_range(number: int, log: Log) -> None:
    module, expected = case(number)
    handles = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.scenario(lambda model: handles.append(annotate(model)), log)
    for handle in handles:
        handle.remove()
    layers, outside = ops_by_layer(log)
    assert sum(layers.values()) + outside == expected["backward_ops"]
    assert outside == expected["backward_ops_outside_any_layer_range"]
    by_last = {name.rpartition(".")[2]: count for name, count in layers.items()}
    assert by_last == expected["ops_by_layer"]


class MatrixLog(TorchDispatchMode):
    """Appends every matrix product to a log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm"):
            self._log.append(("op", func.overloadpacket.__name__))
        return func(*args, **(kwargs or {}))


class Keyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2, bias=False)

    def forward(self, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        return {"y": [self.inner(input=x)]}


def test_the_first_layers_gradient_lies_in_its_range(log: Log) -> None:
    """Its input needs no gradient, comes by keyword, and the output is a dictionary."""
    model = Keyword()
    with annotate(model), MatrixLog(log):
        loss = model(x=torch.ones(5, 3))["y"][0].sum()
        log.append(("mark", "backward"))
        loss.backward()
        log.append(("mark", "end"))
    assert ops_by_layer(log) == ({"inner": 1}, 0)


# --- counts -------------------------------------------------------------------------------------


def once(run: Callable[[], object]) -> Seen:
    """Count and time a program that has no optimizer: its steps are told."""
    with seeing.seeing() as seen:
        for _ in range(5):
            run()
            hroof.step()
    return seen


def flop(seen: Seen, **where: Any) -> float:
    """Matrix FLOP of one step of the launch table."""
    rows = seen.launches
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return float(rows.flop_nominal_matrix_fp32.sum())


@pytest.mark.parametrize("mode", ["none", "nonreentrant", "reentrant"])
def test_15_recomputed_work_is_told_apart(mode: str) -> None:
    module, expected = case(15)
    state = module.setup()
    seen = once(lambda: module.run(state, mode))
    assert flop(seen) == expected["by_mode"][mode]["hardware_flops"]
    assert flop(seen, recompute=False) == expected["by_mode"][mode]["model_flops"]
    assert sum(op.matrix for op in seen.counted) == flop(seen)


def test_16_a_tied_head_is_a_product_and_a_lookup_is_none() -> None:
    module, expected = case(16)
    state = module.setup()
    seen = once(lambda: module.run(state))
    assert flop(seen) == expected["matmul_flops"]
    for layer, phases in expected["per_layer"].items():
        for phase, value in phases.items():
            assert flop(seen, layer=layer, phase=phase) == value, (layer, phase)
    assert seen.profile is not None
    assert (
        sum(layer["parameters"] for layer in seen.profile.run["layers"] if layer["name"] != "head")
        == (expected["unique_parameters"])
    )


def test_17_a_shared_module_counts_under_each_parent() -> None:
    module, expected = case(17)
    state = module.setup()
    seen = once(lambda: module.run(state))
    assert flop(seen) == expected["matmul_flops"]
    by_parent = {name: flop(seen, layer=f"{name}.lin") for name in expected["per_parent"]}
    assert by_parent == expected["per_parent"]


def test_22_counts_do_not_grow() -> None:
    module, expected = case(22)
    state = module.setup()
    seen = seeing.see(lambda: module.step(state), steps=module.STEPS)
    steps = [flop(seen, step=number) for number in range(module.STEPS)]
    assert steps == expected["per_step"]
    assert flop(seen) == expected["matmul_flops"]
    again = seeing.see(lambda: module.step(state), steps=1)
    assert flop(again) == expected["per_step"][0], "a second region starts anew"


def test_25_work_outside_module_calls_goes_to_the_enclosing_one() -> None:
    module, expected = case(25)
    state = module.setup()
    seen = once(lambda: module.run(state))
    assert flop(seen) == expected["matmul_flops"]
    assert flop(seen, layer="Odd") == expected["matmul_flops"] - 320
    assert flop(seen, layer="late") == 320


def test_62_products_are_counted_once() -> None:
    module, expected = case(62)
    state = module.setup()
    seen = once(lambda: module.run(state))
    launches = seen.launches[seen.launches["op"] == "aten::mm"]
    assert len(launches) == expected["count"]
    assert flop(seen) == expected["matmul_flops"]


class Inside(nn.Module):
    """Calls a child's forward by itself, multiplies by a parameter and makes a child on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.fc = nn.Parameter(torch.randn(4, 5)), nn.Linear(5, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc.forward(x @ self.w)
        if not hasattr(self, "late"):
            self.late = nn.Linear(3, 2, bias=False)
        return self.late(y)


def test_work_outside_module_calls_goes_to_the_enclosing_one() -> None:
    model = Inside()
    seen = once(lambda: model(torch.ones(2, 4)))
    assert seen.places("aten::mm", "forward") == ["Inside", "Inside", "late"]
    assert flop(seen, layer="Inside") == 2 * 2 * (20 + 15) and flop(seen, layer="late") == 24


def test_a_child_born_in_the_counted_step_has_its_name() -> None:
    class Late(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.born = nn.Linear(4, 3, bias=False)
            return self.born(x)

    model = Late()
    seen = once(lambda: model(torch.ones(2, 4)))
    assert seen.places("aten::mm", "forward") == ["born"]
    assert seen.places("aten::mm", "forward", counted=False) == ["born"]


# --- regions ------------------------------------------------------------------------------------


class FakeDomain:
    """Stands in for a domain of nvtx; push returns -1 as some tools do."""

    def __init__(self, back: Any) -> None:
        self.back = back
        self.open: list[Any] = []

    def get_event_attributes(self, message: str, **more: Any) -> str:
        return message

    def push_range(self, attributes: str) -> int:
        return int(self.back.range_push(attributes))

    def pop_range(self) -> int:
        return int(self.back.range_pop())

    def start_range(self, attributes: str) -> tuple[int, int]:
        self.back.log.append(("push", attributes))
        self.open.append(attributes)
        return (len(self.back.log), 0)

    def end_range(self, handle: Any) -> None:
        self.back.log.append(("pop", self.open.pop()))


@pytest.mark.filterwarnings("ignore::hroof.HroofWarning")
def test_36_a_region_ends_on_every_way_out() -> None:
    module, expected = case(36)
    back = module.FakeNvtx()
    domain = FakeDomain(back)
    listener = nvtx.NvtxListener(domain)
    listen(listener)
    try:
        exceptions = module.paths(lambda name: Region(name, skip=1000))
    finally:
        unlisten(listener)
    assert exceptions == expected["exceptions"]
    assert [kind for kind, _ in back.log].count("push") == expected["pushes"]
    assert [kind for kind, _ in back.log].count("pop") == expected["pops"]
    assert len(domain.open) + len(back.stack) == expected["final_depth"]


def test_a_pop_of_the_users_own_ends_no_range_of_a_region() -> None:
    """Regions are process-wide ranges: a stray pop within cannot reach them."""
    pushed: list[str] = []

    class Back:
        def __init__(self) -> None:
            self.log: Log = []

        def range_push(self, message: str) -> int:
            pushed.append(message)
            return -1

        def range_pop(self) -> int:
            return -1

    domain = FakeDomain(Back())
    listener = nvtx.NvtxListener(domain)
    listen(listener)
    try:
        with Region("outer", skip=1000):
            domain.pop_range()
            assert len(domain.open) == 1
    finally:
        unlisten(listener)
    assert domain.open == [] and pushed == []


def test_40_the_model_is_as_before() -> None:
    module, expected = case(40)

    def profile(model: nn.Module, call: Callable[[], Any]) -> Any:
        with annotate(model), Region("case", skip=1000):
            return call()

    assert module.scenario(profile) == expected

    def count(model: nn.Module, call: Callable[[], Any]) -> Any:
        with Region("case", skip=0, steps=1):
            return call()

    assert module.scenario(count) == expected


def test_a_capture_leaves_nothing_on_the_model() -> None:
    act = nn.ReLU()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), act, nn.Sequential(act))
    before = {name: dict(vars(part)) for name, part in model.named_modules()}
    hooks = {
        n: {k: len(v) for k, v in b.items() if k.endswith("_hooks")} for n, b in before.items()
    }
    sgd = torch.optim.SGD(model.parameters(), 0.0)

    def step() -> None:
        model(torch.ones(1, 3, 8, 8)).sum().backward()
        sgd.step()

    seeing.see(step)
    for name, part in model.named_modules():
        assert sorted(vars(part)) == sorted(before[name])
        after = {k: len(v) for k, v in vars(part).items() if k.endswith("_hooks")}
        assert after == hooks[name]


def test_41_regions_work_where_nvtx_cannot(recwarn: pytest.WarningsRecorder) -> None:
    module, expected = case(41)
    entered = 0

    def region(name: str) -> Region:
        nonlocal entered
        entered += 1
        return hroof.region(name, skip=1000, show=False)

    if not torch.cuda.is_available():
        assert module.raw_nvtx_raises() == expected["raw_nvtx_on_cpu_build"]
    assert isinstance(module.run(region), float)
    assert entered == expected["regions_entered"]
    ours = [w for w in recwarn.list if issubclass(w.category, HroofWarning)]
    assert len(ours) <= expected["warnings_max"]
