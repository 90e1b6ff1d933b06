"""An iterable that is timed while a loop draws from it, and otherwise stays what it was."""

from __future__ import annotations

from time import perf_counter_ns

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    OnStep = Callable[[int, int, Any], None]
    """``on_step(io_ns, step_ns, batch)``: the wait for the batch, wait and body, the batch."""


def timed(iterator: Iterator[Any], on_step: OnStep) -> Iterator[Any]:
    """Yield from ``iterator``; tell ``on_step`` of each fetch and the loop body that it fed."""
    while True:
        start = perf_counter_ns()
        try:
            batch = next(iterator)
        except StopIteration:
            return
        fetched = perf_counter_ns()
        # A body that is left early (break, an exception) was no whole step and is not told.
        yield batch
        on_step(fetched - start, perf_counter_ns() - start, batch)


class TimedLoader:
    """Stands for an iterable: its attributes, length, items and class are the iterable's."""

    __slots__ = ("_injector_loader", "_injector_on_step")

    def __init__(self, loader: Any, on_step: OnStep) -> None:
        object.__setattr__(self, "_injector_loader", loader)
        object.__setattr__(self, "_injector_on_step", on_step)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self._injector_loader.__class__

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        return self._injector_loader.__dict__

    def __iter__(self) -> Iterator[Any]:
        return timed(iter(self._injector_loader), self._injector_on_step)

    def __len__(self) -> int:
        return len(self._injector_loader)

    def __bool__(self) -> bool:
        return bool(self._injector_loader)  # what has no length is true

    def __contains__(self, item: Any) -> bool:
        return item in self._injector_loader

    def __eq__(self, other: object) -> Any:
        return self._injector_loader == _bare(other)

    def __hash__(self) -> int:
        return hash(self._injector_loader)

    def __getitem__(self, key: Any) -> Any:
        return self._injector_loader[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._injector_loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._injector_loader, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._injector_loader, name)

    def __dir__(self) -> list[str]:
        return dir(self._injector_loader)

    def __repr__(self) -> str:
        return repr(self._injector_loader)

    def __reduce__(self) -> Any:
        # It leaves the process as what it stands for.
        return _itself, (self._injector_loader,)


def _bare(thing: Any) -> Any:
    return thing._injector_loader if type(thing) is TimedLoader else thing


def _itself(loader: Any) -> Any:
    return loader


def wrap(loader: Any, on_step: OnStep) -> Any:
    """``loader`` timed: an iterator becomes a timed iterator, an iterable stays one."""
    if hasattr(loader, "__next__"):
        return timed(loader, on_step)
    return TimedLoader(loader, on_step)
