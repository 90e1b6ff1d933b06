"""Names that modules make on demand are met when the program asks for them."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

PARTS = """
class K:
    def m(self, x):
        y = x * 2
        return y
def g(x):
    z = x + 1
    return z
"""
BY_FUNCTION = """
def __getattr__(name):
    if name in ("K", "help"):
        from . import parts
        value = parts.K if name == "K" else parts.g
        {keep}
        return value
    raise AttributeError(name)
"""
BY_CLASS = """
import importlib, sys, types
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .parts import K
    from .parts import g as help
else:
    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            parts = importlib.import_module("lazy.parts")
            if name == "K":
                return parts.K
            if name == "help":
                return parts.g
            raise AttributeError(name)
    made = Lazy(__name__)
    made.__path__, made.__spec__, made.__file__ = __path__, __spec__, __file__
    sys.modules[__name__] = made
"""
WAYS = {
    "function": BY_FUNCTION.format(keep="pass"),
    "function that keeps": BY_FUNCTION.format(keep="globals()[name] = value"),
    "class": BY_CLASS,
}


@pytest.fixture(params=WAYS)
def lazy(request, module, tmp_path):
    module("lazy.parts", PARTS)
    (tmp_path / "lazy" / "__init__.py").write_text(WAYS[request.param])
    importlib.invalidate_caches()
    yield
    for name in ("lazy", "lazy.parts"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("loaded", [False, True])
def test_met_when_requested(woven, lazy, loaded):
    if loaded:
        importlib.import_module("lazy")
    woven.add("lazy", "K.m", "y")
    woven.add("lazy", "help", "z")
    made = importlib.import_module("lazy")
    assert "lazy.parts" not in sys.modules and woven.reports == []
    assert made.K().m(2) == 4
    assert made.help(2) == 3 and made.help(3) == 4
    assert woven.events == [("y", 4), ("z", 3), ("z", 4)]
    assert [landing.module for landing in woven.landings()] == ["lazy.parts"] * 2
    assert woven.misses() == []


def test_what_is_made_of_another_kind(woven, lazy):
    woven.add("lazy", "help", "#value", change=lambda value: -value)
    made = importlib.import_module("lazy")
    assert (made.help(1), made.help(1)) == (-2, -2)


def test_names_that_are_never_made(woven, lazy):
    woven.add("lazy", "nothing", "x")
    made = importlib.import_module("lazy")
    assert not hasattr(made, "nothing")
    with pytest.raises(AttributeError, match=r"^missing$") as raised:
        made.missing
    # Around a function, Python 3.10 raises anew with the traceback that it caught, in which our frame is.
    ours = ["__getattr__"] * (sys.version_info < (3, 11) and type(made) is ModuleType)
    names = ["test_names_that_are_never_made", *ours, "__getattr__"]
    assert [frame.name for frame in raised.traceback] == names
    assert "injector" not in str(raised.traceback[-1].path)


def test_an_import_on_a_branch_that_is_not_taken(woven, module):
    module("plain", "x = 1\nif x == 2:\n    from json import dumps as f\n")
    woven.add("plain", "f", "#enter")
    importlib.import_module("plain")
    [miss] = woven.misses()
    assert miss.reason == "f not found in plain"
