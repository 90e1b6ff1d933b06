"""The devices of this machine: idle when a job starts on them, and locked while it runs.

Suites with the same base folder agree by a lock file for each accelerator. It is an flock that the job's own
processes inherit, so the device is free when the last of them has ended, even if the suite was killed. That
any other program uses a device shows in what its driver reports: processes, memory, load.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ... import reaper

METRICS = ("load", "memory_used", "memory_total", "processes")
IDLE = 0.1
"""The load (0 to 1) up to which a device counts as idle: a desktop draws a little."""
SPARE = 0.05
"""The part of a device's memory that its driver may keep for itself; at least SPARE_BYTES."""
SPARE_BYTES = 1 << 30


class DeviceLocks:
    """The accelerators of a plan, by their keys; those of the processor are neither locked nor looked at.

    ``described`` is the machine of the plan, ``locks`` the folder of the lock files, made when it is needed.
    """

    def __init__(
        self, described: Mapping[str, Any], locks: str, environ: Mapping[str, str] | None = None
    ) -> None:
        listed = [each for each in described["devices"] if not each["key"].startswith("cpu:")]
        self._uuids = {each["key"]: each["uuid"] for each in listed}
        self._locks = locks
        self._host = described["host"]
        self._environ = environ
        self._driver: Any = None

    def obstacles(self, keys: Sequence[str]) -> list[str]:
        """Why a job cannot start on the devices ``keys`` now: what uses them, as sentences."""
        keys = [key for key in keys if key in self._uuids]
        if not keys:
            return []
        states = self._states()
        return [
            text for key in keys for text in _device_obstacles(key, states.get(self._uuids[key]))
        ]

    def take(self, keys: Sequence[str], who: Mapping[str, object]) -> list[int] | str:
        """Lock the devices ``keys`` for a job; the open files, or a sentence about who has a device.

        ``who`` (``job``, ``run``) is written into the files, for such sentences of others. Raises OSError if
        they cannot be written.
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
        # The base may be on a file system that several machines share, so the host is part of the name.
        name = f"{self._host}.{self._uuids[key] or key}.device".replace("/", "_")
        path = os.path.join(self._locks, name)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _states(self) -> dict[str, Any]:
        """By UUID, what the driver reports now of each device."""
        if self._driver is None:
            from ...monitor.devices import Devices

            self._driver = Devices.visible(self._environ)
        sample = self._driver.sample(METRICS)
        return {each["uuid"]: sample[n] for n, each in self._driver.described().items()}


def release(files: Sequence[int]) -> None:
    """Close the files of :meth:`DeviceLocks.take`; processes that inherited them keep the locks."""
    for file in files:
        os.close(file)


def _holder(file: int) -> str:
    """Who has written itself into a lock file, for people."""
    try:
        who = json.loads(os.pread(file, 4096, 0))
        return f"the job {who['job']} of {who['run']}"
    except (ValueError, KeyError, TypeError):
        return "another suite"


def _device_obstacles(key: str, state: Mapping[str, Any] | None) -> list[str]:
    """What uses the device ``key``, as sentences, by the driver's report of it."""
    if state is None:
        return []  # its driver reports nothing, as that of Intel's devices
    users = {int(pid): memory for pid, memory in state.get("processes", {}).items()}
    if users:
        return [
            f"{key} is held by process {pid} ({_name(pid)}), {_gigabytes(memory)} of its memory"
            for pid, memory in sorted(users.items())
        ]
    # No process, but memory in use: by one in another container or of another user.
    used, total = state.get("memory_used", 0), state.get("memory_total", 0)
    if used > max(SPARE * total, SPARE_BYTES):
        return [
            f"{_gigabytes(used)} of {key}'s memory are used by a process that cannot be seen from here"
        ]
    load = state.get("load", 0)
    return [f"{key} is busy ({load:.0%} load)"] if load > IDLE else []


def _name(pid: int) -> str:
    process = reaper.find(pid)
    return reaper.command(process) if process else "not to be seen from here"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
