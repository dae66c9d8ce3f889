"""Reports of Nsight Compute: the outside of the file, and what a stand-in for NVIDIA's library gives."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hroof.collect import tsl
from hroof.errors import MissingError, ProfileError
from hroof.readers import ncu_rep, profile_of
from hroof.readers.ncu_rep import container, reading
from hroof.readers.raw import Ranges
from hroof.units import Phase

Values = Mapping[str, tuple[Any, str]]
"""Metric → (value, unit); a value is a number, a text, None, or a dictionary of instances."""


def number(value: int) -> bytes:
    """A number as messages hold it: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(**fields: int | bytes) -> bytes:
    """A message of numbers and texts, by the number of their field: ``_5=12``."""
    out = b""
    for name, value in fields.items():
        place = int(name[1:])
        if isinstance(value, int):
            out += number(place << 3) + number(value)
        else:
            out += number(place << 3 | 2) + number(len(value)) + value
    return out


def block(payload: bytes = b"", *, details: bytes = b"") -> bytes:
    """A block of a report: its header behind a length, then the payload."""
    header = message(_1=1, _4=details, _5=len(payload))
    return struct.pack("<I", len(header)) + header + payload


def report(*blocks: bytes, version: int = 7) -> bytes:
    """A whole report."""
    header = message(_1=version)
    return b"NVR\0" + struct.pack("<I", len(header)) + header + b"".join(blocks)


# --- the library ---------------------------------------------------------------------------------


@dataclass
class Metric:
    given: Any
    measure: str = ""

    def as_double(self, place: int | None = None) -> float:
        if isinstance(self.given, dict):
            values = list(self.given.values())
            return float(sum(values) if place is None else values[place])
        return float(self.given) if isinstance(self.given, int | float) else 0.0

    def as_string(self, place: int | None = None) -> str:
        return str(self.given if place is None else list(self.given)[place])

    def has_value(self) -> bool:
        return self.given is not None

    def kind(self) -> int:
        return 2 if isinstance(self.given, str) else 4

    def unit(self) -> str:
        return self.measure

    def num_instances(self) -> int:
        return len(self.given) if isinstance(self.given, dict) else 0

    def correlation_ids(self) -> Metric | None:
        return self if isinstance(self.given, dict) else None


@dataclass
class Domain:
    title: str
    pushed: tuple[str, ...] = ()
    started: tuple[str, ...] = ()

    def name(self) -> str:
        return self.title

    def push_pop_ranges(self) -> tuple[str, ...]:
        return self.pushed

    def start_end_ranges(self) -> tuple[str, ...]:
        return self.started


@dataclass
class Result:
    """What was profiled once."""

    title: str = "gemm"
    values: Values = field(default_factory=dict)
    domains: Sequence[Domain] | None = None
    kind: int = 0
    asked: list[str] = field(default_factory=list)

    def name(self, base: int) -> str:
        return f"{self.title}(float *)" if base == 1 else self.title

    def workload_type(self) -> int:
        return self.kind

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self.values)

    def metric_by_name(self, name: str) -> Metric | None:
        self.asked.append(name)
        return Metric(*self.values[name]) if name in self.values else None

    def nvtx_state(self) -> Any:
        if self.domains is None:
            return None
        known = dict(enumerate(self.domains))
        return SimpleNamespace(domains=lambda: tuple(known), domain_by_id=known.__getitem__)


