"""What a hook reads in a frame, and that the reading leaves the program's `locals()` alone."""

from __future__ import annotations

import sys

import pytest

from injector.variables import MISSING, read_local, read_variable

outside = "global"


def seen(*names):
    frame = sys._getframe(1)
    return tuple(read_local(frame, name) for name in names)


def arguments(a, b=2, *rest, c=3, **more):
    return seen("a", "b", "rest", "c", "more", "unknown")


def cells(a, b):
    late = seen("a", "b", "x", "unbound", "inner")
    x = a

    def inner():
        nonlocal b
        b += x
        return seen("x", "b", "a", "unbound")

    def other():
        return a, unbound  # noqa: F821  deleted by then

    first = inner()
    del a
    before = seen("a", "x", "b")
    unbound = 9
    return late[:4], first, before, seen("unbound")


def generator(a):
    b = a
    yield seen("a", "b", "c")
    c = (lambda: b)()  # noqa: F841
    yield seen("a", "b", "c")


def body(x):
    class Inner:
        y = x
        found = seen("x", "y", "z", "__class__")
        z = 1
        del y
        after = seen("y", "z")

        def method(self):
            return __class__, x

    return Inner.found, Inner.after


def comprehension(a):
    k = "outer"
    return [read_variable(sys._getframe(), name) for k in (1,) for name in ("a", "k", "unknown")], k


def test_every_kind_of_variable_is_read_while_it_is_bound():
    assert arguments(1, 5, 6, z=7) == (1, 5, (6,), 3, {"z": 7}, MISSING)
    assert cells(1, 2) == (
        (1, 2, MISSING, MISSING),
        (1, 3, MISSING, MISSING),
        (MISSING, 1, 3),
        (9,),
    )
    assert list(generator(1)) == [(1, 1, MISSING), (1, 1, 1)]
    free = MISSING if sys.version_info >= (3, 13) else 4
    assert body(4) == ((free, 4, MISSING, MISSING), (MISSING, 1))
    assert comprehension(5) == ([5, 1, MISSING], "outer")
    assert seen("outside") == (MISSING,)
    assert read_variable(sys._getframe(), "outside") == "global"


@pytest.mark.parametrize("place", ["module", "exec"])
def test_a_module_and_what_exec_runs_are_read_too(place):
    own, namespace = {"seen": seen}, {}
    code = "a = 1\nfound = seen('a', 'b')\nnested = [seen('k', 'a') for k in 'x']\n"
    exec(code, own, own if place == "module" else namespace)
    result = own if place == "module" else namespace
    assert result["found"] == (1, MISSING)
    if sys.version_info[:2] == (3, 12) and place == "module":
        assert result["nested"] == [("x", 1)]


def test_a_kept_dictionary_of_locals_stays_as_it_is_and_keeps_its_order():
    def kept(a):
        if a > 5:
            late = 0
        d = locals()
        x = a
        found = seen("x", "late")
        y = (lambda: x)()
        return dict(d), found, list(locals()), y and late if a > 5 else 0

    def plain(a):
        if a > 5:
            late = 0
        d = locals()
        x = a
        found = 0
        y = (lambda: x)()
        return dict(d), found, list(locals()), y and late if a > 5 else 0

    there, found, order, _ = kept(1)
    assert found == (1, MISSING)
    assert (there, order) == (plain(1)[0], plain(1)[2])


def test_a_class_body_is_read_without_its_namespace_hearing_of_it():
    heard = []

    class Space(dict):
        def __delitem__(self, name):
            heard.append(name)
            dict.__delitem__(self, name)

    class Meta(type):
        @classmethod
        def __prepare__(cls, name, bases):
            return Space()

    class Made(metaclass=Meta):
        x = 1
        found = seen("x", "y")

        def method(self):
            return __class__

    assert Made.found == (1, MISSING)
    assert not heard
