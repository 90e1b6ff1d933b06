"""``srun inject run …``: each task of a Slurm step is an ``inject run`` of its own; all share a run folder.

The processes of ``mpirun inject run …`` do the same, and are called tasks here as well. They meet in files::

    RUNS/.step.KEY              the path of the run folder, by task 0; KEY names job and step
    RUN/raw/task.RANK.started   made by a task that joins, touched while its program runs
    RUN/raw/task.RANK.ended     its exit code, and problems of its record
    RUN/raw/task.0.clock        host and port where task 0 answers questions for the time
    RUN/raw/task.RANK.clock     a task's host, and by how much its clock differs, if that is known

So tasks need a shared file system, and a network only for their clocks. Task 0 waits for the exit codes of
the others as long as these touch their files, then collects all records and reports.

If the tasks are on several nodes, each asks task 0 for the time before its program starts, and records by the
clock of task 0, so that times of all nodes are in one order. One task of each node asks again now and then:
what clocks drift apart in a long run is corrected when its record is read (:mod:`injector.store.drift`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import sys
import time
from _thread import allocate_lock

from injector.errors import UserError
from injector.launch.signals import take
from injector.launch.supervisor import ENDING
from injector.store.place import Place, replace_file

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from injector.bus.clocks import Answered
    from injector.bus.writer import Writer
    from injector.store.drift import FittedDrift

JOIN_TIME = 30.0
"""Seconds within which all tasks of a step have started. A task that waits longer for task 0 records a run of
its own; task 0 waits no longer for a task that may never call ``inject run``."""
SIGN_PERIOD = 5.0
"""Seconds after which a task whose program runs touches its file again."""
SILENCE = 30.0
"""Seconds without a touch of its file after which task 0, whose own program has ended, gives a task up. Slurm
may end a step some time after one task was killed (``srun --wait``); the report is to come before that."""
HURRY = 20.0
"""Seconds that task 0 waits at most after the step was sent a signal to end, 30 s after which Slurm kills."""
STARTED, CLOCK, ENDED = "started", "clock", "ended"
ASK_PERIOD = 60.0
"""Seconds after which a node asks for the time again."""
RUNNING: list[str] = []
"""The state of a task that has started and not ended."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two looks at the shared folder: at first, and at most as the wait gets longer."""


