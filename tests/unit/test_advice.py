"""What to do depends on the framework: each is told what it has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hroof.findings import advice as words
from hroof.findings import findings
from hroof.findings.advice import LOADING, OPTIMIZER, advice
from hroof.profile import Profile

KERAS = {"framework": "keras", "facts": {"backend": "tensorflow", "jit_compile": False}}


def run(framework: str, backend: str | None = None, *, compiled: bool = False) -> dict[str, Any]:
    return {"framework": framework, "facts": {"backend": backend, "jit_compile": compiled}}


def test_keras_on_tensorflow_is_told_of_its_own_means() -> None:
    assert "jit_compile=True" in advice(OPTIMIZER, KERAS)
    said = advice(LOADING, KERAS)
    assert "tf.data" in said and "PyDataset(workers=" in said
    for about in (OPTIMIZER, LOADING):
        assert not {"foreach", "pinned"} & set(advice(about, KERAS).replace(",", " ").split())


def test_what_is_compiled_already_is_not_told_to_compile() -> None:
    assert "jit_compile" not in advice(OPTIMIZER, run("keras", "tensorflow", compiled=True))


def test_where_pytorch_computes_for_keras_its_loader_serves() -> None:
    said = advice(LOADING, run("torch", "torch"))
    assert "DataLoader" in said and "tf.data" not in said
    assert advice(OPTIMIZER, run("torch", "torch")) == OPTIMIZER["keras on torch"]


@pytest.mark.parametrize(
    "other",
    [{}, {"framework": "jax"}, {"framework": ["x"], "facts": 3}, {"facts": {"backend": None}}],
)
def test_all_others_are_told_what_is_general(other: dict[str, Any]) -> None:
    assert advice(OPTIMIZER, other) == OPTIMIZER[""]
    assert advice(LOADING, other) == LOADING[""]


TABLES = {
    name: table
    for name, table in vars(words).items()
    if name.isupper() and isinstance(table, dict) and name != "LAYER"
} | {f"LAYER {kind}": table for kind, table in words.LAYER.items()}
FRAMEWORKS = {"", "torch", "keras", "keras compiled", "keras on torch", "keras on jax"}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_general_words_and_whole_sentences(name: str) -> None:
    table = TABLES[name]
    assert "" in table
    assert set(table) <= FRAMEWORKS
    for text in table.values():
        said = text.format(bound="DRAM", near="L1", precision="bf16", name="bfloat16")
        assert said.endswith(".") and said[0].isupper()
        assert "{" not in said


@pytest.mark.parametrize("name", TABLES)
def test_keras_is_never_told_of_pytorch_alone(name: str) -> None:
    for key, text in TABLES[name].items():
        if key.startswith("keras") and key != "keras on torch":
            assert "torch." not in text
        if key == "torch":
            assert "keras" not in text and "tf." not in text


def test_number_formats_go_by_the_names_of_the_frameworks() -> None:
    assert words.dtype("bf16") == "bfloat16"
    assert words.dtype("tf32") == "tf32"


def test_pytorch_is_told_of_its_own_means() -> None:
    assert "fused=True" in advice(OPTIMIZER, {"framework": "torch"})
    assert advice(LOADING, {"framework": "torch"}) == LOADING[""]


def test_the_findings_of_a_run_use_it(build: SimpleNamespace) -> None:
    update = build.row(None, "optimizer", "mul", 30, bytes_l1=8.0, **build.flop(vector_fp32=1.0))
    rows = [
        build.row(None, "data", "to", 30, bytes_l1=8.0, **build.flop(vector_fp32=0.0)),
        *[update] * 10,
    ]
    whole = [row | {"step": step} for step in range(3) for row in rows]
    facts = {"steps": [{"step": step, "wall": 1e-3} for step in range(3)], **KERAS}
    found = findings(Profile.from_rows(whole, facts), build.machine())
    actions = {finding.kind: finding.action for finding in found}
    assert actions["optimizer"] == OPTIMIZER["keras"]
    assert actions["data"] == LOADING["keras"]
