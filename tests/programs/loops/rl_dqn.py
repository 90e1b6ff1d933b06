"""Deep Q-learning: act without gradients, remember, learn from what is remembered, at every turn."""
import random
import time
from time import perf_counter

import torch

from parts import Net, tell


def main(turns=40, batch=8):
    net, target = Net(forward=0.002, backward=0.003), Net(forward=0.002)
    optimizer = torch.optim.Adam(net.parameters())
    memory = [torch.randn(8) for _ in range(batch)]
    state = torch.randn(8)
    began = perf_counter()
    for turn in range(turns):
        with torch.no_grad():
            action = net(state[None])  #: forward
        time.sleep(0.006)  # the environment
        state = torch.randn(8) + action[0]
        memory.append(state)
        rows = torch.stack(random.sample(memory, batch))
        with torch.no_grad():
            goal = target(rows)  #: forward
        loss = (net(rows) - goal).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer pace
    seconds = perf_counter() - began
    naps = {"forward": 0.004, "backward": 0.003}
    tell(
        dict(steps=turns, items=[8] * turns, fetches=0, updates=1, seconds=seconds, naps=naps, paced="optimizer"),
        verdict=None,
    )


main()
