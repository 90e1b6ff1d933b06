"""``validation:`` as a kind of value: its layers and thresholds are those of their own table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .kinds import TEMPLATE, Finding, Kind, Schema
from .rules import RULES, problems

_KINDS: Mapping[str, Schema] = {
    "flag": {"type": "boolean"},
    "flag|warn": {"enum": [True, False, "warn"]},
    "number": {"type": "number", "minimum": 0},
    "fraction": {"type": "number", "minimum": 0, "maximum": 1},
    "count": {"type": "integer", "minimum": 0},
    "words": {"type": "array", "items": {"type": "string"}},
    "table": {"type": "object"},
    "text": {"type": ["string", "number"]},
}


class Layers(Kind):
    """What must hold for a run to count."""

    name = f"a map with {', '.join(RULES)}"

    def wrong(self, value: Any) -> Iterator[Finding]:
        yield from problems(value)

    def schema(self) -> Schema:
        return {
            "type": ["object", "null"],
            "properties": {layer: _layer(layer) for layer in RULES},
            "additionalProperties": False,
        }


def _layer(layer: str) -> Schema:
    keys = {
        name: {"description": rule.text, "anyOf": [_kind(rule.kind), {"type": "null"}, TEMPLATE]}
        for name, rule in RULES[layer].items()
    }
    keys["enabled"] = {"type": ["boolean", "null"], "description": "false switches the layer off"}
    return {
        "type": ["object", "boolean", "null"],
        "properties": keys,
        "additionalProperties": False,
    }


def _kind(kind: str) -> Schema:
    return _KINDS.get(kind) or {"enum": kind.split("|")}
