"""What all trackers have in common: where runs go to, and how one is put there, at once or as it goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ..errors import UserError
from .content import Content, Series, clean


@dataclass(frozen=True)
class Destination:
    """Where the runs go to, as the command line says it."""

    output: str | None = None
    """File or folder; of a suite always a folder."""
    uri: str | None = None
    project: str | None = None
    """MLflow's experiment, the project of Weights & Biases, OpenTelemetry's service."""
    suite: str | None = None
    """The name of the suite whose runs these are."""


@dataclass(frozen=True)
class Beginning:
    """What is known of a run from its begin on."""

    name: str
    folder: str
    """The name of its run folder."""
    started: float | None
    """Unix seconds."""


class TrackedRun(Protocol):
    """One run in a tracker. Both methods raise UserError where the tracker does not take it, or OSError."""

    def log(self, series: Iterable[Series]) -> None:
        """Add points, each series' own in the order of time."""

    def end(self, content: Content) -> str:
        """Add all of ``content`` but its series, and close the run; the sentence that says where it is."""


Begin = Callable[[Destination, Beginning], TrackedRun]


def exported(begin: Begin, contents: Iterable[Content], target: Destination) -> Iterator[str]:
    """Put each run into a tracker; the sentences that say where. Raises UserError, OSError."""
    for content in contents:
        run = begin(target, beginning_of(content))
        run.log(content.series)
        yield run.end(content)


def beginning_of(content: Content) -> Beginning:
    """What was known of ``content`` when it began."""
    return Beginning(content.name, content.tags["injector.folder"], content.summary.started)


def missing_library(error: ImportError, extra: str) -> UserError:
    """The message where a library that the tracker ``extra`` needs cannot be imported."""
    return UserError(
        f"{extra} needs {error.name or 'a library that is not installed'}: "
        f"pip install 'overlay-injector[{extra}]'"
    )


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """What a tracker's library, its database or the network refuse becomes a UserError."""
    try:
        yield
    except (UserError, BrokenPipeError):
        raise
    except Exception as error:  # each library has its own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{what} did not take it: {lines[0]}") from None


def path_of(name: str, target: Destination, suffix: str = "", folder: str = "") -> str:
    """The file, or folder, that the run ``name`` is written to: one for each run of a suite, in a folder.

    Where none is named it lies in ``folder``. Raises OSError.
    """
    name = re.sub(r"[/ ]+", "_", clean(name)) + suffix
    if target.suite is None:
        return target.output or os.path.join(folder, name)
    folder = target.output or os.path.join(folder, clean(target.suite))
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name)
