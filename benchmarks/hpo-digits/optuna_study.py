"""The same combinations by Optuna, in threads; a trial below the median of the others is pruned."""

import optuna
import task


def main():
    given = task.arguments()

    def objective(trial):
        rate = trial.suggest_categorical("rate", task.SPACE["rate"])
        width = trial.suggest_categorical("width", task.SPACE["width"])
        best = 0.0
        for epoch, accuracy in enumerate(task.train(rate, width, given.epochs)):
            best = max(best, accuracy)
            trial.report(accuracy, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return best

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = (
        optuna.pruners.MedianPruner(n_startup_trials=3)
        if given.prune
        else optuna.pruners.NopPruner()
    )
    sampler = optuna.samplers.GridSampler(task.SPACE, seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_jobs=given.workers)
    task.finish(**study.best_params, epochs=given.epochs)


if __name__ == "__main__":
    main()
