"""Grouping by family: the kernel's name decides, then the op's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hroof.errors import UsageError
from hroof.roofline import check_keys
from hroof.roofline.grouping import group


def table(rows: list[tuple[str | None, str | None]], **more: Any) -> pd.DataFrame:
    """Launches of one second each, in step 0."""
    kernels, ops = zip(*rows, strict=True)
    columns = {"kernel": pd.Categorical(kernels), "op": pd.Categorical(ops)}
    return pd.DataFrame({**columns, "step": 0, "duration": 1.0, "launches": 1.0, **more})


def times(launches: pd.DataFrame) -> dict[str, float]:
    found = group(launches, ["family"])
    return {
        key[0]: float(time) for key, time in zip(found.keys, found.step_times[:, 0], strict=True)
    }


def test_the_kernel_decides() -> None:
    launches = table(
        [
            ("volta_scudnn_128x64_relu_small_nn_v1", "aten::cudnn_convolution"),
            ("void cudnn::ops::nchwToNhwcKernel<float>(X)", "aten::cudnn_convolution"),
            ("ampere_sgemm_128x64_nn", "aten::convolution"),
            ("ampere_sgemm_64x64_nn", "aten::mm"),
        ]
    )
    assert times(launches) == {"GEMM": 2.0, "convolution": 1.0, "layout change": 1.0}


def test_the_op_decides_where_the_kernel_is_absent_or_says_nothing() -> None:
    launches = table([(None, "aten::addmm"), ("main_kernel", "aten::gelu"), (None, "aten::addmm")])
    assert times(launches) == {"GEMM": 2.0, "elementwise": 1.0}


def test_what_nobody_knows() -> None:
    launches = table([("main_kernel", None), ("main_kernel", "mylib::thing"), (None, None)])
    assert times(launches) == {"(no family)": 1.0, "other": 2.0}


def test_with_other_keys() -> None:
    launches = table(
        [("ampere_sgemm_128x64_nn", None), ("softmax_warp_forward", None)],
        layer=pd.Categorical(["a", "b"]),
    )
    assert group(launches, ["layer", "family"]).keys == (("a", "GEMM"), ("b", "softmax"))


def test_plain_columns_group_like_categories() -> None:
    launches = table([("ampere_sgemm_128x64_nn", None), (None, "aten::add")])
    plain = launches.astype({"kernel": object, "op": object})
    assert times(plain) == times(launches)
    assert np.isclose(sum(times(plain).values()), 2.0)


def test_it_is_a_key() -> None:
    check_keys(["family", "phase"])
    with pytest.raises(UsageError, match="family"):
        check_keys(["familie"])
