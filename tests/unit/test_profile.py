"""Profile: the schema's strictness, the way to disk and back, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from hroof.errors import OutputError, ProfileError
from hroof.profile import (
    CONVENTIONS,
    SCHEMA,
    SCHEMA_VERSION,
    Profile,
    bytes_column,
    conform,
    flop_column,
    source_column,
)
from hroof.units import MemoryLevel, Phase, Pipe, Precision, Source

FLOP = flop_column("least", Pipe.MATRIX, Precision.FP32)
ROWS: list[dict[str, Any]] = [
    {"launch_id": 0, "step": 0, "phase": "forward", "layer": "head", "op": "aten::mm", FLOP: 8.0},
    {"launch_id": 1, "step": 0, "phase": "backward", "layer": None, "op": "aten::add"},
    {"launch_id": 2, "step": 1, "phase": "optimizer", "layer": "head", "duration": 2e-6},
]


def values_of(column: Any) -> st.SearchStrategy[Any]:
    if column.dtype == "int":
        return st.integers(min_value=-(2**53), max_value=2**53)
    if column.dtype == "float":
        return st.floats() | st.just(float("nan"))
    if column.dtype == "bool":
        return st.booleans()
    texts = st.sampled_from(column.values) if column.values else st.text(max_size=6)
    return st.none() | texts


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Rows of a few ranks with any subset of the other columns."""
    rows = draw(st.integers(min_value=0, max_value=5))
    chosen = draw(st.sets(st.sampled_from(sorted(set(SCHEMA) - {"rank"})), max_size=6))
    data = {
        name: draw(st.lists(values_of(SCHEMA[name]), min_size=rows, max_size=rows))
        for name in sorted(chosen)
    }
    data["rank"] = sorted(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)))
    return pd.DataFrame(data)


def saved(tmp_path: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    return Profile.from_rows(rows or ROWS, {"name": "train"}).save(tmp_path / "run")


# --- schema -------------------------------------------------------------------------------------


def test_absent_columns_get_the_defaults_of_the_schema() -> None:
    frame = conform(pd.DataFrame({"op": ["a", "b"]}))
    assert list(frame.columns) == list(SCHEMA)
    assert list(frame["launch_id"]) == [0, 1]
    assert list(frame["launches"]) == [1.0, 1.0]
    assert list(frame["step"]) == [-1, -1]
    assert list(frame["phase"]) == [Phase.OTHER, Phase.OTHER]
    assert list(frame["source_time"]) == [Source.MISSING, Source.MISSING]
    assert frame["layer"].isna().all()


def test_missing_work_is_nan_and_never_zero() -> None:
    frame = conform(pd.DataFrame(ROWS))
    assert frame[FLOP].isna().tolist() == [False, True, True]
    assert frame[bytes_column(MemoryLevel.DRAM)].isna().all()


def test_every_pair_level_and_source_has_its_column() -> None:
    for convention in CONVENTIONS:
        for pipe in Pipe:
            for precision in Precision:
                assert flop_column(convention, pipe, precision) in SCHEMA
    assert {bytes_column(level) for level in MemoryLevel} <= set(SCHEMA)
    assert {source_column(quantity) for quantity in ("time", "flop", *MemoryLevel)} <= set(SCHEMA)


def test_dtypes_are_those_of_the_schema() -> None:
    wanted = {"int": "int64", "float": "float64", "bool": "bool", "category": "category"}
    frame = conform(pd.DataFrame(ROWS))
    assert {name: str(frame[name].dtype) for name in SCHEMA} == {
        name: wanted[column.dtype] for name, column in SCHEMA.items()
    }


def test_an_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(ProfileError, match="'flops', 'time'") as caught:
        Profile.from_rows([{"flops": 1.0, "time": 2.0}])
    assert "SCHEMA" in caught.value.remedy


def test_a_column_given_twice_is_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["step", "step"])
    with pytest.raises(ProfileError, match="'step' twice"):
        conform(frame)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("phase", "fwd"),
        ("source_time", "guessed"),
        ("duration", "long"),
        ("step", 1.5),
        ("step", float("nan")),
        ("step", float("inf")),
        ("step", "first"),
        ("step", None),
        ("aggregate", "False"),
        ("aggregate", float("nan")),
        ("recompute", None),
        ("recompute", 2),
    ],
)
def test_values_of_another_kind_are_refused_by_column(name: str, value: object) -> None:
    with pytest.raises(ProfileError, match=f"Column {name!r} of the trace"):
        conform(pd.DataFrame({name: [value]}), where="trace")


