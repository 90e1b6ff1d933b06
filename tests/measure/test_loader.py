"""What is timed while a loop draws from it otherwise stays what it was."""

from __future__ import annotations

import copy
import pickle
import time

import pytest

from injector.measure.loader import TimedLoader, wrap


class Loader:
    """Like a data loader without a length: an iterable of batches with attributes."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def steps(loader):
    told = []
    return wrap(loader, lambda io, step, batch: told.append((io, step, batch))), told


def test_each_whole_body_is_a_step():
    def slow():
        for batch in ("a", "b", "c"):
            time.sleep(0.01)
            yield batch

    timed, told = steps(slow())
    for batch in timed:
        time.sleep(0.02)
        if batch == "c":
            break
    assert [batch for _, _, batch in told] == ["a", "b"]
    assert all(io >= 10e6 and step >= io + 20e6 for io, step, _ in told)


def test_it_can_be_drawn_from_again_and_inside_itself():
    timed, told = steps(Loader([1, 2]))
    assert [(a, b) for a in timed for b in timed] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [batch for _, _, batch in told] == [1, 2, 1, 1, 2, 2]
    assert list(timed) == [1, 2]


def test_what_next_gives_is_the_iterators():
    timed, told = steps(iter([1, 2]))
    assert next(timed) == 1 and next(timed) == 2 and next(timed, None) is None
    assert [batch for _, _, batch in told] == [1, 2]


def test_an_exception_of_the_loader_passes():
    def broken():
        yield 1
        raise ValueError("no more")

    timed, told = steps(Loader(broken()))
    with pytest.raises(ValueError, match="no more"):
        list(timed)
    assert [batch for _, _, batch in told] == [1]


def test_it_stands_for_the_loader():
    loader = Loader([1, 2])
    timed, _ = steps(loader)
    assert isinstance(timed, Loader) and isinstance(timed, TimedLoader)
    assert bool(timed) and timed == loader and timed == timed and timed != Loader([1, 2])
    assert hash(timed) == hash(loader) and {loader: 1}[timed] == 1
    assert repr(timed) == repr(loader) and dir(timed) == dir(loader)
    timed.batches = [3]
    assert loader.batches == [3] and vars(timed) == vars(loader)
    del timed.batches
    assert not hasattr(loader, "batches")
    with pytest.raises(TypeError):
        len(timed)


def test_a_list_stays_a_list():
    timed, _ = steps([1, 2, 3])
    assert len(timed) == 3 and timed[1] == 2 and 3 in timed and timed == [1, 2, 3]
    assert not steps([])[0]


@pytest.mark.parametrize("through", [copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_the_loaders(through):
    other = through(steps(Loader([1]))[0])
    assert type(other) is Loader and list(other) == [1]
