"""Batches that are dicts, handed to the model by name, which returns an object with a loss."""
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import tell


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, input_ids=None, attention_mask=None, labels=None):
        hidden = (self.embed(input_ids) * attention_mask[..., None]).mean(1)
        logits = self.head(hidden)
        return Output(nn.functional.cross_entropy(logits, labels), logits)


def collate(rows):
    return {
        "input_ids": torch.stack([row["ids"] for row in rows]),
        "attention_mask": torch.ones(len(rows), 24),
        "labels": torch.tensor([row["label"] for row in rows]),
    }


def main():
    data = [{"ids": torch.randint(0, 100, (24,)), "label": i % 3} for i in range(160)]
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters())
    model.train()
    began = perf_counter()
    for batch in DataLoader(data, batch_size=8, collate_fn=collate):  #: io pace
        batch = {name: tensor.to("cpu") for name, tensor in batch.items()}
        outputs = model(**batch)  #: forward
        outputs.loss.backward()  #: backward
        optimizer.step()  #: optimizer
        optimizer.zero_grad()
    seconds = perf_counter() - began
    tell(
        dict(steps=20, items=[8] * 20, tokens=8 * 24, fetches=1, updates=1, seconds=seconds, naps={}, paced="loader"),
        verdict=None,
    )


main()
