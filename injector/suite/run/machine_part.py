"""A machine's part of a job: the program that an engine starts on each machine, and which runs its processes.

``python -m injector.suite.run.machine_part [--apart] FOLDER JOB ATTEMPT MACHINE HANDLE``, where MACHINE is
the number of the machine in the job, from 0. It runs the processes of that machine as the local engine does,
and needs no files of the suite but FOLDER's ``plan.json`` and ``journal.jsonl``. It writes, below FOLDER::

    machines/JOB.ATTEMPT.mMACHINE/journal.jsonl    how the part went; the suite's own run follows it
    machines/JOB.ATTEMPT.m0/meeting.json           where ranks of several machines meet

The latter has, for each process of several machines, the address, ``HOST:PORT``, where its ranks meet. If
``mpirun`` starts the ranks, it also has the address where the machines meet, and a secret of theirs::

    {"gpt.R0.D0": "node1:40001", "gpt.R0.D0 mpirun": "node1:40002", "secret": "9f..."}

Ranks of several machines share one run folder. With ``--apart``, for nodes with file systems of their own,
those of each machine record a run of their own beside its journal, and the suite joins these later.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from ...errors import UserError
from ...store.seal import mark_changed
from ..config.expressions import unmet_on_node
from ..plan.command_lines import MPI_START
from ..plan.job_planner import MARK
from ..plan.jobs import Job, PlannedProcess, read_plan
from ..plan.machine import PlanDevice, device_facts, find_machine, visible_devices
from . import journal, mpi_start
from .engine import QueuedJob
from .job_loop import JobLoop
from .journal import JobRecord, Journal
from .local_engine import LocalEngine
from .policy import RunPolicy
from .ports import free_ports
from .processes import ProcessEnd, failures_by_exit_code
from .progress import Progress

MACHINES = "machines"
MEETING = "meeting.json"
LAUNCHER = " mpirun"
"""What follows a process's key in that file where the address is that of its machines."""
SECRET = "secret"
SIOCGIFADDR = 0x8915
"""The request of ``ioctl`` for the address of an interface."""
NODE = "INJECT_NODE"
"""The variable in which an engine gives this machine's name."""
HEARTBEATS = 20_000
"""After how many missed heartbeats, 5 s each, torchrun takes another machine for dead. It compares the clocks
of both: with its default of 3, machines whose clocks differ by 15 s never meet. That a machine was lost, the
engines notice themselves."""
MARK_PERIOD = 10.0
"""Seconds after which records that are being written count as changed."""
TOGETHER = 120.0
"""Seconds to wait for a file that another machine writes."""


def folder_of(folder: str, job: str, attempt: int, machine: int) -> str:
    """The folder of a machine's part of a job. ``folder`` is the suite's."""
    return os.path.join(folder, MACHINES, f"{job}.{attempt}.m{machine}")


def run(folder: str, key: str, attempt: int, machine: int, handle: str, apart: bool) -> int:
    """Run the part of ``machine`` in the job ``key``; 0 if it went well, else 1.

    It begins when the suite's journal has the job's ``handle``. If the suite is killed before that, it will
    start the job again when it is resumed, and this part must not run beside that one. Raises UserError if
    the journal does not get the handle in time, or the machine lacks what the plan needs.
    """
    _await(
        lambda: journal.read(folder).get(key, JobRecord()).handle == handle,
        f"job {handle} in {folder}",
    )
    plan = read_plan(folder)
    job = next(job for job in plan.jobs if job.key == key).attempt(attempt, folder)
    part_folder = folder_of(folder, key, attempt, machine)
    os.makedirs(part_folder, exist_ok=True)
    part_journal = Journal(part_folder)
    part_journal.write("begin", pid=os.getpid(), host=_host())
    try:
        part = _part_of(job, folder, attempt, machine, apart)
        # The engine or its scheduler chose the devices: whether they are idle is not judged here.
        policy = RunPolicy(max_parallel=1, allow_busy=True, links=False, judge=_judge)
        progress = Progress(sys.stderr, 1)
        queued = [QueuedJob(part, attempt)]
        runs = [os.path.join(folder, process.run) for process in part.processes]
        with _marked_as_changed(runs if apart else ()):
            outcome = JobLoop(
                LocalEngine(plan, folder), plan, folder, queued, part_journal, progress, policy
            ).run()
        return 1 if outcome.failed or outcome.interrupted else 0
    except (UserError, OSError) as error:
        part_journal.job(key, journal.NOT_STARTED, attempt, reason=str(error), ok=False)
        raise
    finally:
        part_journal.close()


