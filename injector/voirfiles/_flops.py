"""FLOPs of one training step (the second run of ``inject run --flops``), by PyTorch's own counter.

The counter works from the end of the second step to the end of the third, in the thread that trains;
backward that the engine runs in threads of its own is counted with it. The count is a tag of the run.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TAG = "flops-of-a-step"
BEFORE = 2
"""Steps before the one that is counted: what a program does in its first ones only is not in it."""
STEPS = BEFORE + 2
"""Steps of the run: it goes on after the counted one, so that the counter is off when it is stopped."""


class StepFlops:
    """The counter, and the step that it is on for."""

    def __init__(self, ov: Any) -> None:
        self.ov = ov
        self.counter: Any = None
        self.mode: Any = None
        """What the counter put on the stack of modes, which differs between versions of PyTorch."""
        self.begun = self.done = 0

    def ended(self, steps: int) -> None:
        """So many steps of this thread have ended."""
        if self.done or steps < BEFORE or "torch" not in sys.modules:
            return
        try:
            if self.counter is not None:
                self.leave(steps)
            if not self.done:
                self.enter(steps)
        except Exception as error:
            self.done = 1
            self.tell(why=f"{type(error).__name__}: {error}")

    def enter(self, steps: int) -> None:
        from torch.utils._python_dispatch import _get_current_dispatch_mode
        from torch.utils.flop_counter import FlopCounterMode

        self.counter, self.begun = FlopCounterMode(display=False), steps
        self.counter.__enter__()
        self.mode = _get_current_dispatch_mode()

    def leave(self, steps: int) -> None:
        """Take the count; that of anything but a whole step is dropped."""
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        if _get_current_dispatch_mode() is not self.mode:
            raise RuntimeError("the program was in a dispatch mode of its own at the step's end")
        self.counter.__exit__(None, None, None)
        if steps == self.begun + 1:
            self.done = 1
            self.tell(flops=int(self.counter.get_total_flops()), compiled=_compiles())
        self.counter = None

    def tell(self, **what: Any) -> None:
        rank = os.environ.get("RANK", "")
        what["rank"] = int(rank) if rank.isdecimal() else None
        self.ov.tag(f"{TAG} {os.getpid()}", json.dumps(what))


def _compiles() -> bool:
    """Whether graphs were compiled, whose own kernels the counter does not see."""
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["stats"].get("unique_graphs"))


def instrument_flops(ov: Any) -> None:
    """Hear of each step's end."""
    ov.on_step(StepFlops(ov).ended)
