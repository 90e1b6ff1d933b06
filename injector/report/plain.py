"""The report as data, for other programs: what ``inject report --json`` prints."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from math import isfinite, isnan
from typing import Any

from ..analysis.losses import summary_of
from ..analysis.machines import machines
from ..analysis.missing import said_first
from ..analysis.profile import Profile
from ..analysis.rates import Summary
from ..store.folder import Run
from .terminal import fates_of, profile_of, with_losses

_KEYS = ("name", "command", "started", "ended", "duration", "exit", "stopped", "host", "python")


def as_data(run: Run) -> dict[str, Any]:
    """The run, its profile (null without spans) and its summary, of plain types.

    Seconds, bytes, fractions, per second. What JSON has no number for is ``"NaN"``, ``"Infinity"``
    or ``"-Infinity"``, as in ``.data`` files. Raises OSError.
    """
    summary: Summary = summary_of(run)
    watched = machines(run)
    profile: Profile | None = with_losses(profile_of(run, watched), summary)
    return {
        "missing": list(said_first(run)),
        "run": run.path,
        **{key: run.info.get(key) for key in _KEYS},
        "profile": plain(profile),
        "broken": plain(profile.fates if profile else fates_of(run)),
        "machines": plain(watched),
        "summary": plain(summary),
        "warnings": run.info.get("warnings") or [],
    }


def plain(value: object) -> Any:
    """``value`` with dataclasses and named tuples as dicts."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
