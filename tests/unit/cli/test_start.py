"""The start-up hook: what it does to an interpreter, and that it leaves no trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from hroof.cli.target import START_FOLDER, environment

Run = Callable[..., subprocess.CompletedProcess[str]]

INTEGRATION = """
FRAMEWORK = "fakeframe"
def watch_program(begin):
    import fakeframe
    print("watching", fakeframe.VALUE)
    region = begin()
    print(region.name, region.skip, region.steps)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a framework, an integration for it and its entry point."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "fakeframe.py").write_text("VALUE = 42\nprint('loading')\n")
    (folder / "hroof_fakeframe.py").write_text(INTEGRATION)
    info = folder / "fakeframe_hroof-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakeframe-hroof\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hroof.integrations]\nfakeframe = hroof_fakeframe\n")
    (tmp_path / "out").mkdir()
    return folder


@pytest.fixture
def run(place: Path, tmp_path: Path) -> Run:
    """Run a program under the hook, as ``hroof run`` would."""

    def start(
        code: str, *options: str, base: dict[str, str] | None = None, **settings: object
    ) -> subprocess.CompletedProcess[str]:
        given = {"PYTHONPATH": str(place), "PATH": os.environ["PATH"], **(base or {})}
        env = environment(tmp_path / "out", skip=4, steps=2, name=None, base=given)
        env["HROOF_START"] = json.dumps(
            {**json.loads(env["HROOF_START"]), "frameworks": ["fakeframe"], **settings}
        )
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(code))
        return subprocess.run(
            [sys.executable, *options, str(path)],
            env=env, capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip

    return start


def test_a_program_without_the_framework_sees_nothing(run: Run, place: Path) -> None:
    done = run("""
        import os, sys
        assert "HROOF_START" not in os.environ
        assert not any(name == "hroof" or name.startswith("hroof.") for name in sys.modules)
        print(os.environ["PYTHONPATH"])
        print(any("cli/start" in entry for entry in sys.path))
    """)
    assert (done.stdout, done.stderr) == (f"{place}\nFalse\n", "")


def test_the_search_path_vanishes_where_there_was_none(tmp_path: Path) -> None:
    env = environment(tmp_path, skip=0, steps=1, name=None, base={"PATH": os.environ["PATH"]})
    code = "import os; print('PYTHONPATH' in os.environ)"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    assert done.stdout == b"False\n"


def test_when_the_framework_is_there_watching_begins(run: Run) -> None:
    done = run("""
        import sys
        before = list(sys.meta_path)
        import fakeframe
        assert len(sys.meta_path) == len(before) - 1, sys.meta_path
        assert "exec_module" not in vars(fakeframe.__loader__)
        assert fakeframe.__spec__.loader is fakeframe.__loader__
        import importlib
        importlib.reload(fakeframe)
    """)
    assert done.stderr == ""
    assert done.stdout == "loading\nwatching 42\nprogram 4 2\nloading\n"


def test_frameworks_that_import_each_other_are_watched_when_all_are_there(
    run: Run, place: Path
) -> None:
    (place / "outer.py").write_text("print('outer begins')\nimport fakeframe\nREADY = 1\n")
    (place / "hroof_outer.py").write_text(
        "def watch_program(begin):\n    import outer\n    print('watching outer', outer.READY)\n"
    )
    info = place / "fakeframe_hroof-1.0.dist-info"
    with (info / "entry_points.txt").open("a") as points:
        points.write("outer = hroof_outer\n")
    done = run("import outer", frameworks=["fakeframe", "outer", "absent"])
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "outer begins", "loading", "watching 42", "program 4 2", "watching outer 1",
    ]  # fmt: skip


def test_a_framework_that_comes_later_is_watched_too(run: Run, place: Path) -> None:
    (place / "later.py").write_text("")
    (place / "hroof_later.py").write_text(
        "def watch_program(begin):\n    print('watching later')\n"
    )
    info = place / "fakeframe_hroof-1.0.dist-info"
    with (info / "entry_points.txt").open("a") as points:
        points.write("later = hroof_later\n")
    done = run(
        """
        import sys
        import fakeframe
        waiting = list(sys.meta_path)
        import later
        print(len(waiting) - len(sys.meta_path))
        """,
        frameworks=["fakeframe", "later"],
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-2:] == ["watching later", "1"]


