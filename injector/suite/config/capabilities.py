"""Conditions of ``requires_capabilities`` that only the node which a job gets can judge.

They are about name and memory of devices, which Slurm does not know. What else they use is looked up when
the suite is planned, so that a node needs nothing of the suite's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .expressions import Reference, compiled
from .problems import Mistake

OF_DEVICES = (("gpu", "name"), ("gpu", "capacity"))


class NodeCondition(NamedTuple):
    """One condition."""

    text: str
    values: Mapping[str, Any]
    """What it uses besides devices, by name."""


def is_of_devices(reference: Reference) -> bool:
    """Whether a name in a condition stands for what only a node knows of its devices."""
    return not reference.up and reference.keys[:2] in OF_DEVICES


class _NodeNames:
    """What a condition is evaluated in on a node, whose devices have a name and a ``capacity``."""

    def __init__(self, values: Mapping[str, Any], gpu: Mapping[str, Any]) -> None:
        self._values = values
        self._gpu = gpu

    def find(self, reference: Reference) -> Any:
        """See :class:`.expressions.Names`."""
        if is_of_devices(reference):
            return self._gpu[str(reference.keys[1])]
        return self._values[reference.name]

    def call(self, name: str, values: list[Any]) -> Any:
        """See :class:`.expressions.Names`."""
        raise Mistake(f"{name}() is not known on a node")


def unmet_on_node(conditions: Iterable[NodeCondition], gpu: Mapping[str, Any]) -> list[str]:
    """The conditions that do not hold where devices have this ``name`` and ``capacity`` (``81920 MiB``)."""
    found = []
    for each in conditions:
        try:
            if not compiled(each.text).value(_NodeNames(each.values, gpu)):
                found.append(each.text)
        except Mistake as error:
            found.append(f"{each.text} ({error})")
    return found
