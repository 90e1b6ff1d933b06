"""Devices that a file describes, for machines without any: tests, demonstrations, replays.

``INJECT_SCRIPTED_DEVICES`` names a JSON file: a list of devices, each with ``name``, ``uuid`` and
``samples``, a list of states as :class:`.device.Device` tells them, one after the other and the last
for ever. A value ``{"raise": "text"}`` is a reading that fails. With ``"fail": "text"`` in place of
the list, no device can be read at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

VARIABLE = "INJECT_SCRIPTED_DEVICES"


def devices(environ: Mapping[str, str]) -> list[ScriptedDevice]:
    """The devices of the file. Raises OSError, ValueError, or RuntimeError where it says so."""
    with open(environ[VARIABLE], encoding="utf-8") as file:
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
        """See :class:`.device.Device`; each call is the next sample."""
        self._at = min(self._at + 1, len(self._samples) - 1)
        return {name: _reading(value) for name, value in self._samples[self._at].items()}


def _reading(value: Any) -> Callable[[], Any]:
    def read() -> Any:
        if isinstance(value, dict) and "raise" in value:
            raise RuntimeError(value["raise"])
        return value

    return read
