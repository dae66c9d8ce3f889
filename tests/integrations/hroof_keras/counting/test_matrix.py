"""Matrix products and Einsum, against counts by hand and by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from hroof.traffic import MatrixShape  # noqa: E402
from hroof.units import Pipe, Precision, Source  # noqa: E402
from hroof_keras.counting import Buffers, work_of  # noqa: E402
from hroof_keras.counting.flop import UncountableError  # noqa: E402
from hroof_keras.counting.rules.einsum import parse  # noqa: E402
from hroof_keras.counting.rules.matrix import broadcast  # noqa: E402
from hroof_keras.graph.nodes import Node, TensorSpec  # noqa: E402
from tests.integrations.hroof_keras.counting.made import attribute, node, work  # noqa: E402
from tests.integrations.hroof_keras.counting.traced import gradient, one, trace  # noqa: E402

MATRIX, VECTOR = Pipe.MATRIX, Pipe.VECTOR
lengths = st.integers(1, 6)


@given(lengths, lengths, lengths, st.booleans(), st.booleans())
@settings(max_examples=60)
def test_products_by_enumeration(m: int, n: int, k: int, swap_a: bool, swap_b: bool) -> None:
    a, b = ((k, m) if swap_a else (m, k)), ((n, k) if swap_b else (k, n))
    counted = work("MatMul", a, b, transpose_a=swap_a, transpose_b=swap_b)
    macs = sum(1 for _ in itertools.product(range(m), range(n), range(k)))
    assert counted.nominal == counted.least == {(MATRIX, Precision.FP32): 2.0 * macs}
    assert counted.touch.matrix == MatrixShape(1, m, n, k, 4)
    assert counted.bytes_read == 4 * (m * k + k * n)
    assert counted.bytes_written == 4 * m * n


@given(st.lists(lengths, max_size=3), st.data(), lengths, lengths, lengths)
@settings(max_examples=60)
def test_batches_broadcast(batch: list[int], data: Any, m: int, n: int, k: int) -> None:
    """Every dimension of the batch may be 1 on one side, and leading ones may be missing."""
    left, right = list(batch), list(batch)
    for place in range(len(batch)):
        side = data.draw(st.sampled_from([None, left, right]))
        if side is not None:
            side[place] = 1
    right = right[data.draw(st.integers(0, len(batch))) :]
    a, b = (*left, m, k), (*right, n, k)
    y = tf.matmul(tf.ones(a), tf.ones(b), transpose_b=True)
    counted = work("BatchMatMulV2", a, b, adj_y=True)
    assert counted.flop() == 2 * k * int(tf.size(y))
    assert counted.bytes_written == 4 * int(tf.size(y))


def test_batches_that_do_not_fit_are_not_counted() -> None:
    with pytest.raises(UncountableError, match=r"lengths \[2, 3\] do not broadcast"):
        broadcast((4, 2), (4, 3))
    buffers = Buffers()
    assert work("BatchMatMulV2", (2, 3, 4), (3, 4, 5), buffers=buffers).nominal is None
    assert list(buffers.faults) == [
        "BatchMatMulV2: its FLOP cannot be counted (lengths [2, 3] do not broadcast)"
    ]


def test_products_of_mixed_types() -> None:
    """The operands of the third form may be narrower than its result."""
    attrs = {"Ta": attribute(tf.int8), "Tb": attribute(tf.int8), "Tout": attribute(tf.int32)}
    made = Node("n", "BatchMatMulV3", ("a:0", "b:0"), attrs)
    operands = [TensorSpec((3, 4), "int8"), TensorSpec((4, 5), "int8")]
    counted = work_of(made, operands, [], Buffers())
    assert counted.nominal == {(MATRIX, Precision.INT8): 120}
    assert counted.bytes_written == 4 * 15


@pytest.mark.parametrize(
    ("dtype", "precision", "flop"),
    [
        (tf.float64, Precision.FP64, 120),
        (tf.bfloat16, Precision.BF16, 120),
        (tf.half, Precision.FP16, 120),
        (tf.dtypes.experimental.float8_e4m3fn, Precision.FP8, 120),
        (tf.complex64, Precision.FP32, 480),
        (tf.complex128, Precision.FP64, 480),
        (tf.int64, Precision.INT32, 120),
    ],
)
def test_precision_of_products(dtype: Any, precision: Precision, flop: float) -> None:
    assert work("MatMul", (3, 4), (4, 5), T=dtype).nominal == {(MATRIX, precision): flop}


def test_fused_work_is_vector_work_beside_the_product() -> None:
    counted = work("_MklFusedMatMul", (3, 4), (4, 5), (5,), fused_ops=["BiasAdd", "GeluExact"])
    assert counted.nominal == {
        (MATRIX, Precision.FP32): 120,
        (VECTOR, Precision.FP32): 15 * (1 + 8),
    }
    assert counted.least == {(MATRIX, Precision.FP32): 120, (VECTOR, Precision.FP32): 30}
    assert counted.source is Source.COUNTED
    scaled = work("_MklFusedBatchMatMulV2", (2, 3, 4), (2, 4, 5), (1,), fused_ops=["Mul"])
    assert scaled.flop(VECTOR) == 30
    buffers = Buffers()
    strange = work("_FusedMatMul", (3, 4), (4, 5), fused_ops=["Origami"], buffers=buffers)
    assert (strange.nominal, strange.source) == (None, Source.MISSING)
    assert "'Origami' that is fused into it has no weight" in next(iter(buffers.faults))


def test_a_sparse_operand_multiplies_its_stored_elements() -> None:
    """Indices, values, shape of the sparse operand; the dense one."""
    indices, shape = TensorSpec((7, 2), "int64"), TensorSpec((2,), "int64")
    counted = work("SparseTensorDenseMatMul", indices, (7,), shape, (4, 5), out=(6, 5))
    assert counted.nominal == {(MATRIX, Precision.FP32): 2 * 7 * 5}


def test_tf32_where_tensorflow_may_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the switch, on a GPU only; not run on one."""
    made = node("MatMul", 2)
    there = Node("n", "MatMul", made.inputs, made.attrs, device="/job:a/task:0/device:GPU:0")
    operands = [TensorSpec((3, 4), "float32"), TensorSpec((4, 5), "float32")]
    switch = tf.config.experimental.enable_tensor_float_32_execution
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    try:
        for allowed, precision in ((True, Precision.TF32), (False, Precision.FP32)):
            switch(allowed)
            assert work_of(there, operands, [], Buffers()).nominal == {(MATRIX, precision): 120}
            assert work_of(made, operands, [], Buffers()).nominal == {(MATRIX, Precision.FP32): 120}
    finally:
        switch(before)


