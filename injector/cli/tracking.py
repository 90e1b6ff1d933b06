"""``inject run --track``: for each tracker a process beside the program, which ends with the final
figures.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PATIENCE = 120.0
"""Seconds for the final figures, once the program has ended and its report is there."""
LEAST_PRIORITY = 10
"""What a tracker sends is less urgent than what the program computes."""
_PROGRAM = "from injector.cli.tracking import main; main(sys.argv[1:])"


class Trackers:
    """The processes that send a run to trackers; their numbers are in ``apart`` while they run."""

    def __init__(self, tracks: Sequence[tuple[str, str]], apart: set[int]) -> None:
        self._tracks = tracks
        self._apart = apart
        self._running: dict[int, tuple[str, int]] = {}
        """By process: the tracker, and where its sentences can be read."""
        self._texts: dict[int, bytes] = {}
        self._silent: set[int] = set()
        """Those that have written nothing."""

    def start(self, folder: str, name: str) -> None:
        """Follow the run in ``folder``. Raises OSError."""
        from injector.monitor.start import spawn

        for tool, where in self._tracks:
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            try:
                words = [folder, name, repr(time.time()), tool, where]
                # A program may be over before the process can know what to do then.
                pid = spawn(_PROGRAM, words, writing, blocked=(signal.SIGTERM,))
            finally:
                os.close(writing)
            self._running[pid] = tool, reading
            self._silent.add(pid)
            self._apart.add(pid)

    def sentences(self) -> list[str]:
        """What they have written since: of what was not taken."""
        found = []
        for pid, (_, reading) in self._running.items():
            text = self._texts.get(pid, b"") + _read(reading)
            *lines, self._texts[pid] = text.split(b"\n")
            found += [line.decode(errors="replace") for line in lines]
            self._silent -= {pid} if lines else set()
        return found

    def end(self) -> list[str]:
        """The run is collected: wait for the final figures. Sentences that say where they are, or why not."""
        for pid in self._running:
            _send(pid, signal.SIGTERM)
        sentences: list[str] = []
        due = time.monotonic() + PATIENCE
        left = dict(self._running)
        try:
            while left and time.monotonic() < due:
                left = {pid: known for pid, known in left.items() if not self._gone(pid)}
                sentences += self.sentences()
                time.sleep(0.01)
        except KeyboardInterrupt:
            pass  # the user has waited enough
        sentences += self.sentences()
        for pid in left:
            _send(pid, signal.SIGKILL)
        tools = [self._running[pid][0] for pid in {**left, **dict.fromkeys(self._silent)}]
        return sentences + [
            f"{tool}: not all was sent; `inject export --to {tool}` sends the run" for tool in tools
        ]

    def _gone(self, pid: int) -> bool:
        try:
            return os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # the supervisor has waited for it
            return True


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def _send(pid: int, number: int) -> None:
    """To the process and what it has started."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def main(argv: Sequence[str]) -> None:
    """The process of one tracker: ``FOLDER NAME STARTED TOOL WHERE``, the third in unix seconds."""
    from contextlib import contextmanager
    from threading import Event

    from injector.errors import UserError
    from injector.export.content import Content
    from injector.export.live import follow
    from injector.export.tracked import Beginning, Destination
    from injector.store.folder import open_run

    from .export import content_of
    from .opened import collected

    folder, name, started, tool, where = argv
    os.nice(LEAST_PRIORITY)
    ended, parent = Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    run = Beginning(name, os.path.basename(os.path.abspath(folder)), float(started))
    if tool == "tensorboard":  # a folder of runs: each is one of its own
        where = os.path.join(where or tool, run.folder)
    served = "://" in where or tool in ("mlflow", "otel")
    target = Destination(uri=where or None) if served else Destination(output=where or None)

    def over(seconds: float) -> bool:
        return ended.wait(seconds) or os.getppid() != parent

    @contextmanager
    def final() -> Iterator[Content]:
        with collected(open_run(folder)) as run:
            yield content_of(run, {})

    def say(sentence: str) -> None:
        print(sentence, flush=True)

    try:
        follow(folder, tool, target, run, over, final, say)
    except UserError as error:
        say(f"{tool}: {error}")
    except Exception as error:
        say(f"{tool}: {type(error).__name__}: {error}; `inject export --to {tool}` sends the run")
    sys.stdout.flush()
