"""The clocks of the nodes of a Slurm step, or of an MPI job, against that of task 0.

Each task on another node asks task 0 for the time before its program starts, and records by the clock of
task 0, so that times of all nodes are in one order. One task of each node asks again now and then: what
clocks drift apart in a long run is corrected when its record is read (:mod:`injector.store.drift`).
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from injector.errors import UserError
from injector.run.task_files import CLOCK, task_file, write

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.bus.clocks import Answered
    from injector.bus.writer import Writer
    from injector.store.drift import FittedDrift

ASK_PERIOD = 60.0
"""Seconds after which a node asks for the time again."""


class NodeClock:
    """The clock of the node that a task is on: task 0 offers the time, the others ask it."""

    def __init__(self, is_first_of_node: bool) -> None:
        self.is_first_of_node = is_first_of_node
        """Whether the task is the one of its node that asks again."""
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

    def offer(self, folder: str) -> None:
        """Prepare to answer the other nodes, and write down for them where."""
        from injector.bus import clocks

        try:
            port, self.tell_the_time = clocks.answers()
        except OSError:
            return  # the others find no address to ask, which the report mentions
        write(task_file(folder, 0, CLOCK), f"{os.uname().nodename}\n{port}")

    def ask(self, folder: str, rank: int) -> None:
        """Measure how far this node's clock differs from that of task 0, and write that down for task 0."""
        from injector.bus import clocks

        own = os.uname().nodename
        answered = None
        try:
            with open(task_file(folder, 0, CLOCK), encoding="utf-8") as file:
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
        write(task_file(folder, rank, CLOCK), "\n".join([own, *map(repr, bounds or ())]))

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

    def close(self, folder: str) -> None:
        """Ask a last time, as the program has ended, and close the drift log."""
        if self._drift_log is not None or (self.asks_again and not self._answers):
            self._ask_again(folder)
        with self._drift_lock:
            self._is_drift_closed = True
            if self._drift_log is not None:
                self._drift_log.close()


def clock_sentences(folder: str, world: int) -> list[str]:
    """Sentences on the clocks of the other nodes of ``world`` tasks: before the program, and while it ran."""
    from injector.bus.clocks import ClockBounds, tie_of

    here = os.uname().nodename
    bounds_of: dict[str, ClockBounds | None] = {}
    for rank in range(1, world):
        try:
            with open(task_file(folder, rank, CLOCK), encoding="utf-8") as file:
                host, *numbers = file.read().split("\n")
            measured = ClockBounds(*map(float, numbers)) if numbers else None
        except (OSError, ValueError):
            continue  # a task on this node, or one that the report names as missing
        bounds_of[host] = bounds_of.get(host) or measured
    drifts = _drift_sentences(folder)
    first = [
        tie_of(here, host, bounds, f"asking {here}").sentence
        if bounds
        else f"the clock of {host} is taken as it is: {here} does not answer the question for the time"
        for host, bounds in bounds_of.items()
        if bounds or host not in drifts
    ]
    return [*first, *drifts.values()]


def _drift_sentences(folder: str) -> dict[str, str]:
    """By host, a sentence on how its clock was seen to drift while the program ran."""
    from injector.store.logs import fitted_drifts, host_clocks, logs_of

    here = os.uname().nodename
    try:
        fitted = fitted_drifts(folder, host_clocks(logs_of(folder)))
    except (OSError, UserError):
        return {}  # records that cannot be read: the report names them
    return {str(host): drift_sentence(here, str(host), fitted[host]) for host in fitted}


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
