"""A GAN over a loader: two models, two updates, one step."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main():
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    generator, judge = Net(forward=0.003, inputs=4, out=8), Net(forward=0.002, backward=0.002)
    opt_g = torch.optim.Adam(generator.parameters())
    opt_d = torch.optim.Adam(judge.parameters())
    began = perf_counter()
    for real, _ in DataLoader(Rows(60), batch_size=3):  #: io pace
        n = len(real)
        fake = generator(torch.randn(n, 4))
        opt_d.zero_grad()
        loss_d = bce(judge(real), torch.ones(n, 1)) + bce(judge(fake.detach()), torch.zeros(n, 1))
        loss_d.backward()
        opt_d.step()
        opt_g.zero_grad()
        bce(judge(fake), torch.ones(n, 1)).backward()
        opt_g.step()
    seconds = perf_counter() - began
    naps = {"forward": 0.003 + 3 * 0.002, "backward": 3 * 0.002}
    tell(
        dict(steps=20, items=[3] * 20, fetches=1, updates=2, seconds=seconds, naps=naps, paced="loader"),
        verdict=None,
    )


main()
