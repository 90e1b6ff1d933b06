"""Call sites, events ``site`` of a log: what the spans of one number are of; the layout and the reader.

The program's own process numbers them and writes each before its first span (:mod:`..measure.sites`), as
a map of plain values. The keys are the names of the fields of :class:`CallSite`, but for ``number``,
``object_id``, ``label`` and ``selector``, whose keys :func:`call_site` has; all but
``site`` and ``region`` may be missing.
"""

from __future__ import annotations

from ..value_class import value_class
from .logs import parse
from .spans import MEMORY

OWN = "injector.region"
"""What stands for the selector of a call site of the program's own ``injector.region`` or ``Timer``."""
MOST = 1 << 22
"""Far more than any process makes: a larger number is damage, and tables are as long as the largest."""

EVALUATING = frozenset({"eval", "evaluate", "evaluation", "predict", "test", "valid", "validation"})
"""Words for a phase or a task in which nothing is trained."""

INFERENCE = "inference"
"""The task of steps in which a model only predicts, and the phase that ``--phase`` declares."""


@value_class
class SourceLine:
    """A line of the program."""

    file: str
    line: int
    function: str
    text: str
    """The line itself, stripped; empty when it could not be read."""


@value_class
class CallSite:
    """What the spans of one number have in common; docs/run-folder.md."""

    number: int
    region: str
    clock: str = "host"
    thread: int = 0
    place: SourceLine | None = None
    object_id: int | None = None
    """Number of the loader, the model, the optimizer; None where the span is of no object."""
    label: str | None = None
    phase: str | None = None
    task: str | None = None
    payload: str | None = None
    device: str | None = None
    selector: str | None = None
    """Of the probe that recorded it."""

    @property
    def is_memory(self) -> bool:
        """Whether its rows are no spans, but say what memory there was."""
        return self.clock == MEMORY


def call_site(data: object) -> CallSite | None:
    """The call site that ``data``, of an event ``site``, describes; None where that is damaged."""
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
            if b'"site"' in line[:24]:  # few lines are, and the others need not be parsed
                site = call_site((parse(line) or {}).get("data"))
                if site is not None:
                    sites[site.number] = site
    return sites


def integer(value: object) -> int | None:
    """``value`` where it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: object) -> str | None:
    """``value`` where it is a text."""
    return value if isinstance(value, str) else None
