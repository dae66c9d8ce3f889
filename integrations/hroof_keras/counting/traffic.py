"""How many distinct bytes of which buffers an op must read and write.

Nothing stays in a cache between ops and everything is reused within one: an op reads each input once and
writes each result once. Ops that touch only some elements have rules of their own. A lookup is charged per
index: two equal indices read their row twice, an upper bound that only the data could sharpen; it never exceeds
the whole table where its size is known. The sums are a lower bound of the traffic of the level nearest to
the cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hroof.traffic import Access
from hroof_keras.counting import weights
from hroof_keras.counting.buffers import Buffers
from hroof_keras.counting.flop import Call
from hroof_keras.counting.rules.optimizers import UPDATES, update_of
from hroof_keras.graph.nodes import ITEMSIZE, TensorSpec

Side = dict[str, float]


@dataclass(slots=True)
class Traffic:
    """Bytes of one op by tensor (``node:port``); a variable stands under its handle."""

    read: Side = field(default_factory=dict)
    written: Side = field(default_factory=dict)

    @property
    def bytes_read(self) -> float:
        """Σ bytes read; NaN where one is unknown."""
        return float(sum(self.read.values()))

    @property
    def bytes_written(self) -> float:
        """Σ bytes written; NaN where one is unknown."""
        return float(sum(self.written.values()))

    def accesses(self, buffers: Buffers) -> tuple[Access, ...]:
        """One access per buffer, two where it is read and written in different amounts."""
        read, written = _by_buffer(self.read, buffers), _by_buffer(self.written, buffers)
        both = {buffer for buffer in read if written.get(buffer) == read[buffer]}
        found = [Access(buffer, nbytes, True, buffer in both) for buffer, nbytes in read.items()]
        rest = [item for item in written.items() if item[0] not in both]
        return (*found, *(Access(buffer, nbytes, False, True) for buffer, nbytes in rest))


def _by_buffer(side: Side, buffers: Buffers) -> dict[int, float]:
    """Known, non-zero bytes by buffer."""
    sums: dict[int, float] = {}
    for tensor, nbytes in side.items():
        if nbytes and not math.isnan(nbytes):
            buffer = buffers.name(tensor)
            sums[buffer] = sums.get(buffer, 0.0) + nbytes
    return sums


_UNREAD: dict[str, frozenset[int]] = {
    name: frozenset(positions)
    for names, positions in {
        "StridedSliceGrad": (0, 1, 2, 3),
        "Fill AvgPoolGrad AvgPool3DGrad Conv2DBackpropInput Conv3DBackpropInputV2": (0,),
        "DepthwiseConv2dNativeBackpropInput": (0,),
        "Conv2DBackpropFilter Conv2DBackpropFilterWithBias Conv3DBackpropFilterV2": (1,),
        "DepthwiseConv2dNativeBackpropFilter": (1,),
        "FusedBatchNormGradV3 FusedBatchNormGradEx": (5,),
        "CudnnRNNBackprop CudnnRNNBackpropV2": (10, 11),
        "CudnnRNNBackpropV3": (11, 12),
    }.items()
    for name in names.split()
}
"""Inputs that an op takes for their shape only, or that are work space of a library."""

_HANDLES: dict[str, frozenset[int]] = {
    name: frozenset({0})
    for name in (
        *("TensorListStack", "TensorListGather", "TensorListConcat", "TensorListConcatV2"),
        *("TensorArrayGatherV3", "TensorArrayConcatV3"),
        *("StatefulUniform", "StatefulUniformInt", "StatefulUniformFullInt"),
        *("StatefulStandardNormal", "StatefulStandardNormalV2", "StatefulTruncatedNormal"),
        *("LookupTableFindV2", "LookupTableSizeV2"),
    )
}
"""Inputs that are handles, of which a profile tells no shape."""

_WORK_SPACE = {
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"), 3),
    **dict.fromkeys(("FusedBatchNormV3", "FusedBatchNormEx"), 5),
}
"""How many results are results; what follows is work space of a library."""

Rule = Callable[[Call, Traffic], None]
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return register


def traffic_of(call: Call) -> Traffic:
    """What one executed node reads and writes."""
    traffic = Traffic()
    update = update_of(call.op)
    if update is not None:
        _fused_update(call, traffic)
    elif call.op in _OWN:
        _OWN[call.op](call, traffic)
    else:
        _general(call, traffic)
        special = _RULES.get(call.op)
        if special is not None:
            special(call, traffic)
    return traffic


def _general(call: Call, traffic: Traffic) -> None:
    """Every input that is data is read, every result written."""
    unread = _UNREAD.get(call.op, frozenset()) | _HANDLES.get(call.op, frozenset())
    for position, tensor in enumerate(call.node.inputs):
        if position not in unread and not _is_parameter(call, position):
            traffic.read[tensor] = _nbytes(call.input(position))
    _write_results(call, traffic)


def _write_results(call: Call, traffic: Traffic) -> None:
    for port, spec in enumerate(call.outputs[: _WORK_SPACE.get(call.op)]):
        traffic.written[f"{call.node.name}:{port}"] = _nbytes(spec)
    if not call.outputs and call.op not in _WITHOUT_RESULT:
        traffic.written[f"{call.node.name}:0"] = float("nan")


_WITHOUT_RESULT = frozenset({"Send", "HostSend", "AssignVariableOp", "Retval"})


def _is_parameter(call: Call, position: int) -> bool:
    """Whether an input is a constant that says how, not what, to compute: axes, sizes, paddings."""
    if call.constant(position) is None or call.op in weights.PER_OUTPUT:
        return False
    spec = call.input(position)
    return spec is None or spec.dtype in ("int32", "int64")


def _nbytes(spec: TensorSpec | None) -> float:
    return float("nan") if spec is None else spec.nbytes


def _limit(traffic: Traffic, call: Call, position: int) -> None:
    """Of this input only as many bytes are read as the first result has, where it is larger or unknown."""
    tensor, wanted = call.node.inputs[position], _nbytes(call.output())
    whole = _nbytes(call.input(position))
    traffic.read[tensor] = wanted if math.isnan(whole) else min(whole, wanted)


@_rule("Gather", "GatherV2", "GatherNd", "ResourceGather", "ResourceGatherNd")
@_rule("Slice", "StridedSlice")
@_rule("TensorListStack", "TensorListGather", "TensorListConcat", "TensorListConcatV2")
@_rule("TensorArrayGatherV3", "TensorArrayConcatV3")
def _partly_read(call: Call, traffic: Traffic) -> None:
    _limit(traffic, call, 0)


@_rule("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
@_rule("SparseSegmentSumWithNumSegments", "SparseSegmentMeanWithNumSegments")
def _rows_read(call: Call, traffic: Traffic) -> None:
    """One row per index."""
    table, indices = call.input(0), call.input(1)
    if table is None or indices is None or not table.shape:
        return
    rows = table.nbytes / max(table.shape[0], 1) * indices.size
    traffic.read[call.node.inputs[0]] = min(table.nbytes, rows)


@_rule("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def _accumulated(call: Call, traffic: Traffic) -> None:
    """Fill the whole result, then read, combine and write one row per index."""
    rows = _nbytes(call.input(0))
    result = f"{call.node.name}:0"
    traffic.read[result] = rows
    traffic.written[result] = traffic.written.get(result, float("nan")) + rows


@_rule("ScatterNd")
def _scattered(call: Call, traffic: Traffic) -> None:
    """Inputs: indices, updates; as above."""
    rows = _nbytes(call.input(1))
    result = f"{call.node.name}:0"
    traffic.read[result] = rows
    traffic.written[result] = traffic.written.get(result, float("nan")) + rows


def _assign(call: Call, traffic: Traffic) -> None:
    """Read the value, write the variable."""
    handle, value = call.node.inputs[:2]
    traffic.read[value] = traffic.written[handle] = _nbytes(call.input(1))


def _assign_add(call: Call, traffic: Traffic) -> None:
    """Read the value and the variable, write the variable."""
    _assign(call, traffic)
    traffic.read[call.node.inputs[0]] = _nbytes(call.input(1))


def _scatter_update(call: Call, traffic: Traffic) -> None:
    """Inputs: variable, indices, updates; only the addressed rows are touched, and read where they are added to."""
    handle, indices, updates = call.node.inputs[:3]
    rows = _nbytes(call.input(2))
    traffic.read[indices], traffic.read[updates] = _nbytes(call.input(1)), rows
    traffic.written[handle] = rows
    if not call.op.endswith("Update"):
        traffic.read[handle] = rows


def _fused_update(call: Call, traffic: Traffic) -> None:
    """The gradient is read; parameter and states are read and written, as many elements as it has."""
    update = UPDATES[call.op.removeprefix("Resource")]
    gradient = call.input(update.gradient)
    elements = float("nan") if gradient is None else gradient.size
    nbytes = elements * ITEMSIZE.get(call.dtype(), float("nan"))
    traffic.read[call.node.inputs[update.gradient]] = _nbytes(gradient)
    if "SparseApply" in call.op:
        traffic.read[call.node.inputs[update.gradient + 1]] = _nbytes(
            call.input(update.gradient + 1)
        )
    for handle in call.node.inputs[: update.states]:
        traffic.read[handle] = traffic.written[handle] = nbytes


def _transfer(call: Call, traffic: Traffic) -> None:
    """One end of a copy between devices."""
    node = call.node
    if call.op in ("Send", "HostSend"):
        traffic.read[node.inputs[0]] = _nbytes(call.input(0))
    else:
        traffic.written[f"{node.name}:0"] = _nbytes(call.output())


def _zeros(call: Call, traffic: Traffic) -> None:
    """Only the result is written; a list of zeros holds nothing yet."""
    if call.dtype() != "variant":
        _write_results(call, traffic)


def _lists(call: Call, traffic: Traffic) -> None:
    """The sum of lists moves what only the data tells."""
    if call.dtype() == "variant":
        traffic.read[call.node.inputs[0]] = float("nan")
        traffic.written[f"{call.node.name}:0"] = float("nan")
    else:
        _general(call, traffic)


_OWN: dict[str, Rule] = {
    "AssignVariableOp": _assign,
    "AssignAddVariableOp": _assign_add,
    "AssignSubVariableOp": _assign_add,
    **dict.fromkeys(("Send", "Recv", "HostSend", "HostRecv"), _transfer),
    **dict.fromkeys(("ZerosLike", "OnesLike"), _zeros),
    **dict.fromkeys(("AddN", "AccumulateNV2"), _lists),
    **{
        f"ResourceScatter{how}": _scatter_update
        for how in (
            *("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"),
            *("NdAdd", "NdSub", "NdUpdate"),
        )
    },
}
