"""External commands, run to their end; locks; files and folders that appear as a whole.

Other suites may work below the same base folder at the same moment, and any of them may be killed half-way.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ...analysis.wording import signal_name
from . import folders

Say = Callable[[str], None]
"""``say(line)`` prints what is being done."""

STAGED = ".making"
"""The ending of a folder or file that is not complete."""
TAIL = 30
"""How many lines of a failed command's output are shown, the last ones."""
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_held: list[int] = []
"""The file descriptors of the locks that this process holds."""


class Failed(Exception):
    """Something could not be made; the text, of one line or more, says what, why, and what to do."""


class CommandFailed(Failed):
    """A command failed; ``code`` is its exit code, or minus a signal, ``tail`` the end of its output."""

    def __init__(self, words: Sequence[str], code: int, tail: str) -> None:
        self.code = code
        self.tail = tail
        how = f"exit code {code}" if code >= 0 else f"died by {signal_name(-code)}"
        text = f"{how}: {shlex.join(words)}"
        super().__init__(f"{text}\n{indented(tail)}" if tail else text)


def indented(text: str, by: str = "    ") -> str:
    """``text`` with ``by`` before each line."""
    return "\n".join(by + line for line in text.splitlines())


@contextlib.contextmanager
def locked(file: Path, what: str, say: Say, shared: bool = False) -> Iterator[None]:
    """Hold the lock ``file`` alone, or ``shared`` with others; if it has to wait, it says for ``what``.

    Commands that :func:`call` starts hold the lock too: if this process is killed, others wait for their end.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            number = os.pread(descriptor, 20, 0).strip().decode(errors="replace")
            holder = f"process {number}" if number else "another process"
            say(f"waiting for {holder}, which uses {what}")
            fcntl.flock(descriptor, kind)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        _held.append(descriptor)
        try:
            yield
        finally:
            _held.remove(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """An empty folder to be filled, which takes the place of ``folder`` at the end, unless there is an error.

    Until then ``folder`` stays what it was. To be used under a lock.
    """
    new = folder.with_name(folder.name + STAGED)
    folders.remove(new)
    new.mkdir(parents=True)
    try:
        yield new
        put_in_place(new, folder)
    finally:
        folders.remove(new)


def put_in_place(new: Path, folder: Path) -> None:
    """Rename the folder ``new`` to ``folder``, whose old content is removed."""
    old = folder.with_name(folder.name + ".old")
    folders.remove(old)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    folders.remove(old)


def write(file: Path, text: str) -> None:
    """Write a file, as a whole or not at all, even if the machine loses power."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}{STAGED}")
    with open(new, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.rename(file)


def read_record(file: Path, schema: int) -> dict[str, Any] | None:
    """The JSON object in ``file``; None if there is none, or its ``schema`` is another."""
    try:
        record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if record.get("schema") == schema else None


def call(
    words: Sequence[str | Path],
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> str:
    """Run a command to its end, and with it all that it started; returns what it printed on both streams.

    It runs in ``folder``, by default the working directory, and with ``environ``, by default this process's.
    ``log`` is a file for its output, which can be followed meanwhile. Raises CommandFailed if its exit code
    is not 0, or it could not be started.
    """
    argv = [str(word) for word in words]
    with contextlib.ExitStack() as stack:
        out: IO[bytes]
        if log is None:
            out = stack.enter_context(tempfile.TemporaryFile())
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            out = stack.enter_context(open(log, "w+b"))
        try:
            process = subprocess.Popen(
                argv,
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=_held,
            )
        except OSError as error:
            raise CommandFailed(argv, 127, f"{error.filename}: {error.strerror}") from None
        code = _wait(process)
        out.seek(0)
        printed = out.read().decode(errors="replace")
    if code:
        raise CommandFailed(argv, code, tail(printed))
    return printed


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a command's end; its exit code. An exception meanwhile, such as Ctrl-C, ends the command.

    What it has left in its session is ended in any case.
    """
    try:
        return process.wait()
    except BaseException:
        _signal_all(process, signal.SIGTERM)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            _signal_all(process, signal.SIGKILL)
            process.wait()
        raise
    finally:
        _signal_all(process, signal.SIGTERM)


def _signal_all(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def tail(text: str, lines: int = TAIL) -> str:
    """The last lines of what a command printed, without empty ones; of a progress bar its last state."""
    kept = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
    return "\n".join([line for line in kept if line][-lines:])


_SIGNS = re.compile(
    r"could not resolve host|name or service not known|temporary failure in name resolution"
    r"|nodename nor servname|getaddrinfo failed|network is unreachable|no route to host"
    r"|connection (refused|reset|timed out|aborted)|connecttimeout|connection to \S+ timed out"
    r"|failed to establish a new connection|max retries exceeded|newconnectionerror"
    r"|unable to access '|could not connect|failed to connect|dns error|cannot connect to proxy"
    r"|proxyerror|operation timed out|could not read from remote repository|urlopen error"
    r"|offline mode|couldn't connect to server|error sending request|localentrynotfounderror",
    re.IGNORECASE,
)


def network_missing(text: str) -> bool:
    """Whether the output of a tool (git, pip, uv, …) means that it had no network."""
    return _SIGNS.search(text) is not None
