"""Hyper-parameter studies: their trials, the best of these, and what their time went to.

The phases are those of ml_benchmark's life cycle (https://github.com/gebauerm/ml_benchmark): deploy; of each
trial setup, load, train and validate; result collection, from the end of the last trial until the best one
is known; test; un-deploy; metric collection, by ``inject`` itself. docs/hpo.md has the definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np

from ..store import monitor
from ..store.folder import Run
from ..value_class import field, replace, state_class
from .arrays import ExcludedIntervals, distinct
from .columns import SECOND, read_rows, sources
from .profile import METRICS, Study, StudyPhase, Trial, WorkerRun
from .traces import threads_of
from .trials import (
    FRAMEWORK,
    LOAD,
    OTHER,
    PHASES,
    RUNNING,
    SETUP,
    TRAIN,
    VALIDATE,
    FrameworkSpan,
    ProcessStudies,
    TrialPart,
    attribute,
    clipped,
    has_studies,
    identity,
    studies_in,
)
from .usage import Usage, sampled_usage, usage_of

MOST = 24
"""Studies of a run that are kept: an objective may make one in each trial."""


@state_class
class _Found:
    """A study as it was recorded."""

    framework: str
    name: str
    window: tuple[int, int] | None
    """Of its own call, where a study is known by that and by no name."""
    parts: list[TrialPart] = field(default_factory=list)
    spans: list[FrameworkSpan] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """When it began: with its call, the setup of its first trial, or that."""
        first = self.parts[0].start
        calls = [s.start for s in self.spans if s.region == "study" and s.start <= first <= s.end]
        setups = [s.start for s in self.spans if s.region == SETUP and s.start <= first]
        return min(calls) if calls else max(setups, default=first)

    @property
    def last(self) -> int:
        """When its last trial ended."""
        return max(part.end for part in self.parts)


def studies_of(
    found: Sequence[ProcessStudies],
    usage: Usage | None = None,
    info: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Study, ...]:
    """The studies of a run in the order in which they began; ``usage`` is what its processes used, when.

    ``info`` is its run.json, whose metrics are collected once all of them are over: a phase of the last one.
    """
    ended = info.get("exit") or {}
    broken = bool(ended.get("code") or ended.get("signal"))
    attribute(found)
    groups = _grouped(found)
    groups.sort(key=lambda group: group.start)
    evaluated = [each.evaluated for each in found if each.evaluated is not None]
    began = {each.process: each.began for each in found}
    made = []
    for at, group in enumerate(groups[:MOST]):
        # Those that go on at the same time, and those within its trials, are neither before nor after it.
        before = max((each.last for each in groups[:at] if each.last <= group.start), default=0)
        until = next((each.start for each in groups[at:] if each.start >= group.last), None)
        made.append(_study(group, began, (before, until), evaluated, usage, broken))
    if made and len(groups) <= MOST and (collection := _metric_collection(info)) is not None:
        made[-1] = replace(made[-1], phases=(*made[-1].phases, collection))
    return tuple(made)


def studies_in_run(run: Run) -> tuple[Study, ...]:
    """The studies of ``run``, without the rest of its analysis. Raises OSError, NotARunError."""
    having = [source for source in sources(run) if source.has_spans()]
    if not has_studies(having):
        return ()
    found = [studies_in(source, threads_of(source, read_rows(source))) for source in having]
    return studies_of(found, sampled_usage(monitor.read(run.content)), run.info)


# --- which trials belong together -----------------------------------------------------------------


def _grouped(found: Sequence[ProcessStudies]) -> list[_Found]:
    spans = [span for each in found for span in each.spans]
    named: dict[tuple[str, str], _Found] = {}
    whole: list[_Found] = []
    parts = _without_ended_elsewhere(
        sorted((part for each in found for part in each.parts), key=lambda part: part.start)
    )
    for part in parts:
        if part.recorded and part.facts.get("study"):
            key = part.facts["framework"], str(part.facts["study"])
            named.setdefault(key, _Found(*key, None)).parts.append(part)
    calls = sorted((each for each in spans if each.region == "study"), key=lambda each: each.start)
    nameless = {framework for framework, _ in named}
    for call in calls:
        if call.framework not in nameless:
            window = call.start, call.end
            whole.append(_Found(call.framework, call.label, window, spans=[call]))
    for part in parts:
        if not (part.recorded and part.facts.get("study")):
            _add_nameless(part, named, whole)
    groups = [each for each in (*named.values(), *whole) if each.parts]
    for moment, facts in (fact for each in found for fact in each.facts):
        group = _of_facts(moment, facts, named, whole)
        if group is not None:
            group.facts.update(facts)
    busy = {part.process for part in parts}
    for group in groups:
        others = busy - {part.process for part in group.parts}
        group.spans = [each for each in spans if _is_of(each, group, others)]
        group.parts.sort(key=lambda part: part.start)
    return groups


def _without_ended_elsewhere(parts: list[TrialPart]) -> list[TrialPart]:
    """``parts`` but for those that went on in one process when another one had recorded their end."""

    ended: dict[object, set[int]] = {}
    for part in parts:
        if part.facts.get("state") != RUNNING:
            ended.setdefault(identity(part.facts), set()).add(part.process)
    return [
        part
        for part in parts
        if part.facts.get("state") != RUNNING
        or not ended.get(identity(part.facts), set()) - {part.process}
    ]


def _add_nameless(
    part: TrialPart, named: Mapping[tuple[str, str], _Found], whole: list[_Found]
) -> None:
    """To the innermost call of a study around it; a call that left no record may belong to a named one."""
    framework = part.facts["framework"]
    around = [
        each
        for each in whole
        if each.window and each.window[0] <= part.start <= each.window[1]
        and (each.framework == framework or framework == "sklearn" == each.framework)
    ]  # fmt: skip
    if around:
        max(around, key=lambda each: each.window or (0, 0)).parts.append(part)
        return
    near = [each for key, each in named.items() if framework in key and each.parts]
    if near and not part.recorded:
        near[-1].parts.append(part)
    elif part.recorded or framework != "sklearn":  # a fold of `cross_validate` is no trial
        same = next(
            (each for each in whole if each.framework == framework and not each.window), None
        )
        if same is None:
            same = _Found(framework, "", None)
            whole.append(same)
        same.parts.append(part)


def _of_facts(
    moment: int,
    facts: Mapping[str, Any],
    named: Mapping[tuple[str, str], _Found],
    whole: Sequence[_Found],
) -> _Found | None:
    if facts.get("study"):
        return named.get((facts["framework"], str(facts["study"])))
    near = [
        each
        for each in whole
        if each.framework == facts["framework"] and (not each.window or each.window[0] <= moment)
    ]
    return near[-1] if near else None


def _is_of(span: FrameworkSpan, group: _Found, others: Set[int]) -> bool:
    """Whether a call of the framework belongs to a study; ``others`` are processes that ran trials, but none
    of this one. A process without any trial may open the study, and look for its best one.
    """
    own = span.region in ("study", SETUP, "store", "refit")
    if group.window and (own or span.framework == "joblib"):
        inside = group.window[0] <= span.start <= group.window[1]
        return inside and (span.framework in (group.framework, "") or group.framework == "sklearn")
    if span.framework == "joblib":  # beneath the searches of scikit-learn, or anything in a trial
        return False
    if span.framework != group.framework:
        return False
    if group.window:  # its trials may all have run in other processes than its call
        others = others - {each.process for each in group.spans}
    return span.process not in others


# --- one study ------------------------------------------------------------------------------------


def _study(
    group: _Found,
    began: Mapping[int, int],
    between: tuple[int, int | None],
    evaluated: Sequence[ExcludedIntervals],
    usage: Usage | None,
    broken: bool,
) -> Study:
    """``began`` says when each process did; ``between`` are the last trial of the study before it and the
    begin of the next one.
    """
    before, until = between
    start, last = group.start, group.last
    facts, known = _facts(group)
    goals = tuple(str(goal) for goal in facts.get("goals") or ())
    deploys = [
        each
        for each in group.spans
        if each.region == "deploy" and before <= each.start <= last and not _in_trial(each, group)
    ]
    lanes = _lanes(group.parts)
    stop = max(part.done for part in group.parts)
    pool = [part.process for part in group.parts]
    # A process that runs several trials is one of a pool; one that runs a single trial is made for it.
    started = {
        each: began[each] for each in set(pool) if began[each] > start and pool.count(each) > 1
    }
    gaps = _setups(group, lanes, {each: started.get(each, start) for each in pool}, deploys)
    trials = _trials(group, lanes, gaps, start)
    trials = sorted([*trials, *_unseen(known, trials)], key=lambda trial: trial.number)
    if (metric := facts.get("metric")) is not None:
        trials = [_with_first(trial, str(metric)) for trial in trials]
    known_at = _best_known(group, last, until, stop)
    outer = {
        "deploy": [*_times_of(deploys, "deploy"), *((start, end) for end in started.values())],
        **_after_its_trials(group, known_at, until, evaluated),
    }
    pieces = _pieces(group.parts, gaps)
    sums = [part.segments.seconds() for part in group.parts]
    spent = {name: sum(each[name] for each in sums) for name in PHASES}
    stored = sum(part.done - part.end for part in group.parts) / SECOND
    setup = sum(end - begin for each in gaps for begin, end in each) / SECOND
    framework = spent[FRAMEWORK] + stored + setup
    trial_seconds = sum(part.end - part.start for part in group.parts) / SECOND
    places = [each.place for each in group.spans if each.region == "study" and each.place]
    ends = dict(zip(lanes, (part.done for part in group.parts), strict=True))
    return Study(
        framework=group.framework,
        name=str(facts.get("study") or group.name),
        goals=goals,
        metric=str(facts.get("metric") or ""),
        sampler=str(facts.get("sampler") or ""),
        pruner=str(facts.get("pruner") or ""),
        place=places[0] if places else next((p.place for p in group.parts if p.place), None),
        started=start / SECOND,
        seconds=(known_at - start) / SECOND,
        workers=len(set(lanes)),
        trials=tuple(trials),
        best=_best(trials, goals, facts),
        aborted=broken and any(trial.state == "failed" and trial.last for trial in trials),
        in_trials=trial_seconds - spent[FRAMEWORK],
        in_framework=framework,
        idle=sum(stop - end for end in ends.values()) / SECOND,
        phases=_phases(outer, pieces, len(trials), usage, {**spent, SETUP: setup, "store": stored}),
    )


def _after_its_trials(
    group: _Found, known_at: int, until: int | None, evaluated: Sequence[ExcludedIntervals]
) -> dict[str, list[tuple[int, int]]]:
    """By phase, what followed its last trial: when its best one was known, and the next study began."""
    last = group.last
    ends = [int(each.end[-1]) for each in evaluated if len(each)]
    after = until if until is not None else max([known_at, *ends])
    later = [
        each for each in group.spans if each.start >= last and (until is None or each.start < until)
    ]
    return {
        "result collection": [(last, known_at)],
        "refit": _times_of(later, "refit"),
        "test": _tests(evaluated, known_at, after, later),
        "un-deploy": _times_of(later, "undeploy"),
    }


def _facts(group: _Found) -> tuple[dict[str, Any], Mapping[str, Mapping[str, Any]]]:
    """What is recorded of the study, and of its trials by their ids; the latter is put into its parts."""
    facts = {**group.parts[0].facts, **group.facts}
    known: Mapping[str, Mapping[str, Any]] = facts.get("trials") or {}
    for part in group.parts:
        part.facts = {**part.facts, **known.get(str(part.facts.get("id")), {})}
    recorded = [part for part in group.parts if part.recorded]
    if known and recorded:  # of calls without a record, their trials say what became of them
        group.parts = recorded
    return facts, known


def _times_of(spans: Sequence[FrameworkSpan], region: str) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in spans if each.region == region]


def _in_trial(span: FrameworkSpan, group: _Found) -> bool:
    """Whether joblib started workers within a trial: that is what the trial does."""
    return span.framework == "joblib" and any(
        part.process == span.process and part.start <= span.start < part.end for part in group.parts
    )


def _lanes(parts: Sequence[TrialPart]) -> list[int]:
    """For each part the number of its worker: a thread, or more where its trials overlap in one.

    A process takes the place of one that ran its last trial before.
    """
    last: dict[int, int] = {}
    for part in parts:
        last[part.process] = max(last.get(part.process, 0), part.done)
    ends: list[tuple[tuple[int, int], int]] = []
    known: set[int] = set()
    found = []
    for part in parts:
        key = part.process, part.thread
        over = [at for at, (_, end) in enumerate(ends) if end <= part.start]
        free = [at for at in over if ends[at][0] == key]
        if not free and part.process not in known:
            free = [at for at in over if last[ends[at][0][0]] <= part.start]
        known.add(part.process)
        if free:
            lane = max(free, key=lambda at: ends[at][1])
            ends[lane] = key, part.done
        else:
            lane = len(ends)
            ends.append((key, part.done))
        found.append(lane)
    return found


def _setups(
    group: _Found,
    lanes: Sequence[int],
    starts: Mapping[int, int],
    deploys: Sequence[FrameworkSpan],
) -> list[list[tuple[int, int]]]:
    """For each part, when its worker was free before it: since its last result was stored, at first since the
    study had begun, and the worker's process, of which ``starts`` says when.

    What lies outside of the study's own calls, or deploys the framework in that process or in one that runs
    no trials, is none of it.
    """
    own = ExcludedIntervals(
        *_columns([(s.start, s.end) for s in group.spans if s.region == "study"])
    )
    deployed = {
        process: ExcludedIntervals(
            *_columns(
                (each.start, each.end)
                for each in deploys
                if each.process == process or each.process not in starts
            )
        )
        for process in starts
    }
    free: dict[int, int] = {}
    found = []
    for part, lane in zip(group.parts, lanes, strict=True):
        begin, end = min(free.get(lane, starts[part.process]), part.start), part.start
        free[lane] = part.done
        mine = deployed[part.process]
        moments = [moment for each in (own, mine) for moment in clipped(each, begin, end)]
        edges = distinct(np.concatenate((np.array([begin, end]), *moments)))
        left = edges[:-1]
        kept = ~mine.hold(left) & (own.hold(left) | (len(own) == 0))
        found.append(list(zip(left[kept].tolist(), edges[1:][kept].tolist(), strict=True)))
    return found


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[Any, Any]:
    rows = np.array(list(pairs), np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _trials(
    group: _Found,
    lanes: Sequence[int],
    gaps: Sequence[Sequence[tuple[int, int]]],
    start: int,
) -> list[Trial]:
    """The trials by their numbers; parts of one (folds) together."""
    together: dict[Any, list[int]] = {}
    seen: dict[Any, int] = {}
    sizes: list[int] = []
    """How many trials each round of a search by halving has."""
    for at, part in enumerate(group.parts):
        facts = part.facts
        if not part.recorded and "number" not in facts:
            together["unrecorded", at] = [at]
        elif "part" in facts:
            fold = facts["number"], facts["part"]
            turn = seen[fold] = seen.get(fold, -1) + 1
            if turn == len(sizes):
                sizes.append(int(facts.get("of") or 0))
            together.setdefault(sum(sizes[:turn]) + facts["number"], []).append(at)
        elif "number" in facts or "id" in facts:
            together.setdefault(facts.get("number", facts.get("id")), []).append(at)
        else:
            together["counted", at] = [at]
    last = max(part.end for part in group.parts)
    made = []
    for key, places in together.items():
        number = key if isinstance(key, int) else None
        made.append(
            _trial(number, [(group.parts[at], lanes[at], gaps[at]) for at in places], start, last)
        )
    # A grid's trials, and calls that left no record, have no number of their own: the free ones, in time.
    used = {trial.number for trial in made}
    free = (number for number in range(len(made) + len(used)) if number not in used)
    numbered = [trial if trial.number >= 0 else replace(trial, number=next(free)) for trial in made]
    return sorted(numbered, key=lambda trial: trial.number)


def _trial(
    number: int | None,
    parts: Sequence[tuple[TrialPart, int, Sequence[tuple[int, int]]]],
    start: int,
    last: int,
) -> Trial:
    facts: dict[str, Any] = {}
    for part, _, _ in parts:
        facts.update(part.facts)
    sums: dict[str, float] = dict.fromkeys(PHASES, 0.0)
    for part, _, _ in parts:
        for name, seconds in part.segments.seconds().items():
            sums[name] += seconds
    trained = sums[TRAIN] > 0 or sums[VALIDATE] > 0
    recorded = all(part.recorded for part, _, _ in parts)
    states = [
        str(part.facts.get("state") or ("complete" if part.recorded else "failed"))
        for part, _, _ in parts
    ]
    if RUNNING in states:
        states = ["failed"]
    state = next((word for word in ("failed", "pruned") if word in states), "complete")
    expected = facts.get("parts")
    error = str(facts.get("error") or ("" if recorded else "it left no result"))
    if isinstance(expected, int) and len(parts) < expected and state == "complete":
        state, error = "failed", f"{len(parts)} of {expected} folds were recorded"
    return Trial(
        number=-1 if number is None else number,
        id=str(facts.get("id") or ""),
        params=dict(facts.get("params") or {}),
        values=_mean([part.facts.get("values") or {} for part, _, _ in parts]),
        state=state,
        error=error,
        began=(min(part.start for part, _, _ in parts) - start) / SECOND,
        seconds=sum(part.end - part.start for part, _, _ in parts) / SECOND,
        setup=sum(end - begin for _, _, gap in parts for begin, end in gap) / SECOND,
        load=sums[LOAD] if trained else None,
        train=sums[TRAIN] if trained else None,
        validate=sums[VALIDATE] if trained else None,
        framework=sums[FRAMEWORK],
        other=sums[OTHER],
        store=sum(part.done - part.end for part, _, _ in parts) / SECOND,
        steps=sum(part.steps for part, _, _ in parts),
        reports=int(facts.get("reports") or 0),
        last=any(part.end == last for part, _, _ in parts),
        runs=tuple(
            WorkerRun(
                worker=lane,
                process=part.process,
                began=(part.start - start) / SECOND,
                seconds=(part.end - part.start) / SECOND,
            )
            for part, lane, _ in parts
        ),
    )


def _unseen(known: Mapping[str, Mapping[str, Any]], seen: Sequence[Trial]) -> list[Trial]:
    """Trials that the framework knows of and no process recorded: it was killed, or never began."""
    ids = {trial.id for trial in seen}
    return [
        Trial(
            number=int(facts.get("number", len(seen))),
            id=name,
            params=dict(facts.get("params") or {}),
            values=dict(facts.get("values") or {}),
            state=str(facts.get("state") or "failed"),
            error=str(facts.get("error") or "no process recorded it"),
        )
        for name, facts in known.items()
        if name not in ids
    ]


def _with_first(trial: Trial, metric: str) -> Trial:
    """``trial`` with the value that counts before all others."""
    if metric not in trial.values:
        return trial
    return replace(trial, values={metric: trial.values[metric], **trial.values})


def _mean(found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of each value the mean over the parts that have it."""
    names = dict.fromkeys(name for each in found for name in each)
    made = {}
    for name in names:
        known = [float(each[name]) for each in found if isinstance(each.get(name), (int, float))]
        made[name] = sum(known) / len(known) if len(known) == len(found) else float("nan")
    return made


