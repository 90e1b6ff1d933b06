"""External commands, run to their end; locks that they hold; files and folders that appear whole.

Other suites may work below the same base at the same moment, and anything may fail half-way.
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
"""Prints what goes on, a line at a time."""

STAGED = ".making"
TAIL = 30
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""

_held: list[int] = []
"""Descriptors of the locks that this process holds."""


class Failed(Exception):
    """Something could not be made; the text says what, why and what to do, in lines."""


class CommandFailed(Failed):
    """A command that ended badly."""

    def __init__(self, words: Sequence[str], code: int, tail: str) -> None:
        self.code = code
        self.tail = tail
        how = f"exit code {code}" if code >= 0 else f"died by {signal_name(-code)}"
        text = f"{how}: {shlex.join(words)}"
        super().__init__(f"{text}\n{indented(tail)}" if tail else text)


def indented(text: str, by: str = "    ") -> str:
    """``text`` with each line moved to the right."""
    return "\n".join(by + line for line in text.splitlines())


@contextlib.contextmanager
def locked(file: Path, what: str, say: Say, shared: bool = False) -> Iterator[None]:
    """Hold the lock ``file`` alone, or ``shared`` with others; ``what`` it protects is printed.

    Commands that :func:`call` starts hold the lock too: where this process is killed, the next
    one waits until they have ended.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {_holder(descriptor)}, which uses {what}")
            fcntl.flock(descriptor, how)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        _held.append(descriptor)
        try:
            yield
        finally:
            _held.remove(descriptor)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    number = os.pread(descriptor, 20, 0).strip().decode(errors="replace")
    return f"process {number}" if number else "another process"


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """An empty folder that becomes ``folder`` if all goes well, and is there as a whole or not at all.

    What ``folder`` was before stays until then. To be used under a lock.
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
    """Put the folder ``new`` in the place of ``folder``."""
    old = folder.with_name(folder.name + ".old")
    folders.remove(old)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    folders.remove(old)


def write(file: Path, text: str) -> None:
    """Write a file that is there as a whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}{STAGED}")
    with open(new, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.rename(file)


def read_record(file: Path, schema: int) -> dict[str, Any] | None:
    """The JSON object in ``file``; None where there is none, or one of another ``schema``."""
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
    """Run a command to its end; gives what it printed on both streams.

    ``log`` keeps that in a file, which can be followed meanwhile.

    Raises:
        CommandFailed: it ended with another exit code than 0, or could not be started.
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
        code = _ended(process)
        out.seek(0)
        printed = out.read().decode(errors="replace")
    if code:
        raise CommandFailed(argv, code, tail(printed))
    return printed


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for a command; an exception while waiting ends it, and so is what it leaves behind."""
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
    """The last lines of what a command printed; of a line that overwrites itself, its last state."""
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
    """Whether what a tool printed says that it did not reach what it wanted."""
    return _SIGNS.search(text) is not None
