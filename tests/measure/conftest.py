"""Functions with the hooks of a region, as the rewriter would have left them."""

from __future__ import annotations

import builtins
import sys
import textwrap
from itertools import count
from pathlib import Path

import pytest
from spans import read_sites

from injector.bus.writer import Writer
from injector.measure import device, user
from injector.measure.regions import Region, RegionHooks, Spans
from injector.probe import points
from injector.probe.points import defined
from injector.store import spans as files

_numbers = count(30_000_000)


class Measured:
    """The spans of this process, in a folder of their own."""

    def __init__(self, folder):
        self.writer = Writer(str(folder))
        self.spans = Spans(self.writer)
        self.hooks = []
        self.failures = []

    def hook(self, name, **message):
        """Names of the hooks of a region, by what they are on; and what each captures."""
        hooks = RegionHooks(Region(name, **message), self.spans)
        names = {variable: f"injector_{next(_numbers)}" for variable in hooks.variables}
        self.hooks += names.values()
        hooks.define(names, f"//{name}", "lib.part")
        return names, hooks.captures

    def function(self, text, name, **message):
        """The function that ``text`` defines, with the hooks of region ``name``.

        ``ENTER``, ``VALUE(x)`` and ``EXIT`` stand where hooks are to be, ``ERROR`` in a handler.
        """
        names, captures = self.hook(name, **message)
        arguments = ", ".join(("True", *captures("#enter")))
        text = text.replace("ENTER", f"{names['#enter']}({arguments})")
        text = text.replace("EXIT", f"{names['#exit']}(True)")
        if "#value" in names:
            more = "".join(f", {capture}" for capture in captures("#value"))
            text = text.replace("VALUE(", f"{names['#value']}(*[").replace(")#", f"]{more})")
        text = text.replace("VALUE(", "(").replace(")#", ")")
        error = f"__import__('builtins').__dict__['{names.get('#error', '')}!']()"
        text = text.replace("ERROR", error if "#error" in names else "pass")
        space = {"__name__": "lib.part"}
        exec(compile(textwrap.dedent(text), "/lib/site-packages/lib/part.py", "exec"), space)
        return space[text.split("def ")[1].split("(")[0]]

    def rows(self, region=None):
        """Start, end, payload and site of each span."""
        if self.writer.path is None:
            return []
        path = self.writer.path[:-4] + files.SUFFIX
        if not Path(path).exists():
            return []
        rows = list(files.read(path))
        sites = read_sites(self.writer.path)  # after the rows: other threads may be at work
        found = [(*row[:3], sites[row[3]]) for row in rows]
        return [row for row in found if region in (None, row[3]["region"])]


@pytest.fixture
def measured(tmp_path, monkeypatch):
    made = Measured(tmp_path)
    failed = lambda point, error: made.failures.append(error)
    monkeypatch.setattr(points, "on_failure", failed)
    user.record(None)  # an overseer of another test may have left its own
    device.use(None)
    yield made
    for name in made.hooks:
        defined.pop(name, None)
        for suffix in ("", "?", "!"):
            vars(builtins).pop(name + suffix, None)
    user.record(None)
    device.use(None)


class FakeDevice:
    """A device whose queue advances when the test says so. Events are numbers of its own clock."""

    def __init__(self):
        self.now = 1_000
        """Nanoseconds at the end of what is queued."""
        self.passed = 0
        self.freed = []
        self.broken = False
        self.busy = False

    def work(self, nanoseconds):
        self.now += nanoseconds

    def finish(self):
        self.passed = self.now

    def mark(self):
        if self.broken:
            raise RuntimeError("device-side assert")
        return None if self.busy else [self.now]

    def ready(self, event):
        if self.broken:
            raise RuntimeError("device-side assert")
        return event[0] <= self.passed

    def elapsed_ns(self, first, second):
        return second[0] - first[0]

    def device(self, event):
        return "fake:0"

    def free(self, event):
        self.freed.append(event)

    def numbers(self, values):
        return [float(value) for value in values]


@pytest.fixture
def gpu():
    made = FakeDevice()
    device.use(made)
    yield made
    device.use(None)


def pytest_configure(config):
    sys.path.insert(0, str(Path(__file__).parent))