# --- the best one ---------------------------------------------------------------------------------


def _best(
    trials: Sequence[Trial], goals: Sequence[str], facts: Mapping[str, Any]
) -> tuple[int, ...]:
    """Numbers of the best trials: what the framework found, else by value; of several goals, those that
    no other trial is better than in all.
    """
    named = facts.get("best")
    for trial in trials:
        if named is not None and (trial.number == named or (trial.id and trial.id == named)):
            return (trial.number,)
    whole = [
        trial
        for trial in trials
        if trial.state == "complete" and trial.values and all(map(isfinite, trial.values.values()))
    ]
    if not whole or not goals:
        return ()
    signs = [-1.0 if goal == "maximize" else 1.0 for goal in goals]
    points = [
        tuple(sign * value for sign, value in zip(signs, trial.values.values(), strict=False))
        for trial in whole
    ]
    if len(goals) == 1:
        return (whole[min(range(len(whole)), key=lambda at: points[at][0])].number,)
    front: set[tuple[float, ...]] = set()
    for point in sorted(set(points)):  # what is better than a point in all goals comes before it
        if not any(all(a <= b for a, b in zip(other, point, strict=True)) for other in front):
            front.add(point)
    return tuple(trial.number for trial, at in zip(whole, points, strict=True) if at in front)


