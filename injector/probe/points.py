"""Hooks in builtins: counted, guarded, and as cheap as a Python call can be.

Rewritten code calls a hook by a name that no program can write, such as ``injector:7``, which Python looks up
in builtins from anywhere. One hook has several forms, under that name with a suffix (the table is in
:mod:`injector.rewrite.transform`): for a place where a variable may be unbound, for an ``except`` block, for
``yield from``. A handler that raises is reported once, and never reaches the program (:func:`failed`).

What a hook needs at each call is in the variables of closures here: these cost less to read than attributes.
"""

from __future__ import annotations

import builtins
import sys
from _functools import partial  # type: ignore[import-not-found]

from ..variables import MISSING as MISSING
from ..variables import follow, read_variable
from .compiled import Delegate
from .stop import goes_on, is_programs, is_stop, request_stop

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    Handler = Callable[..., Any]
    Hook = Callable[..., Any]


_namespace = builtins.__dict__

on_failure: Callable[[Point, BaseException], None] = lambda point, error: None
"""Called once for each point and type of exception; the overseer puts it into the record."""

on_first: Callable[[Point], None] = lambda point: None
"""Called when a point fires for the first time."""

on_define: Callable[[Hook], None] = lambda hook: None
"""Called with each hook that is defined; the rewriter makes it transparent to ``torch.compile``."""

on_silence: Callable[[], None] = lambda: None
"""Called when every hook of the process is silenced."""

on_undefine: dict[str, Callable[[], None]] = {}
"""What takes the hooks of a point away, for points whose hooks are not under the names of their own."""


def listen(
    *,
    failure: Callable[[Point, BaseException], None] | None = None,
    first: Callable[[Point], None] | None = None,
    define: Callable[[Hook], None] | None = None,
    silence: Callable[[], None] | None = None,
) -> None:
    """Have these called from now on, each in place of the one before it. None leaves the one before."""
    global on_failure, on_first, on_define, on_silence
    on_failure, on_first = failure or on_failure, first or on_first
    on_define, on_silence = define or on_define, silence or on_silence


defined: dict[str, Point] = {}
"""Every point of this process by its name."""


class Point:
    """One hook: its name, how often it was called, and which errors its handler has raised."""

    __slots__ = ("failures", "name", "read", "renew")

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures: set[type[BaseException]] = set()
        self.read: Callable[[], int] = int
        self.renew: Callable[[], None] = _nothing
        """Called in the child of a fork."""

    @property
    def fired(self) -> int:
        """How often the hook was called in this process."""
        return self.read()


def define(
    name: str,
    handler: Handler,
    *,
    override: bool = False,
    captures: tuple[str, ...] = (),
    wildcard: bool = False,
    receives: bool = False,
    active: Callable[[], object] | None = None,
) -> Point:
    """Put a hook for ``handler`` into builtins, under ``name`` and its suffixed forms.

    ``handler(value, *captures)`` is called with the variable's value and those of ``captures``; with
    ``wildcard``, with the variable's name before the captures. With ``override``, what it returns takes the
    place of the value. ``receives`` says that the value is what a generator is sent, for ``yield from``.
    While ``active()`` returns None, the handler is not called.
    """
    point = Point(name)
    plain = not captures and not wildcard
    make = (_overrider if override else _observer) if plain else _general(override)
    hook, point.read = make(handler, point)
    publish(point, hook, captures, receives, active)
    if wildcard:
        _publish_delegates(name, hook)
    return point


def publish(
    point: Point,
    hook: Hook,
    captures: tuple[str, ...] = (),
    receives: bool = False,
    active: Callable[[], object] | None = None,
) -> None:
    """Put ``hook`` into builtins under the point's name, and its other forms under the suffixed names."""
    name = point.name
    defined[name] = point
    if active is not None:
        hook = _while(active, hook)
    _publish_first(name, hook, point, active)
    _publish_plain(name + "?", _reading_frame(hook, captures))
    _publish_plain(name + ".", _looking(hook, captures))
    _publish_plain(name + "!", _current_error(hook, captures))
    _namespace[name + "~"] = NameError
    _publish_plain(name + "@", partial(Delegate, _namespace, name, receives))


def _publish_delegates(name: str, hook: Hook) -> None:
    """Publish what ``yield from`` delegates to for a wildcard, whose hook takes the event's name as well."""
    for suffix, variable in (("@", "#yield"), ("@>", "#receive")):
        named = f"{name}{suffix}:"
        _publish_plain(named, lambda value, variable=variable: hook(value, variable))
        receives = variable == "#receive"
        _publish_plain(name + suffix, partial(Delegate, _namespace, named, receives))


def publish_calls(
    hooks: dict[str, Hook],
    counted: Point,
    captures: dict[str, tuple[str, ...]],
    active: Callable[[], object] | None = None,
) -> None:
    """Put hooks around calls into builtins, by their names. They look for the frames themselves.

    ``counted`` is the point of one of them; ``captures`` has the variables that each takes after its value.
    """
    for name, hook in hooks.items():
        defined[name] = counted if name == counted.name else Point(name)
        if active is not None:
            hook = _while(active, hook)
        _publish_plain(name, hook)
        _publish_plain(name + "?", _reading_frame(hook, captures.get(name, ())))
        _publish_plain(name + "!", _current_error(hook, captures.get(name, ())))


