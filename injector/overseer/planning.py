"""Voirfiles without a program: what they declare, and which probes they would set."""

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
    """Requests; beside each the object that the selector names through the voirfile, else ``None``."""


class NoEngine:
    """An engine and a record that do nothing."""

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
        if event == "failure":  # nothing is run: what would be a warning then is the answer now
            raise UserError(f"{data['where']} raised:\n{data['trace'].rstrip()}")

    def emit_values(self, series: str, t_ns: int, value: object) -> None: ...

    def lose(self, records: int, error: Exception) -> None: ...

    def close(self) -> None: ...


def declare(voirfiles: list[str], configs: list[str]) -> Options:
    """The options that voirfiles declare, those of each voirfile apart.

    Raises:
        UserError: a voirfile or a configuration that cannot be used.
    """
    made = _session(voirfiles, [], configs)
    session.declare(made.overseer, voirfiles, configs)
    found: Options = made.overseer.declared
    return found


def plan(voirfiles: list[str], options: list[list[str]], configs: list[str]) -> list[PlannedProbe]:
    """Every probe that the voirfiles set before the program runs; nothing of the program is run.

    Raises:
        UserError: a voirfile, an option or a selector that is not right.
    """
    made = _session(voirfiles, options, configs)
    made.begin()
    made.load()
    return [
        PlannedProbe(probe.selector, *probe.place, [(t.request, t.found) for t in probe.targets])
        for probe in made.probes
    ]


def _session(voirfiles: list[str], options: list[list[str]], configs: list[str]) -> Session:
    config = {"voirfiles": voirfiles, "options": options, "configs": configs}
    nothing: Any = NoEngine()
    return Session(config, nothing, nothing)
