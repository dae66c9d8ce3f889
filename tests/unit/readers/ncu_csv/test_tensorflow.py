"""A table in which launches carry ranges of TensorFlow's own, in the forms that its sources have; made by hand.

No such table was seen yet: nothing of this was run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from hroof.collect.tsl import Places, Share
from hroof.profile import Profile
from hroof.readers import ncu_csv, profile_of
from hroof.units import Phase

MODULE = "XlaModule:#hlo_module=a_inference_one_step_on_data_12__.34,program_id=3#"

KNOWN = Places(
    {
        "StatefulPartitionedCall/net_1/fc_1/MatMul": (Share(Phase.FORWARD, "fc"),),
        "StatefulPartitionedCall/gradient_tape/net_1/fc_1/MatMul": (Share(Phase.BACKWARD, "fc"),),
        "net_1/out_1/MatMul": (Share(Phase.FORWARD, "out"),),
    },
    {
        "a_inference_one_step_on_data_12__.34": {
            "loop_add_fusion.2": (
                Share(Phase.BACKWARD, "fc", 0.75),
                Share(Phase.OPTIMIZER, "fc", 0.25),
            )
        }
    },
)

Read = Callable[..., pd.DataFrame]


@pytest.fixture
def launched(nvtx_page: Callable[..., str], block: Callable[..., str], tmp_path: Path) -> Read:
    """The launch table of launches, each given by its ranges of TensorFlow, its step and its kernel."""

    def read(
        *rows: tuple[tuple[str, ...], str, str], run: dict[str, object] | None = None
    ) -> pd.DataFrame:
        cells = [
            (
                "  ".join(["77", *(block(name, "TSL", name) for name in names)]),
                f' "7:hroof:S1|{step}:none:none:none:none:none:none" ',
                kernel,
            )
            for names, step, kernel in rows
        ]
        path = tmp_path / "counters.csv"
        path.write_text(nvtx_page(cells))
        profile, _ = profile_of(ncu_csv.read([path]), run)
        assert isinstance(profile, Profile)
        return profile.launches

    return read


def columns(frame: pd.DataFrame, *names: str) -> list[tuple[object, ...]]:
    rows = frame[list(names)].astype(object)
    return [tuple(None if pd.isna(value) else value for value in row) for row in rows.to_numpy()]


RUN: dict[str, object] = {
    "places": KNOWN.table(),
    "layers": [{"name": "fc", "type": "Dense"}],
    "nvtx": {},
}


def test_nodes_of_a_graph(launched: Read) -> None:
    call = "StatefulPartitionedCall"
    frame = launched(
        ((f"{call}/net_1/fc_1/MatMul:MatMul",), "6", "gemm"),
        ((f"{call}/gradient_tape/net_1/fc_1/MatMul:MatMul",), "6", "gemm"),
        ((f"{call}/net_1/out_1/MatMul:_FusedMatMul",), "7", "gemm"),
        ((f"{call}/AddN_2:AddN",), "7", "add"),
        ((), "7", "memset"),
        run=RUN,
    )
    assert columns(frame, "step", "phase", "layer", "layer_type", "op") == [
        (0, "forward", "fc", "Dense", "MatMul"),
        (0, "backward", "fc", "Dense", "MatMul"),
        (1, "forward", "out", None, "_FusedMatMul"),
        (1, "other", None, None, "AddN"),
        (1, "other", None, None, None),
    ]


def test_instructions_of_xla(launched: Read) -> None:
    cluster = "cluster:XlaLaunch"
    frame = launched(
        ((cluster, MODULE, "Thunk:#hlo_op=loop_add_fusion.2#"), "6", "loop_add_fusion_2"),
        ((MODULE, "Thunk:#name=net_1/out_1/MatMul,hlo_op=custom-call.9#"), "6", "cutlass"),
        ((MODULE,), "6", "graph of many"),
        run=RUN,
    )
    assert columns(frame, "launch_id", "phase", "layer", "op", "launches", "duration") == [
        (0, "backward", "fc", "loop_add_fusion", 0.75, pytest.approx(0.75e-9)),
        (0, "optimizer", "fc", "loop_add_fusion", 0.25, pytest.approx(0.25e-9)),
        (1, "forward", "out", "custom-call", 1.0, pytest.approx(2e-9)),
        (2, "other", None, None, 1.0, pytest.approx(3e-9)),
    ]


def test_several_steps_of_one_execution(launched: Read) -> None:
    node = ("StatefulPartitionedCall/net_1/fc_1/MatMul:MatMul",)
    frame = launched(
        ((), "4-5", "copy"), *[(node, "4-5", "gemm")] * 4, ((), "6-7", "copy"), run=RUN
    )
    assert columns(frame, "step", "layer") == [
        (0, None),
        (0, "fc"),
        (0, "fc"),
        (1, "fc"),
        (1, "fc"),
        (2, None),
    ]


def test_without_a_table_scopes_stand_for_layers(launched: Read) -> None:
    frame = launched(
        (("net_1/fc_1/MatMul:MatMul",), "6", "gemm"),
        (("XlaCompile:#module=m#", "XlaPass:#name=dce#"), "6", "autotune"),
    )
    assert columns(frame, "phase", "layer", "op") == [
        ("other", "net_1/fc_1", "MatMul"),
        ("other", None, None),
    ]
