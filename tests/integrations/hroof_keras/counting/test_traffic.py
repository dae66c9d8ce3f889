"""Bytes and buffers of nodes: what is read and written, what only passes a reference on."""

from __future__ import annotations

import math

import pytest

tf = pytest.importorskip("tensorflow")

from hroof.launches import Work  # noqa: E402
from hroof.traffic import Access, predict  # noqa: E402
from hroof.units import MemoryLevel, Source  # noqa: E402
from hroof_keras.counting import Buffers, work_of  # noqa: E402
from hroof_keras.graph.nodes import Node, TensorSpec  # noqa: E402
from tests.integrations.hroof_keras.counting.made import attribute, work  # noqa: E402
from tests.integrations.hroof_keras.counting.traced import trace  # noqa: E402

INDICES = TensorSpec((5,), "int32")


def moved(counted: Work) -> tuple[float, float]:
    return counted.bytes_read, counted.bytes_written


def chain(*nodes: tuple[str, str, tuple[str, ...], tuple[int, ...]]) -> dict[str, Work]:
    """Works of nodes (name, op, inputs, shape of everything), in order, with common buffers."""
    buffers, works = Buffers(), {}
    for name, op, inputs, shape in nodes:
        made = Node(name, op, inputs, {"T": attribute(tf.float32)})
        spec = TensorSpec(shape, "float32")
        works[name] = work_of(made, [spec] * len(inputs), [spec], buffers)
    return works


def buffers_of(counted: Work, *, written: bool) -> set[int]:
    return {
        access.buffer
        for access in counted.touch.accesses
        if (access.written if written else access.read)
    }


# --- views and plumbing


@pytest.mark.parametrize(
    "op", ["Reshape", "Identity", "Squeeze", "ReadVariableOp", "Enter", "_Arg", "_EagerConst"]
)
def test_views_move_nothing(op: str) -> None:
    counted = work(op, (3, 4), TensorSpec((2,), "int32"), out=(12,))
    assert counted.is_view
    assert (counted.nominal, counted.least, *moved(counted)) == ({}, {}, 0, 0)
    assert counted.source is Source.COUNTED


@pytest.mark.parametrize(
    "op",
    [
        *("NoOp", "Const", "Shape", "TensorListPushBack", "StatefulPartitionedCall"),
        *(
            "IteratorGetNext",
            "MultiDeviceIteratorFromStringHandle",
            "AnonymousMultiDeviceIteratorV3",
        ),
        *("MultiDeviceIteratorInit", "IteratorGetDevice", "RangeDataset", "BatchDatasetV2"),
    ],
)
def test_plumbing_computes_and_moves_nothing(op: str) -> None:
    counted = work(op, None, out=(3, 4))
    assert (counted.nominal, *moved(counted), counted.source) == ({}, 0, 0, Source.COUNTED)


@pytest.mark.parametrize("op", ["Cast", "Transpose", "ConcatV2", "StopGradientCopy"])
def test_a_move_is_known_to_compute_nothing(op: str) -> None:
    counted = work(op, (3, 4), out=(3, 4))
    if op == "StopGradientCopy":
        assert counted.nominal is None
    else:
        assert (counted.nominal, *moved(counted)) == ({}, 48, 48)
        assert counted.source is Source.COUNTED


def test_a_view_passes_its_buffer_on() -> None:
    works = chain(
        ("a", "Relu", ("x:0",), (4,)),
        ("b", "Reshape", ("a:0",), (4,)),
        ("c", "Identity", ("b:0",), (4,)),
        ("d", "Relu", ("c:0",), (4,)),
    )
    assert buffers_of(works["a"], written=True) == buffers_of(works["d"], written=False)


def test_a_port_may_be_left_out() -> None:
    works = chain(("a", "Relu", ("x:0",), (4,)), ("b", "Relu", ("a",), (4,)))
    assert buffers_of(works["a"], written=True) == buffers_of(works["b"], written=False)


