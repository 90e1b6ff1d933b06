"""No loader at all: validation is one large batch after every eight updates."""
from time import perf_counter

import torch

from parts import Net, tell


def main():
    model = Net(forward=0.006, backward=0.006)
    optimizer = torch.optim.Adam(model.parameters())
    held = torch.randn(100, 8)
    seconds = evaluating = 0.0
    for epoch in range(3):
        began = perf_counter()
        for step in range(8):
            x = torch.randn(16, 8)
            loss = (model(x) - x.mean(1, keepdim=True)).pow(2).mean()  #: forward
            optimizer.zero_grad()
            loss.backward()  #: backward
            optimizer.step()  #: optimizer pace
        seconds += perf_counter() - began
        began = perf_counter()
        model.eval()
        with torch.no_grad():
            for part in held.split(25):
                print(model(part).std().item())  #: eval
        model.train()
        evaluating += perf_counter() - began
    naps = {"forward": 0.006, "backward": 0.006}
    tell(
        dict(steps=24, items=[16] * 24, fetches=0, updates=1, seconds=seconds, naps=naps, paced="optimizer"),
        evaluation=dict(passes=3, batches=12, items=300, seconds=evaluating, least=0.072),
        verdict="compute-bound",
    )


main()
