"""Voirfiles without a program: which options they declare, and which probes they would set.

A :class:`Session` runs their phases with an engine and a record that do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import UserError
from ..rewrite.request import Request
from . import session
from .options import Options
from .session import Session


class PlannedProbe(NamedTuple):
    """One probe of a voirfile."""

    selector: str
    file: str
    line: int
    targets: list[tuple[Request, Any]]
    """The requests, each with the object of the voirfile that the selector names; None if it names none."""


class NoEngine:
    """Stands for an engine and for a record, and does nothing."""

    folder: str | None = None
    path: str | None = None

    def __init__(self) -> None:
        self.compiled: set[tuple[str, str]] = set()

    def add(self, requests: list[Request]) -> None: ...

    def add_late(self, requests: list[Request]) -> None: ...

    def add_method(self, method: str, joint: bool = False) -> None: ...

    def attach(self, target: object, request: Request) -> None: ...

    def after_import(self, name: str, callback: Callable[[Any], None]) -> None: ...

    def on_hook_defined(self, hook: Callable[..., Any]) -> None: ...

    def emit(self, event: str, data: Any) -> None:
        # In a run this would be a warning. Here nothing else runs, so it is all there is to report.
        if event == "failure":
            raise UserError(f"{data['where']} raised:\n{data['trace'].rstrip()}")

    def emit_values(self, series: str, t_ns: int, value: object) -> None: ...

    def lose(self, records: int, error: Exception) -> None: ...

    def close(self) -> None: ...


def declare(voirfiles: list[str], configs: list[str]) -> Options:
    """Return the options that voirfiles declare.

    Raises UserError for a voirfile or a configuration that cannot be used.
    """
    planned = _session(voirfiles, [], configs)
    session.declare(planned.overseer, voirfiles, configs)
    declared: Options = planned.overseer.declared
    return declared


def plan(voirfiles: list[str], options: list[list[str]], configs: list[str]) -> list[PlannedProbe]:
    """Return the probes that voirfiles set before the program runs. Nothing of the program runs for it.

    Raises UserError for a voirfile, an option or a selector that is not right.
    """
    planned = _session(voirfiles, options, configs)
    planned.begin()
    planned.load()
    return [
        PlannedProbe(probe.selector, *probe.place, [(t.request, t.found) for t in probe.targets])
        for probe in planned.probes
    ]


def _session(voirfiles: list[str], options: list[list[str]], configs: list[str]) -> Session:
    config = {"voirfiles": voirfiles, "options": options, "configs": configs}
    nothing: Any = NoEngine()
    return Session(config, nothing, nothing)
