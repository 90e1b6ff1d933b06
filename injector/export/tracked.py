"""What all trackers share: where runs go, and how a run is put there, when it has ended or while it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ..errors import UserError, reason_of
from .content import Content
from .series import Series, clean


@dataclass(frozen=True)
class Destination:
    """Where runs go, as the command line names it."""

    output: str | None = None
    """A file or folder; for a suite always a folder."""
    uri: str | None = None
    project: str | None = None
    """MLflow's experiment, the project of Weights & Biases, OpenTelemetry's service."""
    suite: str | None = None
    """The name of the suite whose runs these are."""


@dataclass(frozen=True)
class Beginning:
    """What is known of a run when it begins."""

    name: str
    folder: str
    """The name of its run folder."""
    started: float | None
    """Unix seconds."""


class TrackedRun(Protocol):
    """One run in a tracker. Both methods raise UserError if the tracker refuses it, or OSError."""

    def log(self, series: Iterable[Series]) -> None:
        """Add points. Those of one series come in the order of time."""

    def end(self, content: Content) -> str:
        """Add all of ``content`` but its series, and close the run. Returns a sentence on where it is."""


Begin = Callable[[Destination, Beginning], TrackedRun]


def exported(begin: Begin, contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Put each run into a tracker by ``begin``. Yields sentences on where. Raises UserError, OSError."""
    for content in contents:
        run = begin(target, beginning_of(content))
        run.log(content.series)
        yield run.end(content)


def beginning_of(content: Content) -> Beginning:
    """What was known of the run of ``content`` when it began."""
    return Beginning(content.name, content.tags["injector.folder"], content.summary.started)


def missing_library(error: ImportError, extra: str) -> UserError:
    """The error if a library that the tracker ``extra`` needs cannot be imported."""
    return UserError(
        f"{extra} needs {error.name or 'a library that is not installed'}: "
        f"pip install 'overlay-injector[{extra}]'"
    )


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """A context in which errors of a tracker's library, database or network become UserErrors.

    ``what``: the tracker, in the message.
    """
    try:
        yield
    except (UserError, BrokenPipeError):
        raise
    except Exception as error:  # each library has exceptions of its own
        lines = reason_of(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{what} did not take it: {lines[0]}") from None


def path_of(name: str, target: Destination, suffix: str = "", folder: str = "") -> str:
    """The file or folder to which the run ``name`` is written, in ``folder`` if ``target`` names no output.

    Runs of a suite share a folder, which is created. Raises OSError.
    """
    name = re.sub(r"[/ ]+", "_", clean(name)) + suffix
    if target.suite is None:
        return target.output or os.path.join(folder, name)
    folder = target.output or os.path.join(folder, clean(target.suite))
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name)
