"""TensorFlow's devices: what is said of them, under which names, and what is offered for them."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

tensorflow = pytest.importorskip("tensorflow")
pytest.importorskip("keras")

import hroof_keras  # noqa: E402
from hroof.ceilings import (  # noqa: E402
    Plan,
    cache,
    host,
    measure,
    products,
)
from hroof.ceilings.host import Cache  # noqa: E402
from hroof.cli import show  # noqa: E402
from hroof.errors import MissingError  # noqa: E402
from hroof.integration import Device, alone, load  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from hroof_keras.ceilings import cpu as ceilings_cpu  # noqa: E402
from hroof_keras.ceilings import dram as ceilings_dram  # noqa: E402
from hroof_keras.ceilings import front as ceilings  # noqa: E402
from hroof_keras.ceilings import peaks as ceilings_peaks  # noqa: E402
from hroof_keras.ceilings import xla as ceilings_xla  # noqa: E402

L1, L2, L3, DRAM = MemoryLevel
KIB = 1024
SMALL_CACHES = (
    Cache(L1, 48 * KIB, 2, 1, 96 * KIB),
    Cache(L2, 1024 * KIB, 2, 1, 2048 * KIB),
    Cache(L3, 8192 * KIB, 1, 2, 8192 * KIB),
)


def small_cpu(threads: int = 1) -> Device:
    """A CPU with small caches, so that its DRAM windows are few."""
    facts = {"threads": threads, "caches": [host.cache_fact(cache) for cache in SMALL_CACHES]}
    return Device("cpu", "small", {c.level: c.total for c in SMALL_CACHES}, True, facts)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Made-up GPUs that TensorFlow sees; none until a test adds some."""
    found: list[Any] = []
    details = {"device_name": "made-up GPU", "compute_capability": (9, 0)}
    config = tensorflow.config
    monkeypatch.setattr(config, "list_physical_devices", lambda kind: found)
    monkeypatch.setattr(config.experimental, "get_device_details", lambda gpu: details)
    return found


# --- the CPU ------------------------------------------------------------------------------------


def test_the_cpu_is_described() -> None:
    device = ceilings.device("cpu")
    assert device.device == "cpu" and device.name
    assert device.facts["versions"]["keras"]
    assert {"tensorflow", "tensorflow-cpu"} & set(device.facts["versions"])
    assert 1 <= device.facts["threads"] <= device.facts["cores"]
    assert device.facts["inter_op_threads"] >= 1
    assert isinstance(device.facts["tf32"], bool)
    assert set(device.caches) == {MemoryLevel(c["level"]) for c in device.facts["caches"]}


def test_facts_are_plain_json_and_the_same_next_time() -> None:
    device = ceilings.device("cpu")
    assert json.loads(json.dumps(device.facts)) == device.facts
    assert ceilings.device("cpu") == device


@pytest.mark.parametrize("name", ["cpu", "CPU", "CPU:0", "/device:CPU:0", "cpu:0"])
def test_the_cpu_has_several_names(name: str) -> None:
    assert ceilings.device(name).device == "cpu"


@pytest.mark.parametrize(("flags", "shared"), [({"fma"}, True), ({"fma", "amx_tile"}, False)])
def test_a_matrix_unit_separates_the_pipes(
    monkeypatch: pytest.MonkeyPatch, flags: set[str], shared: bool
) -> None:
    monkeypatch.setattr(host, "cpu_flags", lambda: frozenset(flags))
    device = ceilings.device("cpu")
    assert device.shared_pipes is shared
    assert device.facts["matrix_unit"] is not shared


@pytest.mark.parametrize(
    ("said", "variable", "cores", "threads"),
    [(0, "", 8, 8), (3, "", 8, 3), (0, "2", 8, 2), (3, "2", 8, 3), (64, "", 8, 8), (0, "x", 8, 8)],
)
def test_threads_are_those_that_the_program_or_the_environment_sets(
    monkeypatch: pytest.MonkeyPatch, said: int, variable: str, cores: int, threads: int
) -> None:
    threading = tensorflow.config.threading
    monkeypatch.setattr(threading, "get_intra_op_parallelism_threads", lambda: said)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", variable)
    assert ceilings.threads(tensorflow, cores) == threads


def test_threads_beside_each_other_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    threading = tensorflow.config.threading
    monkeypatch.setattr(threading, "get_inter_op_parallelism_threads", lambda: 0)
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "5")
    assert ceilings.inter_op_threads(tensorflow, 8) == 5
    monkeypatch.setattr(threading, "get_inter_op_parallelism_threads", lambda: 1)
    assert ceilings.inter_op_threads(tensorflow, 8) == 1


