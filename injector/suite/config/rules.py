"""What can stand under ``validation:`` of a benchmark, with the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

FAILURE, WARNING, NOTE = "failure", "warning", "note"
Settings = Mapping[str, Any]
"""The settings of a benchmark, as a suite has them."""
Rules = Mapping[str, Any]
"""The rules of one layer, by name: see :func:`rules_of`."""


class Rule(NamedTuple):
    """One key of a layer."""

    kind: str
    """The type of its value: ``number``, ``fraction``, ``count``, ``flag``, ``words``, ``table`` or ``text``;
    several, or the words that it may be, are joined by ``|``."""
    default: Any
    text: str


_SEVERITY = Rule(f"{FAILURE}|{WARNING}", FAILURE, "what it is when it does not hold")

RULES: dict[str, dict[str, Rule]] = {
    "error": {
        "strict": Rule("flag", True, "whether what goes wrong with probes is a failure"),
        "severity": _SEVERITY,
    },
    "rate": {
        "min": Rule("count", None, "rates that must have come; voir.options.stop without it"),
        "severity": _SEVERITY,
    },
    "loss": {
        "finite": Rule("flag", True, "whether every value must be a finite number"),
        "falls": Rule("flag|warn", "warn", "whether the last part must lie below the first"),
        "part": Rule("fraction", 1 / 3, "how much of the run the first and the last part are"),
        "least": Rule("count", 9, "values below which falling is not judged"),
        "names": Rule("words", None, "the losses that are looked at; all without it"),
        "severity": _SEVERITY,
    },
    "usage": {
        "load": Rule("fraction", None, "mean load of every device, at least"),
        "memory": Rule("fraction", None, "most memory held on every device, of all, at least"),
        "cores": Rule("number", None, "processors kept busy on average, at least"),
        "gpu_load_threshold": Rule("fraction", None, "load, in milabench's word"),
        "gpu_mem_threshold": Rule("fraction", None, "memory, in milabench's word"),
        "severity": _SEVERITY,
    },
    "planning": {
        "processes": Rule("count", None, "processes that must have trained; as planned without it"),
        "severity": _SEVERITY,
    },
    "version": {
        "packages": Rule("table", None, "package: version, or the begin of one with *"),
        "locked": Rule("flag", True, "whether packages must be as the environment was locked"),
        "driver": Rule("text", None, "the driver's version, or the begin of one with *"),
        "severity": _SEVERITY,
    },
    "reproducibility": {
        "spread": Rule("fraction", 0.1, "standard deviation of perf over repeats by its mean, at most"),
        "severity": Rule(f"{FAILURE}|{WARNING}", None, "a failure if the layer is set, else a warning"),
    },
}  # fmt: skip


def rules_of(settings: Settings, layer: str) -> dict[str, Any] | None:
    """The rules of ``layer``: what ``settings`` have, else the defaults.

    None if the layer is switched off (``false``, or ``enabled: false``).
    """
    given = (settings.get("validation") or {}).get(layer)
    if given is False or (isinstance(given, Mapping) and given.get("enabled") is False):
        return None
    rules = {name: rule.default for name, rule in RULES[layer].items()}
    if isinstance(given, Mapping):
        rules.update({name: value for name, value in given.items() if value is not None})
    if rules["severity"] is None:
        rules["severity"] = FAILURE if given else WARNING
    return rules
