"""``srun inject run …``: each task of a Slurm step has an ``inject run`` of its own, all share a run folder.

So have the processes of ``mpirun inject run …``, which are called tasks here as well.

Task 0 makes the folder and leaves its path in a file beside it, which is named after job and step; the other
tasks wait for that file, so that they need a shared file system and no network. While its program runs, a
task touches a file of the folder now and then, and leaves its exit code there at the end. Task 0 waits for
the exit codes as long as the files are touched, collects all records and reports.

Where the tasks are on several nodes, each asks task 0 for the time before its program starts, and records by
the clock of task 0: times of all nodes are in one order from the beginning. One task of each node asks again
now and then: what clocks drift apart in a long run is put right when its record is read
(:mod:`injector.store.drift`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum
import os
import sys
import time

from injector.errors import UserError
from injector.launch.signals import take
from injector.launch.supervisor import ENDING
from injector.store.place import RUNS_VARIABLE, Place, default_runs, replace_file

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from injector.bus.clocks import Answered
    from injector.bus.writer import Writer
    from injector.launch.command import Command
    from injector.store.drift import FittedDrift

TOGETHER = 30.0
"""Seconds within which the tasks of a step have started. A task that waited longer for task 0 records a
run of its own; task 0 does not wait longer for the start of a task that never calls ``inject run``."""
SIGN = 5.0
"""Seconds after which a task whose program runs touches its file again."""
AFTER = 30.0
"""Seconds without such a sign after which task 0, once its own program has ended, gives a task up.
Where Slurm ends a step some time after a task was killed (``srun --wait``), the report should come first."""
HURRY = 20.0
"""Seconds that task 0 waits at most once the step was sent a signal to end: 30 s after it, Slurm kills."""
STARTED, CLOCK, ENDED = "started", "clock", "ended"
ASK = 60.0
"""Seconds after which a node asks for the time again."""
RUNS: list[str] = []
PERIOD, SELDOM = 0.05, 1.0
"""Seconds between two looks at the shared folder: at first, and at most when waiting takes longer."""


class StepTask:
    """This process as one of several tasks of a Slurm step, or of ``mpirun``."""

    period = SIGN

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
        """Seconds that this node's clock is moved by in all that is recorded here."""
        self.asks_again = False
        """Whether this task measures its node's clock for as long as it runs."""
        self.asking = ASK
        self._answerer: tuple[str, int] | None = None
        self._measured: Writer | None = None
        self._answers: list[Answered] = []
        self.tell_the_time: Callable[[], None] | None = None
        """Called, it answers other nodes' questions from then on: in a thread, so not before we fork."""
        self._began = time.monotonic()
        self._meeting = os.path.join(beside, f".step.{key}")
        """The file in which task 0 names the run folder."""

    def place(self, create: Callable[[], Place]) -> Place:
        """The run folder of the step: made by task 0, joined by the others.

        Raises what ``create`` raises, which makes a folder for this task alone if there is none to join.
        """
        if self.rank == 0:
            place = create()
            if place.path is not None:
                if self.nodes > 1:
                    self._offer_the_time(place.path)
                self._attempt(self._meeting, place.path)
            return place
        folder = self._join()
        if folder is not None:
            if self.nodes > 1:
                self._ask_the_time(folder)
            return Place(folder, (), new=False)
        place = create()
        problem = f"task {self.rank} found no run folder of task 0 within {TOGETHER:g} s, and recorded alone"
        self.rank = -1
        return Place(place.path, (*place.problems, problem), place.new)

    @property
    def follows(self) -> bool:
        """Whether task 0 collects what this task records."""
        return self.rank > 0

    def _join(self) -> str | None:
        while time.monotonic() - self._began < TOGETHER:
            try:
                with open(self._meeting, encoding="utf-8", errors="surrogateescape") as file:
                    folder = file.read()
                with open(_file(folder, self.rank, STARTED), "x"):
                    return folder  # one that this task joined before belongs to an earlier run
            except OSError:
                time.sleep(PERIOD)
        return None

    # --- clocks ------------------------------------------------------------------------------------

    def _offer_the_time(self, folder: str) -> None:
        from injector.bus import clocks

        try:
            port, self.tell_the_time = clocks.answers()
        except OSError:
            return  # the others find no one to ask, and the report says that
        self._attempt(_file(folder, 0, CLOCK), f"{os.uname().nodename}\n{port}")

    def _ask_the_time(self, folder: str) -> None:
        """Find out by how much the clocks of this node and of task 0's differ, and leave that to task 0."""
        from injector.bus import clocks

        own = os.uname().nodename
        answered = None
        try:
            with open(_file(folder, 0, CLOCK), encoding="utf-8") as file:
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
        self._attempt(_file(folder, self.rank, CLOCK), text)

    def ask_again(self, folder: str) -> bool:
        """Ask for the time once more, without waiting for the answer; True, as it is to be done again."""
        from injector.bus import clocks

        clocks.in_background(lambda: self._ask_again(folder))
        return True

    def _ask_again(self, folder: str) -> None:
        from injector.bus import clocks

        assert self._answerer is not None
        answered = clocks.ask(*self._answerer)
        if answered is None:
            return  # the next one may be answered
        if self._measured is None:
            from injector.bus.writer import Writer
            from injector.store.drift import SUFFIX
            from injector.store.event import clock_meta

            of = {"of": self._answerer[0]}
            self._measured = Writer(folder, {**clock_meta(self.moved), **of}, suffix=SUFFIX)
        self._answers.append(answered)
        while self._answers:
            each = self._answers.pop(0)
            self._measured.emit("clock", {"at": each.at, "low": each.low, "high": each.high})

    def _drifts(self, folder: str) -> dict[str, str]:
        """What was measured of clocks while the program ran, a sentence for each node."""
        from injector.store.logs import fitted_drifts, host_clocks, logs_of

        here = os.uname().nodename
        try:
            found = fitted_drifts(folder, host_clocks(logs_of(folder)))
        except (OSError, UserError):
            return {}  # records that cannot be read: the report names them
        return {str(host): drift_sentence(here, str(host), found[host]) for host in found}

    def clocks(self, folder: str) -> list[str]:
        """What is known of the clocks of the other tasks' nodes, a sentence each."""
        if self.nodes == 1:
            return []
        from injector.bus.clocks import ClockBounds, tie_of

        here = os.uname().nodename
        known: dict[str, ClockBounds | None] = {}
        for rank in range(1, self.world):
            try:
                with open(_file(folder, rank, CLOCK), encoding="utf-8") as file:
                    host, *bounds = file.read().split("\n")
                measured = ClockBounds(*map(float, bounds)) if bounds else None
            except (OSError, ValueError):
                continue  # a task on this node, or one that the report names as missing
            known[host] = known.get(host) or measured
        drifts = self._drifts(folder)
        first = [
            tie_of(here, host, bounds, f"asking {here}").sentence
            if bounds
            else f"the clock of {host} is taken as it is: {here} does not answer the question for the time"
            for host, bounds in known.items()
            if bounds or host not in drifts
        ]
        return [*first, *drifts.values()]

    # --- ends --------------------------------------------------------------------------------------

    def ended(self, folder: str, code: int, problems: Iterable[str] = ()) -> None:
        """The program of this task ended: leave its exit code and its record's problems to task 0."""
        if self._measured is not None or (self.asks_again and not self._answers):
            self._ask_again(folder)
        if self._measured is not None:
            self._measured.close()
        lines = [str(code), *(" ".join(problem.split()) for problem in problems)]
        self._attempt(_file(folder, self.rank, ENDED), "\n".join(lines))

    def sign(self, folder: str) -> bool:
        """Show task 0 that this task is alive; True, as it is to be done again."""
        try:
            os.utime(_file(folder, self.rank, STARTED))
        except OSError:
            pass  # a file system that is back later takes the next one
        return True

    def others(self, folder: str, interrupted: bool = False) -> tuple[dict[int, int], list[str]]:
        """Of the other tasks the exit codes, and sentences about those without one.

        Waits until each has ended or shown no sign of life for :data:`AFTER` seconds, then lets the folder's
        name go. ``interrupted``: the program was sent a signal to end, as the others probably were.
        """
        watched = {number for number in ENDING if _signal.getsignal(number) != _signal.SIG_IGN}
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, watched)
        try:
            states = self._wait(folder, watched, HURRY if interrupted else None)
        finally:
            while take(watched) is not None:
                pass  # what cut the waiting short is not to end the report, too
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        try:
            os.unlink(self._meeting)
        except OSError:
            pass
        codes: dict[int, int] = {}
        problems: list[str] = []
        for rank, state in states.items():
            task = f"task {rank} of {self.world}"
            if state is None:
                problems.append(f"{task} recorded nothing: it ran without inject, or elsewhere")
            elif state == RUNS:
                problems.append(
                    f"{task} was killed, or still running when task 0 stopped waiting: what it recorded "
                    "later is not in the report"
                )
            else:
                code, *wrong = state
                codes[rank] = int(code)
                problems += [f"{task}: {each}" for each in wrong]
                if codes[rank]:
                    how = f"exit code {code}" if codes[rank] > 0 else f"signal {-codes[rank]}"
                    problems.append(f"{task} ended with {how}")
        return codes, problems

    def _wait(
        self, folder: str, watched: set[int], left: float | None
    ) -> dict[int, list[str] | None]:
        """What is known of each other task when all have ended, or ``left`` seconds are over.

        Pauses are counted, not the clock: a job that was suspended goes on to wait for as long as before.
        """
        states: dict[int, list[str] | None] = dict.fromkeys(range(1, self.world))
        signs: dict[int, int] = {}
        silent = dict.fromkeys(states, 0.0)
        awaited = set(states)
        pause = PERIOD
        while True:
            late = time.monotonic() - self._began > TOGETHER
            for rank in tuple(awaited):
                sign = _sign(folder, rank)
                state = states[rank] = _state(folder, rank)
                if sign is not None and sign != signs.get(rank):
                    signs[rank], silent[rank] = sign, 0.0
                given_up = late if state is None else silent[rank] >= AFTER
                if given_up or (state is not None and state != RUNS):
                    awaited.discard(rank)
            if not awaited or (left is not None and left <= 0):
                return states
            if _interrupted(watched, pause):
                left = HURRY if left is None else 0.0  # the second one has us stop at once
            elif left is not None:
                left -= pause
            for rank in awaited:
                silent[rank] += pause
            pause = min(pause * 1.1, SELDOM)

    def _attempt(self, path: str, text: str) -> None:
        try:
            replace_file(path, [os.fsencode(text)])
        except OSError as error:
            print(f"inject: {path}: {error.strerror}", file=sys.stderr)


