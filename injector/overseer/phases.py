"""Phases of a run, and the generators that wait for them.

The protocol is that of the ``voir`` package. An instrument is called with the overseer. If it is a generator,
it yields the phase whose end it waits for, optionally with a priority
(``yield ov.phases.run_script(priority=1)``, of which the higher is resumed first). Then the phase's value is
sent to it, or the phase's exception thrown into it.
"""

from __future__ import annotations

import heapq
from types import GeneratorType

from ..probe.stop import is_stop

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from types import TracebackType
    from typing import Any

    Instrument = Callable[..., Any]
    _Generator = Generator[Any, Any, Any]


class Phase:
    """A part of the run; ``status`` is ``"pending"``, ``"running"`` or ``"done"``."""

    __slots__ = ("exception", "name", "status", "value")

    def __init__(self, name: str, status: str = "pending") -> None:
        self.name = name
        self.status = status
        self.value: Any = None
        self.exception: BaseException | None = None

    @property
    def pending(self) -> bool:
        return self.status == "pending"

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def done(self) -> bool:
        return self.status == "done"

    def __call__(self, priority: float = 0) -> Waiting:
        return Waiting(self, priority)

    def __repr__(self) -> str:
        return f"<phase {self.name}: {self.status}>"


class Waiting:
    """A phase, with the priority at which a generator is to be resumed after it."""

    __slots__ = ("phase", "priority")

    def __init__(self, phase: Phase, priority: float) -> None:
        self.phase = phase
        self.priority = priority


class Phases:
    """The phases of a run, in order, by name: ``ov.phases.load_script``."""

    def __init__(self, *names: str) -> None:
        boot = Phase("_boot", "done")
        self._sequence = [boot, *(Phase(name) for name in names)]
        for phase in self._sequence:
            setattr(self, phase.name, phase)
        self.IMMEDIATE = boot(0)

    def __iter__(self) -> Iterator[Phase]:
        return iter(self._sequence)

    def __getattr__(self, name: str) -> Phase:
        known = ", ".join(phase.name for phase in self._sequence[1:])
        raise AttributeError(f"there is no phase {name!r}; the phases are {known}")


