"""Every metric that hroof asks for is listed by a real ncu; ``HROOF_NCU`` names it, or it lies on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable

import pytest

from hroof.counters import Chip, by_name, metrics
from hroof.errors import UsageError

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Runs ncu, which lists metrics without a GPU, and gives what it printed."""
    program = shutil.which(os.environ.get("HROOF_NCU") or "ncu")
    if program is None:
        pytest.skip("no ncu on PATH, and HROOF_NCU names none")
    home = tmp_path_factory.mktemp("home")  # it writes into its home folder

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "HOME": str(home)},
            cwd=home,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def listed_chips(ask: Ask) -> dict[str, Chip]:
    """Chips that both this ncu and hroof know, by ncu's names."""
    found = {}
    for name in re.split(r"[,\s]+", ask("--list-chips").strip()):
        try:
            found[name] = by_name(name)
        except UsageError:
            continue
    return found


def unlisted(ask: Ask, name: str, wanted: Iterable[str]) -> set[str]:
    """Which of some full names this ncu does not list for a chip."""
    wanted = set(wanted)
    bases = ",".join(sorted({metric.partition(".")[0] for metric in wanted}))
    query = ("--query-metrics", "--query-metrics-mode", "suffix", "--metrics", bases)
    listed = re.findall(r"^(\w+__\S+)", ask(*query, "--chips", name), re.MULTILINE)
    return wanted - set(listed)


def has_paths(ask: Ask) -> bool:
    """Whether this ncu lists operations of the matrix units: 2024.1 does, 2022.3 does not."""
    return "sm__ops_path_tensor_src_int8" in ask("--query-metrics", "--chips", "ga100")


def test_metrics_are_listed_for_every_chip_that_ncu_knows(ask: Ask) -> None:
    chips, paths = listed_chips(ask), has_paths(ask)
    assert {one.name for one in chips.values()} >= {
        "GV100",
        "TU102",
        "TU116",
        "GA100",
        "GA102",
        "GH100",
    }
    missing = {
        name: unlisted(ask, name, (*metrics(one, paths=paths), *metrics(one, cheap=True)))
        for name, one in chips.items()
    }
    assert {name: names for name, names in missing.items() if names} == {}


def test_metrics_of_instructions_are_listed_too(ask: Ask) -> None:
    for name in ("gv100", "tu116", "ga100", "gh100"):
        assert unlisted(ask, name, metrics(by_name(name), paths=False)) == set()


def test_metrics_without_a_known_chip_are_on_all_with_dram(ask: Ask) -> None:
    names = metrics(None, paths=has_paths(ask))
    for name, one in listed_chips(ask).items():
        if one.dram:
            assert unlisted(ask, name, names) == set()


def test_metrics_of_another_chip_are_found_out(ask: Ask) -> None:
    """The comparison can fail: Hopper has no counter of FP16 products by the format of their sums."""
    if not has_paths(ask):
        pytest.skip("this ncu lists no operations of the matrix units")
    missing = unlisted(ask, "gh100", metrics(by_name("A100")))
    assert "sm__ops_path_tensor_src_fp16_dst_fp32.sum" in missing
    assert "sm__ops_path_tensor_src_int8.sum" not in missing


def test_metrics_of_dram_are_not_there_on_a_chip_with_its_cpus_memory(ask: Ask) -> None:
    assert unlisted(ask, "ga10b", ["dram__bytes.sum", "lts__t_bytes.sum"]) == {"dram__bytes.sum"}
    assert not any("dram" in name for name in metrics(by_name("ga10b")))