def stream(results: Sequence[Result]) -> Any:
    return SimpleNamespace(num_actions=lambda: len(results), action_by_idx=results.__getitem__)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A report on disk, whose contents the stand-in gives: one list of results per stream."""

    def save(*streams: Sequence[Result], details: bytes = b"") -> Path:
        path = tmp_path / "run.ncu-rep"
        path.write_bytes(report(block(), block(b"some results", details=details)))
        ranges = [stream(results) for results in streams]
        contents = SimpleNamespace(num_ranges=lambda: len(ranges), range_by_idx=ranges.__getitem__)
        library = SimpleNamespace(load_report={str(path): contents}.__getitem__)
        monkeypatch.setitem(sys.modules, "ncu_report", library)
        return path

    return save


# --- the outside of a report ---------------------------------------------------------------------


TOOL = b"2031.2.0.0 (build 4711) (public-release)"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(contents: bytes, name: str = "run.ncu-rep") -> Path:
        path = tmp_path / name
        path.write_bytes(contents)
        return path

    return write


def test_a_whole_report_tells_its_format_and_the_version_of_ncu(write: Any) -> None:
    path = write(report(block(), block(b"x" * 300, details=b"Target " + TOOL), block(b"y")))
    assert container.check(path) == container.Container(7, "2031.2.0.0 (build 4711)")


def test_a_report_without_a_version_is_whole_too(write: Any) -> None:
    assert container.check(write(report(block(b"x")))).tool == ""


def test_the_first_version_counts(write: Any) -> None:
    other = b"2030.1.0.0 (build 1)"
    path = write(report(block(details=TOOL), block(details=other)))
    assert container.check(path).tool == "2031.2.0.0 (build 4711)"


def test_a_report_cut_off_anywhere_is_refused(write: Any) -> None:
    whole = report(block(details=TOOL), block(b"x" * 40), block(b"y" * 10))
    ends = {len(report(block(details=TOOL))), len(report(block(details=TOOL), block(b"x" * 40)))}
    for length in sorted(set(range(4, len(whole))) - ends):
        with pytest.raises(ProfileError, match="cut off or damaged"):
            container.check(write(whole[:length]))


def test_the_refusal_names_both_lengths_and_a_remedy(write: Any) -> None:
    whole = report(block(b"x" * 2000))
    with pytest.raises(ProfileError) as refusal:
        container.check(write(whole[:1500]))
    assert "it has 1,500 bytes" in refusal.value.fact
    assert f"byte {len(whole):,} at least" in refusal.value.fact
    assert "Copy the report again" in refusal.value.remedy


def test_bytes_behind_the_last_block_are_refused(write: Any) -> None:
    with pytest.raises(ProfileError, match="damaged"):
        container.check(write(report(block(b"x")) + b"junk"))


@pytest.mark.parametrize(
    "header",
    [b"\x0f", b"\x08", b"\x08\xff", b"\x0a\x7f", b"\x0b\x00"],
    ids=["no such kind", "no number", "endless number", "longer than it is", "a group"],
)
def test_a_damaged_block_header_is_refused(header: bytes, write: Any) -> None:
    damaged = struct.pack("<I", len(header)) + header
    with pytest.raises(ProfileError, match="block header is not readable"):
        container.check(write(report(damaged)))


def test_all_kinds_of_fields_are_stepped_over(write: Any) -> None:
    fixed = b"\x31" + bytes(8) + b"\x3d" + bytes(4)  # field 6 with 8 bytes, field 7 with 4
    header = message(_1=1 << 40) + fixed + message(_5=3)
    path = write(report(struct.pack("<I", len(header)) + header + b"abc"))
    assert container.check(path).format == 7


def test_a_newer_format_is_left_to_the_library(write: Any) -> None:
    assert container.check(write(report(b"laid out in another way", version=8))).format == 8


def test_what_a_failed_run_leaves_is_told_from_other_files(write: Any) -> None:
    with pytest.raises(ProfileError, match=r"Nothing was captured in .*when profiling fails"):
        container.check(write(block(b"some metrics")))


@pytest.mark.parametrize(
    ("contents", "what"),
    [(b"", "It is empty"), (b"NV", "does not begin"), (b"ID,Kernel Name\n" * 9, "does not begin")],
)
def test_a_foreign_file_is_refused(contents: bytes, what: str, write: Any) -> None:
    with pytest.raises(ProfileError, match=f"not a report of Nsight Compute. .*{what}"):
        container.check(write(contents))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"Cannot read .*No such file"):
        container.check(tmp_path / "absent.ncu-rep")
    with pytest.raises(ProfileError, match=r"Cannot read .*directory"):
        container.check(tmp_path)


@pytest.mark.parametrize(
    ("name", "contents", "expected"),
    [
        ("run.ncu-rep", report(block()), True),
        ("renamed", report(block()), True),
        ("failed.ncu-rep", block(b"metrics"), True),
        ("old.nsight-cuprof-report", report(block()), True),
        ("run.csv", b'"ID","Kernel Name"', False),
        ("empty", b"", False),
    ],
)
def test_a_report_is_known_by_its_beginning_or_its_name(
    name: str, contents: bytes, expected: bool, write: Any
) -> None:
    assert ncu_rep.looks_like(write(contents, name)) is expected


def test_folders_and_absent_files_look_like_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder.ncu-rep"
    folder.mkdir()
    assert not ncu_rep.looks_like(folder)
    assert not ncu_rep.looks_like(tmp_path / "absent.ncu-rep")


# --- without the library -------------------------------------------------------------------------


def test_without_the_package_both_ways_out_are_named(
    saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved([Result()])
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(MissingError) as refusal:
        ncu_rep.read(path)
    assert "hroof[ncu]" in refusal.value.remedy
    assert "proprietary licence of NVIDIA" in refusal.value.remedy
    assert "ncu --import FILE --csv --page raw > FILE.csv" in refusal.value.remedy


@pytest.mark.parametrize(
    ("version", "taken"), [("2025.3.1", False), ("2026.2", True), ("2031.1.0.post1", True)]
)
def test_a_package_that_ends_the_process_is_refused(
    version: str, taken: bool, saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved([Result(values=WHERE)])
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    if taken:
        assert len(ncu_rep.read(path).launches) == 1
        return
    with pytest.raises(MissingError, match=r"with ncu-report 2025\.3, which is too old"):
        ncu_rep.read(path)


def test_a_module_that_is_no_package_is_taken(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    assert len(ncu_rep.read(saved([Result(values=WHERE)])).launches) == 1


def test_a_damaged_file_is_refused_before_the_package_is_looked_for(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(ProfileError, match="cut off"):
        ncu_rep.read(write(report(block(b"x" * 50))[:-1]))


# --- launches ------------------------------------------------------------------------------------


WHERE: Values = {
    "device__attribute_device_index": (0, ""),
    "device__attribute_display_name": ("NVIDIA Imaginary 100", ""),
    "device__attribute_compute_capability_major": (8, ""),
    "device__attribute_compute_capability_minor": (6, ""),
    "launch__device_id": (1, ""),
    "launch__context_id": (3, ""),
    "launch__stream_id": (7, ""),
    "launch__grid_dim_x": (64, ""),
    "launch__grid_dim_y": (2, ""),
    "launch__grid_dim_z": (1, ""),
    "launch__block_dim_x": (256, "block"),
    "launch__block_dim_y": (1, "block"),
    "launch__block_dim_z": (1, "block"),
}


def test_a_launch_says_where_it_ran(saved: Any) -> None:
    raw = ncu_rep.read(saved([Result("gemm", WHERE)]))
    assert raw.launches.iloc[0].to_dict() == {
        "kernel": "gemm(float *)", "device": 1, "context": 3, "stream": 7, "capability": "8.6",
        "grid": "(64, 2, 1)", "block": "(256, 1, 1)", "ranges": -1, "process": -1, "launches": 1.0,
        "aggregate": False,
    }  # fmt: skip
    assert raw.devices == {1: {"name": "NVIDIA Imaginary 100", "capability": "8.6"}}


def test_what_an_old_report_does_not_say_is_left_open(saved: Any) -> None:
    raw = ncu_rep.read(saved([Result(values={"gpu__time_duration.sum": (5, "ns")})]))
    row = raw.launches.iloc[0]
    assert (row["capability"], row["grid"], row["block"], row["device"]) == ("", "", "", 0)
    assert raw.devices == {0: {"name": "", "capability": ""}}


def test_the_index_of_the_device_stands_in_for_its_id(saved: Any) -> None:
    values = {name: value for name, value in WHERE.items() if name != "launch__device_id"}
    values["device__attribute_device_index"] = (2, "")
    assert list(ncu_rep.read(saved([Result(values=values)])).launches["device"]) == [2]


def test_streams_follow_each_other_in_the_order_of_the_report(saved: Any) -> None:
    value = {"dram__bytes.sum": (1, "byte")}
    first = [Result("a", value), Result("b", value)]
    raw = ncu_rep.read(saved(first, [Result("c", value)]))
    assert list(raw.launches["kernel"]) == ["a(float *)", "b(float *)", "c(float *)"]


def test_the_facts_name_the_file_and_the_version(saved: Any) -> None:
    path = saved([Result(values=WHERE)], details=TOOL)
    assert ncu_rep.read(path).facts == {
        "files": [str(path)],
        "tool": "Nsight Compute 2031.2.0.0 (build 4711)",
        "dialect": "report",
    }


@pytest.mark.parametrize("streams", [(), ([],), ([], [])], ids=["no stream", "empty", "two empty"])
def test_a_report_without_launches_is_refused(streams: Any, saved: Any) -> None:
    with pytest.raises(ProfileError, match=r"Nothing was captured .* no launches.*filters"):
        ncu_rep.read(saved(*streams))


def test_other_workloads_than_kernels_are_said(saved: Any) -> None:
    kinds = [0, 3, 1, 3, 9]
    raw = ncu_rep.read(saved([Result(values=WHERE, kind=kind) for kind in kinds]))
    assert len(raw.launches) == 5
    assert raw.problems == (
        "1 of 5 results is a profiled range: it is one row, however many kernels ran in it.",
        "2 of 5 results are CUDA graphs: each is one row, however many kernels ran in it.",
        "1 of 5 results is a workload: it is one row, however many kernels ran in it (kind 9).",
    )


# --- NVTX ----------------------------------------------------------------------------------------


def test_ranges_are_kept_by_domain_and_order(saved: Any) -> None:
    inner = [
        Domain("hroof", ("L1|net", "L2|net.fc"), ("S1|0",)),
        Domain("<default domain>", ("mine",)),
    ]
    results = [Result(values=WHERE, domains=inner), Result(values=WHERE, domains=inner)]
    raw = ncu_rep.read(saved([*results, Result(values=WHERE, domains=[Domain("hroof")])]))
    expected = Ranges(
        (("hroof", "L1|net"), ("hroof", "L2|net.fc"), ("<default domain>", "mine")),
        (("hroof", "S1|0"),),
    )
    assert raw.ranges == (expected, Ranges())
    assert list(raw.launches["ranges"]) == [0, 0, 1]


def test_nodes_of_tensorflow_become_layers(saved: Any) -> None:
    nodes = ("while:While", "while/body/net/fc/MatMul:MatMul")
    state = [Domain("TSL", nodes), Domain("hroof", (), ("S1|4",))]
    raw = ncu_rep.read(saved([Result(values=WHERE, domains=state)]))
    known = tsl.Places({"while/body/net/fc/MatMul": (tsl.Share(Phase.FORWARD, "fc"),)})
    profile, _ = profile_of(raw, {"places": known.table()})
    row = profile.launches.iloc[0]
    assert (row["step"], row["phase"], row["layer"], row["op"]) == (0, "forward", "fc", "MatMul")


def test_a_launch_outside_of_all_ranges_is_told_from_a_report_without_nvtx(saved: Any) -> None:
    within = Result(values=WHERE, domains=[Domain("hroof", ("L1|net",))])
    raw = ncu_rep.read(saved([Result(values=WHERE), within]))
    assert [raw.ranges[place] for place in raw.launches["ranges"]] == [
        Ranges(),
        Ranges((("hroof", "L1|net"),)),
    ]


def test_a_report_in_which_no_range_was_open_knows_no_nvtx(saved: Any) -> None:
    silent = Result(values=WHERE, domains=[Domain("<default domain>")])
    raw = ncu_rep.read(saved([silent, Result(values=WHERE)]))
    assert (list(raw.launches["ranges"]), raw.ranges) == ([-1, -1], ())


# --- counters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1), ("nsecond", 1e-9), ("second", 1),
        ("hz", 1), ("Ghz", 1e9), ("GHz", 1e9), ("byte", 1), ("Kbyte", 1e3), ("Tbyte/s", 1e12),
        ("Gbyte/second", 1e9), ("cycle/nsecond", 1e9), ("byte/cycle", 1), ("%", 1), ("", 1),
        ("1/s", 1), ("sector", 1), ("inst/cycle", 1), ("sample", 1), ("SM", 1), ("thread", 1),
        ("%/byte", 1), ("register/thread", 1), ("request", 1), ("branches", 1),
    ],
)  # fmt: skip
def test_values_are_in_base_units(unit: str, factor: float, saved: Any) -> None:
    raw = ncu_rep.read(saved([Result(values={"metric.sum": (12.5, unit)})]))
    assert raw.counters["metric.sum"].item() == pytest.approx(12.5 * factor, rel=1e-15)


@pytest.mark.parametrize("name", ["gpu__time_duration", "gpu__time_duration.sum"])
def test_a_time_without_a_unit_is_in_nanoseconds(name: str, saved: Any) -> None:
    values: Values = {name: (2.5e9, ""), "sm__elapsed_cycles_avg": (4e9, "")}
    counters = ncu_rep.read(saved([Result(values=values)])).counters
    assert counters[name].item() == pytest.approx(2.5)
    assert counters["sm__elapsed_cycles_avg"].item() == 4e9


def test_missing_is_nan_and_zero_is_zero(saved: Any) -> None:
    values: Values = {"real.sum": (0, "inst"), "absent.sum": (None, "inst"), "text": ("none", "")}
    other: Values = {"absent.sum": (3, "inst"), "elsewhere.sum": (4.0, "")}
    counters = ncu_rep.read(saved([Result(values=values), Result(values=other)])).counters
    assert list(counters.columns) == ["real.sum", "absent.sum", "elsewhere.sum"]
    assert counters["real.sum"].iloc[0] == 0
    assert math.isnan(counters["real.sum"].iloc[1])
    assert math.isnan(counters["absent.sum"].iloc[0])
    assert counters["absent.sum"].iloc[1] == 3
    assert counters.dtypes.eq("float64").all()


def test_a_metric_that_was_asked_for_in_vain_keeps_its_column(saved: Any) -> None:
    values: Values = {"asked.sum": (None, "inst"), "dram__bytes.sum": (1, "byte")}
    counters = ncu_rep.read(saved([Result(values=values)])).counters
    assert list(counters.columns) == ["asked.sum", "dram__bytes.sum"]
    assert counters["asked.sum"].isna().all()


@pytest.mark.parametrize("name", reading.BY_OPCODE)
def test_opcodes_have_columns_of_their_own(name: str, saved: Any) -> None:
    first: Values = {name: ({"IMMA.16832.S8.S8.SAT": 20, "MOV": 3}, "")}
    second: Values = {name: ({"MOV": 5}, "")}
    counters = ncu_rep.read(saved([Result(values=first), Result(values=second)])).counters
    assert list(counters[name]) == [23, 5]
    assert counters[f"{name}:IMMA.16832.S8.S8.SAT"].iloc[0] == 20
    assert math.isnan(counters[f"{name}:IMMA.16832.S8.S8.SAT"].iloc[1])
    assert list(counters[f"{name}:MOV"]) == [3, 5]


def test_other_instances_are_left_out(saved: Any) -> None:
    values: Values = {"smsp__pcsamp_samples": ({"4096": 2, "4112": 1}, "")}
    assert list(ncu_rep.read(saved([Result(values=values)])).counters) == ["smsp__pcsamp_samples"]


def test_attributes_of_a_device_are_asked_for_once(saved: Any) -> None:
    count = "device__attribute_multiprocessor_count"
    results = [
        Result(values={**WHERE, "launch__device_id": (device, ""), count: (sms, "")})
        for device, sms in [(0, 108), (1, 132), (0, 108), (1, 132)]
    ]
    counters = ncu_rep.read(saved(results)).counters
    assert list(counters[count]) == [108, 132, 108, 132]
    assert [result.asked.count(count) for result in results] == [1, 1, 0, 0]


# --- damage that the outside does not show -------------------------------------------------------


def test_a_launch_without_any_metric_is_damage(saved: Any) -> None:
    with pytest.raises(ProfileError, match="is damaged"):
        ncu_rep.read(saved([Result(values=WHERE), Result()]))


def test_names_that_the_library_cannot_find_are_damage(
    saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved([Result(values=WHERE)])
    monkeypatch.setattr(Result, "metric_by_name", lambda self, name: None)
    with pytest.raises(ProfileError, match="is damaged"):
        ncu_rep.read(path)
