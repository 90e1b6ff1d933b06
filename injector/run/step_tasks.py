"""``srun inject run …``: each task of a Slurm step is an ``inject run`` of its own; all share a run folder.

The processes of ``mpirun inject run …`` do the same, and are called tasks here as well. They meet in a file
beside the run folder, ``.step.KEY``, in which task 0 writes that folder's path (KEY names job and step), and
then in files of the folder (:mod:`.task_files`). So tasks need a shared file system, and a network only for
their clocks (:mod:`.node_clock`).

Task 0 waits for the exit codes of the others as long as these touch their files, then collects all records
and reports.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import time

from injector.launch.signals import take
from injector.launch.supervisor import ENDING
from injector.run.node_clock import NodeClock, clock_sentences
from injector.run.task_files import ENDED, RUNNING, STARTED, last_sign, state_of, task_file, write
from injector.store.place import Place

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
        self.world = world
        self.nodes = nodes
        self.clock = NodeClock(is_first_of_node)
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
                    self.clock.offer(place.path)
                write(self._meeting, place.path)
            return place
        folder = self._join()
        if folder is not None:
            if self.nodes > 1:
                self.clock.ask(folder, self.rank)
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
                with open(task_file(folder, self.rank, STARTED), "x"):
                    return folder
            except OSError:
                time.sleep(FIRST_PAUSE)
        return None

    def clock_sentences(self, folder: str) -> list[str]:
        """Sentences on the clocks of the other nodes, if there are any."""
        return [] if self.nodes == 1 else clock_sentences(folder, self.world)

    def ended(self, folder: str, code: int, problems: Iterable[str] = ()) -> None:
        """Tell task 0 that this task's program has ended, with its exit code and problems of its record."""
        self.clock.close(folder)
        lines = [str(code), *(" ".join(problem.split()) for problem in problems)]
        write(task_file(folder, self.rank, ENDED), "\n".join(lines))

    def sign(self, folder: str) -> bool:
        """Show task 0 that this task is alive. True: to be called again."""
        try:
            os.utime(task_file(folder, self.rank, STARTED))
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
        """Exit codes by rank, and sentences on problems, from the state of each other task."""
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
        """The state of each other task when all have ended, are given up, or ``left`` seconds are over.

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
                sign = last_sign(folder, rank)
                state = states[rank] = state_of(folder, rank)
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


def _interrupted(watched: set[int], seconds: float) -> bool:
    """Wait so long for a signal of ``watched``. Returns whether one came."""
    return take(watched, seconds) is not None
