"""``injector.region``: a program names a part of itself.

Without ``inject`` a region only looks at an empty list. In a process of ``inject run``, that list holds the
:class:`RegionRecorder`, by which ``injector.Timer`` records as well (:func:`opened` and :func:`closed`).
"""

from __future__ import annotations

from sys import _getframe
from time import perf_counter_ns

from . import device as devices

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from .device import ClockSource
    from .marks import Mark, Marks
    from .regions import Spans

    Opened = tuple[int, int, int, Marks | None, Mark | None]
    """A region that is open: site, age of the sites, start in nanoseconds, marks of the device, its begin."""

KEYS = {
    "epoch": "epoch",
    "batch": "step",
    "io": "io",
    "h2d": "h2d",
    "forward": "forward",
    "backward": "backward",
    "comm": "comm",
    "optimizer": "optimizer",
}
"""The keys of Deep500's timers, in any case, and the regions that they stand for."""
PHASES = (None, "train", "eval")
_DECORATED = f"{__name__.rpartition('.')[0]}.decorated"
_recorders: list[RegionRecorder] = []
"""The recorder of this process, if there is one."""


class RegionRecorder:
    """Where the regions that the program names go in a process of ``inject run``."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self.room = spans.room
        self._failed = False
        self.renew()

    def renew(self) -> None:
        """Begin anew in the child of a fork, whose sites are its own."""
        # With the code, which is known by its address here and has to stay alive for that.
        self._known: dict[tuple[object, ...], tuple[int, CodeType]] = {}
        self._spelled: dict[str, str] = {}
        self.age = self._spans.sites.age
        self._stacks = self._spans.calls.stacks("injector.region")

    def site(self, frame: FrameType, name: str, phase: str | None) -> int:
        """Return the number of the site of a region that begins in ``frame``."""
        # A decorated function is called from a frame of `.decorated`: its site is where it is called.
        while frame.f_globals.get("__name__") == _DECORATED and frame.f_back is not None:
            frame = frame.f_back
        code = frame.f_code
        sites = self._spans.sites
        key = (id(code), frame.f_lasti, name, phase, sites.thread())
        known = self._known.get(key)
        if known is None:
            data = {"region": self.region(name), "phase": phase, "selector": "injector.region"}
            known = self._known[key] = sites.at(frame, "", None, **data), code
        return known[0]

    def region(self, name: str) -> str:
        """Return the region that ``name`` stands for: that of a standard key, whatever its case.

        Where a program spells one key in several ways, only the first is that key, since the program means
        different things by them.
        """
        folded = name.casefold()
        if folded not in KEYS or self._spelled.setdefault(folded, name) != name:
            return name
        return KEYS[folded]

    def open(
        self, frame: FrameType, name: str, phase: str | None, source: ClockSource | None
    ) -> Opened:
        """Begin a region in ``frame``."""
        site = self.site(frame, name, phase)
        if source is None:
            return site, self.age, perf_counter_ns(), None, None
        marks = self._spans.marks_with(source)
        mark = None if marks is None else marks.mark()
        return site, self.age, perf_counter_ns(), marks, mark

    def begin(self, site: int) -> None:
        """Have other processes, such as a live view, see this thread in ``site``."""
        stacks = self._stacks
        stacks.stack.append((self, site, 0, 0, None))
        self._spans.room.opened[stacks.slot] = site

    def end(self) -> None:
        """Have other processes see this thread in the region around the one that ends."""
        stacks = self._stacks
        stack = stacks.stack
        if stack:
            stack.pop()
        self._spans.room.opened[stacks.slot] = stack[-1][1] if stack else 0

    def failed(self, error: Exception) -> None:
        """Report ``error``, if it is the first."""
        failed, self._failed = self._failed, True
        if not failed:
            self._spans.warn("injector.region", error)


def record(recorder: RegionRecorder | None) -> None:
    """Have the regions from now on go to ``recorder``; nowhere when that is None."""
    _recorders[:] = [] if recorder is None else [recorder]


def opened(name: str, source: ClockSource | None, depth: int = 2) -> Opened | None:
    """Begin the region of a part that a Timer times; None where nothing is recorded.

    ``depth`` is the number of frames between the program's and this one.
    """
    if _recorders:
        try:
            return _recorders[0].open(_getframe(depth), name, None, source)
        except Exception as error:
            _recorders[0].failed(error)
    return None


def closed(opened: Opened, end: int, heard: Any = None, depth: int = 2) -> None:
    """End what :func:`opened` began at ``end``, in nanoseconds of ``time.perf_counter_ns``.

    ``heard`` receives the seconds of the device. Raises what stops the program, where this was its last step.
    """
    site, age, start, marks, mark = opened
    if not _recorders or age != _recorders[0].age:  # what was begun before a fork is the parent's
        return
    try:
        if marks is not None and mark is not None:
            marks.span(mark, start, site, heard)
        _recorders[0].room.add(start, end, 0, site)
    except Exception as error:
        _recorders[0].failed(error)
    except BaseException as problem:
        from ..probe.stop import StopProgram, request_stop

        if isinstance(problem, StopProgram):
            request_stop(problem, _getframe(depth))
        raise


class region:
    """A part of the program under a name, as a context manager or a decorator.

    Each time the part runs is one span. ``phase`` is ``"train"`` or ``"eval"``. With ``device`` the time of a
    device is recorded as well: True for the one that the program uses, its name (``"cuda:0"``) or
    ``torch.device``, or a clock (docs/timers.md). Raises ValueError for a ``device`` or a ``phase`` that is
    none, and for an empty name.
    """

    __slots__ = ("_name", "_open", "_phase", "_source")

    def __init__(self, name: str, *, phase: str | None = None, device: Any = None) -> None:
        if not (isinstance(name, str) and name):
            raise ValueError(f"a region has a name, such as 'augment', not {name!r}")
        if phase not in PHASES:
            raise ValueError(f"phase is 'train' or 'eval', not {phase!r}")
        self._name = name
        self._phase = phase
        self._source = devices.source(device)
        self._open: list[Opened | None] = []

    def __enter__(self) -> region:
        opened = None
        if _recorders:
            recorder = _recorders[0]
            try:
                opened = recorder.open(_getframe(1), self._name, self._phase, self._source)
                recorder.begin(opened[0])
            except Exception as error:
                recorder.failed(error)
        self._open.append(opened)
        return self

    def __exit__(self, *_: object) -> None:
        end = perf_counter_ns()
        opened = self._open.pop()
        if opened is not None and _recorders:
            if opened[1] == _recorders[0].age:
                _recorders[0].end()
            closed(opened, end)

    def __call__(self, function: Any) -> Any:
        """Return ``function`` with each call a region; that of a generator lasts until it has ended."""
        # functools, which `.decorated` imports as well, costs time in programs that decorate nothing.
        from functools import partial

        from .decorated import decorated

        return decorated(function, partial(_again, self))


def _again(one: region) -> region:
    """Return another region like ``one``, which has open regions of its own: calls may overlap in threads."""
    twin = object.__new__(region)
    twin._name, twin._phase, twin._source, twin._open = one._name, one._phase, one._source, []
    return twin


# A process of `inject run` without a probe waits for this import, to begin to record (`launch/boot.py`). So
# it comes last, when all of this module is defined.
from . import own  # noqa: E402, F401
