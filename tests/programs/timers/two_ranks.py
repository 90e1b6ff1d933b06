"""Two processes of one job, which wait for each other in each step: the second one is slow to read."""

import os
import subprocess
import sys
import time

import injector


def train() -> None:
    every, first = injector.Timer(), injector.Timer(ranks=[0])
    slow = 0.004 * int(os.environ["RANK"])
    for _ in range(8):
        every.start("Batch")
        first.start("first rank")
        every.start("IO")
        time.sleep(0.001 + slow)
        every.end("IO")
        every.start("Comm")
        time.sleep(0.006 - slow)
        every.end("Comm")
        first.end("first rank")
        every.end("Batch")


if "RANK" in os.environ:
    train()
else:
    ranks = [
        subprocess.Popen([sys.executable, __file__], env={**os.environ, "RANK": n, "WORLD_SIZE": "2"})
        for n in "01"
    ]
    sys.exit(max(rank.wait() for rank in ranks))
