"""One interface for accelerators, whoever made them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Device(Protocol):
    """One accelerator of this machine."""

    index: int
    """Its number among all devices of its vendor."""
    uuid: str
    name: str
    vendor: str
    driver: str
    """Its version; empty where that is not told."""

    def read(self) -> Mapping[str, Callable[[], Any]]:
        """How to read each metric; each reading may raise on its own.

        ``load`` and ``memory_load`` 0…1, ``memory_used memory_total`` bytes, ``temperature`` °C,
        ``power`` and ``power_limit`` watts, ``energy`` joules since the driver was loaded, ``clocks``
        in hertz by name, ``throttle`` a list of reasons, ``pcie`` and ``nvlink`` as bytes by
        direction, ``ecc`` errors by kind, ``processes`` bytes by process id.
        """
        ...


class AbsentError(Exception):
    """There is no such hardware, or no driver for it: nothing to be said."""
