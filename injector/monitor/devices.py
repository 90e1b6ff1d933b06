"""The accelerators that the program may use, behind one interface for all vendors.

A module for each vendor (:mod:`.nvidia`, :mod:`.amd`) is imported only here, when devices are looked for: it
needs the vendor's library, which most machines lack. Of the devices of a machine, those are sampled that the
environment lets the program use, under the numbers that the program has for them (:func:`chosen`).

For tests and demonstrations, ``INJECT_SCRIPTED_DEVICES`` names a JSON file in place of a machine's devices: a
list of devices, each with ``name``, ``uuid`` and ``samples``. These are states as of
:meth:`DeviceReader.read`, one for each sample; the last one stays. A value ``{"raise": "text"}`` is a reading
that fails. With ``{"fail": "text"}`` in place of the list, no device can be read at all.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from .presence import HIDING

VENDORS = ("nvidia", "amd")
"""The vendors, by the names of their modules here."""
SCRIPT_VARIABLE = "INJECT_SCRIPTED_DEVICES"


class DeviceReader(Protocol):
    """One accelerator of this machine."""

    index: int
    """Its number among all devices of its vendor in this machine."""
    uuid: str
    name: str
    vendor: str
    driver: str
    """The version of the driver; empty if it is not known."""

    def read(self) -> Mapping[str, Callable[[], Any]]:
        """A function for each metric that reads it. Each may raise on its own.

        ``load`` and ``memory_load`` are fractions 0…1, ``memory_used`` and ``memory_total`` bytes,
        ``temperature`` °C, ``power`` and ``power_limit`` watts, ``energy`` joules since the driver was
        loaded, ``clocks`` hertz by name, ``throttle`` a list of reasons, ``pcie`` and ``nvlink`` bytes by
        direction, ``ecc`` errors by kind, ``processes`` bytes by process id.
        """
        ...


class AbsentError(Exception):
    """The machine has no such hardware, or no driver for it. This is no problem."""


class Devices:
    """The devices that the program may use, numbered as the program counts them."""

    def __init__(self, devices: list[DeviceReader], problems: list[str]) -> None:
        self._devices = devices
        self.problems = problems
        """Sentences on what could not be read."""
        self._unsupported: set[tuple[int, str]] = set()
        """Number of a device, and a metric that it does not support."""

    @classmethod
    def visible(cls, environ: Mapping[str, str] | None = None) -> Devices:
        """The devices of all vendors, without those that the environment hides from the program."""
        environ = os.environ if environ is None else environ
        problems: list[str] = []
        devices: list[DeviceReader] = []
        for vendor in ("scripted",) if environ.get(SCRIPT_VARIABLE) else VENDORS:
            try:
                devices += _of_vendor(vendor, environ)
            except Exception as error:
                # A machine without the vendor's library or hardware is the usual case.
                if not isinstance(error, (ImportError, AbsentError)):
                    problems.append(
                        f"{vendor} devices cannot be read: {error or type(error).__name__}"
                    )
        visible, wrong = chosen(devices, environ)
        return cls(visible, problems + wrong)

    def __bool__(self) -> bool:
        return bool(self._devices)

    def described(self) -> dict[str, Any]:
        """By the number of each device: index, uuid, name, vendor, driver."""
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
        """By the number of each device, every metric that can be read and has a possible value.

        With ``metrics`` only these.
        """
        numbers = range(len(self._devices))
        return {str(number): self._state(number, metrics) for number in numbers}

    def _state(self, number: int, metrics: Collection[str] | None) -> dict[str, Any]:
        """The metrics of one device."""
        state: dict[str, Any] = {}
        for metric, read in self._devices[number].read().items():
            if (number, metric) in self._unsupported or not (metrics is None or metric in metrics):
                continue
            try:
                value = read()
            except Exception as error:
                self._give_up(number, metric, error)
                continue
            if _is_possible(metric, value):
                state[metric] = value
            elif value is not None:
                self._note(
                    f"device {number}: {metric} was {value!r}, which cannot be, and is left out"
                )
        return state

    def _give_up(self, number: int, metric: str, error: Exception) -> None:
        """Note that a reading failed. One that is not supported is not tried again; any other may recover."""
        if "support" in str(error).lower():
            self._unsupported.add((number, metric))
        else:
            self._note(f"device {number}: {metric} could not be read: {error}")

    def _note(self, problem: str) -> None:
        """Add a problem; a device in trouble may have one in each sample."""
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
"""Values that no real device exceeds. A driver in trouble returns -1, or a number with all bits set."""


def _is_possible(metric: str, value: Any) -> bool:
    """Whether a device can have ``value`` for ``metric``; None is no value."""
    if isinstance(value, (int, float)):
        return 0 <= value <= _LARGEST.get(metric, 1e18) and value == value
    if isinstance(value, dict):
        return all(_is_possible("", part) for part in value.values())
    return isinstance(value, list)


# --- the devices that the program sees, in the order in which it counts them -----------------------


VARIABLES = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "scripted": ("CUDA_VISIBLE_DEVICES",),
}
"""The environment variables that select devices, by vendor; each among what the one before left."""


def chosen(
    devices: Sequence[DeviceReader], environ: Mapping[str, str]
) -> tuple[list[DeviceReader], list[str]]:
    """Those of ``devices`` that the program sees, in its order, and sentences on those that do not exist.

    The rule is CUDA's: the variable lists indices or prefixes of UUIDs, separated by commas; devices after
    the first one that does not exist are invisible; an empty list hides all.
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
    """As :func:`chosen`, by one ``variable`` with ``value``."""
    kept: list[DeviceReader] = []
    for word in (part.strip() for part in value.split(",")):
        if not word:
            break
        device = _named(devices, word)
        if device is None:
            known = ", ".join(str(device.index) for device in devices) or "none"
            if word in HIDING:
                return kept, []
            return kept, [f"{variable}={value}: there is no device {word} (there are: {known})"]
        if device not in kept:
            kept.append(device)
    return kept, []


def _named(devices: list[DeviceReader], word: str) -> DeviceReader | None:
    """The device with an index or a unique prefix of its UUID; None if there is none."""
    if word.isdecimal():
        return next((d for d in devices if d.index == int(word)), None)
    matching = [d for d in devices if d.uuid.startswith(word)]
    return matching[0] if len(matching) == 1 else None


# --- devices that a file describes -----------------------------------------------------------------


def scripted_devices(environ: Mapping[str, str]) -> list[ScriptedDevice]:
    """The devices of the file. Raises OSError, ValueError, and RuntimeError with the text of ``fail``."""
    with open(environ[SCRIPT_VARIABLE], encoding="utf-8") as file:
        content = json.load(file)
    if isinstance(content, dict):
        raise RuntimeError(str(content.get("fail")))
    return [ScriptedDevice(index, device) for index, device in enumerate(content)]


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
        """As of :class:`DeviceReader`. Each call gives the next sample."""
        self._at = min(self._at + 1, len(self._samples) - 1)
        return {name: _reading(value) for name, value in self._samples[self._at].items()}


def _reading(value: Any) -> Callable[[], Any]:
    """A function that returns ``value``, or raises the error that it describes."""

    def read() -> Any:
        if isinstance(value, dict) and "raise" in value:
            raise RuntimeError(value["raise"])
        return value

    return read
