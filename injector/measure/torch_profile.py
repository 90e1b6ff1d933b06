"""``--torch-profile 20:25``: those training steps under torch.profiler, as a Chrome trace in the run folder.

Steps are counted from 0 as :class:`Pace` counts them. One ends when the fetch or the update that ends it
does, so the wait for a loader's batch is recorded with the step before. The regions of ours that end
meanwhile are written into the same file, on its clock. Nothing is imported: PyTorch is the program's.

The profiler is one per process. A program that uses it has it: from torch's import on, what starts it
is looked at, and from then on ours is not started, or ends.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident

from .program import FOLDER

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROFILES = "profiles"
ENDING = ".pt.trace.json.gz"
CATEGORY = "injector"
"""Of the events of ours in the file."""
STARTS = ("_prepare_profiler", "_enable_profiler")
"""What every way to start the profiler calls, in :data:`MODULE`."""
MODULE = "torch.autograd.profiler"
MARK = '"traceEvents": ['


class TorchProfile:
    """Records steps ``first`` to ``last - 1`` of this process; ``emit`` and ``failed`` tell the record."""

    def __init__(
        self,
        steps: tuple[int, int],
        folder: str,
        emit: Callable[[str, object], None],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self.first, self.last = steps
        self.rank = 0
        self.sees = not self.first
        """Whether spans that end are to be given to :meth:`saw`: it records, or begins with the first one."""
        self._active = self._over = False
        self._folder = folder
        self._emit, self._failed = emit, failed
        self._profiler: Any = None
        self._thread = 0
        self._clock = (0, 0)
        self._spans: list[tuple[int, int, str]] = []
        self._originals: dict[str, Any] = {}

    def watch(self, module: Any) -> None:
        """Look at what starts the profiler in ``module``, which is :data:`MODULE`."""
        for name in STARTS:
            original = self._originals[name] = getattr(module, name)

            def starts(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                self._give_way()
                return _original(*args, **kwargs)

            setattr(module, name, starts)

    def at(self, steps: int) -> None:
        """So many steps have ended in this thread: begin or end, if it is time to."""
        if self._over:
            return
        if self._active:
            if steps >= self.last and get_ident() == self._thread:
                self.end()
        elif self.first <= steps < self.last:
            self._guarded(self._begin)

    def saw(self, start: int, end: int, region: str) -> None:
        """A region has ended; nanoseconds of ``perf_counter_ns``."""
        if not self._active:
            self.at(0)  # no step ends before step 0
        if self._active and get_ident() == self._thread:
            self._spans.append((start, end, region))

    def end(self) -> None:
        """The last step has ended, or the program: write what was recorded."""
        active = self._active
        self._finish()
        if active:
            self._guarded(self._write)

    def renew(self) -> None:
        """In the child of a fork: the profiler is the parent's."""
        self._finish()

    def _finish(self) -> None:
        self.sees, self._active, self._over = False, False, True
        self._let_go()

    def _begin(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "profiler"):
            return
        if torch.autograd._profiler_enabled():
            self._give_way()
            return
        self._let_go()  # what follows is our own start
        self._profiler = torch.profiler.profile()
        self._thread = get_ident()
        self._clock = (time.time_ns(), time.perf_counter_ns())
        self._profiler.start()
        self._active = self.sees = True
        self.watch(sys.modules[MODULE])

    def _give_way(self) -> None:
        """The program starts the profiler itself."""
        if self._over:
            return
        text = "the program uses torch.profiler itself: --torch-profile "
        active = self._active
        self.end()
        text += "ended there" if active else "did not start"
        self._emit("unprofiled", {"why": text})

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._finish()
            self._failed("--torch-profile", error)

    def _let_go(self) -> None:
        module = sys.modules.get(MODULE)
        while self._originals:
            name, original = self._originals.popitem()
            setattr(module, name, original)

    def _write(self) -> None:
        import gzip

        self._profiler.stop()
        profiler, self._profiler = self._profiler, None
        name = self._name()
        path = os.path.join(self._folder, FOLDER, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        draft = f"{path}.{os.getpid()}.json"
        try:
            profiler.export_chrome_trace(draft)
            with open(draft, encoding="utf-8") as file:
                text = file.read()
            with gzip.open(f"{draft}.gz", "wt", compresslevel=3, encoding="utf-8") as out:
                out.write(self._with_ours(text))
            os.replace(f"{draft}.gz", path)
        finally:
            for left in (draft, f"{draft}.gz"):
                if os.path.exists(left):
                    os.unlink(left)
        size = os.path.getsize(path)
        self._emit("artifact", {"name": name, "path": path, "size": size, "copied": True})

    def _name(self) -> str:
        """Several processes may be without a rank, or follow each other in one."""
        name = os.path.join(PROFILES, f"rank_{self.rank}")
        if os.path.exists(os.path.join(self._folder, FOLDER, name + ENDING)):
            name += f"_{os.getpid()}"
        return name + ENDING

    def _with_ours(self, text: str) -> str:
        """The trace, with whose it is, its pair of clocks and our regions."""
        import json

        head, mark, events = text.partition(MARK)
        if not mark:
            raise ValueError("torch.profiler wrote a trace without traceEvents")
        base = head.partition('"baseTimeNanoseconds":')[2].partition(",")[0].strip()
        unix, monotonic = self._clock
        shift = unix - monotonic - int(base or 0)
        pid, host = os.getpid(), os.uname().nodename
        about = {"pid": pid, "host": host, "unix_ns": unix, "monotonic_ns": monotonic}
        ours = [
            {
                "ph": "X",
                "cat": CATEGORY,
                "name": region,
                "pid": pid,
                "tid": f"{CATEGORY}: regions",
                "ts": (start + shift) / 1000,
                "dur": (end - start) / 1000,
            }
            for start, end, region in self._spans
        ]
        lines = "".join(f"\n{json.dumps(event)}," for event in ours)
        return f'{head}"{CATEGORY}": {json.dumps(about)},\n{mark}{lines}{events}'
