"""The engine of a Ray cluster: a job has a placement group, with a bundle for each of its machines.

Ray decides when jobs run and where. A process of its own talks to it (:mod:`.ray_client`), and an actor on
the cluster (:mod:`.ray_jobs`) looks after the jobs, which go on when the suite is killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...bus.clocks import ClockBounds
from ...errors import UserError
from ...store.place import replace_file
from ..plan import jobs as plans
from ..plan.jobs import Job, Plan
from ..plan.machine import Machine, NodeFacts, find_machine, node_devices
from . import journal, ray_client
from .apart_job import OUTPUT, ApartJob, not_copied, sources_of
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import QUEUED, JobRecord
from .machine_part import MACHINES
from .meeting import MEETING, meeting_keys, new_secret
from .processes import CannotStartError
from .ray_client import RayClient
from .remote_job import needs_of, parts_are_over

NAME = "ray"
LOCAL, AUTO = "local", "auto"
OPTIONS = ("address", "cpus", "gpus", "resources")
CLUSTER = "ray.json"
"""The file below ``machines/`` with the address of a cluster that the suite has started."""
LATE, AGAIN = 4.0, 0.5
"""Seconds after its end in which a part's journal may still come over a network, and between two looks."""


# --- what there is, and what a job needs -------------------------------------------------------------


def machine_of(options: Mapping[str, Any], devices: str | None) -> Machine:
    """The least of the cluster's nodes, with the devices of ``--devices``; ``options``: ``system.ray``.

    Where no address is given and no cluster runs, this machine. Raises UserError.
    """
    _check_options(options)
    address = str(options.get("address") or "")
    engine = {"name": NAME, "options": dict(options)}
    if address != LOCAL:  # none is started before it is needed
        found = ray_client.cluster(address)
        if found["address"] != LOCAL:
            return _least(found, options, devices, engine)
    here = find_machine(devices)
    node = {"name": here.host, "resources": {"CPU": here.cpu_count, "GPU": _gpus(here)}}
    extra = {"address": LOCAL, "nodes": [node]}
    return replace(here, engine={**engine, **extra})


def _gpus(machine: Machine) -> int:
    """As many as their numbers need."""
    return 0 if machine.arch == "cpu" else 1 + max(each.number for each in machine.devices)


