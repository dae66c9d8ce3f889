"""JSON Schema of the machine-readable report: stable, versioned, base SI units."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hroof.roofline import Totals
from hroof.units import MemoryLevel, Source

REPORT_SCHEMA = 1

_NUMBER = {"type": ["number", "null"]}
_TEXT = {"type": ["string", "null"]}
_NUMBERS = {"type": "object", "additionalProperties": _NUMBER}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_SHARES = {"type": "object", "additionalProperties": _NUMBER}


def _object(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": sorted(properties),
        "additionalProperties": False,
        **more,
    }


_SOURCES = _object(
    {name: {"enum": [*map(str, Source)]} for name in ("time", "flop", *map(str, MemoryLevel))}
)
_ROW = {
    "launches": _NUMBER,
    "time": _NUMBER,
    "time_spread": _NUMBER,
    "flop": _NUMBER,
    "flop_by": _NUMBERS,
    "flop_least_by": _NUMBERS,
    "integer_op": _NUMBER,
    "bytes": _NUMBERS,
    "intensity": _NUMBERS,
    "flop_rate": _NUMBER,
    "byte_rate": _NUMBERS,
    "bound": _TEXT,
    "bound_share": _NUMBER,
    "attainable_time": _NUMBER,
    "fused_time": _NUMBER,
    "compute_time": _NUMBER,
    "memory_time": _NUMBERS,
    "launch_time": _NUMBER,
    "headroom": _NUMBER,
    "recoverable_time": _NUMBER,
    "bounded_time": _NUMBER,
    "uncounted_time": _NUMBER,
    "zero_flop_launches": _NUMBER,
    "sources": _SOURCES,
    "notes": _TEXTS,
}
_COVERAGE = {
    "time_attributed": _NUMBER,
    "time_attributed_by_phase": _SHARES,
    "time_with_flop": _NUMBER,
    "ops_without_rule": _SHARES,
    "ops_unjoined": _SHARES,
    "time_unjoined": _NUMBER,
    "time_on_containers": _SHARES,
    "time_outside_steps": _NUMBER,
    "launches": _NUMBER,
    "launches_with_bytes": _NUMBERS,
    "time_loading": _NUMBER,
}
_MAPPED_TOTALS = {"flop": "flop_by", "least_flop": "flop_least_by", "nbytes": "bytes"}
_TOTALS = {
    _MAPPED_TOTALS.get(field.name, field.name): _NUMBERS
    if field.name in _MAPPED_TOTALS
    else _NUMBER
    for field in dataclasses.fields(Totals)
} | {"flop": _NUMBER}
_FINDING = {
    "kind": {"type": "string"},
    "title": {"type": "string"},
    "layers": _TEXTS,
    "saves": _NUMBER,
    "share_of_step": _NUMBER,
    "action": {"type": "string"},
    "assumption": {"type": "string"},
    "severity": {"enum": ["high", "medium", "low", "info"]},
    "cause": {"type": "string"},
    "evidence": _TEXTS,
}
_VERDICT = {
    "text": {"type": "string"},
    "why": {"type": "string"},
    "next": {"type": "string"},
    "supported": {"type": "boolean"},
    "doubtful": {"type": "boolean"},
}

JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "hroof report",
    "description": "Base SI units: s, B, FLOP (OP for integers), B/s, FLOP/s. Missing is null.",
    **_object(
        {
            "schema": {"const": REPORT_SCHEMA},
            "by": _TEXTS,
            "run": {"type": "object"},
            "machine": {"type": ["object", "null"]},
            "coverage": _object(_COVERAGE),
            "totals": _object(_TOTALS),
            "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
            "findings": {"type": "array", "items": _object(_FINDING)},
            "verdict": _object(_VERDICT),
            "warnings": _TEXTS,
        }
    ),
    "$defs": {
        # The grouping keys stand beside these, as strings.
        "row": _object(_ROW, additionalProperties={"type": "string"})
    },
}
"""JSON Schema (draft 2020-12) of what ``to_json`` gives."""