class StepTask:
    """This process as one of ``world`` tasks of a Slurm step or of ``mpirun``, on ``nodes`` nodes.

    ``key`` names job and step, ``beside`` is the folder in which the run folder lies.
    """

    sign_period = SIGN_PERIOD

    def __init__(
        self,
        rank: int,
        world: int,
        key: str,
        beside: str,
        nodes: int = 1,
        is_first_of_node: bool = True,
    ) -> None:
        self.rank = rank
        self.is_first_of_node = is_first_of_node
        self.world = world
        self.nodes = nodes
        self.moved = 0.0
        """Seconds to add to this node's clock in all that is recorded here."""
        self.asks_again = False
        """Whether this task measures its node's clock for as long as it runs."""
        self.ask_period = ASK_PERIOD
        self._answerer: tuple[str, int] | None = None
        """Host and port where task 0 answers questions for the time."""
        self._drift_log: Writer | None = None
        self._answers: list[Answered] = []
        """The answers that are not in the drift log yet."""
        self._drift_lock = allocate_lock()
        """Of the two above: a question may still be open in its thread when the program ends."""
        self._is_drift_closed = False
        self.tell_the_time: Callable[[], None] | None = None
        """Begins to answer other nodes in a thread: so it is called only once the program was forked."""
        self._began = time.monotonic()
        self._meeting = os.path.join(beside, f".step.{key}")
        """The file in which task 0 names the run folder."""

    def place(self, create: Callable[[], Place]) -> Place:
        """The run folder of the step, which task 0 makes by ``create()`` and the others join.

        A task that finds none to join makes one for itself alone. Raises what ``create`` raises.
        """
        if self.rank == 0:
            place = create()
            if place.path is not None:
                if self.nodes > 1:
                    self._offer_the_time(place.path)
                self._write(self._meeting, place.path)
            return place
        folder = self._join()
        if folder is not None:
            if self.nodes > 1:
                self._ask_the_time(folder)
            return Place(folder, (), new=False)
        place = create()
        problem = f"task {self.rank} found no run folder of task 0 within {JOIN_TIME:g} s, and recorded alone"
        self.rank = -1
        return Place(place.path, (*place.problems, problem), place.new)

    @property
    def follows(self) -> bool:
        """Whether task 0 collects what this task records."""
        return self.rank > 0

    def _join(self) -> str | None:
        """Wait for the run folder of task 0 and return its path; None if there is none in time."""
        while time.monotonic() - self._began < JOIN_TIME:
            try:
                with open(self._meeting, encoding="utf-8", errors="surrogateescape") as file:
                    folder = file.read()
                # "x": if the file exists, this task has joined that folder already, in an earlier run.
                with open(_task_file(folder, self.rank, STARTED), "x"):
                    return folder
            except OSError:
                time.sleep(FIRST_PAUSE)
        return None

    # --- clocks ------------------------------------------------------------------------------------

    def _offer_the_time(self, folder: str) -> None:
        from injector.bus import clocks

        try:
            port, self.tell_the_time = clocks.answers()
        except OSError:
            return  # the others find no address to ask, which the report mentions
        self._write(_task_file(folder, 0, CLOCK), f"{os.uname().nodename}\n{port}")

    def _ask_the_time(self, folder: str) -> None:
        """Measure how far this node's clock differs from that of task 0, and write that down for task 0."""
        from injector.bus import clocks

        own = os.uname().nodename
        answered = None
        try:
            with open(_task_file(folder, 0, CLOCK), encoding="utf-8") as file:
                host, port = file.read().split("\n")
            if host == own:
                return
            self._answerer = host, int(port)
            self.asks_again = self.is_first_of_node
            answered = clocks.ask(*self._answerer)
        except (OSError, ValueError):
            pass
        bounds = None if answered is None else answered.bounds
        if answered is not None and bounds is not None:
            self.moved = clocks.tie_of("", "", bounds, "").shift
            self._answers.append(answered)
        text = "\n".join([own, *map(repr, bounds or ())])
        self._write(_task_file(folder, self.rank, CLOCK), text)

    def ask_again(self, folder: str) -> bool:
        """Ask for the time in a thread, as the answer may take a while. True: to be called again."""
        from injector.bus import clocks

        clocks.in_background(lambda: self._ask_again(folder))
        return True

    def _ask_again(self, folder: str) -> None:
        from injector.bus import clocks

        assert self._answerer is not None
        answered = clocks.ask(*self._answerer)
        if answered is None:
            return  # a later question may be answered
        with self._drift_lock:
            if not self._is_drift_closed:
                self._log_answer(folder, answered)

    def _log_answer(self, folder: str, answered: Answered) -> None:
        """Write ``answered``, and those before it, to the drift log. The lock is held."""
        if self._drift_log is None:
            from injector.bus.writer import Writer
            from injector.store.drift import SUFFIX
            from injector.store.event import clock_meta

            assert self._answerer is not None
            meta = {**clock_meta(self.moved), "of": self._answerer[0]}
            self._drift_log = Writer(folder, meta, suffix=SUFFIX)
        self._answers.append(answered)
        while self._answers:
            each = self._answers.pop(0)
            self._drift_log.emit("clock", {"at": each.at, "low": each.low, "high": each.high})

    def _drift_sentences(self, folder: str) -> dict[str, str]:
        """By host, a sentence on how its clock was seen to drift while the program ran."""
        from injector.store.logs import fitted_drifts, host_clocks, logs_of

        here = os.uname().nodename
        try:
            fitted = fitted_drifts(folder, host_clocks(logs_of(folder)))
        except (OSError, UserError):
            return {}  # records that cannot be read: the report names them
        return {str(host): drift_sentence(here, str(host), fitted[host]) for host in fitted}

    def clocks(self, folder: str) -> list[str]:
        """Sentences on the clocks of the other nodes: before the program, then while it ran."""
        if self.nodes == 1:
            return []
        from injector.bus.clocks import ClockBounds, tie_of

        here = os.uname().nodename
        bounds_of: dict[str, ClockBounds | None] = {}
        for rank in range(1, self.world):
            try:
                with open(_task_file(folder, rank, CLOCK), encoding="utf-8") as file:
                    host, *numbers = file.read().split("\n")
                measured = ClockBounds(*map(float, numbers)) if numbers else None
            except (OSError, ValueError):
                continue  # a task on this node, or one that the report names as missing
            bounds_of[host] = bounds_of.get(host) or measured
        drifts = self._drift_sentences(folder)
        first = [
            tie_of(here, host, bounds, f"asking {here}").sentence
            if bounds
            else f"the clock of {host} is taken as it is: {here} does not answer the question for the time"
            for host, bounds in bounds_of.items()
            if bounds or host not in drifts
        ]
        return [*first, *drifts.values()]

    # --- ends --------------------------------------------------------------------------------------

    def ended(self, folder: str, code: int, problems: Iterable[str] = ()) -> None:
        """Tell task 0 that this task's program has ended, with its exit code and problems of its record."""
        if self._drift_log is not None or (self.asks_again and not self._answers):
            self._ask_again(folder)
        with self._drift_lock:
            self._is_drift_closed = True
            if self._drift_log is not None:
                self._drift_log.close()
        lines = [str(code), *(" ".join(problem.split()) for problem in problems)]
        self._write(_task_file(folder, self.rank, ENDED), "\n".join(lines))

    def sign(self, folder: str) -> bool:
        """Show task 0 that this task is alive. True: to be called again."""
        try:
            os.utime(_task_file(folder, self.rank, STARTED))
        except OSError:
            pass  # the file system may be back at the next sign
        return True

    def wait_for_others(
        self, folder: str, interrupted: bool = False
    ) -> tuple[dict[int, int], list[str]]:
        """Wait until each other task has ended or shown no sign of life for :data:`SILENCE` seconds.

        Returns their exit codes by rank, and sentences on those that failed or have none. The file that names
        the folder is removed. ``interrupted``: the program, and probably the others, got a signal to end.
        """
        watched = {number for number in ENDING if _signal.getsignal(number) != _signal.SIG_IGN}
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, watched)
        try:
            states = self._wait(folder, watched, HURRY if interrupted else None)
        finally:
            while take(watched) is not None:
                pass  # a signal that cut the wait short must not end the report, too
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        try:
            os.unlink(self._meeting)
        except OSError:
            pass
        return self._ends_of(states)

    def _ends_of(self, states: Mapping[int, list[str] | None]) -> tuple[dict[int, int], list[str]]:
        """Exit codes by rank, and sentences on problems, from :func:`_state` of each other task."""
        codes: dict[int, int] = {}
        problems: list[str] = []
        for rank, state in states.items():
            task = f"task {rank} of {self.world}"
            if state is None:
                problems.append(f"{task} recorded nothing: it ran without inject, or elsewhere")
            elif state == RUNNING:
                problems.append(
                    f"{task} was killed, or still running when task 0 stopped waiting: what it recorded "
                    "later is not in the report"
                )
            else:
                code, *own_problems = state
                codes[rank] = int(code)
                problems += [f"{task}: {each}" for each in own_problems]
                if codes[rank]:
                    how = f"exit code {code}" if codes[rank] > 0 else f"signal {-codes[rank]}"
                    problems.append(f"{task} ended with {how}")
        return codes, problems

    def _wait(
        self, folder: str, watched: set[int], left: float | None
    ) -> dict[int, list[str] | None]:
        """:func:`_state` of each other task when all have ended, are given up, or ``left`` seconds are over.

        Seconds are counted by the pauses, as a clock would go on while the job is suspended. A signal of
        ``watched`` leaves :data:`HURRY` seconds, and a second one ends the wait.
        """
        states: dict[int, list[str] | None] = dict.fromkeys(range(1, self.world))
        signs: dict[int, int] = {}
        silent = dict.fromkeys(states, 0.0)
        awaited = set(states)
        pause = FIRST_PAUSE
        while True:
            is_late = time.monotonic() - self._began > JOIN_TIME
            for rank in tuple(awaited):
                sign = _last_sign(folder, rank)
                state = states[rank] = _state(folder, rank)
                if sign is not None and sign != signs.get(rank):
                    signs[rank], silent[rank] = sign, 0.0
                given_up = is_late if state is None else silent[rank] >= SILENCE
                if given_up or (state is not None and state != RUNNING):
                    awaited.discard(rank)
            if not awaited or (left is not None and left <= 0):
                return states
            if _interrupted(watched, pause):
                left = HURRY if left is None else 0.0
            elif left is not None:
                left -= pause
            for rank in awaited:
                silent[rank] += pause
            pause = min(pause * 1.1, LONGEST_PAUSE)

    def _write(self, path: str, text: str) -> None:
        """Write ``text`` for the other tasks. An error is printed, and nothing else: the program goes on."""
        try:
            replace_file(path, [os.fsencode(text)])
        except OSError as error:
            print(f"inject: {path}: {error.strerror}", file=sys.stderr)


