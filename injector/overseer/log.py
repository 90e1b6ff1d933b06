"""``ov.log``: what a voirfile wants in the record."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Emit = Callable[[str, Any], None]


OURS = frozenset(
    (
        "process",
        "asked",
        "probe",
        "miss",
        "fired",
        "first",
        "failure",
        "lost",
        "end",
        "voirfile",
        "auto-missed",
        "ahead",
    )
)
"""Events that the record itself is made of; a voirfile's own of such a name are put into ``event``."""


class Log:
    """Called with a mapping, writes it into the record; a stream of ``giving`` when used as one.

    ``{"$event": name, "$data": data}`` is an event of that name, anything else an event ``data``.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._stream: Any = None

    def __call__(self, data: dict[str, Any]) -> None:
        if "$event" in data:
            name, content = str(data["$event"]), data.get("$data")
            if name in OURS:
                name, content = "event", {"name": name, "data": content}
            self._emit(name, content)
        else:
            self._emit("data", {k: v for k, v in data.items() if not k.startswith("$")})
        if self._stream is not None:
            self._stream(data)

    def stream(self) -> Any:
        """The same as a stream; imports ``giving``."""
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
