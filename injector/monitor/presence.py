"""Whether the program may use an accelerator, as far as that shows without a call of any driver.

The supervisor decides by this, before the program starts, whether calls are probed that matter on a device
only. To load a driver's library would delay every start.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCH = "INJECT_ACCELERATOR"
"""The environment variable that decides it for tests: ``1`` or ``0``."""

HIDING = ("-1", "none", "NoDevFiles", "void")
"""The usual words in CUDA_VISIBLE_DEVICES that hide all devices, besides an empty list."""

_FOLDERS = {
    "/dev": ("nvidia", "dxg", "kfd", "hl", "davinci"),
    "/dev/dri": ("renderD",),
    "/dev/accel": ("accel",),
}
"""By folder, the beginnings of names of the device files that drivers make for accelerators."""


def accelerator(environ: Mapping[str, str]) -> bool:
    """Whether there may be an accelerator that a program with the environment ``environ`` can use."""
    switch = environ.get(SWITCH)
    if switch is not None:
        return switch not in ("", "0")
    listed = environ.get("CUDA_VISIBLE_DEVICES")  # PyTorch heeds it for AMD's devices, too
    if listed is not None and listed.partition(",")[0].strip() in ("", *HIDING):
        return False
    system = os.uname()
    if system.sysname == "Darwin":
        return system.machine == "arm64"
    return any(_has(folder, beginnings) for folder, beginnings in _FOLDERS.items())


def _has(folder: str, beginnings: tuple[str, ...]) -> bool:
    """Whether ``folder`` has a file whose name begins so."""
    try:
        return any(name.startswith(beginnings) for name in os.listdir(folder))
    except OSError:
        return False
