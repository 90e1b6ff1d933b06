"""Adds up a buffer over all ranks, again and again: start it with torchrun."""

import argparse
import os

import torch
import torch.distributed as dist


def reduce(buffer, number):
    """``number`` sums over all ranks, and wait for the device."""
    for _ in range(number):
        dist.all_reduce(buffer)
        buffer /= dist.get_world_size()
    if buffer.is_cuda:
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--number", type=int, default=2, help="sums in one measurement")
    parser.add_argument("--repeat", type=int, default=60, help="measurements")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    device = given.device
    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if given.device == "cuda" else "gloo")
    buffer = torch.ones(given.megabytes * 10**6 // 4, device=device)
    for _ in range(given.repeat):
        reduce(buffer, given.number)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
