"""Which names settings use: variables, values of a matrix or a search, and variables through others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .expressions import Reference
from .filling import find_templates
from .layers import Override
from .library import Library
from .problems import Path
from .scope import Scope
from .templates import Template
from .variants import Values

EARLY = (
    *("enabled", "group", "install_group", "tags", "weight", "max_duration", "num_machines"),
    *("plan", "definition"),
)
"""Keys that are needed before there is a job: they are resolved from what is known of the machine."""


@dataclass
class Inputs:
    """What all entries of a suite share."""

    library: Library
    variables: Mapping[str, Any]
    """All variables by dotted name; a swept one has its first value here."""
    swept: Mapping[str, Sequence[Any]]
    """The variables of ``-V`` with the values that they take."""
    overrides: Sequence[Override]
    parameters: Sequence[str]
    """The names of variables that only ``-P`` sets."""
    facts: Mapping[str, Any]
    """What is known of the machine, by the names of placeholders."""

    def late(self, *names: str) -> list[Override]:
        """The overrides for any of ``names`` that set a benchmark's own keys."""
        return [
            override
            for override in self.overrides
            if not override.early and override.matches(*names)
        ]

    def mentioned(self, used: Iterable[Reference]) -> set[str]:
        """The variables that the names ``used`` are, themselves or through other variables."""
        seen: set[str] = set()
        waiting = list(used)
        while waiting:
            name = referenced(waiting.pop(), self.variables)
            if name is not None and name not in seen:
                seen.add(name)
                waiting += references({"env": {"value": self.variables[name]}})
        return seen


def references(settings: dict[str, Any]) -> list[Reference]:
    """Every name that the templates and conditions of settings use."""
    return [reference for _, reference in find_templates(settings).references()]


def referenced(reference: Reference, known: Mapping[str, Any]) -> str | None:
    """The name among ``known`` that a reference means; None if it means none of them.

    Names have dots, and so have keys below a name: ``exp.model.size`` may be ``size`` of ``exp.model``.
    """
    if reference.up:
        return None
    names = (".".join(map(str, reference.keys[: n + 1])) for n in range(len(reference.keys)))
    return next((name for name in names if name in known), None)


def search_names(data: Mapping[str, Any]) -> Values:
    """The names that a search will give values, each with 0 for now."""
    study = data.get("search")
    space = study.get("space") if isinstance(study, Mapping) else None
    return {**dict.fromkeys(space, 0), "trial": 0} if isinstance(space, Mapping) else {}


def is_dynamic(text: Template) -> bool:
    return any(part.expression.dynamic for part in text.placeholders)


def is_local(path: Path, text: Template, scope: Scope) -> bool:
    """Whether a template uses what a matrix, a search or a variable gives."""
    if path[0] in EARLY:
        return False
    sources = (scope.values, scope.variables, search_names(scope.settings))
    return is_dynamic(text) or any(
        referenced(reference, source) is not None
        for reference in text.references
        for source in sources
    )
