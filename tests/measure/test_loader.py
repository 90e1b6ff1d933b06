"""A timed loader is to the program what it was."""

from __future__ import annotations

import copy
import inspect
import pickle
import random
import time
from typing import Any

import pytest

from injector.measure.loader import wrap
from injector.probe.compiled import NATIVE


class Loader:
    """Draws batches."""

    def __init__(self, data: list[int], size: int = 2) -> None:
        self.data = data
        self.size = size
        self.epoch = 0

    def __iter__(self) -> Any:
        for start in range(0, len(self.data), self.size):
            yield self.data[start : start + self.size]

    def __len__(self) -> int:
        return (len(self.data) + self.size - 1) // self.size


class Reports:
    """What was told of one pass: batches and times."""

    def __init__(self, steps: list[Any]) -> None:
        self.steps = steps

    def fetched(self, start: int, end: int, batch: Any, frame: Any) -> None:
        self.fetch = end - start, batch
        assert frame is not None

    def stepped(self, start: int, end: int) -> None:
        io, batch = self.fetch
        self.steps.append((io, end - start, batch))

    def ended(self, start: int, end: int, frame: Any) -> None:
        assert start <= end


class Batches(list[Any]):
    """Only the batches of the steps."""

    def append(self, step: Any) -> None:
        super().append(step[2])


def reports() -> tuple[list[Any], Any]:
    batches = Batches()
    return batches, lambda loader: Reports(batches)


def test_steps_are_reported() -> None:
    batches, on_step = reports()
    assert list(wrap(Loader([1, 2, 3]), on_step)) == [[1, 2], [3]] == batches


def test_attributes_are_shared() -> None:
    loader = Loader([1, 2, 3])
    timed = wrap(loader, reports()[1])
    timed.epoch = 3
    loader.size = 1
    assert (loader.epoch, timed.size, len(timed)) == (3, 1, 3)
    assert vars(timed) == {"data": [1, 2, 3], "size": 1, "epoch": 3}


def test_its_type_can_be_looked_at_and_called() -> None:
    batches, on_step = reports()
    timed = wrap(Loader([1, 2, 3]), on_step)
    assert list(inspect.signature(timed.__init__).parameters) == ["data", "size"]
    assert (repr(type(timed)), type(timed).__doc__) == (repr(Loader), Loader.__doc__)
    assert list(type(timed)([4, 5], size=1)) == [[4], [5]] == batches


def test_only_what_was_given_is_timed() -> None:
    batches, on_step = reports()
    loader = Loader([1])
    wrap(loader, on_step)
    assert list(loader) == [[1]]
    assert type(loader) is Loader and batches == []


def test_the_same_one_twice() -> None:
    batches, on_step = reports()
    loader = wrap(Loader([1]), on_step)
    assert wrap(loader, on_step) is loader
    other, on_other = reports()
    assert list(wrap(loader, on_other)) == [[1]] == batches == other


def test_it_leaves_the_process_as_it_was() -> None:
    timed = wrap(Loader([1]), reports()[1])
    for made in (pickle.loads(pickle.dumps(timed)), copy.copy(timed), copy.deepcopy(timed)):
        assert type(made) is Loader and vars(made) == vars(timed)
    assert type(pickle.loads(pickle.dumps(type(timed)([1])))) is Loader
    assert b"injector" not in pickle.dumps(timed)


def test_it_ends_once() -> None:
    ended = []

    class Closing(Loader):
        def __del__(self) -> None:
            ended.append(self.size)

    timed = wrap(Closing([1]), reports()[1])
    assert ended == []
    del timed
    assert ended == [2]


def test_what_is_made_in_c() -> None:
    batches, on_step = reports()
    for loader in ([1, 2], (1, 2), range(1, 3), {1: 0, 2: 0}.keys()):
        timed = wrap(loader, on_step)
        assert isinstance(timed, type(loader)) and list(timed) == [1, 2] and len(timed) == 2
        assert b"injector" not in pickle.dumps(wrap([1], on_step))
    assert batches == [1, 2] * 4