@contextmanager
def _marked_as_changed(runs: Sequence[str]) -> Iterator[None]:
    """Have the suite, which copies what has changed, find the newest records in ``runs``, also at the end.

    Without it they would be up to half a minute old (:func:`.mark_changed`), and a live view would show a
    slow program as one that stands still. At the end it is for those of an ``inject run`` that was killed.
    """
    over = threading.Event()

    def mark() -> None:
        for run in runs:
            mark_changed(run)

    def mark_again() -> None:
        while not over.wait(MARK_PERIOD):
            mark()

    thread = threading.Thread(target=mark_again, daemon=True)
    if runs:
        thread.start()
    try:
        yield
    finally:
        over.set()
        mark()


def _host() -> str:
    """The name of this machine: the engine's or Slurm's for it, else the host's."""
    names = (os.environ.get(name) for name in (NODE, "SLURMD_NODENAME"))
    return next(filter(None, names), "") or socket.gethostname()


def _judge(folder: str, job: Job, ends: Mapping[str, ProcessEnd]) -> list[str]:
    """Why the part has failed, as sentences."""
    # Ranks of several machines write one record, in the run folder of machine 0: of the others' processes,
    # whose run folders are below `machines`, it is no fault that they have none.
    ends = {
        key: replace(end, recorded=end.recorded or end.run.startswith(MACHINES))
        for key, end in ends.items()
    }
    return failures_by_exit_code(folder, job, ends)


def _part_of(job: Job, folder: str, attempt: int, machine: int, apart: bool) -> Job:
    """``job`` with the processes of this machine alone, and with the devices, cores and folders of here.

    Raises UserError if the devices of this machine are not what ``job`` requires.
    """
    own = [process for process in job.processes if machine in process.machines]
    kind = own[0].devices[0].partition(":")[0]
    devices: Mapping[int, PlanDevice] = {}
    if kind != "cpu":
        devices = {device.number: device for device in find_machine(kind).devices}
        if unmet := unmet_on_node(job.conditions, device_facts(list(devices.values()))):
            names = ", ".join(dict.fromkeys(device.name for device in devices.values()))
            raise UserError(f"{_host()} has {names}: the job needs {' and '.join(unmet)}")
    shared = [process for process in own if len(process.machines) > 1]
    places = _meet(shared, job.key, folder, attempt, machine) if shared else {}
    part_folder = os.path.relpath(folder_of(folder, job.key, attempt, machine), folder)
    processes = []
    for planned in own:
        process = _adapted(planned, machine, devices, places, apart)
        if len(planned.machines) > 1 and apart:
            process = process.recorded_in(apart_run(part_folder, planned), folder)
        elif len(planned.machines) > 1 and machine:
            process = _without_record(process, folder, part_folder)
        processes.append(process)
    return replace(job, processes=tuple(processes))


def _adapted(
    process: PlannedProcess,
    machine: int,
    devices: Mapping[int, PlanDevice],
    places: Mapping[str, str],
    apart: bool,
) -> PlannedProcess:
    """``process`` with the variables, devices and cores that it has on this machine.

    ``devices`` are those of this machine by number, none for processes on cores alone; ``places`` as
    :func:`_meet` returns them. Raises UserError if a planned device is missing.
    """
    cores = sorted(os.sched_getaffinity(0))
    environment = {
        **_meeting_variables(places.get(process.key), machine),
        **_mpi_variables(places, process.key, machine),
        **process.environment,
    }
    # The tasks of this Slurm step record runs of their own: none is to take the others for its ranks.
    if apart or len(process.machines) == 1:
        environment |= {"SLURM_STEP_NUM_TASKS": None}
    if devices:
        # A key such as cuda:1@2 is device 1 of machine 2; without @ it is of machine 0.
        keys = [key.partition("@") for key in process.devices]
        numbers = [int(key.rpartition(":")[2]) for key, _, on in keys if int(on or 0) == machine]
        if missing := [str(n) for n in numbers if n not in devices]:
            raise UserError(
                f"{_host()} has no device {', '.join(missing)} for the job: it has {len(devices)}"
            )
        environment |= visible_devices([devices[n] for n in numbers])
    return replace(
        process,
        environment=environment,
        # Planned cores are numbers from 0: here they count the cores that the scheduler left us.
        cores=tuple(sorted({cores[number % len(cores)] for number in process.cores})),
    )


def apart_run(part_folder: str, process: PlannedProcess) -> str:
    """The run folder, in the folder of a machine's part, for its share of a process of several machines."""
    return f"{part_folder}/{process.key.rpartition('.')[2]}"


