"""Which devices a program may use, and in which order it counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from .presence import HIDING

VARIABLES = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    "scripted": ("CUDA_VISIBLE_DEVICES",),
}


class _Listed(Protocol):
    index: int
    uuid: str
    vendor: str


AnyDevice = TypeVar("AnyDevice", bound=_Listed)


def chosen(
    devices: Sequence[AnyDevice], environ: Mapping[str, str]
) -> tuple[list[AnyDevice], list[str]]:
    """The visible ones of ``devices`` in the program's order, and what was asked for in vain.

    The rule is CUDA's: indices or prefixes of UUIDs, separated by commas; what comes after the first
    that does not exist is invisible; an empty list hides all.
    """
    kept: list[AnyDevice] = []
    problems: list[str] = []
    for vendor in dict.fromkeys(device.vendor for device in devices):
        own = [device for device in devices if device.vendor == vendor]
        for variable in VARIABLES.get(vendor, ()):
            asked = environ.get(variable)
            if asked is not None:
                own, wrong = _filtered(own, asked, variable)
                problems += wrong
        kept += own
    return kept, problems


def _filtered(
    devices: list[AnyDevice], asked: str, variable: str
) -> tuple[list[AnyDevice], list[str]]:
    kept: list[AnyDevice] = []
    for word in (part.strip() for part in asked.split(",")):
        if not word:
            break
        found = _named(devices, word)
        if found is None:
            known = ", ".join(str(device.index) for device in devices) or "none"
            if word in HIDING:
                return kept, []
            return kept, [f"{variable}={asked}: there is no device {word} (there are: {known})"]
        if found not in kept:
            kept.append(found)
    return kept, []


def _named(devices: list[AnyDevice], word: str) -> AnyDevice | None:
    if word.isdecimal():
        return next((d for d in devices if d.index == int(word)), None)
    matching = [d for d in devices if d.uuid.startswith(word)]
    return matching[0] if len(matching) == 1 else None
