"""What an engine starts on each machine of a job: it runs the machine's part as the local engine does.

``python -m injector.suite.run.machine_part [--apart] FOLDER JOB ATTEMPT MACHINE HANDLE``. What becomes of
the part stands in a journal of the machine's own, ``machines/JOB.ATTEMPT.mMACHINE/journal.jsonl`` below
FOLDER, which the suite's own run follows. With ``--apart`` the ranks of each machine record a run of their
own there, else they share one. It needs ``plan.json`` in FOLDER and nothing of the suite's files.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ...errors import UserError
from ..config.capabilities import unmet_on_node
from ..plan.jobs import Job, PlannedProcess, read_plan
from ..plan.machine import PlanDevice, device_facts, find_machine
from ..plan.planner import MARK, visible_devices
from . import journal, mpi_start
from .engine import QueuedJob
from .job_loop import JobLoop
from .journal import JobRecord, Journal
from .local_engine import LocalEngine
from .meeting import LAUNCHER, MEETING, SECRET, meeting_keys, write_meeting
from .policy import RunPolicy
from .ports import free_ports
from .processes import ProcessEnd, failures_by_exit_code
from .progress import Progress

MACHINES = "machines"
SIOCGIFADDR = 0x8915
NODE = "INJECT_NODE"
"""The variable by which an engine says what this machine is called there."""
HEARTBEATS = 20_000
"""Of 5 s each, after which torchrun takes another machine for dead, by the clocks of both: with its own 3,
machines whose clocks differ by 15 s never meet. Engines notice themselves that a machine was lost."""
TOGETHER = 120.0
"""Seconds to wait for what another machine writes."""


def folder_of(folder: str, job: str, attempt: int, machine: int) -> str:
    """Where a machine keeps its journal. ``folder`` is the suite's."""
    return os.path.join(folder, MACHINES, f"{job}.{attempt}.m{machine}")


def run(folder: str, key: str, attempt: int, machine: int, handle: str, apart: bool) -> int:
    """Run the part that ``machine`` has of a job; 0 where all of it went well.

    It begins when the suite's journal has the job's ``handle``: one that was lost before that runs again, and
    must not run twice. Raises UserError where that never happens, and where the machine is not as the plan
    needs it.
    """
    _await(
        lambda: journal.read(folder).get(key, JobRecord()).handle == handle,
        f"job {handle} in {folder}",
    )
    plan = read_plan(folder)
    job = next(each for each in plan.jobs if each.key == key).attempt(attempt, folder)
    own = folder_of(folder, key, attempt, machine)
    os.makedirs(own, exist_ok=True)
    notes = Journal(own)
    notes.write("begin", pid=os.getpid(), host=_host())
    try:
        part = _part(job, folder, attempt, machine, apart)
        policy = RunPolicy(max_parallel=1, allow_busy=True, links=False, judge=_judge)
        progress = Progress(sys.stderr, 1)
        queued = [QueuedJob(part, attempt)]
        outcome = JobLoop(
            LocalEngine(plan, folder), plan, folder, queued, notes, progress, policy
        ).run()
        return 1 if outcome.failed or outcome.interrupted else 0
    except (UserError, OSError) as error:
        notes.job(key, journal.NOT_STARTED, attempt, reason=str(error), ok=False)
        raise
    finally:
        notes.close()


def _host() -> str:
    """This machine's name, as its scheduler knows it."""
    names = (os.environ.get(name) for name in (NODE, "SLURMD_NODENAME"))
    return next(filter(None, names), "") or socket.gethostname()


def _judge(folder: str, job: Job, ended: Mapping[str, ProcessEnd]) -> list[str]:
    """What was wrong, where the record of a process that runs on several machines is that of machine 0."""
    known = {
        key: replace(end, recorded=end.recorded or end.run.startswith(MACHINES))
        for key, end in ended.items()
    }
    return failures_by_exit_code(folder, job, known)


def _part(job: Job, folder: str, attempt: int, machine: int, apart: bool) -> Job:
    """The part of ``job`` that this machine, its number ``machine``, has, with the devices of here."""
    mine = [each for each in job.processes if machine in each.machines]
    kind = mine[0].devices[0].partition(":")[0]
    here: Mapping[int, PlanDevice] = {}
    if kind != "cpu":
        here = {each.number: each for each in find_machine(kind).devices}
        _judge_devices(job, list(here.values()))
    shared = [each for each in mine if len(each.machines) > 1]
    places = _meet(shared, job.key, folder, attempt, machine) if shared else {}
    own = os.path.relpath(folder_of(folder, job.key, attempt, machine), folder)
    processes = []
    for process in mine:
        found = _as_here(process, machine, here, places, apart)
        if len(process.machines) > 1 and apart:
            found = found.recorded_in(apart_run(own, process), folder)
        elif len(process.machines) > 1 and machine:
            found = _beside(found, folder, own)
        processes.append(found)
    return replace(job, processes=tuple(processes))


