"""Two models called one after the other; the second once for each word."""
from time import perf_counter

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

encoder, cell, head = Net(forward=0.004, out=16), nn.GRUCell(1, 16), nn.Linear(16, 1)
parameters = [*encoder.parameters(), *cell.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters)
began = perf_counter()
for x, y in DataLoader(Rows(60, nap=0.003), batch_size=3):  #: io pace
    hidden = encoder(x)
    loss, word = 0.0, torch.zeros(len(x), 1)
    for turn in range(4):
        hidden = cell(word, hidden)
        word = head(hidden)
        loss = loss + (word - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()  #: backward
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()  #: optimizer
seconds = perf_counter() - began
naps = {"io": 0.009, "forward": 0.004}
tell(
    dict(steps=20, items=[3] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    verdict="input-bound",
)
