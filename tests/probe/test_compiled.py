"""What is compiled and the same in Python: both are there, and both do the same."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.probe import compiled, delegate, plain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def native():
    # Whoever is not called "1" and asks for Python gets it; the tests are of both.
    from injector.probe import _native

    return _native


@pytest.fixture(params=["native", "plain"])
def made(request):
    return plain if request.param == "plain" else request.getfixturevalue("native")


@pytest.fixture(params=["native", "plain"])
def delegating(request):
    return (delegate if request.param == "plain" else request.getfixturevalue("native")).Delegate


def test_a_delegate_does_what_its_iterator_does(delegating):
    def inner():
        try:
            seen.append((yield 1))
        except KeyError:
            yield 2
        return 3

    def outer(receives, iterable):
        return (yield from delegating({"hook": hook}, "hook", receives, iterable))

    seen = []
    hook = lambda value: seen.append(value) or value
    made = outer(False, inner())
    assert (next(made), made.throw(KeyError)) == (1, 2)
    with pytest.raises(StopIteration, match="3"):
        next(made)
    assert seen == [1, 2]
    made = outer(True, inner())
    next(made)
    with pytest.raises(StopIteration, match="3"):
        made.send("sent")
    assert seen == [1, 2, "sent", "sent"]
    made = outer(True, iter("ab"))
    next(made)
    with pytest.raises(AttributeError, match="'send'") as raised:
        made.send("x")
    frames = [entry.name for entry in raised.traceback][1:]
    # Before Python 3.11 a frame that re-raises can not be taken out.
    plain = ["outer", "__getattr__"] if sys.version_info < (3, 11) else ["outer"]
    assert frames in (["outer"], plain), "it adds no frame"
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        next(outer(False, 3))
    made = outer(False, inner())
    next(made)
    made.close()


def test_it_is_compiled_from_the_present_sources():
    words = [sys.executable, "-c", "from injector.probe import compiled; print(compiled.NATIVE)"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    environ.pop("INJECT_NATIVE", None)
    message = subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout
    assert message == "True\n", "run `pip install --editable .`: there has to be a C compiler"


def test_the_same_in_python_passes_the_same_tests():
    """All that runs within this process, of probes and of what they measure."""
    if os.environ.get("INJECT_NATIVE") == "0":
        return  # this is it
    files = ["probe", *(f"measure/test_{name}.py" for name in MEASURED)]
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider"]
    words.append(
        "--ignore=tests/probe/test_native.py"
    )  # of what is compiled alone, whatever is used
    environ = {**os.environ, "INJECT_NATIVE": "0", "PYTHONPATH": str(ROOT)}
    environ = {name: value for name, value in environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [*words, *(f"tests/{file}" for file in files)],
        env=environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]


MEASURED = "regions", "loader", "measures", "method_regions", "opened", "marks", "user", "traced"


def test_a_source_that_is_younger_has_it_in_python(tmp_path, monkeypatch):
    (tmp_path / "native").mkdir()
    source, module = tmp_path / "native" / "rows.c", tmp_path / "_native.so"
    module.touch()
    source.touch()
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    os.utime(source, ns=(0, module.stat().st_mtime_ns - 1))
    assert not compiled._is_stale(str(module))
    os.utime(source, ns=(0, module.stat().st_mtime_ns + 1))
    assert compiled._is_stale(str(module))


def test_there_are_no_sources_where_it_was_installed(tmp_path, monkeypatch):
    module = tmp_path / "_native.so"
    module.touch()
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    assert not compiled._is_stale(str(module))


class _Build:
    """What a build backend gives a hook of its own."""

    def __init__(self):
        self.warnings = []
        self.display_warning = self.warnings.append


@pytest.mark.parametrize("problem", [RuntimeError("no gcc"), SystemExit("no gcc")])
def test_without_a_compiler_the_build_says_so_and_goes_on(problem, monkeypatch, tmp_path):
    hook, build = _build_hook(problem, monkeypatch), _Build()
    monkeypatch.setattr(type(hook), "app", build, raising=False)  # a property, if hatchling is here
    hook._compile(tmp_path, editable=False, build_data={})
    assert build.warnings == ["not compiled, so probes will be slower: no gcc"]


def test_an_editable_installation_leaves_nothing_in_the_temporary_folder(monkeypatch, tmp_path):
    hook = _build_hook(RuntimeError("no gcc"), monkeypatch)
    monkeypatch.setattr(type(hook), "app", _Build(), raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    hook._compile(tmp_path, editable=True, build_data={})
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_a_build(monkeypatch, tmp_path):
    hook = _build_hook(KeyboardInterrupt(), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        hook._compile(tmp_path, editable=False, build_data={})


def _build_hook(problem, monkeypatch):
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def compiled(root, place):
        raise problem

    monkeypatch.setattr(module, "compiled", compiled)
    return object.__new__(module.Shipped)


rows = st.lists(st.tuples(*[st.integers(-(1 << 63), (1 << 63) - 1)] * 4), max_size=20)


@given(rows, st.integers(0, 12))
def test_rows_go_where_there_is_room(rows, room):
    from injector.probe import _native

    for made in (_native, plain):
        full = []
        into = made.Rows(lambda *row, full=full: full.append(row))
        memory = array("q", [0] * 4 * room)
        into.add(1, 2, 3, 4)
        into.use(memoryview(memory).cast("B"))
        for row in rows:
            into.add(*row)
        assert full == [(1, 2, 3, 4), *rows[room:]]
        assert memory.tolist()[: 4 * len(rows)] == [n for row in rows[:room] for n in row]
        into.use(None)
        assert not into.put(1, 2, 3, 4)


number = st.none() | st.integers(-(1 << 70), 1 << 70) | st.booleans() | st.floats(-1e30, 1e30)


@given(number, number)
def test_pairs_hold_two_numbers(low, high):
    from injector.probe import _native

    for made in (_native, plain):
        both = made.Pair(lambda *_: low, 255, lambda *_: high, 1000)(1, 2)
        assert both & 255 == min(max(int(low or 0), 0), 255)
        assert both >> 8 == min(max(int(high or 0), 0), 1000)


def test_pairs_let_errors_through(made):
    with pytest.raises(ZeroDivisionError):
        made.Pair(lambda: 1, 255, lambda: 1 // 0, 255)()
    with pytest.raises((TypeError, ValueError)):
        made.Pair(lambda: "many", 255, lambda: 1, 255)()


class Model:
    def __init__(self):
        self.training = True
        self._modules = {}

    @property
    def computed(self):
        raise AssertionError("the program's own code is not run")


def test_a_path_is_a_part_of_a_variable(made):
    model = Model()
    values = (1, model, ("first",))
    assert made.Path(1, None, -1, False)(*values) is model
    assert made.Path(2, None, 0, False)(*values) == "first"
    assert made.Path(1, "training", -1, False)(*values) is True
    assert made.Path(1, "_modules", -1, True)(*values) is False
    for path in (made.Path(1, "computed", -1, False), made.Path(2, None, 1, False)):
        with pytest.raises((AttributeError, KeyError, IndexError)):
            path(*values)


def test_the_nearest_frame_is_requested_once(made):
    asked = []

    def judge(frame):
        asked.append(frame.f_code.co_name)
        return frame.f_code.co_name == "outer"

    nearest = made.Nearest(judge, 100)

    def inner():
        return nearest(sys._getframe())

    def outer():
        return inner(), sys._getframe()

    for _ in range(3):
        found, frame = outer()
        assert found is frame
    assert asked == ["inner", "outer"]
    assert nearest(None) is None


def test_the_nearest_frame_may_not_be_there_or_not_be_known(made):
    assert made.Nearest(lambda frame: False, 2)(sys._getframe()) is None

    def judge(frame):
        raise ValueError("cannot say")

    with pytest.raises(ValueError, match="cannot say"):
        made.Nearest(judge, 2)(sys._getframe())


class Told:
    def __init__(self):
        self.events = []

    def fetched(self, start, end, batch, frame):
        assert frame.f_code.co_filename == __file__
        self.events.append(("fetched", batch, start <= end))

    def stepped(self, start, end):
        self.events.append(("stepped", start < end))

    def ended(self, start, end, frame):
        self.events.append("ended")


def test_each_turn_of_a_loop_is_reported(made):
    listener = Told()
    assert list(made.Timed(iter("ab"), listener)) == ["a", "b"]
    fetched = [("fetched", "a", True), ("stepped", True), ("fetched", "b", True), ("stepped", True)]
    assert listener.events == [*fetched, "ended"]


def test_what_an_iterator_raises_is_the_programs(made):
    def broken():
        yield 1
        raise KeyError("a")

    listener = Told()
    timed = made.Timed(broken(), listener)
    assert next(timed) == 1
    with pytest.raises(KeyError):
        next(timed)
    assert listener.events[-1] == "ended"


def test_what_a_timed_iterator_has_is_the_iterators(native):
    class Counted:
        drawn = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.drawn += 1
            return self.drawn

    counted = Counted()
    timed = native.Timed(counted, Told())
    assert [next(timed), next(timed)] == [1, 2]
    assert timed.drawn == 2
    timed.drawn = 7
    assert next(timed) == 8 and counted.drawn == 8
    with pytest.raises(AttributeError):
        timed.missing
    with pytest.raises(TypeError):
        native.Timed([1, 2], Told())


def test_stacks_are_of_a_thread(made):
    import threading

    slots = iter(range(1, 10))
    stacks = made.Stacks(lambda: next(slots))
    entry = (object(), 3, 17, 5, None)
    stacks.stack.append(entry)
    assert stacks.inside() and stacks.slot == 1
    seen = []
    thread = threading.Thread(target=lambda: seen.append((stacks.inside(), stacks.slot)))
    thread.start()
    thread.join()
    assert seen == [(False, 2)]
    assert len(stacks.stack) == 1 and stacks.stack[-1] == entry
    stacks.stack[-1] = (entry[0], -1, 17, 5, "mark")
    assert not stacks.inside()
    assert stacks.stack.pop() == (entry[0], -1, 17, 5, "mark") and not stacks.stack
    with pytest.raises(IndexError):
        stacks.stack.pop()
    stacks.apart = lambda: True
    assert stacks.inside()


@pytest.mark.parametrize(("raised", "loads"), [(ValueError, [5]), (KeyboardInterrupt, [])])
def test_an_interrupt_while_items_are_counted_is_the_programs(native, raised, loads):
    class Turns(native.Turns):
        def find(self, frame):
            self.fetch = self.step = 1

        def ended(self, start, end, frame):
            pass

    class Batch:
        @property
        def shape(self):
            raise raised

    memory = array("q", [0] * 8)
    rows = native.Rows(lambda *_: None)
    rows.use(memoryview(memory).cast("B"))
    timed = native.Timed(iter([Batch()]), Turns(rows, rows.add, lambda batch: 5, True, 100))
    if loads:
        next(timed)
    else:
        with pytest.raises(raised):
            next(timed)
    assert [load for load in memory[2::4] if load] == loads


@pytest.mark.parametrize(("asked", "message"), [("1", "(compiled)"), ("0", "(not compiled")])
def test_inject_says_which_of_the_two_it_has(asked, message):
    words = [sys.executable, "-m", "injector", "--version"]
    environ = {**os.environ, "INJECT_NATIVE": asked, "PYTHONPATH": str(ROOT)}
    assert message in subprocess.run(words, env=environ, capture_output=True, text=True).stdout
