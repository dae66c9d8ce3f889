"""JSON Schema of a machine-readable check: stable, versioned, base SI units."""

from __future__ import annotations

from typing import Any

from hroof.budgets import KEYS, QUANTITIES, Kind, Verdict
from hroof.units import Phase

CHECK_SCHEMA = 1

_NUMBER = {"type": ["number", "null"]}
_TEXT = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_VERDICT = {"enum": [*map(str, Verdict)]}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


_LIMIT = {
    "kind": {"enum": [*map(str, Kind)]},
    "value": _NUMBER,
    "tolerance": _NUMBER,
    "bound": _NUMBER,
}
_ROW = {
    "key": {"enum": ["step", *KEYS]},
    "name": _TEXT,
    "pattern": _TEXT,
    "phase": {"enum": [*map(str, Phase), None]},
    "together": {"type": ["integer", "null"]},
    "quantity": {"enum": [*QUANTITIES]},
    "unit": {"type": "string"},
    "limit": _object(_LIMIT),
    "value": _NUMBER,
    "lower_bound": {"type": "boolean"},
    "steps": {"type": "array", "items": _NUMBER},
    "baseline": _NUMBER,
    "noise": _NUMBER,
    "excess": _NUMBER,
    "source": {"type": "string"},
    "verdict": _VERDICT,
    "note": {"type": "string"},
}
_SUMMARY = {
    "text": {"type": "string"},
    "why": {"type": "string"},
    "next": {"type": "string"},
    "verdict": _VERDICT,
}

JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "hroof check",
    "description": "Base SI units: s, B, FLOP (OP for integers), FLOP/s; unit % is a share of one. Missing is null.",
    **_object(
        {
            "schema": {"const": CHECK_SCHEMA},
            "run": {"type": "string"},
            "baseline": _TEXT,
            "budget": {"type": "string"},
            "strict": {"type": "boolean"},
            "steps": {"type": "integer"},
            "verdict": _object(_SUMMARY),
            "counts": _object({str(verdict): {"type": "integer"} for verdict in Verdict}),
            "rows": {"type": "array", "items": _object(_ROW)},
            "caveats": _TEXTS,
        }
    ),
}
"""JSON Schema (draft 2020-12) of what ``to_json`` gives."""
