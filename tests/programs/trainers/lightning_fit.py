"""Lightning's Trainer on a tiny model; the last line of the output says what the trainer counted."""

import argparse
import importlib
import json
import os
import warnings

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--package", default="lightning.pytorch")
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--check-every", type=float, default=1.0)
parser.add_argument("--no-length", action="store_true")
parser.add_argument("--manual", action="store_true")
parser.add_argument("--own", action="store_true")
options = parser.parse_args()

warnings.filterwarnings("ignore")
pl = importlib.import_module(options.package)
loggers = importlib.import_module(f"{options.package}.loggers")


class Stream(IterableDataset):
    """Has no length: Lightning looks one batch ahead to know the last one."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)


class Batches:
    """A loader that is none of PyTorch's."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        for start in range(0, len(self.data), 4):
            yield self.data[start : start + 4]


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.passes = 0
        self.losses = []
        self.automatic_optimization = not options.manual

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = (self.layer(x) - y).pow(2).mean()
        self.log("fit_loss", loss)
        self.losses.append(loss.item())
        if options.manual:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(loss, retain_graph=True)
                optimizer.step()
            return None
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", (self.layer(x) - y).pow(2).mean())

    def predict_step(self, batch, batch_idx):
        return self.layer(batch[0])

    def on_validation_start(self):
        self.passes += 1

    def on_predict_start(self):
        self.passes += 1

    def configure_optimizers(self):
        if options.manual:
            return [torch.optim.SGD([p], lr=0.01) for p in self.layer.parameters()]
        return torch.optim.SGD(self.parameters(), lr=0.01)


def loader(rows, length=True):
    data = TensorDataset(torch.randn(rows, 8), torch.randn(rows, 1))
    if options.own:
        return Batches(data)
    return DataLoader(data if length else Stream(data), batch_size=4)


def main():
    torch.manual_seed(0)
    model = Model()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=options.devices,
        strategy="ddp" if options.devices > 1 else "auto",
        max_epochs=2,
        accumulate_grad_batches=options.accumulate,
        val_check_interval=options.check_every if options.check_every < 1 else None,
        num_sanity_val_steps=1,
        log_every_n_steps=2,
        logger=loggers.CSVLogger("logs"),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader(40, length=not options.no_length), loader(12))
    logged = {name: float(value) for name, value in trainer.logged_metrics.items()}
    trainer.predict(model, loader(8))
    trainer.validate(model, DataLoader([]), verbose=False)  # nothing to do
    reported = {
        "rank": trainer.global_rank,
        "global_step": trainer.global_step,
        "epochs": trainer.current_epoch,
        "passes": model.passes,
        "losses": model.losses,
        "logged": logged,
    }
    with open(f"reported.{os.environ.get('LOCAL_RANK', '0')}.json", "w") as file:
        json.dump(reported, file)


if __name__ == "__main__":
    main()
