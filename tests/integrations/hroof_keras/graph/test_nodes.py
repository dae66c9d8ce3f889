"""Nodes: types by number and by word, attributes of every kind."""

from __future__ import annotations

import pytest

tf = pytest.importorskip("tensorflow")

from hroof_keras.graph.nodes import ITEMSIZE, Node, dtype_of_enum, dtype_of_word  # noqa: E402
from tests.integrations.hroof_keras.counting.made import attribute  # noqa: E402


def test_types_by_number_are_those_of_tensorflow() -> None:
    from tensorflow.core.framework import types_pb2

    seen = 0
    for name, number in types_pb2.DataType.items():
        if name == "DT_INVALID" or number > 100:
            continue
        dtype = tf.as_dtype(number)
        if number <= 30:
            assert dtype_of_enum(number) == dtype.name
            assert dtype_of_enum(number + 100) == dtype.name
            seen += 1
        if dtype.name in ITEMSIZE:
            assert ITEMSIZE[dtype.name] == dtype.size
    assert seen >= 28
    assert dtype_of_enum(99) == "unknown"


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *(("float", "float32"), ("double", "float64"), ("half", "float16"), ("int32", "int32")),
        *(("bfloat16", "bfloat16"), ("float_ref", "float32"), ("resource", "resource")),
    ],
)
def test_types_by_word(word: str, name: str) -> None:
    assert dtype_of_word(word) == name


def test_attributes() -> None:
    types = tf.compat.v1.AttrValue()
    types.list.type.extend([tf.int32.as_datatype_enum, tf.bool.as_datatype_enum])
    node = Node(
        "n",
        "Op",
        attrs={
            "flag": attribute(True),
            "count": attribute(3),
            "rate": attribute(0.5),
            "mode": attribute("SAME"),
            "strides": attribute([1, 2]),
            "names": attribute(["a", "b"]),
            "T": attribute(tf.bfloat16),
            "types": types,
        },
    )
    assert (node.flag("flag"), node.flag("none"), node.flag("none", True)) == (True, False, True)
    assert (node.integer("count"), node.integer("none"), node.integer("none", 7)) == (3, 0, 7)
    assert (node.real("rate"), node.real("none", 1.5)) == (0.5, 1.5)
    assert (node.text("mode"), node.text("none", "x")) == ("SAME", "x")
    assert (node.integers("strides"), node.integers("none")) == ((1, 2), ())
    assert (node.texts("names"), node.texts("none")) == (("a", "b"), ())
    assert (node.dtype("T"), node.dtype("none")) == ("bfloat16", "unknown")
    assert (node.dtypes("types"), node.dtypes("none")) == (("int32", "bool"), ())
