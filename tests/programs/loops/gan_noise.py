"""A GAN without a loader; the judge learns `turns` times for each time of the generator."""
import sys
from time import perf_counter

import torch

from parts import Net, tell


def main(turns, steps):
    generator, judge = Net(forward=0.002, inputs=4, out=8), Net(forward=0.001, backward=0.001)
    opt_g = torch.optim.Adam(generator.parameters())
    opt_d = torch.optim.Adam(judge.parameters())
    began = perf_counter()
    for step in range(steps):
        for turn in range(turns):
            fake = generator(torch.randn(6, 4)).detach()
            loss = judge(fake).mean() - judge(torch.randn(6, 8)).mean()
            opt_d.zero_grad()
            loss.backward()
            opt_d.step()
        loss = -judge(generator(torch.randn(6, 4))).mean()
        opt_g.zero_grad()
        loss.backward()
        opt_g.step()  #: pace
    seconds = perf_counter() - began
    naps = {"forward": turns * 0.004 + 0.003, "backward": turns * 0.002 + 0.001}
    tell(
        dict(steps=steps, items=None, fetches=0, updates=turns + 1, seconds=seconds, naps=naps, paced="optimizer"),
        verdict=None,
    )


main(*map(int, sys.argv[1:]))
