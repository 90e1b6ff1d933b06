"""Grain's loader and the iterators of its datasets: by a double, with the classes of Grain 0.2.18."""

from __future__ import annotations

import os

import pytest
from search_path import search_path

from injector.analysis.summary import summarise
from injector.store.folder import open_run

pytest.importorskip("torch")

PACKAGES = "site-packages"
PYTHON = f"{PACKAGES}/grain/_src/python"
DOUBLE = {
    f"{PACKAGES}/grain/__init__.py": """
__version__ = "0.2.18"
from grain._src.python.data_loader import DataLoader
from grain._src.python.dataset.dataset import DatasetIterator
""",
    f"{PACKAGES}/grain/_src/__init__.py": "",
    f"{PYTHON}/__init__.py": "",
    f"{PYTHON}/dataset/__init__.py": "",
    f"{PYTHON}/dataset/dataset.py": """
import functools

class DatasetIterator:
    def __iter__(self):
        return self

def timed(function):
    @functools.wraps(function)
    def wrapper(iterator):
        return function(iterator)
    return wrapper
""",
    f"{PYTHON}/dataset/transformations/__init__.py": "",
    f"{PYTHON}/dataset/transformations/map.py": """
import torch
from ..dataset import DatasetIterator, timed

class _MapDatasetIterator(DatasetIterator):
    def __init__(self, items):
        self._items = iter(range(items))

    @timed
    def __next__(self):
        return torch.full((3,), float(next(self._items)))
""",
    f"{PYTHON}/dataset/transformations/batch.py": """
import torch
from ..dataset import DatasetIterator, timed

class _BatchDatasetIterator(DatasetIterator):
    def __init__(self, parent, size):
        self._parent, self._size = parent, size

    @timed
    def __next__(self):
        return torch.stack([next(self._parent) for _ in range(self._size)])
""",
    f"{PYTHON}/dataset/transformations/prefetch.py": """
import queue, threading
from ..dataset import DatasetIterator, timed

class ThreadPrefetchDatasetIterator(DatasetIterator):
    def __init__(self, parent):
        self._parent, self._ready = parent, queue.Queue(2)
        threading.Thread(target=self._read, name="grain-thread-prefetch-1").start()

    def _read(self):
        for each in self._parent:
            self._ready.put(each)
        self._ready.put(None)

    @timed
    def __next__(self):
        batch = self._ready.get()
        if batch is None:
            raise StopIteration
        return batch
""",
    f"{PYTHON}/data_loader.py": """
from .dataset.transformations.batch import _BatchDatasetIterator
from .dataset.transformations.map import _MapDatasetIterator
from .dataset.transformations.prefetch import ThreadPrefetchDatasetIterator

class DataLoaderIterator:
    def __init__(self, loader):
        self._data_loader = loader
        self._iterator = loader.read()

    def __next__(self):
        return next(self._iterator)

class DataLoader:
    def __init__(self, items, size, ahead):
        self.items, self.size, self.ahead = items, size, ahead

    def read(self):
        batches = _BatchDatasetIterator(_MapDatasetIterator(self.items), self.size)
        return ThreadPrefetchDatasetIterator(batches) if self.ahead else batches

    def __iter__(self):
        return DataLoaderIterator(self)
""",
}
PROGRAM = """
import grain, torch
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def train(x):
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
loader, plain = grain.DataLoader(24, 4, ahead=False), grain.DataLoader(24, 4, ahead=True)
for epoch in range(2):
    for batch in loader:  # the loader
        train(batch)
    for batch in plain.read():  # a dataset
        train(batch)
"""


def test_only_what_the_program_waits_for_is_io(run, tmp_path):
    path = os.pathsep.join((str(tmp_path / PACKAGES), search_path()))
    done = run(PROGRAM, files=DOUBLE, env={"PYTHONPATH": path})
    io = done.only.named("io")
    named = [span.what for span in io]
    assert named == (["Grain's DataLoader"] * 6 + ["Grain ThreadPrefetchDataset"] * 6) * 2
    assert {span.thread for span in io} == {0}
    summary = summarise(open_run(done.folder))
    loops = sorted(loop.place.text for loop in summary.profile.loops)
    assert loops == [
        "for batch in loader:  # the loader",
        "for batch in plain.read():  # a dataset",
    ]
    assert {(loop.paced_by, loop.steps, loop.items_per_step) for loop in summary.profile.loops} == {
        ("loader", 12, 4.0)
    }
    assert not done.info["warnings"]
