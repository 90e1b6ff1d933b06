"""``ov.log``: what a voirfile, or a program through voir, puts into the record."""

from __future__ import annotations

import os
import weakref
from functools import wraps

from ..bus.inbox import VARIABLE, event_in, event_of

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Emit = Callable[[str, Any], None]


class RecordLog:
    """Writes each mapping that it is called with into the record; a stream of ``giving`` where used as one.

    ``{"$event": name, "$data": data}`` is an event of that name, any other mapping an event ``data``. The
    event ``stop`` ends the job.
    """

    def __init__(self, emit: Emit, end_job: Callable[[], None] = lambda: None) -> None:
        self._emit = emit
        self._end_job = end_job
        self._stream: Any = None

    def __call__(self, data: dict[str, Any]) -> None:
        name, content = event_of(data)
        if "$event" not in data:
            content = {k: v for k, v in data.items() if not k.startswith("$")}
        if name != "stop":
            self._emit(name, content)
        if self._stream is not None:
            self._stream(data)
        if name == "stop":
            self._end_job()

    def stream(self) -> Any:
        """Return it as a stream, which also gives what is written. Imports ``giving``."""
        if self._stream is None:
            from .streams import LogStream

            self._stream = LogStream()
        return self._stream

    def __rshift__(self, subscriber: Callable[[Any], None]) -> Any:
        return self.stream() >> subscriber

    def __getitem__(self, key: Any) -> Any:
        return self.stream()[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.stream(), name)


def take_smuggled(module: ModuleType, log: RecordLog) -> None:
    """Have what ``voir.smuggle`` would hide in standard output written to ``log``, and kept out of there.

    A process that has set ``DATA_FD`` to 1 reads it from standard output, so that it stays there as well.
    """
    writer = module.SmuggleWriter
    write = writer.write
    parts: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # of lines, by writer

    @wraps(write)
    def wrote(self: Any, text: str) -> Any:
        if not _is_standard_output(self.stream):
            return write(self, text)
        *lines, rest = (parts.pop(self, "") + text).split("\n")
        if rest:
            parts[self] = rest
        for line in lines:
            event, data = event_in(line)
            log(data if event == "data" else {"$event": event, "$data": data})
        encoded = module.encode_as_escape_sequence(text)
        return write(self, text) if os.environ.get(VARIABLE) == "1" else len(encoded)

    writer.write = wrote


def _is_standard_output(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 1)
    except (AttributeError, OSError, ValueError):
        return False  # no file, or a closed one, as writing to it will tell
