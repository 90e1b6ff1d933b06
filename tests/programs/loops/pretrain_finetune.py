"""One loop after another: pre-training of a part, then fine-tuning of the whole."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def pretrain(model, optimizer, loader):
    for x, _ in loader:  #: io/1 pace/1
        loss = (model(x) - x).pow(2).mean()  #: forward/1
        optimizer.zero_grad()
        loss.backward()  #: backward/1
        optimizer.step()  #: optimizer/1


def finetune(body, head, loader):
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
    for epoch in range(3):
        for x, y in loader:  #: io pace
            loss = (head(body(x)) - y).pow(2).mean()  #: forward
            optimizer.zero_grad()
            loss.backward()  #: backward
            optimizer.step()  #: optimizer


body, head = Net(forward=0.004, out=8), Net(backward=0.012)
first = torch.optim.SGD(body.parameters(), lr=0.01)
start = perf_counter()
pretrain(body, first, DataLoader(Rows(64), batch_size=8))
between = perf_counter()
finetune(body, head, DataLoader(Rows(40), batch_size=4))
end = perf_counter()
tell(
    dict(steps=30, items=[4] * 30, fetches=1, updates=1, seconds=end - between,
         naps={"forward": 0.004, "backward": 0.012}, paced="loader"),
    dict(steps=8, items=[8] * 8, fetches=1, updates=1, seconds=between - start,
         naps={"forward": 0.004}, paced="loader", mark="/1"),
    verdict="compute-bound",
)
