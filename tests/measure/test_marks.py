"""Device time: rows like others, once the device has passed their events; nobody waits."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest

from injector.measure import device, late, marks
from injector.measure.late import Late
from injector.measure.marks import Timeline
from injector.probe import compiled

PLAIN = """
def work(x=None):
    try:
        ENTER
        x()
        return None
    finally:
        EXIT
"""


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(marks, "PATIENCE_NS", 0)
    monkeypatch.setattr(late, "PATIENCE_NS", 0)


def on_device(measured):
    return [row for row in measured.rows() if row[3]["clock"] == "device"]


def test_a_span_of_the_device(measured, gpu):
    work = measured.function(PLAIN, "forward", device=True, items=8)
    for nanoseconds in (500, 2_000):
        work(partial(gpu.work, nanoseconds))
    assert on_device(measured) == []
    gpu.finish()
    measured.spans.marks.close()
    [first, second] = on_device(measured)
    host = [row for row in measured.rows() if row[3]["clock"] == "host"]
    assert first[3] == {
        **host[0][3], "site": 2, "clock": "device", "device": "fake:0", "payload": "start"
    }  # fmt: skip
    assert (first[1] - first[0], second[1] - second[0]) == (500, 2_000)
    assert [first[2], second[2]] == [row[0] for row in host]
    assert measured.writer.lost == 0


RETURNS = PLAIN.replace("x()\n        return None", "return VALUE(x())#")


def test_the_event_of_a_call_whose_result_does_not_count_goes_back(measured, gpu):
    work = measured.function(RETURNS, "forward", device=True, when=lambda result: result)
    work(lambda: gpu.work(500) or False)
    assert len(gpu.freed) == 1
    work(lambda: gpu.work(700) or True)
    gpu.finish()
    measured.spans.marks.close()
    [row] = on_device(measured)
    assert row[1] - row[0] == 700


def test_what_is_never_ready_is_counted(measured, gpu):
    work = measured.function(PLAIN, "forward", device=True)
    for _ in range(3):
        work(lambda: gpu.work(1))
    gpu.passed = gpu.now - 1  # all but the last
    measured.spans.marks.close()
    assert len(on_device(measured)) == 2
    assert (measured.writer.lost, measured.writer.why) == (1, "NotReadyError")


def test_waiting_spans_are_bounded(measured, gpu, monkeypatch):
    monkeypatch.setattr(marks, "MOST", 10)
    work = measured.function(PLAIN, "forward", device=True)
    for _ in range(25):
        work(lambda: gpu.work(1))
    gpu.finish()
    measured.spans.marks.close()
    assert len(on_device(measured)) == 10
    assert measured.writer.lost == 15


def test_they_are_written_while_the_program_runs(measured, gpu):
    work = measured.function(PLAIN, "forward", device=True)
    for _ in range(100):
        work(lambda: gpu.work(5))
        gpu.finish()
    assert len(on_device(measured)) >= 60
    assert len(gpu.freed) >= 2 * 60 - 1


def test_without_a_device_there_is_only_the_host(measured):
    work = measured.function(PLAIN, "forward", device=True)
    work(lambda: None)
    measured.spans.marks.close()
    assert [row[3]["clock"] for row in measured.rows()] == ["host"]


def test_a_broken_or_busy_device_stops_nothing(measured, gpu):
    work = measured.function(PLAIN, "forward", device=True)
    gpu.busy = True  # a graph is captured
    work(lambda: None)
    gpu.busy = False
    work(lambda: gpu.work(1))
    gpu.broken = True
    work(lambda: None)
    measured.spans.marks.close()
    gpu.broken = False
    measured.spans.marks.close()
    assert len(measured.rows()) == 3
    assert measured.failures == []
    assert measured.writer.lost == 1


def test_the_devices_time_on_the_hosts_clock(gpu):
    def span(begin, end, requested, seen):
        return line.span(([begin], requested[0]), ([end], requested[1]), seen)

    line = Timeline(gpu, first := [1_000], 50_000)
    line.span((first, 50_000), ([1_500], 50_100), 99_000)
    assert gpu.freed == [[1_500]]  # the first one is measured from
    assert span(3_000, 3_100, (51_000, 51_000), 99_000) == (52_000, 52_100)
    # It cannot have been passed before it was requested: the first event was passed later than thought.
    assert span(3_200, 3_500, (52_200, 60_000), 99_000) == (59_700, 60_000)
    assert span(3_600, 3_700, (50_000, 50_000), 99_000) == (60_100, 60_200)
    # Nor after it was seen to have been passed.
    assert span(8_900, 9_000, (50_000, 50_000), 61_000) == (60_900, 61_000)
    far = 10**9
    assert span(9_000, 9_000 + far, (0, 0), 2 * far) == (61_000, 61_000 + far)
    assert first in gpu.freed and [9_000 + far] not in gpu.freed
    # Of what lies so far apart, as much is given up as clocks may have drifted.
    drift = (8_000 + far) // 20_000
    assert span(9_100 + far, 9_200 + far, (0, 0), 3 * far)[1] == 61_200 + far - drift
    assert len({id(event) for event in gpu.freed}) == len(gpu.freed)


def test_a_clock_is_only_found_where_a_device_is_used(monkeypatch):
    import sys
    from types import SimpleNamespace as Space

    device.forget()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert device.clock() is None
    cuda = Space(is_initialized=lambda: used, Event=object)
    monkeypatch.setitem(sys.modules, "torch", Space(cuda=cuda))
    used = False
    assert device.clock() is None
    used = True
    found = device.clock()
    assert isinstance(found, device.TorchClock) and device.clock() is found
    device.forget()
    used = False
    assert device.clock() is None


def test_events_of_torch_are_used_again():
    class Event:
        made = 0

        def __init__(self, enable_timing):
            assert enable_timing
            Event.made += 1

        def record(self):
            self.at = 5

        def query(self):
            return True

        def elapsed_time(self, other):
            return 0.25

    class Backend:
        @staticmethod
        def current_device():
            return 1

        @staticmethod
        def is_current_stream_capturing():
            return capturing

    Backend.Event = Event
    clock = device.TorchClock("cuda", Backend)
    capturing = False
    first, second = clock.mark(), clock.mark()
    assert clock.ready(first) and clock.elapsed_ns(first, second) == 250_000
    assert clock.device(first) == "cuda:1"
    clock.free(first)
    clock.free(second)
    clock.mark()
    assert Event.made == 2
    capturing = True
    assert clock.mark() is None


class Value:
    """A tensor of one element."""

    def __init__(self, value):
        self.value = value
        self._version = 0

    def detach(self):
        return self

    def __float__(self):
        return float(self.value)


@pytest.fixture
def values(monkeypatch):
    monkeypatch.setattr(late, "_GLANCE_NS", -1)
    written, lost, failures = [], [], []
    made = Late(
        lambda series, t_ns, value: written.append((series, value)),
        lambda records, error: lost.append(records),
        failures.append,
    )
    made.written, made.lost, made.failures = written, lost, failures
    return made


def test_values_are_read_when_the_device_has_passed_them(values, gpu):
    for n in range(3):
        gpu.work(1)
        values.keep("loss", Value(n))
    assert values.written == []
    gpu.passed = 1_001  # the first
    values.keep("loss", Value(3))
    assert values.written == [("loss", 0.0)]
    gpu.finish()
    values.close()
    assert values.written == [("loss", float(n)) for n in range(4)]
    assert values.lost == []


def test_values_that_never_come_are_counted(values, gpu):
    gpu.work(1)
    values.keep("loss", Value(1))
    values.close()
    assert (values.written, values.lost) == ([], [1])


def test_a_value_that_was_changed_in_place(values, gpu):
    total = Value(1)
    values.keep("total", total)
    total._version += 1
    gpu.finish()
    values.close()
    assert values.written == []
    assert [str(e) for e in values.failures] == [
        "a value was changed in place before it could be read"
    ]


def test_waiting_values_are_bounded(values, gpu, monkeypatch):
    monkeypatch.setattr(late, "MOST", 5)
    gpu.work(1)
    for n in range(10):
        values.keep("loss", Value(n))
    gpu.finish()
    values.close()
    assert len(values.written) == 6  # five waited for an event to come, one for its own
    assert values.lost == [1] * 4


def test_a_broken_device_is_a_failure_once_it_is_read(values, gpu):
    values.keep("loss", Value(1))
    gpu.broken = True
    values.keep("loss", Value(2))
    values.close()
    assert values.written == []
    assert values.failures and sum(values.lost) == 2


def test_in_a_forked_child_nothing_waits(measured, gpu):
    work = measured.function(PLAIN, "forward", device=True)
    work(lambda: gpu.work(1))
    child = os.fork()
    if not child:
        measured.spans.renew()
        os._exit(len(measured.spans.marks._waiting))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Backend:
    """What a clock needs of ``torch.cuda``."""

    class Event:
        pass

    mode = 0

    def __init__(self):
        self.read = []

    def Stream(self, device):
        return device

    def stream(self, stream):
        return nullcontext(stream)

    def get_sync_debug_mode(self):
        return self.mode

    def set_sync_debug_mode(self, mode):
        self.mode = mode


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_a_program_that_forbids_waiting_sees_nothing_of_our_reading(mode):
    backend = Backend()
    backend.mode = mode
    clock = device.TorchClock("cuda", backend)

    class Place:
        index = 0

    class Value:
        device = Place()

        def __float__(self):
            backend.read.append(backend.mode)
            return 1.5

    class Broken(Value):
        def __float__(self):
            raise RuntimeError

    assert clock.numbers([Value(), Value()]) == [1.5, 1.5]
    assert (backend.read, backend.mode) == ([0, 0], mode)
    with pytest.raises(RuntimeError):
        clock.numbers([Broken()])
    assert backend.mode == mode


FORKED = """
import gc, os, sys
from types import SimpleNamespace
from injector.measure import device
from injector.measure.late import Late
from injector.measure.marks import Marks

