"""Regions of the calls of methods: what is timed, what counts, and that the program never notices."""

from __future__ import annotations

import ast
import builtins
import sys
import textwrap
import threading
import traceback

import pytest

from injector.errors import UserError
from injector.measure import marks
from injector.measure.measures import Measures
from injector.measure.regions import Region, RegionHooks
from injector.probe import points
from injector.rewrite.method_calls import MethodCalls, hook_of
from injector.rewrite.transform import rewrite

PLAIN = """
class Box:
    def __init__(self, place="host", size=3):
        self.place, self.size = place, size
    def move(self, place, *, fail=False, during=None):
        if during is not None:
            during()
        if fail:
            raise ValueError(place)
        return Box(place, self.size)
def run(box, place="device", **more):
    return box.move(place, **more)
def twice(box, place="device"):
    return box.move(place).move(other(place))
def other(place):
    return Box().move(place).place
"""


class Moved:
    """A program with the calls of its methods hooked, as the rewriter leaves them."""

    def __init__(self, measured):
        self.measured = measured
        self.names = []

    def region(self, name, method="move", **message):
        region = RegionHooks(Region(name, **message), self.measured.spans)
        hook = f"injector:moved.{len(self.names)}"
        region.define_method(method, hook_of(method), hook, "." + method)
        self.names.append(hook)
        return hook

    def program(self, source=PLAIN):
        source = textwrap.dedent(source)
        requests = MethodCalls(["move", "bit_length"]).requests(
            compile(source, "train.py", "exec"), "m"
        )
        tree = ast.parse(source, "train.py")
        rewrite(tree, requests, module="m", filename="train.py", source=source)
        space = {"__name__": "__main__"}
        exec(compile(tree, "train.py", "exec"), space)
        return space

    def rows(self, region=None):
        return self.measured.rows(region)


@pytest.fixture
def moved(measured):
    for method in ("move", "bit_length"):
        for name in (hook_of(method), hook_of(method) + "="):
            vars(builtins)[name] = lambda value: value
    made = Moved(measured)
    yield made
    for name in made.names:
        points.undefine(name)
        points.defined.pop(name, None)
    for method in ("move", "bit_length"):
        for name in (hook_of(method), hook_of(method) + "="):
            vars(builtins).pop(name)


def on_host(self):
    return self.place == "host"


def on_device(result):
    return result.place == "device"


def test_calls_that_count_are_spans_of_their_line(moved):
    moved.region("h2d", when=[on_host, on_device], nbytes=lambda result: result.size)
    space = moved.program()
    box = space["Box"]()
    there = space["run"](box)
    assert there.place == "device"
    space["run"](box, "host")  # nothing moved
    space["run"](there)  # it was not there
    [(start, end, nbytes, site)] = moved.rows()
    assert end >= start and nbytes == 3
    assert (site["region"], site["payload"], site["selector"]) == ("h2d", "bytes", ".move")
    assert (site["place"]["line"], site["place"]["function"]) == (12, "run")
    assert points.defined[moved.names[0]].fired == 3
    assert moved.measured.failures == []


def test_what_functions_are_called_with(moved):
    seen = []
    moved.region(
        "a",
        of=lambda self: seen.append(("of", self.place)) or self,
        what=lambda self: f"box of {self.size}",
        phase=lambda: "train",
        when=[lambda: True, lambda self, result: (self.place, result.place) == ("host", "device")],
        items=lambda self, result: self.size + result.size,
    )
    space = moved.program()
    space["run"](space["Box"]())
    space["run"](space["Box"](), "host")
    [(_, _, items, site)] = moved.rows()
    assert (items, site["what"], site["phase"], site["payload"]) == (
        6,
        "box of 3",
        "train",
        "items",
    )
    assert site["of"] is not None and seen == [("of", "host")]


def test_what_depends_on_the_result_alone(moved):
    moved.region("a", what=lambda result: f"to {result.place}", phase=lambda result: "eval")
    space = moved.program()
    space["run"](space["Box"](), "here")
    [(_, _, _, site)] = moved.rows()
    assert (site["what"], site["phase"]) == ("to here", "eval")


def test_what_depends_on_the_subject_alone(moved):
    moved.region(
        "a", what=lambda self: f"from {self.place}", when=lambda self: self.place != "nowhere"
    )
    space = moved.program()
    space["run"](space["Box"]("there"))
    space["run"](space["Box"]("nowhere"))
    [(_, _, _, site)] = moved.rows()
    assert site["what"] == "from there"


def test_only_the_call_itself_is_timed(moved):
    """The span of the outer call holds nothing of its arguments, in which another one ends."""
    moved.region("a")
    space = moved.program()
    space["twice"](space["Box"]())
    lines = [(row[3]["place"]["line"], row[0], row[1]) for row in moved.rows()]
    assert [line for line, _, _ in lines] == [14, 16, 14]
    (_, _, first_end), (_, inner_start, inner_end), (_, start, _) = lines
    assert first_end <= inner_start <= inner_end <= start


def test_a_call_that_raises_is_the_programs_own(moved):
    moved.region("a", when=on_host)
    space = moved.program()
    with pytest.raises(ValueError) as caught:
        space["run"](space["Box"](), fail=True)
    frames = [frame.name for frame in traceback.extract_tb(caught.tb)]
    assert frames == ["test_a_call_that_raises_is_the_programs_own", "run", "move"]
    assert moved.rows() == []
    # What it left open is not taken for the next call's, which does not count.
    space["run"](space["Box"]("elsewhere"))
    assert moved.rows() == []
    space["run"](space["Box"]())
    assert len(moved.rows()) == 1


