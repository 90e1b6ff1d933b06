"""The sections about hyper-parameter studies: best trials, time of the workers, a timeline, a table.

The sentences and cells are made once here, for the terminal, pages, documents and CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ..metrics import shown_at
from ..named_tuple import NamedTuple
from ..value_class import fields as fields_of
from .output import room
from .segments import ENERGY, JOULES
from .tables import NUMBER, SHARE, TEXT, Section, Table
from .text import (
    LIMIT,
    TimeUnit,
    clean,
    count,
    crop,
    duration,
    figure,
    labelled,
    limited,
    line_of,
    percent,
    short,
    size,
    table,
)

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from ..analysis.study import Study, StudyPhase, Trial, WorkerRun

_STUDIES = 4
"""The most studies that a terminal shows."""
_LANES = 16
"""The most workers whose timelines are drawn on a terminal. A page draws twice as many."""
_DRAWN = 2000
"""The most trials that a page draws."""
SIGNS = {"complete": "█", "pruned": "▒", "failed": "×"}
"""The signs for trials in a timeline, by how they ended."""
PARTS = ("load", "train", "validate", "framework", "other")
"""The parts of a trial's time, in the order in which they are drawn."""
_RARE = ("framework", "store", "steps")
"""Columns of trials that a plain grid search has no content for."""
CPU, CPU_FACTOR = shown_at("report profile.studies.phases.cpu")


def lines(found: Sequence[Study]) -> list[str]:
    """The sections of all studies for a terminal."""
    result: list[str] = []
    for study in found[:_STUDIES]:
        result += [_title(study), *_about(study), "", *_phase_table(study), *_timeline(study)]
        heads, rows = trial_cells(study)
        shown = _worth_showing(study, rows)
        result += limited(
            table("  trials", [*heads[1:-1], f"{heads[-1]}:"], shown, indent=4), len(rows)
        )
    if len(found) > _STUDIES:
        result += [f"… and {count(len(found) - _STUDIES, 'study')} more", ""]
    return result


def name_of(study: Study) -> str:
    """The framework and the name of a study, without a name that the framework made up."""
    named = study.name and study.name != study.framework and not study.name.startswith("no-name-")
    return clean(f"{study.framework} {study.name}" if named else study.framework)


def facts_of(study: Study) -> list[str]:
    """Facts about a study: trials by how they ended, workers, sampler and pruner, the line that began it."""
    states = [f"{number} {word}" for word, number in study.counts().items() if number]
    return [
        f"{count(len(study.trials), 'trial')}: {', '.join(states)}",
        count(study.workers, "worker"),
        *(clean(word) for word in (study.sampler, study.pruner) if word and word != study.name),
        *([line_of(study.place)] if study.place else []),
        *(
            ["aborted: its last trial failed, and the program ended with an error"]
            if study.aborted
            else []
        ),
    ]


def _title(study: Study) -> str:
    return crop(f"study of {name_of(study)} · {' · '.join(facts_of(study))}", max(110, room()))


def _about(study: Study) -> list[str]:
    """The lines of the best trials and of the time."""
    return [*labelled("best", best_of(study)), *labelled("took", [time_of(study)])]


def best_of(study: Study) -> list[str]:
    """A sentence for each of the best trials, or one on why there is none."""
    numbers = set(study.best)
    best = [trial for trial in study.trials if trial.number in numbers]
    if not best:
        why = (
            "no trial was completed"
            if not study.counts()["complete"]
            else "what is better is not known"
            if not study.goals
            else "no trial has a value"
        )
        return [f"not known: {why}"]
    texts = [
        f"trial {trial.number}: {value_of(study, trial)} with {params_of(trial) or 'no hyper-parameters'}"
        for trial in best[:LIMIT]
    ]
    if len(best) > 1:
        texts.insert(0, f"{count(len(best), 'trial')} that no other is better than in all values")
    return texts


def value_of(study: Study, trial: Trial) -> str:
    """The values of a trial, such as ``loss 0.1234 (minimize)``."""
    goals = dict(enumerate(study.goals))
    texts = []
    for at, (name, value) in enumerate(trial.values.items()):
        # A name that is a number is only the value's position. One value is of the study's metric.
        metric = "" if name.isdecimal() or at else study.metric
        metric = name if len(trial.values) > 1 and not name.isdecimal() else metric
        goal = goals.get(at, "") if len(study.goals) > 1 or not at else ""
        texts.append(f"{clean(metric)} {figure(value)}{f' ({goal})' if goal else ''}".strip())
    return ", ".join(texts) or "no value"


def params_of(trial: Trial) -> str:
    """The hyper-parameters of a trial, such as ``lr=0.01 width=64``."""
    return " ".join(
        f"{clean(name)}={figure(value) if isinstance(value, float) else clean(value)}"
        for name, value in trial.params.items()
    )


