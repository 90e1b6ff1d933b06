"""Two ranks that Ray Train starts, on a cluster of its own."""

import json
import os

import ray
import ray.train
import ray.train.torch
import torch
from torch.utils.data import DataLoader, TensorDataset

STEPS = 7


def train(config):
    loader = DataLoader(TensorDataset(torch.randn(2 * 4 * STEPS, 8)), batch_size=4)
    loader = ray.train.torch.prepare_data_loader(loader)
    model = ray.train.torch.prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    rank = ray.train.get_context().get_world_rank()
    with open(os.path.join(config["folder"], f"reported.{rank}.json"), "w") as file:
        json.dump({"pid": os.getpid(), "losses": losses}, file)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False)
    ray.train.torch.TorchTrainer(
        train,
        train_loop_config={"folder": os.getcwd()},
        scaling_config=ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=ray.train.RunConfig(storage_path=os.path.abspath("ray")),
    ).fit()
    ray.shutdown()
