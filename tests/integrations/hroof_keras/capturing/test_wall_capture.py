"""Where only whole steps are known: how many, how long, and what is said to be missing."""

from __future__ import annotations

import pytest

pytest.importorskip("keras")
pytest.importorskip("tensorflow")

import hroof
from hroof.integration import Stage
from hroof.profile import Profile
from hroof.regions import Region, Status, only_marked
from hroof.report import brief
from hroof_keras import backends, executions
from hroof_keras.capturing.wall_capture import OP, WallCapture
from hroof_keras.description import STEPS_FOUND
from tests.integrations.hroof_keras import tiny


@pytest.fixture(autouse=True)
def walls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HROOF", raising=False)
    monkeypatch.setattr(backends, "capture", WallCapture)


def measured(skip: int, steps: int, batches: int, **options: int) -> Region:
    with Region("region", skip, steps, framework="keras") as region:
        tiny.fit(tiny.model(**options), batches)
    assert executions._listeners == ()
    return region


def profile(region: Region) -> Profile:
    assert region.outcome.profile is not None
    return region.outcome.profile


def test_one_row_for_each_step() -> None:
    found = profile(measured(1, 3, 6))
    rows = found.launches
    assert list(rows["op"]) == [OP] * 3
    assert list(rows["step"]) == [0, 1, 2]
    assert (rows["duration"] > 0).all()
    assert set(rows["source_time"]) == {"measured"}
    assert rows["layer"].isna().all()
    assert set(rows["source_flop"]) == {"missing"}


def test_steps_are_those_of_the_region() -> None:
    run = profile(measured(1, 3, 6)).run
    assert [(step["number"], step["count"]) for step in run["steps"]] == [(2, 1), (3, 1), (4, 1)]
    assert all(step["wall"] > 0 for step in run["steps"])


def test_several_at_once_are_one_row() -> None:
    run = profile(measured(4, 4, 14, steps_per_execution=4)).run
    assert [(step["number"], step["count"]) for step in run["steps"]] == [(8, 4)]


def test_what_is_missing_is_said_in_the_run_and_in_the_report() -> None:
    found = profile(measured(1, 1, 4))
    said = found.run["warnings"][0]
    assert said.startswith("Keras runs on tensorflow: steps and their times are known")
    assert found.run["ops_without_rule"] == [OP]
    assert "Layers, phases and work need" in " ".join(brief.render(found, None).split())


def test_loops_that_tell_steps_themselves() -> None:
    made, (x, y) = tiny.model(), tiny.data(1)
    with Region("region", 1, 2, framework="keras") as region:
        for _ in range(4):
            made.train_on_batch(x, y)
            hroof.step()
    found = profile(region)
    assert [step["count"] for step in found.run["steps"]] == [1, 1]
    assert len(found.run["warnings"]) == 1  # how steps were found needs no word


def test_how_steps_were_found_is_said_only_where_hroof_looked_for_them() -> None:
    assert STEPS_FOUND not in profile(measured(1, 2, 5)).run["warnings"]
    made, (x, y) = tiny.model(), tiny.data(1)
    with Region("region", 1, 2, framework="keras") as region:
        for _ in range(5):
            made.train_on_batch(x, y)
    assert STEPS_FOUND in profile(region).run["warnings"]


def test_where_a_tool_outside_measures_steps_are_only_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HROOF", "marks")
    found = profile(measured(1, 2, 6))
    assert only_marked(found)
    steps = found.run["steps"]
    assert [(step["number"], step["wall"]) for step in steps] == [(1, None), (2, None)]
    assert all(step["marked_wall"] > 0 for step in steps)


def test_nothing_timed_is_no_profile() -> None:
    region = measured(5, 3, 4)
    assert region.outcome.status is Status.EMPTY
    assert region.outcome.profile is None
    assert "It saw 4 executions." in region.outcome.reason


def test_detached_twice() -> None:
    capture = WallCapture(tiny.Sink(Stage.SKIP))
    capture.stage(Stage.DONE)
    capture.flush()
    capture.release()
    assert executions._listeners == ()
    assert capture.profile() is None
