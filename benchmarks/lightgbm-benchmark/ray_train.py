"""Training in workers of Ray Train: each has one of the files in --train, and evaluates on those in --test.

lightgbm-benchmark's own program for Ray does not run any more (README.md). Each other `--NAME VALUE` is a
parameter of LightGBM; --custom_params is JSON with more of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import lightgbm
import ray
import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.lightgbm import LightGBMTrainer, get_network_params


def train(given: dict[str, Any]) -> None:
    """What each worker does."""
    rank = ray.train.get_context().get_world_rank()
    params = {**given["params"], **get_network_params(), "pre_partition": True}
    data = lightgbm.Dataset(given["train"][rank], params=params)
    held = [data.create_valid(file) for file in given["test"]]
    model = lightgbm.train(params, data, valid_sets=held)
    if rank == 0 and given["export_model"]:
        Path(given["export_model"]).mkdir(parents=True, exist_ok=True)
        model.save_model(Path(given["export_model"], "model.txt"))


def files_of(folder: str) -> list[str]:
    """Its files, in order. Ends the program where there is none."""
    found = sorted(str(file.resolve()) for file in Path(folder).glob("*") if file.is_file())
    if not found:
        print(f"{folder}: there is no file in it", file=sys.stderr)
        sys.exit(2)
    return found


def plain(text: str) -> Any:
    """A number where it is one."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--export_model")
    parser.add_argument("--custom_params", type=json.loads, default={})
    args, rest = parser.parse_known_args()
    if len(rest) % 2 or not all(name.startswith("--") for name in rest[::2]):
        parser.error(f"{' '.join(rest)}: parameters of LightGBM are pairs, --NAME VALUE")
    params = {name[2:]: plain(text) for name, text in zip(rest[::2], rest[1::2], strict=True)}
    found = {
        "train": files_of(args.train),
        "test": files_of(args.test),
        # A worker's current folder is one of Ray's.
        "export_model": args.export_model and str(Path(args.export_model).resolve()),
        "params": {"verbose": -1, **params, **args.custom_params},
    }
    workers = len(found["train"])
    ray.init(num_cpus=workers + 1, include_dashboard=False)
    LightGBMTrainer(
        train,
        train_loop_config=found,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(storage_path=str(Path("ray").resolve())),
    ).fit()
    ray.shutdown()


if __name__ == "__main__":
    main()
