"""Two ranks of DeepSpeed's engine, which ``deepspeed`` has started."""

import argparse
import json
import os

import deepspeed
import torch
from torch.utils.data import TensorDataset

STEPS = 7

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--stage", type=int, default=0)
options = parser.parse_args()

deepspeed.init_distributed(dist_backend="gloo")
model = torch.nn.Linear(8, 1)
engine, _, loader, _ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
    training_data=TensorDataset(torch.randn(2 * 4 * STEPS, 8)),
    config={
        "train_micro_batch_size_per_gpu": 4,
        "zero_optimization": {"stage": options.stage},
        "zero_allow_untested_optimizer": True,
    },
)
losses = []
for (x,) in loader:
    loss = engine(x).pow(2).mean()
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
with open(f"reported.{torch.distributed.get_rank()}.json", "w") as file:
    json.dump({"pid": os.getpid(), "losses": losses}, file)
