"""Functions that were instrumented before: what is kept of them is what would be made, or is not used."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from weaving import ROOT, Woven

from injector.rewrite import code_cache, module_source, transform

NAME = "library_that_is_kept"
TEXT = """\
import json
from functools import wraps


def decorated(function):
    @wraps(function)
    def wrapper(*args):
        found = function(*args)
        return found

    return wrapper


def looped(xs):
    total = 0
    for x in xs:
        try:
            total += x
        except TypeError as error:
            total = str(error)
    return json.dumps({"total": total, "odd": total in {"a", "b", 3}})


class Outer:
    def method(self, x, *, key=(1, 2.5, b"bytes", None, 1j, ...)):
        self.__hidden = x
        with open(x) as file:
            text = [line for line in file if line]
        return text

    async def later(self):
        return lambda y: (yield y)
"""
PATHS = {
    "decorated.wrapper": ("#enter", "#exit", "found", "args"),
    "looped": ("#enter", "#exit", "#error", "total", "x", "error", None),
    "Outer.method": ("#enter", "self.__hidden", "file", "text", "key"),
    "Outer.later": ("#enter", "#value"),
}
WANTED = [
    *((path, (variable,)) for path, variables in PATHS.items() for variable in variables),
    *PATHS.items(),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / f"{NAME}.py").write_text(TEXT)
    return tmp_path


@pytest.fixture
def compiled(monkeypatch):
    """How often something was rewritten."""
    found = []
    explain = transform.explain
    monkeypatch.setattr(
        transform, "explain", lambda *args, **more: found.append(1) or explain(*args, **more)
    )
    return found


def instrument(path, variables, **more):
    """A process's share: its code of a function, with hooks numbered from 0, and where they matched."""
    sys.modules.pop(NAME, None)
    module = importlib.import_module(NAME)
    woven = Woven()
    requests = [woven.request(NAME, path, variable, **more) for variable in variables]
    woven.engine.add_late(requests)
    woven.close()
    outer, _, inner = path.partition(".")
    holder = getattr(module, outer)
    code = holder.__code__ if outer != "Outer" else vars(holder)[inner].__code__
    numbers = {request.hook: f"injector:{at}" for at, request in enumerate(requests)}
    matches = [
        (requests.index(each.request), *each[1:])
        for each in woven.landings()
        if each.request in requests
    ]
    assert not woven.misses()
    return shape(code, numbers), matches


def shape(code, numbers):
    """What a code object is, with the numbers that its hooks have in one process replaced."""
    names = []
    for name in code.co_names:
        hook = name.rstrip(code_cache.SUFFIXES) if name.startswith("injector:") else ""
        names.append(numbers[hook] + name[len(hook) :] if hook else name)
    inner = [shape(c, numbers) if hasattr(c, "co_code") else (type(c), c) for c in code.co_consts]
    kept = ("co_code", "co_varnames", "co_freevars", "co_cellvars", "co_flags", "co_filename")
    positions = getattr(code, "co_positions", code.co_lines)  # from Python 3.11
    return [*(getattr(code, each) for each in kept), list(positions()), names, inner]


@pytest.mark.parametrize(("path", "variables"), WANTED, ids=str)
def test_what_is_kept_is_what_would_be_made(folder, compiled, path, variables):
    made = instrument(path, variables)
    assert compiled
    compiled.clear()
    assert instrument(path, variables) == made and not compiled


def test_other_requests_are_not_those_that_are_kept(folder, compiled):
    plain = instrument("looped", ("total", "x"))
    for variables, more in (
        (("x", "total"), {}),
        (("total",), {}),
        (("total", "x"), {"captures": ("xs",)}),
        (("total", "x"), {"change": lambda value: value}),
    ):
        compiled.clear()
        made = instrument("looped", variables, **more)
        assert compiled and made != plain, (variables, more)
    compiled.clear()
    assert instrument("looped", ("total", "x")) == plain and not compiled


def kept(folder):
    (found,) = (folder / "cache/injector/functions").iterdir()
    return found


def rewritten_library(folder):
    (folder / f"{NAME}.py").write_text(TEXT.replace("total = 0", "total = 7"))
    importlib.invalidate_caches()
    sys.path_importer_cache.clear()


def touched_library(folder):
    os.utime(folder / f"{NAME}.py", ns=(1, 1))


def flipped(folder):
    data = bytearray(kept(folder).read_bytes())
    data[-9] ^= 4
    kept(folder).write_bytes(data)


def shortened(folder):
    kept(folder).write_bytes(kept(folder).read_bytes()[:-5])


def emptied(folder):
    kept(folder).write_bytes(b"")


def writable_by_others(folder):
    kept(folder).chmod(0o666)


def replaced_by_folder(folder):
    path = kept(folder)
    path.unlink()
    path.mkdir()