@pytest.mark.parametrize("empty", [[], pd.DataFrame(), pd.DataFrame({"op": []})])
def test_no_rows_are_a_table_too(empty: Any) -> None:
    profile = Profile.from_rows(empty)
    assert list(profile.launches.columns) == list(SCHEMA)
    assert len(profile.launches) == profile.step_count == 0


def test_categories_do_not_depend_on_the_order_of_rows() -> None:
    one = conform(pd.DataFrame({"op": ["b", "a", None]}))["op"]
    other = conform(pd.DataFrame({"op": pd.Categorical([None, "a", "b"], ["z", "b", "a"])}))["op"]
    assert list(one.cat.categories) == list(other.cat.categories) == ["a", "b"]
    assert one.isna().tolist() == [False, False, True]


def test_an_index_of_the_caller_does_not_matter() -> None:
    frame = pd.DataFrame({"step": [4, 5]}, index=[7, 7])
    assert list(conform(frame)["step"]) == [4, 5]


def test_the_callers_rows_and_run_stay_as_they_were() -> None:
    frame, run = pd.DataFrame({"op": ["a"]}), {"name": "x"}
    profile = Profile.from_rows(frame, run)
    profile.run["name"] = "y"
    assert (list(frame.columns), run) == (["op"], {"name": "x"})


@given(tables())
def test_conforming_twice_changes_nothing(frame: pd.DataFrame) -> None:
    once = conform(frame)
    assert_frame_equal(once, conform(once))


# --- to disk and back ---------------------------------------------------------------------------


def test_a_profile_comes_back_as_it_was(tmp_path: Path) -> None:
    profile = Profile.from_rows(ROWS, {"name": "train", "steps": [{"step": 0, "wall": 0.5}]})
    back = Profile.load(profile.save(tmp_path / "a" / "run"))
    assert_frame_equal(back.launches, profile.launches)
    assert back.run == profile.run
    assert (back.name, back.step_count) == ("train", 2)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=tables())
def test_any_table_comes_back_as_it_was(tmp_path: Path, frame: pd.DataFrame) -> None:
    profile = Profile.from_rows(frame)
    back = Profile.load(profile.save(tmp_path / "run", force=True))
    assert_frame_equal(back.launches, profile.launches)


def test_an_empty_profile_comes_back_empty(tmp_path: Path) -> None:
    back = Profile.load(Profile.from_rows([]).save(tmp_path / "run"))
    assert back.launches.empty
    assert (back.name, back.step_count) == ("run", 0)


def test_a_rank_is_a_part(tmp_path: Path) -> None:
    folder = saved(tmp_path, [{"rank": 1, "op": "b"}, {"rank": 0, "op": "a"}, {"rank": 1}])
    assert sorted(p.name for p in folder.iterdir()) == [
        "launches-0.parquet",
        "launches-1.parquet",
        "run.json",
    ]
    assert list(Profile.load(folder).launches["rank"]) == [0, 1, 1]


def test_run_json_says_what_it_is(tmp_path: Path) -> None:
    run = json.loads((saved(tmp_path) / "run.json").read_text())
    assert (run["kind"], run["schema"], run["ranks"]) == ("hroof profile", SCHEMA_VERSION, [0])


