"""Python processes that the program starts boot as it did; all others see nothing of us.

The functions that start a process are replaced by callables written in C alone: a Python function in their
place would be a frame of ours in the traceback of every ``FileNotFoundError`` that they raise. To change the
arguments of a call nevertheless, two calls are needed, one of Python and one of C, one after the other.
``__build_class__`` happens to make them. ``__build_class__(body, name, *arguments, metaclass=step)`` calls
``step.__prepare__(name, arguments)``, which is Python and returns, and only then
``step(name, arguments, namespace)``, which is C here.

Without it the traceback of a program that starts what does not exist has lines of ours
(``child_failures.py`` and ``runner.py`` of ``tests/programs``), and our variables outlast a call that fails,
since the traceback keeps our frame alive (``test_others_see_nothing`` of ``tests/launch/test_children.py``).
The order of the two calls is that of the language reference, "Metaclasses", for any Python. That nothing runs
in between is a habit of CPython; in another interpreter this package does not boot at all
(``site/sitecustomize.py``).
"""

from __future__ import annotations

import os
import posix
import sys
from _functools import partial  # type: ignore[import-not-found]
from _operator import methodcaller
from _thread import get_ident

from injector.launch import environment

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Arguments = tuple[Any, ...]
    Options = dict[str, Any]
    Arrange = Callable[[Arguments, Options], tuple[Arguments, object]]

NAMES = ("execv", "execve", "posix_spawn", "posix_spawnp", "system")
ENVIRONMENT = 5
"""Position of the environment among the arguments of ``fork_exec``."""


class Native(partial):  # type: ignore[misc]
    """A callable in place of a builtin, which looks and pickles like that."""

    __wrapped__: Callable[..., Any]

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> Any:
        return self.__wrapped__.__name__


class Interceptor:
    """One builtin, and what is done to its arguments before it is called.

    ``arrange(arguments, options)`` returns the arguments to call it with, and an object that is kept alive
    until the call has returned. It may change ``options``. An instance is the metaclass of the trick above.
    """

    def __init__(self, real: Callable[..., Any], arrange: Arrange) -> None:
        self.real = real
        self.arrange = arrange
        self.waiting: dict[int, list[Callable[[], Any]]] = {}

    def __prepare__(self, _: str, arguments: Arguments, /, **options: Any) -> dict[str, object]:
        """Note the call to be made. What the namespace holds is kept alive until then."""
        arguments, guard = self.arrange(arguments, options)
        call = partial(self.real, *arguments, **options)
        self.waiting.setdefault(get_ident(), []).append(call)
        return {"guard": guard}

    @property
    def go(self) -> Callable[[], Any]:
        """A function in C that makes the noted call, and returns a function that returns the result.

        The result has to come back through another call, as ``__build_class__`` would use it as a class.
        """
        calls = self.waiting[get_ident()]
        call = calls.pop()
        if not calls:
            del self.waiting[get_ident()]
        go: Callable[[], Any] = partial(next, map(_constant, map(methodcaller("__call__"), [call])))
        return go

    __call__ = property(methodcaller("go"))


def _constant(result: Any) -> Callable[..., Any]:
    """Return a function of any arguments that returns ``result``."""
    return lambda *_, **__: result


def _body() -> None:
    """The body of a class that is none, which ``__build_class__`` runs."""


def native(real: Callable[..., Any], arrange: Arrange) -> Native:
    """Return a stand-in for the builtin ``real`` whose arguments go through ``arrange`` first."""
    function = Native(__build_class__, _body, "", metaclass=Interceptor(real, arrange))
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__text_signature__"):
        setattr(function, name, getattr(real, name, None))
    function.__wrapped__ = real
    return function


class TemporaryVariables:
    """Our variables in the C environment, for as long as this object lives: during one call.

    Some calls take the environment as C has it. What a library has put there with ``setenv`` is not in
    ``os.environ``, and would be lost if that were passed on instead.
    """

    __slots__ = ("names",)

    def __init__(self, given: dict[str, str]) -> None:
        self.names = tuple(given)
        for name, value in given.items():
            posix.putenv(name, value)

    def __del__(self) -> None:
        for name in self.names:
            if name in os.environ:
                posix.putenv(name, os.environ[name])
            else:
                posix.unsetenv(name)


