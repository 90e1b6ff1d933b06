"""``injector.region``: a program names a part of itself. Without ``inject`` it costs next to nothing."""

from __future__ import annotations

from sys import _getframe
from time import perf_counter_ns

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from .regions import Spans

_DECORATED = f"{__name__.rpartition('.')[0]}.decorated"
_recorders: list[RegionRecorder] = []


class RegionRecorder:
    """Where the regions of this process go."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self.add = spans.room.add
        self.renew()

    def renew(self) -> None:
        """In the child of a fork: its sites are its own."""
        self._known: dict[tuple[object, ...], tuple[int, CodeType]] = {}
        self.age = self._spans.sites.age
        self._stacks = self._spans.calls.stacks("injector.region")

    def site(self, frame: FrameType, name: str, phase: str | None) -> int:
        """The number of the site of a region that begins in ``frame``."""
        # A decorated function is called by a frame of ours.
        while frame.f_globals.get("__name__") == _DECORATED and frame.f_back is not None:
            frame = frame.f_back
        code = frame.f_code
        sites = self._spans.sites
        key = (id(code), frame.f_lasti, name, phase, sites.thread())
        known = self._known.get(key)
        if known is None:
            data = {"region": name, "phase": phase, "asked": "injector.region"}
            known = self._known[key] = sites.at(frame, "", None, **data), code
        return known[0]

    def begin(self, site: int) -> None:
        """A watcher from outside sees this thread in ``site``."""
        stacks = self._stacks
        stacks.stack.append((self, site, 0, 0, None))
        self._spans.room.opened[stacks.slot] = site

    def end(self) -> None:
        """It is back in what it was in before."""
        stacks = self._stacks
        stack = stacks.stack
        if stack:
            stack.pop()
        self._spans.room.opened[stacks.slot] = stack[-1][1] if stack else 0


def record(recorder: RegionRecorder | None) -> None:
    """From now on, regions go to ``recorder``; nowhere when that is None."""
    _recorders[:] = [] if recorder is None else [recorder]


def span(name: str, start: int, end: int) -> None:
    """Record a part of the program that a Timer has timed, in nanoseconds of ``time.perf_counter_ns``."""
    if _recorders:
        try:
            recorder = _recorders[0]
            recorder.add(start, end, 0, recorder.site(_getframe(2), name, None))
        except Exception:
            pass  # it goes unrecorded, and the program on


class region:
    """A part of the program under a name, as a context manager or a decorator.

    ``phase`` is ``"train"`` or ``"eval"``. Each time the part is run is one span.
    """

    __slots__ = ("_name", "_open", "_phase")

    def __init__(self, name: str, *, phase: str | None = None) -> None:
        self._name = name
        self._phase = phase
        self._open: list[tuple[int, int, int] | None] = []

    def __enter__(self) -> region:
        opened = None
        if _recorders:
            try:
                recorder = _recorders[0]
                site = recorder.site(_getframe(1), self._name, self._phase)
                recorder.begin(site)
                opened = site, recorder.age, perf_counter_ns()
            except Exception:
                pass  # it goes unrecorded, and the program on
        self._open.append(opened)
        return self

    def __exit__(self, *_: object) -> None:
        end = perf_counter_ns()
        opened = self._open.pop()
        if opened is not None and _recorders:
            site, age, start = opened
            if age == _recorders[0].age:  # what was begun before a fork is the parent's
                _recorders[0].add(start, end, 0, site)
                _recorders[0].end()

    def __call__(self, function: Any) -> Any:
        """``function`` with each of its calls a region; a generator's lasts until it has ended."""
        # functools, which decorated imports as well, is not imported for who has no such function.
        from functools import partial

        from .decorated import decorated

        return decorated(function, partial(region, self._name, phase=self._phase))


from . import own  # noqa: E402, F401  # all is defined: code that waits for this may begin to record
