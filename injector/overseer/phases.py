"""Phases of a run, and the generators that wait for them.

The protocol is the one the ``voir`` package established: an instrument is called with the overseer;
if it is a generator, it yields the phase whose end it waits for, optionally with a priority
(``yield ov.phases.run_script(priority=1)``, higher is resumed first). It is sent the phase's value, or
thrown the phase's exception.
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
    """One stretch of the run; ``status`` is ``"pending"``, ``"running"`` or ``"done"``."""

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
    """A phase with the priority at which a generator wants to be resumed after it."""

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
    """Calls instruments and resumes those that wait when a phase ends.

    ``on_error(instrument, error)`` is called with each mistake of an instrument; it never propagates.
    A stop (``StopProgram``) and an abort do propagate: they are meant.
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
        self._seen: list[Instrument] = []
        self._waiting: dict[Phase, list[tuple[float, int, _Generator, Instrument]]] = {}
        self._number = 0
        self._before_start: list[Instrument] | None = []

    def start(self) -> None:
        """Call what was required before the run began."""
        queued, self._before_start = self._before_start or [], None
        for instrument in queued:
            self.require(instrument)

    def require_for(self, layer: str, instrument: Instrument) -> None:
        """Call an instrument that the voirfile ``layer`` defines; what it requires is of that layer."""
        self.layer, before = layer, self.layer
        self.require(instrument)
        self.layer = before

    def require(self, instrument: Instrument) -> Any:
        """Call ``instrument`` (once); return its ``__state__`` if it has one, else itself."""
        state = getattr(instrument, "__state__", instrument)
        if self._before_start is not None:
            self._before_start.append(instrument)
            return state
        if any(instrument is seen for seen in self._seen):
            return state
        self._seen.append(instrument)
        try:
            result = instrument(self._overseer)
        except BaseException as error:
            self._mistake(instrument, error)
            return state
        if isinstance(result, GeneratorType):
            self._number += 1
            self._layers[self._number] = self.layer
            self._advance(self._number, result, instrument, self._phases.IMMEDIATE.phase)
        return state

    def run_phase(self, phase: Phase) -> Running:
        """Context manager: its body is the phase; what waits for the phase is resumed after it."""
        return Running(self, phase)

    def end(self, phase: Phase, value: Any = None, exception: BaseException | None = None) -> None:
        """End ``phase``: resume what waits for it, highest priority first."""
        phase.value, phase.exception, phase.status = value, exception, "running"
        waiting = self._waiting.setdefault(phase, [])
        while waiting:  # an instrument may require others, so the heap can grow meanwhile
            _, number, generator, instrument = heapq.heappop(waiting)
            self._advance(number, generator, instrument, phase)
        phase.status = "done"

    def let_go(self) -> None:
        """Nothing will wait any more: forget what ended each phase, and what it keeps alive."""
        for phase in self._waiting:
            phase.exception = None

    def stop(self, error: BaseException) -> None:
        """Throw ``error`` into everything that still waits."""
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
        thrown = phase.exception
        trace = getattr(thrown, "__traceback__", None)
        try:
            answer = generator.send(phase.value) if thrown is None else generator.throw(thrown)
        except StopIteration:
            return None
        except BaseException as error:
            if error is not thrown:
                self._mistake(instrument, error)
            return None
        finally:
            if thrown is not None:  # it is the program's: our frames would keep alive what it holds
                thrown.__traceback__ = trace
        waiting = answer if isinstance(answer, Waiting) else Waiting(answer, 0)
        if not isinstance(waiting.phase, Phase):
            self._mistake(instrument, TypeError(f"an instrument yields phases, not {answer!r}"))
            return None
        return waiting.phase, waiting.priority

    def _mistake(self, instrument: Instrument, error: BaseException) -> None:
        if is_stop(error):
            raise error
        self._on_error(instrument, error)


class Running:
    """The body of a phase; ``as set_value`` gives a function that sets what the phase yields."""

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
