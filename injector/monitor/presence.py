"""Whether the program may have an accelerator, as far as can be known without a call of any driver."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCH = "INJECT_ACCELERATOR"
"""Environment variable that says it, for tests: ``1`` or ``0``."""

HIDING = ("-1", "none", "NoDevFiles", "void")
"""The usual words that ask for no device, besides an empty list."""

_FOLDERS = {
    "/dev": ("nvidia", "dxg", "kfd", "hl", "davinci"),
    "/dev/dri": ("renderD",),
    "/dev/accel": ("accel",),
}
"""Where device files are, and how the names of those begin that a driver makes for an accelerator."""


def accelerator(environ: Mapping[str, str]) -> bool:
    """Whether there may be one that a program with this environment can use."""
    switch = environ.get(SWITCH)
    if switch is not None:
        return switch not in ("", "0")
    listed = environ.get("CUDA_VISIBLE_DEVICES")  # torch hears it for NVIDIA's and AMD's devices
    if listed is not None and listed.partition(",")[0].strip() in ("", *HIDING):
        return False
    system = os.uname()
    if system.sysname == "Darwin":
        return system.machine == "arm64"
    return any(_has(folder, beginnings) for folder, beginnings in _FOLDERS.items())


def _has(folder: str, beginnings: tuple[str, ...]) -> bool:
    try:
        return any(name.startswith(beginnings) for name in os.listdir(folder))
    except OSError:
        return False
