"""What can be said under ``validation:`` of a benchmark: the one table, with what holds if nothing is."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

FAILURE, WARNING, NOTE = "failure", "warning", "note"


class Rule(NamedTuple):
    """One key of a layer."""

    kind: str
    """``number fraction count flag words text``, or the words that it may be."""
    default: Any
    text: str


_SEVERITY = Rule(f"{FAILURE}|{WARNING}", FAILURE, "what it is when it does not hold")

RULES: dict[str, dict[str, Rule]] = {
    "error": {
        "strict": Rule("flag", True, "whether what goes wrong with probes is a failure"),
        "severity": _SEVERITY,
    },
    "rate": {
        "min": Rule("count", None, "rates that must have come; voir.options.stop if not said"),
        "severity": _SEVERITY,
    },
    "loss": {
        "finite": Rule("flag", True, "whether every value must be a finite number"),
        "falls": Rule("flag|warn", "warn", "whether the last part must lie below the first"),
        "part": Rule("fraction", 1 / 3, "how much of the run the first and the last part are"),
        "least": Rule("count", 9, "values below which nothing is said of falling"),
        "names": Rule("words", None, "the losses that are looked at; all if not said"),
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
        "processes": Rule("count", None, "processes that must have trained; as planned if not said"),
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
"""The layers in the order in which they speak."""


def rules_of(settings: Mapping[str, Any], layer: str) -> dict[str, Any] | None:
    """What holds for ``layer``; None where it is switched off (``false``, or ``enabled: false``)."""
    said = (settings.get("validation") or {}).get(layer)
    if said is False or (isinstance(said, Mapping) and said.get("enabled") is False):
        return None
    found = {name: rule.default for name, rule in RULES[layer].items()}
    if isinstance(said, Mapping):
        found.update({name: value for name, value in said.items() if value is not None})
    if found["severity"] is None:
        found["severity"] = FAILURE if said else WARNING
    return found


def problems(said: object) -> list[tuple[tuple[str, ...], str]]:
    """What is wrong with a ``validation:``, as the keys below it and a sentence."""
    if not isinstance(said, Mapping):
        return [((), f"should be a table of layers: {', '.join(RULES)}")]
    found: list[tuple[tuple[str, ...], str]] = []
    for layer, content in said.items():
        if layer not in RULES:
            found.append(((str(layer),), f"no such layer{_near(str(layer), RULES)}"))
        elif isinstance(content, Mapping):
            found += [((layer, *keys), text) for keys, text in _of_layer(layer, content)]
        elif content is not None and not isinstance(content, bool):
            found.append(((layer,), "should be true, false, or a table of its thresholds"))
    return found


def _of_layer(layer: str, content: Mapping[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    found: list[tuple[tuple[str, ...], str]] = []
    for key, value in content.items():
        rule = RULES[layer].get(key)
        if key == "enabled":
            rule = Rule("flag", True, "")
        if rule is None:
            found.append(((str(key),), f"no such key of {layer}{_near(str(key), RULES[layer])}"))
        elif value is not None and not _fits(value, rule.kind):
            found.append(((str(key),), f"should be {_wanted(rule.kind)}, not {value!r}"))
    return found


def _fits(value: Any, kind: str) -> bool:
    if "|" in kind and isinstance(value, str):
        return value in kind.split("|")
    kind = kind.partition("|")[0]
    if kind == "flag":
        return isinstance(value, bool)
    if kind in ("number", "fraction", "count"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
        return number and (
            kind == "number" or value == int(value) if kind == "count" else value <= 1
        )
    if kind == "words":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if kind == "table":
        return isinstance(value, Mapping)
    return isinstance(value, (str, int, float)) and kind == "text"


_WANTED = {
    "flag": "true or false",
    "flag|warn": "true, false or warn",
    "number": "a number that is not negative",
    "fraction": "a fraction from 0 to 1",
    "count": "a whole number",
    "words": "a list of names",
    "table": "a table",
    "text": "a text",
}


def _wanted(kind: str) -> str:
    return _WANTED.get(kind) or " or ".join(kind.split("|"))


def _near(word: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