def test_equal_profiles_are_equal_files(tmp_path: Path) -> None:
    one, two = saved(tmp_path / "1"), saved(tmp_path / "2")
    for name in ("run.json", "launches-0.parquet"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


# --- writing that goes wrong --------------------------------------------------------------------


def test_a_profile_that_is_there_is_kept(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    with pytest.raises(OutputError, match="holds a profile already") as caught:
        Profile.from_rows([]).save(folder)
    assert "--force" in caught.value.remedy
    assert len(Profile.load(folder).launches) == len(ROWS)


def test_force_replaces_every_file_of_the_old_profile_and_no_other(tmp_path: Path) -> None:
    folder = saved(tmp_path, [{"rank": 0}, {"rank": 5}])
    (folder / "machine.json").write_text("{}")
    Profile.from_rows([{"rank": 2}]).save(folder, force=True)
    assert sorted(p.name for p in folder.iterdir()) == [
        "launches-2.parquet",
        "machine.json",
        "run.json",
    ]


def test_a_full_disk_keeps_the_old_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(tmp_path)

    def full(self: pd.DataFrame, path: Path, **options: object) -> None:
        path.write_bytes(b"PAR1 half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    with pytest.raises(OutputError, match="No space left"):
        Profile.from_rows([]).save(folder, force=True)
    assert len(Profile.load(folder).launches) == len(ROWS)
    assert len(list(folder.iterdir())) == 2


def test_a_file_in_place_of_the_folder_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputError, match="Cannot write"):
        Profile.from_rows(ROWS).save(tmp_path / "taken" / "run")


KILLED = """
import os, signal, sys
import pandas as pd
from pathlib import Path
from hroof.profile import Profile
step = sys.argv[2]
original, replace = pd.DataFrame.to_parquet, Path.replace
def half(self, path, **options):
    original(self, path, **options)
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
def moving(self, target):
    if Path(target).name == step:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
if step == "while writing":
    pd.DataFrame.to_parquet = half
Path.replace = moving
Profile.from_rows([{"rank": 0}, {"rank": 1}]).save(sys.argv[1], force=True)
"""


def kill_a_save(folder: Path, step: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), step], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("step", ["while writing", "launches-1.parquet", "run.json"])
def test_a_killed_save_leaves_nothing_that_loads(tmp_path: Path, step: str) -> None:
    kill_a_save(tmp_path / "run", step)
    with pytest.raises(ProfileError, match="does not exist"):
        Profile.load(tmp_path / "run")


def test_a_save_killed_while_writing_keeps_the_old_profile(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    kill_a_save(folder, "while writing")
    assert len(Profile.load(folder).launches) == len(ROWS)


def test_after_a_killed_save_another_one_works(tmp_path: Path) -> None:
    kill_a_save(tmp_path / "run", "run.json")
    assert len(Profile.load(saved(tmp_path)).launches) == len(ROWS)


# --- what is refused ----------------------------------------------------------------------------


def refused(folder: Path, match: str) -> str:
    with pytest.raises(ProfileError, match=match) as caught:
        Profile.load(folder)
    assert caught.value.remedy
    return caught.value.fact


def edit_run(folder: Path, **changes: object) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_an_absent_folder_is_refused(tmp_path: Path) -> None:
    assert str(tmp_path / "no") in refused(tmp_path / "no", "does not exist")


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    refused(tmp_path / "a", "is not a folder")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, r"run\.json' does not exist")


def test_a_foreign_run_json_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "run.json").write_text('{"kind": "other tool", "schema": 1}')
    refused(folder, "did not write")