def _without_record(process: PlannedProcess, folder: str, part_folder: str) -> PlannedProcess:
    """``process``, which records into the run of machine 0, with output, lock and mark of its own."""
    run = apart_run(part_folder, process)
    if process.folder.startswith(os.path.join(folder, process.run)):
        os.makedirs(process.folder, exist_ok=True)
    mark = {MARK: os.path.join(folder, run)}
    return replace(process, run=run, environment={**process.environment, **mark})


# --- ranks of several machines -----------------------------------------------------------------------


def _meet(
    shared: Sequence[PlannedProcess], key: str, folder: str, attempt: int, machine: int
) -> Mapping[str, str]:
    """The content of ``meeting.json``: where the ranks of each process meet, as ``HOST:PORT``.

    Machine 0 writes it, unless the engine already has; the others wait for it. Raises UserError.
    """
    path = os.path.join(folder_of(folder, key, attempt, 0), MEETING)
    if machine == 0 and not os.path.exists(path):
        keys = meeting_keys(shared)
        write_meeting(path, keys, socket.gethostname(), free_ports(len(keys)))
    _await(lambda: os.path.exists(path), f"machine 0 of the job in {path}")
    with open(path, encoding="utf-8") as file:
        return dict(json.load(file))


def meeting_keys(processes: Sequence[PlannedProcess]) -> list[str]:
    """The keys in ``meeting.json`` for which the ``processes`` of a job need an address."""
    shared = [process for process in processes if len(process.machines) > 1]
    by_mpirun = [process for process in shared if MPI_START in process.command]
    return [
        *(process.key for process in shared),
        *(process.key + LAUNCHER for process in by_mpirun),
    ]


def write_meeting(path: str, keys: Sequence[str], host: str, ports: Sequence[object]) -> None:
    """Write the file, whole: one of the ``ports`` of ``host`` for each key. Only its owner may read it."""
    places = {key: f"{host}:{port}" for key, port in zip(keys, ports, strict=True)}
    draft = f"{path}.{os.getpid()}.draft"
    made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(made, "w", encoding="utf-8") as file:
        json.dump({**places, SECRET: secrets.token_hex(16)}, file)
    os.replace(draft, path)


def _await(is_there: Callable[[], bool], what: str) -> None:
    """Wait until ``is_there``, which another machine brings about. Raises UserError after TOGETHER."""
    end = time.monotonic() + TOGETHER
    while not is_there():
        if time.monotonic() > end:
            raise UserError(f"there was no {what} within {TOGETHER:g} s")
        time.sleep(0.1)


def _meeting_variables(place: str | None, machine: int) -> dict[str, str]:
    """The variables by which ranks meet at ``place``, of torchrun and of programs that do without it."""
    if place is None:
        return {}
    host, _, port = place.rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # This sends nothing: the kernel chooses the interface that leads there, and so our address.
            probe.connect((host, int(port)))
            own = probe.getsockname()[0]
    except OSError as error:
        text = f"{_host()} finds no way to {host}, where the ranks of the job meet"
        raise UserError(f"{text}: {error.strerror}") from None
    return {
        "PET_RDZV_ENDPOINT": place,
        "PET_RDZV_BACKEND": "c10d",
        # Without is_host, torchrun compares the place with the names of its host, which may not match.
        "PET_RDZV_CONF": f"is_host={int(machine == 0)},keep_alive_max_attempt={HEARTBEATS}",
        "PET_RDZV_ID": f"inject.{port}",
        "PET_LOCAL_ADDR": own,
        **({"GLOO_SOCKET_IFNAME": name} if (name := _interface(own)) else {}),
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
    }


def _mpi_variables(places: Mapping[str, str], key: str, machine: int) -> dict[str, str]:
    """The variables that :mod:`.mpi_start` reads; none for a process that ``mpirun`` does not start."""
    if key + LAUNCHER not in places:
        return {}
    return {
        mpi_start.MEETS_AT: places[key + LAUNCHER],
        mpi_start.KEY: places[SECRET],
        mpi_start.MACHINE: str(machine),
        mpi_start.NAME: _host(),
    }


def _interface(address: str) -> str | None:
    """The name of the interface with ``address``, for Gloo; None if there is none, or the user names one.

    Gloo by itself takes the interface of the host's name, which is often the loopback.
    """
    if "GLOO_SOCKET_IFNAME" in os.environ:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            # A struct ifreq: 16 bytes of name, then a sockaddr_in, whose address is its bytes 4 to 8.
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, request)
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the part of a job that the command line names; the exit code, 2 after a UserError."""
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