class Endless:
    """Batches without a length."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def steps(loader):
    reports = []
    return wrap(loader, lambda loader: Reports(reports)), reports


def test_each_whole_body_is_a_step():
    def slow():
        for batch in ("a", "b", "c"):
            time.sleep(0.01)
            yield batch

    timed, reports = steps(slow())
    for batch in timed:
        time.sleep(0.02)
        if batch == "c":
            break
    assert [batch for _, _, batch in reports] == ["a", "b"]
    assert all(io >= 10e6 and step >= io + 20e6 for io, step, _ in reports)


def test_it_can_be_drawn_from_again_and_inside_itself():
    timed, reports = steps(Endless([1, 2]))
    assert [(a, b) for a in timed for b in timed] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [batch for _, _, batch in reports] == [1, 2, 1, 1, 2, 2]
    assert list(timed) == [1, 2]


def test_what_next_gives_is_the_iterators():
    timed, reports = steps(iter([1, 2]))
    assert next(timed) == 1 and next(timed) == 2 and next(timed, None) is None
    assert [batch for _, _, batch in reports] == [1, 2]


def test_an_exception_of_the_loader_passes():
    def broken():
        yield 1
        raise ValueError("no more")

    timed, reports = steps(Endless(broken()))
    with pytest.raises(ValueError, match="no more"):
        list(timed)
    assert [batch for _, _, batch in reports] == [1]


def test_one_without_a_length_is_true():
    loader = Endless([1, 2])
    timed, _ = steps(loader)
    assert isinstance(timed, Endless)
    assert bool(timed)
    timed.batches = [3]
    assert loader.batches == [3] and vars(timed) == vars(loader)
    del timed.batches
    assert not hasattr(loader, "batches")
    with pytest.raises(TypeError):
        len(timed)


def test_a_list_stays_a_list():
    timed, _ = steps([1, 2, 3])
    assert len(timed) == 3 and timed[1] == 2 and 3 in timed and timed == [1, 2, 3]
    assert repr(timed) == "[1, 2, 3]" and dir(timed) == dir([])
    assert not steps([])[0] and hash(steps((1,))[0]) == hash((1,))
    with pytest.raises(TypeError):
        vars(timed)


def test_a_list_can_be_changed_in_place():
    timed, seen = steps([3, 1, 2])
    random.Random(0).shuffle(timed)
    timed.sort()
    timed[0] = 0
    del timed[1]
    timed.append(4)
    assert timed * 2 == [0, 3, 4, 0, 3, 4] and timed < [1] and [*timed] == timed
    assert list(reversed(timed)) == [4, 3, 0] and max(timed) == 4 and f"{timed}" == "[0, 3, 4]"
    assert list(timed) == [0, 3, 4] and [batch for _, _, batch in seen][-3:] == [0, 3, 4]


class Restarts:
    """An iterator that is at its begin only after `iter`, as many loaders are."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at == len(self.batches):
            raise StopIteration
        self.at += 1
        return self.batches[self.at - 1]

    def __len__(self):
        return len(self.batches)


class Slots(Restarts):
    __slots__ = ()


class OnlySlots:
    __slots__ = ("at", "batches")
    __init__, __iter__, __next__ = Restarts.__init__, Restarts.__iter__, Restarts.__next__
    __len__ = Restarts.__len__


def in_for(loader):
    return [batch for _ in range(2) for batch in loader]


def with_next(loader):
    found = []
    for _ in range(2):
        it = iter(loader)
        while (batch := next(it, None)) is not None:
            found.append(batch)
    return found


def without_iter(loader):
    found = []
    for _ in range(2):
        iter(loader)
        while (batch := next(loader, None)) is not None:
            found.append(batch)
    return found


def left_early(loader):
    found = []
    for batch in loader:
        found.append(batch)
        if batch == 2:
            break
    return found + list(loader) + [3]


@pytest.mark.parametrize("draw", [in_for, with_next, without_iter, left_early])
@pytest.mark.parametrize("kind", [Restarts, Slots, OnlySlots])
def test_an_iterator_that_is_set_to_its_begin(kind, draw):
    timed, seen = steps(kind([1, 2, 3]))
    assert isinstance(timed, kind) and len(timed) == 3
    wanted = [1, 2, 1, 2, 3, 3] if draw is left_early else [1, 2, 3, 1, 2, 3]
    assert draw(timed) == draw(kind([1, 2, 3])) == wanted
    assert timed.at == 3
    if NATIVE:
        bodies = [1, 1, 2, 3] if draw is left_early else [1, 2, 3, 1, 2, 3]
        assert [batch for _, _, batch in seen] == bodies


def test_one_that_the_program_makes_of_the_class_that_it_is_shown():
    timed, seen = steps(Restarts([1]))
    other = type(timed)([4, 5])
    assert in_for(other) == without_iter(other) == [4, 5, 4, 5] and seen == []


@pytest.mark.parametrize("value", [3, "cifar10", b"x", print, list, object()])
def test_what_no_loop_draws_from_is_refused(value):
    with pytest.raises(TypeError, match=f"batches from a value of type '{type(value).__name__}'"):
        wrap(value, reports()[1])


def test_a_loader_that_is_not_there_yet_stays_none():
    assert wrap(None, reports()[1]) is None


def test_what_has_only_next_is_drawn_from():
    class Batcher:
        left = 2

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            self.left -= 1
            return self.left

    timed, seen = steps(Batcher())
    assert [next(timed), next(timed)] == [1, 0]
    with pytest.raises(StopIteration):
        next(timed)
    assert len(seen) == 2
