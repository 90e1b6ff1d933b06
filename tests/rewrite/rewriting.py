"""What the rewriter's tests share: weaving a text, running it, and comparing code objects."""

from __future__ import annotations

import ast
import builtins
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from injector.probe.compiled import Delegate
from injector.probe.points import _looking
from injector.rewrite.request import ANYWHERE, Match, Request
from injector.rewrite.transform import explain

POINTS = (
    "#enter",
    "#exit",
    "#error",
    "#value",
    "#yield",
    "#receive",
    "#loop",
    "#endloop",
    "#scope",
)
SUFFIXES = ("", "?", ".", "!", "@", "@>", "+", "-", "&")


def everything(prefix: str = "test", override: bool = False) -> list[Request]:
    """Requests for every variable and every event of a module."""
    wanted: list[str | None] = [None, *POINTS]
    return [
        Request(f"{prefix}:{number}", "m", ANYWHERE, variable, override=override)
        for number, variable in enumerate(wanted)
    ]


def identity(value: Any = None, *_: Any) -> Any:
    """The hook that changes nothing."""
    return value


def define(name: str, hook: Callable[..., Any]) -> None:
    """Put a hook where rewritten code finds it, under all of its forms."""
    for suffix in SUFFIXES:
        vars(builtins)[name + suffix] = hook
    vars(builtins)[name + "~"] = NameError


def weave(
    source: str, requests: Sequence[Request], filename: str = "woven.py", module: str = "m"
) -> tuple[CodeType, list[Match], list[tuple[Request, str]]]:
    """A text's code with hooks, where they landed, and what found nothing, with its reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source, filename)
        landings, misses = explain(tree, requests, module=module, filename=filename, source=source)
        return compile(tree, filename, "exec", dont_inherit=True), landings, misses


def plainly(source: str, filename: str = "woven.py") -> CodeType:
    """A text's code as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, filename, "exec", dont_inherit=True)


def inner(code: CodeType) -> list[CodeType]:
    """The code objects directly inside one."""
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def distinct(code: CodeType) -> list[CodeType]:
    """The same without those the compiler may or may not have merged: equal lambdas in one line."""
    return list({(found.co_name, found.co_firstlineno): found for found in inner(code)}.values())


def lines(code: CodeType) -> set[int]:
    """The lines that a code object has instructions for."""
    return {line for _, _, line in code.co_lines() if line is not None and line > 0}


_SAME = (
    "co_name",
    "co_firstlineno",
    "co_flags",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_freevars",
    "co_cellvars",
    "co_filename",
)
_OPTIMIZED = 0x1


def docstring(code: CodeType) -> str | None:
    """What a function object made from a code object would have as its docstring."""
    if not code.co_flags & _OPTIMIZED or code.co_name.startswith("<") or not code.co_consts:
        return None
    if sys.version_info >= (3, 13) and not code.co_flags & 0x4000000:
        return None
    return code.co_consts[0] if isinstance(code.co_consts[0], str) else None


def names(code: CodeType) -> set[str]:
    """The names that code reads, with what it passes on to comprehensions and functions inside."""
    inside = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return {*code.co_names, *(name for inner in inside for name in names(inner))}


def differences(plain: CodeType, woven: CodeType, path: str = "") -> Iterator[str]:
    """Whatever the program, or a tool that looks at it, could see of the rewriting."""
    path = f"{path}/{plain.co_name}"
    for attribute in _SAME:
        before, after = getattr(plain, attribute), getattr(woven, attribute)
        if before != after:
            yield f"{path}: {attribute} {before} is now {after}"
    variables = woven.co_varnames
    if not plain.co_flags & _OPTIMIZED:
        # Comprehensions inlined into a class body leave traces here of every name they use.
        variables = tuple(name for name in variables if ":" not in name)
    if plain.co_varnames != variables:
        yield f"{path}: co_varnames {plain.co_varnames} is now {variables}"
    added = {name for name in set(woven.co_names) - names(plain) if ":" not in name}
    if added:
        yield f"{path}: new names {added}"
    if docstring(plain) != docstring(woven):
        yield f"{path}: docstring {docstring(plain)!r} is now {docstring(woven)!r}"
    before, after = lines(plain), lines(woven)
    if before != after:
        yield f"{path}: lines lost {sorted(before - after)} new {sorted(after - before)}"
    below, woven_below = distinct(plain), distinct(woven)
    if [code.co_name for code in below] != [code.co_name for code in woven_below]:
        yield f"{path}: other code inside"
        return
    for one, other in zip(below, woven_below, strict=True):
        yield from differences(one, other, path)


def library() -> str:
    """The folder of the standard library's sources."""
    import os

    return os.path.dirname(os.__file__)


VERSION = sys.version_info[:2]


class Played:
    """What a woven program did."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        """What the hooks were called with: ``value``, or a tuple where there was more."""
        self.result: Any = None
        self.landings: list[Match] = []
        self.misses: list[tuple[Request, str]] = []
        self.namespace: dict[str, Any] = {}


def recorder(seen: list[Any], change: Callable[[Any], Any] | None) -> Callable[..., Any]:
    """A hook that notes what it gets, and returns it, or what ``change`` makes of it."""

    def hook(*args: Any) -> Any:
        seen.append(args[0] if len(args) == 1 else args)
        if change is not None:
            return change(args[0])
        return args[0] if args else None

    return hook


def play(
    source: str,
    path: str,
    variable: str | None,
    change: Callable[[Any], Any] | None = None,
    *,
    captures: tuple[str, ...] = (),
    category: str | None = None,
    run: str = "f()",
) -> Played:
    """Run a program with one hook, and without; both must end alike unless the hook overrides."""
    played = Played()
    parts = tuple(path.split(".")) if path else ()
    request = Request("play:1", "m", parts, variable, captures, change is not None, category)
    code, played.landings, played.misses = weave(source, [request])
    plain = plainly(source)
    assert list(differences(plain, code)) == []
    hook = recorder(played.seen, change)
    define("play:1", hook)
    vars(builtins)["play:1."] = _looking(hook, captures)
    vars(builtins)["play:1?"] = lambda value, *rest: hook(value, *rest, *frame_values(captures))
    vars(builtins)["play:1!"] = lambda: hook(sys.exc_info()[1])
    vars(builtins)["play:1@"] = lambda iterable: Delegate(
        vars(builtins), "play:1", variable == "#receive", iterable
    )
    outcomes = []
    for one in (plain, code):
        namespace: dict[str, Any] = {"__name__": "played"}
        exec(one, namespace)
        try:
            outcomes.append(eval(run, namespace))
        except Exception as error:
            outcomes.append(repr(error))
        if one is plain:
            played.seen.clear()
    played.result, played.namespace = outcomes[1], namespace
    if change is None:
        assert outcomes[0] == outcomes[1]
    return played


def frame_values(captures: tuple[str, ...]) -> tuple[Any, ...]:
    """What a hook in its ``?`` form finds: the variables of the frame that called it."""
    frame = sys._getframe(2)
    return tuple(frame.f_locals.get(name, "unbound") for name in captures)
