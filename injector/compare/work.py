"""What a run did on what, as words under names: what differs between two runs before their speed does."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from hashlib import sha256
from operator import and_
from typing import Any

from ..analysis.profile import READING, within
from ..analysis.summary import Summary
from ..analysis.wording import count
from ..store.folder import Run

PACKAGE = "package "
"""What the names of packages begin with."""
COMMAND = "command"
BETWEEN = " | "
"""Between what the runs of one side have."""
SHORT = 40
ALTERNATIVES = 3
"""Commands of a side that are shown; a repeat may have a seed of its own."""


def work_of(run: Run, summary: Summary) -> dict[str, str]:
    """Of a run that was opened, and of its summary; what is not known is left out."""
    info = run.info
    cpu, git = info.get("cpu") or {}, info.get("git") or {}
    loops = summary.profile.loops if summary.profile else ()
    devices = Counter(device.name for seen in summary.machines for device in seen.devices)
    known: dict[str, object] = {
        COMMAND: _command(info),
        "stopped after": ", ".join(f"{name} {value:g}" for name, value in summary.limits.items()),
        "voirfiles": ", ".join(map(os.path.basename, summary.voirfiles)),
        "data": ", ".join(_data(summary)),
        "ranks": len(loops[0].ranks) if loops else None,
        **dict(_studies(summary)),
        "devices": ", ".join(f"{number} x {name}" for name, number in devices.items()),
        "host": info.get("host"),
        "processor": f"{cpu.get('brand')}, {cpu.get('usable')} cores" if cpu else None,
        "system": info.get("platform"),
        "Python": info.get("python"),
        "commit": _commit(git),
    }
    packages = info.get("packages") or {}
    return {
        **{name: str(value) for name, value in known.items() if value},
        **{f"tag {key}": str(value) for key, value in summary.tags.items()},
        **{f"param {key}": str(value) for key, value in summary.params.items()},
        **{PACKAGE + name: str(version) for name, version in packages.items()},
    }


def _commit(git: Mapping[str, Any]) -> str:
    changes = (
        f" with changes {str(git.get('sha256') or '')[:8]}".rstrip() if git.get("dirty") else ""
    )
    return str(git.get("commit") or "")[:12] + changes


def _command(info: Mapping[str, Any]) -> str:
    """The program and its arguments, wherever it and its interpreter are installed."""
    processes = info.get("processes") or ()
    words = [str(word) for word in (processes[0].get("argv") if processes else None) or ()]
    if not words or "-c" in words[1:2]:  # of multiprocessing, with paths and keys in it
        words = _from_program(info) or words
    if len(words) > 1 and os.path.basename(words[0]).startswith("python"):
        words = words[1:]
    return " ".join([os.path.basename(words[0]), *words[1:]]) if words else ""


def _from_program(info: Mapping[str, Any]) -> list[str]:
    """The words of the command from the program on, without ours before it."""
    words = [str(word) for word in info.get("command") or ()]
    names = {os.path.basename(str(name)) for name in (info.get("program") or {}).values()}
    starts = (at for at, word in enumerate(words) if at and os.path.basename(word) in names)
    return words[next(starts, 0) :]


def _data(summary: Summary) -> Iterator[str]:
    """What the loaders of the training loops are made of."""
    loops = summary.profile.loops if summary.profile else ()
    nodes = [node for loop in loops for node in within(loop.tree) if node.name in READING]
    yield from dict.fromkeys(node.what for node in nodes if node.what)


def _studies(summary: Summary) -> Iterator[tuple[str, str]]:
    """What each study searched with and through; a checksum of the combinations that it tried."""
    for at, study in enumerate(summary.profile.studies if summary.profile else ()):
        names = sorted({name for trial in study.trials for name in trial.params})
        tried = sorted(repr(sorted(trial.params.items())) for trial in study.trials)
        ended = (f"{number} {word}" for word, number in study.counts().items() if number)
        words = (study.framework, study.sampler, study.pruner, f"of {', '.join(names)}")
        again = f" {at + 1}" if at else ""
        yield f"study{again}", " ".join(filter(None, words))
        yield f"trials{again}", f"{', '.join(ended)}, {count(study.workers, 'worker')}"
        yield f"combinations{again}", sha256("\n".join(tried).encode()).hexdigest()[:8]


def differences(
    before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]
) -> list[tuple[str, str, str]]:
    """By name what the one side's runs have and the other's, where that differs; packages last.

    A name that only one side has is a difference too: the other has "none".
    """
    names = dict.fromkeys(name for work in (*before, *after) for name in work)
    found = []
    for name in sorted(names, key=lambda name: name.startswith(PACKAGE)):
        values = (
            dict.fromkeys(work.get(name, "none") for work in side) for side in (before, after)
        )
        one, two = map(BETWEEN.join, values)
        if one != two:
            found.append((name, one, two))
    return found


def brief(before: str, after: str) -> tuple[str, str]:
    """What :func:`differences` says of commands, without the words that all of them have but the first.

    Commands that fit on a line stay as they are.
    """
    if max(len(before), len(after)) <= SHORT:
        return before, after
    sides = [[_units(text) for text in side.split(BETWEEN)] for side in (before, after)]
    shared = reduce(and_, [Counter(units[1:]) for side in sides for units in side])
    one, two = (
        [" ".join(units[:1] + _without(units[1:], shared)) for units in side] for side in sides
    )
    return _first(one), _first(two)


def _units(command: str) -> list[str]:
    """The words of a command; a value stays with the option before it."""
    found: list[str] = []
    for word in command.split():
        if found and found[-1][:1] == "-" and word[:1] != "-" and not {"=", " "} & {*found[-1]}:
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _without(units: Sequence[str], shared: Counter[str]) -> list[str]:
    left, found = shared.copy(), list[str]()
    for unit in units:
        left[unit] -= 1
        shown = "…" if left[unit] >= 0 else unit
        if shown != "…" or found[-1:] != ["…"]:
            found.append(shown)
    return found


def _first(values: Sequence[str]) -> str:
    more = len(values) - ALTERNATIVES
    return BETWEEN.join([*values[:ALTERNATIVES], *([f"{more} more"] if more > 0 else [])])
