"""Hooks that store numbers themselves: nothing lost, nothing twice, in threads and forks too."""

from __future__ import annotations

import builtins
import itertools
import os
import signal
import sys
import threading
import time

import pytest

from injector.bus.writer import Writer
from injector.probe.points import defined
from injector.probe.stored import define_stored
from injector.store import series

_numbers = itertools.count(20_000_000)


@pytest.fixture
def name():
    name = f"injector:{next(_numbers)}"
    yield name
    for key in [k for k in vars(builtins) if k.startswith(name)]:
        del vars(builtins)[key]
    defined.pop(name, None)


@pytest.fixture
def writer(tmp_path):
    return Writer(str(tmp_path))


def define(name, writer, number=float):
    kept = []
    point = define_stored(name, series.SeriesFile(writer, "loss").grow, number, kept.append)
    return point, kept


def stored(folder):
    paths = sorted((folder / "raw").glob("*.values"))
    return [value for path in paths for _, value in series.read(str(path))[1]]


@pytest.mark.parametrize("count", [1, 4032, 4033, 20_000])
def test_values_are_stored_in_order_with_rising_times(count, name, writer, tmp_path):
    point, kept = define(name, writer)
    hook = vars(builtins)[name]
    for number in range(count):
        value = float(number)
        assert vars(builtins)[name](value) is value
    assert point.fired == count
    assert kept == []
    [path] = (tmp_path / "raw").glob("*.values")
    title, values = series.read(str(path))
    times, numbers = zip(*values, strict=True)
    assert title == "loss"
    assert list(numbers) == [float(n) for n in range(count)]
    assert list(times) == sorted(times)
    assert callable(hook)


def test_what_is_no_float_is_made_one_or_left_to_number(name, writer, tmp_path):
    point, _ = define(name, writer, lambda value: float(value) if isinstance(value, int) else None)
    for value in (1, 2.5, "text", 3):
        assert vars(builtins)[name](value) == value
    assert point.fired == 4
    assert stored(tmp_path) == [1.0, 2.5, 3.0]


def test_integers_and_truths_are_stored_where_a_float_holds_them(name, writer, tmp_path):
    asked = []
    point, _ = define(name, writer, asked.append)
    for value in (True, -(2**53), 10**400, False, 7):
        assert vars(builtins)[name](value) is value
    assert stored(tmp_path) == [1.0, -(2.0**53), 0.0, 7.0]
    assert asked == [] and point.fired == 5
    assert point.failures == {OverflowError}


def test_only_what_happens_while_active_is_stored(name, writer, tmp_path):
    state = {"now": None}
    point = define_stored(
        name, series.SeriesFile(writer, "loss").grow, float, print, lambda: state["now"]
    )
    for number in range(4):
        state["now"] = "here" if number % 2 else None
        assert vars(builtins)[name](float(number)) == number
    assert (stored(tmp_path), point.fired) == ([1.0, 3.0], 2)


def test_a_number_that_raises_does_not_reach_the_program(name, writer, tmp_path):
    point, _ = define(name, writer, lambda value: 1 / 0)
    assert vars(builtins)[name]("x") == "x"
    assert vars(builtins)[name](1.5) == 1.5
    assert point.fired == 2
    assert stored(tmp_path) == [1.5]


def test_without_room_the_values_go_elsewhere(name):
    kept = []

    def grow():
        raise OSError("no room")

    point = define_stored(name, grow, float, kept.append)
    for number in range(5):
        vars(builtins)[name](float(number))
    assert kept == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert point.fired == 5


def test_threads_lose_nothing_and_store_nothing_twice(name, writer, tmp_path):
    point, _ = define(name, writer)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:

        def work(number):
            for step in range(5000):
                vars(builtins)[name](float(number * 5000 + step))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert point.fired == 30_000
    assert sorted(stored(tmp_path)) == [float(n) for n in range(30_000)]


def test_a_forked_child_has_a_file_of_its_own(name, writer, tmp_path):
    point, _ = define(name, writer)
    vars(builtins)[name](1.0)
    child = os.fork()
    if child == 0:
        point.renew()
        vars(builtins)[name](2.0)
        os._exit(0)
    os.waitpid(child, 0)
    vars(builtins)[name](3.0)
    assert sorted(stored(tmp_path)) == [1.0, 2.0, 3.0]
    assert len(list((tmp_path / "raw").glob("*.values"))) == 2


def test_what_was_stored_survives_sigkill(name, writer, tmp_path):
    define(name, writer)
    reader, writing = os.pipe()
    child = os.fork()
    if child == 0:
        defined[name].renew()
        number = 0
        while True:
            vars(builtins)[name](float(number))
            number += 1
            if number % 1000 == 0:
                os.write(writing, b"k")
    for _ in range(20):
        os.read(reader, 1)
    time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    values = stored(tmp_path)
    assert len(values) >= 20_000
    assert values == [float(n) for n in range(len(values))]
