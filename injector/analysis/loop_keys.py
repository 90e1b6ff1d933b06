"""Which loop each step belongs to, by a name that is the same on every rank."""

from __future__ import annotations

import numpy as np

from .landmarks import Landmarks
from .steps import TrackSteps

Key = tuple[str, str, str | None, int, int]
"""The name of a loop on every rank: task, kind of pacing, file, line, and its number at that line."""
SAME_LINE = 3
"""Up to this number, loops at one line that work on different objects are kept apart. More are one loop: the
program makes its data set, or its optimizer, anew for each fold or epoch."""


def loop_keys(marks: Landmarks, steps: TrackSteps, infers: bool) -> list[Key]:
    """The loop that each pace belongs to, one key per pace, named alike on every rank.

    Several objects may pace steps at one line. They pace one loop if the same optimizers are stepped in it,
    or the same models predict: a loader made anew for each epoch begins no new loop, a second stage of
    training does. The steps that a voirfile marks at one line are one loop, whatever it iterates over.
    ``infers`` if the whole run only predicts.
    """
    worked_on = _objects_of_paces(marks, steps, infers)
    lines: list[tuple[str, str, str | None, int]] = [
        (p.task, p.paced_by, p.place.file if p.place else None, p.place.line if p.place else 0)
        for p in steps.paces
    ]
    first_step = {
        i: int(of_pace.argmax()) for i in range(len(lines)) if (of_pace := steps.pace == i).any()
    }
    loops_at: dict[object, int] = {}
    """How many loops each line has so far."""
    loop_of: dict[object, int] = {}
    """By line and object that paces or is worked on there, the first loop with it."""
    ordinal = {}
    # In the order of their first steps, which is that of the program and alike on every rank.
    for i in sorted(first_step, key=lambda i: first_step[i]):
        before = loops_at.get(lines[i], 0)
        objects: list[object] = [(lines[i], "of", steps.paces[i].object_id)]
        objects += [(lines[i], "worked on", number) for number in worked_on[i]]
        loop = min((loop_of[one] for one in objects if one in loop_of), default=before)
        if before and steps.paces[i].paced_by == "step":
            loop = 0
        ordinal[i] = loop
        loops_at[lines[i]] = max(before, loop + 1)
        for one in objects:
            loop_of[one] = min(loop_of.get(one, loop), loop)
    return [
        (*line, ordinal.get(i, 0) if loops_at.get(line, 0) <= SAME_LINE else 0)
        for i, line in enumerate(lines)
    ]


def _objects_of_paces(marks: Landmarks, steps: TrackSteps, infers: bool) -> list[set[object]]:
    """For each pace the optimizers that are stepped in its steps, or of inference the models that predict.

    They are given by ``object_id``; -1 is a model that has none. An update that has none, as that of a
    compiled function, is given by its name.
    """
    track = marks.track
    rows = marks.may_train if infers else marks.updates
    rows, step = steps.rows_inside(track, rows)
    pace = steps.pace[step]
    site_count = 1 + max(track.sites, default=0)
    objects: list[set[object]] = [set() for _ in steps.paces]
    # Pairs of pace and site as one number each: of millions of rows only the few distinct ones matter.
    for code in np.flatnonzero(np.bincount(pace * site_count + track.site[rows])).tolist():
        site = track.sites[code % site_count]
        unnamed = -1 if infers else site.label
        objects[code // site_count].add(unnamed if site.object_id is None else site.object_id)
    return objects
