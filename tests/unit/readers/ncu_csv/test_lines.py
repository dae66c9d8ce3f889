"""Tables among the lines of ncu and of programs; and what is said of a file without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hroof.errors import ProfileError
from hroof.readers.ncu_csv.lines import boxes, chatter, has_header, is_header, said, tables
from hroof.readers.ncu_csv.text import Text

LONG = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
ROW = '"0","42","copy","dram__bytes.sum","byte","8"\n'


def of(text: str) -> Text:
    return Text(Path("run.csv"), text.encode())


def reason(text: str) -> str:
    with pytest.raises(ProfileError) as caught:
        tables(of(text))
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        (("ID", "Kernel Name", "Metric Name", "Metric Value"), True),
        (("ID", "Kernel Name", "dram__bytes.sum"), True),
        (("Kernel Name", "Invocations", "Metric Name"), True),
        (("Kernel Name", "Count", "lts__t_bytes.sum"), True),
        (("Metric Name", "dram__bytes.sum", "lts__t_bytes.sum"), True),
        (("ID", "loss"), False),
        (("ID", "Kernel Name", "loss"), False),
        (("Metric Name", "Metric Unit", "Metric Value"), False),
        (("Name", "dram__bytes.sum", "lts__t_bytes.sum"), False),
    ],
)
def test_a_header_is_known_by_its_columns(fields: tuple[str, ...], right: bool) -> None:
    assert is_header(fields) is right


def test_the_table_is_found_among_other_lines_and_other_tables() -> None:
    before = '==PROF== Connected to process 42\n"ID","loss"\n"0","0.7"\nprogress 50%, "half way"\n'
    (table,) = tables(of(before + LONG + ROW))
    assert table.header[2] == "Kernel Name"
    assert table.body == ROW.encode()
    assert table.line == 5
    assert table.where(0) == "run.csv, line 6"
    assert table.quoted


def test_a_text_can_hold_several_tables() -> None:
    first, second = tables(of(LONG + ROW + "==PROF== Disconnected\n" + LONG + ROW * 2))
    assert first.body == ROW.encode() + b"==PROF== Disconnected\n"
    assert second.body == ROW.encode() * 2
    assert (first.line, second.line) == (1, 4)


def test_the_words_kernel_name_in_a_row_are_no_header() -> None:
    row = ROW.replace("copy", "void f<Kernel Name>(int)")
    (table,) = tables(of(LONG + row + ROW))
    assert table.body == (row + ROW).encode()


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_written_again_by_a_spreadsheet_are_found(delimiter: str) -> None:
    (table,) = tables(of((LONG + ROW).replace('"', "").replace(",", delimiter)))
    assert table.delimiter == delimiter
    assert not table.quoted
    assert len(table.header) == 6


def test_an_empty_file_is_explained_by_the_filters() -> None:
    assert "run.csv is empty" in reason("  \n")
    assert "filters" in reason("")


def test_a_file_of_ncu_without_a_table_tells_what_ncu_said() -> None:
    text = "==PROF== Connected\n==ERROR== The application returned an error code (1).\n"
    text += "==WARNING== No kernels were profiled.\n"
    told = reason(text)
    assert 'ncu says: "The application returned an error code (1)."' in told
    assert 'ncu says: "No kernels were profiled."' in told
    assert "no kernel" in reason("==PROF== Connected to process 42\n")


def test_tables_for_the_console_are_refused_with_the_command_that_helps() -> None:
    text = "==PROF== x\n[42] python@host\n  copy(int), Context 1, Stream 7\n    Section: GPU Speed Of Light\n"
    told = reason(text)
    assert "console" in told
    assert "ncu --import REPORT --page raw --csv" in told


def test_the_session_page_is_a_table_for_the_console() -> None:
    page = "Launch Settings\n--------------------- -----------\nLaunch Attribute      Value\n"
    assert boxes(page.encode())
    assert "console" in reason(page)


def test_anything_else_is_named_by_its_first_line() -> None:
    told = reason("step,loss\n1,0.5\n")
    assert 'it begins with "step,loss"' in told
    assert "metric names and units" in told


def test_words_of_ncu_are_told_once_and_by_kind() -> None:
    text = of("==ERROR== bad\n==ERROR== bad\n==WARNING== odd\nERROR== not of ncu\n")
    assert said(text) == ("bad",)
    assert said(text, "WARNING") == ("odd",)
    assert said(of("all is well\n")) == ()


def test_words_of_ncu_are_found_at_both_ends_of_a_long_file() -> None:
    middle = "x" * 80 + "\n"
    text = of("==ERROR== first\n" + middle * 10_000 + "==ERROR== last\n")
    assert said(text) == ("first", "last")


def test_chatter_and_headers_are_seen_in_any_text(raw_page: Callable[..., str]) -> None:
    assert chatter(b"loss 1\n==PROF== Connected\n")
    assert not chatter(b"x ==PROF== y\n")
    assert has_header(raw_page(["copy"], {"dram__bytes.sum": ("byte", [1])}).encode())
    assert not has_header(b'"ID","loss"\n')


def test_what_stands_in_front_of_a_header_is_left_out() -> None:
    (table,) = tables(of(" 50%|###" + LONG + ROW))
    assert table.header[0] == "ID"
    assert table.quoted
    assert table.body == ROW.encode()


def test_a_carriage_return_in_the_midst_of_a_header_is_no_crash() -> None:
    assert not has_header(b"Kernel Name,a\rb,dram__bytes.sum\n")


def test_a_packed_file_without_a_table_is_cut_off() -> None:
    for data in (b"", b"==PROF== Connected\n"):
        with pytest.raises(ProfileError, match="cut off before its first launch"):
            tables(Text(Path("run.csv.gz"), data, cut=True))
