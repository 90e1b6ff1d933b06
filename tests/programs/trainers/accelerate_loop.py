"""A loop of its own on Accelerate, which wraps model, optimizer and loader."""

import argparse
import json

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--dispatch", action="store_true", help="the first process reads for all")
options = parser.parse_args()


def loader(rows):
    return DataLoader(TensorDataset(torch.randn(rows, 8), torch.randn(rows, 1)), batch_size=4)


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=options.accumulate,
        dataloader_config=DataLoaderConfiguration(dispatch_batches=options.dispatch or None),
    )
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, train, val = accelerator.prepare(model, optimizer, loader(40), loader(8))
    updates, losses, passes = 0, [], 0
    for _ in range(2):
        model.train()
        for x, y in train:
            with accelerator.accumulate(model):
                loss = (model(x) - y).pow(2).mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            updates += accelerator.sync_gradients
            losses.append(loss.item())
            accelerator.log({"fit_loss": losses[-1]}, step=updates)
        model.eval()
        passes += 1
        with torch.no_grad():
            for x, y in val:
                accelerator.gather_for_metrics((model(x), y))
    reported = {
        "rank": accelerator.process_index,
        "global_step": updates,
        "losses": losses,
        "passes": passes,
    }
    with open(f"reported.{reported['rank']}.json", "w") as file:
        json.dump(reported, file)


if __name__ == "__main__":
    main()
