"""``ov.value``, ``ov.region``, ``ov.step``, ``ov.loader``: the part of the overseer that measures.

Each method of :class:`Measures` describes what is to be measured, as hooks around calls or as a function of a
value, and passes that with the place to ``ask``, by which the overseer makes a probe. What the hooks record
goes into the memory of the process's spans and series, never through a stream.
"""

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
    """``ask(where, variable, direct, calls, store, override)``, all but ``where`` optional."""


class Measures:
    """What voirfiles have measured in one process, by the fast ways, which never go through a stream."""

    def __init__(
        self,
        ask: Ask,
        recorder: Writer,
        loop_failed: Callable[[BaseException], None],
        on_error: Callable[[str, BaseException], None],
    ) -> None:
        """``on_error(where, error)`` is called when what the program itself records could not be recorded.

        ``loop_failed(error)`` is called when the items of a loop could not be counted, or a value on a device
        not be read.
        """
        self._ask = ask
        self._recorder = recorder
        self._loop_failed = loop_failed
        self._spans = Spans(recorder)
        self._spans.warn = on_error
        self._sites_of_spans: dict[tuple[object, ...], int] = {}
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
        """Record each value that ``where`` takes, as ``name``. Values on a device are read later.

        With ``get``, ``where`` is a function, and the value is what ``get`` returns for each call: its
        parameters are named like variables of ``where``, ``result`` is what that returns. None is no value.
        Without a ``name``, ``get`` may return a mapping of several names to values. Raises UserError if
        ``get`` names a variable that ``where`` does not have.
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
        by_shape: bool = False,
    ) -> None:
        """Record each call of the function ``where`` as a span of the region ``name``.

        ``where`` may also name a loop, ``"//train > #loop_x"``: each turn of it is a span then, and functions
        name variables of the function that holds the loop, as they are when the turn ends.

        ``items``, ``tokens``, ``nbytes``, ``phase`` (``"train"`` or ``"eval"``), ``of`` (the object that
        the call works on), ``what`` (a name for it) and ``when`` (whether the call counts) are constants, or
        functions whose parameters are named like variables of ``where``; ``result`` is what ``where``
        returns. ``when`` may be a list of conditions, each checked as soon as what it names is known.

        ``outermost`` leaves out calls inside of another call of a region of the same name, or, if it is a
        word, of any region with the same word.

        ``device`` requests the time of a device as well: True for the device that the program uses;
        ``"sampled"`` for the same, but only for so many calls that it costs next to nothing; a name such as
        ``"cuda:0"``; or a clock of the voirfile's own (docs/timers.md).

        ``of`` may also be text for a part of a variable: ``"self"``, ``"args[0]"``, ``"self.training"``.
        ``depends`` lists what else decides ``when`` and ``phase``: such texts, ``"bool(self._modules)"`` for
        whether a part is true, and functions without arguments. In a call where all of these are the same
        objects as in an earlier call, neither ``when`` nor ``phase`` is called again.

        ``by_shape`` says that ``items`` are only a dimension of a batch: its model may know better which of
        them counts.

        ``splits`` names another region, of which a call that calls ``where`` twice holds a whole loop. That
        call is not recorded, and the calls that it makes are, although they are not outermost.

        ``where`` may be ``".to"``: the calls of every method ``to`` that stand in the program's own files.
        Functions may then name ``self``, the object whose method is called, and ``result``. Raises UserError
        if a function names a variable that ``where`` does not have, or ``device`` is none.
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
            by_shape=by_shape,
        )

    def _region(self, where: Any, name: str, **options: Any) -> None:
        loop = None
        if isinstance(where, str) and "loop" in where.rpartition("#")[2]:
            from . import iterations  # few voirfiles need it

            loop = iterations.loop_of(where)
        try:
            region = Region(name, at_end=loop is not None, **options)
        except (TypeError, ValueError) as error:
            raise UserError(f"region {name!r} of {where!r}: {error}") from None
        calls = RegionHooks(region, self._spans)
        self._ask(where, calls=calls if loop is None else iterations.IterationHooks(calls, loop))

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
        """Record calls of objects written in C, such as those that ``jax.jit`` returns, as spans.

        Returns a function that is called with such an object and says whether its calls can be recorded. If
        so, all of them are from then on, and to the program it remains the object that it was. Called with a
        type written in C, the function has each moment recorded at which an object of the type lends its
        memory, as when NumPy reads it.

        ``began(thing, args)`` says whether a call counts, where ``args`` are the arguments without their
        names; ``ended(thing, result)`` is called at the end of each call, with MISSING where that raised.
        ``items``, ``of`` and ``what`` are as in :meth:`region`, with the variables ``self`` and ``args``;
        ``selector`` says in the record whose calls these are. Calls inside of another call of the region are
        left out. Raises UserError if a function names any other variable.
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
        """Record each call of the function ``where`` as a step of ``task`` that processes ``items`` items.

        ``where`` may name a loop, ``"//train > #loop_x"``, whose turns are the steps then.
        ``items``, ``phase``, ``device``, ``when`` and ``outermost`` are as in :meth:`region`.
        """
        options = {"items": items, "phase": phase, "when": when, "outermost": outermost}
        self._region(where, STEP, task=task, device=device, **options)

    def loader(
        self,
        where: Any,
        *,
        task: str = "train",
        items: Any = None,
        phase: str | None = None,
        device: Any = False,
    ) -> None:
        """Time the steps of the loop of ``task`` that the iterable ``where`` drives, or the one it returns.

        ``items`` is a number or a function of the batch; by default the size of the batch is found out.
        ``device`` is as in :meth:`region`, for each fetch and for each step as a whole. Raises UserError if
        ``device`` is none.
        """
        selector = where if isinstance(where, str) else _last_word(where)
        options: dict[str, Any] = {"task": task, "items": items, "phase": phase, "device": device}
        try:
            loop = Loop(self._spans, selector=selector, failed=self._loop_failed, **options)
        except ValueError as error:
            raise UserError(f"loader of {where!r}: {error}") from None
        self._ask(where, direct=lambda loader: loaders.wrap(loader, loop.turns), override=True)

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

        Times are those of ``time.perf_counter_ns``. The span belongs to the calling thread, and to the object
        ``of`` if there is one. ``items`` and ``phase`` are as in :meth:`region`.
        """
        items = items or 0
        payload = "bytes" if nbytes is not None else "items" if items else None
        site = self._site(name, payload, what, of, phase)
        self._spans.room.add(start_ns, end_ns, pack(items, 0) if nbytes is None else nbytes, site)

    def begin(
        self, name: str, *, nbytes: int | None = None, what: str | None = None
    ) -> Callable[[], None]:
        """Begin a span of the region ``name`` that is no call. Returns the function that ends it.

        As long as the span is open, a live view shows the process in it.
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
        """Return the site of a span that is no call, at the line where the program is."""
        frame = self._spans.sites.program(sys._getframe(2))
        line = None if frame is None else (id(frame.f_code), frame.f_lasti)
        object_id = None if of is None else self._spans.sites.objects.number(of)
        # Sites are those of a thread and of a process: a forked child comes by with its parent's in here.
        key = (name, what, payload, phase, object_id, get_ident(), getpid(), line)
        site = self._sites_of_spans.get(key)
        if site is None:
            data = {"region": name, "what": what, "payload": payload, "phase": phase}
            site = self._sites_of_spans[key] = self._spans.sites.at(
                sys._getframe(2), "", of, **data
            )
        return site

    def _put(self, name: str, value: Any, step: int | None) -> None:
        """Record a value of the program's own, of the step that it names or of the one that it is in."""
        store = self._metrics.get(name)
        if store is None:
            store = self._metrics[name] = Store(name, self._recorder, self._late.keep)
        if step is None:
            store.put(value)
            return
        number = store.number(value)  # None: it is no number, or on a device and read later
        if number is not None:
            self._recorder.emit("value", {"series": name, "value": number, "step": step})

    def renew(self) -> None:
        """Begin anew in the child of a fork, which measures for itself."""
        self._spans.renew()
        self._late.renew()
        self._regions.renew()

    def end_measuring(self) -> None:
        """Record what devices still hold, as far as they are done with it."""
        self._late.close()
        self._spans.close()


def _forget() -> None:
    """Record nothing more of what the program records itself."""
    user.record(None)
    program.record(None)


def _last_word(where: Any) -> str:
    """Return ``loss`` of ``//train > loss``, ``r`` of ``f() as r``, or the name of an object."""
    if not isinstance(where, str):
        return str(getattr(where, "__name__", where))
    *_, last = ("", *where.replace(">", " ").split())
    return last.lstrip("!").rpartition("/")[2]