def test_a_half_run_json_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text[: len(text) // 2])
    refused(folder, "damaged")


def test_a_newer_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    edit_run(folder, schema=SCHEMA_VERSION + 1)
    fact = refused(folder, f"has schema {SCHEMA_VERSION + 1}")
    assert f"up to {SCHEMA_VERSION}" in fact


@pytest.mark.parametrize("schema", [None, 0, -1, "1", True, 1.0])
def test_an_invalid_schema_number_is_refused(tmp_path: Path, schema: object) -> None:
    folder = saved(tmp_path)
    edit_run(folder, schema=schema)
    refused(folder, "no valid schema number")


@pytest.mark.parametrize("ranks", [None, [], 0, "0", ["0"], [None], {"0": 1}])
def test_a_run_that_does_not_list_its_ranks_is_refused(tmp_path: Path, ranks: object) -> None:
    folder = saved(tmp_path)
    edit_run(folder, ranks=ranks)
    refused(folder, "does not list its ranks")


def test_an_incomplete_copy_is_refused_by_the_part_that_is_missing(tmp_path: Path) -> None:
    folder = saved(tmp_path, [{"rank": 0}, {"rank": 3}])
    (folder / "launches-3.parquet").unlink()
    refused(folder, r"launches-3\.parquet")


def test_a_part_that_the_run_does_not_list_is_not_read(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "launches-9.parquet").write_bytes(b"left behind")
    assert len(Profile.load(folder).launches) == len(ROWS)


def test_a_part_under_another_ranks_name_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, [{"rank": 0}, {"rank": 1}])
    shutil.copy(folder / "launches-0.parquet", folder / "launches-1.parquet")
    refused(folder, "another rank than 1")


def test_a_parquet_of_another_tool_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    pd.DataFrame({"launch_id": [1], "rank": [0], "ts": [5]}).to_parquet(
        folder / "launches-0.parquet"
    )
    refused(folder, r"launches-0\.parquet has columns .* 'ts'")


@pytest.mark.parametrize("name", ["launch_id", "rank"])
def test_a_parquet_that_is_no_launch_table_is_refused(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path)
    path = folder / "launches-0.parquet"
    pd.read_parquet(path).drop(columns=name).to_parquet(path)
    refused(folder, f"not a launch table: it has no column {name!r}")


def test_a_parquet_with_wrong_categories_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    path = folder / "launches-0.parquet"
    pd.read_parquet(path).assign(phase="sideways").to_parquet(path)
    refused(folder, "'sideways' is none of")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"no parquet at all" * 9])
def test_a_damaged_part_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = saved(tmp_path)
    (folder / "launches-0.parquet").write_bytes(content)
    refused(folder, r"launches-0\.parquet' is damaged")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(min_value=0, max_value=0.999))
def test_a_part_cut_anywhere_is_refused(tmp_path: Path, cut: float) -> None:
    folder = Profile.from_rows(ROWS).save(tmp_path / "run", force=True)
    path = folder / "launches-0.parquet"
    data = path.read_bytes()
    path.write_bytes(data[: int(cut * len(data))])
    refused(folder, "damaged")


def test_a_flipped_bit_in_the_numbers_is_refused(tmp_path: Path) -> None:
    folder = Profile.from_rows([{"duration": 0.123456789}]).save(tmp_path / "run")
    path = folder / "launches-0.parquet"
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(bytes(data))
    refused(folder, "damaged")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(min_value=0, max_value=0.999), bit=st.integers(0, 7))
def test_a_flipped_bit_anywhere_never_changes_a_number(
    tmp_path: Path, place: float, bit: int
) -> None:
    profile = Profile.from_rows(ROWS)
    path = profile.save(tmp_path / "run", force=True) / "launches-0.parquet"
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1 << bit
    path.write_bytes(bytes(data))
    try:
        back = Profile.load(tmp_path / "run")
    except ProfileError:
        return
    assert_frame_equal(back.launches, profile.launches)


def test_an_unreadable_part_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "launches-0.parquet").unlink()
    (folder / "launches-0.parquet").mkdir()
    refused(folder, "launches-0")


# --- ranks --------------------------------------------------------------------------------------


def test_merging_keeps_every_row_of_every_rank() -> None:
    one = Profile.from_rows([{"rank": 0, "op": "a"}, {"rank": 0, "op": None}], {"name": "first"})
    two = Profile.from_rows([{"rank": 1, "op": "b", "duration": 1.0}], {"name": "second"})
    both = Profile.merge([one, two])
    assert list(both.launches["rank"]) == [0, 0, 1]
    assert list(both.launches["op"].cat.categories) == ["a", "b"]
    assert both.launches["duration"].isna().tolist() == [True, True, False]
    assert both.name == "first"


def test_merging_with_an_empty_rank() -> None:
    full, empty = Profile.from_rows(ROWS), Profile.from_rows([])
    assert_frame_equal(Profile.merge([empty, full]).launches, full.launches)
    assert Profile.merge([empty, empty]).launches.empty