class Children:
    """Has Python processes that this one starts boot as it did.

    ``boot`` are the settings that this process has booted with.
    """

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.path: str | None = None
        """The ``sys.path[0]`` of the program, for children that have no script of their own."""
        self.on_exec: Callable[[], None] = lambda: None
        """Called before this process becomes another program, which may fail."""

    def install(self) -> None:
        """Replace what starts processes, wherever the standard library keeps it."""
        import _posixsubprocess

        arrange: dict[str, Arrange] = {
            "execv": self.replaced(self.execv),
            "execve": self.replaced(self.execve),
            "posix_spawn": self.execve,
            "posix_spawnp": self.execve,
            "system": self.system,
        }
        for name, how in arrange.items():
            function = native(getattr(posix, name), how)
            setattr(posix, name, function)
            setattr(os, name, function)
        fork_exec = native(_posixsubprocess.fork_exec, self.fork_exec)
        _posixsubprocess.fork_exec = fork_exec
        # It keeps the function under a name of its own. A .pth file may have imported it before us.
        subprocess = sys.modules.get("subprocess")
        if hasattr(subprocess, "_fork_exec"):
            subprocess._fork_exec = fork_exec  # type: ignore[union-attr]

    def replaced(self, arrange: Arrange) -> Arrange:
        """``arrange`` for a call that, if it succeeds, runs nothing more of this program."""

        def arranged(arguments: Arguments, options: Options) -> tuple[Arguments, object]:
            self.on_exec()
            return arrange(arguments, options)

        return arranged

    def execv(self, arguments: Arguments, options: Options) -> tuple[Arguments, object]:
        """``(path, words)`` under the C environment."""
        if len(arguments) == 2 and self.wanted(arguments[1], path=arguments[0]):
            return arguments, self.inherited()
        return arguments, None

    def execve(self, arguments: Arguments, options: Options) -> tuple[Arguments, object]:
        """Arrange ``(path, words, mapping)``, with the mapping by position or by name (``env``)."""
        if len(arguments) < 2:
            return arguments, None
        path, words, *rest = arguments
        mapping = rest[0] if rest else options.get("env")
        if mapping is None:  # since Python 3.13, the C environment
            return arguments, self.execv((path, words), options)[1]
        if not hasattr(mapping, "keys") or not self.wanted(words, _get(mapping, "PATH"), path):
            return arguments, None
        if rest:
            return (path, words, self.extended(mapping), *rest[1:]), None
        options["env"] = self.extended(mapping)
        return arguments, None

    def system(self, arguments: Arguments, options: Options) -> tuple[Arguments, object]:
        """Arrange ``(command)``, which a shell runs."""
        command = arguments[0] if arguments else options.get("command")
        return arguments, self.inherited() if self.wanted((command,)) else None

    def fork_exec(self, arguments: Arguments, options: Options) -> tuple[Arguments, object]:
        """Arrange ``(words, executables, close_fds, pass_fds, cwd, environment, …)`` of ``subprocess``."""
        if len(arguments) <= ENVIRONMENT:
            return arguments, None
        listed = arguments[ENVIRONMENT]
        search = None if listed is None else _entry(listed, b"PATH")
        path = arguments[1][0] if arguments[1] else None
        if not self.wanted(arguments[0], search, path):
            return arguments, None
        if listed is None:
            return arguments, self.inherited()
        before, after = arguments[:ENVIRONMENT], arguments[ENVIRONMENT + 1 :]
        return (*before, self.extended_list(listed), *after), None

    def wanted(self, words: Any, search: str | None = None, path: Any = None) -> bool:
        """Whether a command is to boot this package. For what is no command, the call itself raises."""
        if isinstance(words, (str, bytes)) or not hasattr(words, "__iter__"):
            return False
        if iter(words) is words:  # reading an iterator would use it up
            return False
        if search is None:
            search = os.environ.get("PATH")
        if environment.starts_python(words, search):
            return True
        return path is not None and environment.starts_python([path, *list(words)[1:]], search)

    def inherited(self) -> TemporaryVariables:
        """Put our variables into the C environment, which a child inherits, during the call."""
        return TemporaryVariables(
            environment.variables(self.boot, os.environ.get("PYTHONPATH"), self.path)
        )

    def extended(self, mapping: Any) -> Any:
        """Return an environment with our variables, unless it boots for another ``inject run``."""
        if _get(mapping, environment.BOOT) is not None:
            return mapping
        given = environment.variables(self.boot, _get(mapping, "PYTHONPATH"), self.path)
        result = {key: value for key, value in mapping.items() if os.fsdecode(key) not in given}
        return {**result, **given}

    def extended_list(self, listed: Any) -> Any:
        """Do as :meth:`extended` for an environment that is a list of ``b"NAME=value"``."""
        if _entry(listed, environment.BOOT.encode()) is not None:
            return listed
        given = environment.variables(self.boot, _entry(listed, b"PYTHONPATH"), self.path)
        result = list(listed)
        for name, value in given.items():
            _put(result, os.fsencode(name) + b"=", os.fsencode(value))
        return result


def _get(mapping: Any, name: str) -> str | None:
    """Return the value of a variable in a mapping whose keys are str or bytes; None if it has none."""
    for key in (name, name.encode()):
        try:
            value = mapping[key]
        except (KeyError, TypeError):
            continue
        return os.fsdecode(value)
    return None


def _entry(listed: Any, name: bytes) -> str | None:
    """Return the value of a variable in a list of ``b"NAME=value"``; None if it has none."""
    for entry in listed:
        if entry.startswith(name + b"="):
            return os.fsdecode(entry[len(name) + 1 :])
    return None


def _put(listed: list[bytes], start: bytes, value: bytes) -> None:
    """Set the entry that begins with ``start`` (``b"NAME="``) in a list, or add it."""
    for index, entry in enumerate(listed):
        if entry.startswith(start):
            listed[index] = start + value
            return
    listed.append(start + value)
