"""Copies a buffer: how many bytes a second a device reads and writes."""

import argparse

import torch


def copy(source, target, number):
    """``number`` copies, and wait for the device."""
    for _ in range(number):
        target.copy_(source)
    if target.is_cuda:
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--number", type=int, default=4, help="copies in one measurement")
    parser.add_argument("--repeat", type=int, default=60, help="measurements")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    source = torch.ones(given.megabytes * 10**6 // 4, device=given.device)
    target = torch.empty_like(source)
    for _ in range(given.repeat):
        copy(source, target, given.number)


if __name__ == "__main__":
    main()
