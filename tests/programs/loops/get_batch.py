"""Batches made by a function, the next one while the last is on its way back; now and then an evaluation."""
import sys
from contextlib import nullcontext
from functools import partial
from time import perf_counter

import torch

from parts import Net, tell

accumulate, steps, every, evaluated = int(sys.argv[1]), 24, 8, 3
x, y = torch.randn(100, 8), torch.randn(100, 1)


def get_batch(split):
    until = perf_counter() + 0.006  # at work: a sleep would be a wait
    while perf_counter() < until:
        pass
    rows = torch.randint(len(x), (4,))
    return x[rows], y[rows]


if "partial" in sys.argv:  # what is called is no function of the program
    get_batch = partial(get_batch)
model = Net(forward=0.001, backward=0.001)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(evaluated)
        for k in range(evaluated):
            X, Y = get_batch(split)  #: eval
            losses[k] = (model(X) - Y).pow(2).mean()  #: eval
        out[split] = losses.mean()
    model.train()
    return out


X, Y = get_batch("train")
step, in_evaluation, evaluations = 0, 0.0, 0
began = perf_counter()
while True:
    if step % every == 0:
        since = perf_counter()
        estimate_loss()
        in_evaluation += perf_counter() - since
        evaluations += 1
    for micro_step in range(accumulate):
        with nullcontext():
            loss = (model(X) - Y).pow(2).mean() / accumulate  #: forward
        X, Y = get_batch("train")  #: made
        loss.backward()  #: backward
    optimizer.step()  #: optimizer pace
    optimizer.zero_grad(set_to_none=True)
    step += 1
    if step == steps:
        break
seconds = perf_counter() - began
batches = evaluations * 2 * evaluated
named = "named" in sys.argv
tell(
    dict(
        steps=steps, items=[4 * accumulate] * steps, fetches=None, updates=1, seconds=seconds - in_evaluation,
        other="forward" if not named else None,
        naps={"forward": 0.001 * accumulate, "backward": 0.001 * accumulate} | ({"io": 0.006 * accumulate} if named else {}),
        paced="optimizer",
    ),
    evaluation=dict(passes=evaluations, batches=batches, items=4.0 * batches, least=0.001 * batches, seconds=in_evaluation, inside=True),
    verdict="input-bound" if named else "overhead-bound",
)
