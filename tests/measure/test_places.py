"""Which line a call belongs to: the program's, or where that is an installed package, one of its own."""

from __future__ import annotations

import linecache
import os
import sys
import threading
from types import SimpleNamespace

import pytest

from injector.measure import places
from injector.measure.places import Finder

SITE = "/env/lib/python3/site-packages"
SCRIPT = """\
try:
    import sys
    from {package}.command import main
except ImportError:
    pass
begin()
"""


@pytest.fixture
def place(monkeypatch):
    """``place(start, asked)``: where a call is that ``asked`` made, in what ``start(begin)`` runs."""
    kind = Finder._kind
    ours = lambda frame: frame.f_code.co_filename == __file__
    monkeypatch.setattr(
        Finder, "_kind", lambda self, frame: "ours" if ours(frame) else kind(self, frame)
    )

    def find(start, asked, bar=False):
        """``tool.train`` is called by ``click``, and calls what is hooked in ``asked``.

        With ``bar`` it has ``click`` draw from that for it, as from a loader with a progress bar.
        """
        found = []
        look = lambda: found.append(Finder().place(sys._getframe(1), asked))
        click = run("def call(work, *given):\n    work(*given)\n", f"{SITE}/click.py", "click")
        train = run("def train(hooked):\n    # Calls.\n    hooked()\n", f"{SITE}/tool.py", "tool")
        inner = (lambda: click["call"](look)) if bar else look
        # In a thread: below this test are frames of whoever runs it.
        begun = lambda: start(lambda: click["call"](train["train"], inner))
        thread = threading.Thread(target=begun)
        thread.start()
        thread.join()
        [only] = found
        return os.path.basename(only["file"]), only["line"]

    return find


def run(text, file, name, package="", **given):
    """The namespace of a module whose code lies in ``file``."""
    space = {"__name__": name, "__package__": package, **given}
    exec(compile(text, file, "exec"), space)
    return space


def script(package):
    """Begins the command of an installed package."""
    file = os.path.join(sys.prefix, "bin", package)
    return lambda begin: run(SCRIPT.format(package=package), file, "__main__", begin=begin)


def module(package):
    """Begins a package as ``python -m`` does."""
    file = f"{SITE}/{package}/__main__.py"
    return lambda begin: run("begin()\n", file, "__main__", package, begin=begin)


def command(text):
    """Begins what ``python -c`` is given, with this line before it."""
    return lambda begin: run(f"{text}; begin()\n", "<string>", "__main__", begin=begin)


def program(begin):
    run("\nbegin()\n", "/home/me/main.py", "__main__", begin=begin)


@pytest.mark.parametrize(
    ("start", "asked", "expected"),
    [
        (program, "tool", ("main.py", 2)),
        (program, "torch", ("main.py", 2)),
        (command("from os import path"), "torch", ("<string>", 1)),
        # What multiprocessing starts is no program: a function of the library may be what it was given.
        (command("from multiprocessing.spawn import spawn_main"), "torch", ("tool.py", 3)),
        (command("from multiprocessing.forkserver import main"), "torch", ("tool.py", 3)),
        (script("tool"), "torch", ("tool.py", 3)),
        (module("tool"), "torch", ("tool.py", 3)),
        # What was started is the library: it is the program, and click only its means.
        (script("tool"), "tool", ("tool.py", 3)),
        (module("tool"), "tool", ("tool.py", 3)),
        # A command of another package, which uses this one as a library.
        (script("other"), "tool", ("click.py", 2)),
    ],
)
def test_where_a_call_is(place, start, asked, expected):
    assert place(start, asked) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [(program, "main.py"), (script("tool"), "tool.py"), (module("tool"), "tool.py")],
)
def test_the_line_of_a_loop_with_a_progress_bar_is_the_programs(place, start, expected):
    assert place(start, "torch", bar=True)[0] == expected


def test_a_thread_of_a_library(place):
    assert place(lambda begin: begin(), "click") == ("tool.py", 3)
    assert Finder().place(None) is None


@pytest.mark.parametrize("start", [lambda begin: begin(), script("click"), script("other")])
def test_what_a_library_runs_in_a_worker_is_its_own(place, start, monkeypatch):
    """As ``click`` would be Dask: its line, that of any task, says nothing of this one."""
    assert place(start, "tool") == ("click.py", 2)
    monkeypatch.setattr(places, "RUNNERS", frozenset({"click"}))
    assert place(start, "tool") == ("tool.py", 3)
    assert place(program, "tool") == ("main.py", 2)


@pytest.mark.parametrize("known", [True, False])
def test_a_cell_of_a_notebook_is_named_as_its_tracebacks_name_it(known, monkeypatch):
    """Its code has a file name, under which IPython keeps its text, and there is no such file."""
    file, text = "/tmp/ipykernel_7/1234.py", "x = 1\n  hooked()  # of the cell\n"
    code = text.replace("  hooked", "hooked")
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(True), file))
    mapped = {file: ("Cell", "In[3]")} if known else {}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=mapped.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    found = []
    run(code, file, "cell", hooked=lambda: found.append(Finder().place(sys._getframe(1))))
    [place] = found
    assert place["file"] == ("In[3]" if known else file)
    assert (place["line"], place["text"]) == (2, "hooked()  # of the cell")
