"""``when``: conditions, and what a benchmark's keys are while they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .expressions import ExpressionError, compiled
from .merging import Layer
from .placeholders import Context
from .scope import Path, Scope
from .templates import NotKnownYet


def apply(
    settings: dict[str, Any],
    variables: Mapping[str, Any],
    facts: Mapping[str, Any],
    note: Callable[[Path, str], None],
    complete: bool = False,
) -> dict[str, Any]:
    """``settings`` with what holds laid over it, in the order in which the conditions stand there.

    A condition sees what those before it have set. One that needs a fact which is not known yet
    stays, and so do all after it.
    """
    waiting = dict(settings.get("when") or {})
    made = {key: value for key, value in settings.items() if key != "when"}
    context = facts if isinstance(facts, Context) else Context(facts)
    while waiting:
        condition = next(iter(waiting))
        scope = Scope(made, variables, context, complete)
        scope.path = ("when", condition)
        try:
            holds = bool(compiled(condition).value(scope))
        except NotKnownYet:
            return {**made, "when": waiting}
        except ExpressionError as error:
            note(("when", condition), str(error))
            holds = False
        said = waiting.pop(condition)
        if holds and said:
            made = Layer(said, {}).over(Layer(made, {})).data
    return made
