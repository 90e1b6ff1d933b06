"""Proximal policy optimisation: play for a while, then learn from it in small batches."""

import time
from time import perf_counter

import torch

from parts import Net, tell


def play(policy, turns=16):
    seen = []
    state = torch.randn(1, 8)
    for turn in range(turns):
        with torch.no_grad():
            action = policy(state)
        time.sleep(0.015)  # the game
        state = torch.randn(1, 8) + action
        seen.append(state)
    return torch.cat(seen)


def odds(action):
    """Most calls of a step are of a distribution, whose items are not known."""
    spread = torch.distributions.Normal(action, 1.0)  #: forward
    return spread.entropy() + action.pow(2) + 0 * spread.log_prob(action.detach())  #: forward


def main():
    policy = Net(backward=0.004)
    optimizer = torch.optim.Adam(policy.parameters())
    learning = playing = 0.0
    for iteration in range(4):
        began = perf_counter()
        states = play(policy)
        playing += perf_counter() - began
        began = perf_counter()
        for epoch in range(3):
            for rows in torch.randperm(16).split(4):
                loss = odds(policy(states[rows])).mean()  #: forward
                optimizer.zero_grad()
                loss.backward()  #: backward
                optimizer.step()  #: optimizer pace
        learning += perf_counter() - began
    tell(
        dict(
            steps=48,
            items=[4] * 48,
            fetches=0,
            updates=1,
            seconds=learning,
            naps={"backward": 0.004},
            paced="optimizer",
        ),
        rollout=playing,
        gaps=3 * 16 * 0.015,
        verdict=None,
    )


if __name__ == "__main__":
    main()