def _judge_devices(job: Job, devices: Sequence[PlanDevice]) -> None:
    """Raise UserError where a machine has not what ``job`` requires of devices."""
    if unmet := unmet_on_node(job.conditions, device_facts(devices)):
        there = ", ".join(dict.fromkeys(each.name for each in devices))
        raise UserError(f"{_host()} has {there}: the job needs {' and '.join(unmet)}")


def _as_here(
    process: PlannedProcess,
    machine: int,
    here: Mapping[int, PlanDevice],
    places: Mapping[str, str],
    apart: bool,
) -> PlannedProcess:
    cores = sorted(os.sched_getaffinity(0))
    environment = {
        **_meeting_variables(places.get(process.key), machine),
        **_mpi_variables(places, process.key, machine),
        **process.environment,
    }
    if (
        apart or len(process.machines) == 1
    ):  # tasks of a Slurm step that have nothing to do with each other
        environment |= {"SLURM_STEP_NUM_TASKS": None}
    if here:
        keys = [key.partition("@") for key in process.devices]
        numbers = [int(key.rpartition(":")[2]) for key, _, on in keys if int(on or 0) == machine]
        if lost := [str(n) for n in numbers if n not in here]:
            raise UserError(
                f"{_host()} has no device {', '.join(lost)} for the job: it has {len(here)}"
            )
        environment |= visible_devices([here[n] for n in numbers])
    return replace(
        process,
        environment=environment,
        cores=tuple(sorted({cores[each % len(cores)] for each in process.cores})),
    )


def apart_run(own: str, process: PlannedProcess) -> str:
    """Where a machine, whose folder is ``own``, has its part of a process that several run."""
    return f"{own}/{process.key.rpartition('.')[2]}"


def _beside(process: PlannedProcess, folder: str, own: str) -> PlannedProcess:
    """``process``, whose record is that of machine 0, with output and lock of its own."""
    run = apart_run(own, process)
    if process.folder.startswith(os.path.join(folder, process.run)):
        os.makedirs(process.folder, exist_ok=True)
    mark = {MARK: os.path.join(folder, run)}
    return replace(process, run=run, environment={**process.environment, **mark})


# --- ranks of several machines -----------------------------------------------------------------------


def _meet(
    shared: Sequence[PlannedProcess], key: str, folder: str, attempt: int, machine: int
) -> Mapping[str, str]:
    """Where the ranks of each process meet: ports of machine 0, which it writes down for the others."""
    path = os.path.join(folder_of(folder, key, attempt, 0), MEETING)
    if machine == 0 and not os.path.exists(path):
        keys = meeting_keys(shared)
        write_meeting(path, keys, socket.gethostname(), free_ports(len(keys)))
    _await(lambda: os.path.exists(path), f"machine 0 of the job in {path}")
    with open(path, encoding="utf-8") as file:
        return dict(json.load(file))


def _await(there: Callable[[], bool], what: str) -> None:
    """Return when something is there, which another machine writes. Raises UserError."""
    end = time.monotonic() + TOGETHER
    while not there():
        if time.monotonic() > end:
            raise UserError(f"there was no {what} within {TOGETHER:g} s")
        time.sleep(0.1)


def _meeting_variables(place: str | None, machine: int) -> dict[str, str]:
    """The variables of torchrun, and of programs that do without it."""
    if place is None:
        return {}
    host, _, port = place.rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(
                (host, int(port))
            )  # sends nothing: it chooses the interface that leads there
            own = probe.getsockname()[0]
    except OSError as error:
        text = f"{_host()} finds no way to {host}, where the ranks of the job meet"
        raise UserError(f"{text}: {error.strerror}") from None
    return {
        "PET_RDZV_ENDPOINT": place,
        "PET_RDZV_BACKEND": "c10d",
        # It would look for its own name otherwise.
        "PET_RDZV_CONF": f"is_host={int(machine == 0)},keep_alive_max_attempt={HEARTBEATS}",
        "PET_RDZV_ID": f"inject.{port}",
        "PET_LOCAL_ADDR": own,
        **({"GLOO_SOCKET_IFNAME": name} if (name := _interface(own)) else {}),
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
    }


def _mpi_variables(places: Mapping[str, str], key: str, machine: int) -> dict[str, str]:
    """What :mod:`.mpi_start` needs to know."""
    if key + LAUNCHER not in places:
        return {}
    return {
        mpi_start.MEETS_AT: places[key + LAUNCHER],
        mpi_start.KEY: places[SECRET],
        mpi_start.MACHINE: str(machine),
        mpi_start.NAME: _host(),
    }


def _interface(address: str) -> str | None:
    """The interface with an address: Gloo takes that of the host's name, which is often the loopback's."""
    if "GLOO_SOCKET_IFNAME" in os.environ:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, request)
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the part of a job that a command line names."""
    parser = argparse.ArgumentParser(prog="python -m injector.suite.run.machine_part")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("folder")
    parser.add_argument("job")
    parser.add_argument("attempt", type=int)
    parser.add_argument("machine", type=int)
    parser.add_argument("handle")
    given = parser.parse_args(argv)
    try:
        return run(given.folder, given.job, given.attempt, given.machine, given.handle, given.apart)
    except UserError as error:
        print(f"inject suite: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
