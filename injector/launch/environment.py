"""The variables by which a Python process boots this package, and the commands that get them.

Python imports ``sitecustomize`` from ``PYTHONPATH``, where our folder is put first; a variable of ours holds
the settings of the run. A child that is no Python sees the environment that it would see without us, so that
our variables are not in the output of ``env``. So for each command, it has to be guessed from its words
whether it will start a Python (:func:`starts_python`).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
"""The folder with the ``sitecustomize`` that boots this package; it goes to the front of ``PYTHONPATH``."""

PACKAGE = os.path.dirname(os.path.dirname(SITE))

STDIN = os.path.join(SITE, "-")
"""The path, of no file, that stands for a program on standard input."""

BOOT = "INJECT_BOOT"
"""The variable with the settings of the run."""
PATH = "INJECT_PATH"
"""The variable with the program's ``sys.path[0]``, for children without a script of their own."""

MANY = 200
"""How many words of a command are looked at: an ``rm`` of 10 000 files must not take longer."""

FORKED = "--multiprocessing-fork"
"""The argument by which multiprocessing marks the processes that it spawns."""

SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
"""The variables in which launchers put the number of ranks."""

COMPILED = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""The first bytes of executable files of Linux and macOS."""

SHELL_SIGNS = str.maketrans(dict.fromkeys("'\"`;&|()<>{}$\n\t", " "))
"""Replaces what separates the words of a shell's command by spaces."""


def refusal(folder: str, pid: int) -> str:
    """Return the folder by which a process shows that it has ended before the program began."""
    return os.path.join(folder, "raw", f"refused.{pid}")


def pythonpath(original: str | None) -> str:
    """Return ``PYTHONPATH`` with our folder in front.

    ``original`` is None where the variable is not set. Where it is set but empty, the result differs from
    that, so that it can be restored.
    """
    if original is None:
        return SITE
    return SITE + os.pathsep + original if original else SITE + os.sep


def variables(boot: str, original: str | None, path: str | None = None) -> dict[str, str]:
    """Return the variables that a Python child gets beside its own environment."""
    given = {BOOT: boot, "PYTHONPATH": pythonpath(original)}
    if path is not None:
        given[PATH] = path
    return given


def starts_python(words: Iterable[object], search: str | None = None) -> bool:
    """Whether a command names a Python interpreter, or a script that will call one.

    ``search`` is the ``PATH`` in which the first word of the command is looked for. An interpreter that
    ignores its environment (``-I``, ``-E``) or skips ``site`` (``-S``) could not boot this package.
    """
    texts = _texts(words)
    for index, word in enumerate(texts):
        if is_interpreter(word):
            return not _isolated(texts[index + 1 :]) and not _is_tracker(texts[index + 1 :])
        # The argument of `sh -c` is one word here, and holds a command of its own.
        parts = word.translate(SHELL_SIGNS).split()
        if parts != [word] and starts_python(parts, search):
            return True
        if word.endswith((".py", ".sh")) or _is_script(word, index == 0, search):
            return True
    return False


def is_interpreter(word: str) -> bool:
    """Whether a word is ``python``, ``/usr/bin/python3.12`` or the like, or the interpreter that runs now."""
    name = word.rpartition("/")[2]
    for stem in ("python", "pypy"):
        if name.startswith(stem):
            return not name[len(stem) :].strip("0123456789.wdtm")
    return bool(word) and word == sys.executable


def _texts(words: Iterable[object]) -> list[str]:
    """Return the first words of a command as text, without those that are neither text nor bytes."""
    texts = []
    for word in words:
        try:
            texts.append(os.fsdecode(word))  # type: ignore[arg-type]
        except TypeError:  # the call itself raises the error that the program expects
            continue
        if len(texts) == MANY:
            break
    return texts


def _isolated(words: list[str]) -> bool:
    """Whether the options before the script keep the environment or ``site`` out."""
    return any(flag in "IES" for flag, _ in _flags(words))


def is_one_of_several() -> bool:
    """Whether this process seems to be one of several of a kind: a rank, or a spawned worker."""
    if FORKED in sys.orig_argv:
        return True
    return any(os.environ.get(name, "1") not in ("", "0", "1") for name in SIZES)


def module_named(words: list[str]) -> str:
    """Return the module that an interpreter with these arguments runs (``-m``); ``""`` if it runs none."""
    return next((value for flag, value in _flags(words) if flag == "m"), "")


def _flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the one-letter options of an interpreter, with their values, up to ``-c`` or ``-m``."""
    left = iter(words)
    for word in left:
        if not word.startswith("-") or word == "-":
            return
        for position, flag in enumerate(word[1:] if word[1] != "-" else "", 2):
            if flag in "cmWX":
                yield flag, word[position:] or next(left, "")
                if flag in "cm":
                    return
                break
            yield flag, ""


def _is_tracker(words: list[str]) -> bool:
    """Whether this is multiprocessing's resource tracker, which runs none of the program."""
    return any(word.startswith("from multiprocessing.resource_tracker import") for word in words)


def _is_script(word: str, first: bool, search: str | None) -> bool:
    """Whether a word is a file that starts with a ``#!`` line of Python or of a shell.

    The ``first`` word of a command is looked for in the path ``search``.
    """
    if not word or word.startswith("-") or len(word) > 4096:
        return False
    path = find(word, search) if first else word
    return path is not None and interpreter_line(path)


def find(command: str, search: str | None = None) -> str | None:
    """Return the executable file that the name of a command stands for; None if there is none."""
    if "/" in command:
        return command
    for folder in (os.defpath if search is None else search).split(os.pathsep):
        path = os.path.join(folder, command)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def find_command(name: str) -> str | None:
    """Return the command ``name`` on the ``PATH``, else beside the interpreter; None if there is none.

    The commands of packages lie beside the interpreter that these are installed for. They are on the
    ``PATH`` only if that environment is activated.
    """
    return find(name, os.environ.get("PATH")) or find(name, os.path.dirname(sys.executable))


def interpreter_line(path: str) -> bool:
    """Whether a regular file starts with a ``#!`` line of Python or of a shell."""
    line = _start(path).split(b"\n", 1)[0]
    return line.startswith(b"#!") and (
        b"python" in line or any(word.endswith(b"sh") for word in line.split())
    )


def is_foreign(path: str) -> bool:
    """Whether a file is executable and no Python script: compiled, or a script of another language."""
    start = _start(path)
    line = start.split(b"\n", 1)[0]
    other = line.startswith(b"#!") and b"python" not in line
    return (other or start.startswith(COMPILED)) and os.access(path, os.X_OK)


def _start(path: str) -> bytes:
    """Return the first bytes of a regular file; none where it is no such file, or cannot be read."""
    try:
        if not os.path.isfile(path):
            return b""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, 256)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


# -- settings ---------------------------------------------------------------------------------------


def encode(value: Any) -> str:
    """Return nested lists and mappings of strings, finite numbers, booleans and None as JSON.

    In this form the settings of a run go from process to process. Importing the package json takes 6 ms, its
    part in C, which is all that is needed, 0.2 ms.
    """
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{encode(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    return {None: "null", True: "true", False: "false"}[value]


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        from json import dumps

        return dumps(text)
    return encode_basestring_ascii(text)
