"""Trials that compute nothing: ``run_trials.py FILE LIBRARY TRIALS``.

A trial of Optuna has five hyper-parameters, and ten reports that may prune it; a candidate of scikit-learn is
fitted and scored on three folds. FILE gets the seconds of CPU that this process, with all its threads, needed
for one. A tenth of the trials are run before.
"""

import json
import sys
import time

EPOCHS = 10
PARAMETERS = 5


def optuna():
    import optuna

    def objective(trial):
        loss = sum(trial.suggest_float(f"x{n}", -1, 1) ** 2 for n in range(PARAMETERS))
        for epoch in range(EPOCHS):
            trial.report(loss / (epoch + 1), epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return loss

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(sampler=sampler, pruner=optuna.pruners.NopPruner())
    return lambda trials: study.optimize(objective, n_trials=trials)


def sklearn():
    import numpy as np
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.model_selection import GridSearchCV

    class Constant(ClassifierMixin, BaseEstimator):
        def __init__(self, answer=0):
            self.answer = answer

        def fit(self, x, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, x):
            return np.full(len(x), self.answer)

    x, y = np.zeros((60, 3)), np.arange(60) % 2
    return lambda trials: GridSearchCV(Constant(), {"answer": [*range(trials)]}, cv=3).fit(x, y)


def main():
    file, library, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run = {"optuna": optuna, "sklearn": sklearn}[library]()
    run(trials // 10 + 1)
    begin = time.process_time()
    run(trials)
    used = (time.process_time() - begin) / trials
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(used, stream)


if __name__ == "__main__":
    main()
