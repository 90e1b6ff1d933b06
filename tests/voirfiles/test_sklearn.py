"""scikit-learn: the outermost estimator counts."""

from __future__ import annotations

import pytest
from boosted import inside, run, studies
from trained import needs

needs("sklearn")
pytestmark = pytest.mark.xdist_group("sklearn")  # one run for most of these

PROGRAM = "sklearn_fit.py"


def whole(found):
    """Region, class and samples of what was recorded, in order of their ends."""
    regions = ("fit", "transform", "predict", "score", "step")
    spans = sorted((span for name in regions for span in found.of(name)), key=lambda s: s.end)
    return [(span.site["region"], span.site["what"], span.items) for span in spans]


OUTERMOST = {
    "fit": [
        ("fit", "LogisticRegression", 200),
        ("predict", "LogisticRegression", 50),
        ("predict", "LogisticRegression", 40),
        ("score", "LogisticRegression", 200),
    ],
    "pipeline": [("fit", "Pipeline", 200), ("predict", "Pipeline", 30)],
    "transform": [("fit", "StandardScaler", 200), ("transform", "StandardScaler", 70)],
    "cluster": [("fit", "KMeans", 90)],
    "boosted": [("step", None, 150), ("fit", "AdaBoostClassifier", 150)],
    "partial": [("fit", "SGDClassifier", 40), ("step", None, 40)] * 10,
    "scaled": [("fit", "StandardScaler", 200), ("fit", "StandardScaler", 30)],
    "incremental": [("fit", "IncrementalPCA", 60)],
    "loaded": [("fit", "DecisionTreeClassifier", 80), ("predict", "DecisionTreeClassifier", 80)],
}


MODELS = ("search", "boosting", "histograms", "forest", "network")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sklearn")


@pytest.fixture(scope="module")
def ran(folder):
    """One after the other, in one program: the library starts once."""
    return run(folder, PROGRAM, *OUTERMOST, *MODELS)


@pytest.mark.parametrize("name", OUTERMOST)
def test_the_outermost(ran, name):
    found = ran.part(name)
    assert whole(found) == OUTERMOST[name]
    assert {span.site["phase"] for span in found.of("predict")} <= {"eval"}
    assert {span.site["phase"] for span in found.of("fit")} <= {None}


def test_a_search(ran):
    found = ran.part("search")
    assert whole(found) == [("fit", "GridSearchCV", 200)]
    assert sorted(found.items("evaluation")) == [66, 66, 67, 67, 67, 67]
    assert sorted(found.items("candidate")) == [133, 133, 133, 133, 134, 134]
    assert inside(found.of("evaluation"), found.of("candidate"))
    assert inside(found.of("candidate"), found.of("fit"))


def test_a_search_is_a_study(ran, folder):
    [study] = studies(folder)
    assert (study.framework, study.name) == ("sklearn", "GridSearchCV")
    assert [trial.params for trial in study.trials] == [{"C": 0.1}, {"C": 1.0}]
    assert [len(trial.runs) for trial in study.trials] == [3, 3]
    scores = [trial.values[""] for trial in study.trials]
    assert study.best == (scores.index(max(scores)),) and min(scores) > 0.5
    assert all(trial.train > 0 and trial.validate > 0 for trial in study.trials)
    assert {"result collection", "refit"} <= {phase.name for phase in study.phases}


def test_in_processes_of_joblib(tmp_path):
    found = run(tmp_path, PROGRAM, "parallel")
    [search] = [span for span in found.of("fit") if span.site["what"] == "GridSearchCV"]
    others = [span for span in found.of("fit") if span is not search]
    assert [span.site["what"] for span in others] == ["LogisticRegression"] * 6
    assert sorted(found.items("evaluation")) == [66, 66, 67, 67, 67, 67]
    assert sorted(found.items("candidate")) == [133, 133, 133, 133, 134, 134]
    assert inside(others + found.of("candidate"), [search])
    [study] = studies(tmp_path)
    assert len(study.trials) == 2 and study.workers <= 2
    assert {run.process for trial in study.trials for run in trial.runs}.isdisjoint({0})
    phases = {phase.name for phase in study.phases}
    assert "deploy" in phases and "refit" not in phases


def test_rounds_of_boosting(ran):
    found = ran.part("boosting")
    assert found.items("step") == found.items("grow") == [150] * 6
    assert len(found.of("gradients")) == len(found.of("leaves")) == 6
    for part in ("grow", "gradients", "leaves"):
        assert inside(found.of(part), found.of("step"))
    assert inside(found.of("step"), found.of("fit"))


def test_rounds_of_histograms(ran):
    found = ran.part("histograms")
    rounds = ran.printed("histograms")
    assert found.items("step") == [180] * rounds * 3  # a tree for each class; a tenth is held back
    assert len(found.of("grow")) == rounds * 3
    assert len(found.of("gradients")) == rounds
    assert found.items("evaluation") == [20] * (rounds + 1)
    assert inside(found.of("grow") + found.of("evaluation"), found.of("fit"))


def test_without_workers_joblib_deploys_nothing(ran):
    """A search and a forest in one process call joblib, too."""
    assert not ran.part("search").of("deploy") and not ran.part("partial").of("deploy")


def test_trees_of_a_forest_in_threads(ran):
    found = ran.part("forest")
    assert found.items("grow") == [100] * 8
    assert inside(found.of("grow"), found.of("fit"))


def test_what_one_call_of_compiled_code_does_is_reported_as_unseen(tmp_path):
    message = " ".join(run(tmp_path, PROGRAM, "machine").err.split())
    assert "fit of SVC" in message
    assert "nothing was recorded inside that fit" in message


def test_a_network(ran):
    found = ran.part("network")
    assert ran.printed("network") == 3  # epochs of four batches
    assert found.items("forward") == [25] * 12
    assert len(found.of("backward")) == len(found.of("optimizer")) == 12
    assert {span.site["what"] for span in found.of("optimizer")} == {"AdamOptimizer"}
    assert inside(found.of("forward") + found.of("optimizer"), found.of("fit"))