def _check_options(options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        if key not in OPTIONS:
            raise UserError(f"system.ray: no key {key!r}; there is {', '.join(OPTIONS)}")
        numbers = list(value.values()) if isinstance(value, dict) else [value]
        if key == "resources" and not isinstance(value, dict):
            raise UserError(
                f"system.ray.resources: a map such as {{TPU: 1}}, what each device needs; not {value!r}"
            )
        if key != "address" and not all(_is_amount(each) for each in numbers):
            raise UserError(f"system.ray.{key}: numbers of at least 0, not {value!r}")


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _least(
    found: Mapping[str, Any],
    options: Mapping[str, Any],
    devices: str | None,
    engine: Mapping[str, Any],
) -> Machine:
    nodes = found["nodes"]
    if not nodes:
        raise UserError(f"the Ray cluster at {found['address']} has no node with cores")
    own = options.get("resources") or {}
    able = [each for each in nodes if _holds(each["resources"], own)]
    if not able:
        raise UserError(f"the suite {_too_large(own, nodes, 1, 0)}")
    usable = [each for each in able if each["resources"].get("GPU")] or able
    least = min(usable, key=lambda each: int(each["resources"].get("GPU", 0)))
    cpus = min(int(each["resources"]["CPU"]) for each in usable)
    names = [each["name"] for each in usable]
    keys = [each["name"] if names.count(each["name"]) == 1 else each["id"] for each in usable]
    facts = [NodeFacts(each["cpus"], each["memory"], _cards(each)) for each in usable]
    described = [{"name": each["name"], "resources": each["resources"]} for each in nodes]
    extra = {"address": found["address"], "nodes": described}
    return Machine(
        node_devices(devices, _cards(least), "a node"),
        tuple(range(cpus)),
        cpus,
        min(each["memory"] for each in usable),
        ", ".join(names),
        len(usable),
        {**engine, **extra},
        dict(zip(keys, facts, strict=True)),
    )


def _cards(node: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Its GPUs as its driver lists them; where Ray counts others, they have no names."""
    found = tuple((name, size) for name, size in node["gpus"])
    there = int(node["resources"].get("GPU", 0))
    return found if len(found) == there else (("", 0),) * there


def bundle_of(job: Job, described: Mapping[str, Any]) -> dict[str, float]:
    """The resources that ``job`` asks Ray for on each machine; ``described``: the machine of its plan."""
    options = described["engine"]["options"]
    gpus, cpus = needs_of(job, described)
    devices = len([key for key in job.devices if "@" not in key])
    bundle: dict[str, float] = {
        "CPU": options.get("cpus", cpus / devices) * devices,
        "GPU": options.get("gpus", 1) * gpus,
    }
    for name, amount in (options.get("resources") or {}).items():
        bundle[name] = amount * devices
    return {name: amount for name, amount in bundle.items() if amount}


def check(plan: Plan) -> None:
    """Raise UserError for a job that the cluster could never run, as it is now."""
    nodes = plan.machine["engine"]["nodes"]
    for job in plan.jobs:
        bundle = bundle_of(job, plan.machine)
        if not bundle:
            raise UserError(f"{job.key} asks Ray for nothing: system.ray.cpus and gpus are both 0")
        able = [each for each in nodes if _holds(each["resources"], bundle)]
        if len(able) < job.machines:
            raise UserError(f"{job.key} {_too_large(bundle, nodes, job.machines, len(able))}")


def _holds(resources: Mapping[str, float], bundle: Mapping[str, float]) -> bool:
    return all(resources.get(name, 0.0) >= amount for name, amount in bundle.items())


def _too_large(
    bundle: Mapping[str, float], nodes: Sequence[Mapping[str, Any]], wanted: int, able: int
) -> str:
    for name, amount in bundle.items():
        most = max(each["resources"].get(name, 0.0) for each in nodes)
        if most < amount:
            return f"needs {amount:g} {name} on a node of Ray; none has more than {most:g}"
    wants = ", ".join(f"{amount:g} {name}" for name, amount in bundle.items())
    count = f"{wanted} nodes" if wanted > 1 else "a node"
    return f"needs {count} of Ray with {wants}; there {'is' if able == 1 else 'are'} {able}"


# --- a job -------------------------------------------------------------------------------------------


class RayJob(ApartJob):
    """One job, which Ray knows by its ``handle``."""

    may_run = False

    def __init__(self, queued: QueuedJob, folder: str, handle: str, client: RayClient) -> None:
        self._handle = handle
        self._client = client
        self._nodes: list[str] = []
        """By machine, what its node is called."""
        self._ended = False
        """Whether Ray says so, and all that its parts have written is here."""
        self._clocks: list[ClockBounds] = []
        """By machine of several, how far its clock is ahead of ours."""
        self._why = ""
        self._late = 0.0
        """The monotonic time at which what its parts have written last is here, or never will be."""
        super().__init__(queued, folder)

    @property
    def handle(self) -> str:
        return self._handle

    @property
    def queue(self) -> str:
        return f"in Ray as {self._handle}"

    @property
    def where(self) -> str:
        devices = ", ".join(self.job.devices)
        return f"{', '.join(dict.fromkeys(self._nodes))}: {devices}" if self._nodes else devices

    def update(self, seen: Mapping[str, Any]) -> None:
        """Take note of what Ray says of it."""
        state = seen["state"]
        self._clocks = [ClockBounds(*each) for each in seen.get("clocks") or ()]
        self._nodes = [each["name"] for each in seen["nodes"]]
        self.may_run = state != "queued"
        if state in ("ended", "lost", "cancelled") and not self.over:
            self._ended = True
            self._why = seen["why"]
            self._late = time.monotonic() + LATE
            self._in(0.0, self._read_last)

    def _read_last(self) -> None:
        self.read_parts()
        if self.over:
            return
        missing = [n for n in range(self.job.machines) if not self.is_over(n)]
        if missing and not self._why and time.monotonic() < self._late:
            self._in(AGAIN, self._read_last)
        elif self._why or not self._nodes:
            self.lost(self._why or "it did not come to run")
        elif missing:
            self.part_lost(missing[0], self._nodes[missing[0]])
        else:
            super().ended_elsewhere()

    def ended_elsewhere(self) -> None:
        """Ray says why: its node may have died."""

    def gave_up(self, why: str) -> None:
        """Nothing more will be heard of it."""
        self._ended = True
        self.read_parts()
        if not self.over:
            self.lost(why)

    def terminate(self) -> None:
        self._client.ask("signal", handle=self._handle, number=signal.SIGTERM)

    kill = terminate
    """A second signal ends a part at once."""

    def results_of(self) -> list[list[str]]:
        """By machine, what comes back from a node that has a file system of its own."""
        return [[self.part(n), *self.runs(n)] for n in range(self.job.machines)]

    def has_all(self, machine: int) -> bool:
        return self._ended

    def clock(self, machine: int) -> ClockBounds | None:
        return self._clocks[machine] if self._clocks else None


class RayEngine(JobEngine):
    """Runs jobs of ``plan``; ``folder``, the suite's, lies at the same path on each node."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.plan = plan
        self.folder = folder
        self.at_once = max(1, len(plan.jobs))  # how many really run is Ray's to say
        self._machines = os.path.join(folder, MACHINES)
        self._mark = os.path.join(self._machines, f".here.{secrets.token_hex(4)}")
        self._connected: RayClient | None = None
        self._known: dict[str, Mapping[str, Any]] = {}
        """What Ray knew of jobs that were submitted before, by their handles."""
        self._active: dict[str, RayJob] = {}
        self._lost = ""
        """Why Ray does not answer any more."""

    # --- the connection ----------------------------------------------------------------------------

    def _client(self) -> RayClient:
        """The process that talks to Ray. Raises UserError where there is no cluster."""
        if self._connected is None:
            self._connected = self._connect(*self._place())
        return self._connected

    def _connect(self, address: str, variables: Mapping[str, str]) -> RayClient:
        client = RayClient(
            {
                "name": "suite-" + hashlib.sha256(self.folder.encode()).hexdigest()[:16],
                "detached": True,
                "address": address,
                "variables": variables,
                "resources": self.plan.machine["engine"]["nodes"][0]["resources"],
                "files": [os.path.join(self.folder, plans.FILE)],
                "sources": sources_of(self.plan),
                "excluded": not_copied(self.plan, self.folder),
            }
        )
        try:
            found = client.answer("open")
        except UserError:
            client.leave()
            raise
        self._known = found["jobs"]
        if address == LOCAL:
            os.makedirs(self._machines, exist_ok=True)
            content = json.dumps({"address": found["address"], "variables": found["variables"]})
            replace_file(os.path.join(self._machines, CLUSTER), [content.encode()])
        return client

    def _place(self) -> tuple[str, Mapping[str, str]]:
        """Address and variables of a cluster which an earlier call has started, as long as it runs."""
        planned = str(self.plan.machine["engine"]["address"])
        if planned != LOCAL:
            return planned, {}
        with suppress(OSError, ValueError, KeyError):
            with open(os.path.join(self._machines, CLUSTER), encoding="utf-8") as file:
                started = json.load(file)
            if ray_client.listens(started["address"]):
                return started["address"], started["variables"]
        return LOCAL, {}

    def open(self) -> None:
        self._client()
        os.makedirs(self._machines, exist_ok=True)
        with open(self._mark, "x"):
            pass

    def close(self) -> None:
        with suppress(OSError):
            os.unlink(self._mark)
        if self._connected is not None:
            self._connected.close()

    # --- jobs --------------------------------------------------------------------------------------

    def start(self, queued: QueuedJob, opened: Opened) -> RayJob:
        if self._lost:
            raise CannotStartError(self._lost)
        handle = f"{queued.job.key}.{queued.attempt}.{secrets.token_hex(3)}"
        job = RayJob(queued, self.folder, handle, self._client())
        opened(QUEUED, handle=handle)
        self._client().ask(
            "submit", handle=handle, request=self._request(job), results=job.results_of()
        )
        self._active[handle] = job
        return job

    def _request(self, job: RayJob) -> dict[str, Any]:
        """As :class:`.ray_jobs.RayRequest` has it."""
        machines = range(job.job.machines)
        path = os.path.join(self.folder, journal.FILE)
        with open(path, encoding="utf-8") as file:
            line = "".join(each for each in file if job.handle in each)
        return {
            "bundle": bundle_of(job.job, self.plan.machine),
            "words": [job.words(n) for n in machines],
            "folders": [job.part(n) for n in machines],
            "output": OUTPUT,
            "mark": self._mark,
            "journal": {path: line},
            "variables": variables(),
            "meeting": os.path.join(job.part(0), MEETING),
            "keys": meeting_keys(job.job.processes),
            "secret": new_secret(),
            "nodes": list(job.job.nodes),
        }

    def adopt(self, queued: QueuedJob) -> RayJob:
        job = RayJob(queued, self.folder, queued.handle, self._client())
        self._client().ask("adopt", handle=queued.handle, results=job.results_of())
        self._active[queued.handle] = job
        return job

    def look(self, active: Sequence[RunningJob]) -> None:
        for each in self._client().answers():
            job = self._active.get(each.get("handle") or "")
            if each["event"] == "job" and job is not None:
                job.update(each)
            elif each["event"] == "problem" and job is not None:
                job.problems.append(each["text"])
            elif each["event"] == "error":
                self._lost = each["text"]
                for one in self._active.values():
                    one.gave_up(self._lost)
        self._active = {handle: job for handle, job in self._active.items() if not job.over}

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        over = parts_are_over(self.folder, job.key, before.attempt, job.machines)
        if over or (dry and self._place()[0] == LOCAL):
            return over
        self._client()
        return self._known.get(before.handle, {}).get("state") in (
            *("queued", "placed", "running", "ended"),
        )


def variables() -> dict[str, str]:
    """The variables of here that a command needs there as well."""
    paths = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": paths} if paths else {}
