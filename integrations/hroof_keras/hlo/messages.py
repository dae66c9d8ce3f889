"""HLO modules as they are serialised: computations, instructions and what rules need of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hroof_keras.hlo.schemas import LITERAL, MODULE
from hroof_keras.hlo.shapes import Shape, dtype_name
from hroof_keras.hlo.wire import broken, decode, fields

_ENTRY_NAME, _WRAPPED_MODULE = 2, 1
"""Fields that tell a module from the message around it."""

_LARGEST_LITERAL = 64
"""Bytes; a larger constant is no single number."""


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """A window along one dimension.

    Attributes:
        size: Taps.
        stride: Elements of the (dilated, padded) base between outputs.
        low: Elements of padding in front; negative cuts off.
        high: The same at the end.
        dilation: Elements between taps.
        base_dilation: Elements between those of the base; the holes hold zeros.
        reversed: The taps are applied backwards.
    """

    size: int
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1
    base_dilation: int = 1
    reversed: bool = False


@dataclass(frozen=True, slots=True)
class ConvolutionDimensions:
    """Which dimensions of input, kernel and output mean what."""

    input_batch: int = 0
    input_feature: int = 0
    input_spatial: tuple[int, ...] = ()
    kernel_input: int = 0
    kernel_output: int = 0
    kernel_spatial: tuple[int, ...] = ()
    output_batch: int = 0
    output_feature: int = 0
    output_spatial: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DotDimensions:
    """Which dimensions of a product are summed over and which are its batch."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Alias:
    """A part of the result that shares its memory with a part of an operand (of a module: of a parameter)."""

    output: tuple[int, ...]
    operand: int
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Hlo:
    """An instruction.

    Attributes:
        name: Unique in its module; what profiles call it.
        opcode: ``fusion``, ``dot``, ``while`` and so on.
        shape: Of the result.
        operands: Instructions of the same computation whose results it takes.
        called: Identities of the computations it calls.
        op_name: Name that the framework gave the op it comes from; may be empty.
        op_type: Type of that op, where the framework tells.
        parameter: Number of a ``parameter``.
        tuple_index: Part that ``get-tuple-element`` takes.
        dimensions: Of a reduction, broadcast, concatenation and so on.
        window: Of a convolution or of a windowed reduction.
        convolution: Dimensions of a convolution.
        dot: Dimensions of a product.
        target: What a ``custom-call`` calls.
        backend_config: Further settings, usually JSON.
        feature_groups: Groups of channels of a convolution.
        batch_groups: Groups of its batch.
        convolution_kind: 1 forward, 2 gradient of the input, 3 of the kernel, 0 not said.
        fft_type: 0 FFT, 1 inverse, 2 of real data, 3 inverse to real data.
        fft_length: Lengths of the transformed dimensions.
        left_side: A triangular matrix stands on the left.
        aliasing: Parts of the result that share memory with operands.
        constant: Value of a ``constant`` that is a single integer or truth value; else None.
        direction: ``LT``, ``EQ`` and so on of a ``compare``.
        attributes: What the compiler noted in words.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[Hlo, ...] = field(default=(), repr=False)
    called: tuple[int, ...] = ()
    op_name: str = ""
    op_type: str = ""
    parameter: int = 0
    tuple_index: int = 0
    dimensions: tuple[int, ...] = ()
    window: tuple[WindowDimension, ...] = ()
    convolution: ConvolutionDimensions = ConvolutionDimensions()
    dot: DotDimensions = DotDimensions()
    target: str = ""
    backend_config: bytes = b""
    feature_groups: int = 1
    batch_groups: int = 1
    convolution_kind: int = 0
    fft_type: int = 0
    fft_length: tuple[int, ...] = ()
    left_side: bool = False
    aliasing: tuple[Alias, ...] = ()
    constant: int | bool | None = None
    direction: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Computation:
    """A list of instructions, operands before users.

    Attributes:
        id: Identity in the module.
        name: Its name.
        instructions: In order of execution, where the module is scheduled.
        root: The instruction whose result is the result.
        is_fusion: Body of a fusion: one kernel, whose inner values need not be in memory.
    """

    id: int
    name: str
    instructions: tuple[Hlo, ...]
    root: Hlo
    is_fusion: bool = False

    @property
    def parameters(self) -> dict[int, Hlo]:
        """Its parameters by number."""
        return {hlo.parameter: hlo for hlo in self.instructions if hlo.opcode == "parameter"}


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A compiled program.

    Attributes:
        name: As compiled, for example ``a_inference_one_step_on_data_1234__XlaMustCompile``.
        id: Number of the module, unique in the process that compiled it.
        computations: By identity.
        entry: The computation that runs.
        aliases: Parts of its result that are written over parameters.
    """

    name: str
    id: int
    computations: Mapping[int, Computation]
    entry: Computation
    aliases: tuple[Alias, ...] = ()


