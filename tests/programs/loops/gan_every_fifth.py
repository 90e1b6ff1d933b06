"""A WGAN over a loader: the generator learns at every fifth batch."""
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from parts import Net, Rows, tell

generator, judge = Net(forward=0.003, inputs=4, out=8), Net(forward=0.003, backward=0.003)
opt_g = torch.optim.RMSprop(generator.parameters())
opt_d = torch.optim.RMSprop(judge.parameters())
began = perf_counter()
for i, (real, _) in enumerate(DataLoader(Rows(100), batch_size=4)):  #: io pace
    opt_d.zero_grad()
    fake = generator(torch.randn(len(real), 4)).detach()
    (judge(fake).mean() - judge(real).mean()).backward()
    opt_d.step()
    if i % 5 == 4:
        opt_g.zero_grad()
        (-judge(generator(torch.randn(len(real), 4))).mean()).backward()
        opt_g.step()
seconds = perf_counter() - began
naps = {"forward": 0.009, "backward": 0.006}
tell(
    dict(steps=25, items=[4] * 25, fetches=1, updates=1.2, seconds=seconds, naps=naps, paced="loader"),
    verdict=None,
)
