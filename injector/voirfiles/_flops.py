"""FLOPs of one training step (the second run of ``inject run --flops``), by PyTorch's own counter.

The counter is on from the end of the second step to the end of the third, in the thread that trains; a
backward that the engine runs in threads of its own is counted as well. The count becomes a tag of the run.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import Any

TAG = "flops-of-a-step"
BEFORE = 2
"""Steps before the one that is counted: the first ones hold work that is done only once."""
STEPS = BEFORE + 2
"""Steps of the run. One follows the counted step, so that the counter is off when the run is stopped."""
PRECISIONS = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


class StepFlops:
    """Counts the FLOPs of one step, and tags the run with them."""

    def __init__(self, ov: Any) -> None:
        self.ov = ov
        self.counter: Any = None
        self.mode: Any = None
        """The dispatch mode that the counter has put on PyTorch's stack."""
        self.counted_from = self.done = 0

    def ended(self, steps: int) -> None:
        """Start or finish counting at the end of a step, after which so many of this thread have ended."""
        if self.done or steps < BEFORE or "torch" not in sys.modules:
            return
        try:
            if self.counter is not None:
                self.finish(steps)
            if not self.done:
                self.start(steps)
        except Exception as error:
            self.done = 1
            self.tag(why=f"{type(error).__name__}: {error}")

    def start(self, steps: int) -> None:
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        self.counter, self.counted_from = _counter(), steps
        self.counter.__enter__()
        self.mode = _get_current_dispatch_mode()

    def finish(self, steps: int) -> None:
        """Stop counting, and record the count if it is that of one whole step.

        Raises RuntimeError if the counter cannot be taken off the stack of modes.
        """
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        if _get_current_dispatch_mode() is not self.mode:
            raise RuntimeError("the program was in a dispatch mode of its own at the step's end")
        self.counter.__exit__(None, None, None)
        if steps == self.counted_from + 1:
            self.done = 1
            self.tag(
                flops=int(self.counter.get_total_flops()),
                compiled=_compiles(),
                precisions=dict(self.counter.precisions),
                device=self.counter.device,
            )
        self.counter = None

    def tag(self, **what: Any) -> None:
        rank = os.environ.get("RANK", "")
        what["rank"] = int(rank) if rank.isdecimal() else None
        self.ov.tag(f"{TAG} {os.getpid()}", json.dumps(what))


def _counter() -> Any:
    """A counter that also knows the precisions of operations, and the device of the first one."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    class PrecisionCounter(FlopCounterMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(display=False)
            self.precisions: Counter[str] = Counter()
            self.device = ""

        def _count_flops(self, func: Any, out: Any, args: Any, kwargs: Any) -> Any:
            before = self.get_total_flops()
            result = super()._count_flops(func, out, args, kwargs)
            more = int(self.get_total_flops() - before)
            tensor = next((each for each in args if isinstance(each, torch.Tensor)), None)
            if more and tensor is not None:
                self.precisions[_precision(torch, func, tensor)] += more
                self.device = self.device or _device(torch, tensor.device)
            return result

    return PrecisionCounter()


def _precision(torch: Any, func: Any, tensor: Any) -> str:
    """``fp32``, ``bf16``, …: the name in data sheets of devices, else PyTorch's own."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "float32" and tensor.device.type == "cuda":
        if "conv" in str(func):
            return "tf32" if torch.backends.cudnn.allow_tf32 else "fp32"
        return "fp32" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    return PRECISIONS.get(name, name)


def _device(torch: Any, device: Any) -> str:
    """The device's model by its driver; ``cpu`` for the host."""
    module = getattr(torch, device.type, None)
    name = getattr(module, "get_device_name", None)
    return str(device.type) if device.type == "cpu" or name is None else str(name(device))


def _compiles() -> bool:
    """Whether graphs were compiled, whose kernels the counter does not know."""
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["stats"].get("unique_graphs"))


def instrument_flops(ov: Any) -> None:
    """Count at the ends of steps."""
    ov.on_step(StepFlops(ov).ended)
