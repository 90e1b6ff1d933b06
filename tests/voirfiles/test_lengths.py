"""How many batches a pass has is known without asking the program's dataset."""

from __future__ import annotations

import random

import pytest
import torch
from torch.utils import data

from injector.voirfiles import _loaders


class Counted(data.Dataset):
    def __init__(self, items: int) -> None:
        self.items = items
        self.asked = 0

    def __len__(self) -> int:
        self.asked += 1
        return self.items

    def __getitem__(self, at: int) -> torch.Tensor:
        return torch.tensor(at)


def samplers(found: Counted):
    n = found.items
    return {
        "sequential": {},
        "shuffle": {"shuffle": True},
        "fewer": {"sampler": data.RandomSampler(found, num_samples=n // 2 + 1)},
        "more": {"sampler": data.RandomSampler(found, num_samples=2 * n + 1)},
        "again": {"sampler": data.RandomSampler(found, replacement=True, num_samples=n + 3)},
        "weighted": {"sampler": data.WeightedRandomSampler([1.0] * n, n + 1)},
        "subset": {"sampler": data.SubsetRandomSampler(range(n // 2 + 1))},
        "rank": {"sampler": data.DistributedSampler(found, num_replicas=3, rank=1)},
    }


@pytest.mark.parametrize("kind", samplers(Counted(1)))
@pytest.mark.parametrize("drop_last", [False, True])
def test_it_is_what_the_loader_would_say(kind: str, drop_last: bool) -> None:
    draws = random.Random(kind)
    for _ in range(12):
        size = draws.randint(1, 9)
        found = Counted(draws.randint(3 * size if drop_last else 1, 60))
        loader = data.DataLoader(
            found, batch_size=size, drop_last=drop_last, **samplers(found)[kind]
        )
        iterator = iter(loader)
        first = iterator._next_index()
        asked = found.asked
        reported = _loaders._batches_of_pass(iterator, first)
        assert found.asked == asked
        assert reported == len(loader) == 1 + sum(1 for _ in iterator)


@pytest.mark.parametrize("sampler", [range(9), [3, 1, 2], (at for at in range(9))])
def test_an_older_pytorch_holds_the_indices_in_no_variable(sampler) -> None:
    def drawn():
        batch = [0]
        for at in sampler:
            batch[0] = at
            yield batch

    drawing = drawn()
    next(drawing)
    indices = _loaders._iterator_of_for(drawing)
    assert type(indices) is type(iter(sampler))
    next(indices)
    left = len(list(indices))
    assert len([*drawing]) == 0 and left == (1 if type(sampler) is list else 7)


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(9))


class Own(data.Sampler):
    def __iter__(self):
        return (at for at in range(9))


@pytest.mark.parametrize(
    "loader",
    [
        data.DataLoader(Stream(), batch_size=2),
        data.DataLoader(Counted(9), batch_size=2, sampler=Own()),
        data.DataLoader(Counted(9), batch_sampler=[[0, 1], [2]]),
    ],
)
def test_what_is_not_pytorchs_own_tells_nothing(loader: data.DataLoader) -> None:
    iterator = iter(loader)
    assert _loaders._batches_of_pass(iterator, iterator._next_index()) == 0
