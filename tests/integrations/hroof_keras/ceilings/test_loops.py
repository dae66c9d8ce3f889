"""Loops that XLA compiles for ceilings: that they read, write and compute what they are counted for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

tensorflow = pytest.importorskip("tensorflow")

from hroof_keras.ceilings.loops import MIXES, REWRITE, Chains, Fold, Mix, joined  # noqa: E402
from hroof_keras.ceilings.xla import Program, constant, scalar  # noqa: E402

Array = np.ndarray[Any, np.dtype[np.float32]]


def values(*shape: int) -> Array:
    return np.random.default_rng(1).random(shape, np.float32)


def run(function: Any, *arguments: Any) -> Array:
    """What a program gives for arrays and whole numbers."""
    tensors = [scalar(a) if isinstance(a, int) else tensorflow.constant(a) for a in arguments]
    given: Any = Program(function).call(*tensors)()
    return np.asarray(given[0] if isinstance(given, list | tuple) else given)


def folded(fold: Fold, x: Array, total: Array, rows: list[int]) -> Array:
    """What a fold over some rows gives, by NumPy."""
    for row in rows:
        slices = [x[row, k * fold.step : k * fold.step + fold.width] for k in range(fold.parts)]
        total = total * np.float32(0.5) + joined(slices)
    return total


# --- fold ---------------------------------------------------------------------------------------


def test_three_parts_become_one() -> None:
    assert joined([5]) == 5
    assert joined([2, 3, 4]) == 10
    assert joined([2, 3, 4, 1, 1, 1, 0, 0, 7]) == 10 * 2 + 7


def test_parts_that_are_no_power_of_three_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        joined([1, 2])


def test_slices_apart_read_every_float_once() -> None:
    fold = Fold.apart(9, 912)
    assert fold.row * 4 == fold.nbytes == 9 * 912 * 4


def test_slices_that_overlap_stay_within_the_row() -> None:
    fold = Fold.overlapping(27, 9216)
    assert fold.row <= 9216 < fold.row + 64
    assert fold.nbytes == 27 * fold.width * 4 > 6 * 9216 * 4


def test_overlapping_slices_share_no_vector_of_an_unrolled_turn() -> None:
    """Four vectors of 16 floats: closer, and one load would serve two slices."""
    assert Fold.overlapping(81, 9216).step >= 4 * 16


def test_a_walk_reads_the_rows_that_it_is_asked_for() -> None:
    fold = Fold.apart(9, 48)
    x, sums = values(6, fold.row), values(2, fold.width)
    found = run(fold.walk(), x, sums, 0, 2, 1, 3)
    wanted = folded(fold, x, sums[0], [1, 2, 3, 1, 2, 3])
    assert np.allclose(found[0], wanted, rtol=1e-5)
    assert np.array_equal(found[1], sums[1])


@pytest.mark.parametrize("part", range(9))
def test_every_slice_is_read_for_real(part: int) -> None:
    """A change of one number in each of them changes the result, so XLA has left none out."""
    fold = Fold.overlapping(9, 700)
    x, sums = values(2, 700), np.zeros((2, fold.width), np.float32)
    before = run(fold.stay(), x, sums, 0, 3)
    x[0, part * fold.step + fold.width - 1] += 1.0
    assert not np.array_equal(run(fold.stay(), x, sums, 0, 3), before)


def test_who_stays_reads_one_row_of_overlapping_slices() -> None:
    fold = Fold.overlapping(27, 2200)
    x, sums = values(2, 2200), values(2, fold.width)
    found = run(fold.stay(), x, sums, 0, 4)
    assert np.allclose(found[0], folded(fold, x, sums[0], [0, 0, 0, 0]), rtol=1e-4)


def test_values_of_a_half_stay_of_the_order_of_one() -> None:
    fold = Fold.apart(27, 16)
    x, sums = np.full((2, fold.row), 0.5, np.float32), np.full((2, 16), 0.5, np.float32)
    found = run(fold.walk(), x, sums, 0, 50, 0, 2)
    assert np.all((found > 0.1) & (found < 10))


# --- mixes --------------------------------------------------------------------------------------


def mixed(mix: Mix, sources: list[Array], first: int, count: int) -> Array:
    """What a mix makes of five rows of ones, by two passes over some of them."""
    y = tensorflow.Variable(tensorflow.ones([5, 32]))
    given = [tensorflow.constant(each) for each in sources]
    numbers = [scalar(number) for number in (2, first, count)]
    Program(mix.walk()).call(y, *given, constant(0.5), *numbers)()
    return np.asarray(y)


def test_rewriting_changes_rows_in_place() -> None:
    found = mixed(REWRITE, [], 1, 3)
    assert np.array_equal(found, np.repeat([[1], [0.625], [0.625], [0.625], [1]], 32, axis=1))


def test_a_copy_copies() -> None:
    source = values(5, 32)
    found = mixed(MIXES[0], [source], 0, 4)
    assert np.array_equal(found[:4], source[:4]) and np.all(found[4] == 1)


def test_a_triad_adds_a_multiple() -> None:
    left, right = values(5, 32), values(5, 32) + 1
    found = mixed(MIXES[1], [left, right], 2, 3)
    assert np.allclose(found[2:], left[2:] * 0.5 + right[2:]) and np.all(found[:2] == 1)


def compiled_text(*arguments: Any) -> str:
    """The program that XLA makes of rewriting."""
    function = tensorflow.function(REWRITE.walk(), jit_compile=True, autograph=False)
    return str(function.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo"))


def test_a_variable_is_written_where_it_lies() -> None:
    """XLA would copy a tensor before every call, which is no traffic that is counted."""
    y = tensorflow.Variable(tensorflow.ones([4, 64]))
    text = compiled_text(y, constant(0.5), scalar(1), scalar(0), scalar(4))
    assert "f32[4,64]" in text
    assert not re.search(r"f32\[4,64\]\S* copy\(", text)


@pytest.mark.parametrize(("sources", "arrays", "passes"), [(0, 1, 2), (1, 2, 2), (2, 3, 3)])
def test_passes_are_reads_and_writes(sources: int, arrays: int, passes: int) -> None:
    mix = Mix("", sources, "")
    assert (mix.arrays, mix.passes) == (arrays, passes)


# --- chains -------------------------------------------------------------------------------------


def chained(chains: Chains, x: Array, y: float, z: float) -> Array:
    """One turn, by NumPy."""
    links = [x * (0.5 + k / 64) + (0.25 + k / 64) for k in range(chains.count)]
    for _ in range(chains.steps - 1):
        links = [
            (link * y + z if chains.fused else link * y if number % 2 else link + z)
            for number, link in enumerate(links)
        ]
    while len(links) > 1:
        links = [*links[3:], links[0] * links[1] + links[2]]
    return links[0]


@pytest.mark.parametrize("chains", [Chains(9, 12), Chains(3, 2), Chains(5, 4, fused=False)])
def test_chains_compute_every_link(chains: Chains) -> None:
    x = values(2, 64)
    found = run(chains.function(), x, np.float32(0.5), np.float32(0.25), 0, 1)
    assert np.allclose(found[0], chained(chains, x[0], 0.5, 0.25), rtol=1e-4)
    assert np.array_equal(found[1], x[1])


def test_turns_follow_each_other() -> None:
    chains, x = Chains(3, 4), values(2, 16)
    found = run(chains.function(), x, np.float32(0.5), np.float32(0.25), 0, 2)
    once = chained(chains, x[0], 0.5, 0.25)
    assert np.allclose(found[0], chained(chains, once, 0.5, 0.25), rtol=1e-4)


def test_multiply_adds_are_counted_twice_and_others_once() -> None:
    # 9 chains of 12, and 4 multiply-adds that join three results into one.
    assert Chains(9, 12).flop == 2 * (9 * 12 + 4)
    # The first link of each chain is made by a multiply-add, which does not count here.
    assert Chains(17, 8, fused=False).flop == 17 * 7


def test_chains_keep_their_values_of_the_order_of_one() -> None:
    x = np.full((2, 16), 0.5, np.float32)
    found = run(Chains(9, 12).function(), x, np.float32(0.5), np.float32(0.25), 0, 200)
    assert np.all((found > 0.1) & (found < 2))
