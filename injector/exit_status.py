"""How a program or a process ended: one number in the code, ``{"code": …, "signal": …}`` in ``run.json``."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any


def exit_of(code: int | None) -> dict[str, Any] | None:
    """``code``, an exit code or minus the deadly signal, in the form of ``run.json``: one of both None."""
    if code is None:
        return None
    return {"code": code if code >= 0 else None, "signal": -code if code < 0 else None}


def code_of(exit: object) -> int | None:
    """The exit code in what ``run.json`` has as ``exit``, or minus the deadly signal; None if unknown."""
    if not isinstance(exit, dict):
        return None
    signal, code = exit.get("signal"), exit.get("code")
    return -signal if isinstance(signal, int) else code if isinstance(code, int) else None
