"""LightGBM and XGBoost: rounds as steps, the rest beside them."""

from __future__ import annotations

import importlib.util

import pytest
from boosted import inside, run
from trained import needs

ROUNDS = {"dart": [200] * 5, "custom": [150] * 6, "by_hand": [120] * 3}
"""What makes them, and the rows of each."""
OTHERS = {
    "lightgbm": ("broken", "train", "early", "functions", "cv", "two"),
    "xgboost": ("train", "early", "functions", "cv"),
}
SKLEARN = {"lightgbm": ("api",), "xgboost": ("api", "alone")}
if not importlib.util.find_spec("sklearn"):
    SKLEARN = dict.fromkeys(SKLEARN, ())
_PARAMS = {name: pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in OTHERS}
both = pytest.mark.parametrize("ran", _PARAMS.values(), indirect=True)
of_lightgbm = pytest.mark.parametrize("ran", [_PARAMS["lightgbm"]], indirect=True)
of_xgboost = pytest.mark.parametrize("ran", [_PARAMS["xgboost"]], indirect=True)


@pytest.fixture(scope="module")
def ran(request, tmp_path_factory):
    """One after the other, in one program: the library starts once."""
    name = request.param
    needs(name)
    parts = (*ROUNDS, *OTHERS[name], *SKLEARN[name])
    return name, run(tmp_path_factory.mktemp(name), f"{name}_train.py", *parts)


TRAINED = {
    # After each round the training set, then the other one.
    "lightgbm": ([300, 60] * 7, ("training", "valid_1"), [60, 300], "model = lgb.train("),
    "xgboost": ([360] * 7, ("train", "valid"), [300, 60], "model = xgb.train("),
}


@both
def test_train(ran):
    name, whole = ran
    evaluations, sets, datasets, line = TRAINED[name]
    found = whole.part("train")
    assert found.items("step") == [300] * 7
    assert {span.site["task"] for span in found.of("step")} == {"train"}
    assert found.items("evaluation") == evaluations
    assert {span.site["phase"] for span in found.of("evaluation")} == {"eval"}
    assert [len(found.values(f"eval/{each}-auc")) for each in sets] == [7, 7]
    assert found.items("fit") == [300]
    assert found.items("predict") == [60]
    made = found.items("dataset")
    assert (sorted(made) if name == "lightgbm" else made) == datasets
    assert inside(found.of("step") + found.of("evaluation"), found.of("fit"))
    assert not inside(found.of("predict"), found.of("fit"))
    [place] = {span.site["place"]["text"] for span in found.of("step")}
    assert place.startswith(line)


LOSSES = {"lightgbm": "eval/valid_0-binary_logloss", "xgboost": "eval/valid-logloss"}


@both
def test_early_stopping(ran):
    name, whole = ran
    found = whole.part("early")
    rounds = whole.printed("early")
    assert 3 < rounds < 50
    assert found.items("step") == [300] * rounds
    assert found.items("evaluation") == [60] * rounds
    assert len(found.values(LOSSES[name])) == rounds


@both
@pytest.mark.parametrize("way", ROUNDS)
def test_every_way_to_make_rounds(ran, way):
    name, whole = ran
    found = whole.part(way)
    assert whole.printed(way) == len(ROUNDS[way])
    assert found.items("step") == ROUNDS[way]
    assert found.of("evaluation") == []  # there is nothing to evaluate
    if name == "xgboost":
        # The margins that a custom objective needs belong to the round, unless the program asks itself.
        assert found.items("predict") == (ROUNDS[way] if way == "by_hand" else [])


@both
def test_functions_of_the_program_within_a_round(ran):
    name, whole = ran
    found = whole.part("functions")
    rounds = whole.printed("functions")
    steps, evaluations = found.of("step"), found.of("evaluation")
    assert len(steps) == len(found.of("boost")) == len(found.of("objective")) == rounds
    assert len(evaluations) == len(found.of("metric")) == rounds
    assert inside(found.of("objective"), found.of("boost")) and inside(found.of("boost"), steps)
    assert inside(found.of("metric"), evaluations)
    callbacks = found.of("callback")
    if name == "xgboost":
        assert len(callbacks) == rounds * 2  # before and after
        assert not inside(callbacks[:1], steps)
    else:
        assert rounds * 2 - 1 <= len(callbacks) <= rounds * 2  # the last one may stop the training
        assert not any(outer.holds(one) for one in callbacks for outer in (*steps, *evaluations))


@both
def test_cross_validation_makes_a_round_of_each_fold(ran):
    name, whole = ran
    found = whole.part("cv")
    assert found.items("step") == [200] * 3 * 4
    assert found.items("fit") == [300]
    if name == "xgboost":
        assert found.items("evaluation") == [300] * 3 * 4  # of each fold both parts
        assert len(found.values("eval/test-auc")) == 4  # the mean of the folds
    else:
        assert found.items("evaluation") == [100] * 3 * 4


@both
def test_the_classes_of_scikit_learn_inside_of_a_search(ran):
    name, whole = ran
    if not SKLEARN[name]:
        pytest.skip("scikit-learn is not installed")
    found = whole.part("api")
    # Two candidates on three folds, then the better one on all rows.
    assert found.items("step") == [200] * 4 * 6 + [300] * 4
    assert found.items("evaluation") == [100] * 6
    [fit] = found.of("fit")
    assert (fit.site["what"], fit.items) == ("GridSearchCV", 300)
    assert inside(found.of("step") + found.of("evaluation"), [fit])
    assert found.of("predict") == []  # those of the scoring are evaluation


@of_xgboost
def test_a_model_of_scikit_learns_interface(ran):
    name, whole = ran
    if not SKLEARN[name]:
        pytest.skip("scikit-learn is not installed")
    found = whole.part("alone")
    assert found.items("step") == [300] * 4
    assert found.items("fit") == [300]
    assert found.items("predict") == [50]
    assert found.items("evaluation") == [70] * 4


@of_lightgbm
def test_a_round_that_raises_is_no_step(ran):
    _, whole = ran
    assert whole.printed("broken") == 3
    assert whole.part("broken").items("step") == [150] * 2


@of_lightgbm
def test_two_calls_are_kept_apart(ran):
    found = ran[1].part("two")
    lines = [span.site["place"]["text"] for span in found.of("step")]
    assert [line[:5] for line in lines] == ["first"] * 3 + ["secon"] * 2
    assert found.items("step") == [90] * 3 + [80] * 2
