"""The engine of a Ray cluster, which decides when and where each job of the suite runs.

Another process, the agent, is connected to the cluster (:mod:`.ray_client`, :mod:`.ray_agent`). An actor on
it runs the jobs (:mod:`.ray_jobs`), so that they go on when the suite is killed. If no cluster runs, Ray
starts one on this machine; its address is kept in ``machines/ray.json``, for when the suite is resumed.
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
from . import journal, ray_client, ray_jobs
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import QUEUED, JobRecord
from .machine_part import MACHINES, MEETING, meeting_keys
from .processes import CannotStartError
from .ray_client import RayClient
from .ray_jobs import holds
from .remote_job import OUTPUT, ApartJob, needs_of, not_copied, parts_are_over, sources_of

NAME = "ray"
LOCAL = "local"
"""The address that stands for a cluster on this machine, which Ray starts."""
OPTIONS = ("address", "cpus", "gpus", "resources")
CLUSTER = "ray.json"
"""The file below ``machines/`` with the address of a cluster that the suite has started."""
LATE, AGAIN = 4.0, 0.5
"""Seconds after a part's end in which its journal may still come over a network, and between two looks."""


# --- what the cluster has, and what a job needs ------------------------------------------------------


def machine_of(options: Mapping[str, Any], devices: str | None) -> Machine:
    """The machine to plan for: what each usable node has at least, with the devices that ``--devices`` names.

    ``options`` are those of ``system.ray``. It is this machine if they name no cluster and none runs. Raises
    UserError for mistakes in them, and if there is no such cluster or node.
    """
    _check_options(options)
    address = str(options.get("address") or "")
    engine = {"name": NAME, "options": dict(options)}
    # A cluster on this machine is started when the suite runs: a plan alone needs none.
    if address != LOCAL:
        cluster = ray_client.cluster(address)
        if cluster["address"] != LOCAL:
            return _machine_of_nodes(cluster, options, devices, engine)
    here = find_machine(devices)
    # Ray numbers GPUs from 0 without gaps: up to the largest number they all have to exist.
    gpus = 0 if here.arch == "cpu" else 1 + max(device.number for device in here.devices)
    node = {"name": here.host, "resources": {"CPU": here.cpu_count, "GPU": gpus}}
    return replace(here, engine={**engine, "address": LOCAL, "nodes": [node]})


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise UserError for an unknown key in ``system.ray``, or one with a value of a wrong type."""
    for key, value in options.items():
        if key not in OPTIONS:
            raise UserError(f"system.ray: no key {key!r}; there is {', '.join(OPTIONS)}")
        amounts = list(value.values()) if isinstance(value, dict) else [value]
        if key == "resources" and not isinstance(value, dict):
            raise UserError(
                f"system.ray.resources: a map such as {{TPU: 1}}, what each device needs; not {value!r}"
            )
        if key != "address" and not all(type(n) in (int, float) and n >= 0 for n in amounts):
            raise UserError(f"system.ray.{key}: numbers of at least 0, not {value!r}")


def _machine_of_nodes(
    cluster: Mapping[str, Any],
    options: Mapping[str, Any],
    devices: str | None,
    engine: Mapping[str, Any],
) -> Machine:
    """What each usable node of ``cluster`` has at least; those with GPUs, if some have. Raises UserError."""
    nodes = cluster["nodes"]
    if not nodes:
        raise UserError(f"the Ray cluster at {cluster['address']} has no node with cores")
    required = options.get("resources") or {}
    able = [node for node in nodes if holds(node["resources"], required)]
    if not able:
        raise UserError(f"the suite {_too_large(required, nodes, 1, 0)}")
    usable = [node for node in able if node["resources"].get("GPU")] or able
    least = min(usable, key=lambda node: int(node["resources"].get("GPU", 0)))
    cpus = min(int(node["resources"]["CPU"]) for node in usable)
    names = [node["name"] for node in usable]
    keys = [node["name"] if names.count(node["name"]) == 1 else node["id"] for node in usable]
    facts = [NodeFacts(node["cpus"], node["memory"], _gpus_of(node)) for node in usable]
    described = [{"name": node["name"], "resources": node["resources"]} for node in nodes]
    return Machine(
        node_devices(devices, _gpus_of(least), "a node"),
        tuple(range(cpus)),
        cpus,
        min(node["memory"] for node in usable),
        ", ".join(names),
        len(usable),
        {**engine, "address": cluster["address"], "nodes": described},
        dict(zip(keys, facts, strict=True)),
    )


def _gpus_of(node: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Names and memory of a node's GPUs, as its driver lists them; nameless if Ray counts another number."""
    listed = tuple((name, size) for name, size in node["gpus"])
    number = int(node["resources"].get("GPU", 0))
    return listed if len(listed) == number else (("", 0),) * number


