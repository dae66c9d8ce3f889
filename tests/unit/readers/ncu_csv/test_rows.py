"""Rows of regular tables, and of those with other lines, cut rows and stray quotes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.readers.ncu_csv.lines import Table, tables
from hroof.readers.ncu_csv.rows import Rows, read_rows, without_groups
from hroof.readers.ncu_csv.text import Text
from hroof.readers.ncu_csv.values import numbers

BYTES = {"dram__bytes.sum": ("byte", [10, 20, 30])}
KERNELS = ["k0", "k1", "k2"]


def table(text: str) -> Table:
    return tables(Text(Path("run.csv"), text.encode()))[0]


def column(rows: Rows, name: str) -> list[str]:
    return rows.texts(rows.place(name))


def test_a_regular_table_is_read_as_numbers(raw_page: Callable[..., str]) -> None:
    rows = read_rows(table(raw_page(KERNELS, BYTES)))
    assert len(rows) == 3
    assert column(rows, "Kernel Name") == KERNELS
    assert rows.units[-1] == "byte"
    assert pa.types.is_floating(rows.columns[-1].type)
    assert (rows.cut, rows.problems, rows.lines) == (False, (), ())
    assert rows.where(0) == "run.csv, line 3"


def test_numbers_stay_texts_where_asked(raw_page: Callable[..., str]) -> None:
    rows = read_rows(table(raw_page(KERNELS, BYTES)), texts=True)
    assert column(rows, "dram__bytes.sum") == ["10", "20", "30"]
    assert pa.types.is_string(rows.columns[-1].type)


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=9),
            st.one_of(
                st.integers(-(10**9), 10**9).map("{:,}".format),
                st.floats(0, 1e9).map("{:.2f}".format),
                st.sampled_from(["", "n/a", "no data", "0", "word", "1; 2"]),
            ),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_both_ways_agree_on_any_table(rows: list[tuple[str, str]]) -> None:
    """Names with commas, quotes and separators of thousands; numbers of every form."""
    lines = ['"ID","Process ID","Kernel Name","dram__bytes.sum"\n', '"","","","byte"\n']
    for at, (name, value) in enumerate(rows):
        quoted = name.replace('"', '""')
        lines.append(f'"{at}","42","{quoted}","{value}"\n')
    regular, irregular = (
        table("".join(lines)),
        table("".join([*lines[:1], "noise\n", *lines[1:]])),
    )
    fast, careful = read_rows(regular), read_rows(irregular)
    assert (
        column(fast, "Kernel Name") == column(careful, "Kernel Name") == [name for name, _ in rows]
    )
    values = [
        numbers(rows_.columns[3], lambda _: "dram__bytes.sum", rows_.where)[0].tolist()
        for rows_ in (fast, careful)
    ]
    assert values[0] == pytest.approx(values[1], nan_ok=True)


def test_a_column_that_is_not_there_is_empty(raw_page: Callable[..., str]) -> None:
    rows = read_rows(table(raw_page(KERNELS, BYTES)))
    assert rows.place("Kernel Time") is None
    assert rows.texts(None) == ["", "", ""]


def test_numbers_that_turn_into_words_further_down_are_read(raw_page: Callable[..., str]) -> None:
    mixed = {"dram__bytes.sum": ("byte", [10, "n/a", "none of your business"])}
    rows = read_rows(table(raw_page(KERNELS, mixed)))
    assert column(rows, "dram__bytes.sum")[2] == "none of your business"


def test_both_ways_give_the_same_rows(
    raw_page: Callable[..., str], long_page: Callable[..., str]
) -> None:
    for page in (raw_page, long_page):
        regular = table(page(KERNELS, BYTES))
        head, _, rest = page(KERNELS, BYTES).partition("\n")
        irregular = table(f"{head}\nepoch 1\n{rest}==PROF== end\n\n")
        fast, careful = read_rows(regular), read_rows(irregular)
        assert [fast.texts(at) for at in range(4)] == [careful.texts(at) for at in range(4)]
        assert fast.units == careful.units
        assert careful.lines and not fast.lines


def test_lines_behind_the_last_row_do_not_make_a_table_irregular(
    raw_page: Callable[..., str],
) -> None:
    rows = read_rows(table(raw_page(KERNELS, BYTES) + "==WARNING== no source\n\nloss 0.5"))
    assert len(rows) == 3
    assert not rows.lines
    assert not rows.cut


@pytest.mark.parametrize(
    "noise", ["==PROF== x\n", "loss 0.5, 3\n", "\n", "=====\n", '"half way", 50\n']
)
def test_lines_between_rows_are_passed_over(long_page: Callable[..., str], noise: str) -> None:
    lines = long_page(KERNELS, BYTES).splitlines(keepends=True)
    rows = read_rows(table(lines[0] + noise + noise.join(lines[1:])))
    assert column(rows, "Kernel Name") == KERNELS
    assert rows.where(1) == "run.csv, line 5"


def test_small_tables_of_the_program_behind_the_table_are_told_and_left_out(
    long_page: Callable[..., str],
) -> None:
    rows = read_rows(table(long_page(KERNELS, BYTES) + '"0","0.6931"\n==PROF== end\n'))
    assert len(rows) == 3
    assert "not whole" in rows.problems[0] and "line 5" in rows.problems[0]


def test_rows_of_rules_are_no_metrics(row: Callable[[Sequence[object]], str]) -> None:
    header = [
        "ID",
        "Kernel Name",
        "Metric Name",
        "Metric Unit",
        "Metric Value",
        "Rule Name",
        "Rule Text",
    ]
    metric = row([0, "copy", "dram__bytes.sum", "byte", 8])
    text = (
        row(header)
        + metric.rstrip("\n")
        + ",\n"
        + row([0, "copy", "", "", "", "Bound", 'a "b", c'])
    )
    regular = read_rows(table(text))
    assert regular.columns[4].to_pylist() == [8.0]
    assert column(regular, "Rule Name") == [""]
    careful = read_rows(table(text.replace(metric.rstrip("\n"), "noise\n" + metric.rstrip("\n"))))
    assert column(careful, "Metric Name") == ["dram__bytes.sum", ""]


def test_a_row_longer_than_a_block_is_read(raw_page: Callable[..., str]) -> None:
    long = "void f<" + "x" * 600_000 + ">(int)"
    rows = read_rows(table(raw_page([long, "k1", long], BYTES)))
    assert column(rows, "Kernel Name") == [long, "k1", long]


# --- cut rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["raw_page", "long_page"])
def test_a_file_cut_anywhere_in_its_last_row_loses_only_that(
    request: pytest.FixtureRequest, page: str
) -> None:
    text: str = request.getfixturevalue(page)(KERNELS, BYTES)
    start = text.rstrip("\n").rfind("\n") + 1
    for end in range(start + 1, len(text) - 2):
        rows = read_rows(table(text[:end]))
        assert column(rows, "Kernel Name") == KERNELS[:2], text[start:end]
        assert rows.cut
        assert "ends within a row" in rows.problems[0]


@pytest.mark.parametrize("page", ["raw_page", "long_page"])
def test_a_last_row_without_its_line_feed_is_whole(
    request: pytest.FixtureRequest, page: str
) -> None:
    text: str = request.getfixturevalue(page)(KERNELS, BYTES)
    rows = read_rows(table(text.rstrip("\n")))
    assert column(rows, "Kernel Name") == KERNELS
    assert not rows.cut


def test_a_number_without_quotes_may_be_cut_too(long_page: Callable[..., str]) -> None:
    text = (
        long_page(KERNELS, BYTES).replace('"(128, 1, 1)"', "0").replace('"', "").replace(", ", " ")
    )
    assert len(read_rows(table(text))) == 3
    rows = read_rows(table(text.rstrip("\n")))
    assert column(rows, "Kernel Name") == KERNELS[:2]
    assert rows.cut


def test_a_row_cut_in_the_middle_does_not_swallow_the_next(long_page: Callable[..., str]) -> None:
    lines = long_page(KERNELS, BYTES).splitlines(keepends=True)
    lines[2] = lines[2][:-20].rstrip('"') + "\n"
    rows = read_rows(table("".join(lines)))
    assert column(rows, "Kernel Name") == ["k0", "k2"]
    assert not rows.cut
    assert "line 3: the row is not whole and is left out" in rows.problems[0]


def test_a_cut_row_followed_by_words_of_ncu_is_cut(long_page: Callable[..., str]) -> None:
    text = long_page(KERNELS, BYTES)[:-12] + "\n==ERROR== killed\n"
    rows = read_rows(table(text))
    assert column(rows, "Kernel Name") == KERNELS[:2]
    assert rows.problems


# --- names that break a row ---------------------------------------------------------------------


def cells(rows: Rows) -> list[str]:
    return rows.texts(4)


@pytest.mark.parametrize("name", ["a\nb", "one\n\nmore", 'x\n"y'])
def test_a_line_feed_in_the_name_of_a_range_is_part_of_it(
    nvtx_page: Callable[..., str], block: Callable[..., str], name: str
) -> None:
    cell = f"5  {block(name)} "
    rows = read_rows(table(nvtx_page([(cell, "", "k0"), (cell, "", "k1"), ("", "", "k2")])))
    assert column(rows, "Kernel Name") == KERNELS
    assert cells(rows) == [cell, cell, ""]


@pytest.mark.parametrize("quoted", ['a"b', 'say "hi"', 'one " two " three', 'x",y'])
@pytest.mark.parametrize("side", [0, 1])
def test_a_quote_in_the_name_of_a_range_leaves_the_other_columns_right(
    nvtx_page: Callable[..., str], block: Callable[..., str], quoted: str, side: int
) -> None:
    cell = f"5  {block('QUOTED')} " if side == 0 else f' "1:{block("QUOTED")[1:]} '
    pair = (cell, "") if side == 0 else ("", cell)
    text = nvtx_page([(*pair, "f<1, 2>"), ("", "", "k1"), (*pair, 'g("x,y")')]).replace(
        "QUOTED", quoted
    )
    rows = read_rows(table(text))
    assert column(rows, "Kernel Name") == ["f<1, 2>", "k1", 'g("x,y")']
    assert column(rows, "gpu__time_duration.sum") == ["1", "2", "3"]
    assert rows.texts(4 + side) == [
        cell.replace("QUOTED", quoted),
        "",
        cell.replace("QUOTED", quoted),
    ]


# --- separators of thousands --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        (["1,234"], ["1234"]),
        (["1,234,567,890"], ["1234567890"]),
        (["12,345.67", "123,456"], ["12345.67", "123456"]),
        (["(8,192, 1, 1)", "8,192"], ["(8,192, 1, 1)", "8192"]),
        (["f<1,024,768>(int)", "g<(int)4, 8>"], ["f<1,024,768>(int)", "g<(int)4, 8>"]),
        (["12,58", "1,2345", "0,125000"], ["12,58", "1,2345", "0,125000"]),
        (["1", "", "n/a"], ["1", "", "n/a"]),
    ],
)
def test_separators_of_thousands_are_taken_from_numbers_only(
    row: Callable[[Sequence[object]], str], fields: list[str], kept: list[str]
) -> None:
    assert without_groups(row(fields).encode()) == row(kept).encode()


def test_pieces_of_a_large_table_are_joined_again(row: Callable[[Sequence[object]], str]) -> None:
    text = row(["k<1,024>", "1,234,567"]) * 20_000
    expected = row(["k<1,024>", "1234567"]) * 20_000
    assert without_groups(text.encode()) == expected.encode()
    assert without_groups(text.encode().rstrip(b"\n")) == expected.encode().rstrip(b"\n")


def test_a_table_knows_whether_its_commas_can_be_decimal(raw_page: Callable[..., str]) -> None:
    grouped = {"dram__bytes.sum": ("byte", ["1,234", "5", "n/a"])}
    decimal = {"dram__bytes.sum": ("byte", ["1,23", "5", "n/a"])}
    assert read_rows(table(raw_page(KERNELS, grouped))).grouped
    assert not read_rows(table(raw_page(KERNELS, decimal))).grouped
