"""Draws whole programs: every kind of scope, of binding and of control flow, in any order.

A program ends by itself, prints what it does, and goes on after most of its exceptions, whose
tracebacks it prints. A variable that is read before it is bound is a part of the test.
"""

from __future__ import annotations

import sys
from random import Random

NAMES = ("a", "b", "c", "d", "e")
TRY_STAR = sys.version_info >= (3, 11)

PRELUDE = """\
import asyncio, contextlib, functools, sys, threading, traceback
LEFT = [150]
def note(*values):
    print(*(v if isinstance(v, (int, str, tuple, list, type(None))) else type(v).__name__ for v in values))
    LEFT[0] -= 1
    if LEFT[0] < 0: raise SystemExit(3)
    return values[0] if values else 0
KEPT = []
def keep(space):
    KEPT.append(space)
    del KEPT[:-3]
def kept():
    for space in KEPT:
        note(*((n, v if isinstance(v, (int, str)) else 0) for n, v in dict.items(space) if len(n) == 1))
@contextlib.contextmanager
def managed(value):
    note("in", value)
    try: yield value
    except ValueError as error: note("held", str(error))
    finally: note("out")
class Managed:
    def __init__(self, value): self.value = value
    async def __aenter__(self): await asyncio.sleep(0); return self.value
    async def __aexit__(self, *error): note("left", error[0] is None)
async def counted(number):
    for each in range(number):
        await asyncio.sleep(0)
        yield each
class Box:
    kept = 0
    @property
    def watched(self): note("get"); return self.kept
    @watched.setter
    def watched(self, value): note("set"); self.kept = value
    def sealed(self, value): note("sealed")
    sealed = property(None, sealed)
class Space(dict):
    def __getitem__(self, name):
        value = dict.__getitem__(self, name)
        if len(name) == 1: print("looked up", name)
        return value
    def __setitem__(self, name, value):
        if name != "d": dict.__setitem__(self, name, value)
class Meta(type):
    @classmethod
    def __prepare__(cls, name, bases, **more): return Space()
    def __new__(cls, name, bases, space, **more): return super().__new__(cls, name, bases, dict(space))
    def __call__(cls, *args, **more): note("made"); return super().__call__(*args, **more)
def plain(function): return function
def noting(function):
    @functools.wraps(function)
    def wrapper(*args, **more):
        note("call")
        return function(*args, **more)
    return wrapper
def drive(generator, *steps):
    for step in steps:
        try:
            if step == "next": note("got", next(generator))
            elif step == "send": note("got", generator.send(7))
            elif step == "throw": note("got", generator.throw(ValueError("thrown")))
            elif step == "key": note("got", generator.throw(KeyError("k")))
            else: note("closed", generator.close())
        except (StopIteration, RuntimeError) as error: note(type(error).__name__, getattr(error, "value", 0))
        except Exception: traceback.print_exc()
async def adrive(generator, *steps):
    for step in steps:
        try:
            if step == "next": note("got", await generator.__anext__())
            elif step == "send": note("got", await generator.asend(7))
            elif step in ("throw", "key"): note("got", await generator.athrow(ValueError("thrown")))
            else: note("closed", await generator.aclose())
        except StopAsyncIteration: note("end")
        except Exception: traceback.print_exc()
async def waited(coroutine): return await coroutine
def attempt(act):
    try: note("result", act())
    except Exception: traceback.print_exc()
def in_thread(act):
    thread = threading.Thread(target=attempt, args=(act,)); thread.start(); thread.join()
box = Box()
a = b = c = 1
d = e = "xy"
"""


class Scope:
    """What the lines being drawn stand in."""

    def __init__(self, kind: str, bound: set[str], outer: Scope | None = None) -> None:
        self.kind = kind
        """module, class, def, generator, async, async generator."""
        self.bound = bound
        self.outer = outer
        self.in_loop = False
        self.in_handler = False
        self.generators: list[str] = []
        """Generator functions that may be delegated to."""

    @property
    def is_function(self) -> bool:
        return self.kind not in ("module", "class")

    @property
    def is_async(self) -> bool:
        return self.kind.startswith("async")


