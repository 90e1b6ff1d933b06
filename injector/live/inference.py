"""The steps of inference of one process: what counts until anything is trained.

Whether a run trains is known only when anything is trained. Until then, what models predict counts as
inference: one step for each fetch, or for each call of a model without a loader, as ``--stop`` counts them.
"""

from __future__ import annotations

from ..measure.pace import ThreadSteps
from ..store.spans import is_loaders, updates
from .parts import Parts, SiteKind


def trains(kind: SiteKind) -> bool:
    """Whether a span of this call site shows that the run trains."""
    return kind.learns or updates(kind.region, kind.site.phase)


class Inference:
    """The steps of each thread, and what they are made of."""

    def __init__(self) -> None:
        self._threads: dict[int, tuple[ThreadSteps, Parts]] = {}

    @property
    def steps(self) -> int:
        """Those of the thread that made most of them."""
        return max((steps.steps for steps, _ in self._threads.values()), default=0)

    @property
    def parts(self) -> list[Parts]:
        """What the steps of each thread are made of."""
        return [parts for _, parts in self._threads.values()]

    def span(self, start: int, end: int, kind: SiteKind) -> bool:
        """Take a span. Returns whether it ended the last step of a loader."""
        if kind.thread not in self._threads:
            self._threads[kind.thread] = ThreadSteps(), Parts()
        steps, parts = self._threads[kind.thread]
        loads = is_loaders(kind.object_id, kind.site.selector)
        if kind.region == "io.end":
            parts.exhausted(start, kind.source)
            return loads and steps.end(kind.source)
        parts.span(start, end, kind.region, kind.source, kind.gives)
        if kind.region == "io" and loads:
            if steps.fetch(kind.source):
                parts.fetched(start, kind.source)
        elif kind.region == "forward" and kind.evaluates and steps.update(kind.source):
            parts.updated(end)
        return False
