"""Functions of libraries that were instrumented before, kept for later processes.

To instrument a function, its lines are parsed, compiled as they were written, compared with the code that is
loaded, and compiled with hooks: 1 to 2 ms each, and some fifty for PyTorch. The result is kept in the user's
cache folder, apart from the program's ``.pyc`` files, one file for each module. An entry is found by
everything that it follows from: the loaded code itself, the requests, the Python, and the files of our own
rewriter. A file that does not fit, or is not the user's own, is ignored and written anew.

Names of hooks have numbers that differ from process to process. Kept code calls each hook by its place among
the requests instead (``injector:#0``), and is renamed when it is found. The file::

    injector: instrumented functions, 1     MAGIC
    8 bytes                                 checksum of the rest
    marshal of (fits, {key: entry})         ``fits`` is what the file was written for

An entry is a marshalled pair of the code and its matches; a damaged file is one whose checksum is wrong,
since ``marshal`` itself may crash on damaged data.
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
"""Key of the checksums, which have 8 bytes. ``source_hash`` is SipHash, in every Python without an import."""
PREFIX = "injector:"
SUFFIXES = "?!.@>+-&~="
"""Characters that name the forms of a hook (:mod:`.transform`)."""


class CodeCache:
    """The cache of one module, whose source is the file ``filename``."""

    def __init__(self, module: str, filename: str) -> None:
        self._path, self._fits = _place(module, filename)
        self._kept: dict[Key, bytes] | None = None
        self._changed = False

    def find(
        self, plain: CodeType, requests: Sequence[Request]
    ) -> tuple[CodeType, list[Match]] | None:
        """``plain`` with hooks for ``requests``, and the matches, if they are in the cache."""
        if not self._path:
            return None
        if self._kept is None:
            self._kept = _read(self._path, self._fits)
        try:
            entry = self._kept.get(_key(plain, requests))
        except ValueError:  # a constant that cannot be kept
            return None
        if entry is None:
            return None
        code, matches = loads(entry)
        hooks = {neutral: hook for hook, neutral in _numbered(requests).items()}
        code = _renamed(code, hooks)
        return code, [Match(requests[at], *rest) for at, *rest in matches]

    def keep(
        self, plain: CodeType, requests: Sequence[Request], code: CodeType, matches: Sequence[Match]
    ) -> None:
        """Add what ``plain`` became with ``requests``, for :meth:`write`."""
        if self._kept is None:
            return
        try:
            placed_matches = [(requests.index(match.request), *match[1:]) for match in matches]
            self._kept[_key(plain, requests)] = dumps(
                (_renamed(code, _numbered(requests)), placed_matches)
            )
        except (KeyError, ValueError):
            return  # a hook of no request, or a constant that cannot be kept
        self._changed = True

    def write(self) -> None:
        """Write what was added, if files can be written.

        The file is written under a name of this process and renamed: processes that write at the same time,
        or read meanwhile, never see half of one. The last one wins, and what others added is made anew later.
        """
        if not self._changed:
            return
        self._changed = False
        body = dumps((self._fits, self._kept))
        temporary = f"{self._path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self._path), 0o700, exist_ok=True)
            with open(
                os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb"
            ) as file:
                file.write(MAGIC + source_hash(HASH, body) + body)
            os.replace(temporary, self._path)
        except OSError:
            return


def _place(module: str, filename: str) -> tuple[str, tuple[Any, ...]]:
    """The file for a module (``""`` for none), and what has to be as it was when the file was written.

    Its name depends on the Python and the source, so that environments do not overwrite each other's.
    """
    environ = os.environ
    home = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or "", ".cache")
    try:
        status = os.stat(filename)
        fits = (
            sys.hexversion,
            sys.flags.optimize,
            filename,
            status.st_size,
            status.st_mtime_ns,
            _rewriter(),
        )
    except OSError:
        return "", ()
    if not os.path.isabs(home):
        return "", ()
    environment = source_hash(HASH, repr(fits[:3]).encode("utf-8", "backslashreplace")).hex()
    return os.path.join(home, "injector", "functions", f"{module}-{environment}"), fits


@cache
def _rewriter() -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of the rewriter's own files: another version would put in other code."""
    files = []
    with os.scandir(os.path.dirname(__file__)) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                files.append((entry.name, status.st_size, status.st_mtime_ns))
    return tuple(sorted(files))


def _read(path: str, fits: tuple[Any, ...]) -> dict[Key, bytes]:
    """The entries of a file; none if it is damaged, is of something else, or others may write to it."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = (
                file.read() if status.st_uid == os.geteuid() and not status.st_mode & 0o22 else b""
            )
    except OSError:
        return {}
    # Code of it will be executed, so a file that another user owns or may write to is not read.
    start = len(MAGIC) + 8
    body = data[start:]
    if data[:start] != MAGIC + source_hash(HASH, body):
        return {}
    written_for, kept = loads(body)
    return kept if written_for == fits else {}


def _key(plain: CodeType, requests: Sequence[Request]) -> Key:
    """The key of a code with some requests: length and checksum of all that the result follows from."""
    hooks = _numbered(requests)
    neutral = [
        (hooks[r.hook], r.gate and hooks[r.gate], r._replace(hook="", gate=None, module=""))
        for r in requests
    ]
    # The second format of marshal has no references between objects that are the same, and so the same bytes
    # for equal code: which strings are one object depends on what else is alive.
    stable = plain if sys.version_info >= (3, 11) else _in_order(plain)
    data = dumps((stable, [(*each[:2], *each[2]) for each in neutral]), 2)
    return len(data), source_hash(HASH, data)


def _in_order(code: CodeType) -> CodeType:
    """``code`` with its constant sets as lists of their members.

    Python 3.10 dumps sets of strings in an order that differs from process to process.
    """
    constants = tuple(
        _in_order(constant)
        if isinstance(constant, CodeType)
        else ("frozenset", *sorted(map(repr, constant)))
        if isinstance(constant, frozenset)
        else constant
        for constant in code.co_consts
    )
    return code.replace(co_consts=constants)


def _numbered(requests: Sequence[Request]) -> dict[str, str]:
    """A name for each hook and gate that does not depend on the process."""
    names = dict.fromkeys(name for r in requests for name in (r.hook, r.gate) if name)
    return {name: f"{PREFIX}#{number}" for number, name in enumerate(names)}


def _renamed(code: CodeType, hooks: Mapping[str, str]) -> CodeType:
    """``code`` that calls other hooks. Raises KeyError for a hook that ``hooks`` does not have."""
    names = list(code.co_names)
    for at, name in enumerate(names):
        if name.startswith(PREFIX):
            hook = name.rstrip(SUFFIXES)
            names[at] = hooks[hook] + name[len(hook) :]
    constants = [_renamed(c, hooks) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.replace(co_names=tuple(names), co_consts=tuple(constants))
