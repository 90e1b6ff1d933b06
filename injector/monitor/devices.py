"""The accelerators that the program may use: one interface for all vendors, which are looked for lazily.

``INJECT_SCRIPTED_DEVICES`` names a JSON file that stands for the devices of a machine, for tests and
demonstrations: a list of devices, each with ``name``, ``uuid`` and ``samples``, a list of states as
:meth:`DeviceReader.read` has them, one after the other and the last for ever. A value ``{"raise": "text"}``
is a reading that fails. With ``"fail": "text"`` in place of the list, no device can be read at all.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from .presence import HIDING

VENDORS = ("nvidia", "amd")
SCRIPT_VARIABLE = "INJECT_SCRIPTED_DEVICES"


class DeviceReader(Protocol):
    """One accelerator of this machine."""

    index: int
    """Its number among all devices of its vendor."""
    uuid: str
    name: str
    vendor: str
    driver: str
    """Its version; empty where it is not known."""

    def read(self) -> Mapping[str, Callable[[], Any]]:
        """How to read each metric; each reading may raise on its own.

        ``load`` and ``memory_load`` 0…1, ``memory_used memory_total`` bytes, ``temperature`` °C,
        ``power`` and ``power_limit`` watts, ``energy`` joules since the driver was loaded, ``clocks``
        in hertz by name, ``throttle`` a list of reasons, ``pcie`` and ``nvlink`` as bytes by
        direction, ``ecc`` errors by kind, ``processes`` bytes by process id.
        """
        ...


class AbsentError(Exception):
    """There is no such hardware, or no driver for it, which is no problem."""


class Devices:
    """The devices that the program may use."""

    def __init__(self, devices: list[DeviceReader], problems: list[str]) -> None:
        self._devices = devices
        self.problems = problems
        self._broken: set[tuple[int, str]] = set()

    @classmethod
    def visible(cls, environ: Mapping[str, str] | None = None) -> Devices:
        """Those of all vendors present, less those that the environment hides from the program."""
        environ = os.environ if environ is None else environ
        problems: list[str] = []
        found: list[DeviceReader] = []
        for vendor in ("scripted",) if environ.get(SCRIPT_VARIABLE) else VENDORS:
            try:
                found += _of_vendor(vendor, environ)
            except Exception as error:
                if not isinstance(error, (ImportError, AbsentError)):
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


def _of_vendor(vendor: str, environ: Mapping[str, str]) -> list[DeviceReader]:
    """All devices of a vendor. Raises ImportError, AbsentError, or whatever its library raises."""
    if vendor == "scripted":
        return list(scripted_devices(environ))
    module = importlib.import_module(f"..{vendor}", __name__)
    return list(module.devices(environ))


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


# --- which of them the program sees, in the order in which it counts them --------------------------


VARIABLES = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "scripted": ("CUDA_VISIBLE_DEVICES",),
}


def chosen(
    devices: Sequence[DeviceReader], environ: Mapping[str, str]
) -> tuple[list[DeviceReader], list[str]]:
    """The visible ones of ``devices`` in the program's order, and what was wanted in vain.

    The rule is CUDA's: indices or prefixes of UUIDs, separated by commas; what comes after the first
    that does not exist is invisible; an empty list hides all.
    """
    kept: list[DeviceReader] = []
    problems: list[str] = []
    for vendor in dict.fromkeys(device.vendor for device in devices):
        own = [device for device in devices if device.vendor == vendor]
        for variable in VARIABLES.get(vendor, ()):
            value = environ.get(variable)
            if value is not None:
                own, wrong = _filtered(own, value, variable)
                problems += wrong
        kept += own
    return kept, problems


def _filtered(
    devices: list[DeviceReader], value: str, variable: str
) -> tuple[list[DeviceReader], list[str]]:
    kept: list[DeviceReader] = []
    for word in (part.strip() for part in value.split(",")):
        if not word:
            break
        found = _named(devices, word)
        if found is None:
            known = ", ".join(str(device.index) for device in devices) or "none"
            if word in HIDING:
                return kept, []
            return kept, [f"{variable}={value}: there is no device {word} (there are: {known})"]
        if found not in kept:
            kept.append(found)
    return kept, []


def _named(devices: list[DeviceReader], word: str) -> DeviceReader | None:
    if word.isdecimal():
        return next((d for d in devices if d.index == int(word)), None)
    matching = [d for d in devices if d.uuid.startswith(word)]
    return matching[0] if len(matching) == 1 else None


# --- devices that a file describes -----------------------------------------------------------------


def scripted_devices(environ: Mapping[str, str]) -> list[ScriptedDevice]:
    """The devices of the file. Raises OSError, ValueError, or RuntimeError where it says so."""
    with open(environ[SCRIPT_VARIABLE], encoding="utf-8") as file:
        content = json.load(file)
    if isinstance(content, dict):
        raise RuntimeError(str(content.get("fail")))
    return [ScriptedDevice(index, each) for index, each in enumerate(content)]


class ScriptedDevice:
    """One device of the file."""

    vendor = "scripted"

    def __init__(self, index: int, content: Mapping[str, Any]) -> None:
        self.index = index
        self.name = str(content.get("name", "scripted"))
        self.uuid = str(content.get("uuid", f"GPU-scripted-{index}"))
        self.driver = str(content.get("driver", ""))
        self._samples = list(content.get("samples") or [{}])
        self._at = -1

    def read(self) -> dict[str, Callable[[], Any]]:
        """See :class:`DeviceReader`; each call is the next sample."""
        self._at = min(self._at + 1, len(self._samples) - 1)
        return {name: _reading(value) for name, value in self._samples[self._at].items()}


def _reading(value: Any) -> Callable[[], Any]:
    def read() -> Any:
        if isinstance(value, dict) and "raise" in value:
            raise RuntimeError(value["raise"])
        return value

    return read
