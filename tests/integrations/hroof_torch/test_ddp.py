"""Distributed training: two processes over gloo, each with a region of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch.distributed

from hroof.profile import Profile

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this PyTorch has no gloo",
)

PROGRAM = """
import json, os, sys
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import hroof

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.manual_seed(0)
torch.set_num_threads(1)
body = nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 12, bias=False))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = body, nn.Linear(12, 4, bias=False)

    def forward(self, x):
        return self.head(self.body(x))

net = model = Net()
if world > 1:
    torch.distributed.init_process_group("gloo")
    model = DistributedDataParallel(net)
sgd = torch.optim.SGD(net.parameters(), 0.01)
with hroof.region("train", skip=3, steps=2, show=False, out=sys.argv[1]) as run:
    for step in range(6):
        model(torch.randn(5, 8)).square().mean().backward()
        sgd.step()
        sgd.zero_grad()
weights = [float(p.double().sum()) for p in net.parameters()]
print(json.dumps({"folder": str(run.folder), "status": str(run.outcome.status), "weights": weights}))
if world > 1:
    torch.distributed.destroy_process_group()
"""


@dataclass
class Ran:
    """What one process left."""

    profile: Profile
    said: dict[str, Any]


def _start(folder: Path, rank: int, world: int, port: int) -> subprocess.Popen[str]:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("HROOF")},
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder / f"rank{rank}")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _run(folder: Path, world: int) -> list[Ran]:
    port = _free_port()
    processes = [_start(folder, rank, world, port) for rank in range(world)]
    ran = []
    try:
        for process in processes:
            out, error = process.communicate(timeout=120)
            assert process.returncode == 0, error
            said = json.loads(out.splitlines()[-1])
            ran.append(Ran(Profile.load(said["folder"]), said))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return ran


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The program in one process."""
    return _run(tmp_path_factory.mktemp("alone"), 1)[0]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Ran]:
    """The program in two processes."""
    return _run(tmp_path_factory.mktemp("ranks"), 2)


def matrix_flop(ran: Ran) -> dict[tuple[str, str], float]:
    """Matrix FLOP by phase and layer."""
    rows = ran.profile.launches
    flop: dict[tuple[str, str], float] = {}
    for row in rows[rows.flop_nominal_matrix_fp32 > 0].itertuples():
        key = (str(row.phase), str(row.layer))
        flop[key] = flop.get(key, 0.0) + float(str(row.flop_nominal_matrix_fp32))
    return flop


def test_names_have_no_prefix_of_the_wrapper(ranks: list[Ran]) -> None:
    for ran in ranks:
        names = [layer["name"] for layer in ran.profile.run["layers"]]
        assert names == ["Net", "body", "body.0", "body.1", "body.2", "head", "(loss)"]
        assert set(ran.profile.launches.layer.dropna()) <= set(names)


def test_every_process_does_the_work_of_one(alone: Ran, ranks: list[Ran]) -> None:
    expected = matrix_flop(alone)
    assert expected["forward", "head"] == 2 * 2 * 5 * 12 * 4
    assert expected["backward", "body.0"] == 2 * 2 * 5 * 8 * 16
    for ran in ranks:
        assert ran.said["status"] == "complete"
        assert matrix_flop(ran) == expected


def test_communication_has_no_layer_and_is_listed(alone: Ran, ranks: list[Ran]) -> None:
    for ran in ranks:
        rows = ran.profile.launches
        sent = rows[rows.op.astype(str).str.contains("c10d::allreduce_|gloo:all_reduce")]
        assert {"c10d::allreduce_", "gloo:all_reduce"} == set(sent.op)
        assert sent.layer.isna().all(), sent[["op", "layer", "phase"]]
        assert set(sent.phase) == {"backward"}
        reducing = rows[rows.op.astype(str).str.contains("reducer")]
        assert reducing.layer.isna().all(), reducing[["op", "layer", "phase"]]
    assert not alone.profile.launches.op.astype(str).str.contains("allreduce|all_reduce").any()


def test_the_ranks_are_in_the_table_and_merge(ranks: list[Ran]) -> None:
    for rank, ran in enumerate(ranks):
        assert set(ran.profile.launches["rank"]) == {rank}
    merged = Profile.merge([ran.profile for ran in ranks])
    assert set(merged.launches["rank"]) == {0, 1}
    assert len(merged.launches) == sum(len(ran.profile.launches) for ran in ranks)
    total = merged.launches.flop_nominal_matrix_fp32.sum()
    assert total == sum(sum(matrix_flop(ran).values()) for ran in ranks)


def test_the_processes_stay_in_step(ranks: list[Ran]) -> None:
    """What training computes is what it would without a region: the same weights everywhere."""
    first, second = (ran.said["weights"] for ran in ranks)
    assert first == second