class Schedule:
    """Calls instruments, and resumes those that wait when a phase ends.

    ``on_error(instrument, error)`` is called with each error of an instrument, which goes no further. A stop
    (``StopProgram``) and an abort are raised: an instrument ends the program by them.
    """

    def __init__(
        self,
        overseer: object,
        phases: Phases,
        on_error: Callable[[Instrument, BaseException], None],
    ) -> None:
        self._overseer = overseer
        self._phases = phases
        self._on_error = on_error
        self.layer: str | None = None
        """The voirfile whose instrument is being called or resumed now."""
        self._layers: dict[int, str | None] = {}
        """The voirfile of each generator, by its number."""
        self._seen: list[Instrument] = []
        self._waiting: dict[Phase, list[tuple[float, int, _Generator, Instrument]]] = {}
        """By phase, a heap of what waits for it: the priority's negative, then in the order of calls."""
        self._number = 0
        self._before_start: list[Instrument] | None = []
        """What was required so far; None once the run has begun, and instruments are called at once."""

    def start(self) -> None:
        """Call the instruments that were required before the run began."""
        queued, self._before_start = self._before_start or [], None
        for instrument in queued:
            self.require(instrument)

    def require_for(self, layer: str, instrument: Instrument) -> None:
        """Call an instrument of the voirfile ``layer``. What it requires belongs to that voirfile as well."""
        self.layer, before = layer, self.layer
        self.require(instrument)
        self.layer = before

    def require(self, instrument: Instrument) -> Any:
        """Call ``instrument``, if it was not called before. Returns its ``__state__``, or else itself."""
        # As in voir, what an instrument offers to those that require it.
        state = getattr(instrument, "__state__", instrument)
        if self._before_start is not None:
            self._before_start.append(instrument)
            return state
        # By identity: an instrument may be an object that compares equal to others, or has no hash.
        if any(instrument is seen for seen in self._seen):
            return state
        self._seen.append(instrument)
        try:
            result = instrument(self._overseer)
        except BaseException as error:
            self._handle_error(instrument, error)
            return state
        if isinstance(result, GeneratorType):
            self._number += 1
            self._layers[self._number] = self.layer
            self._advance(self._number, result, instrument, self._phases.IMMEDIATE.phase)
        return state

    def run_phase(self, phase: Phase) -> Running:
        """Return a context manager whose body is the phase: what waits for it is resumed afterwards."""
        return Running(self, phase)

    def end(self, phase: Phase, value: Any = None, exception: BaseException | None = None) -> None:
        """End ``phase``, and resume what waits for it, in the order of priorities."""
        phase.value, phase.exception, phase.status = value, exception, "running"
        waiting = self._waiting.setdefault(phase, [])
        # An instrument may require others, so that the heap may grow meanwhile.
        while waiting:
            _, number, generator, instrument = heapq.heappop(waiting)
            self._advance(number, generator, instrument, phase)
        phase.status = "done"

    def let_go(self) -> None:
        """Forget what has ended each phase, whose frames keep objects of the program alive."""
        for phase in self._waiting:
            phase.exception = None

    def stop(self, error: BaseException) -> None:
        """Throw ``error`` into all instruments that still wait."""
        for waiting in self._waiting.values():
            while waiting:
                *_, generator, instrument = heapq.heappop(waiting)
                try:
                    generator.throw(error)
                except (StopIteration, type(error)):
                    pass
                except BaseException as mistake:
                    self._on_error(instrument, mistake)

    def _advance(
        self, number: int, generator: _Generator, instrument: Instrument, phase: Phase
    ) -> None:
        """Resume a generator after ``phase``, and again for each phase it yields that has ended already."""
        while True:
            self.layer, before = self._layers[number], self.layer
            resumed = self._resume(generator, instrument, phase)
            self.layer = before
            if resumed is None:
                return
            phase, priority = resumed
            if not phase.done:
                entry = (-priority, number, generator, instrument)
                heapq.heappush(self._waiting.setdefault(phase, []), entry)
                return

    def _resume(
        self, generator: _Generator, instrument: Instrument, phase: Phase
    ) -> tuple[Phase, float] | None:
        """Resume a generator once. Returns what it waits for, and the priority; None if it has ended."""
        thrown = phase.exception
        trace = getattr(thrown, "__traceback__", None)
        try:
            answer = generator.send(phase.value) if thrown is None else generator.throw(thrown)
        except StopIteration:
            return None
        except BaseException as error:
            if error is not thrown:
                self._handle_error(instrument, _explained(error))
            return None
        finally:
            # The exception is the program's, and would show our frames and keep alive what they hold.
            if thrown is not None:
                thrown.__traceback__ = trace
        waiting = answer if isinstance(answer, Waiting) else Waiting(answer, 0)
        if not isinstance(waiting.phase, Phase):
            self._handle_error(
                instrument, TypeError(f"an instrument yields phases, not {answer!r}")
            )
            return None
        return waiting.phase, waiting.priority

    def _handle_error(self, instrument: Instrument, error: BaseException) -> None:
        """Report an error of an instrument; raise what stops the program."""
        if is_stop(error):
            raise error
        self._on_error(instrument, error)


def _explained(error: BaseException) -> BaseException:
    """``error``; of a function under voir's ``@configurable`` that yields nothing, in words that say so."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    module = last.tb_frame.f_globals.get("__name__") if last is not None else None
    if module == "voir.tools" and "is not iterable" in str(error):
        return TypeError(
            "a function under @configurable has to yield a phase, such as ov.phases.load_script"
        )
    return error


class Running:
    """The body of a phase, as a context manager; ``as set_value`` is a function that sets its value."""

    def __init__(self, schedule: Schedule, phase: Phase) -> None:
        self._schedule = schedule
        self._phase = phase
        self._value: Any = None

    def __enter__(self) -> Callable[[Any], None]:
        return self._set

    def _set(self, value: Any) -> None:
        self._value = value

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._schedule.end(self._phase, self._value, error)
