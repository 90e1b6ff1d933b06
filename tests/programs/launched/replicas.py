"""Two replicas of a model, started in the way that the first argument names."""

import json
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, TensorDataset

STEPS = 7
PER_RANK = 4 * STEPS


def tell(rank, losses):
    with open(f"reported.{rank}.json", "w") as file:
        json.dump({"pid": os.getpid(), "losses": losses}, file)


def fit(model, optimizer, loader, backward):
    losses = []
    for (x,) in loader:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train(rank=-1, *_):
    """One rank: the number given, or what the environment says."""
    if rank < 0:
        dist.init_process_group("gloo")
    else:
        store = dist.FileStore(os.path.abspath("store"), 2)
        dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    torch.manual_seed(dist.get_rank())
    loader = DataLoader(TensorDataset(torch.randn(PER_RANK, 8)), batch_size=4)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tell(dist.get_rank(), fit(model, optimizer, loader, lambda loss: loss.backward()))
    dist.destroy_process_group()


def accelerated():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = DataLoader(TensorDataset(torch.randn(2 * PER_RANK, 8)), batch_size=4)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    tell(accelerator.process_index, fit(model, optimizer, loader, accelerator.backward))


def forkserver():
    started = [mp.get_context("forkserver").Process(target=train, args=(rank,)) for rank in (0, 1)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert not any(process.exitcode for process in started)


def forks():
    children = []
    for rank in (0, 1):
        children.append(os.fork())
        if children[-1] == 0:
            train(rank)
            os._exit(0)
    assert not any(os.waitpid(child, 0)[1] for child in children)


def notebook():
    from accelerate import notebook_launcher

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    notebook_launcher(accelerated, num_processes=2, use_port=str(port))


def debugged():
    from accelerate import debug_launcher

    debug_launcher(accelerated)


WAYS = {
    "environment": train,
    "accelerated": accelerated,
    "mp.spawn": lambda: mp.spawn(train, nprocs=2),
    "forkserver": forkserver,
    "fork": forks,
    "notebook_launcher": notebook,
    "debug_launcher": debugged,
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
