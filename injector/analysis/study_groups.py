"""Which trials, and which calls of a framework, belong to which study.

A run may have several studies, one after another, side by side, or one inside each trial of another one. What
processes record of them (:mod:`.trials`) is grouped by what is known:

- Optuna and a voirfile's own studies have names, and each trial records the name of its study.
- scikit-learn and Ray Tune have none. Their studies are separated by time: a trial belongs to the innermost
  call of its framework (``GridSearchCV.fit``, ``tune.run``) during which it began.

A call of a framework outside of trials (storing a result, looking for the best one) belongs to a study of
that framework, by time or by process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from ..value_class import field, state_class
from .trial_phases import SETUP
from .trials import RUNNING, FrameworkSpan, ProcessStudies, TrialPart, identity

_Named = Mapping[tuple[str, str], "RecordedStudy"]
"""Studies by their framework and name."""


@state_class
class RecordedStudy:
    """What was recorded of one study. Moments are unix nanoseconds."""

    framework: str
    name: str
    window: tuple[int, int] | None
    """Start and end of the study's own call; only of a study without a name, which is known by this call."""
    parts: list[TrialPart] = field(default_factory=list)
    """In the order of their starts."""
    spans: list[FrameworkSpan] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """What the framework recorded of the study as a whole: goals, sampler, the best trial, …"""

    @property
    def start(self) -> int:
        """When it began: with its own call, else with the setup of its first trial, else with that trial."""
        first = self.parts[0].start
        calls = [s.start for s in self.spans if s.region == "study" and s.start <= first <= s.end]
        setups = [s.start for s in self.spans if s.region == SETUP and s.start <= first]
        return min(calls) if calls else max(setups, default=first)

    @property
    def last(self) -> int:
        """When the last of its trials ended."""
        return max(part.end for part in self.parts)


def recorded_studies(processes: Sequence[ProcessStudies]) -> list[RecordedStudy]:
    """The studies that ``processes`` recorded, in no particular order; each has at least one trial."""
    spans = [span for process in processes for span in process.spans]
    parts = sorted(
        (part for process in processes for part in process.parts), key=lambda part: part.start
    )
    parts = _without_ended_elsewhere(parts)
    named: dict[tuple[str, str], RecordedStudy] = {}
    for part in parts:
        if _names_its_study(part):
            key = part.facts["framework"], str(part.facts["study"])
            named.setdefault(key, RecordedStudy(*key, None)).parts.append(part)
    unnamed = _studies_of_calls(spans, {framework for framework, _ in named})
    for part in parts:
        if not _names_its_study(part):
            _add_by_time(part, named, unnamed)
    studies = [study for study in (*named.values(), *unnamed) if study.parts]
    for moment, facts in (fact for process in processes for fact in process.facts):
        if (owner := _study_of_facts(moment, facts, named, unnamed)) is not None:
            owner.facts.update(facts)
    with_trials = {part.process for part in parts}
    for study in studies:
        others = with_trials - {part.process for part in study.parts}
        study.spans = [span for span in spans if _belongs(span, study, others)]
        study.parts.sort(key=lambda part: part.start)
    return studies


def _names_its_study(part: TrialPart) -> bool:
    return part.recorded and bool(part.facts.get("study"))


def _studies_of_calls(
    spans: Sequence[FrameworkSpan], frameworks_with_names: Set[str]
) -> list[RecordedStudy]:
    """A study for each call of a framework that runs one, in order, where studies have no names."""
    calls = sorted((span for span in spans if span.region == "study"), key=lambda span: span.start)
    return [
        RecordedStudy(call.framework, call.label, (call.start, call.end), spans=[call])
        for call in calls
        if call.framework not in frameworks_with_names
    ]


def _without_ended_elsewhere(parts: list[TrialPart]) -> list[TrialPart]:
    """Leave out trials that still ran in one process when another process recorded their end.

    With Optuna's storages, one process may ``ask`` for a trial and another one ``tell`` its result.
    """
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


def _add_by_time(part: TrialPart, named: _Named, unnamed: list[RecordedStudy]) -> None:
    """Add ``part``, which does not name its study, to the one that it most likely belongs to."""
    framework = part.facts["framework"]
    around = [
        study
        for study in unnamed
        if study.window
        and study.window[0] <= part.start <= study.window[1]
        and study.framework == framework
    ]
    if around:
        # The innermost: a search may run in each trial of another search.
        max(around, key=lambda study: study.window or (0, 0)).parts.append(part)
        return
    # A call that left no record cannot name its study: most likely it is of the one that began last.
    same_framework = [study for key, study in named.items() if framework in key and study.parts]
    if same_framework and not part.recorded:
        same_framework[-1].parts.append(part)
    elif part.recorded or framework != "sklearn":  # a fold of `cross_validate` is no trial
        # Trials without any call around them, such as the turns of a user's own loop, are one study.
        study = next((s for s in unnamed if s.framework == framework and not s.window), None)
        if study is None:
            study = RecordedStudy(framework, "", None)
            unnamed.append(study)
        study.parts.append(part)


def _study_of_facts(
    moment: int, facts: Mapping[str, Any], named: _Named, unnamed: Sequence[RecordedStudy]
) -> RecordedStudy | None:
    """The study that ``facts``, recorded at ``moment``, are about; without a name, the latest one by then."""
    if facts.get("study"):
        return named.get((facts["framework"], str(facts["study"])))
    begun = [
        study
        for study in unnamed
        if study.framework == facts["framework"] and (not study.window or study.window[0] <= moment)
    ]
    return begun[-1] if begun else None


def _belongs(span: FrameworkSpan, study: RecordedStudy, others: Set[int]) -> bool:
    """Whether a call of a framework belongs to ``study``.

    ``others`` are processes that ran trials of other studies only. A process without any trial is not among
    them: it may open the study, and look for its best trial.
    """
    of_trials = span.region in ("study", SETUP, "store", "refit")
    if study.window and (of_trials or span.framework == "joblib"):
        inside = study.window[0] <= span.start <= study.window[1]
        # Searches of scikit-learn have joblib run their trials, so that its calls are theirs.
        same = span.framework in (study.framework, "") or study.framework == "sklearn"
        return inside and same
    if span.framework == "joblib":  # outside of a search, its workers serve anything
        return False
    if span.framework != study.framework:
        return False
    if study.window:  # its trials may all have run in other processes than its own call
        others = others - {each.process for each in study.spans}
    return span.process not in others