def define_raw(name: str, hook: Hook) -> None:
    """Put ``hook`` itself into builtins under ``name``, neither counted nor guarded."""
    _publish_plain(name, hook)


def undefine(name: str) -> None:
    """Make the hooks of ``name`` do nothing. Code that calls them goes on as without them."""
    on_undefine.pop(name, _nothing)()
    for suffix in ("", "?", "@", "@:", "@>", "@>:"):
        if name + suffix in _namespace:
            _namespace[name + suffix] = _identity
    for suffix in ("+", "-", "!", "."):
        if name + suffix in _namespace:
            _namespace[name + suffix] = _nothing


def silence() -> None:
    """Make all hooks of this process do nothing: it is a worker, whose time is not the training's."""
    for name in list(defined):
        undefine(name)
    on_silence()


def _identity(value: Any, *_: Any) -> Any:
    return value


def _nothing(*_: Any) -> None:
    return None


def _publish_first(
    name: str, hook: Hook, point: Point, active: Callable[[], object] | None
) -> None:
    """Publish a hook that reports its first call, and then has ``hook`` itself take its place."""

    def first(value: Any, *rest: Any) -> Any:
        if _namespace.get(name) is first and (active is None or active() is not None):
            _namespace[name] = hook
            on_first(point)
        return hook(value, *rest)

    _publish_plain(name, hook)
    on_define(first)
    _namespace[name] = first


def _while(active: Callable[[], object], hook: Hook) -> Hook:
    """Return ``hook``, called only while ``active()`` does not return None."""

    def gated(value: Any, *rest: Any) -> Any:
        if active() is None:
            return value
        return hook(value, *rest) if rest else hook(value)

    return gated


def _publish_plain(name: str, hook: Hook) -> None:
    on_define(hook)
    _namespace[name] = hook


# A hook for each kind of handler, with what reads its count. They are separate functions, not one with
# parameters, since a hook in Python runs at each event.


def _observer(handler: Handler, point: Point) -> tuple[Hook, Callable[[], int]]:
    """Return a hook for a handler of the value alone, which does not change it."""
    fired = 0

    def hook(value: Any) -> Any:
        nonlocal fired
        fired += 1
        try:
            handler(value)
        except BaseException as error:
            failed(point, error)
        return value

    return hook, lambda: fired


def _overrider(handler: Handler, point: Point) -> tuple[Hook, Callable[[], int]]:
    """Return a hook for a handler of the value alone, which replaces it."""
    fired = 0

    def hook(value: Any) -> Any:
        nonlocal fired
        fired += 1
        try:
            return handler(value)
        except BaseException as error:
            failed(point, error)
        return value

    return hook, lambda: fired


def _general(override: bool) -> Callable[[Handler, Point], tuple[Hook, Callable[[], int]]]:
    """Return what makes hooks for handlers of a value and captures."""

    def make(handler: Handler, point: Point) -> tuple[Hook, Callable[[], int]]:
        fired = 0

        def hook(value: Any, *rest: Any) -> Any:
            nonlocal fired
            fired += 1
            try:
                result = handler(value, *rest)
            except BaseException as error:
                failed(point, error)
                return value
            return result if override else value

        return hook, lambda: fired

    return make


def failed(point: Point, error: BaseException, frame: FrameType | None = None) -> None:
    """Deal with what was raised while a hook ran: stop the program, raise, or report it.

    A stop ends the program at ``frame``, by default the frame of the caller's caller. What is the program's
    own, such as the error of a signal handler, is raised. Anything else is a mistake of the handler: it is
    reported once for each point and type, and kept from the program.
    """
    if is_stop(error):
        if not goes_on(error):
            request_stop(error, frame or sys._getframe(2))
        return
    if is_programs(error):
        raise error
    if type(error) in point.failures:
        return
    point.failures.add(type(error))
    try:
        on_failure(point, error)
    except Exception:
        pass  # the record is lost, the program is not


def _reading_frame(hook: Hook, captures: tuple[str, ...]) -> Hook:
    """Return a form of ``hook`` for places where a captured variable may be unbound: it reads the frame."""

    def reading(value: Any, *name: Any) -> Any:
        frame = sys._getframe(1)
        return hook(value, *name, *(read_variable(frame, variable) for variable in captures))

    return reading


def _looking(hook: Hook, captures: tuple[str, ...]) -> Hook:
    """Return a form of ``hook`` that reads the value as well, for names with attributes (``self.loss``).

    Code that reads an attribute could run a property of the program's.
    """

    def looking(key: str, wild: bool, *root: Any) -> None:
        frame = sys._getframe(1)
        value = follow(root[0], key.split(".")[1:]) if root else read_variable(frame, key)
        if value is not MISSING:
            names = (key,) if wild else ()
            hook(value, *names, *(read_variable(frame, variable) for variable in captures))

    return looking


def _current_error(hook: Hook, captures: tuple[str, ...]) -> Callable[[], None]:
    """Return a form of ``hook`` for an ``except`` block: it takes what was raised."""

    def error() -> None:
        frame = sys._getframe(1)
        hook(sys.exc_info()[1], *(read_variable(frame, variable) for variable in captures))

    return error
