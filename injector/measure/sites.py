"""What spans are of: numbered combinations of a region, a line of the program, an object, a phase."""

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
"""Sites of one process; more come of objects that are made anew all the time, and share a site then."""


class Objects:
    """Small numbers for objects, which are not kept alive. ``on_death`` hears of each that dies."""

    def __init__(self, on_death: Callable[[], None]) -> None:
        self._on_death = on_death
        self._known: dict[int, tuple[int, type, Any]] = {}
        self._last = 0

    def number(self, found: Any) -> int | None:
        """The number of ``found``; None for None."""
        if found is None:
            return None
        key = id(found)
        known = self._known.get(key)
        if known is not None and known[1] is type(found):
            return known[0]
        self._last += 1
        self._known[key] = self._last, type(found), self._watch(found, key)
        return self._last

    def _watch(self, found: Any, key: int) -> Any:
        from _weakref import ref

        known, on_death = self._known, self._on_death

        def died(_: Any) -> None:
            known.pop(key, None)
            on_death()

        try:
            return ref(found, died)
        except TypeError:  # a list, a number: another one of its type may take its place unnoticed
            return None


class Sites:
    """The sites of one process, passed to ``emit`` before they are first used."""

    def __init__(self, emit: Emit, on_death: Callable[[], None]) -> None:
        self._emit = emit
        self._on_death = on_death
        self._finder = Finder()
        self.program = self._finder.program
        """``program(frame)``: the nearest frame of the program from there on; None if there is none."""
        self.called = self._finder.called
        self.is_program = self._finder.is_program
        self.on_site: list[Callable[[dict[str, Any]], None]] = []
        """Called, each, with the data of each site before its first span, and once more was learnt of it."""
        self.on_thread: Callable[[], None] = lambda: None
        """Called when another thread has its first site."""
        self.age = 0
        """Numbers of sites are good for as long as this stays the same: until a fork."""
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._numbers: dict[tuple[object, ...], int] = {}
        self._sites: list[dict[str, Any]] = []
        self._threads: dict[int, int] = {}
        self.objects = Objects(self._on_death)
        self._learnt: dict[int, dict[str, str]] = {}
        """By the number of an object, what was found out about it late."""

    def renew(self) -> None:
        """In the child of a fork: its files are its own. Once a process."""
        if self._pid != os.getpid():
            self.age += 1
            self._reset()

    def at(self, frame: FrameType | None, library: str, of: Any, **what: Any) -> int:
        """The number of the site of a call from ``frame`` into ``library``; ``what`` is its data."""
        place = self.place(frame, library)
        return self.number(place=place, of=self.objects.number(of), **what)

    def place(self, frame: FrameType | None, library: str = "") -> dict[str, Any] | None:
        """The line of the program that a call from ``frame`` into ``library`` belongs to."""
        return self._finder.place(frame, library)

    def thread(self) -> int:
        """A small number for the present thread; 0 for the first that had a site."""
        number = self._threads.get(get_ident())
        if number is None:
            number = self._threads[get_ident()] = len(self._threads)
            self.on_thread()
        return number

    def knows_thread(self) -> bool:
        """Whether the present thread had a site."""
        return get_ident() in self._threads

    def number(self, *, place: dict[str, Any] | None, of: int | None, **what: Any) -> int:
        """The number of a site by its data."""
        data = {"thread": self.thread(), "place": place, "of": of, **_DEFAULTS, **what}
        if of in self._learnt:
            data.update(self._learnt[of])
        return self._number(data)

    def learn(self, of: Any, **changes: str) -> None:
        """From now on, and of the spans so far as well, sites of the object ``of`` are as ``changes`` say."""
        number = self.objects.number(of)
        if number is None:
            return
        self._learnt.setdefault(number, {}).update(changes)
        for data in self._sites:
            if data["of"] == number:
                data.update(changes)
                self._numbers[_key(data)] = data["site"]
                self._tell(data)

    def data(self, site: int) -> dict[str, Any]:
        """The data of the site of a number."""
        return self._sites[site - 1]

    def like(self, site: int, **changes: Any) -> int:
        """The number of a site that differs from ``site`` by ``changes``."""
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
            self._tell(data)
        return number

    def _tell(self, data: dict[str, Any]) -> None:
        self._emit("site", data)
        for hear in self.on_site:
            hear(data)


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
    place = data["place"] or {}
    names = ("region", "clock", "thread", "of", "phase", "task", "selector", "device")
    at = (place.get("file"), place.get("line"), place.get("function"))
    return (*at, *(data[name] for name in names))
