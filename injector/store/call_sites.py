"""Call sites, events ``site`` of a log, which describe the spans of one number; the layout and the reader.

Each process of the program numbers its call sites and writes each before its first span
(:mod:`..measure.sites`). The data of the event is a map of plain values. Its keys are the names of the fields
of :class:`CallSite`, with these exceptions, as the format is older than the names:

=============  ========
field          key
=============  ========
``number``     ``site``
``object_id``  ``of``
``label``      ``what``
=============  ========

All keys but ``site`` and ``region`` may be missing.
"""

from __future__ import annotations

from ..value_class import value_class
from .logs import parse
from .spans import MEMORY

OWN = "injector.region"
"""The selector of call sites of the program's own ``injector.region`` and ``Timer``: no probe has it."""
MOST = 1 << 22
"""The highest number of a call site, far more than any process has. A higher one is damage, and would make
the tables that are indexed by it as long.
"""

EVALUATING = frozenset({"eval", "evaluate", "evaluation", "predict", "test", "valid", "validation"})
"""Names of phases and tasks in which nothing is trained."""

INFERENCE = "inference"
"""The task of steps in which a model only predicts, and the phase that ``--phase`` declares for it."""


@value_class
class SourceLine:
    """A line of the program."""

    file: str
    line: int
    function: str
    text: str
    """The line's text, stripped; empty if it could not be read."""


@value_class
class CallSite:
    """What the spans of one number have in common; docs/run-folder.md has the values."""

    number: int
    region: str
    clock: str = "host"
    """``host``, ``device``, or ``memory`` for rows that are no spans."""
    thread: int = 0
    """The number of the thread within the process."""
    place: SourceLine | None = None
    """The line of the program that made the call."""
    object_id: int | None = None
    """The number of the loader, the model or the optimizer; None if the call is of no such object."""
    label: str | None = None
    """A name for the call, such as the collective's or that of the function that was waited in."""
    phase: str | None = None
    """``train``, ``eval`` or ``predict``, of a model; ``gradients`` of code that may be several updates."""
    task: str | None = None
    """What a step works on, if it is not the training."""
    payload: str | None = None
    """The kind of the payload of its rows, such as ``items`` or ``start``; None if there is none."""
    device: str | None = None
    selector: str | None = None
    """The selector of the probe that recorded it."""

    @property
    def is_memory(self) -> bool:
        """Whether its rows are no spans, but record memory in use."""
        return self.clock == MEMORY


def call_site(data: object) -> CallSite | None:
    """The call site that ``data`` of an event ``site`` describes; None if that is damaged."""
    if not isinstance(data, dict):
        return None
    number, region = integer(data.get("site")), text(data.get("region"))
    if number is None or not 0 < number <= MOST or region is None:
        return None
    return CallSite(
        number=number,
        region=region,
        clock=text(data.get("clock")) or "host",
        thread=integer(data.get("thread")) or 0,
        place=_place(data.get("place")),
        object_id=integer(data.get("of")),
        label=text(data.get("what")),
        phase=text(data.get("phase")),
        task=text(data.get("task")),
        payload=text(data.get("payload")),
        device=text(data.get("device")),
        selector=text(data.get("selector", data.get("asked"))),  # its key in older folders
    )


def _place(data: object) -> SourceLine | None:
    """The line that ``data`` describes; None if it has no file."""
    if not isinstance(data, dict) or text(data.get("file")) is None:
        return None
    return SourceLine(
        file=data["file"],
        line=integer(data.get("line")) or 0,
        function=text(data.get("function")) or "",
        text=(text(data.get("text")) or "").strip(),
    )


def read_call_sites(path: str) -> dict[int, CallSite]:
    """The call sites of the log ``path``, by their numbers. Raises OSError."""
    sites: dict[int, CallSite] = {}
    with open(path, "rb") as file:
        for line in file:
            # As in {"event":"site",...: the many other lines need not be parsed.
            if b'"site"' in line[:24]:
                site = call_site((parse(line) or {}).get("data"))
                if site is not None:
                    sites[site.number] = site
    return sites


def integer(value: object) -> int | None:
    """``value`` if it is an integer, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: object) -> str | None:
    """``value`` if it is a string, else None."""
    return value if isinstance(value, str) else None
