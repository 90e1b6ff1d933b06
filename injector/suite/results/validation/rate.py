"""Whether as many rates came as should have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..outcome import Finding, ProcessResult

LAYER = "rate"


def check(
    process: ProcessResult, settings: Mapping[str, Any], rules: Mapping[str, Any]
) -> Iterator[Finding]:
    """The number of rates, and that they are more than 0."""
    if process.record is None:
        return
    wanted = expected(settings, rules)
    rates = process.rates
    enough = len(rates) >= wanted
    count = f"{len(rates)} rates came" if rates else "no rate came"
    were = "was" if wanted == 1 else "were"
    sentence = count if enough else f"{count}, at least {wanted} {were} expected"
    yield Finding(LAYER, enough, rules["severity"], sentence)
    if rates and not any(rate > 0 for rate in rates):
        yield Finding(LAYER, False, rules["severity"], "every rate is 0")


def expected(settings: Mapping[str, Any], rules: Mapping[str, Any]) -> int:
    """``rate.min``, else ``voir.options.stop``; 1 where time may end the run earlier."""
    if rules["min"] is not None:
        return int(rules["min"])
    options = (settings.get("voir") or {}).get("options") or {}
    stop = options.get("stop")
    if not isinstance(stop, int) or isinstance(stop, bool) or options.get("max_duration"):
        return 1
    return stop
