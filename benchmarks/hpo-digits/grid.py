"""All combinations in turn, or in a pool of processes; nothing is pruned."""

from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

import task


def trial(rate, width, epochs):
    return max(task.train(rate, width, epochs))


def main():
    given = task.arguments()
    combinations = [(*each, given.epochs) for each in product(*task.SPACE.values())]
    columns = list(zip(*combinations, strict=True))
    if given.workers == 1:
        found = list(map(trial, *columns))
    else:
        with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
            found = list(pool.map(trial, *columns))
    task.finish(*combinations[found.index(max(found))])


if __name__ == "__main__":
    main()
