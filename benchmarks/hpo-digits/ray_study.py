"""The same combinations by Ray Tune, each in a process; asynchronous successive halving prunes."""

import os
import sys

import ray
from ray import tune

FOLDER = os.path.dirname(os.path.abspath(__file__))


def objective(config):
    sys.path.insert(0, FOLDER)  # Ray's workers do not begin where the program does
    import task

    best = 0.0
    for accuracy in task.train(config["rate"], config["width"], config["epochs"]):
        best = max(best, accuracy)
        tune.report({"accuracy": accuracy, "best": best})


def main():
    import task

    given = task.arguments()
    ray.init(num_cpus=given.workers, include_dashboard=False, log_to_driver=False)
    schedulers = tune.schedulers
    halving = schedulers.ASHAScheduler(grace_period=max(1, given.epochs // 9), max_t=given.epochs)
    tuner = tune.Tuner(
        objective,
        param_space={name: tune.grid_search(values) for name, values in task.SPACE.items()}
        | {"epochs": given.epochs},
        tune_config=tune.TuneConfig(
            metric="best",
            mode="max",
            scheduler=halving if given.prune else schedulers.FIFOScheduler(),
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=os.path.abspath("tuned")),
    )
    best = tuner.fit().get_best_result().config
    task.finish(best["rate"], best["width"], given.epochs)
    ray.shutdown()


if __name__ == "__main__":
    main()
