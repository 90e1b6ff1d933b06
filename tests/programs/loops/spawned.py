"""Two ranks that the program starts itself; gradients are averaged by hand. Rank 0 reads slowly."""
import os
import socket
from time import perf_counter

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def average(model):
    for weight in model.parameters():
        dist.all_reduce(weight.grad)
        weight.grad /= dist.get_world_size()


def work(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    loader = DataLoader(Rows(112, nap=0.0 if rank else 0.011), 4)
    model = Net(forward=0.003, backward=0.003)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    began = perf_counter()
    for x, y in loader:  #: io pace
        loss = (model(x) - y).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        average(model)
        optimizer.step()  #: optimizer
    seconds = perf_counter() - began
    if rank == 0:
        tell(
            dict(steps=28, items=[4] * 28, fetches=1, updates=1, seconds=seconds,
                 naps={"forward": 0.003, "backward": 0.003}, paced="loader"),
            ranks=2,
            straggler=dict(rank=0, slow_at="io"),
            verdict="straggler",
        )
    dist.destroy_process_group()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


if __name__ == "__main__":
    mp.spawn(work, args=(free_port(),), nprocs=2)
