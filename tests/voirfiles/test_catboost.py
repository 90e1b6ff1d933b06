"""CatBoost: fits, predictions, data sets; what it says itself of its rounds."""

from __future__ import annotations

import pytest
from boosted import inside, run
from trained import needs

needs("catboost")
pytestmark = pytest.mark.xdist_group("catboost")  # one run for all of these

PARTS = ("pools", "arrays", "early", "function", "probabilities", "broken", "folds", "grid")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return run(tmp_path_factory.mktemp("catboost"), "catboost_train.py", *PARTS)


def test_pools(ran):
    found = ran.part("pools")
    assert found.items("fit") == found.items("boost") == [240]
    assert found.items("dataset") == [240, 60, 60]  # the last one is the array that it predicts
    assert found.items("predict") == [60]
    [fit] = found.of("fit")
    assert fit.site["what"] == "CatBoostClassifier"
    assert fit.site["place"]["text"].startswith("model.fit(Pool(X[:240]")
    assert inside(found.of("boost"), [fit]) and not inside(found.of("predict"), [fit])
    assert found.values("eval/trees") == [7]
    assert len(found.values("eval/learn-Logloss")) == 1
    assert len(found.values("eval/validation-Logloss")) == 1


def test_arrays_become_data_sets_within_the_fit(ran):
    found = ran.part("arrays")
    assert found.items("fit") == found.items("boost") == [300]
    assert inside([s for s in found.of("dataset") if s.items == 300], found.of("fit"))
    assert found.items("predict") == [50]
    assert found.values("eval/trees") == [5]


def test_early_stopping(ran):
    found = ran.part("early")
    assert found.items("fit") == [150]
    assert found.values("eval/trees") == [ran.printed("early")] != [500]


def test_the_function_train(ran):
    found = ran.part("function")
    assert found.items("fit") == [300] and found.items("predict") == [10]


def test_a_single_row_is_one(ran):
    assert ran.part("probabilities").items("predict") == [20, 1]


def test_cross_validation_and_search_are_one_fit(ran):
    assert ran.part("folds").items("fit") == [300]
    found = ran.part("grid")
    assert found.items("fit") == [300] and found.of("boost")
    assert inside(found.of("boost"), found.of("fit"))


def test_a_fit_that_raises(ran):
    found = ran.part("broken")
    assert ran.printed("broken") == 1 and found.values("eval/trees") == []


def test_no_round_is_a_step(ran):
    assert ran.of("step") == []
    assert ran.record["params"]["depth"] == 3