def test_both_sides_of_a_switch_and_every_pass_of_a_loop() -> None:
    works = chain(
        ("start", "Relu", ("x:0",), (4,)),
        ("enter", "Enter", ("start:0",), (4,)),
        ("merge", "Merge", ("enter:0", "next:0"), (4,)),
        ("switch", "Switch", ("merge:0", "go:0"), (4,)),
        ("body", "Relu", ("switch:1",), (4,)),
        ("next", "NextIteration", ("body:0",), (4,)),
    )
    assert buffers_of(works["start"], written=True) == buffers_of(works["body"], written=False)
    buffers = Buffers()
    buffers.alias("enter:0", "start:0")
    merge = Node("merge", "Merge", ("enter:0", "next:0"))
    buffers.pass_on(merge)
    assert buffers.name("merge:0") == buffers.name("start:0")
    buffers.alias("next:0", "body:0")
    buffers.pass_on(merge)
    assert buffers.name("merge:0") == buffers.name("body:0")


def test_every_result_of_identities_is_its_own_input() -> None:
    buffers = Buffers()
    buffers.pass_on(Node("n", "IdentityN", ("a:0", "b:3")))
    assert buffers.name("n:1") == buffers.name("b:3") != buffers.name("n:0") == buffers.name("a")
    assert not buffers.knows("c:0")
    buffers.pass_on(Node("arg", "_Arg"))
    assert not buffers.knows("arg:0")


# --- what is read and written


def test_an_input_that_is_used_twice_is_read_once() -> None:
    works = chain(("square", "Mul", ("x:0", "x:0"), (4,)))
    assert moved(works["square"]) == (16, 16)


def test_constants_that_say_how_are_not_data() -> None:
    axes = TensorSpec((1,), "int32")
    assert moved(work("Sum", (3, 4), axes, constants={1: [1]})) == (48, 12)
    # A constant that is computed with is data.
    assert moved(work("Mul", INDICES, INDICES, constants={1: [1] * 5}, T=tf.int32)) == (40, 20)


def test_lookups_read_a_row_per_index() -> None:
    axis = TensorSpec((), "int32")
    counted = work("GatherV2", (100, 4), INDICES, axis, out=(5, 4), constants={2: 0})
    assert moved(counted) == (80 + 20, 80)
    assert moved(work("GatherV2", (2, 4), INDICES, axis, out=(5, 4), constants={2: 0})) == (52, 80)
    assert moved(work("ResourceGather", None, INDICES, out=(5, 4))) == (100, 80)
    assert moved(work("SparseSegmentSum", (100, 4), INDICES, INDICES, out=(2, 4))) == (120, 32)


def test_slices_read_what_they_keep() -> None:
    three = TensorSpec((1,), "int32")
    counted = work("StridedSlice", (100,), three, three, three, out=(5,))
    assert counted.bytes_written == 20
    assert counted.bytes_read == 20 + 3 * 4
    constants = {place: [0] for place in (1, 2, 3)}
    assert moved(
        work("StridedSlice", (100,), three, three, three, out=(5,), constants=constants)
    ) == (
        20,
        20,
    )
    counted = work("StridedSliceGrad", three, three, three, three, (5,), out=(100,))
    assert moved(counted) == (20, 400)


def test_sums_of_rows_fill_the_table_and_add_to_it() -> None:
    counted = work(
        "UnsortedSegmentSum",
        (5, 4),
        INDICES,
        TensorSpec((), "int32"),
        out=(100, 4),
        constants={2: 100},
    )
    assert moved(counted) == (80 + 20 + 80, 1600 + 80)
    places = TensorSpec((5, 1), "int32")
    counted = work(
        "ScatterNd", places, (5, 4), TensorSpec((2,), "int32"), out=(9, 4), constants={2: [9, 4]}
    )
    assert moved(counted) == (20 + 80 + 80, 144 + 80)


