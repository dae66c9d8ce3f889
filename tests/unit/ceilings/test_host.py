"""Host: caches, memory and settings, read from made-up descriptions of computers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hroof.ceilings import host
from hroof.ceilings.host import Cache
from hroof.units import MemoryLevel

KIB = 1024


def describe(folder: Path, cpu: int, *indexes: tuple[str, str, str, str]) -> None:
    """Write Linux's description of one core's caches: (type, level, size, shared_cpu_list)."""
    for number, values in enumerate(indexes):
        index = folder / f"cpu{cpu}" / "cache" / f"index{number}"
        index.mkdir(parents=True)
        for name, value in zip(("type", "level", "size", "shared_cpu_list"), values, strict=True):
            (index / name).write_text(value + "\n")


@pytest.fixture
def two_cores(tmp_path: Path) -> Path:
    """Two cores with an L1 and an L2 each and a common L3; instruction caches do not count."""
    for cpu in (0, 1):
        describe(
            tmp_path,
            cpu,
            ("Data", "1", "48K", str(cpu)),
            ("Instruction", "1", "32K", str(cpu)),
            ("Unified", "2", "1024K", str(cpu)),
            ("Unified", "3", "32M", "0-1"),
        )
    return tmp_path


def test_caches_add_up_over_distinct_instances(two_cores: Path) -> None:
    assert host.read_caches((0, 1), two_cores) == (
        Cache(MemoryLevel.L1, 48 * KIB, 2, 1, 96 * KIB),
        Cache(MemoryLevel.L2, 1024 * KIB, 2, 1, 2048 * KIB),
        Cache(MemoryLevel.L3, 32 * KIB * KIB, 1, 2, 32 * KIB * KIB),
    )


def test_only_the_usable_cores_count(two_cores: Path) -> None:
    l1, _, l3 = host.read_caches((1,), two_cores)
    assert (l1.instances, l1.total) == (1, 48 * KIB)
    assert (l3.sharers, l3.total) == (1, 32 * KIB * KIB)


def test_cores_of_two_kinds_give_the_smallest_size_and_the_true_total(tmp_path: Path) -> None:
    describe(tmp_path, 0, ("Data", "1", "48K", "0"))
    describe(tmp_path, 1, ("Data", "1", "32K", "1"))
    assert host.read_caches((0, 1), tmp_path) == (Cache(MemoryLevel.L1, 32 * KIB, 2, 1, 80 * KIB),)


@pytest.mark.parametrize(
    "entry",
    [
        ("Unified", "4", "128M", "0"),
        ("Data", "1", "", "0"),
        ("Data", "1", "0K", "0"),
        ("Data", "1", "many", "0"),
    ],
)
def test_odd_entries_are_left_out(tmp_path: Path, entry: tuple[str, str, str, str]) -> None:
    describe(tmp_path, 0, entry)
    assert host.read_caches((0,), tmp_path) == ()


def test_without_a_list_of_sharers_a_cache_belongs_to_its_core(tmp_path: Path) -> None:
    for cpu in (0, 1):
        describe(tmp_path, cpu, ("Data", "1", "32K", ""))
    (cache,) = host.read_caches((0, 1), tmp_path)
    assert (cache.instances, cache.total) == (2, 64 * KIB)


def test_the_source_of_the_sizes_is_named(two_cores: Path, tmp_path: Path) -> None:
    caches, source = host.find_caches((0, 1), folder=two_cores)
    assert len(caches) == 3
    assert source == str(two_cores)
    caches, source = host.find_caches((0,), folder=tmp_path / "absent", system="win32")
    assert caches == ()
    assert source.startswith("unknown") and "win32" in source


def test_macos_is_asked_by_sysctl() -> None:
    answers = {"hw.l1dcachesize": "65536", "hw.l2cachesize": "4194304", "hw.l3cachesize": ""}

    def run(command: Sequence[str]) -> str:
        assert command[:2] == ("sysctl", "-n")
        return answers[command[2]]

    assert host.sysctl_caches(8, run) == (
        Cache(MemoryLevel.L1, 65536, 8, 1, 8 * 65536),
        Cache(MemoryLevel.L2, 4194304, 1, 8, 4194304),
    )


def test_the_processor_tells_its_name_and_instruction_sets(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Chip 9\nflags\t\t: fma amx_tile\n\n")
    assert host.cpu_model(cpuinfo) == "Chip 9"
    assert host.cpu_flags(cpuinfo) == {"fma", "amx_tile"}


def test_a_processor_without_description_still_has_a_name(tmp_path: Path) -> None:
    assert host.cpu_model(tmp_path / "absent") != ""
    assert host.cpu_flags(tmp_path / "absent") == frozenset()


def test_free_memory_is_what_the_container_leaves(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    2000 kB\n")
    cgroup = tmp_path / "cgroup"
    assert host.available_memory(meminfo, cgroup) == 2000 * KIB
    cgroup.mkdir()
    (cgroup / "memory.max").write_text("1000000\n")
    (cgroup / "memory.current").write_text("400000\n")
    assert host.available_memory(meminfo, cgroup) == 600_000
    (cgroup / "memory.max").write_text("max\n")
    assert host.available_memory(meminfo, cgroup) == 2000 * KIB
    assert host.available_memory(tmp_path / "absent", tmp_path) is None


def test_an_exhausted_container_has_no_memory_not_a_negative_amount(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000")
    (tmp_path / "memory.current").write_text("1500")
    assert host.available_memory(tmp_path / "absent", tmp_path) == 0


def test_settings_are_chosen_by_name_and_prefix_in_order() -> None:
    environment = {"OMP_PROC_BIND": "1", "LD_PRELOAD": "x", "OMP_A": "2", "HOME": "/", "LD_X": "3"}
    assert list(host.settings(("OMP_*", "LD_PRELOAD"), environment).items()) == [
        ("LD_PRELOAD", "x"),
        ("OMP_A", "2"),
        ("OMP_PROC_BIND", "1"),
    ]
    assert host.settings(("NOTHING",), environment) == {}


def test_the_huge_page_setting_is_the_chosen_one(tmp_path: Path) -> None:
    setting = tmp_path / "enabled"
    setting.write_text("always [madvise] never\n")
    assert host.huge_pages(setting) == "madvise"
    assert host.huge_pages(tmp_path / "absent") is None


def test_this_process_can_run_somewhere() -> None:
    cpus = host.usable_cpus()
    assert len(cpus) >= 1 and list(cpus) == sorted(set(cpus))


@pytest.mark.parametrize(
    ("cpus", "text"),
    [((), ""), ((3,), "3"), ((0, 1, 2, 3), "0-3"), ((8, 0, 1, 2), "0-2,8"), ((1, 1, 3), "1,3")],
)
def test_cores_are_written_as_linux_does(cpus: Sequence[int], text: str) -> None:
    assert host.ranges(cpus) == text


def put(folder: Path, **files: str) -> None:
    """Write small files, where two underscores stand for a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def test_what_the_clock_may_do_is_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        cpu0__cpufreq__scaling_governor="performance",
        cpu0__cpufreq__scaling_max_freq="3500000",
        cpu1__cpufreq__scaling_governor="powersave",
        cpu1__cpufreq__scaling_max_freq="2900000",
        intel_pstate__no_turbo="1",
    )
    both = {"governor": "performance,powersave", "max": 3.5e9, "boost": False}
    assert host.clock_limits((0, 1), tmp_path) == both
    assert host.clock_limits((1,), tmp_path)["max"] == 2.9e9


def test_boost_has_two_switches(tmp_path: Path) -> None:
    put(tmp_path, cpufreq__boost="1", intel_pstate__no_turbo="1")
    assert host.clock_limits((0,), tmp_path) == {"boost": True}


def test_a_system_that_says_nothing_about_clocks_has_no_limits(tmp_path: Path) -> None:
    put(tmp_path, cpu0__cpufreq__scaling_max_freq="<unsupported>")
    assert host.clock_limits((0,), tmp_path) == {}
