"""XGBoost: rounds as steps, the rest beside them."""

from __future__ import annotations

import importlib.util

import pytest
from boosted import inside, run
from trained import needs

needs("xgboost")
pytestmark = pytest.mark.xdist_group("xgboost")  # one run for all of these

PROGRAM = "xgboost_train.py"
ROUNDS = {"dart": [200] * 5, "custom": [150] * 6, "by_hand": [120] * 3}
"""What makes them, and the rows of each."""
OTHERS = ("train", "early", "functions", "cv")
SKLEARN = ("api", "alone") if importlib.util.find_spec("sklearn") else ()


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One after the other, in one program: the library starts once."""
    return run(tmp_path_factory.mktemp("xgboost"), PROGRAM, *ROUNDS, *OTHERS, *SKLEARN)


def test_train(ran):
    found = ran.part("train")
    assert found.items("step") == [300] * 7
    assert {span.site["task"] for span in found.of("step")} == {"train"}
    assert found.items("evaluation") == [360] * 7
    assert {span.site["phase"] for span in found.of("evaluation")} == {"eval"}
    assert len(found.values("eval/train-auc")) == len(found.values("eval/valid-auc")) == 7
    assert found.items("fit") == [300]
    assert found.items("predict") == [60]
    assert found.items("dataset") == [300, 60]
    assert inside(found.of("step") + found.of("evaluation"), found.of("fit"))
    assert not inside(found.of("predict"), found.of("fit"))
    [place] = {span.site["place"]["text"] for span in found.of("step")}
    assert place.startswith("model = xgb.train(")


def test_early_stopping(ran):
    found = ran.part("early")
    rounds = ran.printed("early")
    assert 3 < rounds < 50
    assert found.items("step") == [300] * rounds
    assert found.items("evaluation") == [60] * rounds
    assert len(found.values("eval/valid-logloss")) == rounds


@pytest.mark.parametrize("name", ROUNDS)
def test_every_way_to_make_rounds(ran, name):
    found = ran.part(name)
    assert ran.printed(name) == len(ROUNDS[name])
    assert found.items("step") == ROUNDS[name]
    assert found.of("evaluation") == []  # there is nothing to evaluate
    # The margins that a custom objective needs belong to the round, unless the program asks itself.
    assert found.items("predict") == (ROUNDS[name] if name == "by_hand" else [])


def test_functions_of_the_program_within_a_round(ran):
    found = ran.part("functions")
    rounds = ran.printed("functions")
    steps, evaluations = found.of("step"), found.of("evaluation")
    assert len(steps) == len(found.of("boost")) == len(found.of("objective")) == rounds
    assert len(evaluations) == len(found.of("metric")) == rounds
    assert inside(found.of("objective"), found.of("boost")) and inside(found.of("boost"), steps)
    assert inside(found.of("metric"), evaluations)
    callbacks = found.of("callback")
    assert len(callbacks) == rounds * 2  # before and after
    assert not inside(callbacks[:1], steps)


def test_cross_validation_makes_a_round_of_each_fold(ran):
    found = ran.part("cv")
    assert found.items("step") == [200] * 3 * 4
    assert found.items("evaluation") == [300] * 3 * 4  # of each fold both parts
    assert len(found.values("eval/test-auc")) == 4  # the mean of the folds
    assert found.items("fit") == [300]


def test_the_classes_of_scikit_learn_inside_of_a_search(ran):
    if not SKLEARN:
        pytest.skip("scikit-learn is not installed")
    found = ran.part("api")
    # Two candidates on three folds, then the better one on all rows.
    assert found.items("step") == [200] * 4 * 6 + [300] * 4
    assert found.items("evaluation") == [100] * 6
    [fit] = found.of("fit")
    assert (fit.site["what"], fit.items) == ("GridSearchCV", 300)
    assert inside(found.of("step") + found.of("evaluation"), [fit])
    assert found.of("predict") == []  # those of the scoring are evaluation


def test_a_model_of_scikit_learns_interface(ran):
    if not SKLEARN:
        pytest.skip("scikit-learn is not installed")
    found = ran.part("alone")
    assert found.items("step") == [300] * 4
    assert found.items("fit") == [300]
    assert found.items("predict") == [50]
    assert found.items("evaluation") == [70] * 4
