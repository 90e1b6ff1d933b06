"""Calls of ``.to`` as a program writes them, each beside a twin whose text is in no file.

``method_calls.py FILE TURNS REPEATS`` writes JSON into FILE: for each case, pairs of nanoseconds of
thread CPU a call, the twin's and the hooked one's.
"""

import gc
import inspect
import json
import sys
import time

import torch

HERE, THERE = torch.ones(4), torch.ones(4, device="meta")
TYPE, DEVICE = torch.float32, torch.device("meta")


class Other:
    def to(self, unit):
        return self


OTHER = Other()


def stays(n):
    for _ in range(n):
        HERE.to(TYPE)


def elsewhere(n):
    for _ in range(n):
        THERE.to(TYPE)


def other(n):
    for _ in range(n):
        OTHER.to(TYPE)


def moves(n):
    for _ in range(n):
        HERE.to(DEVICE)


def thread_ns(function, turns):
    begin = time.thread_time_ns()
    function(turns)
    return (time.thread_time_ns() - begin) / turns


def twin(function):
    space = dict(globals())
    exec(compile(inspect.getsource(function), "<twin>", "exec"), space)
    return space[function.__name__]


def main():
    torch.set_num_threads(1)
    file, turns, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found = {}
    gc.disable()
    for function in (stays, elsewhere, other, moves):
        plain = twin(function)
        pairs = found[function.__name__] = []
        for _ in range(repeats + 1):
            without = thread_ns(plain, turns)
            pairs.append((without, thread_ns(function, turns)))
        del pairs[0]
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(found, stream)


if __name__ == "__main__":
    main()
