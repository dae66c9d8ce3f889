"""JSON Schema of the machine-readable comparison: stable, versioned, base SI units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hroof.compare import Change, How
from hroof.units import MemoryLevel

COMPARE_SCHEMA = 1

_NUMBER = {"type": ["number", "null"]}
_TEXT = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_CHANGE = {"enum": [*map(str, Change)]}


def _object(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": sorted(properties),
        "additionalProperties": False,
        **more,
    }


PAIR = {"base": _NUMBER, "new": _NUMBER, "delta": _NUMBER}
_PAIR = _object(PAIR)
_PAIRS = {
    "type": "object",
    "properties": {str(level): _PAIR for level in MemoryLevel},
    "additionalProperties": False,
}
_ROW = {
    "base": _TEXT,
    "new": _TEXT,
    "matched_by": {"enum": [*map(str, How)]},
    "change": _CHANGE,
    "noise": _NUMBER,
    "ratio": _NUMBER,
    "time": _PAIR,
    "time_by_phase": {"type": "object", "additionalProperties": _PAIR},
    "launches": _PAIR,
    "flop": _PAIR,
    "bytes": _PAIRS,
    "headroom": _PAIR,
    "work": {"type": "string"},
}
_SIDE = {
    "name": {"type": "string"},
    "run": {"type": "object"},
    "machine": _TEXT,
    "steps": {"type": "integer"},
    "warnings": _TEXTS,
}
_SUMMARY = {
    "text": {"type": "string"},
    "why": {"type": "string"},
    "next": {"type": "string"},
    "supported": {"type": "boolean"},
    "change": _CHANGE,
}
_TABLE = _object(
    {
        "key": {"enum": ["phase", "layer", "kernel", "op", "family"]},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
        "rest": _NUMBER,
    }
)

JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "hroof compare",
    "description": "Per step, base SI units: s, B, FLOP. delta = new - base. Missing is null, absent in a run is 0.",
    **_object(
        {
            "schema": {"const": COMPARE_SCHEMA},
            "base": _object(_SIDE),
            "new": _object(_SIDE),
            "verdict": _object(_SUMMARY),
            "conditions": _TEXTS,
            "rule": {"type": "string"},
            "total": {"$ref": "#/$defs/row"},
            "wall": _object(PAIR | {"change": _CHANGE, "noise": _NUMBER}),
            "undisturbed": _PAIR,
            "phases": _TABLE,
            "layers": _TABLE,
            "kernels": _TABLE,
        }
    ),
    "$defs": {"row": _object(_ROW)},
}
"""JSON Schema (draft 2020-12) of what ``to_json`` gives."""