def drift_sentence(here: str, there: str, found: FittedDrift) -> str:
    """A remark for the report on a clock that was measured while the program ran."""
    times = "once" if found.measured == 1 else f"{found.measured} times"
    how = f"measured {times} in {found.length:.4g} s"
    if found.drift is None:
        return f"the clocks of {here} and {there} stayed together within {1e3 * found.error:.3g} ms, {how}"
    # Near 0 if the clock was measured before the program as well: it was moved by that already.
    shift = found.drift.seconds[1]
    moved = (
        f"is moved by {round(shift, 6):+.10g} s to that of {here}"
        if abs(shift) > found.error
        else ""
    )
    if not found.change:
        return (
            f"the clock of {there} {moved}, {how}; the error is at most {1e3 * found.error:.3g} ms"
        )
    gain = -found.change
    gained = f"gained {1e3 * gain:.4g} ms ({1e6 * gain / found.length:.3g} ppm)"
    what = f"{moved}, and {gained}" if moved else f"{gained} on that of {here}"
    return (
        f"the clock of {there} {what}, {how}: its times are put right, with an error of at most "
        f"{1e3 * found.error:.3g} ms"
    )


def _task_file(folder: str, rank: int, what: str) -> str:
    """The file ``what`` of a task: :data:`STARTED`, :data:`CLOCK` or :data:`ENDED`."""
    return os.path.join(folder, "raw", f"task.{rank}.{what}")


def _interrupted(watched: set[int], seconds: float) -> bool:
    """Wait so long for a signal of ``watched``. Returns whether one came."""
    return take(watched, seconds) is not None


def _last_sign(folder: str, rank: int) -> int | None:
    """When a task touched its file, nanoseconds by the clock of the file's server; None before its start."""
    try:
        # Opened, as NFS answers a stat alone from its cache.
        with open(_task_file(folder, rank, STARTED), "rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None


def _state(folder: str, rank: int) -> list[str] | None:
    """The lines that a task wrote at its end; :data:`RUNNING` before that, None before its start."""
    try:
        path = _task_file(folder, rank, ENDED)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().split("\n")
    except OSError:
        return RUNNING if os.path.exists(_task_file(folder, rank, STARTED)) else None
