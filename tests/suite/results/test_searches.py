"""The studies of a suite: all trials, and the best one by `metric` and `goal`."""

from __future__ import annotations

import json

import pytest
from suitefolders import SuiteFolder

from injector.suite.results import suite_page, suite_report
from injector.suite.results.searches import searches

SPACE = {"lr": [0.1, 0.01], "layers": [1, 2]}


def folder(path, losses, metric="loss", goal="minimize", values=None):
    made = SuiteFolder(path)
    for number, loss in enumerate(losses):
        name = f"study-trial{number}"
        settings = {"search": {"space": SPACE, "metric": metric, "goal": goal}}
        made.benchmark(name, family="study", **settings)
        made.plan["benchmarks"][name]["values"] = {
            "lr": SPACE["lr"][number // 2], "layers": SPACE["layers"][number % 2], "trial": number
        }  # fmt: skip
        if loss is None:
            made.process(name, rates=[], code=1)
        else:
            made.process(name, rates=[10.0 + number] * 6, losses=[9.0, loss], values=values)
    return made.read()


def test_the_best_trial_is_the_goals(tmp_path):
    losses = [0.5, 0.2, None, 0.9]
    [least] = searches(folder(tmp_path / "a", losses))
    [most] = searches(folder(tmp_path / "b", losses, goal="maximize"))
    assert (least.best, most.best) == (1, 3)
    assert [trial.value for trial in least.trials] == losses  # the last value of a run
    assert [trial.state for trial in least.trials] == ["complete", "complete", "failed", "complete"]
    assert least.trials[1].values == {"lr": 0.1, "layers": 2}


def test_a_figure_of_the_report_is_a_metric_too(tmp_path):
    [found] = searches(folder(tmp_path, [0.5, 0.2, 0.1, 0.9], "perf", "maximize"))
    assert found.best == 3 and found.trials[3].value == pytest.approx(13.0)


def test_a_value_of_the_programs_own_has_no_unit_of_a_figure_of_that_name(tmp_path):
    """A suite has a score, too, which is in items per second."""
    suite = folder(tmp_path, [0.5, None], "score", "maximize", values={"score": 0.75})
    [found] = searches(suite)
    assert found.recorded and found.trials[0].value == pytest.approx(0.75)
    text = suite_report.render(suite)
    assert "study-trial0: score 0.750 with" in text and "0.750 items/s" not in text
    assert "–" in next(line for line in text.splitlines() if line.endswith("study-trial1"))


def test_a_metric_that_no_run_has_is_reported(tmp_path):
    suite = folder(tmp_path, [0.5, 0.2], "lossy")
    [found] = searches(suite)
    assert found.best is None
    text = "search.metric: no run has recorded a value 'lossy'; did you mean loss?"
    assert text in suite_report.render(suite)


def test_where_every_trial_failed_there_is_no_best(tmp_path):
    [found] = searches(folder(tmp_path, [None, None]))
    assert (found.best, found.problem) == (None, "every trial failed")


def test_every_report_has_the_table(tmp_path):
    suite = folder(tmp_path, [0.5, 0.2, None, 0.9])
    text = suite_report.render(suite)
    assert "study study · 4 trials: 3 complete, 1 failed · grid · minimize loss" in text
    assert "study-trial1: loss 0.200 with lr=0.1 layers=2" in text
    [data] = json.loads(suite_report.render(suite, "json"))["searches"]
    assert (data["best"], [trial["value"] for trial in data["trials"]]) == (
        1,
        [0.5, 0.2, None, 0.9],
    )
    assert "| 1 | complete, best | 0.200 |" in suite_report.render(suite, "md")
    [(key, _, texts, table)] = list(suite_page._searches(suite))
    assert (key, len(table.rows)) == ("search0", 4) and "study-trial1" in texts[0]


def test_a_suite_without_a_search_has_none(tmp_path):
    made = SuiteFolder(tmp_path)
    made.process("one", rates=[1.0] * 6)
    assert searches(made.read()) == []
