"""What only compiled code can do wrong: crash. Each of these runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TYPES = (
    *("Computed", "Delegate", "Hooks", "Nearest", "Pair", "Path", "Rows"),
    *("Shortcut", "Stack", "Stacks", "Stored", "Timed", "Turns"),
)

ARGUMENTS = """
import sys
from injector.probe import _native

class Odd:
    # Not a member of anything asked for, and its attributes raise what no handler expects.
    def __index__(self):
        raise LookupError("no number")

odd = Odd()
frame = sys._getframe()
values = [None, 0, -1, 1 << 70, 1.5, "text", b"", (), [], {}, odd, frame, print, bytearray(64)]
shapes = [(), *((each,) for each in values)]
shapes += [(each,) * n for each in (None, 1, 1 << 70, "text", odd, frame) for n in (2, 3, 4, 5, 6, 7, 15)]
shapes += [(1, 2, "batch", frame), (frame, 0, None, None, [], 1), (True, 255, print, 1)]

def attempt(function, *args, **named):
    try:
        return function(*args, **named)
    except Exception as error:
        assert not isinstance(error, SystemError), (function, args, error)
        return None

def use(made):
    '''Everything that can be done with an object, whether it makes sense or not.'''
    for name in sorted({*dir(type(made))} - {"__class__"}, key="__init__".__eq__):
        found = attempt(getattr, made, name)
        for args in shapes if callable(found) else ():
            attempt(found, *args)
        for value in values:
            attempt(setattr, made, name, value)
        attempt(delattr, made, name)
    for does in (iter, next, len, repr, hash, bool, list, callable):
        attempt(does, made)
    for args in shapes:
        attempt(lambda: made(*args))
        attempt(lambda: made[args[0]])
        attempt(made.__setattr__, "new", args)