def read_module(serialized: bytes) -> Module:
    """Read a module.

    Args:
        serialized: An ``HloProto`` or the ``HloModuleProto`` in it.

    Raises:
        ProfileError: The bytes are neither.
    """
    try:
        return _module(decode(_module_bytes(serialized), MODULE))
    except KeyError as missing:
        raise broken(f"it refers to a part with the number {missing}, which is not there") from None


def _module(raw: Mapping[str, Any]) -> Module:
    order = {
        entry.get("key", 0): entry.get("value", {}).get("ids", [])
        for entry in raw.get("schedule", {}).get("sequences", [])
    }
    computations = {}
    for item in raw.get("computations", []):
        number = item.get("id", 0)
        computations[number] = _computation(item, order.get(number, []))
    return Module(
        name=raw.get("name", ""),
        id=raw.get("id", 0),
        computations=computations,
        entry=computations[raw.get("entry", 0)],
        aliases=tuple(
            Alias(
                tuple(item.get("output", [])), item.get("parameter", 0), tuple(item.get("path", []))
            )
            for item in raw.get("aliases", {}).get("entries", [])
        ),
    )


def _module_bytes(serialized: bytes) -> bytes | memoryview:
    """The module itself: every module names its entry computation, the message around it does not."""
    wrapped: bytes | memoryview = serialized
    for number, value in fields(memoryview(serialized)):
        if number == _ENTRY_NAME:
            return serialized
        if number == _WRAPPED_MODULE and isinstance(value, memoryview):
            wrapped = value
    return wrapped


def _computation(raw: Mapping[str, Any], order: list[int]) -> Computation:
    """Links instructions to their operands, which stand before them, and puts them in order of execution."""
    by_id: dict[int, Hlo] = {}
    for item in raw.get("instructions", []):
        operands = tuple(by_id[number] for number in item.get("operands", []))
        by_id[item.get("id", 0)] = _instruction(item, operands)
    scheduled = [by_id[number] for number in order if number in by_id]
    complete = len(scheduled) == len(by_id)
    return Computation(
        raw.get("id", 0),
        raw.get("name", ""),
        tuple(scheduled if complete else by_id.values()),
        by_id[raw.get("root", 0)],
        bool(raw.get("is_fusion", 0)),
    )


def _instruction(raw: Mapping[str, Any], operands: tuple[Hlo, ...]) -> Hlo:
    metadata = raw.get("metadata", {})
    dot = raw.get("dot") or raw.get("ragged_dot", {}).get("dot", {})
    return Hlo(
        name=raw.get("name", ""),
        opcode=raw.get("opcode", ""),
        shape=_shape(raw.get("shape", {})),
        operands=operands,
        called=tuple(raw.get("called", [])),
        op_name=metadata.get("op_name", ""),
        op_type=metadata.get("op_type", ""),
        parameter=raw.get("parameter", 0),
        tuple_index=raw.get("tuple_index", 0),
        dimensions=tuple(raw.get("dimensions", [])),
        window=tuple(_window(item) for item in raw.get("window", {}).get("dimensions", [])),
        convolution=ConvolutionDimensions(**_tuples(raw.get("convolution", {}))),
        dot=DotDimensions(**_tuples(dot)),
        target=raw.get("target", ""),
        backend_config=raw.get("backend_config", b""),
        feature_groups=max(1, raw.get("feature_groups", 1)),
        batch_groups=max(1, raw.get("batch_groups", 1)),
        convolution_kind=raw.get("convolution_kind", 0),
        fft_type=raw.get("fft_type", 0),
        fft_length=tuple(raw.get("fft_length", [])),
        left_side=bool(raw.get("triangular", {}).get("left_side", 0)),
        aliasing=tuple(
            Alias(
                tuple(item.get("output", [])), item.get("operand", 0), tuple(item.get("path", []))
            )
            for item in raw.get("aliasing", [])
        ),
        constant=_constant(raw.get("literal", b"")),
        direction=raw.get("direction", ""),
        attributes={
            item.get("key", ""): item.get("value", "")
            for item in raw.get("attributes", {}).get("map", [])
        },
    )


def _constant(literal: bytes) -> int | bool | None:
    if not literal or len(literal) > _LARGEST_LITERAL:
        return None
    for dtype, values in decode(literal, LITERAL).items():
        if len(values) == 1:
            return bool(values[0]) if dtype == "bool" else int(values[0])
    return None


def _shape(raw: Mapping[str, Any]) -> Shape:
    return Shape(
        dtype_name(raw.get("element", 0)),
        tuple(raw.get("dims", [])),
        tuple(_shape(part) for part in raw.get("parts", [])),
    )


def _window(raw: Mapping[str, int]) -> WindowDimension:
    """Fields that are zero are not written; a stride or dilation of zero means one."""
    return WindowDimension(
        raw.get("size", 0),
        raw.get("stride", 0) or 1,
        raw.get("low", 0),
        raw.get("high", 0),
        raw.get("dilation", 0) or 1,
        raw.get("base_dilation", 0) or 1,
        bool(raw.get("reversed", 0)),
    )


def _tuples(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
