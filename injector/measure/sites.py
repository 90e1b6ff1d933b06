"""Call sites: numbered combinations of a region, a line of the program, an object, a thread and a phase.

A span holds the number of its site alone. The data of a site are written to the log once, before its first
span (:mod:`injector.store.call_sites` has the layout), and again when more has become known of it.
"""

from __future__ import annotations

import os
from _thread import get_ident

from .places import Finder

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    Emit = Callable[[str, object], None]

MOST = 10_000
"""How many sites a process may have. More come of objects that are created anew all the time: these share a
site without an object then."""


class Objects:
    """Gives small numbers to objects, without keeping them alive. ``on_death`` is called when one dies.

    An object is known by its address, so its number is forgotten when it dies: another may take that.
    """

    def __init__(self, on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self._known: dict[int, tuple[int, type, Any]] = {}
        self._last = 0

    def number(self, thing: Any) -> int | None:
        """Return the number of an object; None for None."""
        if thing is None:
            return None
        key = id(thing)
        known = self._known.get(key)
        if known is not None and known[1] is type(thing):
            return known[0]
        self._last += 1
        self._known[key] = self._last, type(thing), self._watch(thing, key)
        return self._last

    def _watch(self, thing: Any, key: int) -> Any:
        """Return a weak reference that forgets the number when the object dies; None where it allows none."""
        from _weakref import ref

        known, on_death = self._known, self._on_death

        def died(_: Any) -> None:
            known.pop(key, None)
            on_death()

        try:
            return ref(thing, died)
        except TypeError:  # a list, a number: another one of its type may take its place unnoticed
            return None


class Sites:
    """The sites of one process. Each is passed to ``emit`` before it is used.

    ``on_death`` is called when an object dies that a site is of.
    """

    def __init__(self, emit: Emit, on_death: Callable[[], None]) -> None:
        self._emit = emit
        self._on_death = on_death
        self._finder = Finder()
        self.program = self._finder.program
        """``program(frame)``: the nearest frame of the program from ``frame`` outwards, or None."""
        self.called = self._finder.called
        self.is_program = self._finder.is_program
        self.on_site: list[Callable[[dict[str, Any]], None]] = []
        """Each is called with the data of a site before its first span, and again when they have changed."""
        self.on_thread: Callable[[], None] = lambda: None
        """Called when a thread has its first site."""
        self.age = 0
        """Counts the forks that led to this process: numbers of sites are valid while it stays the same."""
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._numbers: dict[tuple[object, ...], int] = {}
        self._sites: list[dict[str, Any]] = []
        self._threads: dict[int, int] = {}
        self.objects = Objects(self._on_death)
        self._learnt: dict[int, dict[str, str | None]] = {}
        """By the number of an object, what :meth:`learn` was called with."""

    def renew(self) -> None:
        """Begin anew in the child of a fork, whose files are its own. Does so once for each process."""
        if self._pid != os.getpid():
            self.age += 1
            self._reset()

    def at(self, frame: FrameType | None, library: str, of: Any, **what: Any) -> int:
        """Return the number of the site of a call from ``frame`` into ``library``, on the object ``of``.

        ``what`` is the other data of the site.
        """
        place = self.place(frame, library)
        return self.number(place=place, of=self.objects.number(of), **what)

    def place(self, frame: FrameType | None, library: str = "") -> dict[str, Any] | None:
        """Return the line of the program that a call from ``frame`` into ``library`` belongs to."""
        return self._finder.place(frame, library)

    def thread(self) -> int:
        """Return a small number for the present thread; 0 for the first thread that had a site."""
        number = self._threads.get(get_ident())
        if number is None:
            number = self._threads[get_ident()] = len(self._threads)
            self.on_thread()
        return number

    def knows_thread(self) -> bool:
        """Whether the present thread has had a site."""
        return get_ident() in self._threads

    def number(self, *, place: dict[str, Any] | None, of: int | None, **what: Any) -> int:
        """Return the number of the site with these data in the present thread."""
        data = {"thread": self.thread(), "place": place, "of": of, **_DEFAULTS, **what}
        if of in self._learnt:
            data.update(self._learnt[of])
        return self._number(data)

    def learn(self, of: Any, **changes: str | None) -> None:
        """Change the data of all sites of the object ``of``, also of those that spans have already."""
        number = self.objects.number(of)
        if number is None:
            return
        self._learnt.setdefault(number, {}).update(changes)
        for data in self._sites:
            if data["of"] == number:
                data.update(changes)
                self._numbers[_key(data)] = data["site"]
                self._announce(data)

    def data(self, site: int) -> dict[str, Any]:
        """Return the data of the site with the number ``site``."""
        return self._sites[site - 1]

    def like(self, site: int, **changes: Any) -> int:
        """Return the number of the site that differs from ``site`` by ``changes``."""
        return self._number({**self._sites[site - 1], **changes})

    def _number(self, data: dict[str, Any]) -> int:
        key = _key(data)
        number = self._numbers.get(key)
        if number is None:
            if len(self._sites) >= MOST and data["of"] is not None:
                return self._number({**data, "of": None})
            data["site"] = number = len(self._sites) + 1
            self._sites.append(data)
            self._numbers[key] = number
            self._announce(data)
        elif (known := self._sites[number - 1])["what"] not in (None, data["what"]):
            # A line may compile several functions: the site is named after none of them.
            known["what"] = None
            self._announce(known)
        return number

    def _announce(self, data: dict[str, Any]) -> None:
        """Write a site, and call those who wait for it."""
        self._emit("site", data)
        for listener in self.on_site:
            listener(data)


_DEFAULTS = {
    "clock": "host",
    "what": None,
    "phase": None,
    "task": None,
    "payload": None,
    "selector": "",
    "device": None,
}


def _key(data: dict[str, Any]) -> tuple[object, ...]:
    """What tells a site from another."""
    place = data["place"] or {}
    names = ("region", "clock", "thread", "of", "phase", "task", "selector", "device")
    at = (place.get("file"), place.get("line"), place.get("function"))
    return (*at, *(data[name] for name in names))