def step_task(command: Command, environ: Mapping[str, str]) -> StepTask | None:
    """The task of a Slurm step that this process is; None outside, and where a step has one task.

    A program that is itself a task may call ``inject run``: that is a run of its own, as it is when a script
    between the two is more than one process away from the task. Raises UserError for ``--flops``.
    """
    numbers = [
        environ.get(name, "")
        for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_TASK_PID", "SLURM_STEP_ID")
    ]
    if not all(number.isdecimal() for number in numbers):
        return None
    rank, world, pid = map(int, numbers[:3])
    if world < 2 or pid not in (os.getpid(), os.getppid()):
        return None
    _check_flops(command, "a Slurm step")
    job = environ.get("SLURM_JOB_ID", "")
    key = f"{job}.{numbers[3]}.{environ.get('SLURM_RESTART_COUNT', '0')}"
    nodes = environ.get("SLURM_STEP_NUM_NODES", "")
    number = int(nodes) if nodes.isdecimal() else 1
    first = environ.get("SLURM_LOCALID", "0") == "0"
    return StepTask(rank, world, *_place(command, key, environ), number, first)


def _check_flops(command: Command, whole: str) -> None:
    if "--flops" in command.flags:
        raise UserError(
            f"--flops runs the program once more, which one task of {whole} cannot do without the "
            "others: leave it out, or run one task"
        )


