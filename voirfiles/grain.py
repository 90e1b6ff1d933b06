"""Grain: waiting for the batches of its datasets and of its loader.

Each iterator of a dataset asks those before it, in threads or processes of Grain's where it reads ahead. What
the program waits for is the call of the last one. Items are what the model is called with.
"""

from __future__ import annotations

import threading
from typing import Any

from grain import DatasetIterator

LIBRARY = "grain"
TESTED = ("0.2.18", "0.2.18")

LOADER = "/grain._src.python.data_loader/DataLoaderIterator/__next__"
OWN_THREADS = "grain-"
"""How the names of the threads begin in which Grain reads ahead."""


def instrument_datasets(ov: Any) -> None:
    """``io``: the wait for each batch."""
    about = {"when": _is_of_program, "outermost": True}
    ov.region(LOADER, "io", of=lambda self: self._data_loader, what="Grain's DataLoader", **about)
    kinds = [DatasetIterator]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if "__next__" in vars(kind) and kind.__module__.startswith("grain."):
            where = f"/{kind.__module__}/{kind.__qualname__}/__next__"
            ov.region(where, "io", of=lambda self: self, what=_name, **about)


_threads: Any = getattr(threading, "_active", {})
"""By their numbers; unlike `current_thread` it makes nothing for a thread that it does not know."""


def _is_of_program() -> bool:
    """Whether a thread of the program asks, and none of Grain's own."""
    name = getattr(_threads.get(threading.get_ident()), "name", "")
    return not name.startswith(OWN_THREADS)


def _name(self: Any) -> str:
    """``"Grain BatchDataset"``."""
    return f"Grain {type(self).__name__.strip('_').removesuffix('Iterator')}"