class Program:
    """One program, drawn from ``random``."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.number = 0

    def text(self) -> str:
        lines: list[str] = []
        module = Scope("module", {*NAMES})
        for _ in range(self.random.randint(2, 4)):
            lines += self.definition(module, 0) if self.random.random() < 0.8 else []
            lines += self.block(module, 1, self.random.randint(0, 2), guarded=True)
        if self.random.random() < 0.15:
            lines += ["raise ValueError(a)"]
        return PRELUDE + "\n".join(lines) + "\n"

    # -- expressions

    def name(self, scope: Scope) -> str:
        bound = sorted(scope.bound & set(NAMES))
        if bound and self.random.random() < 0.93:
            return self.random.choice(bound)
        return self.random.choice(NAMES)

    def expr(self, scope: Scope, depth: int = 2) -> str:
        draw = self.random.random()
        if depth == 0 or draw < 0.25:
            return (
                str(self.random.randint(0, 5)) if self.random.random() < 0.4 else self.name(scope)
            )
        one, two = self.expr(scope, depth - 1), self.expr(scope, depth - 1)
        name = self.random.choice(NAMES)
        forms = [
            f"note({one})",
            f"({one}, {two})",
            f"({one} if note({two}) else {self.name(scope)})",
            f"(note({one}) and {two})",
            f"[{name} for {name} in ({one}, {two}) if note({name})]",
            f"[({name}, {one}) for {name}, *_ in [(1, 2), (3,)]]",
            f"{{{name}: {one} for {name} in range(2)}}",
            f"sum(1 for {name} in range(3) for _ in ({name}, {one}))",
            f"(lambda {name}=0: note({name}))()",
            f"(lambda {name}: ({name}, {two}))({one})",
            "box.kept",
            "type(a).__name__",
            f"f'{{{one}!s:.9}}'",
        ]
        if scope.kind != "class":
            walrus = f"({name} := {one})"
            forms += [walrus, f"[note({name} := 3) for _ in range(2)]"]
        if scope.kind.endswith("generator") and not scope.kind.startswith("async"):
            forms += [f"(yield {one})", "(yield)", f"note((yield {one}), (yield))"]
            if scope.generators:
                made = self.random.choice(scope.generators)
                forms += [f"(yield from {made}(1, 2))", "(yield from [1, 2])"]
                if self.random.random() < 0.1:
                    forms = ["(yield from 3)", "(yield from asyncio.sleep(0))"]
        if scope.is_async:
            forms += [
                f"[{name} async for {name} in counted(2)]",
                "await asyncio.sleep(0, 5)",
            ]
            if scope.kind == "async generator":
                forms += [f"(yield {one})"]
        return self.random.choice(forms)

    # -- statements

    def block(self, scope: Scope, depth: int, count: int, guarded: bool = False) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            found = self.statement(scope, depth)
            if guarded and self.random.random() < 0.8:
                found = ["try:", *_in(found), "except Exception: traceback.print_exc()"]
            lines += found
        return lines

    def body(self, scope: Scope, depth: int) -> list[str]:
        """A block that may not run: what it binds is perhaps bound after it."""
        before = set(scope.bound)
        lines = self.block(scope, depth, self.random.randint(1, 3)) or ["pass"]
        if self.random.random() < 0.5:
            scope.bound = before
        return _in(lines)

    def statement(self, scope: Scope, depth: int) -> list[str]:
        found = self.unguarded(scope, depth)
        if depth > 0 and self.random.random() < 0.15:
            return ["try:", *_in(found), "except (NameError, TypeError): note('failed')"]
        return found

    def unguarded(self, scope: Scope, depth: int) -> list[str]:
        simple = (self.assign, self.unpack, self.other, self.other)
        if depth <= 0 or self.random.random() < 0.5:
            return self.random.choice(simple)(scope)
        compound = (
            self.branch,
            self.loop,
            self.loop,
            self.with_,
            self.try_,
            self.try_,
            self.match,
            self.nested,
        )
        return self.random.choice(compound)(scope, depth - 1)

    def target(self, scope: Scope) -> str:
        draw = self.random.random()
        if draw < 0.75:
            name = self.random.choice(NAMES)
            scope.bound.add(name)
            return name
        if draw < 0.97:
            return self.random.choice(("box.kept", "box.watched", "box.sealed", "box.own"))
        return "{}[0]"

    def assign(self, scope: Scope) -> list[str]:
        value = self.expr(scope)
        forms = ["{t} = {v}", "{t} = {v}", "{n}: int = {v}", "{n} = {t} = {v}", "{n}: int"]
        form = self.random.choice(forms)
        name = self.random.choice(NAMES)
        if "{n}" in form and form != "{n}: int":
            scope.bound.add(name)
        if form.startswith("{n}:") and getattr(scope, "declared", None) and name in scope.declared:
            return [f"{name} = {value}"]
        return [form.format(t=self.target(scope), n=name, v=value)]

    def unpack(self, scope: Scope) -> list[str]:
        one, two = self.expr(scope, 1), self.expr(scope, 1)
        t = [self.target(scope) for _ in range(3)]
        return [
            self.random.choice(
                (
                    f"{t[0]}, {t[1]} = {one}, {two}",
                    f"{t[0]}, *{t[1]} = [{one}, {two}, 3]",
                    f"({t[0]}, [{t[1]}, {t[2]}]) = 1, ({one}, {two})",
                    f"*{t[0]}, {t[1]} = 'xyz'",
                )
            )
        ]

    def other(self, scope: Scope) -> list[str]:
        name = self.random.choice(NAMES)
        value = self.expr(scope, 1)
        forms = [
            [f"note({value})"],
            [f"{self.name(scope)} += 1"],
            ["box.watched += 1"],
            ["box.kept += 2"],
            [f"import math as {name}"],
            [f"from os import path as {name}, sep"],
            [f"try: del {self.name(scope)}", "except NameError: note('unset')"],
            [f"exec('{name} = 5; note({name})')"],
            [f"exec('note(a)', {{'a': {value}, 'note': note}})"],
            ["note(*(n for n in locals() if len(n) == 1))"],
            ["keep(locals())", f"{name} = {value}", "kept()"],
            ["kept()"],
        ]
        if self.random.random() < 0.25:
            forms = [
                [f"raise ValueError({value})"],
                [f"assert note({value}), 'asserted'"],
                ["del box.other"],
                [f"note({self.random.choice(NAMES)})"],
                [f"{name}.x = 1"],
            ]
        if scope.is_function:
            forms += (
                [[f"return {value}"], ["return"]]
                if scope.kind != "async generator"
                else [["return"]]
            )
        if scope.in_loop:
            forms += [["break"], ["continue"]]
        if scope.in_handler:
            forms += [["raise"]]
        if scope.kind.endswith("generator"):
            forms += [[f"yield {value}"], [f"{name} = yield"], [f"{name} = yield {value}"]] * 2
        if scope.is_async:
            forms += [["await asyncio.sleep(0)"], [f"{name} = await waited(asyncio.sleep(0, 2))"]]
        chosen = self.random.choice(forms)
        if chosen[0].startswith("try: del"):
            scope.bound.discard(chosen[0][9:])
        elif chosen[len(chosen) // 2].startswith(("import", "from", f"{name} =")):
            scope.bound.add(name)
        return chosen

    def branch(self, scope: Scope, depth: int) -> list[str]:
        lines = [f"if {self.expr(scope, 1)}:", *self.body(scope, depth)]
        if self.random.random() < 0.4:
            lines += [f"elif ({self.random.choice(NAMES)} := {self.expr(scope, 1)}) == 3:"]
            if scope.kind == "class":
                lines[-1] = "elif note(0):"
            lines += self.body(scope, depth)
        return lines + (["else:", *self.body(scope, depth)] if self.random.random() < 0.5 else [])

    def loop(self, scope: Scope, depth: int) -> list[str]:
        saved, scope.in_loop = scope.in_loop, True
        sequence = self.random.choice(("range(3)", "[(1, 2), (3, 4)]", "'xyz'", "[]"))
        if sequence.startswith("[("):
            target = f"{self.target(scope)}, {self.target(scope)}"
        else:
            target = self.target(scope)
        if self.random.random() < 0.25:
            name = self.random.choice(NAMES)
            scope.bound.add(name)
            lines = [f"{name} = 0", f"while {name} < 2:", f"    {name} += 1", "    note('turn')"]
        elif scope.is_async and self.random.random() < 0.5:
            lines = [f"async for {self.target(scope)} in counted(2):"]
        else:
            lines = [f"for {target} in {sequence}:"]
        lines += self.body(scope, depth)
        scope.in_loop = saved
        return lines + (["else:", *self.body(scope, depth)] if self.random.random() < 0.3 else [])

    def with_(self, scope: Scope, depth: int) -> list[str]:
        if scope.is_async and self.random.random() < 0.5:
            head = f"async with Managed({self.expr(scope, 1)}) as {self.target(scope)}:"
        else:
            items = [f"managed({self.expr(scope, 1)}) as {self.target(scope)}"]
            if self.random.random() < 0.4:
                items.append(f"managed({self.name(scope)})")
                items.append(f"managed((1, 2)) as ({self.target(scope)}, {self.target(scope)})")
            head = f"with {', '.join(items)}:"
        return [head, *self.body(scope, depth)]

    def try_(self, scope: Scope, depth: int) -> list[str]:
        lines = ["try:", *self.body(scope, depth)]
        if scope.kind.endswith("generator"):
            lines.insert(1, "    yield 0")
        saved = scope.in_handler, scope.in_loop
        star = TRY_STAR and self.random.random() < 0.2
        scope.in_handler = True
        # `return`, `break` and `continue` may not stand in `except*`.
        if star:
            name = self.random.choice(NAMES)
            handler = [f"except* (ValueError, TypeError) as {name}:", f"    note({name})"]
            lines += handler
        elif self.random.random() < 0.8:
            name = self.random.choice(NAMES)
            lines += [f"except (ValueError, TypeError, AttributeError) as {name}:"]
            scope.bound.add(name)
            lines += self.body(scope, depth)
            scope.bound.discard(name)
            if self.random.random() < 0.3:
                lines += ["except Exception:", *self.body(scope, depth)]
            if self.random.random() < 0.3:
                lines += ["else:", *self.body(scope, depth)]
        scope.in_handler, _ = saved
        if (
            len(lines) < 3
            or not any(line.startswith("except") for line in lines)
            or (self.random.random() < 0.3)
        ):
            lines += ["finally:", *self.body(scope, depth)]
        return lines

    def match(self, scope: Scope, depth: int) -> list[str]:
        n = self.random.sample(NAMES, 3)
        patterns = [
            f"[{n[0]}, {n[1]}]",
            f"({n[0]}, *{n[1]}) if note({n[0]})",
            f"{{'k': {n[0]}, **{n[1]}}}",
            f"int({n[0]})",
            f"(1 | 2) as {n[0]}",
            f"Box(kept={n[0]})",
            f"[[{n[0]}], {n[1]}] | [{n[1]}, [{n[0]}]]",
            "None",
        ]
        subject = self.random.choice((self.expr(scope, 1), "[1, 2]", "{'k': 1, 'l': 2}", "box"))
        lines = [f"match {subject}:"]
        for pattern in self.random.sample(patterns, 3):
            lines += [f"    case {pattern}:", *_in(self.body(scope, depth))]
        last = self.random.choice(("_", n[2]))
        return [*lines, f"    case {last}:", *_in(self.body(scope, depth))]

    # -- definitions

    def nested(self, scope: Scope, depth: int) -> list[str]:
        return self.definition(scope, min(depth, 1))

    def definition(self, scope: Scope, depth: int) -> list[str]:
        draw = self.random.random()
        if draw < 0.2:
            return self.klass(scope, depth)
        if draw < 0.3 and scope.kind != "class":
            name = self.random.choice(NAMES)
            scope.bound.add(name)
            inner = Scope("def", {"d", *scope.bound}, scope)
            return [f"{name} = lambda d, *e: {self.expr(inner)}", f"attempt(lambda: {name}(1, 2))"]
        return self.function(scope, depth, method=False)

    def function(self, scope: Scope, depth: int, method: bool) -> list[str]:
        kinds = ("def", "def", "generator", "generator", "async", "async generator")
        kind = self.random.choice(kinds)
        self.number += 1
        name = f"f{self.number}"
        params = self.random.sample(NAMES, 2)
        inner = Scope(kind, set(params), scope)
        inner.generators = [*scope.generators]
        head: list[str] = []
        declared: list[str] = []
        free = [n for n in NAMES if n not in params]
        if self.random.random() < 0.3:
            declared = [self.random.choice(free)]
            outer = scope
            while outer.outer is not None and outer.kind == "class":
                outer = outer.outer
            can = outer.is_function and declared[0] in getattr(outer, "locals", ())
            head = [f"{'nonlocal' if can else 'global'} {declared[0]}"]
            inner.bound.add(declared[0])
        inner.locals = {*params}  # type: ignore[attr-defined]
        inner.declared = set(declared)  # type: ignore[attr-defined]
        if self.random.random() < 0.3:
            head.append("'''A docstring.'''")
            head = head[::-1]
        tag = self.random.choice(("", ': "@Tag"', ": int"))
        extra = self.random.choice(("", ", *more", ", *, key=note(9)", ", key=3, **more"))
        first = "self, " if method else ""
        lines = [*self.decorators()]
        is_async = "async " if kind.startswith("async") else ""
        lines += [f"{is_async}def {name}({first}{params[0]}{tag}, {params[1]}=2{extra}):"]
        body = self.block(inner, 2, self.random.randint(2, 5))
        if method and self.random.random() < 0.5:
            body.insert(
                0,
                self.random.choice(
                    (
                        "self.kept = 1",
                        "self.x, self.watched = 1, 2",
                        "self.watched += 1",
                        "self.__own = 4",
                        "super().__init__()",
                    )
                ),
            )
        if kind.endswith("generator") and not any("yield" in line for line in body):
            body.append("yield 1")
        if self.random.random() < 0.25 and kind == "def" and not method:
            body.insert(0, f"if {params[0]} == 1: {name}(0)")
        if kind == "generator":
            scope.generators.append(name) if not method and scope.kind == "module" else None
            if self.random.random() < 0.25 and not method:
                body.insert(0, f"if {params[0]} == 1: note((yield from {name}(0)))")
        body = [line for line in body if not any(line == f"{d}: int" for d in declared)]
        lines += _in(head + body)
        if not method:
            lines += self.use(scope, name, kind)
        return lines

    def decorators(self) -> list[str]:
        return self.random.choice(([], [], [], ["@plain"], ["@noting"], ["@noting", "@plain"]))

    def use(self, scope: Scope, name: str, kind: str) -> list[str]:
        """Lines that call it."""
        args = self.random.choice(("1", "1, 3", "(2, 3), 'x'"))
        call = f"{name}({args})"
        pool = ("next", "next", "send", "throw", "key", "close")
        steps = ", ".join(repr(self.random.choice(pool)) for _ in range(self.random.randint(1, 5)))
        if kind == "def":
            how = self.random.choice(("attempt", "attempt", "in_thread"))
            return [f"{how}(lambda: {call})", f"attempt(lambda: {name}(0, 'zw'))"]
        if kind == "generator":
            return [
                self.random.choice(
                    (
                        f"attempt(lambda: list({call}))",
                        f"drive({call}, 'next', {steps})",
                        f"attempt(lambda: [*{call}])",
                        f"in_thread(lambda: list({call}))",
                    )
                )
            ]
        if kind == "async":
            if scope.is_async:
                return [f"note(await {call})"]
            return [
                self.random.choice(
                    (
                        f"attempt(lambda: asyncio.run({call}))",
                        f"drive({call}, 'send', {steps})",
                        f"attempt(lambda: asyncio.run(waited({call})))",
                    )
                )
            ]
        if scope.is_async:
            name = self.random.choice(NAMES)
            return [
                f"await adrive({call}, 'next', {steps})",
                f"async for {name} in {call}: note({name})",
            ]
        return [f"attempt(lambda: asyncio.run(adrive({call}, 'next', {steps})))"]

    def klass(self, scope: Scope, depth: int) -> list[str]:
        self.number += 1
        name = f"C{self.number}"
        bases = self.random.choice(("", "(Box)", "(metaclass=Meta)", "(Box, metaclass=Meta)"))
        inner = Scope("class", set(), scope)
        body = self.block(inner, 1, self.random.randint(0, 3))
        body = [line for line in body if "raise" not in line]
        method = self.function(inner, depth, method=True)
        called = next(line for line in method if "def f" in line).split("def ")[1].split("(")[0]
        kind = next(line for line in method if "def f" in line).strip()
        body += method
        body += [f"{self.random.choice(NAMES)} = property(lambda self: note(4))"]
        lines = [f"class {name}{bases}:", *_in(body)]
        if self.random.random() < 0.2:
            lines.insert(0, "@plain")
        is_generator = any("yield" in line for line in method)
        call = f"{name}().{called}(1)"
        if kind.startswith("async"):
            use = (
                f"asyncio.run(adrive({call}, 'next', 'send'))"
                if is_generator
                else f"asyncio.run({call})"
            )
            if scope.is_async:
                return lines
        else:
            use = f"list({call})" if is_generator else call
        return [*lines, f"attempt(lambda: {use})"]


def _in(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
