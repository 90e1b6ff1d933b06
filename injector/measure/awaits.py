"""What an event loop of asyncio waits for: the ``await`` at which the task that trains is suspended.

To the operating system an event loop always waits in ``select``, for all of its tasks at once. Here the
suspended frames of the tasks are read, and it is found out which one trains.
"""

from __future__ import annotations

import sys

from .places import EVENT_LOOP

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

MOST = 64
"""How many tasks are looked at; where a loop has more, none is recorded as waited for."""
_TRAINS = ("forward", "backward", "optimizer", "step")


class Awaits:
    """The tasks of one process. Where it is not certain which one a loop waits for, none is named."""

    def __init__(self, is_program: Callable[[FrameType], bool]) -> None:
        self._is_program = is_program
        self._trains: set[CodeType] = set()
        """The outermost coroutines of tasks that have trained something."""
        self._functions: set[str] = set()
        """The names of the functions that train."""

    def note(self, site: dict[str, Any]) -> None:
        """Note that the present task has the first span of this site."""
        if site["region"] in _TRAINS and site["phase"] != "eval":
            loop, tasks = _running()
            task = None if loop is None else tasks.current_task(loop)
            frames = [] if task is None else list(_suspended_at(task.get_coro()))
            self._trains.update(frame.f_code for frame in frames[:1])
            self._functions.add(str((site["place"] or {}).get("function")).rpartition(".")[2])

    def awaited(self) -> tuple[FrameType, str] | None:
        """Return the program's frame that awaits, and the name of the coroutine that it awaits; or None.

        It is in the task that trains, or else in the only task in which the program awaits.
        """
        loop, tasks = _running()
        all_tasks = () if loop is None else tasks.all_tasks(loop)
        if len(all_tasks) > MOST:
            return None
        chains = [list(_suspended_at(task.get_coro())) for task in all_tasks]
        chains = [chain for chain in chains if any(map(self._is_program, chain))]
        training = [chain for chain in chains if self._may_train(chain)]
        ends = [self._end(chain) for chain in training or chains]
        lines = {(frame.f_code, frame.f_lineno) for frame, _ in ends}
        return ends[0] if len(lines) == 1 else None

    def _may_train(self, chain: list[FrameType]) -> bool:
        """Whether a task has trained, or its coroutines name a function that does.

        The names are needed as a site is noted in one task only, though others may train at the same line.
        """
        names = (name for frame in chain for name in (frame.f_code.co_name, *frame.f_code.co_names))
        return chain[0].f_code in self._trains or not self._functions.isdisjoint(names)

    def _end(self, chain: list[FrameType]) -> tuple[FrameType, str]:
        """Return the innermost frame of the program, and the name of what it awaits."""
        at = max(number for number, frame in enumerate(chain) if self._is_program(frame))
        inner = chain[at + 1].f_code if at + 1 < len(chain) else None
        return chain[at], EVENT_LOOP if inner is None else getattr(
            inner, "co_qualname", inner.co_name
        )


def _running() -> tuple[Any, Any]:
    """Return the event loop that runs in this thread, or None, and the module ``asyncio.tasks``."""
    events, tasks = sys.modules.get("asyncio.events"), sys.modules.get("asyncio.tasks")
    if events is None or tasks is None:
        return None, None
    return events._get_running_loop(), tasks


def _suspended_at(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of those that it awaits, the outermost first.

    Only the interpreter's own types are read: an attribute of another type may run the program's code.
    """
    while True:
        kind = type(coroutine)
        names = _ATTRIBUTES.get(kind.__name__) if kind.__module__ == "builtins" else None
        frame = None if names is None else getattr(coroutine, names[0])
        if names is None or frame is None:  # what is not awaited in Python, or has ended
            return
        yield frame
        coroutine = getattr(coroutine, names[1])


_ATTRIBUTES = {"coroutine": ("cr_frame", "cr_await"), "generator": ("gi_frame", "gi_yieldfrom")}
