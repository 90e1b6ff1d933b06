"""A loop of its own on Lightning's Fabric, which wraps model, optimizer and loader."""

import argparse
import importlib
import json

import torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--package", default="lightning.fabric")
parser.add_argument("--devices", type=int, default=1)
options = parser.parse_args()

Fabric = importlib.import_module(options.package).Fabric


def main():
    fabric = Fabric(accelerator="cpu", devices=options.devices)
    fabric.launch()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
    data = TensorDataset(torch.randn(40, 8), torch.randn(40, 1))
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=4))
    losses = []
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            fabric.backward(loss)
            optimizer.step()
            losses.append(loss.item())
            fabric.log("fit_loss", losses[-1])
    with open(f"reported.{fabric.local_rank}.json", "w") as file:
        json.dump({"rank": fabric.global_rank, "global_step": len(losses), "losses": losses}, file)


if __name__ == "__main__":
    main()