def time_of(study: Study) -> str:
    """A sentence on how long a study took, and on how its workers spent that time."""
    total = study.in_trials + study.in_framework + study.idle
    if total <= 0:
        return duration(study.seconds)
    shares = (
        ("trials", study.in_trials),
        ("the framework", study.in_framework),
        ("idle", study.idle),
    )
    parts = [f"{name} {percent(part / total)} ({_brief(part)})" for name, part in shares if part]
    whose = "its worker" if study.workers == 1 else "its workers together"
    took = f"{duration(study.seconds)} until the best trial was known"
    return f"{took}; of the time of {whose}: {', '.join(parts)}"


def _brief(seconds: float) -> str:
    """A duration; one below 10 ms in a smaller unit, since it would be 0.00 s."""
    return short(seconds) if seconds < 0.01 else duration(seconds)


def phase_cells(study: Study) -> tuple[list[str], list[list[str | float]]]:
    """Heads and rows of a table of the phases of a study. Columns without content are left out."""
    phases = study.phases
    unit = TimeUnit(max((phase.seconds for phase in phases), default=0.0))
    # Metrics are computed after the study, and are no part of its time.
    total = sum(phase.seconds for phase in phases if not phase.is_of_inject)
    rows: list[list[str | float]] = [
        [
            phase.name,
            str(phase.calls),
            unit(phase.seconds),
            "" if phase.is_of_inject else phase.seconds / total if total else 0.0,
            "" if phase.cpu is None else figure(phase.cpu * CPU_FACTOR),
            "" if phase.peak_rss is None else size(phase.peak_rss),
            "" if phase.energy is None else figure(phase.energy * ENERGY),
        ]
        for phase in phases
    ]
    heads = ["phase", "n", unit.name, "share", f"cpu {CPU}", "memory", f"energy {JOULES}"]
    kept = [at for at in range(len(heads)) if at < 4 or any(row[at] for row in rows)]
    return [heads[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _phase_table(study: Study) -> list[str]:
    """The table of :func:`phase_cells`."""
    heads, rows = phase_cells(study)
    shown = [[percent(cell) if isinstance(cell, float) else cell for cell in row] for row in rows]
    return table("  phases", heads[1:], shown, indent=4)


def trial_cells(study: Study) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table of trials, by number. Rare columns without content are left out."""
    columns = _trial_columns(study)
    rows = [[cell(trial) for _, cell in columns] for trial in study.trials]
    blank = {"", short(0.0)}
    kept = [
        at
        for at, (head, _) in enumerate(columns)
        if head not in _RARE or any(row[at] not in blank for row in rows)
    ]
    return [columns[at][0] for at in kept], [[row[at] for at in kept] for row in rows]


def _trial_columns(study: Study) -> list[tuple[str, Callable[[Trial], str]]]:
    """The head of each column, and what makes its cells."""

    def value(name: str) -> Callable[[Trial], str]:
        return lambda trial: figure(trial.values[name]) if name in trial.values else ""

    def seconds(name: str) -> Callable[[Trial], str]:
        return lambda trial: "" if (spent := getattr(trial, name)) is None else short(spent)

    values = list(dict.fromkeys(name for trial in study.trials for name in trial.values))
    named = len(values) > 1
    detailed = any(trial.train is not None for trial in study.trials)
    parts = ("load", "train", "validate") if detailed else ()
    return [
        ("trial", lambda trial: str(trial.number)),
        ("state", lambda trial: trial.state + (", best" if trial.number in study.best else "")),
        *(
            (clean(name if name and named else study.metric or "value"), value(name))
            for name in values
        ),
        ("took", seconds("seconds")),
        *((name, seconds(name)) for name in ("setup", *parts, "framework", "other", "store")),
        ("steps", lambda trial: str(trial.steps or "")),
        ("with", lambda trial: ": ".join(filter(None, (params_of(trial), clean(trial.error))))),
    ]


def _worth_showing(study: Study, rows: Sequence[list[str]]) -> list[list[str]]:
    """The rows of trials that are shown, if there are many: the best, the failed, the first others."""
    if len(rows) <= LIMIT:
        return list(rows)
    places = range(len(rows))
    rank = {"failed": 1, "complete": 2, "pruned": 2}
    order = sorted(
        places,
        key=lambda at: (
            0 if study.trials[at].number in study.best else rank[study.trials[at].state],
            at,
        ),
    )
    return [rows[at] for at in sorted(order[:LIMIT])]


# --- the timeline ---------------------------------------------------------------------------------


def _lanes(study: Study) -> dict[int, list[tuple[Trial, WorkerRun]]]:
    """By worker the trials that it ran, in the order of time. Several workers may run parts of one trial."""
    lanes: dict[int, list[tuple[Trial, WorkerRun]]] = {}
    for trial in study.trials:
        for run in trial.runs:
            lanes.setdefault(run.worker, []).append((trial, run))
    return {
        worker: sorted(lanes[worker], key=lambda trial_run: trial_run[1].began)
        for worker in sorted(lanes)
    }


def _timeline(study: Study) -> list[str]:
    """The timeline for a terminal: a line for each worker, whose width is the duration of the study."""
    width = max(min(room() - 18, 72), 20)
    lanes = _lanes(study)
    if not study.seconds or len(study.trials) < 2:
        return []
    lines = [f"  timeline, {duration(study.seconds)}"]
    for worker, runs in [*lanes.items()][:_LANES]:
        cells = [" "] * width
        for trial, run in runs:
            first = int(run.began / study.seconds * width)
            last = int((run.began + run.seconds) / study.seconds * width)
            # Each trial has one cell at least.
            for at in range(min(first, width - 1), min(max(last, first + 1), width)):
                cells[at] = SIGNS[trial.state]
            # Half a block at its end separates a trial from the next one.
            if last - first > 2 and trial.state == "complete" and last <= width:
                cells[last - 1] = "▌"
        lines.append(f"    worker {worker}  |{''.join(cells)}|")
    if len(lanes) > _LANES:
        lines.append(f"    … and {len(lanes) - _LANES} more")
    return [*lines, f"    {'  '.join(f'{sign} {word}' for word, sign in SIGNS.items())}", ""]


class DrawnTrial(NamedTuple):
    """A trial in the lane of a worker on a page. ``left`` and ``width`` are percent of the study."""

    left: float
    width: float
    title: str
    state: str
    best: bool
    parts: list[tuple[str, float]]
    """The parts of its time, in percent of it."""


class DrawnLane(NamedTuple):
    """A worker with the trials that it ran."""

    worker: int
    label: str
    trials: list[DrawnTrial]


def drawn(study: Study) -> list[DrawnLane]:
    """The timeline for a page."""
    lanes = []
    left = _DRAWN
    for worker, runs in [*_lanes(study).items()][: 2 * _LANES]:
        runs = runs[:left]
        left -= len(runs)
        trials = [_drawn(study, trial, run) for trial, run in runs] if study.seconds else []
        label = f"worker {worker}: {count(len({trial.number for trial, _ in runs}), 'trial')}"
        lanes.append(DrawnLane(worker, label, trials))
    return lanes


def _drawn(study: Study, trial: Trial, run: WorkerRun) -> DrawnTrial:
    parts: Mapping[str, float] = {name: getattr(trial, name) or 0.0 for name in PARTS}
    total = sum(parts.values()) or 1.0
    ended = f"trial {trial.number}, {trial.state}: {value_of(study, trial)}"
    title = f"{ended}, {short(run.seconds)}; {params_of(trial)}"
    return DrawnTrial(
        left=100 * run.began / study.seconds,
        width=max(100 * run.seconds / study.seconds, 0.05),
        title=title,
        state=trial.state,
        best=trial.number in study.best,
        parts=[(name, 100 * seconds / total) for name, seconds in parts.items() if seconds],
    )


def sections(found: Sequence[Study]) -> Iterator[Section]:
    """A section for each study: sentences, a table of phases, a table of trials."""
    for number, study in enumerate(found):
        heads, rows = phase_cells(study)
        kinds = tuple(
            SHARE if head == "share" else NUMBER if at else TEXT for at, head in enumerate(heads)
        )
        phases = Table(heads, kinds, rows)
        names, cells = trial_cells(study)
        kinds = tuple(TEXT if at in (1, len(names) - 1) else NUMBER for at in range(len(names)))
        trials = Table(names, kinds, cells)
        best = [f"best: {text}" for text in best_of(study)]
        texts = (" · ".join(facts_of(study)), *best, time_of(study))
        yield Section(f"study{number}", f"Study of {name_of(study)}", texts, (phases, trials))


def csv_rows(found: Sequence[Study]) -> Iterator[dict[str, object]]:
    """Rows of the tables ``studies``, ``phases``, ``trials``: each hyper-parameter and value has a column."""
    for number, study in enumerate(found):
        identity = {"study": number, "framework": study.framework, "name": study.name}
        yield {
            "table": "studies",
            **identity,
            **study.counts(),
            "seconds": study.seconds,
            "workers": study.workers,
            "best": " ".join(map(str, study.best)),
            "in_trials": study.in_trials,
            "in_framework": study.in_framework,
            "idle": study.idle,
        }
        for phase in study.phases:
            yield {"table": "phases", **identity, **_plain(phase)}
        for trial in study.trials:
            yield {
                "table": "trials",
                **identity,
                **_plain(trial),
                **{f"params.{name}": value for name, value in trial.params.items()},
                **{f"values.{name}" if name else "value": v for name, v in trial.values.items()},
            }


def _plain(row: StudyPhase | Trial) -> dict[str, object]:
    """The fields of a row that are numbers or strings."""
    fields = ((name, getattr(row, name)) for name in fields_of(row))
    return {name: value for name, value in fields if isinstance(value, (int, float, str))}
