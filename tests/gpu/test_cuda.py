"""What only a GPU can show; skipped where there is none. Not run on a GPU so far."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hroof.profile import Profile
from hroof.regions import Region

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(scope="module")
def profile() -> Profile:
    """Three timed steps of a small net on the GPU."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 128)).cuda()
    adam = torch.optim.AdamW(net.parameters())
    region = Region(name="gpu", skip=3, steps=3)
    with region:
        for _ in range(8):
            loss = net(torch.randn(64, 256, device="cuda")).square().mean()
            loss.backward()
            adam.step()
            adam.zero_grad()
    found = region.outcome.profile
    assert found is not None, region.outcome.reason
    return found


def test_rows_are_kernels_and_never_cpu_ops(profile: Profile) -> None:
    launches = profile.launches
    assert (launches["device"].astype(str).str.startswith("cuda")).all()
    assert launches["kernel"].notna().all()


def test_the_memory_of_the_device_is_known(profile: Profile) -> None:
    weights = 4 * (256 * 512 + 512 * 128)
    assert 4 * weights < profile.run["peak_device_memory"] < 2**32  # with gradients and two moments


def test_kernel_time_is_attributed(profile: Profile) -> None:
    launches = profile.launches
    known = launches.loc[launches["layer"].notna(), "duration"].sum()
    assert known >= 0.95 * launches["duration"].sum()


def test_backward_kernels_of_the_device_thread_find_their_layer(profile: Profile) -> None:
    backward = profile.launches[profile.launches["phase"] == "backward"]
    assert {"0", "1", "2"} <= set(backward["layer"].dropna().astype(str))


def test_kernels_join_the_counted_work(profile: Profile) -> None:
    matrix = (
        profile.launches["flop_nominal_matrix_fp32"] + profile.launches["flop_nominal_matrix_tf32"]
    )
    forward, first, second = (
        2 * 64 * (256 * 512 + 512 * 128),
        2 * 64 * 256 * 512,
        2 * 64 * 512 * 128,
    )
    # The first layer computes no gradient of its input.
    assert matrix.sum() / profile.step_count == pytest.approx(forward + first + 2 * second)


def test_copies_and_fills_are_rows_too(profile: Profile) -> None:
    region = Region(name="copies", skip=1, steps=1)
    net = nn.Linear(8, 8).cuda()
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    with region:
        for _ in range(4):
            net(torch.randn(4, 8).cuda()).sum().backward()
            sgd.step()
            sgd.zero_grad()
    assert region.outcome.profile is not None
    kernels = region.outcome.profile.launches["kernel"].astype(str)
    assert kernels.str.contains("Memcpy", case=False).any()
