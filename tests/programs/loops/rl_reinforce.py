"""REINFORCE: one update for each game, played with gradients on."""
import time
from time import perf_counter

import torch

from parts import Net, tell

policy = Net(forward=0.002, backward=0.001)
optimizer = torch.optim.Adam(policy.parameters())
began = perf_counter()
for game in range(12):
    state = torch.randn(1, 8)
    logs = []
    for turn in range(5):
        action = policy(state)  #: forward
        time.sleep(0.004)  # the game
        state = torch.randn(1, 8)
        logs.append(action.sum())
    loss = -torch.stack(logs).mean()
    optimizer.zero_grad()
    loss.backward()  #: backward
    optimizer.step()  #: optimizer pace
seconds = perf_counter() - began
naps = {"forward": 0.01, "backward": 0.005, "wait": 0.016}
tell(
    dict(steps=12, items=None, fetches=0, updates=1, seconds=seconds, naps=naps, paced="optimizer"),
    verdict="overhead-bound",
)
