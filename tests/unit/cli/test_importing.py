"""``hroof import``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hroof.cli import main
from hroof.errors import OutputError
from hroof.machine import Machine
from hroof.profile import Profile

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Device","CC",'
    '"Metric Name","Metric Unit","Metric Value"\n'
)


def row(number: int, metric: str, unit: str, value: str, capability: str = "8.0") -> str:
    fields = (
        number,
        7,
        "python",
        "host",
        "gemm(float *)",
        1,
        7,
        0,
        capability,
        metric,
        unit,
        value,
    )
    return ",".join(f'"{field}"' for field in fields) + "\n"


def table(path: Path, *, peaks: bool = False, capability: str = "8.0") -> Path:
    lines = [
        row(n, metric, unit, value, capability)
        for n in range(2)
        for metric, unit, value in (
            ("gpu__time_duration.sum", "us", "10"),
            ("sm__cycles_elapsed.avg", "cycle", "10000"),
            ("sm__cycles_elapsed.avg.per_second", "cycle/second", "1000000000"),
            ("dram__bytes.sum", "Kbyte", "8"),
            *(
                [
                    ("dram__bytes.sum.peak_sustained", "byte/cycle", "1000"),
                    ("dram__cycles_elapsed.avg.per_second", "cycle/nsecond", "1"),
                ]
                if peaks
                else []
            ),
        )
    ]
    path.write_text(HEAD + "".join(lines))
    return path


def test_a_table_becomes_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["import", str(table(tmp_path / "t.csv")), "-o", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2 launches" in captured.err
    assert f"hroof report {out}" in captured.err
    profile = Profile.load(out)
    assert profile.launches["duration"].tolist() == [pytest.approx(1e-5)] * 2
    assert profile.launches["bytes_dram"].tolist() == [8000.0] * 2
    assert profile.counters is not None
    assert profile.run["clock"] == pytest.approx(1e9)


def test_the_report_reads_what_was_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["import", str(table(tmp_path / "t.csv", peaks=True)), "-o", str(out)]) == 0
    assert "peaks that its counters carry" in capsys.readouterr().err
    machine = Machine.load(out / "machine.json")
    assert {c.how for c in machine.bandwidths.values()} == {"counter peak"}
    assert main(["report", str(out), "--by", "kernel", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [r["kernel"] for r in rows] == ["gemm(float *)"]
    assert rows[0]["sources"]["dram"] == "counter"
    assert main(["report", str(out)]) == 0
    assert "cuda:0" in capsys.readouterr().out


def test_the_default_folder_is_named_after_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(table(tmp_path / "my run.csv")), "--quiet"]) == 0
    assert (tmp_path / "hroof-runs").is_dir()
    assert [path.name for path in (tmp_path / "hroof-runs").iterdir()] == ["my_run"]


def test_a_run_that_is_there_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    Profile.from_rows([{"op": "kept"}]).save(out)
    command = ["import", str(table(tmp_path / "t.csv")), "-o", str(out)]
    assert main(command) == 4
    assert "--force" in capsys.readouterr().err
    assert Profile.load(out).launches["op"].tolist() == ["kept"]
    assert main([*command, "--force"]) == 0
    assert len(Profile.load(out).launches) == 2


def test_nothing_of_a_run_that_is_replaced_stays(tmp_path: Path) -> None:
    """Its machine would judge the new run, its report would pass for that of the new one."""
    out = tmp_path / "run"
    first, second = table(tmp_path / "a.csv", peaks=True), table(tmp_path / "b.csv")
    assert main(["import", str(first), "-o", str(out)]) == 0
    (out / "counters.ncu-rep").write_text("old")
    (out / "notes.txt").write_text("mine")
    assert (out / "machine.json").exists()
    assert main(["import", str(second), "-o", str(out), "--force"]) == 0
    names = sorted(path.name for path in out.iterdir())
    assert names == ["counters-0.parquet", "launches-0.parquet", "notes.txt", "run.json"]


def test_a_machine_that_waits_in_a_folder_without_a_run_stays(
    tmp_path: Path, machine: Machine
) -> None:
    out = tmp_path / "run"
    machine.save(out / "machine.json")
    assert main(["import", str(table(tmp_path / "t.csv")), "-o", str(out)]) == 0
    assert Machine.load(out / "machine.json") == machine


def test_the_report_of_a_run_is_imported_into_its_own_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["import", str(table(tmp_path / "t.csv", peaks=True)), "-o", str(out)]) == 0
    (out / "counters.ncu-rep").write_text("report")
    again = table(out / "counters.csv")
    assert main(["import", str(again), "-o", str(out), "--force"]) == 0
    assert again.exists()
    assert (out / "counters.ncu-rep").exists()
    assert not (out / "machine.json").exists()


@pytest.mark.parametrize("force", [False, True])
def test_a_full_disk_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    out, path = tmp_path / "runs" / "run", table(tmp_path / "t.csv", peaks=True)
    if force:
        assert main(["import", str(path), "-o", str(out)]) == 0
    before = {each.name: each.read_bytes() for each in out.iterdir()} if force else None

    def refuse(*given: object, **named: object) -> None:
        raise OutputError("Cannot write: No space left on device.")

    monkeypatch.setattr(Profile, "save", refuse)
    assert main(["import", str(path), "-o", str(out), *["--force"] * force]) == 4
    if force:
        assert {each.name: each.read_bytes() for each in out.iterdir()} == before
    else:
        assert not out.parent.exists()


@pytest.mark.parametrize(
    ("out", "status", "said"),
    [
        ("file", 4, "a file is in the way"),
        ("x" * 300, 4, "File name too long"),
        ("", 2, "the name of the folder is empty"),
    ],
)
def test_folders_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    out: str, status: int, said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    table(Path("t.csv"))
    assert main(["import", "t.csv", "-o", out]) == status
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "t.csv"]


def test_one_launch_and_a_name_with_a_blank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "my run"
    path.write_text(HEAD + row(0, "gpu__time_duration.sum", "us", "10"))
    assert main(["import", str(path), "-o", str(out)]) == 0
    said = capsys.readouterr().err
    assert "1 launch, without ceilings" in said
    assert f"See it with: hroof report '{out}'\n" in said


def test_a_file_that_was_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "t.csv")
    path.write_text(path.read_text()[:-30])
    command = ["import", str(path), "-o", str(tmp_path / "run")]
    assert main([*command, "--strict"]) == 3
    assert not (tmp_path / "run").exists()
    assert main(command) == 0
    profile = Profile.load(tmp_path / "run")
    assert profile.run["status"] == "partial"
    assert profile.launches["bytes_dram"].isna().tolist() == [False, True]


def test_a_chip_that_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["import", str(table(tmp_path / "t.csv")), "-o", str(tmp_path / "run")]
    assert main([*command, "--chip", "Z999"]) == 2
    assert "Z999" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_chip_is_taken_where_the_file_says_none(tmp_path: Path) -> None:
    path, out = table(tmp_path / "t.csv", capability=""), tmp_path / "run"
    assert main(["import", str(path), "-o", str(out), "--chip", "V100", "--quiet"]) == 0
    assert Profile.load(out).run["devices"]["0"]["chip"] == "GV100"


def test_quiet_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "t.csv")
    assert main(["import", str(path), "-o", str(tmp_path / "run"), "--quiet", "--name", "x"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert Profile.load(tmp_path / "run").name == "x"


def test_a_file_of_another_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(b"SQLite format 3\0")
    assert main(["import", str(path)]) == 3
    assert "Traceback" not in capsys.readouterr().err
