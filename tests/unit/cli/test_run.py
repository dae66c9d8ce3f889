"""``hroof run`` around programs that need no framework: what passes, what is said, what is refused."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from hroof.cli import show
from hroof.machine import Machine
from hroof.profile import Profile
from hroof.report import brief
from hroof.run import ceilings_of

SAVES = """
    import os, sys
    from pathlib import Path
    from hroof.profile import Profile
    profile = Profile.load({prepared!r})
    for name in {names!r}:
        profile.replace(run=dict(profile.run, name=name)).save(os.environ["HROOF_OUT"] + name)
    print("the program's own output")
    sys.exit({status})
"""


@pytest.fixture
def saves(script: Any, profile: Profile, machine: Machine, tmp_path: Path,
          monkeypatch: pytest.MonkeyPatch) -> Any:  # fmt: skip
    """A program that leaves profiles as regions would, on a machine that is known."""
    profile.save(tmp_path / "prepared")
    monkeypatch.setattr(show, "ceilings_of", lambda profile, say, quick=False: machine)

    def write(names: tuple[str, ...] = ("",), status: int = 0) -> list[str]:
        return script(SAVES.format(prepared=str(tmp_path / "prepared"), names=names, status=status))

    return write


# --- the program's own ---------------------------------------------------------------------------


def test_arguments_output_and_status_pass_through(hroof: Any, script: Any) -> None:
    command = script("import sys; print(sys.argv[1:]); sys.exit(3)")
    arguments = ["--csv", "-o", "out", "--name", "a b", "--", "x", ""]
    done = hroof("run", "--skip", "2", "--", *command, *arguments)
    assert done.status == 3
    assert done.out == f"{arguments!r}\n"


def test_the_dashes_may_be_left_out(hroof: Any, script: Any) -> None:
    command = script("import sys; print(sys.argv[1:]); sys.exit(4)")
    done = hroof("run", "--quiet", *command, "--json", "--", "y")
    assert (done.status, done.out, done.err) == (4, "['--json', '--', 'y']\n", "")


def test_the_program_is_told_where_and_what(hroof: Any, script: Any, tmp_path: Path) -> None:
    command = script("""
        import os, sys
        print(os.environ["HROOF_OUT"])
        sys.exit(1)
    """)
    assert hroof("run", "--", *command).out == f"{tmp_path}/hroof-runs/target\n"
    for option in (["--out", "o"], ["--out=o"], ["-o", "o"], ["-oo"]):
        assert hroof("run", *option, "--", *command).out == f"{tmp_path}/o\n"
    assert not (tmp_path / "o").exists()
    assert not (tmp_path / "hroof-runs").exists()


@pytest.mark.parametrize(
    ("out", "status", "said"),
    [("", 2, "is empty"), ("x" * 300, 4, "File name too long"), ("target.py", 4, "in the way")],
)
def test_folders_that_cannot_be(hroof: Any, script: Any, out: str, status: int, said: str) -> None:
    done = hroof("run", "-o", out, "--", *script("print('started')"))
    assert (done.status, done.out) == (status, "")
    assert said in done.err


def test_nothing_of_a_run_that_is_replaced_stays(
    hroof: Any, saves: Any, profile: Profile, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile.save("o d")
    machine.save("o d/machine.json")
    Path("o d/counters.ncu-rep").write_text("old")
    monkeypatch.setattr(show, "ceilings_of", lambda profile, say, quick=False: None)
    done = hroof("run", "--force", "-o", "o d", "--", *saves())
    assert done.status == 0
    assert "See it again with: hroof report 'o d'\n" in done.err
    names = sorted(path.name for path in Path("o d").iterdir())
    assert names == ["launches-0.parquet", "run.json"]


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [("no-such-program", 127, "command not found"), ("./target.py", 126, "hroof run -- python")],
)
def test_a_program_that_cannot_be_started(
    hroof: Any, script: Any, tmp_path: Path, program: str, status: int, said: str
) -> None:
    script("")
    done = hroof("run", "--", program)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "hroof-runs").exists()


# --- nothing captured ----------------------------------------------------------------------------


def test_a_success_without_a_result_is_status_5(hroof: Any, script: Any) -> None:
    done = hroof("run", "--skip", "7", "--", *script("print('fine')"))
    assert (done.status, done.out) == (5, "fine\n")
    assert "--skip 7 --steps 3" in done.err
    assert "The program never imported " in done.err


def test_a_failure_without_a_result_keeps_its_status(hroof: Any, script: Any) -> None:
    done = hroof("run", "--", *script("import sys; sys.exit(9)"))
    assert done.status == 9
    assert done.err == "hroof: The program ended with exit status 9.\n"


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_an_interpreter_that_ignores_the_environment(hroof: Any, script: Any, option: str) -> None:
    done = hroof("run", "--", *script("", "target.py", option))
    assert done.status == 5
    assert "started with -I, -S or -E" in done.err


def test_switched_off(hroof: Any, script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HROOF", "off")
    done = hroof("run", "--", *script(""))
    assert done.status == 0
    assert done.err == "hroof: HROOF=off is set, so nothing was measured.\n"
    assert hroof("run", "--", *script("raise SystemExit(3)")).status == 3


def test_an_unknown_switch_is_named_once(
    hroof: Any, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HROOF", "garbage")
    done = hroof("run", "--", *script("import hroof\nwith hroof.region(): pass"))
    assert done.err.count("HROOF=garbage is ignored: the values are off, marks and on.") == 1


def test_killed_in_the_middle_of_the_steps(hroof: Any, script: Any, tmp_path: Path) -> None:
    command = script("""
        import os, hroof
        from hroof.regions import Region
        Region._begin_capture = lambda self: type("C", (), {"stage": lambda *a: None})()
        with hroof.region(skip=1) as region:
            region.boundary()
            region.boundary()
            os._exit(0)
    """)
    done = hroof("run", "--out", "o", "--", *command)
    assert done.status == 5
    assert "ended after the region had begun (timing 3 steps)" in done.err
    assert not (tmp_path / "o").exists()


def test_killed_by_a_signal(hroof: Any, script: Any) -> None:
    command = script("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    done = hroof("run", "--", *command)
    assert done.status == 128 + signal.SIGKILL
    assert "ended by SIGKILL" in done.err


# --- results -------------------------------------------------------------------------------------


def test_the_report_follows_the_programs_output(
    hroof: Any, saves: Any, profile: Profile, machine: Machine, tmp_path: Path
) -> None:
    done = hroof("run", "--out", "o", "--", *saves())
    assert done.status == 0
    expected = brief.render(Profile.load("o"), machine)
    assert done.out == f"the program's own output\n{expected}"
    assert done.err == "Saved in o. See it again with: hroof report o\n"
    assert Machine.load("o/machine.json").peaks == machine.peaks
    assert hroof("report", "o").status == 0


def test_several_regions_are_all_reported(hroof: Any, saves: Any) -> None:
    done = hroof("run", "--out", "o", "--", *saves(("", "-2", "-3")))
    assert done.out.count("Verdict") == 3
    assert done.err.count("Saved in") == 3


def test_json_is_one_object_whatever_the_program_prints(hroof: Any, saves: Any) -> None:
    done = hroof("run", "--json", "--by", "phase", "--out", "o", "--", *saves())
    found = json.loads(done.out)
    assert found["by"] == ["phase"]
    assert "the program's own output" in done.err


def test_json_of_several_regions(hroof: Any, saves: Any) -> None:
    done = hroof("run", "--json", "--out", "o", "--", *saves(("", "-2")))
    assert [report["run"]["name"] for report in json.loads(done.out)["runs"]] == ["", "-2"]


def test_quiet_says_nothing(hroof: Any, saves: Any) -> None:
    done = hroof("run", "--quiet", "--json", "--out", "o", "--", *saves())
    assert done.err == "the program's own output\n"


def test_without_a_report_it_only_collects(hroof: Any, saves: Any) -> None:
    done = hroof("run", "--no-report", "--out", "o", "--", *saves())
    assert done.out == "the program's own output\n"
    assert "Saved in o" in done.err


def test_a_partial_result_of_a_failed_program(hroof: Any, saves: Any) -> None:
    done = hroof("run", "--out", "o", "--", *saves(status=3))
    assert done.status == 3
    assert "exit status 3. What it did until then" in done.err
    assert "Verdict" in done.out


def test_an_existing_profile_is_refused_before_the_program_starts(
    hroof: Any, saves: Any, tmp_path: Path
) -> None:
    command = saves()
    assert hroof("run", "--out", "o", "--", *command).status == 0
    before = (tmp_path / "o" / "run.json").stat()
    done = hroof("run", "--out", "o", "--", *command)
    assert (done.status, done.out) == (4, "")
    assert "--force" in done.err
    assert (tmp_path / "o" / "run.json").stat() == before
    assert hroof("run", "--out", "o", "--force", "--", *command).status == 0


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_folder_that_cannot_be_is_refused_before_the_program_starts(
    hroof: Any, saves: Any, tmp_path: Path, out: str
) -> None:
    (tmp_path / "file").write_text("x")
    done = hroof("run", "--out", out, "--", *saves())
    assert (done.status, done.out) == (4, "")
    assert "not a folder" in done.err


def test_one_damaged_result_does_not_keep_the_others_back(
    hroof: Any, script: Any, saves: Any, tmp_path: Path
) -> None:
    (*python, path) = saves(("", "-2"))
    with open(path, "a") as file:
        file.write("")
    code = (
        Path(path)
        .read_text()
        .replace(
            "sys.exit(0)",
            "open(os.environ['HROOF_OUT'] + '/launches-0.parquet', 'w').close()",
        )
    )
    Path(path).write_text(code)
    done = hroof("run", "--out", "o", "--", *python, path)
    assert done.status == 3
    assert "damaged" in done.err
    assert done.out.count("Verdict") == 1


def test_without_ceilings_there_is_still_a_report(
    hroof: Any, saves: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "ceilings_of", ceilings_of)
    done = hroof("run", "--out", "o", "--", *saves())
    assert done.status == 0
    assert "measuring" not in done.err
    assert "no ceilings: There is no integration 'none'" in done.err
    assert "Verdict" in done.out
    assert not Path("o/machine.json").exists()


def test_this_python_is_the_one_in_use(script: Any) -> None:
    assert script("")[0] == sys.executable