def _best_known(group: _Found, last: int, until: int | None, stop: int) -> int:
    """When the best trial was known: the end of the first look for it after the last trial, else of the
    study's own call, else of the last result's storing.
    """
    ended = [
        each for each in group.spans if each.end >= last and (until is None or each.start < until)
    ]
    looks = [each.end for each in ended if each.region == "best" and each.start >= last]
    calls = [each.end for each in ended if each.region == "study" and each.start <= last]
    return min(looks) if looks else min(calls) if calls else stop


def _tests(
    evaluated: Sequence[ExcludedIntervals], begin: int, end: int, later: Sequence[FrameworkSpan]
) -> list[tuple[int, int]]:
    """What was evaluated after the best trial was known, outside of training it once more."""
    refits = ExcludedIntervals(*_columns([(s.start, s.end) for s in later if s.region == "refit"]))
    found: list[tuple[int, int]] = []
    for each in evaluated:
        mine = (each.start >= begin) & (each.start < end) & ~refits.hold(each.start)
        found += zip(each.start[mine].tolist(), each.end[mine].tolist(), strict=True)
    return found


def _metric_collection(info: Mapping[str, Any]) -> StudyPhase | None:
    """From the end of the program until its record was collected, as far as run.json says."""
    ended, collected = info.get("ended"), info.get("collected_at")
    if not (isinstance(ended, float) and isinstance(collected, float) and ended <= collected):
        return None
    return StudyPhase(METRICS, ended, collected, collected - ended, 1, None, None, None)


