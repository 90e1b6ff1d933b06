"""Conditions of ``requires_capabilities`` that only the node which a job gets can judge.

They are about the name and the memory of devices, which Slurm does not know. All else that they use is looked
up when the suite is planned, so that a node needs none of the suite's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .expressions import Reference, compiled
from .problems import Mistake

OF_DEVICES = (("gpu", "name"), ("gpu", "capacity"))
"""The names in conditions that only a node knows the values of."""


class NodeCondition(NamedTuple):
    """One condition."""

    text: str
    values: Mapping[str, Any]
    """The values of the other names that it uses."""


def is_of_devices(reference: Reference) -> bool:
    """Whether ``reference`` is one of :data:`OF_DEVICES`."""
    return not reference.up and reference.keys[:2] in OF_DEVICES


class _NodeNames:
    """The names that a condition is evaluated with on a node: ``values``, and ``gpu`` for its devices."""

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
    """The conditions that do not hold on a node, as text.

    ``gpu`` has the ``name`` and the ``capacity`` of its devices: ``81920 MiB``.
    """
    unmet = []
    for condition in conditions:
        try:
            if not compiled(condition.text).value(_NodeNames(condition.values, gpu)):
                unmet.append(condition.text)
        except Mistake as error:
            unmet.append(f"{condition.text} ({error})")
    return unmet
