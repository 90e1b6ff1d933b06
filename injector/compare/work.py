"""What was run on what, as words under names: differences in it may be the reason for those in speed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from hashlib import sha256
from operator import and_
from typing import Any

from ..analysis.summary import Summary
from ..analysis.training_loop import READING, within
from ..analysis.wording import count
from ..store.folder import Run

PACKAGE = "package "
"""The prefix of names of packages."""
COMMAND = "command"
BETWEEN = " | "
"""Separates the values of several runs of a side."""
SHORT_COMMAND = 40
"""Characters of a command that is shown whole."""
ALTERNATIVES = 3
"""Commands of a side that are shown; each repeat may have a seed of its own."""


def work_of(run: Run, summary: Summary) -> dict[str, str]:
    """The work of an opened run, given its summary, by names in words. What is not known is left out."""
    info = run.info
    cpu, git = info.get("cpu") or {}, info.get("git") or {}
    loops = summary.profile.loops if summary.profile else ()
    devices = Counter(device.name for seen in summary.machines for device in seen.devices)
    known: dict[str, object] = {
        COMMAND: _command(info),
        "stopped after": ", ".join(f"{name} {value:g}" for name, value in summary.limits.items()),
        "voirfiles": ", ".join(map(os.path.basename, summary.voirfiles)),
        "data": ", ".join(_data_read(summary)),
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
    """``"b2e0a97c1f3d with changes 1a2b3c4d"``; "" without git. The last word is of the changes' checksum."""
    changes = (
        f" with changes {str(git.get('sha256') or '')[:8]}".rstrip() if git.get("dirty") else ""
    )
    return str(git.get("commit") or "")[:12] + changes


def _command(info: Mapping[str, Any]) -> str:
    """The program and its arguments, wherever it and its interpreter are installed."""
    processes = info.get("processes") or ()
    words = [str(word) for word in (processes[0].get("argv") if processes else None) or ()]
    # A child of multiprocessing has pipes and keys in its command.
    if not words or "-c" in words[1:2]:
        words = _from_program(info) or words
    if len(words) > 1 and os.path.basename(words[0]).startswith("python"):
        words = words[1:]
    return " ".join([os.path.basename(words[0]), *words[1:]]) if words else ""


def _from_program(info: Mapping[str, Any]) -> list[str]:
    """The words of the command from the program on, without those of ``inject run`` before it."""
    words = [str(word) for word in info.get("command") or ()]
    names = {os.path.basename(str(name)) for name in (info.get("program") or {}).values()}
    starts = (at for at, word in enumerate(words) if at and os.path.basename(word) in names)
    return words[next(starts, 0) :]


def _data_read(summary: Summary) -> Iterator[str]:
    """What the training loops read: the names of their loaders."""
    loops = summary.profile.loops if summary.profile else ()
    nodes = [node for loop in loops for node in within(loop.tree) if node.name in READING]
    yield from dict.fromkeys(node.what for node in nodes if node.what)


def _studies(summary: Summary) -> Iterator[tuple[str, str]]:
    """Of each study how it searched which parameters, its trials, and a checksum of their combinations."""
    for at, study in enumerate(summary.profile.studies if summary.profile else ()):
        names = sorted({name for trial in study.trials for name in trial.params})
        combinations = sorted(repr(sorted(trial.params.items())) for trial in study.trials)
        trials = (f"{number} {state}" for state, number in study.counts().items() if number)
        words = (study.framework, study.sampler, study.pruner, f"of {', '.join(names)}")
        number = f" {at + 1}" if at else ""
        yield f"study{number}", " ".join(filter(None, words))
        yield f"trials{number}", f"{', '.join(trials)}, {count(study.workers, 'worker')}"
        yield f"combinations{number}", sha256("\n".join(combinations).encode()).hexdigest()[:8]


def differences(
    before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]
) -> list[tuple[str, str, str]]:
    """The names under which the work of both sides' runs differs, with the values of each; packages last.

    A side without a name has "none" there.
    """
    names = dict.fromkeys(name for work in (*before, *after) for name in work)
    rows = []
    for name in sorted(names, key=lambda name: name.startswith(PACKAGE)):
        values = (
            dict.fromkeys(work.get(name, "none") for work in side) for side in (before, after)
        )
        one, two = map(BETWEEN.join, values)
        if one != two:
            rows.append((name, one, two))
    return rows


def brief(before: str, after: str) -> tuple[str, str]:
    """The commands of a row of :func:`differences`, without the words that all share, but for the first one.

    Commands that fit on a line stay as they are.
    """
    if max(len(before), len(after)) <= SHORT_COMMAND:
        return before, after
    sides = [[_options(text) for text in side.split(BETWEEN)] for side in (before, after)]
    shared = reduce(and_, [Counter(options[1:]) for side in sides for options in side])
    one, two = (
        [" ".join(options[:1] + _elided(options[1:], shared)) for options in side] for side in sides
    )
    return _joined(one), _joined(two)


def _options(command: str) -> list[str]:
    """The words of a command, each option as one with the value after it: ``--lr 0.1``."""
    options: list[str] = []
    for word in command.split():
        last = options[-1] if options else ""
        if last[:1] == "-" and word[:1] != "-" and not {"=", " "} & {*last}:
            options[-1] += f" {word}"
        else:
            options.append(word)
    return options


def _elided(options: Sequence[str], shared: Counter[str]) -> list[str]:
    """``options`` with an ellipsis for each row of those in ``shared``, which may hold one several times."""
    left, shown = shared.copy(), list[str]()
    for option in options:
        left[option] -= 1
        if left[option] < 0:
            shown.append(option)
        elif shown[-1:] != ["…"]:
            shown.append("…")
    return shown


def _joined(values: Sequence[str]) -> str:
    """The first :data:`ALTERNATIVES`, and how many more there are."""
    more = len(values) - ALTERNATIVES
    return BETWEEN.join([*values[:ALTERNATIVES], *([f"{more} more"] if more > 0 else [])])