# --- phases, and what they used -------------------------------------------------------------------


def _pieces(
    parts: Sequence[TrialPart], gaps: Sequence[Sequence[tuple[int, int]]]
) -> dict[str, list[tuple[Any, Any]]]:
    """Pieces of the workers' time, by phase."""
    found: dict[str, list[tuple[Any, Any]]] = {
        SETUP: [_columns(pair for each in gaps for pair in each)],
        "store": [_columns((part.end, part.done) for part in parts)],
    }
    for at, name in enumerate(PHASES):
        if name == SETUP:
            continue
        for part in parts:
            mine = part.segments.phase == at
            if mine.any():
                pieces = part.segments.start[mine], part.segments.end[mine]
                found.setdefault(name, []).append(pieces)
    return found


def _phases(
    outer: Mapping[str, list[tuple[int, int]]],
    pieces: Mapping[str, list[tuple[Any, Any]]],
    trials: int,
    usage: Usage | None,
    seconds: Mapping[str, float],
) -> tuple[StudyPhase, ...]:
    columns = {name: [_columns(pairs)] for name, pairs in outer.items() if pairs}
    columns |= pieces
    joined = {
        name: (np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts]))
        for name, parts in columns.items()
    }
    used = usage_of(usage, joined) if usage is not None else {}
    order = ("deploy", SETUP, LOAD, TRAIN, VALIDATE, OTHER, FRAMEWORK, "store",
             "result collection", "refit", "test", "un-deploy")  # fmt: skip
    made = []
    for name in order:
        if name not in joined or not len(joined[name][0]):
            continue
        start, end = joined[name]
        union = ExcludedIntervals(start, end)
        spent = seconds.get(name, float((union.end - union.start).sum()) / SECOND)
        if not spent and name in seconds:
            continue
        each = used.get(name)
        made.append(
            StudyPhase(
                name=name,
                began=float(start.min()) / SECOND,
                ended=float(end.max()) / SECOND,
                seconds=spent,
                calls=trials if name in (*PHASES, "store") else len(start),
                cpu=each.cpu if each else None,
                peak_rss=each.peak_rss if each else None,
                energy=each.energy if each else None,
            )
        )
    return tuple(made)