# --- Einsum


def multiply_adds(equation: str, sizes: dict[str, int]) -> int:
    """Distinct products of the pair after each operand is summed over what only it has, by enumeration."""
    left, result = equation.split("->")
    first, second = left.split(",")
    kept = sorted(set(first) & set(second) | set(result))
    return sum(1 for _ in itertools.product(*[range(sizes[label]) for label in kept]))


EQUATIONS = [
    *("ij,jk->ik", "bij,bjk->bik", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "abc,cd->abd"),
    *("ij,kj->ik", "ab,ab->a", "ab,ba->", "abc,abd->cd", "ijk,ikl->jl", "ab,bc->a"),
]


@given(st.sampled_from(EQUATIONS), st.data())
@settings(max_examples=80)
def test_pairs_by_enumeration(equation: str, data: Any) -> None:
    sizes = {label: data.draw(st.integers(2, 5)) for label in set(equation) - set(",->")}
    left, result = equation.split("->")
    shapes = [tuple(sizes[label] for label in labels) for labels in left.split(",")]
    counted = work("Einsum", *shapes, equation=equation, N=2)
    assert counted.flop(MATRIX) == 2 * multiply_adds(equation, sizes)
    only_one = [
        len(labels) and set(labels) - set(other) - set(result)
        for labels, other in zip(left.split(","), reversed(left.split(",")), strict=True)
    ]
    summed = sum(
        size
        for size, labels in zip(
            [tf.TensorShape(s).num_elements() for s in shapes], only_one, strict=True
        )
        if labels
    )
    assert counted.flop(VECTOR) == summed
    assert counted.bytes_written == 4 * float(
        tf.size(tf.einsum(equation, *[tf.ones(shape) for shape in shapes]))
    )


def test_attention_by_hand() -> None:
    """Scores of 2 × 3 heads, 5 queries, 7 keys, 4 features."""
    counted = work("Einsum", (2, 5, 3, 4), (2, 7, 3, 4), equation="bqhd,bkhd->bhqk", N=2)
    assert counted.flop() == 2 * 2 * 3 * 5 * 7 * 4
    assert counted.touch.matrix == MatrixShape(6, 5, 7, 4, 4)


def test_other_forms_of_einsum() -> None:
    outer = work("Einsum", (3,), (4,), equation="i,j->ij", N=2)
    assert outer.nominal == {(VECTOR, Precision.FP32): 12}
    assert outer.source is Source.CONVENTION
    moved = work("Einsum", (3, 4), equation="ij->ji", N=1)
    assert moved.nominal == {}
    assert moved.bytes_read == moved.bytes_written == 48
    summed = work("Einsum", (3, 4), equation="ij->i", N=1)
    assert summed.nominal == {(VECTOR, Precision.FP32): 12}
    trace_ = work("Einsum", (4, 4), equation="ii->", N=1)
    assert trace_.nominal == {(VECTOR, Precision.FP32): 4}
    spread = work("Einsum", (2, 1, 3, 4), (5, 4, 6), equation="...ij,...jk->...ik", N=2)
    assert spread.flop(MATRIX) == 2 * (2 * 5) * 3 * 4 * 6
    implicit = work("Einsum", (3, 4), (4, 5), equation="ij,jk", N=2)
    assert implicit.flop(MATRIX) == 120
    assert implicit.bytes_written == 4 * 15
    buffers = Buffers()
    assert work("Einsum", *[(2, 2)] * 3, equation="ab,bc,cd->ad", buffers=buffers).nominal is None
    assert "more than two operands" in next(iter(buffers.faults))


def test_labels_of_an_equation() -> None:
    assert parse("ij,jk->ik", [2, 2]) == ([("i", "j"), ("j", "k")], ("i", "k"))
    assert parse("...i->i...", [3]) == ([(".0", ".1", "i")], ("i", ".0", ".1"))
    assert parse("ba", [2]) == ([("b", "a")], ("a", "b"))
    with pytest.raises(UncountableError, match="does not fit 1 operands"):
        parse("ij,jk->ik", [2])


def test_a_dense_layer_and_its_gradient() -> None:
    """x·w, then dx = dy·wᵀ and dw = xᵀ·dy: three times the same work."""
    nodes = trace(gradient(lambda x, w: x @ w), (5, 3), (3, 4))
    assert [item.work().flop() for item in nodes if item.node.op == "MatMul"] == [120] * 3
    batch = one("BatchMatMulV2", lambda x, w: x @ w, (2, 5, 3), (3, 4))
    assert batch.work().flop() == 2 * 2 * 5 * 3 * 4
