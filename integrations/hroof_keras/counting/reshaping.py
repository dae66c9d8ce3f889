"""Shapes of results of ops that cut, join and rearrange; see ``inference``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hroof_keras.counting.flop import Call, Shape, UncountableError, size


def _given(call: Call, position: int) -> Shape:
    """A constant input as integers.

    Raises:
        UncountableError: It is not a constant.
    """
    values = call.ints(position)
    if values is None:
        raise UncountableError(f"its input {position} is not a constant")
    return values


def _reshape(call: Call) -> Sequence[Shape]:
    asked = _given(call, 1)
    rest = size([length for length in asked if length >= 0])
    free = size(call.shape(0)) // rest if rest else 0
    return [tuple(free if length < 0 else length for length in asked)]


def _filled(call: Call) -> Sequence[Shape]:
    return [_given(call, 0)]


def _broadcast_to(call: Call) -> Sequence[Shape]:
    return [_given(call, 1)]


def _expand(call: Call) -> Sequence[Shape]:
    shape = list(call.shape(0))
    (axis,) = _given(call, 1)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 1)
    return [tuple(shape)]


def _squeeze(call: Call) -> Sequence[Shape]:
    shape, asked = call.shape(0), call.node.integers("squeeze_dims")
    dropped = {axis % len(shape) for axis in asked} if asked else set(range(len(shape)))
    return [tuple(n for axis, n in enumerate(shape) if not (axis in dropped and n == 1))]


def _transpose(call: Call) -> Sequence[Shape]:
    shape = call.shape(0)
    return [tuple(shape[axis] for axis in _given(call, 1))]


def _concat(call: Call) -> Sequence[Shape]:
    count = len(call.node.inputs) - 1
    (axis,) = _given(call, count)
    return [_joined([call.shape(position) for position in range(count)], axis)]


def _joined(shapes: list[Shape], axis: int) -> Shape:
    result = list(shapes[0])
    result[axis % len(result)] = sum(shape[axis] for shape in shapes)
    return tuple(result)


def _pack(call: Call) -> Sequence[Shape]:
    shape = list(call.shape(0))
    axis = call.node.integer("axis")
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, len(call.node.inputs))
    return [tuple(shape)]


def _unpack(call: Call) -> Sequence[Shape]:
    shape = list(call.shape(0))
    count = shape.pop(call.node.integer("axis"))
    return [tuple(shape)] * count


def _split(call: Call) -> Sequence[Shape]:
    """Inputs: axis, value."""
    (axis,), shape = _given(call, 0), list(call.shape(1))
    count = call.node.integer("num_split", 1)
    shape[axis] //= count
    return [tuple(shape)] * count


def _split_sizes(call: Call) -> Sequence[Shape]:
    """Inputs: value, sizes, axis."""
    shape, lengths, (axis,) = call.shape(0), _given(call, 1), _given(call, 2)
    rest = shape[axis] - sum(length for length in lengths if length >= 0)
    pieces = []
    for length in lengths:
        piece = list(shape)
        piece[axis] = rest if length < 0 else length
        pieces.append(tuple(piece))
    return pieces


def _slice(call: Call) -> Sequence[Shape]:
    begins, lengths = _given(call, 1), _given(call, 2)
    places = zip(call.shape(0), begins, lengths, strict=True)
    return [tuple(n - begin if length < 0 else length for n, begin, length in places)]


def _strided_slice(call: Call) -> Sequence[Shape]:
    """Python's slices with bit masks; an ellipsis stands for whole dimensions."""
    node, shape = call.node, call.shape(0)
    begins, ends, steps = (_given(call, position) for position in (1, 2, 3))
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    no_begin, no_end, ellipsis, fresh, shrunk = (node.integer(name) for name in names)
    result: list[int] = []
    axis = 0
    used = sum(not (ellipsis | fresh) >> place & 1 for place in range(len(begins)))
    for place, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        bit = 1 << place
        if ellipsis & bit:
            result += shape[axis : axis + len(shape) - used]
            axis += len(shape) - used
        elif fresh & bit:
            result.append(1)
        else:
            if not shrunk & bit:
                cut = slice(None if no_begin & bit else begin, None if no_end & bit else end, step)
                result.append(len(range(*cut.indices(shape[axis]))))
            axis += 1
    return [(*result, *shape[axis:])]


def _pad(call: Call) -> Sequence[Shape]:
    values = _given(call, 1)
    places = zip(call.shape(0), values[::2], values[1::2], strict=True)
    return [tuple(before + length + after for length, before, after in places)]


def _tile(call: Call) -> Sequence[Shape]:
    return [tuple(n * times for n, times in zip(call.shape(0), _given(call, 1), strict=True))]


def _gather(call: Call) -> Sequence[Shape]:
    """Inputs: table, indices, and the axis in the V2 form."""
    table, indices = call.shape(0), call.shape(1)
    axis = _given(call, 2)[0] % len(table) if len(call.node.inputs) > 2 else 0
    shared = call.node.integer("batch_dims")
    return [(*table[:axis], *indices[shared:], *table[axis + 1 :])]


def _gather_nd(call: Call) -> Sequence[Shape]:
    table, indices = call.shape(0), call.shape(1)
    return [(*indices[:-1], *table[indices[-1] :])]


def _one_hot(call: Call) -> Sequence[Shape]:
    shape = list(call.shape(0))
    axis = call.node.integer("axis", -1)
    shape.insert(axis if axis >= 0 else len(shape), _given(call, 1)[0])
    return [tuple(shape)]


def _top(call: Call) -> Sequence[Shape]:
    (count,) = _given(call, 1)
    shape = (*call.shape(0)[:-1], count)
    return [shape, shape]


def _blocks(call: Call) -> Sequence[Shape]:
    batch, height, width, channels = call.shape(0)
    edge = call.node.integer("block_size")
    if call.op == "DepthToSpace":
        return [(batch, height * edge, width * edge, channels // edge**2)]
    return [(batch, height // edge, width // edge, channels * edge**2)]


Shaper = Callable[[Call], Sequence[Shape]]

SHAPERS: dict[str, Shaper] = {
    "Reshape": _reshape,
    "Fill": _filled,
    "RandomUniform": _filled,
    "RandomStandardNormal": _filled,
    "TruncatedNormal": _filled,
    "StatelessRandomUniform": _filled,
    "StatelessRandomUniformV2": _filled,
    "StatelessRandomNormal": _filled,
    "StatelessRandomNormalV2": _filled,
    "StatelessTruncatedNormalV2": _filled,
    "StridedSliceGrad": _filled,
    "BroadcastTo": _broadcast_to,
    "ExpandDims": _expand,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "ConjugateTranspose": _transpose,
    "ConcatV2": _concat,
    "Pack": _pack,
    "Unpack": _unpack,
    "Split": _split,
    "SplitV": _split_sizes,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Pad": _pad,
    "PadV2": _pad,
    "MirrorPad": _pad,
    "Tile": _tile,
    "Gather": _gather,
    "GatherV2": _gather,
    "GatherNd": _gather_nd,
    "OneHot": _one_hot,
    "TopK": _top,
    "TopKV2": _top,
    "SpaceToDepth": _blocks,
    "DepthToSpace": _blocks,
}
