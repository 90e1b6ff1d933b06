"""Launchers that spawn ranks and wait for a result of rank 0: none comes of ranks that were stopped."""

from __future__ import annotations

from typing import Any

from injector.probe.stop import is_stop

STOPPED = "injector: the ranks were stopped"
"""What rank 0 hands over in place of its result."""


def stop_with_ranks(ov: Any, launcher: str, result: str) -> None:
    """Have the program stop where ``launcher``, a class like Lightning's, waits for ranks that were stopped.

    ``result`` is the variable of its method ``launch`` that takes the result of rank 0.
    """
    rank: dict[str, Any] = {}

    def ends(error: BaseException) -> BaseException:
        if isinstance(error, SystemExit) and is_stop(error) and rank.get("process_idx") == 0:
            rank["return_queue"].put(STOPPED)
        return error

    def given(value: Any) -> Any:
        if isinstance(value, str) and value == STOPPED:
            ov.stop()
        return value

    for name in ("process_idx", "return_queue"):
        ov.override(
            f"{launcher}/_wrapping_function > {name}",
            lambda value, name=name: rank.setdefault(name, value),
        )
    ov.override(f"{launcher}/_wrapping_function > #error", ends)
    ov.override(f"{launcher}/launch > {result}", given)
