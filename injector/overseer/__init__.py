"""What a voirfile meets: the overseer, its phases, options, probes and streams."""

from __future__ import annotations

from .session import Session

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from typing import Any

    from .dry import PlannedProbe
    from .options import Options

__all__ = ["Session", "declare", "plan"]


def declare(voirfiles: list[str], configs: list[str]) -> Options:
    """The options that voirfiles declare, those of each voirfile apart.

    Raises:
        UserError: a voirfile or a configuration that cannot be used.
    """
    from .dry import declared

    return declared(voirfiles, configs)


def plan(voirfiles: list[str], options: list[list[str]], configs: list[str]) -> list[PlannedProbe]:
    """Every probe that the voirfiles set before the program runs; nothing of the program is run.

    Raises:
        UserError: a voirfile, an option or a selector that is not right.
    """
    from .dry import planned

    result: Any = planned(voirfiles, options, configs)
    return result  # type: ignore[no-any-return]
