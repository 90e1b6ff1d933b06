"""Two ranks that share out one model's weights (FSDP); rank 1 is slow on the way back."""
from time import perf_counter

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

from parts import Net, Rows, tell


def main():
    mesh = init_device_mesh("cpu", (2,))
    rank = dist.get_rank()
    model = Net(forward=0.003, backward=0.045 if rank == 1 else 0.003)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters())
    began = perf_counter()
    for x, y in DataLoader(Rows(112), 4):  #: io pace
        loss = (model(x) - y).pow(2).mean()  #: forward
        optimizer.zero_grad()
        loss.backward()  #: backward
        optimizer.step()  #: optimizer
    seconds = perf_counter() - began
    if rank == 0:
        tell(
            dict(steps=28, items=[4] * 28, fetches=1, updates=1, seconds=seconds,
                 naps={"forward": 0.003, "backward": 0.003}, paced="loader"),
            ranks=2,
            straggler=dict(rank=1, slow_at="backward"),
            verdict="straggler",
        )
    dist.destroy_process_group()


main()
