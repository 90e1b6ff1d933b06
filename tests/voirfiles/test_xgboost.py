"""XGBoost: rounds as steps, the rest beside them."""

from __future__ import annotations

from boosted import inside, run
from trained import needs

needs("xgboost")

PROGRAM = "xgboost_train.py"


def test_train(tmp_path):
    found = run(tmp_path, PROGRAM, "train")
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


def test_early_stopping(tmp_path):
    found = run(tmp_path, PROGRAM, "early")
    rounds = int(found.out.split()[-1])
    assert 3 < rounds < 50
    assert found.items("step") == [300] * rounds
    assert found.items("evaluation") == [60] * rounds
    assert len(found.values("eval/valid-logloss")) == rounds


ROUNDS = {"dart": [200] * 5, "custom": [150] * 6, "by_hand": [120] * 3}
"""Who makes them, and the rows of each; one after the other in one program."""


def test_whoever_makes_the_rounds(tmp_path):
    found = run(tmp_path, PROGRAM, *ROUNDS)
    assert [int(line.split()[-1]) for line in found.out.splitlines()] == [5, 6, 3]
    assert found.items("step") == [rows for made in ROUNDS.values() for rows in made]
    assert found.of("evaluation") == []  # there is nothing to evaluate
    # The margins that a custom objective needs belong to the round, unless the program asks itself.
    assert found.items("predict") == ROUNDS["by_hand"]


def test_functions_of_the_program_within_a_round(tmp_path):
    found = run(tmp_path, PROGRAM, "functions")
    rounds = int(found.out.split()[-1])
    steps, evaluations = found.of("step"), found.of("evaluation")
    assert len(steps) == len(found.of("boost")) == len(found.of("objective")) == rounds
    assert len(evaluations) == len(found.of("metric")) == rounds
    assert inside(found.of("objective"), found.of("boost")) and inside(found.of("boost"), steps)
    assert inside(found.of("metric"), evaluations)
    callbacks = found.of("callback")
    assert len(callbacks) == rounds * 2  # before and after
    assert not inside(callbacks[:1], steps)


def test_cross_validation_makes_a_round_of_each_fold(tmp_path):
    found = run(tmp_path, PROGRAM, "cv")
    assert found.items("step") == [200] * 3 * 4
    assert found.items("evaluation") == [300] * 3 * 4  # of each fold both parts
    assert len(found.values("eval/test-auc")) == 4  # the mean of the folds
    assert found.items("fit") == [300]


def test_the_classes_of_scikit_learn_inside_of_a_search(tmp_path):
    needs("sklearn")
    found = run(tmp_path, PROGRAM, "api")
    # Two candidates on three folds, then the better one on all rows.
    assert found.items("step") == [200] * 4 * 6 + [300] * 4
    assert found.items("evaluation") == [100] * 6
    [fit] = found.of("fit")
    assert (fit.site["what"], fit.items) == ("GridSearchCV", 300)
    assert inside(found.of("step") + found.of("evaluation"), [fit])
    assert found.of("predict") == []  # those of the scoring are evaluation


def test_a_model_of_scikit_learns_interface(tmp_path):
    needs("sklearn")
    found = run(tmp_path, PROGRAM, "alone")
    assert found.items("step") == [300] * 4
    assert found.items("fit") == [300]
    assert found.items("predict") == [50]
    assert found.items("evaluation") == [70] * 4
