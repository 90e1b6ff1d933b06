"""The loop of every tutorial, waiting for its data."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:  #: io pace
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)  #: forward
            loss.backward()  #: backward
            optimizer.step()  #: optimizer
            total += loss.item()
        print(epoch, total / len(loader))


def main():
    loader = DataLoader(Rows(48, nap=0.005), batch_size=4, shuffle=True)
    model = Net(forward=0.002, backward=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    train(model, loader, optimizer, epochs=2)
    seconds = perf_counter() - began
    naps = {"io": 0.02, "forward": 0.002, "backward": 0.002}
    tell(
        dict(steps=24, items=[4] * 24, fetches=1, updates=1, seconds=seconds, naps=naps, paced="loader"),
        verdict="input-bound",
    )


if __name__ == "__main__":
    main()
