"""Helpers of the engine's tests: hooks that record, and programs that run with and without us."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

from injector.probe.points import _looking
from injector.rewrite.engine import Engine
from injector.rewrite.request import Match, Request, Unmatched

ROOT = Path(__file__).resolve().parents[2]
_numbers = count(1000)


class Woven:
    """An engine whose hooks record what they are told."""

    def __init__(self):
        self.reports = []
        self.events = []
        self.engine = Engine(self.reports.append)
        self.hooks = []

    def request(self, module, path, variable, *, change=None, captures=(), **more):
        """A request whose hook records ``(variable, value, *captures)``; ``change`` overrides."""
        name = f"injector:{next(_numbers)}"
        override = change is not None

        def hook(value, *rest):
            self.events.append((variable, value, *rest))
            return change(value) if override else value

        def reading(value, *rest):
            frame = sys._getframe(1)
            return hook(value, *rest, *(frame.f_locals.get(c) for c in captures))

        forms = {
            "": hook,
            "?": reading,
            ".": _looking(hook, captures),
            "!": lambda: hook(sys.exc_info()[1]),
            "+": lambda: self.events.append(("+", name)),
            "-": lambda: self.events.append(("-", name)),
            "~": NameError,
        }
        for suffix, form in forms.items():
            builtins.__dict__[name + suffix] = form
            self.hooks.append(name + suffix)
            if suffix != "~":
                self.engine.on_hook_defined(form)
        path = tuple(path.split(".")) if isinstance(path, str) and path else tuple(path)
        return Request(name, module, path, variable, captures, override, **more)

    def add(self, *args, **more):
        """Request and add at once."""
        request = self.request(*args, **more)
        self.engine.add([request])
        return request

    def take(self):
        """The events since the last time."""
        events = list(self.events)
        self.events.clear()
        return events

    def landings(self, request=None):
        return [r for r in self.reports if isinstance(r, Match) and request in (None, r.request)]

    def misses(self, request=None):
        return [
            r for r in self.reports if isinstance(r, Unmatched) and request in (None, r.request)
        ]

    def close(self):
        for name in self.hooks:
            if not name.endswith("~"):
                builtins.__dict__[name] = lambda value=None, *_: value


BOOT = """
import builtins, os, sys
sys.path.insert(0, {root!r})
from injector.probe.points import _looking
from injector.rewrite.engine import Engine
from injector.rewrite.request import Request
sys.path.pop(0)
reports = []
engine = Engine(reports.append)
engine.install()
requests = []
for number, (module, path, variable) in enumerate({requests!r}):
    name = "injector:%d" % number
    def hook(value, *rest, variable=variable):
        if {loud!r}:
            print("EVENT", variable, repr(value), *map(repr, rest), file=sys.stderr)
        return value
    for suffix in ("", "?", "!", "+", "-"):
        builtins.__dict__[name + suffix] = (lambda: None) if suffix in "!+-" and suffix else hook
    builtins.__dict__[name + "."] = _looking(hook, ())
    builtins.__dict__[name + "~"] = NameError
    requests.append(Request(name, module, tuple(filter(None, path.split("."))), variable))
engine.add(requests)
"""


def boot(requests=(), loud=False):
    """Source that makes a process an instrumented one."""
    return BOOT.format(root=str(ROOT), requests=list(requests), loud=loud)


def python(*arguments, cwd=None, before="", **environment):
    """Run python; ``before`` is source that its ``sitecustomize`` executes first."""
    env = {**os.environ, **environment}
    for name in {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"} - set(environment):
        env.pop(name, None)
    if before:
        folder = Path(cwd) / ".site"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(before)
        env["PYTHONPATH"] = str(folder)
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=120
    )