def _place(command: Command, key: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """What the tasks of a step know each other by, and the folder that their run folder is in."""
    if command.into is not None:
        folder, name = os.path.split(os.path.abspath(command.into))
        return f"{key}.{name}", folder
    return key, default_runs(command.runs, {RUNS_VARIABLE: environ.get(RUNS_VARIABLE, "")})


MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
)
"""Variables of Open MPI and of MPICH: a task's number, how many there are, and how many on its node."""
LOCAL = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
"""Variables of a task's number among those of its node."""
DAEMONS = ("orte", "prte", "mpirun", "mpiexec", "hydra")
"""How the names of the processes begin that start tasks of MPI."""


def mpi_task(command: Command, environ: Mapping[str, str]) -> StepTask | None:
    """The task of ``mpirun`` that this process is; None outside, where it has one task, and below a task.

    MPICH has no name for what one ``mpirun`` started: its tasks share a run folder that ``--into`` names.
    Raises UserError for ``--flops``.
    """
    for names in MPI:
        numbers = [environ.get(name, "") for name in names]
        if all(number.isdecimal() for number in numbers) and int(numbers[1]) > 1:
            break
    else:
        return None
    rank, world, here = map(int, numbers)
    job = environ.get("PMIX_NAMESPACE", "").replace("/", "_")
    if not (job or command.into) or not _is_mpis_child():
        return None
    _check_flops(command, "mpirun")
    first = all(environ.get(name, "0") == "0" for name in LOCAL)
    nodes = 1 if here == world else 2
    return StepTask(rank, world, *_place(command, f"mpi.{job}", environ), nodes, first)


