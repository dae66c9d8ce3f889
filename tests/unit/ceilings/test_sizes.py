"""Working sets: between two levels, whatever the caches; DRAM windows that leave the caches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hroof.ceilings.host import Cache
from hroof.ceilings.sizes import dram_windows, working_sets
from hroof.units import MemoryLevel

KIB, MIB = 1024, 1024**2
L1 = Cache(MemoryLevel.L1, 100_000, 2, 1, 200_000)
L2 = Cache(MemoryLevel.L2, 1_000_000, 2, 1, 2_000_000)
L3 = Cache(MemoryLevel.L3, 32_000_000, 1, 2, 32_000_000)


def test_sizes_lie_on_the_way_from_the_nearer_level_to_the_level_itself() -> None:
    near, far = working_sets([L1, L2])
    # L1: 0.45, 0.6, 0.75 of 0.9 × 100 000. L2: from 160 000 to 900 000.
    assert near.sizes == (40_500, 54_000, 67_500)
    assert far.sizes == (493_000, 604_000, 715_000)


def test_cores_that_share_a_level_divide_it() -> None:
    last = working_sets([L1, L2, L3])[-1]
    # From 1.6 MB to 0.9 × 32 MB / 2 = 14.4 MB.
    assert last.each
    assert last.sizes == (7_360_000, 9_280_000, 11_200_000)


def test_a_level_far_larger_than_the_nearer_one_has_a_small_size_too() -> None:
    huge = Cache(MemoryLevel.L3, 300_000_000, 1, 2, 300_000_000)
    last = working_sets([L1, L2, huge])[-1]
    assert last.sizes[0] == 4_000_000
    assert len(last.sizes) == 4 and last.sizes[1] > 8_000_000


def test_a_small_slice_per_core_is_used_by_all_threads_on_the_same_data() -> None:
    slices = Cache(MemoryLevel.L3, 22_000_000, 1, 16, 22_000_000)
    last = working_sets([L2, slices])[-1]
    # 0.9 × 22 MB / 16 = 1.24 MB lies below 1.6 × 1 MB, so the whole 19.8 MB counts.
    assert not last.each
    assert last.sizes[0] > 1_600_000 and last.sizes[-1] < 19_800_000


def test_a_level_no_larger_than_the_nearer_one_is_left_out() -> None:
    shrunk = Cache(MemoryLevel.L3, 1_000_000, 1, 1, 1_000_000)
    assert [sets.level for sets in working_sets([shrunk, L2])] == [MemoryLevel.L2]
    assert working_sets([]) == ()


@given(st.integers(8 * KIB, 256 * KIB), st.integers(2, 64), st.integers(2, 64), st.integers(1, 128))
def test_every_size_fits_its_level_and_not_the_nearer_one(
    first: int, second: int, third: int, sharers: int
) -> None:
    sizes = (first, first * second, first * second * third)
    caches = [
        Cache(level, size, 1, sharers, size)
        for level, size in zip(list(MemoryLevel)[:3], sizes, strict=True)
    ]
    lower = {MemoryLevel.L1: 0, MemoryLevel.L2: sizes[0], MemoryLevel.L3: sizes[1]}
    own = dict(zip(list(MemoryLevel)[:3], sizes, strict=True))
    for sets in working_sets(caches):
        assert list(sets.sizes) == sorted(sets.sizes)
        share = sharers if sets.each else 1
        assert all(lower[sets.level] < size for size in sets.sizes)
        assert all(size * share <= own[sets.level] for size in sets.sizes)


def test_windows_together_are_eight_times_the_last_cache() -> None:
    windows = dram_windows(32 * MIB, 64 * 1024 * MIB, threads=2)
    assert (windows.count, windows.size, windows.enough) == (16, 16 * MIB, True)


def test_windows_grow_with_the_threads() -> None:
    windows = dram_windows(512 * MIB, None, threads=128)
    assert windows.size == 128 * MIB
    assert windows.count * windows.size >= 8 * 512 * MIB


def test_little_memory_gives_few_windows_and_says_so() -> None:
    windows = dram_windows(32 * MIB, 256 * MIB, threads=2)
    assert windows.count * windows.size <= 64 * MIB
    assert not windows.enough


def test_an_unknown_cache_is_taken_as_large() -> None:
    assert dram_windows(None, None, threads=1).count == 8 * 64 // 16


@given(st.none() | st.integers(1, 2**30), st.none() | st.integers(0, 2**40), st.integers(1, 512))
def test_there_are_always_two_windows_of_at_least_a_megabyte(
    cache: int | None, free: int | None, threads: int
) -> None:
    windows = dram_windows(cache, free, threads)
    assert windows.count >= 2 and windows.size >= MIB
    if free is not None and free >= 64 * MIB:
        assert windows.count * windows.size <= free / 4
