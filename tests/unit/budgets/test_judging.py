"""One number against one limit: bounds, tolerance, noise, and what cannot be said."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hroof.budgets import QUANTITIES, Kind, Limit, Quantity, Reading, Scope, Verdict
from hroof.budgets.judging import Judged, judge, worst
from hroof.units import Source

TIME, FLOP, SHARE = QUANTITIES["time"], QUANTITIES["flop"], QUANTITIES["share_unattributed"]
OK, NOISE, OVER, UNKNOWN = Verdict.OK, Verdict.NOISE, Verdict.OVER, Verdict.UNKNOWN


def limit(kind: str, value: float, tolerance: float = 0.0, of: Quantity = FLOP) -> Limit:
    return Limit(Scope(), of, Kind(kind), value, tolerance)


def exact(value: float, trust: Source = Source.COUNTED) -> Reading:
    return Reading(value, source=str(trust), trust=trust)


def timed(*steps: float) -> Reading:
    return Reading(sorted(steps)[len(steps) // 2], steps, "measured", Source.MEASURED)


def judged(kind: str, value: float, number: float, tolerance: float = 0.0) -> Judged:
    return judge(limit(kind, value, tolerance), exact(number), None)


@pytest.mark.parametrize(
    ("kind", "value", "tolerance", "number", "verdict"),
    [
        ("max", 100, 0, 100, OK),
        ("max", 100, 0, 101, OVER),
        ("max", 100, 0, 100 + 1e-12, OK),
        ("max", 0, 0, 0, OK),
        ("max", 0, 0, 1, OVER),
        ("max", 100, 0.05, 105, OK),
        ("max", 100, 0.05, 106, OVER),
        ("min", 100, 0, 100, OK),
        ("min", 100, 0, 99, OVER),
        ("min", 100, 0.05, 95, OK),
        ("min", 100, 0.05, 94, OVER),
        ("equals", 100, 0, 100, OK),
        ("equals", 100, 0, 101, OVER),
        ("equals", 100, 0, 99, OVER),
        ("equals", 100, 0.02, 98, OK),
        ("equals", 100, 0.02, 103, OVER),
        ("equals", 0, 0, 0, OK),
        ("equals", 0, 0, 1, OVER),
    ],
)
def test_limits(kind: str, value: float, tolerance: float, number: float, verdict: Verdict) -> None:
    assert judged(kind, value, number, tolerance).verdict is verdict


def test_the_bound_has_the_tolerance_in_it() -> None:
    found = judged("max", 100, 110, 0.05)
    assert found.bound == 105
    assert found.excess == pytest.approx(5)
    assert judged("min", 100, 90, 0.05).excess == pytest.approx(5)
    assert judged("equals", 100, 90, 0.05).excess == pytest.approx(5)


class TestNoise:
    @pytest.mark.parametrize(
        ("bound", "steps", "verdict"),
        [
            (10, (10, 10, 10), OK),
            (9.9, (10, 10, 10), OVER),
            (9, (9, 10, 11), NOISE),
            (8, (9, 10, 11), NOISE),
            (7.9, (9, 10, 11), OVER),
            (9.9, (10,), OVER),
            (9.9, (), OVER),
            # From 8 steps on the distance between the quartiles: one odd step is no noise.
            (9.9, (10, 10, 10, 10, 10, 10, 10, 90), OVER),
        ],
    )
    def test_of_a_maximum(self, bound: float, steps: tuple[float, ...], verdict: Verdict) -> None:
        reading = timed(*steps) if steps else Reading(10.0)
        assert judge(limit("max", bound, of=TIME), reading, None).verdict is verdict

    def test_of_a_minimum(self) -> None:
        rate = QUANTITIES["flop_rate"]
        assert judge(limit("min", 11, of=rate), timed(9, 10, 11), None).verdict is NOISE
        assert judge(limit("min", 13, of=rate), timed(9, 10, 11), None).verdict is OVER

    def test_is_no_excuse_when_strict(self) -> None:
        found = judge(limit("max", 9, of=TIME), timed(9, 10, 11), None, strict=True)
        assert found.verdict is OVER

    def test_that_hides_everything_is_no_verdict(self) -> None:
        found = judge(limit("max", 9, of=TIME), timed(1, 10, 100), None)
        assert found.verdict is UNKNOWN
        assert "scatters by more than its limit" in found.note
        wide = judge(limit("max", 60, of=TIME), timed(1, 100, 101), None)
        assert wide.verdict is UNKNOWN

    def test_of_counts_there_is_none(self) -> None:
        reading = Reading(101.0, (50.0, 101.0, 150.0))
        assert judge(limit("max", 100), reading, None).verdict is OVER

    def test_says_how_much(self) -> None:
        found = judge(limit("max", 9, of=TIME), timed(9, 10, 11), None)
        assert found.noise == pytest.approx(2)
        assert "less than the steps scatter" in found.note
        assert "1 step" in judge(limit("max", 9, of=TIME), timed(10), None).note


class TestBaseline:
    @pytest.mark.parametrize(
        ("kind", "share", "before", "now", "verdict"),
        [
            ("rise", 0.05, 100, 105, OK),
            ("rise", 0.05, 100, 106, OVER),
            ("rise", 0.05, 100, 10, OK),
            ("rise", 0.0, 0, 0, OK),
            ("rise", 0.5, 0, 1, OVER),
            ("fall", 0.05, 100, 95, OK),
            ("fall", 0.05, 100, 94, OVER),
            ("fall", 0.05, 100, 1000, OK),
        ],
    )
    def test_limits(
        self, kind: str, share: float, before: float, now: float, verdict: Verdict
    ) -> None:
        assert judge(limit(kind, share), exact(now), exact(before)).verdict is verdict

    def test_shares_rise_by_points(self) -> None:
        found = judge(limit("rise", 0.05, of=SHARE), exact(0.06), exact(0.02))
        assert found.verdict is OK
        assert found.bound == pytest.approx(0.07)

    @pytest.mark.parametrize(
        ("before", "now", "verdict"),
        [
            ((10, 10, 10), (10.4, 10.4, 10.4), OK),
            # Even steps that agree are noise of 2 %: another run differs by as much.
            ((10, 10, 10), (10.6, 10.6, 10.6), NOISE),
            ((10, 10, 10), (10.8, 10.8, 10.8), OVER),
            ((9, 10, 11), (12, 13, 14), NOISE),
            ((9, 10, 11), (14, 15, 16), OVER),
            ((10,), (12, 12, 12), UNKNOWN),
            ((10, 10, 10), (12,), UNKNOWN),
            ((10,), (10.1,), OK),
        ],
    )
    def test_noise_of_both(
        self, before: tuple[float, ...], now: tuple[float, ...], verdict: Verdict
    ) -> None:
        found = judge(limit("rise", 0.05, of=TIME), timed(*now), timed(*before))
        assert found.verdict is verdict

    @pytest.mark.parametrize(
        ("before", "now", "verdict"),
        [
            (Source.COUNTED, Source.CONVENTION, OK),
            (Source.COUNTED, Source.COUNTER, UNKNOWN),
            (Source.PREDICTED, Source.COUNTED, UNKNOWN),
        ],
    )
    def test_only_alike_is_compared(self, before: Source, now: Source, verdict: Verdict) -> None:
        found = judge(limit("rise", 0.05), exact(100, now), exact(100, before))
        assert found.verdict is verdict

    def test_that_does_not_have_it(self) -> None:
        found = judge(limit("rise", 0.05), exact(100), Reading(math.nan, note="no FLOP are known"))
        assert found.verdict is UNKNOWN
        assert found.note == "of the baseline: no FLOP are known"
        assert judge(limit("rise", 0.05), exact(100), None).verdict is UNKNOWN


class TestLowerBounds:
    @pytest.mark.parametrize(
        ("kind", "value", "known", "verdict"),
        [
            ("max", 100, 0.9, OK),
            ("max", 100, 0.4, UNKNOWN),
            ("max", 99, 0.4, OVER),
            ("min", 100, 0.1, OK),
            ("min", 101, 0.9, UNKNOWN),
            ("equals", 100, 0.9, OK),
            ("equals", 100, 0.4, UNKNOWN),
            ("equals", 99, 0.4, OVER),
            ("equals", 101, 0.9, UNKNOWN),
        ],
    )
    def test_prove_what_is_too_much_only(
        self, kind: str, value: float, known: float, verdict: Verdict
    ) -> None:
        reading = Reading(100, source="counted", lower=True, known=known, note="at least")
        found = judge(limit(kind, value), reading, None)
        assert found.verdict is verdict
        assert ("may be too much" in found.note or "nobody knows" in found.note) is (
            verdict is UNKNOWN
        )

    @pytest.mark.parametrize(
        ("kind", "before", "verdict"), [("fall", 200, UNKNOWN), ("rise", 50, OVER)]
    )
    def test_of_a_baseline(self, kind: str, before: float, verdict: Verdict) -> None:
        reading = Reading(100, source="counted", lower=True, known=0.9)
        assert judge(limit(kind, 0.05), reading, exact(before)).verdict is verdict


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_the_run_does_not_have(value: float) -> None:
    found = judge(limit("max", 1), Reading(value, note="no FLOP are known"), None)
    assert (found.verdict, found.note) == (UNKNOWN, "no FLOP are known")
    assert judge(limit("max", 1), Reading(value), None).note == "the run does not have it"


def test_the_verdict_of_several() -> None:
    assert worst([OK, NOISE]) is OK
    assert worst([OK, UNKNOWN, NOISE]) is UNKNOWN
    assert worst([UNKNOWN, OVER]) is OVER
    assert worst([]) is OK


_NUMBERS = st.floats(0, 1e12)
_STEPS = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12)


@given(_NUMBERS, _NUMBERS, st.floats(0, 1))
def test_what_keeps_a_limit_keeps_a_looser_one(
    value: float, number: float, tolerance: float
) -> None:
    for kind in ("max", "min", "equals"):
        tight, loose = (judged(kind, value, number, by).verdict for by in (0.0, tolerance))
        assert not (tight is OK and loose is OVER)


@given(st.floats(1e-3, 1e3), _STEPS)
def test_strict_is_never_kinder(value: float, steps: list[float]) -> None:
    reading = timed(*steps)
    kind, strict = (
        judge(limit("max", value, of=TIME), reading, None, strict=by).verdict
        for by in (False, True)
    )
    assert strict is (OK if reading.value <= value * (1 + 1e-9) else OVER)
    assert (kind is OK) is (strict is OK)
