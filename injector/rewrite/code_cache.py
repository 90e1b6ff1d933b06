"""Functions of libraries that were instrumented before, kept for the processes to come.

To instrument a function, its lines are parsed, compiled as they were written, compared with the code that
is loaded, and compiled with hooks: 1 to 2 ms each, and some fifty for PyTorch. What came of it is kept in the
user's cache folder, apart from the program's ``.pyc`` files, one file for each module. It is found again by
all that it follows from: the loaded code itself, the requests, the Python, and our own rewriter. What does
not fit, or is not the user's own file, is not looked at, and made anew.

Hooks are numbered anew in each process, so what is kept calls them by their place among the requests.
"""

from __future__ import annotations

import os
import sys
from _imp import source_hash
from functools import cache
from marshal import dumps, loads
from types import CodeType

from .request import Match, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Key = tuple[int, bytes]

MAGIC = b"injector: instrumented functions, 1\n"
HASH = 0x1E3D
"""Key of the checksums; a checksum has 8 bytes."""
PREFIX = "injector:"
SUFFIXES = "?!.@>+-&~="
"""Of the forms of a hook (:mod:`.transform`)."""


class CodeCache:
    """What is kept of the functions of one module, whose source is the file ``filename``."""

    def __init__(self, module: str, filename: str) -> None:
        self._path, self._fits = _place(module, filename)
        self._kept: dict[Key, bytes] | None = None
        self._changed = False

    def find(
        self, plain: CodeType, requests: Sequence[Request]
    ) -> tuple[CodeType, list[Match]] | None:
        """``plain`` with hooks for ``requests``, and where they matched, if that is known."""
        if not self._path:
            return None
        if self._kept is None:
            self._kept = _read(self._path, self._fits)
        try:
            found = self._kept.get(_key(plain, requests))
        except ValueError:  # a constant that cannot be kept
            return None
        if found is None:
            return None
        code, matches = loads(found)
        hooks = {own: hook for hook, own in _numbered(requests).items()}
        code = _renamed(code, hooks)
        return code, [Match(requests[at], *rest) for at, *rest in matches]

    def keep(
        self, plain: CodeType, requests: Sequence[Request], code: CodeType, matches: Sequence[Match]
    ) -> None:
        """Remember what came of ``plain``, for :meth:`write`."""
        if self._kept is None:
            return
        try:
            found = [(requests.index(each.request), *each[1:]) for each in matches]
            self._kept[_key(plain, requests)] = dumps((_renamed(code, _numbered(requests)), found))
        except (KeyError, ValueError):
            return  # a hook of no request, or a constant that cannot be kept
        self._changed = True

    def write(self) -> None:
        """Keep what is new, where files can be written; another process may do so at the same time."""
        if not self._changed:
            return
        self._changed = False
        body = dumps((self._fits, self._kept))
        own = f"{self._path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
            with open(os.open(own, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(MAGIC + source_hash(HASH, body) + body)
            os.replace(own, self._path)
        except OSError:
            return


def _place(module: str, filename: str) -> tuple[str, tuple[Any, ...]]:
    """The file for a module, or none; and what has to be as it was when it was written."""
    environ = os.environ
    home = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or "", ".cache")
    try:
        seen = os.stat(filename)
        fits = (
            sys.hexversion,
            sys.flags.optimize,
            filename,
            seen.st_size,
            seen.st_mtime_ns,
            _rewriter(),
        )
    except OSError:
        return "", ()
    if not os.path.isabs(home):
        return "", ()
    which = source_hash(HASH, repr(fits[:3]).encode("utf-8", "backslashreplace")).hex()
    return os.path.join(home, "injector", "functions", f"{module}-{which}"), fits


@cache
def _rewriter() -> tuple[tuple[str, int, int], ...]:
    """The rewriter's own files: another rewriter would make other code."""
    found = []
    with os.scandir(os.path.dirname(__file__)) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                seen = entry.stat()
                found.append((entry.name, seen.st_size, seen.st_mtime_ns))
    return tuple(sorted(found))


def _read(path: str, fits: tuple[Any, ...]) -> dict[Key, bytes]:
    """What is kept in a file; nothing if it is another's, is damaged, or is of something else."""
    try:
        with open(path, "rb") as file:
            seen = os.fstat(file.fileno())
            data = file.read() if seen.st_uid == os.geteuid() and not seen.st_mode & 0o22 else b""
    except OSError:
        return {}
    start = len(MAGIC) + 8
    body = data[start:]
    if data[:start] != MAGIC + source_hash(HASH, body):
        return {}
    then, kept = loads(body)
    return kept if then == fits else {}


def _key(plain: CodeType, requests: Sequence[Request]) -> Key:
    """What tells one code with some requests from any other."""
    hooks = _numbered(requests)
    wanted = [
        (hooks[r.hook], r.gate and hooks[r.gate], r._replace(hook="", gate=None, module=""))
        for r in requests
    ]
    # The second format has no references between equal objects, which depend on what else is alive.
    data = dumps((plain, [(*each[:2], *each[2]) for each in wanted]), 2)
    return len(data), source_hash(HASH, data)


def _numbered(requests: Sequence[Request]) -> dict[str, str]:
    """A name for each hook and gate that does not depend on the process."""
    names = dict.fromkeys(name for r in requests for name in (r.hook, r.gate) if name)
    return {name: f"{PREFIX}#{number}" for number, name in enumerate(names)}


def _renamed(code: CodeType, hooks: Mapping[str, str]) -> CodeType:
    """``code`` that calls other hooks. Raises KeyError for one that ``hooks`` does not have."""
    names = list(code.co_names)
    for at, name in enumerate(names):
        if name.startswith(PREFIX):
            hook = name.rstrip(SUFFIXES)
            names[at] = hooks[hook] + name[len(hook) :]
    constants = [_renamed(c, hooks) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.replace(co_names=tuple(names), co_consts=tuple(constants))
