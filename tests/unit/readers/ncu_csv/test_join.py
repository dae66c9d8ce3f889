"""Several files of one program, and several tables of one file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hroof.errors import ProfileError
from hroof.readers import ncu_csv

Page = Callable[..., str]
File = Callable[..., Path]
Line = Callable[[Sequence[object]], str]

CYCLES, RATE, BYTES = (
    "sm__cycles_elapsed.avg",
    "sm__cycles_elapsed.avg.per_second",
    "dram__bytes.sum",
)
UNITS = {CYCLES: "cycle", RATE: "cycle/second", BYTES: "byte"}


@pytest.fixture
def one(long_page: Page, file: File) -> Callable[..., Path]:
    """Writes a file of one metric from (kernel, value) pairs; every run has another process."""
    processes = iter(range(100, 200))

    def write(metric: str, *pairs: tuple[str, object], name: str = "") -> Path:
        kernels, values = zip(*pairs, strict=True)
        text = long_page(kernels, {metric: (UNITS[metric], values)}, process=next(processes))
        # Grids would tell launches of a kernel apart.
        shapes = text.replace('(1, 1, 1)"', '(9, 1, 1)"').replace('(2, 1, 1)"', '(9, 1, 1)"')
        return file(
            "==PROF== Connected\nepoch 1\n" + shapes.replace('(3, 1, 1)"', '(9, 1, 1)"'),
            name or f"{metric}.csv",
        )

    return write


# --- the same order -----------------------------------------------------------------------------


def test_files_with_the_same_order_are_joined_launch_by_launch(one: Callable[..., Path]) -> None:
    paths = [
        one(CYCLES, ("gemm", 100), ("relu", 20), ("gemm", 300)),
        one(RATE, ("gemm", 1e9), ("relu", 2e9), ("gemm", 1.5e9)),
        one(BYTES, ("gemm", 7), ("relu", "n/a"), ("gemm", 9)),
    ]
    raw = ncu_csv.read(paths)
    assert raw.launches["kernel"].tolist() == ["gemm", "relu", "gemm"]
    assert not raw.launches["aggregate"].any()
    assert raw.launches["launches"].tolist() == [1.0, 1.0, 1.0]
    assert list(raw.counters) == [CYCLES, RATE, BYTES]
    assert raw.counters[RATE].tolist() == [1e9, 2e9, 1.5e9]
    assert math.isnan(raw.counters[BYTES][1])
    assert raw.problems == ()
    assert raw.facts["files"] == [str(path) for path in paths]
    assert raw.facts["dialect"] == "metrics"


def test_other_numbers_of_launches_are_said_but_do_not_matter(long_page: Page, file: File) -> None:
    first = long_page(["a", "b"], {CYCLES: ("cycle", [1, 2])})
    later = (
        long_page(["a", "b"], {BYTES: ("byte", [3, 4])})
        .replace('\n"0"', '\n"10"')
        .replace('\n"1"', '\n"11"')
    )
    raw = ncu_csv.read([file(first, "a.csv"), file(later, "b.csv")])
    assert raw.counters[BYTES].tolist() == [3.0, 4.0]
    assert "numbers of launches differ" in raw.problems[0]


def test_other_shapes_in_the_same_order_are_another_order(long_page: Page, file: File) -> None:
    first = long_page(["k", "k"], {CYCLES: ("cycle", [1, 2])})
    later = long_page(["k", "k"], {BYTES: ("byte", [3, 4])})
    swapped = (
        later.replace("(1, 1, 1)", "(X)")
        .replace("(2, 1, 1)", "(1, 1, 1)")
        .replace("(X)", "(2, 1, 1)")
    )
    raw = ncu_csv.read([file(first, "a.csv"), file(swapped, "b.csv")])
    assert raw.launches["launches"].tolist() == [2.0]
    assert raw.counters[CYCLES].tolist() == [3.0]
    assert raw.counters[BYTES].tolist() == [7.0]
    assert raw.launches["grid"].tolist() == [""]
    assert "order of launches differs" in raw.problems[0]


def test_pages_of_other_kinds_can_be_joined(raw_page: Page, long_page: Page, file: File) -> None:
    paths = [
        file(raw_page(["a", "b"], {CYCLES: ("cycle", [1, 2])}), "a.csv"),
        file(long_page(["a", "b"], {BYTES: ("byte", [3, 4])}), "b.csv"),
    ]
    raw = ncu_csv.read(paths)
    assert raw.counters.to_dict("list") == {CYCLES: [1.0, 2.0], BYTES: [3.0, 4.0]}


def test_the_ranges_of_the_file_that_has_them_are_kept(
    nvtx_page: Page, long_page: Page, file: File, block: Callable[..., str]
) -> None:
    cell = f"5  {block('fc')} "
    paths = [
        file(long_page(["a", "b"], {BYTES: ("byte", [3, 4])}), "a.csv"),
        file(nvtx_page([("", "", "a"), (cell, "", "b")]), "b.csv"),
    ]
    raw = ncu_csv.read(paths)
    assert [raw.ranges[at].pushed for at in raw.launches["ranges"]] == [
        (),
        (("<default domain>", "fc"),),
    ]


# --- another order ------------------------------------------------------------------------------


def test_another_order_leaves_sums_per_kernel(one: Callable[..., Path]) -> None:
    paths = [
        one(CYCLES, ("gemm", 100), ("relu", 20), ("gemm", 300)),
        one(RATE, ("gemm", 1e9), ("gemm", 1.5e9), ("relu", 2e9)),
        one(BYTES, ("relu", 5), ("gemm", 7), ("gemm", 9)),
    ]
    raw = ncu_csv.read(paths)
    assert raw.launches["kernel"].tolist() == ["gemm", "relu"]
    assert raw.launches["launches"].tolist() == [2.0, 1.0]
    assert raw.launches["aggregate"].tolist() == [True, True]
    assert raw.counters[CYCLES].tolist() == [400.0, 20.0]
    assert raw.counters[RATE].tolist() == [1.25e9, 2e9]
    assert raw.counters[BYTES].tolist() == [16.0, 5.0]
    assert raw.launches["process"].tolist() == [100, 100]
    assert raw.launches["stream"].tolist() == [7, 7]
    assert raw.launches["capability"].tolist() == ["8.0", "8.0"]
    assert len(raw.problems) == 1
    assert "order of launches differs between the 3 files" in raw.problems[0]
    assert "only sums per kernel" in raw.problems[0]


def test_a_sum_with_a_missing_value_is_missing(one: Callable[..., Path]) -> None:
    paths = [
        one(CYCLES, ("gemm", 100), ("relu", 20), ("gemm", 300)),
        one(BYTES, ("relu", 5), ("gemm", 7), ("gemm", "n/a")),
    ]
    raw = ncu_csv.read(paths)
    assert math.isnan(raw.counters[BYTES][0])
    assert raw.counters[BYTES][1] == 5.0


def test_the_time_of_the_sums_is_that_of_the_paper(one: Callable[..., Path]) -> None:
    """Cycles over the mean clock differ from the sum of times only by the spread of the clock."""
    cycles = [("gemm", 1e6), ("gemm", 3e6), ("relu", 5e5)]
    rates = [("relu", 1.30e9), ("gemm", 1.31e9), ("gemm", 1.30e9)]
    raw = ncu_csv.read([one(CYCLES, *cycles), one(RATE, *rates)])
    times = raw.counters[CYCLES] / raw.counters[RATE]
    assert times.tolist() == pytest.approx([4e6 / 1.305e9, 5e5 / 1.3e9])


def test_sums_are_kept_apart_by_range_where_every_file_has_ranges(
    nvtx_page: Page, file: File, block: Callable[..., str]
) -> None:
    one_cell, other = f"5  {block('a')} ", f"5  {block('b')} "
    first = nvtx_page([(one_cell, "", "k"), (other, "", "k"), (one_cell, "", "k")])
    later = nvtx_page([(other, "", "k"), (one_cell, "", "k"), (one_cell, "", "k")])
    later = later.replace("gpu__time_duration.sum", BYTES).replace("nsecond", "byte")
    same_shape = [
        text.replace("(2, 1, 1)", "(1, 1, 1)").replace("(3, 1, 1)", "(1, 1, 1)")
        for text in (first, later)
    ]
    raw = ncu_csv.read([file(same_shape[0], "a.csv"), file(same_shape[1], "b.csv")])
    names = [raw.ranges[at].pushed[0][1] for at in raw.launches["ranges"]]
    assert dict(zip(names, raw.counters[BYTES], strict=True)) == {"a": 5.0, "b": 1.0}
    assert raw.launches["launches"].tolist() == [2.0, 1.0]


# --- other launches -----------------------------------------------------------------------------


def test_kernels_that_differ_are_named_and_keep_what_is_sure(one: Callable[..., Path]) -> None:
    paths = [
        one(CYCLES, ("gemm", 100), ("relu", 20), ("gemm", 300)),
        one(RATE, ("gemm", 1e9), ("relu", 2e9), ("gemm", 2e9)),
        one(BYTES, ("gemm", 7), ("relu", 5), ("copy", 3)),
    ]
    raw = ncu_csv.read(paths)
    at = {name: row for row, name in enumerate(raw.launches["kernel"])}
    counts = raw.launches["launches"].tolist()
    cycles, rates, sizes = (raw.counters[name].tolist() for name in (CYCLES, RATE, BYTES))
    assert (cycles[at["gemm"]], rates[at["gemm"]], counts[at["gemm"]]) == (400.0, 1.5e9, 2.0)
    assert math.isnan(sizes[at["gemm"]])
    assert (cycles[at["relu"]], rates[at["relu"]], sizes[at["relu"]]) == (20.0, 2e9, 5.0)
    assert (sizes[at["copy"]], counts[at["copy"]]) == (3.0, 1.0)
    assert math.isnan(cycles[at["copy"]])
    (sentence,) = raw.problems
    assert "do not have the same launches" in sentence
    assert "2 kernels" in sentence and "gemm" in sentence and "copy" in sentence


def test_long_lists_of_names_are_cut(one: Callable[..., Path]) -> None:
    first = one(CYCLES, ("same", 1), *((f"k{at}", at) for at in range(9)))
    raw = ncu_csv.read([first, one(BYTES, ("same", 1))])
    assert "9 kernels" in raw.problems[0]
    assert "…" in raw.problems[0] and "k8" not in raw.problems[0]


# --- what does not belong together --------------------------------------------------------------


def test_the_same_file_twice_is_an_error(one: Callable[..., Path]) -> None:
    path = one(CYCLES, ("gemm", 1))
    with pytest.raises(ProfileError, match=r"holds the same as .*Name each file once"):
        ncu_csv.read([path, path])


def test_a_copy_of_a_file_is_an_error(one: Callable[..., Path], file: File) -> None:
    path = one(CYCLES, ("gemm", 1))
    with pytest.raises(ProfileError, match="holds the same as"):
        ncu_csv.read([path, file(path.read_bytes(), "copy.csv")])


def test_runs_with_the_same_metrics_are_no_parts_of_one(one: Callable[..., Path]) -> None:
    paths = [one(CYCLES, ("gemm", 1), name="a.csv"), one(CYCLES, ("gemm", 2), name="b.csv")]
    with pytest.raises(
        ProfileError, match=r"b.csv has no metric that a.csv has not.*runs of their own"
    ):
        ncu_csv.read(paths)


def test_different_programs_are_an_error(one: Callable[..., Path]) -> None:
    with pytest.raises(ProfileError, match=r"no kernel in common.*different programs"):
        ncu_csv.read([one(CYCLES, ("gemm", 1)), one(BYTES, ("copy", 2))])


def test_a_metric_in_two_files_is_taken_from_the_first(raw_page: Page, file: File) -> None:
    first = raw_page(["k"], {CYCLES: ("cycle", [100]), BYTES: ("byte", [8])})
    later = raw_page(["k"], {CYCLES: ("cycle", [101]), RATE: ("hz", [1e9])})
    raw = ncu_csv.read([file(first, "a.csv"), file(later, "b.csv")])
    assert raw.counters.to_dict("list") == {CYCLES: [100.0], BYTES: [8.0], RATE: [1e9]}
    assert "the values of a.csv are used" in raw.problems[0]


def test_no_file_at_all_is_an_error() -> None:
    with pytest.raises(ProfileError, match="no file"):
        ncu_csv.read([])


# --- several tables in one file -----------------------------------------------------------------


def test_tables_of_several_processes_come_one_below_the_other(raw_page: Page, file: File) -> None:
    metrics = {BYTES: ("byte", [1, 2])}
    text = raw_page(["a", "b"], metrics, process=11) + "==PROF== Disconnected\n"
    raw = ncu_csv.read([file(text + raw_page(["a", "c"], metrics, process=12))])
    assert raw.launches["kernel"].tolist() == ["a", "b", "a", "c"]
    assert raw.launches["process"].tolist() == [11, 11, 12, 12]
    assert raw.counters[BYTES].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert raw.facts["programs"] == {"11": "python3", "12": "python3"}


def test_tables_of_other_columns_keep_their_values(raw_page: Page, file: File) -> None:
    first = raw_page(["a"], {BYTES: ("byte", [1]), CYCLES: ("cycle", [2])}, process=11)
    raw = ncu_csv.read([file(first + raw_page(["b"], {BYTES: ("Kbyte", [3])}, process=12))])
    assert raw.counters[BYTES].tolist() == [1.0, 3000.0]
    assert raw.counters[CYCLES][0] == 2.0 and math.isnan(raw.counters[CYCLES][1])


def test_runs_that_were_appended_one_metric_each_are_joined(long_page: Page, file: File) -> None:
    text = long_page(["a", "b"], {BYTES: ("byte", [1, 2])}, process=11)
    text += long_page(["a", "b"], {CYCLES: ("cycle", [3, 4])}, process=12)
    raw = ncu_csv.read([file(text)])
    assert raw.counters.to_dict("list") == {BYTES: [1.0, 2.0], CYCLES: [3.0, 4.0]}


def test_a_table_that_was_appended_to_itself_is_an_error(raw_page: Page, file: File) -> None:
    page = raw_page(["a", "b"], {BYTES: ("byte", [1, 2])})
    with pytest.raises(ProfileError, match=r"same launches in two tables.*appended to itself"):
        ncu_csv.read([file(page + page)])


def test_ranges_of_several_tables_keep_their_launches(
    nvtx_page: Page, file: File, block: Callable[..., str]
) -> None:
    pages = [nvtx_page([(f"5  {block(name)} ", "", "k")]) for name in ("a", "b")]
    raw = ncu_csv.read([file(pages[0] + pages[1].replace('"42"', '"43"'))])
    assert [raw.ranges[at].pushed[0][1] for at in raw.launches["ranges"]] == ["a", "b"]


def test_a_header_without_rows_beside_a_table_is_passed_over(raw_page: Page, file: File) -> None:
    page = raw_page(["a"], {BYTES: ("byte", [1])})
    raw = ncu_csv.read([file(page.splitlines(keepends=True)[0] + page)])
    assert len(raw.launches) == 1
