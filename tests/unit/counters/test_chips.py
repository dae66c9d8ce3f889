"""Chips: by capability, by name, and what the counters of each can say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.counters import Answer, Chip, answers, by_name, chip, chips
from hroof.counters.chips import table, work_metrics
from hroof.errors import UsageError
from hroof.units import Pipe, Precision

CAPABILITIES = {
    "7.0": "GV100", "7.5": "TU102", "8.0": "GA100", "8.6": "GA102", "8.7": "GA10B", "8.9": "AD102", "9.0": "GH100",
    "10.0": "GB100", "10.3": "GB110", "10.1": "GB10B", "11.0": "GB10B", "12.0": "GB202", "12.1": "GB20B",
}  # fmt: skip


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_capability_has_its_chip(capability: str) -> None:
    found = chip(capability)
    assert found is not None
    assert (found.name, found.capability) == (CAPABILITIES[capability], capability)


@pytest.mark.parametrize("capability", ["", "6.1", "7.2", "99.0", "8", "nonsense"])
def test_an_unknown_capability_has_none(capability: str) -> None:
    assert chip(capability, "NVIDIA A100") is None


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("Tesla T4", "TU102"),
        ("NVIDIA GeForce RTX 2080 Ti", "TU102"),
        ("Quadro RTX 4000", "TU102"),
        ("", "TU102"),
        ("NVIDIA GeForce GTX 1660 SUPER", "TU116"),
        ("NVIDIA GeForce GTX 1650", "TU116"),
        ("NVIDIA T500", "TU116"),
        ("NVIDIA T1000 8GB", "TU116"),
        ("NVIDIA GeForce MX450", "TU116"),
    ],
)
def test_turing_without_matrix_units_is_told_by_its_name(device: str, expected: str) -> None:
    found = chip("7.5", device)
    assert found is not None
    assert found.name == expected
    assert found.matrix is (expected == "TU102")


def test_a_name_of_another_capability_does_not_count() -> None:
    found = chip("8.0", "NVIDIA GeForce GTX 1650")
    assert found is not None
    assert found.name == "GA100"


def test_products_with_less_fp64() -> None:
    full, cut = chip("9.0", "NVIDIA H100 PCIe"), chip("9.0", "NVIDIA H800")
    assert full is not None and cut is not None
    assert (full.dfma, full.full_rate) == (64, True)
    assert (cut.name, cut.dfma, cut.full_rate) == ("GH100", 2, False)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("V100", "GV100"),
        ("Tesla V100-SXM2-16GB", "GV100"),
        ("gv100", "GV100"),
        ("T4", "TU102"),
        ("NVIDIA A100-SXM4-80GB", "GA100"),
        ("A10", "GA102"),
        ("NVIDIA A10G", "GA102"),
        ("RTX A6000", "GA102"),
        ("GA104", "GA102"),
        ("rtx 3090", "GA102"),
        ("Orin", "GA10B"),
        ("L4", "AD102"),
        ("NVIDIA L40S", "AD102"),
        ("NVIDIA RTX 6000 Ada Generation", "AD102"),
        ("H100", "GH100"),
        ("NVIDIA GH200 480GB", "GH100"),
        ("B200", "GB100"),
        ("NVIDIA GB200", "GB100"),
        ("GB10", "GB20B"),
        ("GB10B", "GB10B"),
        ("NVIDIA Thor", "GB10B"),
        ("B300", "GB110"),
        ("RTX 5090", "GB202"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "GB202"),
        ("Rubin", "GR100"),
    ],
)
def test_a_person_may_name_a_product(name: str, expected: str) -> None:
    assert by_name(name).name == expected


@pytest.mark.parametrize("name", ["", "GTX 1080", "MI300X", "V1000", "AA100"])
def test_a_name_that_nobody_knows_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(UsageError, match="No chip is known by the name") as caught:
        by_name(name)
    assert "V100" in caught.value.remedy and "GH100" in caught.value.remedy


def test_a_name_may_cut_fp64_as_well() -> None:
    assert by_name("NVIDIA H800 PCIe").dfma == 2
    assert by_name("H100").dfma == 64


@given(st.text(max_size=40))
def test_any_text_is_a_chip_or_an_error(name: str) -> None:
    try:
        found = by_name(name)
    except UsageError:
        return
    assert found.name in {one.name for one in chips()}


def test_every_name_stands_for_one_chip() -> None:
    names = [name for facts in table()["chips"].values() for name in facts["names"]]
    assert len(names) == len(set(names))
    for one, facts in table()["chips"].items():
        for name in facts["names"]:
            assert by_name(name).name == one


def test_chips_are_values() -> None:
    assert chips()[0] == Chip("GV100", "7.0", ffma=64, dfma=32, l1=128, dense=1024, full_rate=True)
    assert len({one.name for one in chips()}) == len(chips()) == 14
    assert hash(chips()[0]) == hash(chip("7.0"))


# --- what counters can say ----------------------------------------------------------------------


def answer(name: str, pipe: Pipe, precision: Precision) -> Answer:
    return answers(by_name(name))[pipe, precision]


@pytest.mark.parametrize("one", chips(), ids=lambda one: one.name)
def test_every_format_has_an_answer(one: Chip) -> None:
    found = answers(one)
    assert set(found) == {(pipe, precision) for pipe in Pipe for precision in Precision}
    assert found[Pipe.VECTOR, Precision.FP64] is Answer.EXACT
    for pair, metrics in work_metrics(one).items():
        assert metrics
        assert found[pair] in (Answer.EXACT, Answer.UPPER_BOUND, Answer.LOWER_BOUND)


@pytest.mark.parametrize(
    ("name", "pipe", "precision", "expected"),
    [
        ("GV100", Pipe.MATRIX, Precision.FP16, Answer.EXACT),
        ("GV100", Pipe.MATRIX, Precision.BF16, Answer.ABSENT),
        ("GV100", Pipe.VECTOR, Precision.BF16, Answer.ABSENT),
        ("GV100", Pipe.VECTOR, Precision.FP16, Answer.EXACT),
        ("TU116", Pipe.MATRIX, Precision.FP16, Answer.ABSENT),
        ("TU102", Pipe.MATRIX, Precision.INT4, Answer.EXACT),
        ("TU102", Pipe.MATRIX, Precision.TF32, Answer.ABSENT),
        ("GA100", Pipe.VECTOR, Precision.FP16, Answer.UPPER_BOUND),
        ("GA102", Pipe.VECTOR, Precision.FP16, Answer.EXACT),
        ("GH100", Pipe.VECTOR, Precision.FP16, Answer.UPPER_BOUND),
        ("GA100", Pipe.VECTOR, Precision.BF16, Answer.UNKNOWN),
        ("GA100", Pipe.MATRIX, Precision.FP8, Answer.ABSENT),
        ("AD102", Pipe.MATRIX, Precision.FP8, Answer.EXACT),
        ("AD102", Pipe.VECTOR, Precision.FP8, Answer.UNKNOWN),
        ("GH100", Pipe.MATRIX, Precision.INT4, Answer.ABSENT),
        ("GB100", Pipe.MATRIX, Precision.FP4, Answer.EXACT),
        ("GB202", Pipe.VECTOR, Precision.FP32, Answer.LOWER_BOUND),
        ("GR100", Pipe.VECTOR, Precision.BF16, Answer.UNKNOWN),
        ("GR100", Pipe.MATRIX, Precision.FP32, Answer.ABSENT),
    ],
)
def test_answers(name: str, pipe: Pipe, precision: Precision, expected: Answer) -> None:
    assert answer(name, pipe, precision) is expected


def test_counters_of_matrix_work_are_operations_already() -> None:
    for one in chips():
        for (pipe, _), metrics in work_metrics(one).items():
            if pipe is Pipe.MATRIX:
                assert set(metrics.values()) == {1}


def test_packed_halves_count_two_two_four_and_packed_singles_alike() -> None:
    def short(one: str, precision: Precision) -> dict[str, float]:
        metrics = work_metrics(by_name(one))[Pipe.VECTOR, precision]
        return {
            name.split("_op_")[1].removesuffix("_pred_on"): flop for name, flop in metrics.items()
        }

    assert short("GA100", Precision.FP16) == {"hadd": 2, "hmul": 2, "hfma": 4}
    assert short("GA100", Precision.FP32) == {"fadd": 1, "fmul": 1, "ffma": 2}
    assert short("GA100", Precision.FP64) == {"dadd": 1, "dmul": 1, "dfma": 2}
    singles = {"fadd": 1, "fmul": 1, "ffma": 2, "fadd2": 2, "fmul2": 2, "ffma2": 4}
    assert short("GB100", Precision.FP32) == singles
    assert short("GB202", Precision.FP32) == {"fadd": 1, "fmul": 1, "ffma": 2}


def test_rates_that_are_not_known_are_missing() -> None:
    assert math.isnan(by_name("GR100").dense)
    assert math.isnan(by_name("T4").l1)
