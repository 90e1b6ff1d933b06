"""Processes whose time is not the program's: DataLoader workers.

They run the program's code (its dataset), so probes would fire in them; without ``--workers`` every
hook of such a process is made to do nothing before its loop begins.
"""

from __future__ import annotations

from functools import wraps

from ..probe import silence

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

MODULE = "torch.utils.data._utils.worker"


def quiet(module: ModuleType) -> None:
    """Make the workers' entry function silence their hooks first; found by name, it stays picklable."""
    loop = module._worker_loop

    @wraps(loop)
    def _worker_loop(*arguments: Any, **keywords: Any) -> Any:
        silence()
        return loop(*arguments, **keywords)

    module._worker_loop = _worker_loop  # type: ignore[attr-defined]
