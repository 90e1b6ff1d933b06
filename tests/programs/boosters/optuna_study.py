"""A study whose objective prunes and fails, one told from outside, one in two threads."""

import sys

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    x = trial.suggest_float("x", -1, 1)
    if trial.number == 1:
        trial.report(5.0, 0)
        raise optuna.TrialPruned
    if trial.number == 2:
        raise ValueError("no value")
    return x * x


def study():
    made = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    made.optimize(objective, n_trials=6, catch=(ValueError,))
    return [(trial.number, trial.state.name) for trial in made.trials]


def told():
    made = optuna.create_study()
    for _ in range(4):
        trial = made.ask()
        made.tell(trial, trial.number / 2)
    return len(made.trials)


def threads():
    made = optuna.create_study()
    made.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=8, n_jobs=2)
    return len(made.trials)


def two():
    made = optuna.create_study(directions=["minimize", "maximize"])
    made.optimize(lambda trial: (trial.number, -trial.number), n_trials=3)
    return len(made.trials)


print(globals()[sys.argv[1]]())