"""


def _run(program: str) -> str:
    code = ARGUMENTS + textwrap.dedent(program)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_all_types_are_tried():
    from injector.probe import _native

    found = {name for name, value in vars(_native).items() if isinstance(value, type)}
    assert found == set(TYPES)


@pytest.mark.parametrize("name", TYPES)
def test_an_object_that_was_never_initialised_does_not_crash(name):
    """``__new__`` without ``__init__``, of a class derived from it too, and any arguments."""
    program = f"""
    kind = _native.{name}
    made = [attempt(kind.__new__, kind, *args) for args in shapes]
    made += [attempt(kind, *args) for args in shapes]
    made += [_native.Stacks(lambda: 0).stack] * (kind is _native.Stack)
    try:
        class Derived(kind):
            def __init__(self, *_):
                pass
    except TypeError:
        pass
    else:
        made.append(Derived())
    for each in made:
        use(each)
    print(kind.__name__, any(type(each) is kind for each in made))
    """
    # These ask for arguments that have a type of their own.
    made = name not in ("Computed", "Path", "Shortcut", "Timed")
    assert _run(program).split()[-2:] == [name, str(made)]


def test_hooks_without_init_say_so():
    program = """
    hooks = _native.Hooks.__new__(_native.Hooks)
    for name in ("enter", "leave", "given"):
        try:
            getattr(hooks, name)(1)
        except RuntimeError as error:
            print(error)
    """
    assert _run(program) == "Hooks.__init__() was not called\n" * 3


MADE = {
    "Computed": "_native.Computed(stored, last(), True)",
    "Delegate": "_native.Delegate(hooks, '', False, map(last(), [1, 2]))",
    "Hooks": "Derived(None, stacks, rows, print, last(), *[None] * 4, near, *[None] * 2, 9, False, False)",
    "Nearest": "_native.Nearest(last(), 10)",
    "Pair": "_native.Pair(last(), 1, last(), 1)",
    "Rows": "_native.Rows(last())",
    "Shortcut": "_native.Shortcut('items', last(), {})",
    "Stacks": "_native.Stacks(last())",
    "Stored": "_native.Stored(last())",
    "Timed": "_native.Timed(map(last(), [1, 2]), None)",
    "Turns": "Derived(rows, last(), last(), False, 9)",
}


@pytest.mark.parametrize("name", MADE)
def test_what_dies_with_an_object_may_call_it_once_more(name):
    """The garbage collector clears an object; what that lets go of has the object called again.

    Destructors run before anything is cleared, and weak references are gone by then: all that is left
    is who waits for the end of something that the collector does not look into, as code is, and knows
    the object without a reference to it.
    """
    program = f"""
    import ctypes, gc, weakref

    address, called, watched = None, [], []
    near = lambda *_: None

    def last():
        code = compile("1", "last", "eval")
        watched.append(weakref.ref(code, use_again))
        return code.__eq__  # of all callables, one that nothing clears

    def use_again(_):
        if address is not None:
            called.append(True)
            use(ctypes.cast(address, ctypes.py_object).value)

    class Derived(getattr(_native, {name!r}) if {name!r} in ("Hooks", "Turns") else object):
        def find(self, frame):
            self.fetch = self.step = 1

        def push(self, *_):
            pass

    rows, stored, stacks = _native.Rows(near), _native.Stored(print), _native.Stacks(int)
    hooks = {{"": lambda value: value}}
    gc.collect()
    gc.disable()
    made = {MADE[name]}
    cycle = [made]
    cycle.append(cycle)
    address = id(made)
    del made, cycle
    gc.collect()
    print(bool(called))
    """
    assert _run(program) == "True\n"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("Computed", "_native.Computed(_native.Stored(print), owner.ask, True)"),
        ("Delegate", "_native.Delegate({}, '', False, (owner for _ in [owner]))"),
        (
            "Hooks",
            "_native.Hooks(owner, _native.Stacks(int), _native.Rows(owner.ask), *[owner.ask] * 8,"
            " None, 9, True, True)",
        ),
        ("Nearest", "_native.Nearest(owner.ask, 10)"),
        ("Pair", "_native.Pair(owner.ask, 1, owner.ask, 1)"),
        ("Rows", "_native.Rows(owner.ask)"),
        ("Shortcut", "_native.Shortcut('items', owner.ask, {1: owner})"),
        ("Stacks", "_native.Stacks(owner.ask)"),
        ("Stored", "_native.Stored(owner.ask)"),
        ("Timed", "_native.Timed(iter([owner]), owner)"),
        ("Turns", "_native.Turns(_native.Rows(print), owner.ask, owner.ask, False, 9)"),
    ],
)
def test_cycles_are_found(name, made):
    """An object, what it calls, and what owns both: gone together, with no help from outside.

    But for a Stack: its thread holds it for as long as it lives.
    """
    program = f"""
    import gc, weakref

    class Owner:
        def ask(self, *_):
            return 0

    def cycle():
        owner = Owner()
        owner.made = {made}
        assert type(owner.made) is _native.{name}
        return weakref.ref(owner)

    found = cycle()
    gc.collect()
    print(found())
    """
    assert _run(program) == "None\n"


def test_views_in_a_cycle_may_go_first():
    """CPython crashes where a memoryview is cleared before the buffer that was taken of it is released."""
    program = """
    import gc

    class Owner:
        def full(self, *row):
            pass

    def cycle():
        view = memoryview(bytearray(1024))  # what was made first is cleared first
        times, values = view[:64].cast("d"), view[64:128].cast("d")
        owner = Owner()
        owner.rows = _native.Rows(owner.full)
        owner.rows.use(view)
        owner.rows.watch(view[512:].cast("q"))
        owner.stored = _native.Stored(owner.full)
        owner.stored.use(times, values)

    gc.collect()
    gc.disable()
    for _ in range(10):
        cycle()
    gc.collect()
    """
    _run(program)


def test_an_entry_may_be_popped_while_another_takes_its_place():
    program = """
    class Pops:
        def __index__(self):
            stack.pop()
            return 1

    stack = _native.Stacks(int).stack
    stack.append((object(), 1, 2, 3, object()))
    try:
        stack[0] = (object(), Pops(), 2, 3, object())
    except IndexError as error:
        print(error, len(stack))
    """
    assert _run(program) == "no such call is open 0\n"


def test_it_is_imported_anew_with_the_same_types():
    program = """
    before = _native
    del sys.modules["injector.probe._native"]
    del sys.modules["injector.probe"]._native
    from injector.probe import _native
    print(_native is before, _native.Rows is before.Rows, _native.__doc__ == before.__doc__)
    """
    assert _run(program) == "False True True\n"


def test_another_interpreter_has_it_in_python():
    """What is compiled keeps its state once for all interpreters: another one is refused, and goes on."""
    program = """
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters

    code = '''if True:
        import sys
        sys.path[:] = %r
        try:
            import injector.probe._native
        except ImportError as error:
            assert "interpreter" in str(error), error
        else:
            raise SystemExit("not refused")
        from injector.probe import compiled, plain
        assert compiled.Rows is plain.Rows and not compiled.NATIVE
        print("refused", flush=True)
    ''' % sys.path
    # With a lock of its own (from 3.12 on), and as they all were: 3.12 and 3.13 say that differently.
    for args, named in ((), {}), ((), {"isolated": False}), (("legacy",), {}):
        try:
            made = interpreters.create(*args, **named)
        except TypeError:
            continue
        problem = interpreters.run_string(made, code)
        assert problem is None, problem
    """
    message = _run(program).split()
    assert message and set(message) == {"refused"}
