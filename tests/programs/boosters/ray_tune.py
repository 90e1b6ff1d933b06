"""Three trials of a function and two of a class, in Ray's worker processes."""

import os
import signal
import sys
import time

import ray
from ray import tune

if hasattr(tune, "RunConfig"):
    report, RunConfig = tune.report, tune.RunConfig
else:
    from ray.train import RunConfig, report


def objective(config):
    if config["x"] < 0:
        raise ValueError("x is negative")
    for turn in range(3):
        report({"loss": config["x"] + turn})


def killing(config):
    report({"loss": config["x"]})
    if config["x"] == 3:
        os.kill(int(os.environ["STUDY"]), signal.SIGKILL)
        time.sleep(60)


class Counter(tune.Trainable):
    def setup(self, config):
        self.x = config["x"]

    def step(self):
        self.x += 1
        return {"loss": self.x, "done": self.x >= 14}

    def save_checkpoint(self, folder):
        return {"x": self.x}

    def load_checkpoint(self, found):
        self.x = found["x"]


class Broken(Counter):
    def setup(self, config):
        if config["x"] == 1:
            raise RuntimeError("no such device")
        super().setup(config)

    def step(self):
        if self.x == 2:
            raise ValueError("x is 2")
        if self.x == 3:
            os._exit(7)
        return super().step()


if __name__ == "__main__":
    trainable, space = {
        "function": (objective, [1.0, 2.0, 3.0]),
        "class": (Counter, [10, 11]),
        "killed": (killing, [2.0, 1.0, 3.0]),
        "broken": (Broken, [1, 2, 3, 13]),
        "best": (objective, [1.0, -1.0, 3.0]),
    }[sys.argv[1]]
    goal = {"metric": "loss", "mode": "min"} if sys.argv[1] == "killed" else {}
    os.environ["STUDY"] = str(os.getpid())
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    tuner = tune.Tuner(
        trainable,
        param_space={"x": tune.grid_search(space)},
        tune_config=tune.TuneConfig(**goal),
        run_config=RunConfig(verbose=0, storage_path=os.path.abspath("tuned")),
    )
    found = tuner.fit()
    if sys.argv[1] == "best":
        print(found.get_best_result("loss", "min").config)
    elif sys.argv[1] == "broken":
        print(len(found.errors))
    else:
        print(sorted(result.metrics["loss"] for result in found))
