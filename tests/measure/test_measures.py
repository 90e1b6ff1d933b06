"""What the fast API asks for, and what it records."""

from __future__ import annotations

import pytest

from injector.measure.measures import Measures


class Recorder:
    def __init__(self):
        self.events = []

    def emit(self, event, data):
        self.events.append((event, data))

    def emit_values(self, series, t_ns, value):
        assert t_ns > 0
        self.events.append((series, value))

    def series(self, name):
        class Full:
            grow = staticmethod(lambda: 1 / 0)

        return Full


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def asked(recorder):
    """Measures, with what they asked for."""
    found = []
    measures = Measures(lambda where, **how: found.append((where, how)), recorder)
    return measures, found


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
def test_names_of_series(where, name, task, series, asked, recorder):
    measures, found = asked
    measures.value(where, name, task)
    [(_, how)] = found
    how["store"].put(2)
    assert recorder.events == [(series, 2.0)]


def test_values_of_all_kinds(asked, recorder):
    measures, found = asked
    measures.value("//f > x", None, None)
    store = found[0][1]["store"]
    for value in (1, 2.5, True, "text", None, Device(3, "cpu")):
        store.put(value)
    assert recorder.events == [
        ("x", 1.0), ("x", 2.5), ("x", 1.0), ("x", "'text'"), ("x", "None"), ("x", 3.0),
    ]  # fmt: skip


def test_what_is_on_a_device_is_read_when_the_run_ends(asked, recorder):
    measures, found = asked
    measures.value("//f > x", None, None)
    there = Device(5, "cuda")
    found[0][1]["store"].put(there)
    assert (recorder.events, there.reads) == ([], 0)
    measures.close()
    assert (recorder.events, there.reads) == ([("x", 5.0)], 1)


def test_a_region_is_one_event_a_call(asked, recorder):
    measures, found = asked
    measures.region("//f", "forward")
    [(where, how)] = found
    assert where == "//f"
    how["direct"](True)
    how["direct"](True)  # it calls itself
    how["end"](True)
    how["end"](True)
    inner, outer = (data["seconds"] for _, data in recorder.events)
    assert 0 < inner < outer
    assert {data["region"] for _, data in recorder.events} == {"forward"}


@pytest.mark.parametrize(("items", "units"), [(None, "steps/s"), (32, "items/s")])
def test_a_step_has_a_rate(items, units, asked, recorder):
    measures, found = asked
    measures.step("//f", "train", items)
    found[0][1]["direct"](True)
    found[0][1]["end"](True)
    [(event, data)] = recorder.events
    assert (event, data["task"], data["units"]) == ("data", "train", units)
    assert data["rate"] == pytest.approx((items or 1) / data["elapsed"])


def test_a_loaders_steps(asked, recorder):
    measures, found = asked
    measures.loader("//main > loader", "train", None)
    [(_, how)] = found
    assert how["override"]
    for _ in how["direct"]([[1, 2], [3, 4]]):
        pass
    for _, data in recorder.events:
        assert data["batch_size"] == 2 and data["units"] == "items/s"
        assert 0 <= data["io"] <= data["elapsed"]
        assert data["rate"] == pytest.approx(2 / data["elapsed"])
    assert len(recorder.events) == 2
