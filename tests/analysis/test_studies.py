"""Hyper-parameter studies: trials, their phases, the best one, the framework's own time."""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from spans import SECOND, site, write_process, write_run

from injector.analysis.study import Study
from injector.analysis.summary import Summary, summarise
from injector.report import formats, page, sections, studies, terminal
from injector.store.folder import open_run

MS = SECOND // 1000
ms = pytest.approx

SITES = [
    site(1, "study", selector="/optuna.study._optimize/_optimize", what="optuna", line=1),
    site(2, "trial", selector="/optuna.study._optimize/_run_trial", what="optuna", line=1),
    site(3, "setup", selector="/optuna.study.study/Study/ask", what="optuna"),
    site(4, "store", selector="/optuna.study._tell/_tell_with_warning", what="optuna"),
    site(5, "suggest", selector="/optuna.trial._trial/Trial/_suggest", what="optuna"),
    site(6, "step", task="train", line=10),
    site(7, "evaluation", phase="eval", line=20),
    site(8, "best", selector="/optuna.study.study/Study/best_trial", what="optuna"),
    site(9, "deploy", selector="/optuna.study.study/create_study", what="optuna"),
    site(10, "trial", what="grid", selector="//train"),
]
STUDY, TRIAL, ASK, TELL, SUGGEST, STEP, EVALUATION, BEST, DEPLOY, GRID = range(1, 11)


