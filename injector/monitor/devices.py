"""The devices that the program may use; vendors are asked lazily and may fail."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Mapping
from typing import Any

from .device import AbsentError, Device
from .visible import chosen

VENDORS = ("nvidia", "amd")
SCRIPT_VARIABLE = "INJECT_SCRIPTED_DEVICES"
"""A JSON file that stands for the devices of a machine; see :mod:`.scripted`."""


class Devices:
    """The devices that the program may use."""

    def __init__(self, devices: list[Device], problems: list[str]) -> None:
        self._devices = devices
        self.problems = problems
        self._broken: set[tuple[int, str]] = set()

    @classmethod
    def visible(cls, environ: Mapping[str, str] | None = None) -> Devices:
        """Those of all vendors present, less those that the environment hides from the program."""
        environ = os.environ if environ is None else environ
        problems: list[str] = []
        found: list[Device] = []
        for vendor in ("scripted",) if environ.get(SCRIPT_VARIABLE) else VENDORS:
            try:
                module = importlib.import_module(f"..{vendor}", __name__)
                found += module.devices(environ)
            except Exception as error:
                if not _absent(error):
                    problems.append(
                        f"{vendor} devices cannot be read: {error or type(error).__name__}"
                    )
        kept, wrong = chosen(found, environ)
        return cls(kept, problems + wrong)

    def __bool__(self) -> bool:
        return bool(self._devices)

    def described(self) -> dict[str, Any]:
        """By number among the visible ones, as a program counts them: index, uuid, name, vendor, driver."""
        return {
            str(number): {
                "index": device.index,
                "uuid": device.uuid,
                "name": device.name,
                "vendor": device.vendor,
                "driver": device.driver,
            }
            for number, device in enumerate(self._devices)
        }

    def sample(self, metrics: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        """By number among the visible ones, every metric that can be read and makes sense.

        With ``metrics`` only those.
        """
        numbers = range(len(self._devices))
        return {str(number): self._state(number, metrics) for number in numbers}

    def _state(self, number: int, metrics: Collection[str] | None) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for metric, read in self._devices[number].read().items():
            if (number, metric) in self._broken or not (metrics is None or metric in metrics):
                continue
            try:
                value = read()
            except Exception as error:
                self._give_up(number, metric, error)
                continue
            if _sensible(metric, value):
                state[metric] = value
            elif value is not None:
                self._note(
                    f"device {number}: {metric} was {value!r}, which cannot be, and is left out"
                )
        return state

    def _give_up(self, number: int, metric: str, error: Exception) -> None:
        """A reading that is not supported is not tried again; any other may recover."""
        if "support" in str(error).lower():
            self._broken.add((number, metric))
        else:
            self._note(f"device {number}: {metric} could not be read: {error}")

    def _note(self, problem: str) -> None:
        if len(self.problems) < 100:
            self.problems.append(problem)


def _absent(error: Exception) -> bool:
    return isinstance(error, (ImportError, AbsentError))


_LARGEST = {
    "load": 1.0,
    "memory_load": 1.0,
    "memory_used": 1 << 50,
    "memory_total": 1 << 50,
    "temperature": 500.0,
    "power": 1e5,
    "power_limit": 1e5,
}
"""What no real device exceeds: a driver in trouble returns -1, or all bits set."""


def _sensible(metric: str, value: Any) -> bool:
    if isinstance(value, (int, float)):
        return 0 <= value <= _LARGEST.get(metric, 1e18) and value == value
    if isinstance(value, dict):
        return all(_sensible("", part) for part in value.values())
    return isinstance(value, list)
