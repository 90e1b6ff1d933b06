"""Values of this package as the types that JSON has.

Not in :mod:`.plain_json`, which is loaded into the program: this needs modules that the program may not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan
from typing import Any

from .value_class import fields


def plain(value: object) -> Any:
    """Convert ``value`` into the types that JSON has.

    Value classes, dataclasses and named tuples become objects, without their internal fields. NaN and
    infinities, which JSON lacks, become text; :func:`.analysis.statistics.number` reads them back.
    """
    declared = fields(value) or getattr(value, "__dataclass_fields__", {})
    if declared and not isinstance(value, type):
        shown = [name for name, each in declared.items() if not getattr(each, "internal", False)]
        return {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        # Most of a page are long lists of numbers: as they need no conversion, they are copied at once.
        if {float, int, str, type(None)}.issuperset(map(type, value)):
            odd = any(each.__class__ is float and not isfinite(each) for each in value)
            return [plain(each) for each in value] if odd else list(value)
        return [plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
