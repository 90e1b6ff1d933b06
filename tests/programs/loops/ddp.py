"""Two ranks, started by torchrun; the rank named in the first argument is slow."""
import sys
from time import perf_counter

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from parts import Net, Rows, tell


def main(slow):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Rows(112)
    loader = DataLoader(data, 4, sampler=DistributedSampler(data, shuffle=False))
    model = DistributedDataParallel(Net(forward=0.045 if rank == slow else 0.004, backward=0.004))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        for x, y in loader:  #: io pace
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()  #: forward
            loss.backward()  #: backward
            optimizer.step()  #: optimizer
    seconds = perf_counter() - began
    if rank == 0:
        tell(
            dict(steps=28, items=[4] * 28, fetches=1, updates=1, seconds=seconds,
                 naps={"forward": 0.004, "backward": 0.004}, paced="loader"),
            ranks=2,
            straggler=dict(rank=slow, slow_at="forward"),
            verdict="straggler",
        )
    dist.destroy_process_group()


main(int(sys.argv[1]))
