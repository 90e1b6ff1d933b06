"""What Ray's workers run on a node: a part of a job, and the copying of its files.

Ray is handed these classes by value: no node needs ``injector`` in the Python of its workers.
"""

from __future__ import annotations

import fcntl
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from . import file_copy, ports
from .file_copy import FileEntry, FilePiece

OF_WORKERS = ("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_CLIENT_MODE", "RAY_LD_PRELOAD_ON_WORKERS")
"""Variables that are about the worker, and not about what it starts."""
SET_BY_WORKERS = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")
"""Variables that Ray sets where they are not set: a program is to have them as the node has them."""
LATER = 1.0
"""Seconds after which a question for output is answered with none."""


class RayNode:
    """An actor without resources of its own: what a node has, and its files."""

    def runs(self, script: str) -> str:
        """What a shell's ``script`` prints."""
        words = ["sh", "-c", script]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def now(self) -> float:
        """Its unix time."""
        return time.time()

    def sees(self, path: str) -> bool:
        """Whether a path is there."""
        return os.path.exists(path)

    def entries(self, paths: Sequence[str]) -> dict[str, FileEntry]:
        """See :func:`.file_copy.entries`."""
        return file_copy.entries(paths)

    def lacking(self, wanted: Mapping[str, FileEntry]) -> list[str]:
        """See :func:`.file_copy.lacking`."""
        return file_copy.lacking(wanted)

    def read(self, batch: Sequence[tuple[str, FileEntry, int]]) -> list[FilePiece]:
        """See :func:`.file_copy.read`."""
        return file_copy.read(batch)

    def write(self, pieces: Sequence[FilePiece]) -> None:
        """See :func:`.file_copy.write`."""
        file_copy.write(pieces)


class RayPart:
    """An actor that has a part's devices: it starts one command and waits for it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        self._failure = OSError("it was not started")
        self._output: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self._open = 0
        self._tie = -1

    def prepare(
        self, mark: str, files: Mapping[str, bytes], journal: Mapping[str, str], ports_wanted: int
    ) -> dict[str, Any]:
        """Whether this node sees ``mark``, a file of the suite; if not, ``files`` are written here.

        ``journal``: by file, lines that are added there.
        """
        shared = os.path.exists(mark)
        if not shared:
            write_files(files)
            for path, lines in journal.items():
                with open(path, "a", encoding="utf-8") as file:
                    file.write(lines)
        return {"shared": shared, "ports": ports.free_ports(ports_wanted)}

    def start(
        self,
        words: Sequence[str],
        folder: str,
        output: str | None,
        variables: Mapping[str, str],
        files: Mapping[str, bytes],
    ) -> None:
        """Start a command in ``folder``, its output in a file there, or kept for :meth:`output`.

        It gets a signal to end when this worker ends, however that happens. Where it cannot be started,
        :meth:`wait` says why.
        """
        try:
            os.makedirs(folder, exist_ok=True)
            write_files(files, mode=0o600)
            self._start(words, folder, output, variables)
        except OSError as error:
            self._failure = error
        finally:
            self._started.set()

    def _start(
        self, words: Sequence[str], folder: str, output: str | None, variables: Mapping[str, str]
    ) -> None:
        inner, self._tie = os.pipe()

        def tied() -> None:
            # When the other end of the pipe closes, the kernel sends this process a signal.
            fcntl.fcntl(inner, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(inner, fcntl.F_SETSIG, signal.SIGTERM)
            fcntl.fcntl(inner, fcntl.F_SETFL, fcntl.fcntl(inner, fcntl.F_GETFL) | os.O_ASYNC)

        path = os.path.join(folder, output) if output else os.devnull
        with open(path, "ab") as file:
            self._process = subprocess.Popen(
                words,
                cwd=folder,
                env={**_environment(), **variables},
                stdin=subprocess.DEVNULL,
                stdout=file if output else subprocess.PIPE,
                stderr=file if output else subprocess.PIPE,
                start_new_session=True,
                pass_fds=[inner],
                preexec_fn=tied,
            )
        os.close(inner)
        if not output:
            self._open = 2
            for number, stream in ((1, self._process.stdout), (2, self._process.stderr)):
                assert stream is not None
                threading.Thread(target=self._keep, args=(number, stream), daemon=True).start()

    def _keep(self, number: int, stream: IO[bytes]) -> None:
        while data := os.read(stream.fileno(), 1 << 16):
            self._output.put((number, data))
        self._output.put((number, b""))

    def output(self) -> list[tuple[int, bytes]] | None:
        """What it has printed, by the number of its stream; waits for some. None: it is over."""
        self._started.wait()
        if not self._open:
            return None
        found = []
        try:
            found.append(self._output.get(timeout=LATER))
            while not self._output.empty():
                found.append(self._output.get())
        except queue.Empty:
            pass
        self._open -= sum(not data for _, data in found)
        return [each for each in found if each[1]]

    def wait(self) -> int:
        """The exit code of the command; below 0 the signal that ended it. Raises OSError."""
        self._started.wait()
        if self._process is None:
            raise self._failure
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def write_files(files: Mapping[str, bytes], mode: int = 0o666) -> None:
    """Write whole files; each appears at once. Raises OSError."""
    for path, content in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        beside = f"{path}.{os.urandom(4).hex()}"
        made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(made, "wb") as file:
            file.write(content)
        os.replace(beside, path)


def _environment() -> dict[str, str]:
    """The environment of this node, with the devices that Ray has given to this worker."""
    found = {name: text for name, text in os.environ.items() if name not in OF_WORKERS}
    of_node = _environment_of(os.getppid())
    for name in SET_BY_WORKERS:
        found.pop(name, None)
        if name in of_node:
            found[name] = of_node[name]
    return found


def _environment_of(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (os.fsdecode(each).partition("=") for each in file.read().split(b"\0"))
            return {name: text for name, equals, text in pairs if equals}
    except OSError:
        return {}