def test_variables_that_decide_speed_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    environment = ceilings.device("cpu").facts["environment"]
    assert environment["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert environment["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=true"
    assert not {"TF_CPP_MIN_LOG_LEVEL", "SECRET_TOKEN"} & set(environment)


def test_other_settings_have_another_entry_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    integration: Any = hroof_keras

    def path() -> Any:
        return cache.cache_path(integration, ceilings.device("cpu"), tmp_path)

    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    usual = path()
    assert path() == usual
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert path() != usual


def test_flags_that_hroof_added_do_not_change_the_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """So that a program finds the ceilings that ``hroof ceilings`` measured."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    integration: Any = hroof_keras
    before = cache.cache_path(integration, ceilings.device("cpu"), tmp_path)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_prefer_vector_width=512")
    monkeypatch.setattr(ceilings_xla._Own, "flag", "--xla_cpu_prefer_vector_width=512")
    assert cache.cache_path(integration, ceilings.device("cpu"), tmp_path) == before


_NOT_STARTED = """
import hroof_keras
device = hroof_keras.device("cpu")
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
print(hroof_keras.device("cpu").facts["threads"])
"""


def test_describing_does_not_start_tensorflow() -> None:
    """Afterwards a program can still set its threads, which TensorFlow refuses once it has started."""
    done = subprocess.run(
        [sys.executable, "-c", _NOT_STARTED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1"


# --- GPUs ---------------------------------------------------------------------------------------


def test_the_default_is_the_first_gpu_or_the_cpu(gpus: list[Any]) -> None:
    assert ceilings.device().device == "cpu"
    gpus += [SimpleNamespace(name=f"/physical_device:GPU:{index}") for index in range(2)]
    assert ceilings.device().device == "cuda:0"


@pytest.mark.parametrize("name", ["cuda:1", "GPU:1", "gpu:1", "/GPU:1", "/device:GPU:1"])
def test_a_gpu_has_several_names(gpus: list[Any], name: str) -> None:
    gpus += [SimpleNamespace(name=f"/physical_device:GPU:{index}") for index in range(2)]
    device = ceilings.device(name)
    assert (device.device, device.name) == ("cuda:1", "made-up GPU")
    assert device.facts["compute_capability"] == [9, 0]
    assert json.loads(json.dumps(device.facts)) == device.facts


@pytest.mark.parametrize("name", ["cuda", "GPU:7", "TPU:0", "toaster"])
def test_an_absent_device_is_an_error_with_a_remedy(gpus: list[Any], name: str) -> None:
    with pytest.raises(MissingError, match=f"no device {name!r} here") as caught:
        ceilings.device(name)
    assert caught.value.remedy.startswith("Choose one of: cpu.")
    assert "TensorFlow build with CUDA" in caught.value.remedy


def test_without_tensorflow_the_error_names_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "tensorflow":
            raise ImportError("No module named 'tensorflow'")
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingError, match="TensorFlow's kernels") as caught:
        ceilings.device()
    assert "pip install tensorflow" in caught.value.remedy
    assert "--framework torch" in caught.value.remedy


# --- what is offered ----------------------------------------------------------------------------


def test_the_integration_offers_them() -> None:
    integration = load("keras")
    device = small_cpu()
    assert integration.device("cpu").device == "cpu"
    assert next(integration.ceiling_kernels(device)).what == "launch"
    assert [k.size for k in integration.sweep_kernels(device, [16 * KIB])] == [16 * KIB]
    assert "own_share" in integration.ceiling_facts(device)


def test_a_gpu_has_kernels_and_no_sweep() -> None:
    gpu = Device("cuda:0", "made-up GPU", facts={"compute_capability": [9, 0]})
    assert {k.level for k in ceilings.ceiling_kernels(gpu)} == {None, DRAM}
    assert list(ceilings.sweep_kernels(gpu, [4096])) == []
    assert ceilings.ceiling_facts(gpu) == {}


def test_hroof_says_when_a_process_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_xla._Own, "process", False)
    integration: Any = hroof_keras
    assert alone(integration) is integration
    assert ceilings_xla._Own.process


def test_an_integration_need_not_care(monkeypatch: pytest.MonkeyPatch) -> None:
    bare: Any = SimpleNamespace()
    assert alone(bare) is bare


def test_the_suite_measures_this_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings_cpu, "_TRAFFIC", dict.fromkeys(MemoryLevel, 1e6))
    monkeypatch.setattr(ceilings_dram, "_TRAFFIC", 1e6)
    monkeypatch.setattr(ceilings_peaks, "_FLOP", 1.0)
    monkeypatch.setattr(products, "_CUBES", (32, 48, 64))
    monkeypatch.setattr(products, "_SUSTAIN", 0.0)
    monkeypatch.setattr(ceilings_peaks, "is_offered", lambda p: p is Precision.BF16)
    integration: Any = SimpleNamespace(
        FRAMEWORK="keras",
        device=lambda name: small_cpu(2),
        ceiling_kernels=ceilings.ceiling_kernels,
        ceiling_facts=ceilings.ceiling_facts,
    )
    machine = measure(integration, "cpu", plan=Plan(seconds=0.001, spread_seconds=0.001))
    assert set(machine.bandwidths) == set(MemoryLevel)
    assert (Pipe.MATRIX, Precision.FP32) in machine.peaks
    assert machine.launch_cost is not None and 0 < machine.launch_cost.rate < 1
    assert {"launch_cost eager", "l2 copy", "dram triad", "vector_fp32 no fma"} <= set(
        machine.others
    )
    assert 0 < machine.facts["own_share"] <= 1
    assert not [text for text in machine.warnings if "could not run" in text]


def test_after_a_run_the_process_of_the_command_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program ran in another process, so XLA may use the widest vectors in this one."""
    monkeypatch.setattr(ceilings_xla._Own, "process", False)
    measured: Any = object()
    monkeypatch.setattr(show, "ceilings_of", lambda profile, say, quick: measured)
    profile: Any = SimpleNamespace(run={"framework": "keras"})
    assert show.measured(profile, lambda text: None) is measured
    assert ceilings_xla._Own.process
