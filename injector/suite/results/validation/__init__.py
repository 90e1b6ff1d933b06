"""Whether what ran may be believed: one module a layer, one table of what can be asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...config.rules import RULES

if TYPE_CHECKING:
    from ..outcome import Finding, SuiteResult

__all__ = ["RULES", "check", "judged"]


def check(
    settings: Mapping[str, Any],
    runs: Sequence[str | Path],
    devices: Sequence[Sequence[str]] = (),
    lock: Mapping[str, str] | None = None,
) -> list[Finding]:
    """What the layers say of the processes of one job, whose run folders are ``runs``.

    ``settings``: of the benchmark, filled. ``devices``: for each run the devices that it was given.
    ``lock``: the packages of its environment as they were locked, name → version; what the environment
    itself says, if not given. A folder without a record is a failure.
    """
    from .judging import check

    return check(settings, runs, devices, lock)


def judged(suite: SuiteResult) -> SuiteResult:
    """``suite`` with what the layers find in it."""
    from .judging import judged

    return judged(suite)