class Thing:
    def __init__(self, enable_timing=True):
        self.made_by = os.getpid()

    def record(self):
        pass

    def query(self):
        return False

    def __del__(self):
        if os.getpid() != self.made_by:
            os.abort()

backend = SimpleNamespace(Event=Thing, current_device=lambda: 0, is_current_stream_capturing=bool)
clock = device.TorchClock("cuda", backend)
device.known[:] = [clock]
marks = Marks(None, None, lambda *lost: None)
late = Late(None, None, None)
clock.free(clock.mark())
begun = marks.mark()
marks.span(marks.mark(), 0, 0)
late.keep("loss", Thing())
late.keep("loss", Thing())
child = os.fork()
if child == 0:
    marks.renew()
    late.renew()
    if {leaves_all!r}:
        del begun, clock, marks, late
        device.known.clear()
        gc.collect()
    sys.exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, len(device._held), len(device._events[0]))
"""


@pytest.mark.parametrize("leaves_all", [True, False])
def test_the_child_of_a_fork_destroys_no_event_of_its_parent(leaves_all):
    """CUDA ends a process that does: here, destroying one aborts."""
    program = FORKED.replace("{leaves_all!r}", repr(leaves_all))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0 0 4\n", "")


def test_no_event_is_queried_while_a_graph_is_recorded():
    """CUDA refuses that, and the recording fails."""
    seen = []
    event = SimpleNamespace(query=lambda: seen.append(1) or True)
    backend = SimpleNamespace(Event=object, is_current_stream_capturing=lambda: capturing)
    clock = device.TorchClock("cuda", backend)
    capturing = True
    assert not clock.ready((event, 0))
    assert not seen
    capturing = False
    assert clock.ready((event, 0))


class SlowDevice:
    """A device of which each event costs 1 ms of the program's time, by a clock of the test's."""

    def __init__(self, monkeypatch):
        self.now = self.marked = 0
        monkeypatch.setattr(marks, "perf_counter_ns", lambda: self.now)

    def mark(self):
        self.now += 1_000_000
        self.marked += 1
        return [self.now]

    def ready(self, event):
        return False

    def free(self, event):
        pass


def test_sampled_marks_cost_next_to_nothing(monkeypatch):
    gpu = SlowDevice(monkeypatch)
    sampled = marks.SampledMarks(None, None, lambda *lost: None, lambda: gpu)
    spent = []
    for _ in range(200_000):  # calls of 1 ms
        before, marked = gpu.now, gpu.marked
        begin = sampled.mark()
        gpu.now += 1_000_000
        if begin is not None:
            sampled.span(begin, 0, 0)
            assert gpu.marked == marked + 2  # what has a begin has an end
        spent.append(gpu.now - before - 1_000_000)
    assert sum(spent) - marks.EARLY_NS <= 0.004 * gpu.now
    timed = [at for at, cost in enumerate(spent) if cost]
    assert len(timed) > 20  # again and again
    assert timed[:2] == [0, 1] and timed[2] > 20
    assert any(after == at + 1 for at, after in itertools.pairwise(timed))


def test_calls_of_a_pause_are_not_marked(measured, gpu, monkeypatch):
    """What is compiled does not even call it."""
    marked = []
    monkeypatch.setattr(marks.SampledMarks, "mark", lambda self: marked.append(self))
    work = measured.function(PLAIN, "forward", device="sampled")
    sampled = measured.spans.sampled
    for pauses_until, calls in ((0, 3), (2**62, 0), (0, 3)):
        sampled.pauses_until = pauses_until
        marked.clear()
        for _ in range(3):
            work(int)
        assert len(marked) == (calls if compiled.NATIVE else 3)
    assert len(measured.rows("forward")) == 9


def test_a_fork_marks_from_the_first_call_on(monkeypatch):
    gpu = SlowDevice(monkeypatch)
    sampled = marks.SampledMarks(None, None, lambda *lost: None, lambda: gpu)
    while sampled.mark() is not None:
        pass
    sampled.renew()
    assert sampled.mark() is not None


def test_numbers_of_a_kind_are_read_at_once():
    torch = pytest.importorskip("torch")
    values = [torch.tensor(1.5), torch.tensor([2]), torch.tensor([[3.5]]), torch.tensor(True)]
    values += [torch.tensor(0.25, dtype=torch.bfloat16), torch.tensor([2**53 + 1])]
    assert device.together(values) == [float(value) for value in values]
    assert device.together([]) == []
