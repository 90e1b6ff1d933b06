"""A small classifier, and pictures that are slow to read: `inject run examples/train.py`."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Noise with one bright row, which is the label."""

    def __init__(self, number):
        self.labels = torch.arange(number) % 10
        self.pictures = torch.rand(number, 1, 28, 28)
        self.pictures[torch.arange(number), 0, self.labels] += 0.5

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        time.sleep(0.002)  # as reading and decoding a file would take
        return self.pictures[index], self.labels[index]


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main(epochs=3):
    torch.manual_seed(0)
    loader = DataLoader(Pictures(480), batch_size=32, shuffle=True)
    held_out = DataLoader(Pictures(96), batch_size=32)
    convolution = nn.Sequential(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
    model = nn.Sequential(convolution, nn.Flatten(), nn.Linear(16 * 12 * 12, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {evaluate(model, held_out):.0%} right")


if __name__ == "__main__":
    main()
