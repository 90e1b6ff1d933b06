"""How many items a batch holds."""

from __future__ import annotations

from collections import UserDict

import pytest

from injector.measure.turns import count_items, counter


class Tensor:
    def __init__(self, *shape):
        self.shape = shape


class Graphs(UserDict):
    num_graphs = 32


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (Tensor(32, 3, 224, 224), 32),
        (Tensor(), None),
        ((Tensor(8, 3), Tensor(8)), 8),
        ([Tensor(), Tensor(4)], 4),
        ({"input_ids": Tensor(16, 128), "labels": Tensor(16)}, 16),
        (UserDict(pixels=Tensor(2, 3)), 2),
        (Graphs(x=Tensor(315, 8)), 32),
        ([{"x": Tensor(5)}, Tensor(5)], 5),
        (["a sentence", "another", "a third"], 3),
        ([], 0),
        ("text", 4),
        (7, None),
        (None, None),
        ({}, None),
    ],
)
def test_count(batch, count):
    assert count_items(batch) == count


def test_what_the_user_says():
    assert counter(None)(Tensor(3)) == 3
    assert counter(64)(Tensor(3)) == 64
    assert counter(lambda batch: batch["n"])({"n": 9}) == 9
