"""Loops of which the first dimension is no batch: who knows their items differs."""
from time import perf_counter

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import tell


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(50, 16), nn.LSTM(16, 16)
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        return self.head(self.rnn(self.embed(tokens))[0])


def by_hand(model, batches):
    for x in batches:
        yield model(x)


def graphs(rows):
    return torch.cat([row.expand(9 + i, 8) for i, row in enumerate(rows)])


def train(steps, outputs, model, items, paced="loader"):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    for out in outputs:
        optimizer.zero_grad()
        out.pow(2).mean().backward()
        optimizer.step()
    return dict(steps=steps, items=items, fetches=None, updates=1, seconds=perf_counter() - began,
                naps={}, paced=paced)  # fmt: skip


def main():
    text = Writer()
    tokens = torch.randint(0, 50, (40 * 35, 20))
    loops = [train(40, by_hand(text, tokens.split(35)), text, [20] * 40, "optimizer")]

    nodes = nn.Linear(8, 3)
    rows = torch.randn(150, 8)
    for steps, workers in ((30, 0), (25, 1)):
        loader = DataLoader(rows[: 5 * steps], 5, collate_fn=graphs, num_workers=workers)
        loops.append(train(steps, (nodes(x) for x in loader), nodes, [5] * steps))

    policy = nn.Linear(4, 2)
    loops.append(train(20, (policy(torch.randn(4)) for _ in range(20)), policy, "unknown", "optimizer"))

    one = nn.Linear(8, 3)  # an item that is a batch, or many parts of an item: nobody knows
    loader = DataLoader(torch.randn(15, 64, 8), 1)
    loops.append(train(15, (one(x[0]) for x in loader), one, "unknown"))
    tell(*loops, verdict=None)


main()
