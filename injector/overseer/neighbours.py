"""What the overseer needs of its neighbours, for type checkers: never imported while running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..rewrite.request import Request


class Rewriter(Protocol):
    """What a session needs of the rewriting engine."""

    compiled: set[tuple[str, str]]

    def add(self, requests: list[Request]) -> None: ...

    def add_late(self, requests: list[Request]) -> None: ...

    def add_method(self, method: str, joint: bool = False) -> None: ...

    def attach(self, target: object, request: Request) -> None: ...

    def after_import(self, name: str, callback: Callable[[Any], None]) -> None: ...

    def on_hook_defined(self, hook: Callable[..., Any]) -> None: ...


class EventWriter(Protocol):
    """What a session needs of the writer of this process."""

    folder: str | None
    path: str | None

    def emit(self, event: str, data: object) -> None: ...

    def emit_values(self, series: str, t_ns: int, value: object) -> None: ...

    def lose(self, records: int, error: Exception) -> None: ...

    def close(self) -> None: ...
