"""How long benchmarks took when they last ran here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from . import journal
from .folder import newest

MOST = 20
"""Run folders that are looked into, the newest first."""


def seconds(base: str, names: Collection[str], most: int = MOST) -> dict[str, float]:
    """By benchmark of ``names``, how long its last job below ``base`` took that ended well."""
    found: dict[str, float] = {}
    for folder in newest(base)[:most]:
        if len(found) == len(names):
            break
        for record in reversed(journal.records(folder)):
            name = record.get("benchmark")
            if name in names and name not in found and _well(record):
                found[name] = float(record["seconds"])
    return found


def _well(record: Mapping[str, Any]) -> bool:
    finished = record.get("state") == journal.FINISHED and record.get("ok") is True
    return finished and isinstance(record.get("seconds"), (int, float))