class Recorder:
    """Writes a process of a study, in milliseconds, on one thread."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.events: list[tuple[str, Any, int]] = []

    def span(self, number: int, start: float, end: float) -> None:
        self.rows.append((round(start * MS), round(end * MS), 0, number))

    def event(self, at: float, framework: str = "optuna", **facts: Any) -> None:
        self.events.append(("study", {"framework": framework, **facts}, round(at * MS)))

    def trial(
        self, start: float, number: int, value: float | None, state: str = "complete"
    ) -> None:
        """100 ms: ask 5, suggest 5, load 10, two steps of 20, evaluation 20, other 5, tell 15."""
        self.span(ASK, start, start + 5)
        self.span(SUGGEST, start + 5, start + 10)
        self.span(STEP, start + 20, start + 40)
        self.span(STEP, start + 40, start + 60)
        self.span(EVALUATION, start + 60, start + 80)
        self.span(TELL, start + 85, start + 100)
        self.span(TRIAL, start, start + 100)
        facts = {"number": number, "state": state, "params": {"lr": 0.1 * (number + 1)}}
        values = {} if value is None else {"": value}
        self.event(start + 100, study="s", thread=0, goals=["minimize"], seconds=0.095,
                   values=values, **facts)  # fmt: skip

    def write(self, folder: Path, pid: int = 1, **more: Any) -> None:
        rows = sorted(self.rows, key=lambda row: row[1])
        write_process(folder, SITES, rows, pid=pid, events=self.events, ended=10 * SECOND, **more)


def summary_of(folder: Path, **info: Any) -> Summary:
    write_run(folder, **info)
    found = summarise(open_run(str(folder)))
    assert not found.problem
    return found


def only(folder: Path, **info: Any) -> Study:
    found = summary_of(folder, **info).profile
    assert found is not None
    [study] = found.studies
    return study


def three(folder: Path) -> Recorder:
    made = Recorder()
    made.span(DEPLOY, 0, 30)
    for number, (value, state) in enumerate(
        [(3.0, "complete"), (1.0, "complete"), (None, "failed")]
    ):
        made.trial(100 + 110 * number, number, value, state)
    made.span(STUDY, 95, 430)
    made.span(BEST, 450, 460)
    made.span(EVALUATION, 500, 540)
    made.write(folder)
    return made


def test_what_a_trial_is_made_of_adds_up_to_it(tmp_path):
    three(tmp_path)
    study = only(tmp_path)
    first = study.trials[0]
    assert (first.load, first.train, first.validate) == (ms(0.01), ms(0.04), ms(0.02))
    assert (first.framework, first.other, first.store) == (ms(0.005), ms(0.005), ms(0.015))
    assert first.seconds == ms(0.08)  # without asking for it, and without storing its result
    parts = [first.load, first.train, first.validate, first.framework, first.other]
    assert sum(filter(None, parts)) == ms(first.seconds)
    assert (first.steps, first.setup) == (2, ms(0.01))  # the study's begin until `ask` has ended
    assert study.trials[1].setup == ms(0.015)  # the pause between the calls, and `ask`


def test_the_time_of_the_workers_adds_up(tmp_path):
    three(tmp_path)
    study = only(tmp_path)
    assert (study.workers, study.idle) == (1, 0)
    assert study.in_trials == ms(3 * 0.075)
    assert study.in_framework == ms(3 * 0.02 + 0.01 + 2 * 0.015)
    assert study.in_trials + study.in_framework + study.idle == ms(0.42 - 0.095)


def test_the_best_trial_and_when_it_was_known(tmp_path):
    three(tmp_path)
    study = only(tmp_path)
    assert (study.best, study.counts()) == ((1,), {"complete": 2, "pruned": 0, "failed": 1})
    phases = {phase.name: phase for phase in study.phases}
    collected = phases["result collection"]
    # From the end of the last trial to the first look for the best one after it.
    assert collected.seconds == ms(0.460 - 0.405)
    assert phases["deploy"].seconds == ms(0.03)
    assert phases["test"].seconds == ms(0.04)
    assert phases["validate"].seconds == ms(0.06)
    assert study.seconds == ms(0.46 - 0.095)


def test_trials_at_once_have_workers_of_their_own(tmp_path):
    one, two = Recorder(), Recorder()
    one.trial(100, 0, 3.0)
    one.trial(210, 2, 2.0)
    one.span(STUDY, 100, 320)
    two.trial(120, 1, 1.0)
    one.write(tmp_path, pid=1)
    two.write(tmp_path, pid=2)
    study = only(tmp_path)
    assert study.workers == 2
    assert [[run.worker for run in trial.runs] for trial in study.trials] == [[0], [1], [0]]
    assert study.idle == ms(0.31 - 0.22)
    assert study.best == (1,)


def test_a_process_that_runs_no_trial_opens_the_study_and_looks_for_the_best_trial(tmp_path):
    """As where workers of ``multiprocessing`` share a storage; one with trials of another study is none."""
    for pid, name in ((2, "s"), (3, "s"), (4, "of another program")):
        made = Recorder()
        made.trial(100 + pid, pid, float(pid))
        made.events[-1][1]["study"] = name
        made.span(DEPLOY, 90, 92)
        made.write(tmp_path, pid=pid)
    parent = Recorder()
    parent.span(DEPLOY, 0, 30)
    parent.span(BEST, 240, 250)
    parent.write(tmp_path, pid=1)
    found = summary_of(tmp_path).profile
    assert found is not None
    study = next(each for each in found.studies if each.name == "s")
    phases = {phase.name: phase for phase in study.phases}
    assert (phases["deploy"].calls, phases["deploy"].seconds) == (3, ms(0.032))
    assert phases["result collection"].seconds == ms(0.250 - 0.188)
    assert (study.best, study.seconds) == ((2,), ms(0.250 - 0.103))


def test_overlapping_trials_of_one_thread_are_workers_too(tmp_path):
    made = Recorder()
    for number in range(3):  # `ask` three, train them elsewhere, `tell` three
        made.span(ASK, number, number + 1)
    for number in range(3):
        made.span(TELL, 100 + number, 101 + number)
        made.event(101 + number, study="s", thread=0, goals=["maximize"], number=number,
                   seconds=0.1, values={"": number}, params={}, state="complete")  # fmt: skip
    made.write(tmp_path)
    study = only(tmp_path)
    assert (study.workers, study.best) == (3, (2,))
    assert [trial.seconds for trial in study.trials] == [ms(0.099)] * 3
    assert study.trials[0].train is None  # nothing is known of what was done meanwhile


def test_a_trial_that_left_no_result_has_failed(tmp_path):
    made = Recorder()
    for at in range(3):
        made.span(GRID, 100 * at, 100 * at + 90)
        if at != 1:
            made.event(100 * at + 90, "grid", study="grid", thread=0, goals=["minimize"],
                       params={"x": at}, values={"": 5 - at})  # fmt: skip
    made.write(tmp_path)
    study = only(tmp_path, exit={"code": 1, "signal": None})
    assert [trial.state for trial in study.trials] == ["complete", "failed", "complete"]
    assert study.trials[1].error == "it left no result"
    assert (study.best, study.aborted) == ((2,), False)


def test_a_trial_that_goes_on_when_its_process_dies_has_failed(tmp_path):
    made = Recorder()
    made.trial(100, 0, 3.0)
    made.span(ASK, 210, 215)
    made.event(215, study="s", thread=0, number=1, state="running", goals=["minimize"])
    made.event(216, study="s", thread=0, number=1, state="running", params={"lr": 0.2})
    made.event(217, study="s", thread=0, number=1, state="running", params={"width": 8})
    made.span(STEP, 230, 250)
    rows = sorted(made.rows, key=lambda row: row[1])
    write_process(tmp_path, SITES, rows, pid=1, events=made.events)
    study = only(tmp_path, exit={"code": 137})
    trial = study.trials[1]
    assert (trial.state, trial.error) == ("failed", "it went on when its process died")
    assert dict(trial.params) == {"lr": 0.2, "width": 8} and study.aborted
    assert (trial.seconds, trial.train, trial.load) == (ms(0.035), ms(0.02), ms(0.015))
    assert study.counts() == {"complete": 1, "pruned": 0, "failed": 1}


def test_a_trial_that_one_process_begins_and_another_one_ends_is_one(tmp_path):
    one, two = Recorder(), Recorder()
    one.span(ASK, 0, 5)
    one.event(5, study="s", thread=0, number=0, state="running", goals=["minimize"])
    two.trial(100, 0, 3.0)
    one.write(tmp_path, pid=1)
    two.write(tmp_path, pid=2)
    [trial] = only(tmp_path).trials
    assert (trial.state, trial.number) == ("complete", 0)


def test_a_trial_that_is_begun_and_never_ended_leaves_the_others_as_they_are(tmp_path):
    made = three(tmp_path)
    before = only(tmp_path)
    made.event(445, study="s", thread=0, number=3, state="running", goals=["minimize"])
    made.write(tmp_path)
    study = only(tmp_path)
    assert (study.trials[3].state, study.trials[3].error) == ("failed", "it left no result")
    phases = [{each.name: each.seconds for each in found.phases} for found in (before, study)]
    assert phases[1] == phases[0] | {"result collection": ms(0.015), "setup": phases[1]["setup"]}
    assert study.best == before.best and study.seconds == before.seconds


def test_a_call_without_a_result_is_of_the_trial_that_began_in_it(tmp_path):
    made = Recorder()
    made.trial(100, 0, 3.0)
    made.event(202, study="s", thread=0, number=1, state="running", params={"lr": 0.2})
    made.span(TRIAL, 200, 250)
    made.write(tmp_path)
    study = only(tmp_path)
    trial = study.trials[1]
    assert (trial.state, trial.error) == ("failed", "it left no result")
    assert (dict(trial.params), trial.seconds) == ({"lr": 0.2}, ms(0.05))


def test_a_study_that_its_last_trial_ended_was_aborted(tmp_path):
    made = Recorder()
    made.trial(0, 0, 1.0)
    made.trial(100, 1, None, "failed")
    made.write(tmp_path)
    assert only(tmp_path, exit={"code": 1, "signal": None}).aborted


def test_folds_of_a_candidate_are_one_trial_and_rounds_are_counted_on(tmp_path):
    sites = [
        site(
            1, "study", selector="/sklearn.model_selection._search/BaseSearchCV/fit", what="Halving"
        ),
        site(2, "candidate"),
        site(3, "train"),
    ]
    rows, events, now = [], [], 10
    # Two candidates with two folds each, then the better one once more.
    for number, of, score in [(0, 2, 0.2), (1, 2, 0.4), (0, 1, 0.9)]:
        for fold in range(2):
            rows += [(now * MS, (now + 8) * MS, 0, 3), (now * MS, (now + 10) * MS, 0, 2)]
            facts = {"number": number, "of": of, "part": fold, "parts": 2, "params": {"C": number}}
            data = {"framework": "sklearn", "thread": 0, "goals": ["maximize"], **facts}
            events.append(("study", {**data, "values": {"": score + fold / 10}}, (now + 10) * MS))
            now += 10
    rows.append((0, (now + 5) * MS, 0, 1))
    events.append(("study", {"framework": "sklearn", "best": 2}, (now + 5) * MS))
    write_process(tmp_path, sites, rows, events=events, ended=SECOND)
    study = only(tmp_path)
    assert [trial.number for trial in study.trials] == [0, 1, 2]
    assert [trial.values[""] for trial in study.trials] == [ms(0.25), ms(0.45), ms(0.95)]
    assert [len(trial.runs) for trial in study.trials] == [2, 2, 2]
    assert study.trials[0].train == ms(0.016) and study.best == (2,)
    assert study.name == "Halving"


def asked(path: Path, pid: int, start: int, **more: Any) -> None:
    """A process with a trial of 100 ms from ``start`` on, which does nothing by itself."""
    made = Recorder()
    made.span(ASK, start - 1, start)
    made.span(TELL, start + 100, start + 101)
    made.event(start + 101, study="s", thread=0, goals=["minimize"], number=pid, seconds=0.101,
               values={"": 1.0})  # fmt: skip
    made.write(path, pid=pid, **more)


def test_a_trial_begins_when_that_was_recorded_though_its_end_is_recorded_late(tmp_path):
    made = Recorder()
    made.span(ASK, 100, 101)
    made.event(101, study="s", thread=0, goals=["minimize"], number=0, state="running")
    made.span(STEP, 105, 110)
    made.span(STEP, 110, 150)
    made.span(TELL, 150, 160)
    # Its 50 ms were read 8 ms before the record was written.
    made.event(159, study="s", thread=0, goals=["minimize"], number=0, seconds=0.05,
               values={"": 1.0})  # fmt: skip
    made.write(tmp_path)
    [trial] = only(tmp_path).trials
    assert (trial.began, trial.steps) == (ms(0.001), 2)
    assert (trial.seconds, trial.load, trial.train) == (ms(0.049), ms(0.004), ms(0.045))


def test_what_a_process_does_that_a_trial_has_started_is_the_trials(tmp_path):
    asked(tmp_path, 10, 100)
    rows = [(130 * MS, 160 * MS, 0, STEP), (160 * MS, 170 * MS, 0, EVALUATION)]
    write_process(tmp_path, SITES, rows, pid=12, ppid=11, ended=SECOND)  # a launcher's child
    write_process(tmp_path, SITES, [(101 * MS, 102 * MS, 0, BEST)], pid=11, ppid=10, ended=SECOND)
    write_process(tmp_path, SITES, rows, pid=13, ppid=2, ended=SECOND)  # of another program
    study = only(tmp_path)
    [trial] = study.trials
    assert (trial.load, trial.train, trial.validate) == (ms(0.03), ms(0.03), ms(0.01))
    assert (trial.steps, study.workers) == (1, 1)


def test_a_trial_of_another_process_is_its_own(tmp_path):
    asked(tmp_path, 10, 100)
    asked(tmp_path, 11, 120, ppid=10)
    rows = [(130 * MS, 160 * MS, 0, STEP)]
    write_process(tmp_path, SITES, rows, pid=12, ppid=11, ended=SECOND)
    one, two = only(tmp_path).trials
    assert (one.train, two.train) == (None, ms(0.03))


@pytest.mark.parametrize("ranks", [False, True])
def test_evaluation_in_several_processes_is_added_up_unless_they_are_ranks(tmp_path, ranks):
    for pid in (1, 2):
        made = Recorder()
        for number in range(pid):
            made.trial(110 * number, number, 1.0)
        facts = {"rank": pid - 1, "world": 2} if ranks else {}
        made.write(tmp_path, pid=pid, **facts)
    found = summary_of(tmp_path).profile
    assert found is not None
    [evaluation] = found.evaluations
    assert evaluation.passes == (1 if ranks else 3)
    assert evaluation.seconds == ms(0.02 * evaluation.passes)
    assert sum(evaluation.regions.values()) == ms(evaluation.seconds)


def test_several_goals_have_a_front(tmp_path):
    made = Recorder()
    for number, values in enumerate([(1, 5), (2, 9), (3, 6), (4, 9)]):
        made.event(100 * number + 90, study="s", thread=0, goals=["minimize", "maximize"],
                   number=number, seconds=0.05, values=dict(zip("01", values, strict=True)))  # fmt: skip
    made.span(STUDY, 0, 400)
    made.write(tmp_path)
    assert only(tmp_path).best == (0, 1)


def test_a_study_after_another_one(tmp_path):
    made = Recorder()
    made.trial(0, 0, 1.0)
    made.span(BEST, 120, 130)
    made.span(EVALUATION, 200, 220)
    made.span(DEPLOY, 280, 290)
    made.trial(300, 0, 2.0)
    made.events[-1][1]["study"] = "t"
    made.write(tmp_path)
    found = summary_of(tmp_path).profile
    assert found is not None
    one, two = found.studies
    assert [(study.name, study.best) for study in found.studies] == [("s", (0,)), ("t", (0,))]
    assert "test" in {phase.name for phase in one.phases}
    assert {"deploy", "test"} & {phase.name for phase in two.phases} == {"deploy"}


def test_folds_without_a_search_are_no_study(tmp_path):
    sites = [site(1, "candidate"), site(2, "train")]
    write_process(tmp_path, sites, [(0, MS, 0, 2), (0, 2 * MS, 0, 1)], ended=SECOND)
    found = summary_of(tmp_path).profile
    assert found is not None and found.studies == ()


def write_devices(folder: Path, devices: int, counted: bool, rest: int = 10) -> None:
    """Samples of 1.2 seconds, one every ``rest`` milliseconds, as a monitor records them: device n draws
    100 n watts, and in each tenth of a second 10 n more than in the one before. ``counted`` devices have a
    counter of energy, the others their power only.
    """
    described = {str(n): {"name": f"device {n}", "vendor": "x"} for n in range(1, devices + 1)}
    clock = {"host": "h", "time": 100.0, "monotonic_ns": 0, "interval": rest / 1000}
    records: list[tuple[str, Any, int]] = [("process", clock, 0), ("device_list", described, 0)]
    for at in range(0, 1201, rest):
        states = {}
        for n in range(1, devices + 1):
            counter = {"energy": 5000.0 + n * joules_until(at)} if counted else {}
            states[str(n)] = {"power": n * watts(at), **counter}
        records.append(("devices", states, at * MS))
    lines = [json.dumps({"event": e, "data": data, "t": t}) + "\n" for e, data, t in records]
    (folder / "raw" / "h.99.monitor").write_text("".join(lines))


def watts(at: int) -> float:
    """What device 1 draws at a millisecond."""
    return 100.0 + 10.0 * (at // 100)


@cache
def joules_until(at: int) -> float:
    """What it has used until then."""
    return sum(watts(each) for each in range(at)) / 1000


@pytest.mark.parametrize("counted", [True, False], ids=["counter", "power"])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("devices", [1, 2, 8])
def test_energy_of_the_phases_adds_up_to_that_of_the_study(tmp_path, devices, workers, counted):
    """From its begin until the best trial was known, each millisecond of each device for itself."""
    phases: list[tuple[str, int, int]] = []
    for worker in range(workers):
        made, now = Recorder(), 100
        for number in range(worker, 6, workers):
            # Each worker is a little slower than the one before it: they seldom do the same.
            edges = [now + part * (12 + worker) for part in (0, 2, 4, 7, 12, 14, 15)]
            names = ("setup", "framework", "load", "train", "validate", "store")
            for name, (start, end) in zip(names, pairwise(edges), strict=True):
                phases.append((name, start, end))
                if name != "load":
                    span = {
                        "setup": ASK,
                        "framework": SUGGEST,
                        "train": STEP,
                        "validate": EVALUATION,
                    }
                    made.span(span.get(name, TELL), start, end)
            now = edges[-1]
            made.span(TRIAL, edges[0], now)
            made.event(now, study="s", thread=0, goals=["minimize"], number=number, values={"": 1.0},
                       seconds=(now - edges[1]) / 1000, state="complete")  # fmt: skip
        made.span(STUDY, 100, now)
        made.write(tmp_path, pid=1 + worker)
    write_devices(tmp_path, devices, counted)
    study = only(tmp_path)
    last = max(end for name, _, end in phases if name == "validate")
    phases.append(("result collection", last, round(100 + study.seconds * 1000)))

    wanted: Counter[str] = Counter()
    for at in range(100, round(100 + study.seconds * 1000)):
        now_in = [name for name, start, end in phases if start <= at < end]
        assert now_in, at
        for name in now_in:
            wanted[name] += watts(at) / 1000 * sum(range(1, devices + 1)) / len(now_in)
    found = {phase.name: phase.energy for phase in study.phases}
    # Of power alone the changes, eleven at most, are known as exactly as half a sample of 10 W each.
    near = {"rel": 1e-6} if counted else {"abs": 0.55 * sum(range(1, devices + 1))}
    assert found == pytest.approx(dict(wanted), **near)
    total = sum(range(1, devices + 1)) * (
        joules_until(round(100 + study.seconds * 1000)) - joules_until(100)
    )
    assert sum(wanted.values()) == pytest.approx(total, rel=1e-9)
    assert sum(filter(None, found.values())) == pytest.approx(total, **near)


def test_energy_of_what_is_shorter_than_a_sample_is_not_known(tmp_path):
    three(tmp_path)
    write_devices(tmp_path, 1, True, rest=50)
    found = {phase.name: phase.energy for phase in only(tmp_path).phases}
    # 100 ms from its begin until the end of `ask`, 45 of storing: the counter is read every 50.
    assert found["store"] is None and found["deploy"] is None
    assert found["train"] == pytest.approx(3 * 0.04 * 100, rel=0.2)


def test_every_report_has_the_study(tmp_path):
    three(tmp_path)
    found = summary_of(tmp_path)
    text = terminal.render(found)
    assert "study of optuna s · 3 trials: 2 complete, 1 failed · 1 worker" in text
    assert "trial 1: 1.000 (minimize) with lr=0.200" in text
    assert "result collection" in text and "worker 0  |" in text
    data = json.loads(formats.summary_as_json(found))["profile"]["studies"]
    assert data[0]["trials"][1]["params"] == {"lr": 0.2} and data[0]["best"] == [1]
    table = formats.summary_as_csv(found)
    assert "trials" in table and "params.lr" in table.splitlines()[0]
    [section] = [each for each in sections.sections(found) if each.key == "study0"]
    assert [len(each.rows) for each in section.tables] == [len(data[0]["phases"]), 3]
    assert found.profile is not None
    [lane] = studies.drawn(found.profile.studies[0])
    assert [trial.best for trial in lane.trials] == [False, True, False]
    assert all(sum(share for _, share in trial.parts) == ms(100) for trial in lane.trials)


def test_many_trials_are_shown_by_what_matters(tmp_path):
    made = Recorder()
    for number in range(40):
        state = "failed" if number == 30 else "complete"
        made.trial(100 * number, number, None if number == 30 else float(abs(number - 35)), state)
    made.write(tmp_path)
    text = terminal.render(summary_of(tmp_path))
    assert "… and 28 more" in text
    rows = [line.split()[:2] for line in text.splitlines() if line.startswith("    ")]
    assert ["35", "complete,"] in rows and ["30", "failed"] in rows


def test_the_page_draws_each_worker(tmp_path):
    from injector.analysis.charts import charts_of

    three(tmp_path)
    found = summary_of(tmp_path)
    made = page.render(found, charts_of(open_run(str(tmp_path))))
    assert made.count('class="lanes study"') == 1
    assert 'class="failed"' in made and 'class="complete best"' in made
