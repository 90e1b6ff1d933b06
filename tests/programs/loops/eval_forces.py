"""A force field: its model differentiates what it computes, also where it is only validated."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net(forward=0.005, backward=0.005)

    def forward(self, x):
        x = x.clone().requires_grad_()
        energy = self.net(x)
        (forces,) = torch.autograd.grad(energy.sum(), x, create_graph=True)  #: backward
        return energy, forces


def train(model, loader, optimizer):
    for x, y in loader:  #: io pace
        optimizer.zero_grad()
        energy, forces = model(x)  #: forward
        loss = (energy - y).pow(2).mean() + forces.pow(2).mean()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer


def validate(model, loader):
    """Gradients are wanted and the model stays as it is: nothing says that this is no training."""
    total = 0.0
    for x, y in loader:  #: eval
        energy, forces = model(x)  #: eval
        total += float(((energy - y).pow(2).mean() + forces.pow(2).mean()).detach())
    return total / len(loader)


def main():
    model = Field()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows, valid = DataLoader(Rows(32), 4, shuffle=True), DataLoader(Rows(12), 4)
    seconds = evaluating = 0.0
    for epoch in range(3):
        began = perf_counter()
        train(model, rows, optimizer)
        seconds += perf_counter() - began
        began = perf_counter()
        print(epoch, validate(model, valid))
        evaluating += perf_counter() - began
    tell(
        dict(steps=24, items=[4] * 24, fetches=1, updates=1, seconds=seconds,
             naps={"forward": 0.005, "backward": 0.005}, paced="loader"),
        evaluation=dict(passes=3, batches=9, items=36, seconds=evaluating, least=0.03),
        verdict="compute-bound or balanced",
    )


main()
