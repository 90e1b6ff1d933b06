"""What ``ov.value``, ``ov.region``, ``ov.step`` and ``ov.loader`` ask for and record."""

from __future__ import annotations

import sys
from _thread import get_ident
from os import getpid
from time import perf_counter_ns

from ..errors import UserError
from ..probe import points
from ..store.spans import pack
from . import loader as loaders
from . import program, user
from .late import Late
from .regions import STEP, Region, RegionHooks, Spans
from .turns import Loop
from .values import Several, Store, TrialEnds, TrialHooks, ValueHooks, series_name

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .values import Recorder

    Ask = Callable[..., None]
    """``ask(where, variable, direct, calls, store, override)`` of the overseer, most of them optional."""


class Measures:
    """The measurements of one process."""

    def __init__(
        self,
        ask: Ask,
        recorder: Recorder,
        failed: Callable[[BaseException], None],
        on_error: Callable[[str, BaseException], None],
    ) -> None:
        """``on_error(where, error)`` is called for what the program itself could not record."""
        self._ask = ask
        self._recorder = recorder
        self._failed = failed
        self.spans = Spans(recorder)
        self.spans.warn = on_error
        self._timed: dict[tuple[object, ...], int] = {}
        self.late = Late(self._write_late, recorder.lose, failed)
        self._regions = user.RegionRecorder(self.spans)
        self._metrics: dict[str, Store] = {}
        user.record(self._regions)
        program.record(program.ProgramRecords(self._put, recorder.emit, recorder.folder, on_error))
        points.listen(silence=_forget)

    def value(
        self, where: Any, name: str | None, task: str | None, get: Callable[..., Any] | None = None
    ) -> None:
        """Record each value of ``where``, or what ``get`` makes of each call; a device's is read late.

        Raises UserError when ``get`` does not say what its parameters are called.
        """
        series = series_name(task, name or _last_word(where))
        store = Store(series, self._recorder, self.late.keep)
        if get is None:
            self._ask(where, store=store)
            return
        if name is None:
            store = Several(_last_word(where), self._recorder, self.late.keep, task)
        try:
            self._ask(where, calls=ValueHooks(get, store))
        except TypeError as error:
            raise UserError(f"value {series!r} of {where!r}: {error}") from None

    def trial(
        self, where: Any, get: Callable[..., Any], ended: Callable[[Any, Exception | None], None]
    ) -> None:
        """Call ``ended`` with what ``get`` makes of each call of ``where``, but for None, and its error.

        Raises UserError when ``get`` does not say what its parameters are called.
        """
        store = TrialEnds(self._recorder, self.late.keep, ended)
        try:
            self._ask(where, calls=TrialHooks(get, store))
        except TypeError as error:
            raise UserError(f"trial of {where!r}: {error}") from None

    def region(self, where: Any, name: str, **options: Any) -> None:
        """Record each call of ``where`` as a span of the region ``name``.

        Raises UserError when a function does not say what its parameters are called.
        """
        try:
            region = Region(name, **options)
        except (TypeError, ValueError) as error:
            raise UserError(f"region {name!r} of {where!r}: {error}") from None
        self._ask(where, calls=RegionHooks(region, self.spans))

    def calls(
        self, selector: str, name: str, began: Any, ended: Any, **options: Any
    ) -> Callable[[Any], bool]:
        """What has the calls of an object recorded as spans of the region ``name``; ``selector`` says whose.

        Raises UserError when a function asks for what there is not.
        """
        region = RegionHooks(Region(name, outermost=True, **options), self.spans)
        return region.of_objects(selector, began, ended)

    def step(self, where: Any, task: str, **options: Any) -> None:
        """Each call of ``where`` is a step, of ``items`` items where that is given."""
        self.region(where, STEP, task=task, **options)

    def loader(
        self, where: Any, task: str, items: Any, phase: str | None, device: Any = None
    ) -> None:
        """Record the turns of the loop that ``where`` feeds: the wait for a batch, and the step.

        Raises UserError for a ``device`` that is none.
        """
        selector = where if isinstance(where, str) else _last_word(where)
        about: dict[str, Any] = {"task": task, "items": items, "phase": phase, "device": device}
        try:
            loop = Loop(self.spans, selector=selector, failed=self._failed, **about)
        except ValueError as error:
            raise UserError(f"loader of {where!r}: {error}") from None
        self._ask(where, direct=lambda found: loaders.wrap(found, loop.turns), override=True)

    def span(self, name: str, start_ns: int, end_ns: int, nbytes: int | None, **about: Any) -> None:
        """Record a span of the region ``name`` that other code has timed; ``about``: see :meth:`_site`."""
        items = about.pop("items") or 0
        payload = "bytes" if nbytes is not None else "items" if items else None
        site = self._site(name, payload, **about)
        self.spans.room.add(start_ns, end_ns, pack(items, 0) if nbytes is None else nbytes, site)

    def begin(self, name: str, nbytes: int | None, what: Any) -> Callable[[], None]:
        """Begin a span of the region ``name``, which what is returned ends."""
        site = self._site(name, None if nbytes is None else "bytes", what)
        room, slot = self.spans.room, self.spans.calls.stacks(name).slot
        start = perf_counter_ns()
        room.opened[slot] = site

        def end() -> None:
            room.add(start, perf_counter_ns(), nbytes or 0, site)
            room.opened[slot] = 0

        return end

    def _site(
        self, name: str, payload: str | None, what: Any, of: Any = None, phase: str | None = None
    ) -> int:
        """The site of a span that is no call, at the line where the program is."""
        frame = self.spans.sites.program(sys._getframe(2))
        line = None if frame is None else (id(frame.f_code), frame.f_lasti)
        number = None if of is None else self.spans.sites.objects.number(of)
        key = (name, what, payload, phase, number, get_ident(), getpid(), line)
        site = self._timed.get(key)
        if site is None:
            about = {"region": name, "what": what, "payload": payload, "phase": phase}
            site = self._timed[key] = self.spans.sites.at(sys._getframe(2), "", of, **about)
        return site

    def _put(self, name: str, value: Any, step: int | None) -> None:
        """Record a value of the program's own, at a step that it names or at the one that it is in."""
        store = self._metrics.get(name)
        if store is None:
            store = self._metrics[name] = Store(name, self._recorder, self.late.keep)
        if step is None:
            store.put(value)
            return
        found = store.number(value)  # None: it is no number, or on a device and read later
        if found is not None:
            self._recorder.emit("value", {"series": name, "value": found, "step": step})

    def _write_late(self, series: str, t_ns: int, value: Any) -> None:
        self._recorder.emit_values(series, t_ns, value)

    def renew(self) -> None:
        """In the child of a fork: it measures for itself."""
        self.spans.renew()
        self.late.renew()
        self._regions.renew()

    def close(self) -> None:
        """Record what was left on devices."""
        self.late.close()
        self.spans.close()


def _forget() -> None:
    """From now on, nothing that the program tells is recorded."""
    user.record(None)
    program.record(None)


def _last_word(where: Any) -> str:
    """``loss`` of ``//train > loss``, ``r`` of ``f() as r``, the name of an object."""
    if not isinstance(where, str):
        return str(getattr(where, "__name__", where))
    *_, last = ("", *where.replace(">", " ").split())
    return last.lstrip("!").rpartition("/")[2]