def test_assignments_write_the_variable() -> None:
    assert moved(work("AssignVariableOp", None, (3, 4))) == (48, 48)
    for op in ("AssignAddVariableOp", "AssignSubVariableOp"):
        buffers = Buffers()
        counted = work(op, None, (3, 4), buffers=buffers)
        assert moved(counted) == (96, 48)
        assert set(counted.touch.accesses) == {
            Access(buffers.name("i0:0"), 48, True, True),
            Access(buffers.name("i1:0"), 48, True, False),
        }


def test_scatters_touch_the_addressed_rows() -> None:
    assert moved(work("ResourceScatterAdd", None, INDICES, (5, 4))) == (20 + 160, 80)
    assert moved(work("ResourceScatterUpdate", None, INDICES, (5, 4))) == (20 + 80, 80)


def test_zeros_like_reads_only_the_shape() -> None:
    assert moved(work("ZerosLike", (3, 4))) == (0, 48)
    assert moved(work("ZerosLike", None, T=tf.variant)) == (0, 0)
    assert moved(work("Fill", TensorSpec((2,), "int32"), (), constants={0: [3, 4]})) == (4, 48)


def test_lists_are_read_when_they_are_stacked() -> None:
    assert moved(work("TensorListStack", None, TensorSpec((1,), "int32"), out=(32, 4))) == (
        512 + 4,
        512,
    )


def test_a_transfer_moves_bytes_only_between_devices() -> None:
    buffers = Buffers()
    attrs = {
        "T": attribute(tf.float32),
        "send_device": attribute("/device:CPU:0"),
        "recv_device": attribute("/device:GPU:0"),
    }
    spec = TensorSpec((4,), "float32")
    send = work_of(Node("s", "_Send", ("x:0",), attrs), [spec], [], buffers)
    receive = work_of(Node("r", "_Recv", ("x:0",), attrs), [None], [spec], buffers)
    assert (moved(send), moved(receive)) == ((16, 0), (0, 16))
    assert send.nominal == receive.nominal == {}
    attrs["recv_device"] = attrs["send_device"]
    stays = work_of(Node("r", "_Recv", ("x:0",), attrs), [None], [spec], buffers)
    assert stays.is_view
    assert buffers.name("r:0") == buffers.name("x:0")


def test_narrow_types_move_fewer_bytes() -> None:
    counted = work("Cast", (3, 4), out=TensorSpec((3, 4), "bfloat16"))
    assert moved(counted) == (48, 24)


def test_strings_have_no_size_that_the_shape_tells() -> None:
    counted = work("Unique", TensorSpec((4,), "string"), out=[TensorSpec((4,), "string"), (4,)])
    assert math.isnan(counted.bytes_read)
    assert counted.nominal == {}


def test_bytes_of_specs() -> None:
    assert TensorSpec((3, 4), "complex64").nbytes == 96
    assert TensorSpec((), "bool").nbytes == 1
    assert TensorSpec(None, "resource").nbytes == 0
    assert math.isnan(TensorSpec(None, "float32").nbytes)
    assert math.isnan(TensorSpec(None, "float32").size)
    assert math.isnan(TensorSpec((3,), "string").nbytes)
    assert math.isnan(TensorSpec((3,), "unknown").nbytes)


def test_the_traffic_model_can_follow_a_step() -> None:
    """What the next op finds in the cache does not cross it."""
    nodes = trace(lambda x: tf.exp(tf.nn.relu(tf.reshape(x, (64, 64)))), (4096,))
    buffers = Buffers()
    works = [item.work(buffers) for item in nodes]
    below = predict([counted.touch for counted in works], {MemoryLevel.L1: 1 << 20}, warm=False)
    names = [item.node.op for item in nodes]
    relu, exp = names.index("Relu"), names.index("Exp")
    assert below[relu][MemoryLevel.DRAM] >= 16384
    assert below[exp][MemoryLevel.DRAM] <= below[relu][MemoryLevel.DRAM] + 16384
    read = buffers_of(works[exp], written=False)
    assert read == buffers_of(works[relu], written=True)
