"""Run any training program unmodified, probed at load time, and learn what it did.

The command is ``inject``; a voirfile needs nothing of this package but the overseer it is handed.
"""

from __future__ import annotations

from ._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .errors import UserError
    from .measure.program import artifact, metric, param
    from .measure.timer import Timer
    from .measure.user import region
    from .probe.stop import StopProgram

__all__ = [
    "StopProgram",
    "Timer",
    "UserError",
    "__version__",
    "artifact",
    "metric",
    "param",
    "region",
]


def __getattr__(name: str) -> object:
    """Imported on first use: this package is imported in every process of every program."""
    if name == "StopProgram":
        from .probe.stop import StopProgram

        return StopProgram
    if name == "UserError":
        from .errors import UserError

        return UserError
    if name == "Timer":
        from .measure.timer import Timer

        return Timer
    if name == "region":
        from .measure.user import region

        return region
    if name in ("artifact", "metric", "param"):
        from .measure import program

        return getattr(program, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
