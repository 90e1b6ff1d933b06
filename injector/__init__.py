"""Run any training program unmodified, probed as it is loaded, and report what it did.

The command is ``inject``. A voirfile needs nothing from this package but the overseer that it is called with.
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


_HOMES = {
    "StopProgram": "probe.stop",
    "Timer": "measure.timer",
    "UserError": "errors",
    "artifact": "measure.program",
    "metric": "measure.program",
    "param": "measure.program",
    "region": "measure.user",
}


def __getattr__(name: str) -> object:
    """Import a public name on its first use: this package is imported in every process of every program."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(__import__(f"{__name__}.{_HOMES[name]}", fromlist=(name,)), name)
    globals()[name] = value  # `injector.region` in a loop is looked up in every iteration
    return value
