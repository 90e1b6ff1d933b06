"""`torch.autograd.grad` instead of `backward`: learning to learn."""
from time import perf_counter

import torch
from torch.func import functional_call

from parts import Net, tell


def main():
    model = Net(forward=0.003, backward=0.003)
    optimizer = torch.optim.Adam(model.parameters())
    began = perf_counter()
    for step in range(15):
        x = torch.randn(10, 8)
        names, weights = zip(*model.named_parameters())
        inner = functional_call(model, dict(zip(names, weights)), (x,)).pow(2).mean()
        grads = torch.autograd.grad(inner, weights)
        moved = {name: w - 0.1 * g for name, w, g in zip(names, weights, grads)}
        outer = functional_call(model, moved, (x,)).abs().mean()
        for weight, grad in zip(weights, torch.autograd.grad(outer, weights)):
            weight.grad = grad
        optimizer.step()  #: optimizer pace
    seconds = perf_counter() - began
    naps = {"forward": 0.006, "backward": 0.006}
    tell(
        dict(steps=15, items=None, fetches=0, updates=1, seconds=seconds, naps=naps, paced="optimizer"),
        verdict=None,
    )


main()
