"""Devices: idle when a job starts on them, and locked while it runs.

Two suites on one base agree by a lock for each accelerator, which the job's own processes hold: it is
free when the last of them has ended, whatever became of us. What other programs use shows in what the driver
reports of the device: its processes, its memory, its load.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ... import reaper

METRICS = ("load", "memory_used", "memory_total", "processes")
IDLE = 0.1
"""Load under which a device counts as idle: nothing runs, whatever its desktop draws."""
SPARE = 0.05
"""Part of its memory that a driver may keep for itself, and"""
SPARE_BYTES = 1 << 30


class DeviceLocks:
    """The accelerators of a plan, by the keys that it gives them.

    ``described``: the plan's machine. ``locks``: a folder, made when it is needed.
    """

    def __init__(
        self, described: Mapping[str, Any], locks: str, environ: Mapping[str, str] | None = None
    ) -> None:
        listed = [each for each in described["devices"] if not each["key"].startswith("cpu:")]
        self._uuids = {each["key"]: each["uuid"] for each in listed}
        self._locks = locks
        self._host = described["host"]
        self._environ = environ
        self._read: Any = None

    def obstacles(self, keys: Sequence[str], own: Collection[int] = ()) -> list[str]:
        """Why a job cannot begin on the devices ``keys`` now: who holds them, as sentences.

        ``own``: processes that may. Nothing is ever in the way of shares of the processor.
        """
        mine = [key for key in keys if key in self._uuids]
        if not mine:
            return []
        states = self._states()
        return [
            text
            for key in mine
            for text in _device_obstacles(key, states.get(self._uuids[key]), own)
        ]

    def take(self, keys: Sequence[str], who: Mapping[str, object]) -> list[int] | str:
        """Open files that hold the devices ``keys`` for a job, or a sentence about who has them.

        Raises OSError when the locks cannot be written.
        """
        files: list[int] = []
        for key in keys:
            if key not in self._uuids:
                continue
            file = self._open(key)
            files.append(file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _holder(file)
                release(files)
                return f"{key} is used by {holder}"
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(dict(who)).encode(), 0)
        return files

    def _open(self, key: str) -> int:
        os.makedirs(self._locks, exist_ok=True)
        name = f"{self._host}.{self._uuids[key] or key}.device".replace("/", "_")
        path = os.path.join(self._locks, name)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _states(self) -> dict[str, Any]:
        """By UUID, what the driver reports now."""
        if self._read is None:
            from ...monitor.devices import Devices as Visible

            self._read = Visible.visible(self._environ)
        sample = self._read.sample(METRICS)
        return {each["uuid"]: sample[n] for n, each in self._read.described().items()}


def release(files: Sequence[int]) -> None:
    """Close what :meth:`Devices.take` opened; the processes of the job have it still."""
    for file in files:
        os.close(file)


def _holder(file: int) -> str:
    try:
        who = json.loads(os.pread(file, 4096, 0))
        return f"the job {who['job']} of {who['run']}"
    except (ValueError, KeyError, TypeError):
        return "another suite"


def _device_obstacles(key: str, state: Mapping[str, Any] | None, own: Collection[int]) -> list[str]:
    """What is in the way on one device."""
    if state is None:
        return []  # its state is not known, as that of devices of Intel
    others = {int(pid): n for pid, n in state.get("processes", {}).items() if int(pid) not in own}
    if others:
        return [
            f"{key} is held by process {pid} ({_name(pid)}), {_gigabytes(n)} of its memory"
            for pid, n in sorted(others.items())
        ]
    used, total = state.get("memory_used", 0), state.get("memory_total", 0)
    if own:
        return []  # what is used may be theirs
    if used > max(SPARE * total, SPARE_BYTES):
        return [
            f"{_gigabytes(used)} of {key}'s memory are used by a process that cannot be seen from here"
        ]
    load = state.get("load", 0)
    return [f"{key} is busy ({load:.0%} load)"] if load > IDLE else []


def _name(pid: int) -> str:
    process = reaper.find(pid)
    return reaper.command(process) if process else "not to be seen from here"


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB"