DAMAGES = [
    *(rewritten_library, touched_library, flipped, shortened, emptied),
    *(writable_by_others, replaced_by_folder),
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_does_not_fit_is_made_anew(folder, compiled, damage):
    before = instrument("looped", ("total",))
    damage(folder)
    compiled.clear()
    after = instrument("looped", ("total",))
    assert compiled and (after == before) == (damage is not rewritten_library)


def test_another_rewriter_makes_its_own(folder, compiled, monkeypatch):
    made = instrument("looped", ("total",))
    compiled.clear()
    monkeypatch.setattr(code_cache, "_rewriter", lambda: (("transform.py", 1, 2),))
    assert instrument("looped", ("total",)) == made and compiled


@pytest.mark.parametrize("home", ["relative", "/proc/no/such/folder", ""])
def test_without_a_place_all_goes_on(folder, compiled, monkeypatch, home):
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "")
    for _ in range(2):
        compiled.clear()
        assert instrument("looped", ("total",))[1] and compiled
    assert not list(folder.glob("cache")) and not Path("relative").exists()


def test_a_text_that_is_not_the_loaded_one_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(module_source.ModuleSource, "lines", [""] * 40)
    sys.modules.pop(NAME, None)
    importlib.import_module(NAME)
    woven = Woven()
    woven.engine.add_late([woven.request(NAME, "looped", "total")])
    woven.close()
    assert not list(folder.glob("cache/**/*"))


PROGRAM = f"""
import builtins, sys
import {NAME} as library
from injector.rewrite.engine import Engine
from injector.rewrite.request import Request
engine = Engine(print)
builtins.__dict__[sys.argv[1]] = lambda value: print("total", value) or value
engine.add_late([Request(sys.argv[1], library.__name__, ("looped",), "total")])
print(library.looped([1]), {{"ast", "injector.rewrite.transform"}} & set(sys.modules))
"""


def test_a_second_process_has_no_need_of_the_rewriter(folder):
    """Whose hooks have other numbers."""
    said = []
    for hook in ("injector:7", "injector:12"):
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
        command = [sys.executable, "-c", PROGRAM, hook]
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        said.append(ran.stdout.replace(hook, "HOOK"))
    first, second = said
    assert "injector.rewrite.transform" in first and second.endswith("} set()\n")
    assert first.splitlines()[:-1] == second.splitlines()[:-1] and "total 1\n" in second


WHOLE = (("looped", "total"), ("looped", "#enter"), ("Outer.method", "text"))


def imported(*wanted):
    """A process's share: the code of a module that is instrumented when it is imported."""
    sys.modules.pop(NAME, None)
    importlib.invalidate_caches()
    woven = Woven()
    requests = [woven.request(NAME, *each) for each in wanted]
    woven.engine.add(requests)
    woven.engine.install()
    try:
        module = importlib.import_module(NAME)
    finally:
        woven.engine.uninstall()
        woven.close()
    hooks = [request.hook for request in requests]
    numbers = {hook: f"injector:{at}" for at, hook in enumerate(hooks)}
    source = woven.engine.source_of(NAME, None, vars(module))
    codes = [shape(code, numbers) for code in source.versions]
    matches = [(hooks.index(each.request.hook), *each[1:]) for each in woven.landings()]
    plain = [source.original(code) for code in source.versions]
    misses = [str(each.reason) for each in woven.misses()]
    return codes, matches, plain, misses


def test_a_module_is_kept_as_its_functions_are(folder, compiled):
    codes, matches, plain, misses = made = imported(*WHOLE)
    assert compiled and codes and len(matches) >= len(WHOLE) and not misses
    compiled.clear()
    assert imported(*WHOLE) == made and not compiled
    assert plain == [compile(TEXT, str(folder / f"{NAME}.py"), "exec", dont_inherit=True)]


def test_a_module_that_was_kept_takes_more_requests_when_it_is_loaded(folder, compiled):
    seen = []
    for _ in range(2):
        compiled.clear()
        sys.modules.pop(NAME, None)
        importlib.invalidate_caches()
        woven = Woven()
        woven.engine.install()
        try:
            woven.add(NAME, "looped", "total")
            module = importlib.import_module(NAME)
            hits = bool(compiled)
            module.looped([5])
            first = woven.take()
            woven.add(NAME, "looped", "x")
            module.looped([5])
            seen.append((first, woven.take(), woven.misses(), hits))
        finally:
            woven.engine.uninstall()
            woven.close()
    total = [("total", 0), ("total", 5)]
    both = [("total", 0), ("x", 5), ("total", 5)]
    assert seen == [(total, both, [], True), (total, both, [], False)]


def test_a_module_whose_text_does_not_meet_all_is_made_anew(folder, compiled):
    made = imported(("looped", "total"), ("looped", "nothing_of_that_name"))
    compiled.clear()
    assert imported(("looped", "total"), ("looped", "nothing_of_that_name")) == made
    assert compiled and made[3]
    assert not (folder / "cache/injector/functions").exists()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_module_that_does_not_fit_is_made_anew(folder, compiled, damage):
    before = imported(("looped", "total"))
    damage(folder)
    compiled.clear()
    after = imported(("looped", "total"))
    assert compiled and (after == before) == (damage is not rewritten_library)
