"""A language model over whole numbers."""
from time import perf_counter

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import tell


class Writer(nn.Module):
    def __init__(self, words=50, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.rnn(self.embed(tokens))[0])


text = torch.randint(0, 50, (120, 33))
model, criterion = Writer(), nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters())
began = perf_counter()
for epoch in range(2):
    for rows in DataLoader(text, batch_size=6, shuffle=True):  #: io pace
        out = model(rows[:, :-1])  #: forward
        loss = criterion(out.flatten(0, 1), rows[:, 1:].flatten())  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
seconds = perf_counter() - began
tell(
    dict(steps=40, items=[6] * 40, tokens=6 * 32, fetches=1, updates=1, seconds=seconds, naps={}, paced="loader"),
    verdict=None,
)
