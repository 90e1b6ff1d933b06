"""The variables that make a Python process boot us, and which commands are given them.

A child that is no Python sees the environment it would see without us: nobody should find our
variables in the output of ``env``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
"""The folder whose ``sitecustomize`` boots us; it goes to the front of ``PYTHONPATH``."""

PACKAGE = os.path.dirname(os.path.dirname(SITE))

STDIN = os.path.join(SITE, "-")
"""The path, of no file, that stands for a program read from standard input."""

BOOT = "INJECT_BOOT"
PATH = "INJECT_PATH"
"""``sys.path[0]`` of the program, for children that start without a script of their own."""

MANY = 200
"""Words of a command that are looked at; ``rm`` with 10 000 files need not pay for us."""

SHELL_SIGNS = str.maketrans(dict.fromkeys("'\"`;&|()<>{}$\n\t", " "))


def pythonpath(original: str | None) -> str:
    """``PYTHONPATH`` with our folder in front; a variable set but empty stays told from none."""
    if original is None:
        return SITE
    return SITE + os.pathsep + original if original else SITE + os.sep


def variables(boot: str, original: str | None, path: str | None = None) -> dict[str, str]:
    """What a Python child is given on top of its own environment."""
    given = {BOOT: boot, "PYTHONPATH": pythonpath(original)}
    if path is not None:
        given[PATH] = path
    return given


def starts_python(words: Iterable[object], search: str | None = None) -> bool:
    """Whether a command names a Python interpreter, or a script that will call one.

    ``search`` is the ``PATH`` in which the command's first word is looked for. An interpreter told
    to ignore its environment (``-I``, ``-E``) or to skip ``site`` (``-S``) could not boot us.
    """
    texts = _texts(words)
    for index, word in enumerate(texts):
        if is_interpreter(word):
            return not _isolated(texts[index + 1 :]) and not _is_tracker(texts[index + 1 :])
        parts = word.translate(SHELL_SIGNS).split()
        if parts != [word] and starts_python(parts, search):
            return True
        if word.endswith((".py", ".sh")) or _is_script(word, index == 0, search):
            return True
    return False


def is_interpreter(word: str) -> bool:
    """Whether a word is ``python``, ``/usr/bin/python3.12``, or the interpreter we run in."""
    name = word.rpartition("/")[2]
    for stem in ("python", "pypy"):
        if name.startswith(stem):
            return not name[len(stem) :].strip("0123456789.wdtm")
    return bool(word) and word == sys.executable


def _texts(words: Iterable[object]) -> list[str]:
    texts = []
    for word in words:
        try:
            texts.append(os.fsdecode(word))  # type: ignore[arg-type]
        except TypeError:  # the call itself will say so, better than we could
            continue
        if len(texts) == MANY:
            break
    return texts


def _isolated(words: list[str]) -> bool:
    """Whether the options before the script keep the environment or ``site`` out."""
    words = list(words)
    while words and words[0].startswith("-") and words[0] != "-":
        flags = words.pop(0)
        if flags.startswith("--"):
            continue
        for position, flag in enumerate(flags[1:], 2):
            if flag in "IES":
                return True
            if flag in "cm":
                return False
            if flag in "WX":
                if position == len(flags) and words:
                    words.pop(0)
                break
    return False


def _is_tracker(words: list[str]) -> bool:
    """Whether this is multiprocessing's resource tracker, which runs none of the program."""
    return any(word.startswith("from multiprocessing.resource_tracker import") for word in words)


def _is_script(word: str, first: bool, search: str | None) -> bool:
    """Whether a word is a file that starts with a line naming Python or a shell."""
    if not word or word.startswith("-") or len(word) > 4096:
        return False
    path = find(word, search) if first else word
    return path is not None and interpreter_line(path)


def find(command: str, search: str | None = None) -> str | None:
    """The executable file that a command's name stands for, or ``None``."""
    if "/" in command:
        return command
    for folder in (os.defpath if search is None else search).split(os.pathsep):
        path = os.path.join(folder, command)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def interpreter_line(path: str) -> bool:
    """Whether a regular file starts with ``#!`` and the name of a Python or a shell."""
    try:
        if not os.path.isfile(path):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        start = os.read(descriptor, 256)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    line = start.split(b"\n", 1)[0]
    return line.startswith(b"#!") and (
        b"python" in line or any(word.endswith(b"sh") for word in line.split())
    )
