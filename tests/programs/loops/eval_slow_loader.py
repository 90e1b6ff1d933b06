"""A validation set that is slow to read, beside training that computes."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

model = Net(forward=0.01, backward=0.01)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train, valid = DataLoader(Rows(40), 4), DataLoader(Rows(20, nap=0.015), 4)
seconds = evaluating = 0.0
for epoch in range(2):
    model.train()
    began = perf_counter()
    for x, y in train:  #: io pace
        loss = (model(x) - y).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
    seconds += perf_counter() - began
    model.eval()
    began = perf_counter()
    with torch.inference_mode():
        right = 0
        for x, y in valid:  #: eval
            right += int(((model(x) - y).abs() < 1).sum())  #: eval
    evaluating += perf_counter() - began
    print(epoch, right)
naps = {"forward": 0.01, "backward": 0.01}
tell(
    dict(steps=20, items=[4] * 20, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
    evaluation=dict(passes=2, batches=10, items=40, seconds=evaluating, least=0.7),
    verdict="compute-bound",
)