def bundle_of(job: Job, described: Mapping[str, Any]) -> dict[str, float]:
    """The resources that ``job`` needs on each machine; ``described`` is the machine of its plan.

    ``cpus``, ``gpus`` and ``resources`` in ``system.ray`` are amounts for each device.
    """
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
    """Raise UserError if the cluster, as it is now, could never run one of the plan's jobs."""
    nodes = plan.machine["engine"]["nodes"]
    for job in plan.jobs:
        bundle = bundle_of(job, plan.machine)
        if not bundle:
            raise UserError(f"{job.key} asks Ray for nothing: system.ray.cpus and gpus are both 0")
        able = [node for node in nodes if holds(node["resources"], bundle)]
        if len(able) < job.machines:
            raise UserError(f"{job.key} {_too_large(bundle, nodes, job.machines, len(able))}")


def _too_large(
    bundle: Mapping[str, float], nodes: Sequence[Mapping[str, Any]], wanted: int, able: int
) -> str:
    """What the nodes lack for ``wanted`` bundles, if ``able`` of them could hold one; without a subject."""
    for name, amount in bundle.items():
        most = max(node["resources"].get(name, 0.0) for node in nodes)
        if most < amount:
            return f"needs {amount:g} {name} on a node of Ray; none has more than {most:g}"
    wants = ", ".join(f"{amount:g} {name}" for name, amount in bundle.items())
    count = f"{wanted} nodes" if wanted > 1 else "a node"
    return f"needs {count} of Ray with {wants}; there {'is' if able == 1 else 'are'} {able}"


# --- a job -------------------------------------------------------------------------------------------


class RayJob(ApartJob):
    """One job; ``handle`` is its name for the actor that runs it."""

    may_run = False

    def __init__(self, queued: QueuedJob, folder: str, handle: str, client: RayClient) -> None:
        self._handle = handle
        self._client = client
        self._nodes: list[str] = []
        """By machine, the name of its node."""
        self._ended = False
        """Whether the cluster runs it no more; then all files of its parts are here."""
        self._clocks: list[ClockBounds] = []
        """By machine of several, how far its clock is ahead of ours, if known."""
        self._why = ""
        self._late = 0.0
        """The monotonic time until which lines of its parts' journals may still come."""
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
        """Note its state ``seen``, an answer of the agent."""
        state = seen["state"]
        self._clocks = [ClockBounds(*bounds) for bounds in seen.get("clocks") or ()]
        self._nodes = [node["name"] for node in seen["nodes"]]
        self.may_run = state != ray_jobs.QUEUED
        if state in ray_jobs.OVER and not self.over:
            self._ended = True
            self._why = seen["why"]
            self._late = time.monotonic() + LATE
            self._in(0.0, self._read_last)

    def _read_last(self) -> None:
        """Read how its parts ended; again and again, if the end of one may still come."""
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
        """Do nothing: the agent will answer why, as when its node has died."""

    def give_up(self, why: str) -> None:
        """End the job, since the agent does not answer any more."""
        self._ended = True
        self.read_parts()
        if not self.over:
            self.lost(why)

    def terminate(self) -> None:
        self._client.ask("signal", handle=self._handle, number=signal.SIGTERM)

    # Of two signals to a part, the second ends its programs at once.
    kill = terminate

    def results_of(self) -> list[list[str]]:
        """By machine, the paths to be copied from a node that has a file system of its own."""
        return [[self.part(n), *self.runs(n)] for n in range(self.job.machines)]

    def has_all(self, machine: int) -> bool:
        return self._ended

    def clock(self, machine: int) -> ClockBounds | None:
        return self._clocks[machine] if self._clocks else None


