"""The actors that Ray's workers run on a node: one that runs a part of a job, and one that copies files.

Ray pickles this module by value, with those that it imports (:meth:`.ray_agent.RayAgent.connect`), so that no
node needs ``injector`` in the Python of its workers.
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

OF_WORKERS = ("RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_CLIENT_MODE", "RAY_LD_PRELOAD_ON_WORKERS")
"""Variables about the worker itself, which a program that Ray starts does not get."""
SET_BY_WORKERS = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")
"""Variables that Ray sets in its workers if the node has not: a program gets them as the node has them."""
LATER = 1.0
"""Seconds that a request for output waits for some."""


class RayNode:
    """An actor without resources of its own, for the hardware, the clock and the files of a node."""

    def runs(self, script: str) -> str:
        """What ``script`` prints, run in a shell."""
        words = ["sh", "-c", script]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def now(self) -> float:
        """The node's Unix time, in seconds."""
        return time.time()

    def files(self, function: str, argument: Any) -> Any:
        """What a ``function`` of :mod:`.file_copy` returns there."""
        return getattr(file_copy, function)(argument)


class RayPart:
    """An actor with the resources of a job's part: it starts one command and waits for it.

    Its methods run in threads, several at the same time.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        self._failure = OSError("it was not started")
        self._output: queue.Queue[tuple[int, bytes]] = queue.Queue()
        """What was printed and is unread, with the number of its stream; empty at the end of a stream."""
        self._open = 0
        """How many streams have not ended."""
        self._tie = -1
        """The end of a pipe that is open as long as this worker lives."""

    def prepare(
        self, mark: str, files: Mapping[str, bytes], journal: Mapping[str, str], ports_wanted: int
    ) -> dict[str, Any]:
        """Find out whether this node sees ``mark``, a file of the suite; if not, write what a part needs.

        ``files`` are contents and ``journal`` lines to be appended, each by the path of the file. Returns
        ``shared``, whether it sees the mark, and as many free ``ports`` as are wanted.
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
        """Start the command ``words``; if that fails, :meth:`wait` raises the reason.

        It gets SIGTERM when this worker ends, however that happens. It runs in ``folder``, created if need
        be, with more ``variables`` in its environment, and prints into the file ``output`` there; None keeps
        that for :meth:`output`. ``files`` are written first, contents by path, readable by their owner alone.
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

        def tie() -> None:
            # When the worker dies, its end of the pipe closes, and the owner of this one gets SIGTERM.
            # PR_SET_PDEATHSIG would not do: it is sent when the thread ends that has started the process.
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
                preexec_fn=tie,
            )
        os.close(inner)
        if not output:
            self._open = 2
            for number, stream in ((1, self._process.stdout), (2, self._process.stderr)):
                assert stream is not None
                threading.Thread(target=self._keep, args=(number, stream), daemon=True).start()

    def _keep(self, number: int, stream: IO[bytes]) -> None:
        """Put what comes from a stream into the queue, until it ends."""
        while data := os.read(stream.fileno(), 1 << 16):
            self._output.put((number, data))
        self._output.put((number, b""))

    def output(self) -> list[tuple[int, bytes]] | None:
        """What the command has printed since the last call, in pieces with the number of their stream.

        Waits for some, at most :data:`LATER`. None if both streams have ended.
        """
        self._started.wait()
        if not self._open:
            return None
        pieces = []
        try:
            pieces.append(self._output.get(timeout=LATER))
            while not self._output.empty():
                pieces.append(self._output.get())
        except queue.Empty:
            pass
        self._open -= sum(not data for _, data in pieces)
        return [piece for piece in pieces if piece[1]]

    def wait(self) -> int:
        """Wait for the command's end; its exit code, or minus the signal that ended it.

        Raises OSError if it was not started.
        """
        self._started.wait()
        if self._process is None:
            raise self._failure
        return self._process.wait()

    def signal(self, number: int) -> None:
        """Send the command a signal, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def write_files(files: Mapping[str, bytes], mode: int = 0o666) -> None:
    """Write files, by path, each whole or not at all. Raises OSError."""
    for path, content in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        draft = f"{path}.{os.urandom(4).hex()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(draft, path)


def _environment() -> dict[str, str]:
    """This worker's environment, with the devices that Ray gave it, and otherwise as the node has it."""
    variables = {name: text for name, text in os.environ.items() if name not in OF_WORKERS}
    of_node = _environment_of(os.getppid())  # of the raylet, which starts workers
    for name in SET_BY_WORKERS:
        variables.pop(name, None)
        if name in of_node:
            variables[name] = of_node[name]
    return variables


def _environment_of(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (os.fsdecode(entry).partition("=") for entry in file.read().split(b"\0"))
            return {name: text for name, equals, text in pairs if equals}
    except OSError:
        return {}