def test_a_framework_that_cannot_be_loaded_is_the_programs_own_affair(
    run: Run, place: Path
) -> None:
    (place / "broken.py").write_text("raise ImportError('it is broken')\n")
    done = run(
        """
        try:
            import broken
        except ImportError as error:
            print(error)
        import fakeframe
        """,
        frameworks=["broken", "fakeframe"],
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["it is broken", "loading", "watching 42", "program 4 2"]


def test_the_name_is_passed_on(run: Run) -> None:
    assert "\nmine 4 2\n" in run("import fakeframe", name="mine").stdout


def test_what_happened_is_noted(run: Run, tmp_path: Path) -> None:
    run("import fakeframe")
    (note,) = (tmp_path / "out").glob("start-*.json")
    assert json.loads(note.read_text()) == {
        "executable": sys.executable, "framework": "fakeframe", "problem": "",
    }  # fmt: skip


def test_switched_off(run: Run) -> None:
    assert run("import fakeframe", base={"HROOF": "off"}).stdout == "loading\n"


def test_children_are_not_watched(run: Run) -> None:
    done = run("""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import fakeframe"])
    """)
    assert (done.stdout, done.stderr) == ("loading\n", "")


@pytest.mark.parametrize("how", ["spawn", "fork", "forkserver"])
def test_children_of_multiprocessing_are_not_watched(run: Run, how: str) -> None:
    done = run(f"""
        import multiprocessing
        def work():
            import fakeframe
        if __name__ == "__main__":
            process = multiprocessing.get_context({how!r}).Process(target=work)
            process.start()
            process.join()
            print(process.exitcode)
    """)
    lines = done.stdout.splitlines()
    assert "0" in lines
    if how != "fork":  # a forked child inherits the finder, and whether it captures is tested there
        assert lines == ["loading", "0"]


def test_the_users_own_hook_still_runs(run: Run, place: Path) -> None:
    (place / "sitecustomize.py").write_text(
        "import os, sys\nprint('mine', 'HROOF_START' in os.environ, __file__)\n"
    )
    done = run("import sitecustomize; print(sitecustomize.__file__); import fakeframe")
    own = place / "sitecustomize.py"
    assert done.stderr == ""
    assert done.stdout == f"mine False {own}\n{own}\nloading\nwatching 42\nprogram 4 2\n"


def test_the_users_hook_may_import_the_framework(run: Run, place: Path) -> None:
    (place / "sitecustomize.py").write_text("import fakeframe\n")
    assert "watching 42" in run("").stdout


def test_a_fault_in_the_users_hook_is_told_as_always(run: Run, place: Path) -> None:
    (place / "sitecustomize.py").write_text("1 / 0\n")
    done = run("print('goes on')")
    assert "Error in sitecustomize" in done.stderr
    assert done.stdout == "goes on\n"


def test_without_hroof_one_line_and_the_program_runs(run: Run, tmp_path: Path) -> None:
    """``-S`` hides the packages; the hook is then run by hand."""
    done = run(
        f"""
        import runpy, sys
        sys.path.append({str(START_FOLDER)!r})
        import sitecustomize
        import fakeframe
        """,
        "-S",
        base={},
    )
    assert done.stderr.count("\n") == 1
    assert f"hroof: {sys.executable} has no hroof" in done.stderr
    assert done.stdout == "loading\n"
    (note,) = (tmp_path / "out").glob("start-*.json")
    assert json.loads(note.read_text())["problem"] == "no hroof"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def watch_program(begin): 1 / 0", "division by zero"),
        ("import no_such_thing", "cannot be imported"),
        ("x = 1", "watch_program"),
    ],
)
def test_a_fault_of_an_integration_is_one_line(run: Run, place: Path, text: str, said: str) -> None:
    (place / "hroof_fakeframe.py").write_text(text)
    done = run("import fakeframe; print(fakeframe.VALUE)")
    assert done.stdout == "loading\n42\n"
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_damaged_settings_are_one_line(place: Path, tmp_path: Path) -> None:
    env = environment(tmp_path, skip=0, steps=1, name=None) | {"HROOF_START": "{"}
    code = "print('goes on')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout == "goes on\n"
    assert done.stderr.count("\n") == 1
    assert "start-up hook failed" in done.stderr


def test_a_framework_that_is_absent_stays_absent(run: Run, place: Path) -> None:
    (place / "fakeframe.py").rename(place / "later.py")
    done = run(f"""
        import os
        try:
            import fakeframe
        except ModuleNotFoundError as error:
            print(error)
        os.rename({str(place / "later.py")!r}, {str(place / "fakeframe.py")!r})
        import importlib
        importlib.invalidate_caches()
        import fakeframe
    """)
    assert done.stdout.startswith("No module named 'fakeframe'\nloading\nwatching 42\n")


def test_a_framework_that_fails_to_load_fails_as_always(run: Run, place: Path) -> None:
    (place / "fakeframe.py").write_text("raise RuntimeError('broken')")
    done = run("""
        for _ in range(2):
            try:
                import fakeframe
            except RuntimeError as error:
                print(error)
    """)
    assert (done.stdout, done.stderr) == ("broken\nbroken\n", "")


def test_isolated_interpreters_run_unwatched(run: Run) -> None:
    for option in ("-I", "-E", "-S"):
        done = run("print('goes on')", option)
        assert (done.stdout, done.stderr) == ("goes on\n", "")


def test_standard_error_may_be_closed(run: Run, place: Path) -> None:
    (place / "hroof_fakeframe.py").write_text("x = 1")
    done = run("import sys; sys.stderr = None; import fakeframe; print('goes on')")
    assert done.stdout == "loading\ngoes on\n"