def test_the_merged_run_is_its_own() -> None:
    one = Profile.from_rows(ROWS, {"name": "first"})
    Profile.merge([one]).run["name"] = "changed"
    assert one.name == "first"


def test_merging_nothing_is_refused() -> None:
    with pytest.raises(ProfileError, match="no profile to merge"):
        Profile.merge([])


def test_merging_the_same_rank_twice_is_refused() -> None:
    with pytest.raises(ProfileError, match="same rank"):
        Profile.merge([Profile.from_rows(ROWS), Profile.from_rows(ROWS)])


def test_steps_are_counted_once_however_many_launches_they_hold() -> None:
    profile = Profile.from_rows([{"step": step} for step in (-1, 0, 0, 7)])
    assert profile.step_count == 2


def test_replace_changes_a_copy() -> None:
    profile = Profile.from_rows(ROWS, {"name": "a"})
    assert profile.replace(run={"name": "b"}).name == "b"
    assert profile.name == "a"


def test_no_process_leaves_temporary_files_behind(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    Profile.from_rows(ROWS).save(folder, force=True)
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


# --- raw counters -------------------------------------------------------------------------------


def counted(rows: int = 3) -> Profile:
    counters = pd.DataFrame({"dram__bytes.sum": [32.0 * n for n in range(rows)], "odd:name": 1})
    launches = [{"op": "a", "rank": n % 2, "launch_id": n} for n in range(rows)]
    return Profile.from_rows(launches, {"name": "train"}, counters)


def test_counters_are_keyed_by_launch_and_come_back(tmp_path: Path) -> None:
    folder = counted().save(tmp_path / "run")
    found = Profile.load(folder).counters
    assert found is not None
    assert list(found) == ["launch_id", "rank", "dram__bytes.sum", "odd:name"]
    assert found.sort_values("launch_id")["dram__bytes.sum"].tolist() == [0.0, 32.0, 64.0]
    assert found["odd:name"].dtype == "float64"


def test_a_run_without_counters_has_none(tmp_path: Path) -> None:
    assert Profile.load(saved(tmp_path)).counters is None
    assert [path.name for path in Profile.files(tmp_path / "run")] == [
        "run.json",
        "launches-0.parquet",
    ]


def test_as_many_rows_of_counters_as_launches() -> None:
    with pytest.raises(ProfileError, match="3 launches have 2 rows"):
        Profile.from_rows([{"op": "a"}] * 3, {}, pd.DataFrame({"x": [1.0, 2.0]}))


def test_saving_again_without_counters_removes_the_old_ones(tmp_path: Path) -> None:
    folder = counted().save(tmp_path / "run")
    assert (folder / "counters-1.parquet").exists()
    saved_again = Profile.from_rows([{"op": "b"}]).save(folder, force=True)
    assert Profile.load(saved_again).counters is None
    assert not list(folder.glob("counters-*"))


def test_damaged_counters_are_refused_by_name(tmp_path: Path) -> None:
    folder = counted().save(tmp_path / "run")
    (folder / "counters-0.parquet").write_bytes(b"PAR1 and no more")
    refused(folder, r"counters-0\.parquet' is damaged")


def test_counters_of_another_rank_are_refused(tmp_path: Path) -> None:
    folder = counted().save(tmp_path / "run")
    shutil.copy(folder / "counters-0.parquet", folder / "counters-1.parquet")
    refused(folder, "another rank than 1")


def test_merging_keeps_the_counters_of_every_rank() -> None:
    one = Profile.from_rows([{"rank": 0}], {}, pd.DataFrame({"m": [1.0]}))
    two = Profile.from_rows([{"rank": 1}], {}, pd.DataFrame({"n": [2.0]}))
    merged = Profile.merge([one, two]).counters
    assert merged is not None
    assert merged["rank"].tolist() == [0, 1]
    assert merged["m"].isna().tolist() == [False, True]
    assert Profile.merge([Profile.from_rows([{}])]).counters is None
