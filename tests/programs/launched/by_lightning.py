"""Two ranks that Lightning starts: the first argument is the Trainer's strategy, or ``fabric``."""

import json
import os
import sys

import lightning.pytorch as pl
import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

STEPS = 7


def tell(rank, losses):
    with open(f"reported.{rank}.json", "w") as file:
        json.dump({"pid": os.getpid(), "losses": losses}, file)


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.losses = []

    def training_step(self, batch, number):
        loss = self.layer(batch[0]).pow(2).mean()
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

    def on_train_end(self):
        tell(self.global_rank, self.losses)


def loader():
    return DataLoader(TensorDataset(torch.randn(2 * 4 * STEPS, 8)), batch_size=4)


def trainer(strategy):
    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    two = {"accelerator": "cpu", "devices": 2, "strategy": strategy, "max_epochs": 1}
    pl.Trainer(**two, **quiet).fit(Model(), loader())


def fabric():
    """``fabric run`` says how many there are."""
    fabric = Fabric()
    model = torch.nn.Linear(8, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
    losses = []
    for (x,) in fabric.setup_dataloaders(loader()):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    tell(fabric.global_rank, losses)


if __name__ == "__main__":
    fabric() if sys.argv[1] == "fabric" else trainer(sys.argv[1])