def test_no_frame_of_ours_lies_between(moved):
    moved.region("a")
    space = moved.program()
    callers = []
    space["run"](space["Box"](), during=lambda: callers.append(sys._getframe(2).f_code.co_name))
    assert callers == ["run"] and len(moved.rows()) == 1


def test_methods_of_c_and_no_methods(moved):
    moved.region("a", "bit_length", items=lambda result: result)

    class Odd:
        bit_length = staticmethod(lambda: 7)

        def __getattr__(self, name):
            raise AssertionError("nobody asks it for anything")

    source = "def f(n): return n.bit_length()\n"
    f = moved.program(source)["f"]
    assert f(5) == 3 and f(Odd()) == 7
    assert [row[2] for row in moved.rows()] == [3]
    with pytest.raises(AttributeError):
        f("text")


def test_several_regions_of_one_method(moved):
    moved.region("first", when=on_device, items=1)
    second = moved.region("second", items=2)
    space = moved.program()
    assert space["run"](space["Box"]()).place == "device"
    inner, outer = (moved.rows(name)[0] for name in ("first", "second"))
    assert outer[0] <= inner[0] <= inner[1] <= outer[1]
    points.undefine(second)
    space["run"](space["Box"]())
    assert (len(moved.rows("first")), len(moved.rows("second"))) == (2, 1)
    points.silence()
    space["run"](space["Box"]())
    assert len(moved.rows()) == 3


def test_calls_inside_of_another_call_of_the_region(moved, measured):
    moved.region("h2d", outermost=True)
    send = measured.function(
        """
        def send(run, box):
            try:
                ENTER
                return run(box)
            finally:
                EXIT
        """,
        "h2d",
        outermost=True,
    )
    space = moved.program()
    send(space["run"], space["Box"]())
    space["run"](space["Box"]())
    assert [row[3]["selector"] for row in moved.rows()] == ["//h2d", ".move"]


def test_threads_do_not_meet(moved):
    moved.region("a", items=lambda result: result.size)
    space = moved.program()
    box, meet = space["Box"], threading.Barrier(4, timeout=60)

    def work(size):
        for _ in range(50):
            space["run"](box(size=size), during=meet.wait)

    threads = [threading.Thread(target=work, args=(size,)) for size in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    rows = moved.rows()
    by_thread = {}
    for row in rows:
        by_thread.setdefault(row[3]["thread"], set()).add(row[2])
    assert len(rows) == 200 and sorted(map(sorted, by_thread.values())) == [[1], [2], [3], [4]]


def test_a_function_that_raises_costs_its_answer(moved):
    moved.region("a", nbytes=lambda result: result.nothing)
    moved.region("b", when=lambda self: self.nothing)
    space = moved.program()
    for _ in range(3):
        assert space["run"](space["Box"]()).place == "device"
    assert [(row[3]["region"], row[2]) for row in moved.rows()] == [("a", 0)] * 3
    assert (
        sorted(type(error).__name__ for error in moved.measured.failures) == ["AttributeError"] * 2
    )


def test_time_of_the_device(moved, gpu, monkeypatch):
    monkeypatch.setattr(marks, "PATIENCE_NS", 0)
    moved.region("h2d", when=[on_host, on_device], nbytes=8, device=True)
    space = moved.program()
    box = space["Box"]()
    space["run"](box, during=lambda: gpu.work(700))
    space["run"](box, "host", during=lambda: gpu.work(50))
    assert len(gpu.freed) == 1, "an event before a call that did not count goes back"
    gpu.finish()
    moved.measured.spans.marks.close()
    host, device = sorted(moved.rows(), key=lambda row: row[3]["clock"] == "device")
    assert (device[1] - device[0], device[2], host[2]) == (700, host[0], 8)
    assert (device[3]["clock"], device[3]["device"], host[3]["clock"]) == (
        "device",
        "fake:0",
        "host",
    )
    assert moved.measured.writer.lost == 0


def test_what_cannot_be_said_of_a_method(measured):
    hooks = RegionHooks(Region("a", nbytes=lambda device: 1), measured.spans)
    with pytest.raises(UserError, match=r"region 'a' of \.move: .*self and result, not 'device'"):
        hooks.define_method("move", hook_of("move"), "injector:x", ".move")
    asked = []
    measures = Measures(
        lambda where, **how: asked.append(how), measured.writer, asked.append, print
    )
    measures.value(".move", "loss", get=lambda result: 1)
    with pytest.raises(
        UserError, match=r"of the calls of a method, \.move, there are regions only"
    ):
        asked[0]["calls"].define_method("move", hook_of("move"), "injector:x", ".move")


def test_conditions_of_a_function(measured):
    """A list of conditions, some known at the begin and some at the end, serves functions as well."""
    text = """
    def work(x):
        try:
            ENTER
            return VALUE(x * 2)#
        finally:
            EXIT
    """
    conditions = [lambda x: x > 1, lambda x: x < 9, lambda result: result != 6]
    work = measured.function(text, "a", when=conditions, items=lambda result: result)
    assert [work(x) for x in (1, 2, 3, 4, 9)] == [2, 4, 6, 8, 18]
    assert [row[2] for row in measured.rows()] == [4, 8]
