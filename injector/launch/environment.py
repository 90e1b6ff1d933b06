"""The variables that make a Python process boot us, what they say, and which commands are given them.

A child that is no Python sees the environment it would see without us: our variables are
not in the output of ``env``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

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

FORKED = "--multiprocessing-fork"
"""How multiprocessing calls what it has spawned."""

SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
"""Variables in which launchers of ranks say how many there are."""

COMPILED = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How executable files of Linux and macOS begin."""

SHELL_SIGNS = str.maketrans(dict.fromkeys("'\"`;&|()<>{}$\n\t", " "))


def refusal(folder: str, pid: int) -> str:
    """The folder by which a process says that it ended before the program had begun."""
    return os.path.join(folder, "raw", f"refused.{pid}")


def pythonpath(original: str | None) -> str:
    """``PYTHONPATH`` with our folder in front; a variable that is set but empty differs from none."""
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

    ``search`` is the ``PATH`` in which the command's first word is looked for. An interpreter that is
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
    return any(flag in "IES" for flag, _ in _flags(words))


def is_one_of_several() -> bool:
    """Whether this process seems to be one of several that do the same: a rank, or a spawned worker."""
    if FORKED in sys.orig_argv:
        return True
    return any(os.environ.get(name, "1") not in ("", "0", "1") for name in SIZES)


def module_named(words: list[str]) -> str:
    """The module that an interpreter is to run with ``-m``; ``""`` for anything else."""
    return next((value for flag, value in _flags(words) if flag == "m"), "")


def _flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The one-letter options of an interpreter, each with its value; the last may be ``-c``, ``-m``."""
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


def find_command(name: str) -> str | None:
    """The command of a name on the ``PATH``, else beside the interpreter.

    A package's command stands beside the interpreter that the package is installed for, on the
    ``PATH`` only where the environment is activated.
    """
    return find(name, os.environ.get("PATH")) or find(name, os.path.dirname(sys.executable))


def interpreter_line(path: str) -> bool:
    """Whether a regular file starts with ``#!`` and the name of a Python or a shell."""
    line = _start(path).split(b"\n", 1)[0]
    return line.startswith(b"#!") and (
        b"python" in line or any(word.endswith(b"sh") for word in line.split())
    )


def is_foreign(path: str) -> bool:
    """Whether a file can be executed and is none of Python's: compiled, or a script of another language."""
    start = _start(path)
    line = start.split(b"\n", 1)[0]
    other = line.startswith(b"#!") and b"python" not in line
    return (other or start.startswith(COMPILED)) and os.access(path, os.X_OK)


def _start(path: str) -> bytes:
    """The first bytes of a regular file; none of what is no such file, or cannot be read."""
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
    """Nested lists and mappings of strings, finite numbers, booleans and None as JSON.

    The settings of a run travel so: the json package costs 6 ms, its part in C costs 0.2.
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
