"""Steps: what they are made of before anything is measured in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .columns import Ints, Site
from .profile import Place


class Pace(NamedTuple):
    """What makes steps of one loop: a loader, an optimizer, or a voirfile's word."""

    task: str
    paced_by: str
    place: Place | None
    of: int | None = None
    what: str | None = None


@dataclass
class Steps:
    """The steps of one lane in order; none overlaps another."""

    start: Ints
    end: Ints
    pace: Ints
    """Which of ``paces``."""
    fetches: Ints
    updates: Ints
    paces: list[Pace] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Ints) -> Steps:
        """Those of the given numbers, or flags."""
        return Steps(
            self.start[which],
            self.end[which],
            self.pace[which],
            self.fetches[which],
            self.updates[which],
            self.paces,
        )


def no_steps() -> Steps:
    """None at all."""
    none = np.empty(0, np.int64)
    return Steps(none, none, none, none, none, [])


def joined(parts: list[Steps]) -> Steps:
    """All of ``parts`` in the order of time, each ended where the next begins at the latest."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return no_steps()
    offsets = np.cumsum([0, *(len(part.paces) for part in parts[:-1])])
    start, end, pace, fetches, updates = (
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        np.concatenate([part.pace + offset for part, offset in zip(parts, offsets, strict=True)]),
        np.concatenate([part.fetches for part in parts]),
        np.concatenate([part.updates for part in parts]),
    )
    paces = [each for part in parts for each in part.paces]
    whole = Steps(start, end, pace, fetches, updates, paces)
    if len(parts) > 1:
        whole = whole.take(np.lexsort((whole.end, whole.start)))
    whole.end[:-1] = np.minimum(whole.end[:-1], whole.start[1:])
    return whole


def pace_of(site: Site, paced_by: str) -> Pace:
    """The pace that the spans of ``site`` set."""
    return Pace(site.task or "train", paced_by, site.place, site.of, site.what)
