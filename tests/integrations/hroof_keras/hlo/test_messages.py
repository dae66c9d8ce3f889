"""Modules as read here, against the classes that TensorFlow brings for the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")
hlo_pb2 = pytest.importorskip("tensorflow.compiler.xla.service.hlo_pb2")
xla_data_pb2 = pytest.importorskip("tensorflow.compiler.xla.xla_data_pb2")

from hroof.errors import ProfileError  # noqa: E402
from hroof_keras.hlo.messages import Computation, Hlo, read_module  # noqa: E402
from hroof_keras.hlo.shapes import Shape, dtype_name  # noqa: E402
from tests.integrations.hroof_keras.hlo.compiled import serialized  # noqa: E402


def network(x: Any, kernel: Any, weights: Any) -> Any:
    """A convolution, a product, a pool and a loop with their gradients, under names."""
    with tf.GradientTape() as tape:
        tape.watch([kernel, weights])
        with tf.name_scope("block"):
            y = tf.nn.conv2d(x, kernel, [1, 2, 2, 1], [[0, 0], [1, 2], [0, 1], [0, 0]])
            y = tf.nn.max_pool2d(y, 2, 2, "VALID")
            y = tf.reshape(y, [x.shape[0], -1]) @ weights
        state = tf.zeros_like(y)
        for _ in tf.range(3):
            state = tf.tanh(state + y)
    return tape.gradient(state, [kernel, weights])


ARGUMENTS = ((2, 9, 9, 3), (3, 3, 3, 4), (16, 5))


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """Read by the generated class, and read here."""
    data = serialized(network, *(tf.ones(shape) for shape in ARGUMENTS))
    return hlo_pb2.HloProto.FromString(data).hlo_module, read_module(data)


def numbers(message: Any, *names: str) -> tuple[int, ...]:
    return tuple(getattr(message, name) for name in names)


def same_shape(theirs: Any, ours: Shape) -> bool:
    name = xla_data_pb2.PrimitiveType.Name(theirs.element_type)
    return (
        NAMES.get(name, name.lower()) == ours.dtype
        and tuple(theirs.dimensions) == ours.dims
        and len(theirs.tuple_shapes) == len(ours.parts)
        and all(map(same_shape, theirs.tuple_shapes, ours.parts))
    )


NAMES = {"F32": "float32", "S32": "int32", "S64": "int64", "PRED": "bool", "U32": "uint32"}


def assert_same_instruction(theirs: Any, ours: Hlo, names: dict[int, str]) -> None:
    assert (ours.name, ours.opcode) == (theirs.name, theirs.opcode)
    assert same_shape(theirs.shape, ours.shape)
    assert [operand.name for operand in ours.operands] == [names[i] for i in theirs.operand_ids]
    assert ours.called == tuple(theirs.called_computation_ids)
    assert (ours.op_name, ours.op_type) == (theirs.metadata.op_name, theirs.metadata.op_type)
    assert ours.parameter == theirs.parameter_number
    assert ours.tuple_index == theirs.tuple_index
    assert ours.dimensions == tuple(theirs.dimensions)
    assert ours.backend_config == theirs.backend_config
    assert ours.target == theirs.custom_call_target
    assert ours.feature_groups == max(1, theirs.feature_group_count)
    assert ours.batch_groups == max(1, theirs.batch_group_count)
    assert ours.dot.lhs_contracting == tuple(
        theirs.dot_dimension_numbers.lhs_contracting_dimensions
    )
    assert ours.dot.rhs_batch == tuple(theirs.dot_dimension_numbers.rhs_batch_dimensions)
    assert len(ours.window) == len(theirs.window.dimensions)
    for mine, its in zip(ours.window, theirs.window.dimensions, strict=True):
        assert (mine.size, mine.stride, mine.low, mine.high) == numbers(
            its, "size", "stride", "padding_low", "padding_high"
        )
        assert (mine.dilation, mine.base_dilation, mine.reversed) == numbers(
            its, "window_dilation", "base_dilation", "window_reversal"
        )
    dims, ids = theirs.convolution_dimension_numbers, ours.convolution
    assert ids.input_spatial == tuple(dims.input_spatial_dimensions)
    assert ids.kernel_output == dims.kernel_output_feature_dimension
    assert ids.output_feature == dims.output_feature_dimension


def test_every_instruction_is_read_as_the_generated_class_reads_it(pair: tuple[Any, Any]) -> None:
    theirs, ours = pair
    assert (ours.name, ours.id) == (theirs.name, theirs.id)
    assert set(ours.computations) == {item.id for item in theirs.computations}
    seen = set()
    for item in theirs.computations:
        computation = ours.computations[item.id]
        mine = {hlo.name: hlo for hlo in computation.instructions}
        names = {instruction.id: instruction.name for instruction in item.instructions}
        assert len(mine) == len(item.instructions)
        assert computation.root.name == names[item.root_id]
        assert computation.is_fusion == item.is_fusion_computation
        for instruction in item.instructions:
            assert_same_instruction(instruction, mine[instruction.name], names)
            seen.add(instruction.opcode)
    assert seen >= {"convolution", "dot", "fusion", "while", "parameter", "tuple", "reduce-window"}


def test_the_entry_computation_and_its_aliases(pair: tuple[Any, Any]) -> None:
    theirs, ours = pair
    assert ours.entry.id == theirs.entry_computation_id
    assert len(ours.aliases) == len(theirs.input_output_alias.entries)


def test_instructions_stand_in_order_of_execution(pair: tuple[Any, Any]) -> None:
    theirs, ours = pair
    for number, sequence in theirs.schedule.sequences.items():
        raw = next(item for item in theirs.computations if item.id == number)
        names = {instruction.id: instruction.name for instruction in raw.instructions}
        order = [hlo.name for hlo in ours.computations[number].instructions]
        assert order == [names[i] for i in sequence.instruction_ids]
    assert theirs.schedule.sequences


def test_a_variable_that_is_written_is_an_alias() -> None:
    variable = tf.Variable(tf.zeros(8))
    data = serialized(lambda: variable.assign_add(tf.ones(8)))
    theirs, ours = hlo_pb2.HloProto.FromString(data).hlo_module, read_module(data)
    (entry,) = theirs.input_output_alias.entries
    (alias,) = ours.aliases
    assert alias.operand == entry.parameter_number
    assert alias.output == tuple(entry.output_shape_index)


def test_the_module_alone_is_read_like_the_message_around_it() -> None:
    arguments = [tf.ones(shape) for shape in ARGUMENTS]
    wrapped = serialized(network, *arguments)
    inner = hlo_pb2.HloProto.FromString(wrapped).hlo_module.SerializeToString()
    one, other = read_module(wrapped), read_module(inner)
    assert one.name == other.name
    assert {c.name for c in one.computations.values()} == {
        c.name for c in other.computations.values()
    }


def test_a_module_that_was_not_scheduled_keeps_operands_before_users() -> None:
    data = serialized(network, *(tf.ones(s) for s in ARGUMENTS), stage="hlo_serialized")
    for computation in read_module(data).computations.values():
        assert_topological(computation)


def assert_topological(computation: Computation) -> None:
    seen: set[Hlo] = set()
    for hlo in computation.instructions:
        assert seen.issuperset(hlo.operands)
        seen.add(hlo)


@pytest.mark.parametrize("data", [b"", b"\x12\x03abc", b"no module at all"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProfileError, match="not a serialised HLO module"):
        read_module(data)


def test_every_element_type_has_a_name() -> None:
    """A type that XLA adds is found by this test before it is found by a user."""
    for name, number in xla_data_pb2.PrimitiveType.items():
        if name != "PRIMITIVE_TYPE_INVALID":
            assert dtype_name(number) != "unknown", name
    assert dtype_name(10_000) == "unknown"