def _is_mpis_child() -> bool:
    """Whether MPI started this process: itself, or the shell that did."""
    parent = _process(os.getppid())
    if parent[0].endswith("sh"):
        parent = _process(parent[1])
    return parent[0].startswith(DAEMONS)


def _process(pid: int) -> tuple[str, int]:
    """Name and parent of a process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
        return name, int(rest.split()[1])
    except (OSError, ValueError, IndexError):
        return "", 0


def drift_sentence(here: str, there: str, found: FittedDrift) -> str:
    """What the report says of a clock that was measured while the program ran."""
    times = "once" if found.measured == 1 else f"{found.measured} times"
    how = f"measured {times} in {found.length:.4g} s"
    if found.drift is None:
        return f"the clocks of {here} and {there} stayed together within {1e3 * found.error:.3g} ms, {how}"
    # Nothing is left of a difference that was measured before the program.
    first = found.drift.seconds[1]
    moved = (
        f"is moved by {round(first, 6):+.10g} s to that of {here}"
        if abs(first) > found.error
        else ""
    )
    if not found.change:
        return (
            f"the clock of {there} {moved}, {how}; the error is at most {1e3 * found.error:.3g} ms"
        )
    gained = -found.change
    ahead = f"{1e3 * gained:.4g} ms ({1e6 * gained / found.length:.3g} ppm)"
    what = f"{moved}, and gained {ahead}" if moved else f"gained {ahead} on that of {here}"
    return (
        f"the clock of {there} {what}, {how}: its times are put right, with an error of at most "
        f"{1e3 * found.error:.3g} ms"
    )


def _file(folder: str, rank: int, what: str) -> str:
    """Of a task: that it was STARTED, or ENDED; CLOCK of task 0 has where it answers questions for the
    time, that of another by how much its clock differs.
    """
    return os.path.join(folder, "raw", f"task.{rank}.{what}")


def _interrupted(watched: set[int], seconds: float) -> bool:
    """Whether one of these signals came within so many seconds."""
    return take(watched, seconds) is not None


def _sign(folder: str, rank: int) -> int | None:
    """When a task last showed that it is alive, by the clock of the file's server."""
    try:
        # NFS answers stat alone from its cache.
        with open(_file(folder, rank, STARTED), "rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None


def _state(folder: str, rank: int) -> list[str] | None:
    """The lines that a task left at its end, :data:`RUNS` before that, None before its start."""
    try:
        path = _file(folder, rank, ENDED)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().split("\n")
    except OSError:
        return RUNS if os.path.exists(_file(folder, rank, STARTED)) else None
