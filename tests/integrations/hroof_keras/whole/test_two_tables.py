"""Two independent tables of rules, nodes of graphs and instructions of compiled programs: they must agree.

Op by op on small functions, as lowered and as optimised, and over a whole training step of the three models.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

from hroof.launches import Work  # noqa: E402
from hroof.units import Pipe, Precision  # noqa: E402
from hroof_keras.hlo import HloModule  # noqa: E402
from hroof_keras.profiling.events import within  # noqa: E402
from tests.integrations.hroof_keras import models  # noqa: E402
from tests.integrations.hroof_keras.counting.traced import trace  # noqa: E402
from tests.integrations.hroof_keras.hlo.compiled import Stage, compiled  # noqa: E402
from tests.integrations.hroof_keras.stepped import compiled_step, graph_step  # noqa: E402

LOWERED: Stage = "hlo_serialized"
OPTIMISED: Stage = "optimized_hlo_proto_serialized"
Function = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]


def by_nodes(function: Function, shapes: Shapes) -> Work:
    return Work.total(item.work() for item in trace(function, *shapes))


def by_instructions(function: Function, shapes: Shapes, stage: Stage) -> Work:
    module = compiled(function, *[tf.ones(shape) for shape in shapes], stage=stage)
    works = []
    for name, times in module.executions().items():
        instruction = module.instruction(name)
        assert instruction is not None
        works.append(instruction.work.scaled(times))
    assert not module.without_rule
    return Work.total(works)


def of(pipe: Pipe, counts: Any) -> dict[Precision, float]:
    return {precision: value for (unit, precision), value in counts.items() if unit is pipe}


def with_gradient(function: Function) -> Function:
    """The result and the gradients of all arguments, so that nothing of the three passes is left out."""

    def both(*arguments: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            result = function(*arguments)
        return result, tape.gradient(result, arguments)

    return both


IMAGES, TAPS = (2, 9, 8, 4), (3, 3, 4, 6)

MATRIX: dict[str, tuple[Function, Shapes]] = {
    "convolution": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), (IMAGES, TAPS)),
    "strided": (lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), (IMAGES, TAPS)),
    "strided, without padding": (
        lambda x, w: tf.nn.conv2d(x, w, 3, "VALID"),
        ((2, 11, 8, 4), (3, 2, 4, 6)),
    ),
    "dilated": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=2), (IMAGES, TAPS)),
    "explicitly padded": (
        lambda x, w: tf.nn.conv2d(x, w, 2, [[0, 0], [1, 2], [0, 1], [0, 0]]),
        (IMAGES, TAPS),
    ),
    "grouped": (lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), (IMAGES, (3, 3, 2, 6))),
    "grouped and strided": (lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), (IMAGES, (3, 3, 2, 6))),
    "depthwise": (
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
        (IMAGES, (3, 3, 4, 2)),
    ),
    "depthwise and strided": (
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME"),
        (IMAGES, (3, 3, 4, 2)),
    ),
    "transposed": (
        lambda x, w: tf.nn.conv2d_transpose(x, w, (2, 8, 8, 5), 2, "SAME"),
        ((2, 4, 4, 3), (3, 3, 5, 3)),
    ),
    "one-dimensional": (lambda x, w: tf.nn.conv1d(x, w, 2, "SAME"), ((2, 9, 4), (3, 4, 6))),
    "three-dimensional": (
        lambda x, w: tf.nn.conv3d(x, w, [1, 2, 1, 1, 1], "SAME"),
        ((2, 5, 6, 4, 3), (3, 2, 2, 3, 4)),
    ),
    "product": (lambda x, w: x @ w, ((5, 3), (3, 4))),
    "products": (lambda x, w: x @ w, ((2, 5, 3), (2, 3, 4))),
    "one weight for a batch": (
        lambda x, w: tf.einsum("bti,ij->btj", x, w),
        ((2, 5, 3), (3, 4)),
    ),
    "scores": (
        lambda q, k: tf.einsum("bqhd,bkhd->bhqk", q, k),
        ((2, 5, 3, 4), (2, 6, 3, 4)),
    ),
    "weighted values": (
        lambda s, v: tf.einsum("bhqk,bkhd->bqhd", s, v),
        ((2, 3, 5, 6), (2, 6, 3, 4)),
    ),
}


@pytest.mark.parametrize("stage", [LOWERED, OPTIMISED])
@pytest.mark.parametrize("name", MATRIX)
def test_matrix_work_and_its_gradients_agree(name: str, stage: Stage) -> None:
    """Nominal and least, exactly; all three passes of a convolution."""
    function, shapes = MATRIX[name]
    left = by_nodes(with_gradient(function), shapes)
    right = by_instructions(with_gradient(function), shapes, stage)
    assert of(Pipe.MATRIX, left.nominal) == of(Pipe.MATRIX, right.nominal) != {}
    assert of(Pipe.MATRIX, left.least) == of(Pipe.MATRIX, right.least)


VECTOR: dict[str, tuple[Function, Shapes]] = {
    "sum": (lambda x: tf.reduce_sum(x, 0), ((5, 6),)),
    "largest": (lambda x: tf.reduce_max(x, 1), ((5, 6),)),
    "arithmetic": (lambda x, y: tf.nn.relu(x) * y - x / y, ((5, 6), (5, 6))),
    "special functions": (lambda x: tf.exp(x) + tf.tanh(x) * tf.math.log1p(x), ((5, 6),)),
    "sigmoid": (lambda x: tf.sigmoid(x), ((5, 6),)),
    "greatest of a window": (lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), ((2, 9, 9, 3),)),
    "transform": (lambda x: tf.signal.rfft(x), ((5, 16),)),
    "moves": (lambda x: tf.pad(tf.transpose(x[:, 1:]), [[1, 1], [0, 0]]), ((5, 6),)),
    "choices": (lambda x, y: tf.where(x > y, x, y), ((5, 6), (5, 6))),
}


@pytest.mark.parametrize("name", VECTOR)
def test_vector_work_agrees(name: str) -> None:
    """Of ops that are lowered one to one."""
    function, shapes = VECTOR[name]
    left, right = by_nodes(function, shapes), by_instructions(function, shapes, LOWERED)
    assert of(Pipe.VECTOR, left.nominal) == of(Pipe.VECTOR, right.nominal)


COMPOSED: dict[str, tuple[Function, Shapes]] = {
    "softmax": (lambda x: tf.nn.softmax(x), ((50, 60),)),
    "loss": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros(50, tf.int32), x),
        ((50, 60),),
    ),
    "norm": (
        lambda x: tf.raw_ops.FusedBatchNormV3(
            x=x, scale=tf.ones(4), offset=tf.zeros(4), mean=[], variance=[]
        )[:1],
        ((2, 9, 9, 4),),
    ),
    "mean of a window": (lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), ((2, 8, 8, 3),)),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_ops_count_alike(name: str) -> None:
    """XLA writes them as simple ops, other ones than the textbook: within half of the weight."""
    function, shapes = COMPOSED[name]
    left, right = by_nodes(function, shapes), by_instructions(function, shapes, LOWERED)
    assert right.flop(Pipe.VECTOR) == pytest.approx(left.flop(Pipe.VECTOR), rel=0.5)


# --- whole steps

BUILD = models.BUILD
Named = list[tuple[str, Work]]


@functools.cache
def node_works(name: str) -> Named:
    return [(op.node.name, op.work) for op in graph_step(name).ops if op.work.nominal is not None]


@functools.cache
def instruction_works(name: str) -> Named:
    """One entry per executed instruction, from a profile of the compiled step."""
    recorded, _ = compiled_step(name)
    modules = {number: HloModule.read(data) for number, data in recorded.hlo_modules.items()}
    works = []
    for event in within(recorded.events, *recorded.steps[0]):
        if event.kind == "hlo":
            assert event.hlo_program is not None
            instruction = modules[event.hlo_program].instruction(event.name)
            assert instruction is not None
            works.append((instruction.op_name, instruction.work))
    assert not any(module.without_rule for module in modules.values())
    return works


def total(works: Named, pipe: Pipe) -> float:
    return sum(work.flop(pipe) for _, work in works)


@pytest.mark.parametrize("name", BUILD)
def test_matrix_work_of_a_step_is_the_hand_count_by_both(name: str) -> None:
    assert total(node_works(name), Pipe.MATRIX) == models.MATRIX_FLOP[name]
    assert total(instruction_works(name), Pipe.MATRIX) == models.MATRIX_FLOP[name]


@pytest.mark.parametrize("name", BUILD)
def test_least_work_of_a_step_agrees(name: str) -> None:
    def least(works: Named) -> float:
        return sum(sum(of(Pipe.MATRIX, work.least).values()) for _, work in works)

    assert least(node_works(name)) == least(instruction_works(name)) > 0


@pytest.mark.parametrize("name", BUILD)
def test_other_work_of_a_step_is_alike(name: str) -> None:
    """Fusions compute some elements again, and sums of lists are known only when compiled."""
    ratio = total(instruction_works(name), Pipe.VECTOR) / total(node_works(name), Pipe.VECTOR)
    assert 1.0 < ratio < 2.0


def layer_of(name: str, op_name: str) -> tuple[str, str]:
    """By the scopes in the name, without the mapper: Keras adds ``_1`` to each."""
    scopes = {
        layer: "/".join(f"{part}_1" for part in layer.split(".")) for layer, _ in models.TRUTH[name]
    }
    fits = [layer for layer, scope in scopes.items() if f"/{scope}/" in op_name]
    phase = "backward" if "gradient_tape" in op_name else "forward"
    return max(fits, key=len, default="?"), phase


@pytest.mark.parametrize("name", ["gpt", "rnn"])
def test_both_give_every_layer_its_hand_count(name: str) -> None:
    """Where every product carries the name of its layer; XLA drops those of the cnn's filter gradients."""
    for works in (node_works(name), instruction_works(name)):
        sums: Counter[tuple[str, str]] = Counter()
        for op_name, work in works:
            if work.flop(Pipe.MATRIX):
                sums[layer_of(name, op_name)] += int(work.flop(Pipe.MATRIX))
        assert sums == models.TRUTH[name]
