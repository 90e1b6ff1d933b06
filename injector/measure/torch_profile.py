"""``--torch-profile 20:25``: those training steps under torch.profiler, as a Chrome trace in the run folder.

Steps are counted from 0 as :class:`Pace` counts them. A step ends with the fetch or the update that ends it,
so the wait for a loader's batch is recorded with the step before. The regions that are recorded meanwhile are
written into the same file, on its clock. Nothing is imported: PyTorch is the program's.

A process can run one profiler at a time, and where the program uses it, it is the program's. So the functions
that start it are replaced once PyTorch is imported: when the program calls one, our profile ends first, or
does not start at all.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident
from itertools import takewhile

from .program import FOLDER

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROFILES = "profiles"
ENDING = ".pt.trace.json.gz"
CATEGORY = "injector"
"""The category of our regions in the file."""
STARTS = ("_prepare_profiler", "_enable_profiler")
"""The functions in :data:`MODULE` that every way to start the profiler calls."""
MODULE = "torch.autograd.profiler"
MARK = '"traceEvents": ['
"""Where the events begin in the text of the trace: it may be large, and is not parsed."""
END = 4096
"""How many characters at the end of the text may hold what stands behind the events."""


class TorchProfile:
    """Records the steps from ``first`` up to, and without, ``last``.

    ``emit`` writes into the record what became of the profile, ``failed`` an error.
    """

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
        """Whether :meth:`saw` is to be called with spans that end: it records them, or begins with one."""
        self._active = self._over = False
        self._folder = folder
        self._emit, self._failed = emit, failed
        self._profiler: Any = None
        self._thread = 0
        self._clock = (0, 0)
        self._spans: list[tuple[int, int, str]] = []
        self._originals: dict[str, Any] = {}

    def watch(self, module: Any) -> None:
        """Replace what starts the profiler in ``module``, which is :data:`MODULE`."""
        for name in STARTS:
            original = self._originals[name] = getattr(module, name)

            def starts(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
                self._give_way()
                return _original(*args, **kwargs)

            setattr(module, name, starts)

    def at(self, steps: int) -> None:
        """Begin or end the profile if it is time to: ``steps`` is how many have ended in this thread."""
        if self._over:
            return
        if self._active:
            if steps >= self.last and get_ident() == self._thread:
                self.end()
        elif self.first <= steps < self.last:
            self._guarded(self._begin)

    def saw(self, start: int, end: int, region: str) -> None:
        """Note that a region has ended, with its times in nanoseconds of ``perf_counter_ns``."""
        if not self._active:
            self.at(0)  # no step ends before step 0, so that the first span begins the profile
        if self._active and get_ident() == self._thread:
            self._spans.append((start, end, region))

    def end(self) -> None:
        """End the profile after its last step, or with the program, and write what was recorded."""
        active = self._active
        self._finish()
        if active:
            self._guarded(self._write)

    def renew(self) -> None:
        """Record nothing in the child of a fork: the profiler is the parent's."""
        self._finish()

    def _finish(self) -> None:
        """Record nothing more, and put PyTorch's functions back."""
        self.sees, self._active, self._over = False, False, True
        self._let_go()

    def _begin(self) -> None:
        """Start the profiler, unless the program uses it at the moment."""
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "profiler"):
            return
        if torch.autograd._profiler_enabled():
            self._give_way()
            return
        self._let_go()  # our own start must not look like the program's
        self._profiler = torch.profiler.profile()
        self._thread = get_ident()
        self._clock = (time.time_ns(), time.perf_counter_ns())
        self._profiler.start()
        self._active = self.sees = True
        self.watch(sys.modules[MODULE])

    def _give_way(self) -> None:
        """End the profile, or do not start it: the program starts the profiler itself."""
        if self._over:
            return
        text = "the program uses torch.profiler itself: --torch-profile "
        active = self._active
        self.end()
        text += "ended there" if active else "did not start"
        self._emit("unprofiled", {"why": text})

    def _guarded(self, act: Callable[[], None]) -> None:
        """Call ``act``; an error of it ends the profile, and does not reach the program."""
        try:
            act()
        except Exception as error:
            self._finish()
            self._failed("--torch-profile", error)

    def _let_go(self) -> None:
        """Put PyTorch's functions back."""
        module = sys.modules.get(MODULE)
        while self._originals:
            name, original = self._originals.popitem()
            setattr(module, name, original)

    def _write(self) -> None:
        """Stop the profiler, and write its trace with our regions, compressed."""
        import gzip

        self._profiler.stop()
        profiler, self._profiler = self._profiler, None
        name = self._name()
        path = os.path.join(self._folder, FOLDER, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # A draft, renamed once complete: a process that is killed meanwhile leaves no part of a trace.
        draft = f"{path}.{os.getpid()}.json"
        try:
            profiler.export_chrome_trace(draft)
            with open(draft, encoding="utf-8") as file:
                text = file.read()
            # The program waits for this, so that it is compressed fast rather than small.
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
        """Return the name of the trace's file, which has the rank in it.

        Several processes may have no rank, or follow each other as one rank: from the second one on, the name
        has the process's number as well.
        """
        name = os.path.join(PROFILES, f"rank_{self.rank}")
        if os.path.exists(os.path.join(self._folder, FOLDER, name + ENDING)):
            name += f"_{os.getpid()}"
        return name + ENDING

    def _with_ours(self, text: str) -> str:
        """Return the text of the trace with its process, both clocks at its begin, and our regions."""
        import json

        head, mark, events = text.partition(MARK)
        if not mark:
            raise ValueError("torch.profiler wrote a trace without traceEvents")
        # Times in the trace count from a moment that it names, before its events or, until PyTorch
        # 2.4 at least, behind them; where it names none, they are unix times.
        after = (head + events[-END:]).partition('"baseTimeNanoseconds":')[2]
        base = "".join(takewhile(str.isdigit, after.lstrip()))
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
