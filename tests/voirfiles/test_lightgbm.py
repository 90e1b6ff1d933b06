"""LightGBM: rounds as steps, the rest beside them."""

from __future__ import annotations

import importlib.util

import pytest
from boosted import inside, run
from trained import needs

needs("lightgbm")
pytestmark = pytest.mark.xdist_group("lightgbm")  # one run for all of these

PROGRAM = "lightgbm_train.py"
ROUNDS = {"dart": [200] * 5, "custom": [150] * 6, "by_hand": [120] * 3}
"""What makes them, and the rows of each."""
OTHERS = ("broken", "train", "early", "functions", "cv", "two")
SEARCH = ("api",) if importlib.util.find_spec("sklearn") else ()


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One after the other, in one program: the library starts once."""
    return run(tmp_path_factory.mktemp("lightgbm"), PROGRAM, *ROUNDS, *OTHERS, *SEARCH)


def test_train(ran):
    found = ran.part("train")
    assert found.items("step") == [300] * 7
    assert {span.site["task"] for span in found.of("step")} == {"train"}
    # After each round the training set, then the other one.
    assert found.items("evaluation") == [300, 60] * 7
    assert {span.site["phase"] for span in found.of("evaluation")} == {"eval"}
    assert len(found.values("eval/training-auc")) == len(found.values("eval/valid_1-auc")) == 7
    assert found.items("fit") == [300]
    assert found.items("predict") == [60]
    assert sorted(found.items("dataset")) == [60, 300]
    assert inside(found.of("step") + found.of("evaluation"), found.of("fit"))
    assert not inside(found.of("predict"), found.of("fit"))
    [place] = {span.site["place"]["text"] for span in found.of("step")}
    assert place.startswith("model = lgb.train(")


def test_early_stopping(ran):
    found = ran.part("early")
    rounds = ran.printed("early")
    assert 3 < rounds < 50
    assert found.items("step") == [300] * rounds
    assert found.items("evaluation") == [60] * rounds
    assert len(found.values("eval/valid_0-binary_logloss")) == rounds


def test_a_round_that_raises_is_no_step(ran):
    found = ran.part("broken")
    assert ran.printed("broken") == 3
    assert found.items("step") == [150] * 2


@pytest.mark.parametrize("name", ROUNDS)
def test_every_way_to_make_rounds(ran, name):
    found = ran.part(name)
    assert ran.printed(name) == len(ROUNDS[name])
    assert found.items("step") == ROUNDS[name]
    assert found.of("evaluation") == []  # there is nothing to evaluate


def test_functions_of_the_program_within_a_round(ran):
    found = ran.part("functions")
    rounds = ran.printed("functions")
    steps, evaluations = found.of("step"), found.of("evaluation")
    assert len(steps) == len(found.of("boost")) == len(found.of("objective")) == rounds
    assert len(evaluations) == len(found.of("metric")) == rounds
    assert inside(found.of("objective"), found.of("boost")) and inside(found.of("boost"), steps)
    assert inside(found.of("metric"), evaluations)
    callbacks = found.of("callback")
    assert rounds * 2 - 1 <= len(callbacks) <= rounds * 2  # the last one may stop the training
    assert not any(outer.holds(one) for one in callbacks for outer in (*steps, *evaluations))


def test_cross_validation_makes_a_round_of_each_fold(ran):
    found = ran.part("cv")
    assert found.items("step") == [200] * 3 * 4
    assert found.items("evaluation") == [100] * 3 * 4
    assert found.items("fit") == [300]


def test_the_classes_of_scikit_learn_inside_of_a_search(ran):
    if not SEARCH:
        pytest.skip("scikit-learn is not installed")
    found = ran.part("api")
    # Two candidates on three folds, then the better one on all rows.
    assert found.items("step") == [200] * 4 * 6 + [300] * 4
    assert found.items("evaluation") == [100] * 6
    [fit] = found.of("fit")
    assert (fit.site["what"], fit.items) == ("GridSearchCV", 300)
    assert inside(found.of("step") + found.of("evaluation"), [fit])
    assert found.of("predict") == []  # those of the scoring are evaluation


def test_two_calls_are_kept_apart(ran):
    found = ran.part("two")
    lines = [span.site["place"]["text"] for span in found.of("step")]
    assert [line[:5] for line in lines] == ["first"] * 3 + ["secon"] * 2
    assert found.items("step") == [90] * 3 + [80] * 2
