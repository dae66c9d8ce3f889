"""The fields of serialised HLO that are read, by number.

The numbers are those of ``xla/service/hlo.proto`` and ``xla/xla_data.proto`` in openxla/xla.
"""

from __future__ import annotations

from hroof_keras.hlo.wire import Field, Schema

_SHAPE: dict[int, Field] = {2: Field("element"), 3: Field("dims", repeated=True)}
_SHAPE[4] = Field("parts", "message", repeated=True, schema=_SHAPE)

_WINDOW: Schema = {
    1: Field(
        "dimensions",
        "message",
        repeated=True,
        schema={
            1: Field("size"),
            2: Field("stride"),
            3: Field("low"),
            4: Field("high"),
            5: Field("dilation"),
            6: Field("base_dilation"),
            7: Field("reversed"),
        },
    )
}

_CONVOLUTION: Schema = {
    7: Field("input_batch"),
    8: Field("input_feature"),
    11: Field("input_spatial", repeated=True),
    3: Field("kernel_input"),
    4: Field("kernel_output"),
    6: Field("kernel_spatial", repeated=True),
    9: Field("output_batch"),
    10: Field("output_feature"),
    12: Field("output_spatial", repeated=True),
}

_DOT: Schema = {
    1: Field("lhs_contracting", repeated=True),
    2: Field("rhs_contracting", repeated=True),
    3: Field("lhs_batch", repeated=True),
    4: Field("rhs_batch", repeated=True),
}

_ALIASING: Schema = {
    1: Field("output", repeated=True),
    2: Field("operand"),
    3: Field("path", repeated=True),
}

LITERAL: Schema = {
    2: Field("bool", repeated=True),
    4: Field("int32", repeated=True),
    5: Field("int64", repeated=True),
    6: Field("uint32", repeated=True),
    7: Field("uint64", repeated=True),
}
"""Values of constants, the integer ones that can be counters."""

_ATTRIBUTES: Schema = {
    1: Field(
        "map", "message", repeated=True, schema={1: Field("key", "text"), 2: Field("value", "text")}
    )
}

_INSTRUCTION: Schema = {
    1: Field("name", "text"),
    2: Field("opcode", "text"),
    3: Field("shape", "message", schema=_SHAPE),
    7: Field(
        "metadata", "message", schema={1: Field("op_type", "text"), 2: Field("op_name", "text")}
    ),
    8: Field("literal", "bytes"),
    9: Field("parameter"),
    13: Field("tuple_index"),
    14: Field("dimensions", repeated=True),
    15: Field("window", "message", schema=_WINDOW),
    16: Field("convolution", "message", schema=_CONVOLUTION),
    28: Field("target", "text"),
    30: Field("dot", "message", schema=_DOT),
    31: Field("fft_type"),
    32: Field("fft_length", repeated=True),
    35: Field("id"),
    36: Field("operands", repeated=True),
    38: Field("called", repeated=True),
    43: Field("backend_config", "bytes"),
    50: Field("feature_groups"),
    58: Field("batch_groups"),
    63: Field("direction", "text"),
    68: Field("attributes", "message", schema=_ATTRIBUTES),
    59: Field("triangular", "message", schema={1: Field("left_side")}),
    74: Field("aliasing", "message", repeated=True, schema=_ALIASING),
    90: Field("ragged_dot", "message", schema={1: Field("dot", "message", schema=_DOT)}),
    97: Field("convolution_kind"),
}

_COMPUTATION: Schema = {
    1: Field("name", "text"),
    2: Field("instructions", "message", repeated=True, schema=_INSTRUCTION),
    5: Field("id"),
    6: Field("root"),
    7: Field("is_fusion"),
}

_SEQUENCE: Schema = {1: Field("ids", repeated=True)}

MODULE: Schema = {
    1: Field("name", "text"),
    3: Field("computations", "message", repeated=True, schema=_COMPUTATION),
    5: Field("id"),
    6: Field("entry"),
    7: Field(
        "schedule",
        "message",
        schema={
            1: Field(
                "sequences",
                "message",
                repeated=True,
                schema={1: Field("key"), 2: Field("value", "message", schema=_SEQUENCE)},
            )
        },
    ),
    8: Field(
        "aliases",
        "message",
        schema={
            1: Field(
                "entries",
                "message",
                repeated=True,
                schema={
                    1: Field("output", repeated=True),
                    2: Field("parameter"),
                    3: Field("path", repeated=True),
                },
            )
        },
    ),
}