class RayEngine(JobEngine):
    """Runs jobs of ``plan``; ``folder``, the suite's, has the same path on each node."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.plan = plan
        self.folder = folder
        self.at_once = max(1, len(plan.jobs))  # Ray decides how many really run
        self._machines = os.path.join(folder, MACHINES)
        self._mark = os.path.join(self._machines, f".here.{secrets.token_hex(4)}")
        """A file by which a node finds out whether it sees the suite's folder."""
        self._connected: RayClient | None = None
        self._states_before: dict[str, Mapping[str, Any]] = {}
        """The states of jobs, by their handles, when the agent connected."""
        self._active: dict[str, RayJob] = {}
        self._lost = ""
        """Why the agent does not answer any more, if so."""

    # --- the connection ----------------------------------------------------------------------------

    def _client(self) -> RayClient:
        """The agent, which is started when it is first needed. Raises UserError if there is no cluster."""
        if self._connected is None:
            self._connected = self._connect(*self._cluster())
        return self._connected

    def _connect(self, address: str, variables: Mapping[str, str]) -> RayClient:
        """Start an agent for the cluster at ``address``, with more ``variables``. Raises UserError."""
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
            answer = client.answer("open")
        except UserError:
            client.leave()
            raise
        self._states_before = answer["jobs"]
        if address == LOCAL:
            os.makedirs(self._machines, exist_ok=True)
            content = json.dumps({"address": answer["address"], "variables": answer["variables"]})
            replace_file(os.path.join(self._machines, CLUSTER), [content.encode()])
        return client

    def _cluster(self) -> tuple[str, Mapping[str, str]]:
        """Address and variables for connecting: of the planned cluster, or of one that an earlier call
        started and that still runs.
        """
        planned = str(self.plan.machine["engine"]["address"])
        if planned != LOCAL:
            return planned, {}
        with suppress(OSError, ValueError, KeyError):
            with open(os.path.join(self._machines, CLUSTER), encoding="utf-8") as file:
                started = json.load(file)
            if not ray_client.connection_error(started["address"]):
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

    def start(self, batch: Sequence[QueuedJob], opened: Opened) -> list[RayJob]:
        if self._lost:
            raise CannotStartError(self._lost)
        queued = batch[0]
        handle = f"{queued.job.key}.{queued.attempt}.{secrets.token_hex(3)}"
        job = RayJob(queued, self.folder, handle, self._client())
        opened(queued, QUEUED, handle=handle)
        self._client().ask(
            "submit", handle=handle, request=self._request(job), results=job.results_of()
        )
        self._active[handle] = job
        return [job]

    def _request(self, job: RayJob) -> dict[str, Any]:
        """The fields of a :class:`.ray_jobs.RayRequest`."""
        machines = range(job.job.machines)
        path = os.path.join(self.folder, journal.FILE)
        # A part waits for its handle in the journal: nodes that do not share it get that line.
        with open(path, encoding="utf-8") as file:
            line = "".join(line for line in file if job.handle in line)
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
            "secret": secrets.token_hex(16),
            "nodes": list(job.job.nodes),
        }

    def adopt(self, queued: QueuedJob) -> RayJob:
        job = RayJob(queued, self.folder, queued.handle, self._client())
        self._client().ask("adopt", handle=queued.handle, results=job.results_of())
        self._active[queued.handle] = job
        return job

    def look(self, active: Sequence[RunningJob]) -> None:
        for answer in self._client().answers():
            job = self._active.get(answer.get("handle") or "")
            if answer["event"] == "job" and job is not None:
                job.update(answer)
            elif answer["event"] == "problem" and job is not None:
                job.problems.append(answer["text"])
            elif answer["event"] == "error":
                self._lost = answer["text"]
                for lost in self._active.values():
                    lost.give_up(self._lost)
        self._active = {handle: job for handle, job in self._active.items() if not job.over}

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        over = parts_are_over(self.folder, job.key, before.attempt, job.machines)
        # The cluster of this machine has ended, and its jobs with it; a dry run does not start another.
        if over or (dry and self._cluster()[0] == LOCAL):
            return over
        self._client()
        state = self._states_before.get(before.handle, {}).get("state")
        return state in (ray_jobs.QUEUED, ray_jobs.PLACED, ray_jobs.RUNNING, ray_jobs.ENDED)


def variables() -> dict[str, str]:
    """The variables of this process that a command on a node needs as well."""
    paths = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": paths} if paths else {}
