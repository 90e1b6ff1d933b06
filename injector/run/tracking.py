"""``inject run --track``: one process for each tracker follows the run, and sends its final figures.

It writes its sentences to a pipe, one a line. SIGTERM tells it that the run is collected.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from injector.export.content import Content
    from injector.store.folder import Run

PATIENCE = 120.0
"""Seconds that a tracker has for the final figures, after the report is printed."""
NICENESS = 10
"""Added to a tracker's niceness, as the program comes first."""
_PROGRAM = "from injector.run.tracking import main; main(sys.argv[1:])"


class Trackers:
    """The processes that send a run to trackers. Their ids are in ``apart`` while they run."""

    def __init__(self, tracks: Sequence[tuple[str, str]], apart: set[int]) -> None:
        self._tracks = tracks
        self._apart = apart
        self._running: dict[int, tuple[str, int]] = {}
        """By process id: the tracker, and the pipe from which its sentences are read."""
        self._texts: dict[int, bytes] = {}
        """By process id: the beginning of a line that is not complete yet."""
        self._silent: set[int] = set()
        """The processes that have written no sentence."""
        self.failed = False
        """Whether one has not taken the final figures."""

    def start(self, folder: str, name: str) -> None:
        """Start the processes for the run ``name`` in ``folder``. Raises OSError."""
        from injector.monitor.start import spawn

        for tool, where in self._tracks:
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            try:
                words = [folder, name, repr(time.time()), tool, where]
                # A short program may be over before the process has a handler.
                pid = spawn(_PROGRAM, words, writing, blocked=(signal.SIGTERM,))
            finally:
                os.close(writing)
            self._running[pid] = tool, reading
            self._silent.add(pid)
            self._apart.add(pid)

    def sentences(self) -> list[str]:
        """The sentences since the last call: while the program runs, on what a tracker did not take."""
        sentences = []
        for pid, (_, reading) in self._running.items():
            text = self._texts.get(pid, b"") + _read(reading)
            *lines, self._texts[pid] = text.split(b"\n")
            sentences += [line.decode(errors="replace") for line in lines]
            self._silent -= {pid} if lines else set()
        return sentences

    def end(self) -> list[str]:
        """Wait until the final figures of the run, which is collected, are sent.

        Returns sentences that say where they are, or why they are not sent.
        """
        for pid in self._running:
            _send(pid, signal.SIGTERM)
        sentences: list[str] = []
        deadline = time.monotonic() + PATIENCE
        left = list(self._running)
        try:
            while left and time.monotonic() < deadline:
                left = [pid for pid in left if not self._has_ended(pid)]
                sentences += self.sentences()
                time.sleep(0.01)
        except KeyboardInterrupt:
            pass  # the user does not want to wait longer
        sentences += self.sentences()
        for pid in left:
            _send(pid, signal.SIGKILL)
        self.failed = self.failed or bool(left)
        tools = [self._running[pid][0] for pid in dict.fromkeys([*left, *self._silent])]
        return sentences + [
            f"{tool}: not all was sent; `inject export --to {tool}` sends the run" for tool in tools
        ]

    def _has_ended(self, pid: int) -> bool:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # the supervisor has reaped it
            return True
        self.failed = self.failed or bool(status)
        return ended == pid


def _read(descriptor: int) -> bytes:
    """What is in a pipe that may be empty."""
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


def _send(pid: int, number: int) -> None:
    """Send a signal to a process and what it has started, which is its process group."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def content_of(run: Run, labels: Mapping[str, str], points: int) -> Content:
    """What is exported of ``run``, at most ``points`` of each series. Raises OSError."""
    from injector.analysis.summary import summarise
    from injector.errors import UserError
    from injector.export.content import Content, without_secrets
    from injector.run.renderers import renderer
    from injector.value_class import replace

    summary = summarise(run)
    pages = {}
    # Others read the page in the tracker.
    public = replace(summary, command=tuple(without_secrets(summary.command or ())))
    try:
        pages["report.html"] = renderer(run, public, "html")
    except UserError as error:  # what pages are made with is an extra of its own
        print(f"inject: the page is left out: {error}", file=sys.stderr)
    return Content(run, summary, labels, points, pages)


def main(argv: Sequence[str]) -> None:
    """The process of one tracker, with the words FOLDER NAME STARTED TOOL WHERE. STARTED is unix seconds.

    It exits with 1 if the tracker has not taken the final figures.
    """
    from contextlib import contextmanager
    from threading import Event

    from injector.bus.readable import collected
    from injector.errors import UserError
    from injector.export.live import follow
    from injector.export.series import POINTS
    from injector.export.tracked import Beginning, Destination
    from injector.store.folder import open_run

    folder, name, started, tool, where = argv
    os.nice(NICENESS)
    ended, parent = Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    run = Beginning(name, os.path.basename(os.path.abspath(folder)), float(started))
    if tool == "tensorboard":  # it shows a folder of runs, each in a folder of its own
        where = os.path.join(where or tool, run.folder)
    is_address = "://" in where or tool in ("mlflow", "otel")
    target = Destination(uri=where or None) if is_address else Destination(output=where or None)

    def is_over(seconds: float) -> bool:
        return ended.wait(seconds) or os.getppid() != parent

    @contextmanager
    def final() -> Iterator[Content]:
        with collected(open_run(folder)) as run:
            yield content_of(run, {}, POINTS)

    def say(sentence: str) -> None:
        print(sentence, flush=True)

    sent = False
    try:
        sent = follow(folder, tool, target, run, is_over, final, say)
    except UserError as error:
        say(f"{tool}: {error}")
    except Exception as error:
        say(f"{tool}: {type(error).__name__}: {error}; `inject export --to {tool}` sends the run")
    sys.exit(not sent)
