"""The JSON Schema of a suite's YAML, for editors: made from the table of keys."""

from __future__ import annotations

from typing import Any

from .keys import ENTRY, TOP

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of a file.

    It knows keys and kinds of values. What needs more than one file, such as a parent that is
    nowhere, only ``inject suite`` itself finds.
    """
    benchmark = {"$ref": "#/$defs/benchmark"}
    tops = {key.name: {"description": key.text, **key.kind.schema()} for key in TOP}
    return {
        "$schema": DIALECT,
        "title": "a suite of inject",
        "type": "object",
        "properties": tops,
        "patternProperties": {"^_": benchmark},
        "additionalProperties": benchmark,
        "$defs": {"benchmark": ENTRY.schema()},
    }
