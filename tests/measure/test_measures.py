"""What the fast API asks for, and what it records."""

from __future__ import annotations

import pytest

from injector.errors import UserError
from injector.measure import device, regions, user, values
from injector.measure.measures import Measures
from injector.probe import points
from injector.store import spans


class Recorder:
    folder = None

    def __init__(self):
        self.events = []
        self.lost = 0
        self.memory = bytearray(1 << 12)

    def emit(self, event, data):
        self.events.append((event, data))

    def emit_values(self, series, t_ns, value):
        assert t_ns > 0
        self.events.append((series, value))

    def series(self, name):
        class Full:
            def grow(self):
                raise OSError

        return Full()

    def spans(self):
        memory = self.memory

        class Once:
            grow = staticmethod(lambda: memoryview(memory))
            head = staticmethod(lambda: None)

        return Once

    def lose(self, records, error):
        self.lost += records

    @property
    def rows(self):
        """Start, end, payload, and what was told of the site."""
        sites = {data["site"]: data for event, data in self.events if event == "site"}
        rows = memoryview(self.memory).cast("q")
        found = [rows[at : at + 4].tolist() for at in range(0, len(rows), 4)]
        return [(*row[:3], sites[row[3]]) for row in found if row[3]]


@pytest.fixture
def recorder(monkeypatch):
    """A recorder whose files are in memory."""
    monkeypatch.setattr(regions, "SpanFile", lambda recorder: recorder.spans())
    monkeypatch.setattr(values, "SeriesFile", lambda recorder, name: recorder.series(name))
    return Recorder()


@pytest.fixture
def requests(recorder, monkeypatch):
    """Measures, with what they asked for; what went wrong is an event of the recorder's."""
    found = []
    monkeypatch.setattr(points, "on_silence", lambda: None)
    measures = Measures(
        lambda where, **how: found.append((where, how)),
        recorder,
        lambda error: recorder.events.append(("failure", str(error))),
        print,
    )
    yield measures, found
    user.record(None)
    device.use(None)


class Device:
    def __init__(self, value, type):
        self.value = value
        self.device = type
        self.reads = 0

    def detach(self):
        return self

    def __float__(self):
        self.reads += 1
        return float(self.value)


@pytest.mark.parametrize(
    ("where", "name", "task", "series"),
    [
        ("//main > loss", None, None, "loss"),
        ("//main > loss", "error", "train", "train/error"),
        ("/pkg.mod/f() as r", None, None, "r"),
        ("//f(x, !loss)", "loss", None, "loss"),
        (len, None, None, "len"),
    ],
)
def test_names_of_series(where, name, task, series, requests, recorder):
    measures, found = requests
    measures.value(where, name, task=task)
    [(_, how)] = found
    how["store"].put(2)
    assert recorder.events == [(series, 2.0)]


def test_values_of_all_kinds(requests, recorder):
    measures, found = requests
    measures.value("//f > x")
    store = found[0][1]["store"]
    for value in (1, 2.5, True, "text", None, Device(3, "cpu")):
        store.put(value)
    assert recorder.events == [
        ("x", 1.0), ("x", 2.5), ("x", 1.0), ("x", "'text'"), ("x", 3.0),
    ]  # fmt: skip


def test_what_is_on_a_device_without_a_clock_is_read_when_the_run_ends(requests, recorder):
    measures, found = requests
    measures.value("//f > x")
    there = Device(5, "cuda")
    found[0][1]["store"].put(there)
    assert (recorder.events, there.reads) == ([], 0)
    measures.end_measuring()
    assert (recorder.events, there.reads) == ([("x", 5.0)], 1)


def test_a_value_out_of_calls(requests, recorder, monkeypatch):
    def full():
        raise OSError("no room: it goes into the log")

    room = type("Series", (), {"grow": staticmethod(full)})
    monkeypatch.setattr(recorder, "series", lambda name: room, raising=False)
    measures, found = requests
    measures.value("//f", "norm", task="train", get=lambda self, result: self * result)
    [(_, how)] = found
    calls = how["calls"]
    assert calls.variables == ("#value",) and calls.captures("#value") == ("self",)
    _, hooks = calls.make({"#value": "injector:value"}, "//f", "")
    assert hooks["#value"](3, 4) == 3
    measures.value("//f", "size", get=lambda self: self)
    _, hooks = found[1][1]["calls"].make({"#enter": "injector:enter"}, "//f", "")
    hooks["#enter"](True, 7)
    hooks["#enter"](True, None)
    assert recorder.events == [("train/norm", 12.0), ("size", 7.0)]
    with pytest.raises(UserError, match="value 'x' of '//f': <built-in function len> does not say"):
        measures.value("//f", "x", get=len)


def test_a_step_is_a_region_with_a_task(requests):
    measures, found = requests
    measures.step("//f", task="train", items=32, phase="train", device=False)
    [(where, how)] = found
    region = how["calls"].region
    assert (where, region.name, region.task) == ("//f", "step", "train")
    with pytest.raises(UserError, match="region 'forward' of '//f'"):
        measures.region("//f", "forward", items=len)


def test_a_device_that_is_none(requests, recorder):
    measures, _ = requests
    with pytest.raises(UserError, match="region 'forward' of '//f': device is True, a device of"):
        measures.region("//f", "forward", device="gpu")
    with pytest.raises(UserError, match="loader of '//f > x': device is True, a device of PyTorch"):
        measures.loader("//f > x", device="gpu")


def test_a_loaders_steps(requests, recorder):
    measures, found = requests
    measures.loader("//main > loader")
    [(_, how)] = found
    assert how["override"]
    loader = how["direct"]([[1, 2], [3, 4]])
    for _ in loader:
        pass
    rows = recorder.rows
    assert [row[3]["region"] for row in rows] == ["io", "step", "io", "step", "io.end"]
    for fetch, step in (rows[:2], rows[2:4]):
        assert fetch[0] == step[0] <= fetch[1] <= step[1]
        assert spans.unpack(fetch[2]) == spans.unpack(step[2]) == (2, 0)
    assert {row[3]["place"]["text"] for row in rows} == {"for _ in loader:"}
    assert {(row[3]["of"], row[3]["what"], row[3]["task"]) for row in rows} == {
        (1, "list", "train")
    }


def test_a_body_that_is_left_is_no_step(requests, recorder):
    measures, found = requests
    measures.loader("//main > loader", phase="eval")
    for _ in found[0][1]["direct"]([[1, 2], [3, 4]]):
        break
    assert [(row[3]["region"], row[3]["phase"]) for row in recorder.rows] == [("io", "eval")]


def test_a_batch_that_cannot_be_counted(requests, recorder):
    measures, found = requests
    measures.loader("//main > loader", items=lambda batch: batch["n"])
    assert list(found[0][1]["direct"]([1, {"n": 3}])) == [1, {"n": 3}]
    assert [spans.unpack(row[2])[0] for row in recorder.rows] == [0, 0, 3, 3, 0]
    assert ("failure", "'int' object is not subscriptable") in recorder.events


def test_a_broken_loader_says_what_it_said(requests, recorder):
    measures, found = requests
    measures.loader("//main > loader")

    def broken():
        yield [1]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(found[0][1]["direct"](broken()))
    assert [row[3]["region"] for row in recorder.rows] == ["io", "step", "io.end"]
