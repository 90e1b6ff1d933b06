"""``ov.value``, ``ov.region``, ``ov.step``, ``ov.loader``: what they ask for, and what is recorded."""

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
from .values import Several, Store, ValueHooks, series_name

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..bus.writer import Writer

    Ask = Callable[..., None]
    """``ask(where, variable, direct, calls, store, override)`` of the overseer, most of them optional."""


class Measures:
    """What a voirfile has measured in one process: the fast ways, which never go through a stream."""

    def __init__(
        self,
        ask: Ask,
        recorder: Writer,
        loop_failed: Callable[[BaseException], None],
        on_error: Callable[[str, BaseException], None],
    ) -> None:
        """``on_error(where, error)`` is called for what the program itself could not record.

        ``loop_failed(error)``: a loop's items could not be counted, or a late value not be read.
        """
        self._ask = ask
        self._recorder = recorder
        self._loop_failed = loop_failed
        self._spans = Spans(recorder)
        self._spans.warn = on_error
        self._timed: dict[tuple[object, ...], int] = {}
        self._late = Late(recorder.emit_values, recorder.lose, loop_failed)
        self._regions = user.RegionRecorder(self._spans)
        self._metrics: dict[str, Store] = {}
        user.record(self._regions)
        program.record(program.ProgramRecords(self._put, recorder.emit, recorder.folder, on_error))
        points.listen(silence=_forget)

    def value(
        self,
        where: Any,
        name: str | None = None,
        *,
        task: str | None = None,
        get: Callable[..., Any] | None = None,
    ) -> None:
        """Record each value that ``where`` takes, as ``name``; device values are read late.

        With ``get``, ``where`` is a function, and the value is what ``get`` makes of each call: its
        parameters are named like variables of ``where``, ``result`` is what it returns. None is no
        value. Without a ``name`` it may make a mapping: a value of each of its names.

        Raises:
            UserError: ``get`` names what ``where`` does not have.
        """
        series = series_name(task, name or _last_word(where))
        store = Store(series, self._recorder, self._late.keep)
        if get is None:
            self._ask(where, store=store)
            return
        if name is None:
            store = Several(_last_word(where), self._recorder, self._late.keep, task)
        try:
            self._ask(where, calls=ValueHooks(get, store))
        except TypeError as error:
            raise UserError(f"value {series!r} of {where!r}: {error}") from None

    def region(
        self,
        where: Any,
        name: str,
        *,
        items: Any = None,
        tokens: Any = None,
        nbytes: Any = None,
        phase: Any = None,
        device: Any = False,
        of: Any = None,
        what: Any = None,
        when: Any = None,
        outermost: bool | str = False,
        depends: Sequence[Any] | None = None,
        splits: str | None = None,
    ) -> None:
        """Record each call of the function ``where`` as a span of the region ``name``.

        ``items``, ``tokens``, ``nbytes``, ``phase`` (``"train"`` or ``"eval"``), ``of`` (the object that
        the call works on), ``what`` (its name) and ``when`` (whether the call counts) are constants, or
        functions whose parameters are named like variables of ``where``; ``result`` is what it
        returns. ``outermost`` leaves out calls inside of another call of a region of that name,
        or, where it is a word, of any region that says the same word;
        ``device`` asks for the time of a device as well: True for the one that the program uses,
        ``"sampled"`` for it as well, but of so many calls only that it costs next to nothing, a name such
        as ``"cuda:0"``, or a clock of the voirfile's own (docs/timers.md). ``when`` may be a list of
        conditions, each checked as soon as what it names is known.

        ``of`` may also be text for a part of a variable: ``"self"``, ``"args[0]"``, ``"self.training"``.
        ``depends`` lists what ``when`` and ``phase`` follow from besides: such texts, or
        ``"bool(self._modules)"`` for whether it is true, and functions without arguments. Where all of
        these are the same objects as in an earlier call, neither is called again.

        ``splits`` names another region: a call of it in which ``where`` is called twice holds a whole loop.
        It is not recorded, and what it calls is, although it is not outermost.

        ``where`` may be ``".to"``: then it is the calls of every method ``to`` that stand in the
        program's own files, and functions may name ``self``, whose method it is, and ``result``.

        Raises:
            UserError: a function names what ``where`` does not have, or ``device`` is none.
        """
        self._region(
            where,
            name,
            items=items,
            tokens=tokens,
            nbytes=nbytes,
            phase=phase,
            device=device,
            of=of,
            what=what,
            when=when,
            outermost=outermost,
            depends=depends,
            splits=splits,
        )

    def _region(self, where: Any, name: str, **options: Any) -> None:
        try:
            region = Region(name, **options)
        except (TypeError, ValueError) as error:
            raise UserError(f"region {name!r} of {where!r}: {error}") from None
        self._ask(where, calls=RegionHooks(region, self._spans))

    def calls(
        self,
        selector: str,
        name: str,
        *,
        began: Callable[[Any, Any], bool],
        ended: Callable[[Any, Any], None],
        items: Any = None,
        of: Any = None,
        what: Any = None,
    ) -> Callable[[Any], bool]:
        """Record calls of objects that are written in C, such as what ``jax.jit`` makes, as spans.

        What is returned is called with such an object, and says whether its calls can be recorded: then they
        are, wherever it is called; to the program it is the object that it was. Called with a type written in
        C, it has each time recorded that an object of the type lends its memory, as where NumPy reads it.

        ``began(thing, args)`` says whether a call counts, ``args`` being its arguments without their names;
        ``ended(thing, result)`` hears of the end of each, with MISSING where it raised. ``items``, ``of`` and
        ``what`` are as in :meth:`region`, with the variables ``self`` and ``args``; ``selector`` says in the
        record whose calls they are. Calls inside of another call of the region are left out.

        Raises:
            UserError: a function names any other variable.
        """
        region = Region(name, outermost=True, items=items, of=of, what=what)
        return RegionHooks(region, self._spans).of_objects(selector, began, ended)

    def step(
        self,
        where: Any,
        *,
        task: str = "train",
        items: Any = None,
        phase: Any = None,
        device: Any = False,
        when: Any = None,
        outermost: bool | str = False,
    ) -> None:
        """Each call of the function ``where`` is a step of ``task`` that processes ``items`` items.

        ``items``, ``phase``, ``device``, ``when`` and ``outermost`` are as in :meth:`region`.
        """
        about = {"items": items, "phase": phase, "when": when, "outermost": outermost}
        self._region(where, STEP, task=task, device=device, **about)

    def loader(
        self,
        where: Any,
        *,
        task: str = "train",
        items: Any = None,
        phase: str | None = None,
        device: Any = False,
    ) -> None:
        """``where`` is (or returns) the iterable that drives the loop of ``task``: times its steps.

        ``items`` is a number or a function of the batch; by default the batch's size is looked for.
        ``device`` is as in :meth:`region`: of each fetch, and of each step as a whole.

        Raises:
            UserError: ``device`` is none.
        """
        selector = where if isinstance(where, str) else _last_word(where)
        about: dict[str, Any] = {"task": task, "items": items, "phase": phase, "device": device}
        try:
            loop = Loop(self._spans, selector=selector, failed=self._loop_failed, **about)
        except ValueError as error:
            raise UserError(f"loader of {where!r}: {error}") from None
        self._ask(where, direct=lambda found: loaders.wrap(found, loop.turns), override=True)

    def span(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        nbytes: int | None = None,
        items: int | None = None,
        phase: str | None = None,
        what: str | None = None,
        of: Any = None,
    ) -> None:
        """Record a span of the region ``name`` that is no call, but was timed by the voirfile.

        Times are those of ``time.perf_counter_ns``. It belongs to the thread that tells of it, and to the
        object ``of``, where there is one. ``items`` and ``phase`` are as in :meth:`region`.
        """
        items = items or 0
        payload = "bytes" if nbytes is not None else "items" if items else None
        site = self._site(name, payload, what, of, phase)
        self._spans.room.add(start_ns, end_ns, pack(items, 0) if nbytes is None else nbytes, site)

    def begin(
        self, name: str, *, nbytes: int | None = None, what: str | None = None
    ) -> Callable[[], None]:
        """Begin a span of the region ``name`` that is no call; what is returned, called, ends it.

        As long as it is open, a live view shows the process in it.
        """
        site = self._site(name, None if nbytes is None else "bytes", what)
        room, slot = self._spans.room, self._spans.calls.stacks(name).slot
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
        frame = self._spans.sites.program(sys._getframe(2))
        line = None if frame is None else (id(frame.f_code), frame.f_lasti)
        number = None if of is None else self._spans.sites.objects.number(of)
        key = (name, what, payload, phase, number, get_ident(), getpid(), line)
        site = self._timed.get(key)
        if site is None:
            about = {"region": name, "what": what, "payload": payload, "phase": phase}
            site = self._timed[key] = self._spans.sites.at(sys._getframe(2), "", of, **about)
        return site

    def _put(self, name: str, value: Any, step: int | None) -> None:
        """Record a value of the program's own, at a step that it names or at the one that it is in."""
        store = self._metrics.get(name)
        if store is None:
            store = self._metrics[name] = Store(name, self._recorder, self._late.keep)
        if step is None:
            store.put(value)
            return
        found = store.number(value)  # None: it is no number, or on a device and read later
        if found is not None:
            self._recorder.emit("value", {"series": name, "value": found, "step": step})

    def renew(self) -> None:
        """In the child of a fork: it measures for itself."""
        self._spans.renew()
        self._late.renew()
        self._regions.renew()

    def end_measuring(self) -> None:
        """Record what was left on devices."""
        self._late.close()
        self._spans.close()


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
