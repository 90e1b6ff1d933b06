"""``injector.region`` and ``injector.Timer`` in the program's own code."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pytest

import injector
from injector.measure import user
from injector.measure.timer import Timing


@pytest.fixture
def recorded(measured):
    user.record(user.RegionRecorder(measured.spans))
    return measured


def test_without_inject_nothing_happens():
    with injector.region("x"):
        pass

    @injector.region("x")
    def f(a, *, b=2):
        return a + b

    assert f(1) == 3 and f.__name__ == "f"


def test_a_part_of_the_program(recorded):
    for _ in range(2):
        with injector.region("load", phase="eval"):
            pass
    rows = recorded.rows()
    assert len(rows) == 2
    assert {row[3]["site"] for row in rows} == {1}
    site = rows[0][3]
    assert (site["region"], site["phase"], site["selector"]) == ("load", "eval", "injector.region")
    assert site["place"]["text"] == 'with injector.region("load", phase="eval"):'


def test_exceptions_pass_and_are_recorded(recorded):
    with pytest.raises(ValueError), injector.region("load"):
        raise ValueError
    assert len(recorded.rows()) == 1


def test_functions(recorded):
    @injector.region("f")
    def f(n):
        return f(n - 1) if n else 0

    @injector.region("g")
    def g(n):
        sent = yield n
        return sent

    @injector.region("h")
    async def h():
        await asyncio.sleep(0)
        return 5

    @injector.region("i")
    async def i():
        yield 6

    async def everything():
        return [value async for value in i()]

    assert f(2) == 0
    generator = g(1)
    assert next(generator) == 1
    with pytest.raises(StopIteration) as stop:
        generator.send(8)
    assert stop.value.value == 8
    assert asyncio.run(h()) == 5
    assert asyncio.run(everything()) == [6]
    regions = [row[3]["region"] for row in recorded.rows()]
    assert regions == ["f", "f", "f", "g", "h"]
    texts = [row[3]["place"]["text"] for row in recorded.rows()]
    assert texts[:4] == ["return f(n - 1) if n else 0"] * 2 + [
        "assert f(2) == 0",
        "assert next(generator) == 1",
    ]


def test_one_region_in_itself(recorded):
    part = injector.region("x")
    with part, part:
        pass
    first, second = recorded.rows()
    assert second[0] <= first[0] <= first[1] <= second[1]


def test_begun_before_the_record(measured):
    with injector.region("x"):
        user.record(user.RegionRecorder(measured.spans))
    with injector.region("y"):
        user.record(None)
    assert not list(Path(measured.writer.folder).rglob("*.spans"))


def test_statistics():
    timing = Timing([1, 2, 3])
    assert (timing.n, timing.min, timing.mean, timing.median, timing.max) == (3, 1, 2, 2, 3)
    assert (timing.stdev, timing.total) == (1, 6)
    assert Timing([4]).stdev == 0
    assert Timing([1, 2]).median == 1.5
    assert repr(Timing([4.0])) == "Timing(n=1, min=4.0, mean=4.0, median=4.0, max=4.0, stdev=0.0)"


def test_a_timer():
    timer = injector.Timer()
    for _ in range(3):
        timer.start("load")
        timer.start("inner")
        timer.end("inner")
        timer.end("load")
    load, inner = timer.statistics("load"), timer.statistics("inner")
    assert load.n == inner.n == 3
    assert 0 <= inner.total <= load.total
    assert timer.keys() == ["inner", "load"]


def test_a_timers_mistakes():
    timer = injector.Timer()
    with pytest.raises(ValueError, match="'x' was not started"):
        timer.end("x")
    timer.start("x")
    with pytest.raises(ValueError, match="'x' was already started"):
        timer.start("x")
    timer.end("x")
    with pytest.raises(ValueError, match="'x' was not started"):
        timer.end("x")
    with pytest.raises(ValueError, match=r"^'y' was not timed$"):
        timer.statistics("y")
    with pytest.raises(ValueError, match=r"^'x' was not timed by the clock of a device"):
        timer.statistics("x", device=True)
    with pytest.raises(ValueError, match="no device"):
        timer.start("x", device=True)
    assert pickle.loads(pickle.dumps(timer)).statistics("x").n == 1


@pytest.mark.parametrize("ranks", ["0", [-1], ["0"], [True], [0.0]])
def test_ranks_are_numbers(ranks):
    with pytest.raises(ValueError, match="ranks are numbers from 0"):
        injector.Timer(ranks=ranks)


@pytest.mark.parametrize(
    ("named", "phase", "says"),
    [
        ("", None, "a region has a name"),
        (3, None, "a region has a name"),
        ("x", "evaluate", "phase is"),
    ],
)
def test_a_region_with_a_wrong_name_or_phase(named, phase, says):
    with pytest.raises(ValueError, match=says):
        injector.region(named, phase=phase)


def test_the_devices_time_is_kept_apart(gpu):
    timer = injector.Timer()
    timer.start("x")
    timer.start("x", device=True)
    gpu.work(3_000_000_000)
    timer.end("x", device=True)
    timer.end("x")
    assert timer.keys(device=True) == []
    gpu.finish()
    assert timer.statistics("x", device=True).total == 3
    assert timer.statistics("x").n == 1
