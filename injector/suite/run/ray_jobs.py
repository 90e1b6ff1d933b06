"""The jobs of one suite on a Ray cluster: an actor, :class:`RayJobs`, which goes on when the suite is killed.

Each job has a placement group, with one bundle for each of its machines. One thread takes all jobs from state
to state::

    queued   the placement group is pending
    placed   it has nodes; on each a RayPart finds out whether the node sees the suite's folder. If one does
             not, the job waits until the agent has copied its files (start) or could not (fail)
    running  the parts run their commands
    ended    all commands have ended             lost       a node died, or something else went wrong
                                                 cancelled  a signal came before it ran

Like :mod:`.ray_node`, this module is pickled by value.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .ray_node import RayPart

QUEUED, PLACED, RUNNING, ENDED, LOST, CANCELLED = (
    *("queued", "placed", "running", "ended", "lost", "cancelled"),
)
OVER = (ENDED, LOST, CANCELLED)
LOOK = 0.5
"""Seconds between two looks at the jobs."""
GRACE = 40.0
"""Seconds that the other parts of a job have to write their records after one of them was lost."""
PATIENCE = 60.0
"""Seconds that a job waits although no nodes could run it any more: a node may be restarting."""
SOON = 60.0
"""Seconds without a call by the suite after which this actor ends, if no job is active."""
KEPT = 86400.0
"""The same, if the suite has not yet noted how some jobs ended."""


@dataclass
class RayRequest:
    """A job as the suite requests it; lists have an item for each machine."""

    bundle: dict[str, float]
    """The resources that it needs on each machine."""
    words: list[list[str]]
    folders: list[str]
    """The folder in which each part runs."""
    output: str | None
    """The name of the file there for what a part prints; None to keep it for :meth:`.RayPart.output`."""
    mark: str
    """The path of a file that exists on nodes which see the suite's folder."""
    journal: dict[str, str] = field(default_factory=dict)
    """By path, the lines that other nodes need in a file before the job starts."""
    variables: dict[str, str] = field(default_factory=dict)
    meeting: str = ""
    """The path of ``meeting.json`` (:mod:`.machine_part`)."""
    keys: list[str] = field(default_factory=list)
    """The keys for which that file needs addresses."""
    secret: str = ""
    nodes: list[str] = field(default_factory=list)
    """The nodes that may run it, by name or id; empty for all."""


class _RayJob:
    """One job and its state; :meth:`step` takes it to its next state when that is possible."""

    def __init__(self, request: RayRequest, group: Any, files: Mapping[str, bytes]) -> None:
        self.request = request
        self.files = files
        """By path, the files that nodes with file systems of their own need before it starts."""
        self.group = group
        self.state = QUEUED
        self.nodes: list[Mapping[str, Any]] = []
        """By machine, its node as ``ray.nodes()`` has it."""
        self.shared: list[bool] = []
        """By machine, whether its node sees the suite's folder."""
        self.parts: list[Any] = []
        """By machine, the actor :class:`.RayPart`."""
        self.codes: list[int | None] = [None] * len(request.words)
        """By machine, the exit code of its part, once that has ended."""
        self.why = ""
        self.noted = ""
        """The last state that the suite has noted."""
        self.has_files = threading.Event()
        self._pending: list[Any] = []
        """By machine, the result of its part's method that is waited for."""
        self._ports: list[int] = []
        """Free ports of the first machine, where ranks meet."""
        self._infeasible_since: float | None = None
        """The monotonic time since which no nodes could run it."""
        self._ends_by: float | None = None
        """The monotonic time at which it ends, since a part was lost."""

    def described(self) -> dict[str, Any]:
        """What the suite is sent of it."""
        nodes = [{"id": node["NodeID"], "name": name_of(node)} for node in self.nodes]
        facts = {"nodes": nodes, "shared": self.shared, "codes": self.codes, "why": self.why}
        return {"state": self.state, **facts}

    # --- from a queue to the end -------------------------------------------------------------------

    def step(self, groups: Mapping[str, Any]) -> None:
        """Go to the next state, if possible; ``groups`` has all placement groups, by id."""
        if self.state == QUEUED:
            self._wait_for_nodes(groups.get(self.group.id.hex(), {}))
        elif self.state == PLACED and self.shared:
            if all(self.shared) or self.has_files.is_set():
                self._start()
        elif self.state == PLACED:
            self._take_preparations()
        elif self.state == RUNNING:
            self._watch()

    def _wait_for_nodes(self, group: Mapping[str, Any]) -> None:
        if group.get("state") == "CREATED":
            self._place(group["bundles_to_node_id"])
        elif group.get("state") == "REMOVED":
            self.end(LOST, "its placement group was removed from Ray")
        elif group.get("stats", {}).get("scheduling_state") == "INFEASIBLE" and not _fits(
            self.request, len(self.request.words)
        ):
            now = time.monotonic()
            self._infeasible_since = self._infeasible_since or now
            if now - self._infeasible_since > PATIENCE:
                wants = f"{len(self.codes)} nodes with {self.request.bundle}"
                self.end(LOST, f"Ray has no longer {wants}")
        else:
            self._infeasible_since = None

    def _place(self, by_bundle: Mapping[int, str]) -> None:
        """Create the parts' actors and have them prepare; ``by_bundle`` has the id of each machine's node."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        nodes = {node["NodeID"]: node for node in ray.nodes()}
        self.nodes = [nodes[by_bundle[n]] for n in range(len(self.codes))]
        self.state = PLACED
        request = self.request
        part_class = ray.remote(RayPart)
        bundle = dict(request.bundle)
        amounts = {"num_cpus": bundle.pop("CPU", 0), "num_gpus": bundle.pop("GPU", 0)}
        for n in range(len(self.codes)):
            strategy = PlacementGroupSchedulingStrategy(self.group, n)
            # Several threads: a signal has to come through while wait() waits.
            options = part_class.options(
                **amounts, resources=bundle, scheduling_strategy=strategy, max_concurrency=4
            )
            self.parts.append(options.remote())
        self._pending = [
            part.prepare.remote(
                request.mark, self.files, request.journal, 0 if n else len(request.keys)
            )
            for n, part in enumerate(self.parts)
        ]

    def _take_preparations(self) -> None:
        """Take what ``prepare`` has returned, once all parts have; if one fails, the job is lost."""
        import ray

        done, waiting = ray.wait(self._pending, num_returns=len(self._pending), timeout=0)
        try:
            prepared = ray.get(done)
        except Exception as error:
            self.end(LOST, self._reason(error))
            return
        if not waiting:
            self._ports = prepared[0]["ports"]
            self.shared = [each["shared"] for each in prepared]

    def _start(self) -> None:
        request = self.request
        if not self._pending:
            return
        host = self.nodes[0]["NodeManagerAddress"]
        places = {
            key: f"{host}:{port}" for key, port in zip(request.keys, self._ports, strict=True)
        }
        # As machine_part.write_meeting has it, which the workers cannot import.
        content = json.dumps({**places, "secret": request.secret})
        files = {request.meeting: content.encode()} if places else {}
        for n, part in enumerate(self.parts):
            # Its result is not needed: if it fails, wait() raises the reason.
            part.start.remote(
                request.words[n],
                request.folders[n],
                request.output,
                request.variables | {NODE: name_of(self.nodes[n])},
                files,
            )
        self._pending = [part.wait.remote() for part in self.parts]
        self.state = RUNNING

    def _watch(self) -> None:
        """Note which parts have ended or were lost."""
        import ray

        for n, pending in enumerate(self._pending):
            if self.codes[n] is not None or not ray.wait([pending], timeout=0)[0]:
                continue
            try:
                self.codes[n] = ray.get(pending)
            except ray.exceptions.ActorUnavailableError:
                # Its node does not answer at present, which may pass.
                if self._is_dead(n):
                    self._part_lost(n, self._death(n))
                else:
                    self._pending[n] = self.parts[n].wait.remote()
            except Exception as error:
                self._part_lost(n, self._reason(error, n))
        over = all(code is not None for code in self.codes)
        if over or (self._ends_by is not None and time.monotonic() > self._ends_by):
            self.end(LOST if self.why else ENDED, self.why)

    def _part_lost(self, machine: int, why: str) -> None:
        """Note that a part was lost, and have the others end, with time to write their records."""
        self.codes[machine] = -signal.SIGKILL
        self.why = self.why or why
        self._ends_by = self._ends_by or time.monotonic() + GRACE
        self.send(signal.SIGTERM)

    def _is_dead(self, machine: int) -> bool:
        import ray

        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        return self.nodes[machine]["NodeID"] not in alive

    def _death(self, machine: int) -> str:
        """That the node of a machine died, with Ray's reason."""
        import ray

        node = self.nodes[machine]
        now = [each for each in ray.nodes() if each["NodeID"] == node["NodeID"]]
        why = str(now[0].get("DeathReasonMessage") or "") if now else ""
        return f"node {name_of(node)} died" + (f": {why.strip()}" if why else "")

    def _reason(self, error: Exception, machine: int | None = None) -> str:
        """Why the part of ``machine``, or some part, failed: the death of a node, or the ``error``."""
        for n in range(len(self.nodes)) if machine is None else (machine,):
            if self._is_dead(n):
                return self._death(n)
        cause = getattr(error, "cause", None)
        lines = str(cause or error).strip().splitlines() or [type(error).__name__]
        where = f"on node {name_of(self.nodes[machine])}: " if machine is not None else ""
        return f"{where}{lines[0]}"

    # --- ending ------------------------------------------------------------------------------------

    def send(self, number: int) -> None:
        """Send a signal to its parts that run; if none does, the job is cancelled."""
        if self.state in (QUEUED, PLACED):
            self.end(CANCELLED, "it was cancelled before it began")
        elif self.state == RUNNING:
            for n, part in enumerate(self.parts):
                if self.codes[n] is None:
                    part.signal.remote(number)

    def end(self, state: str, why: str) -> None:
        """End the job in ``state``."""
        from ray.util.placement_group import remove_placement_group

        self.state, self.why = state, why
        remove_placement_group(self.group)  # and with it the workers of its parts
        self.parts.clear()


NODE = "INJECT_NODE"
""":data:`.machine_part.NODE`, which the workers cannot import."""


def name_of(node: Mapping[str, Any]) -> str:
    """The name of a node of ``ray.nodes()`` for people: the one that it was given, else its host's."""
    # Without a name of its own, NodeName is the address.
    name, address = str(node.get("NodeName") or ""), node["NodeManagerAddress"]
    return name if name and name != address else str(node["NodeManagerHostname"] or address)


def _is_named(node: Mapping[str, Any], names: list[str]) -> bool:
    """Whether a node is among ``names``: by its name or, if another has the same name, by its id."""
    return name_of(node) in names or node["NodeID"] in names


def _labels(names: list[str]) -> dict[str, str]:
    """A label selector for the living nodes among ``names``."""
    import ray

    ids = [node["NodeID"] for node in ray.nodes() if node["Alive"] and _is_named(node, names)]
    return {"ray.io/node-id": f"in({','.join(ids)})"}


def _fits(request: RayRequest, machines: int) -> bool:
    """Whether so many nodes could run a job if they had nothing else to do."""
    import ray

    alive = [node for node in ray.nodes() if node["Alive"]]
    allowed = [node for node in alive if not request.nodes or _is_named(node, request.nodes)]
    return sum(holds(node["Resources"], request.bundle) for node in allowed) >= machines


def holds(resources: Mapping[str, float], bundle: Mapping[str, float]) -> bool:
    """Whether a node with ``resources`` could run a bundle."""
    return all(resources.get(name, 0.0) >= amount for name, amount in bundle.items())


class RayJobs:
    """The actor that runs the jobs of a suite; its methods are called from the agent, in any thread."""

    def __init__(self) -> None:
        self._jobs: dict[str, _RayJob] = {}
        self._files: Mapping[str, bytes] = {}
        self._lock = threading.RLock()
        self._last_call = time.monotonic()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        from ray.util import placement_group_table

        while True:
            time.sleep(LOOK)
            with self._lock:
                active = [job for job in self._jobs.values() if job.state not in OVER]
                try:
                    groups = placement_group_table() if active else {}
                except Exception:
                    continue  # the cluster's control store does not answer: it may be restarting
                for job in active:
                    try:
                        job.step(groups)
                    except Exception as error:
                        job.end(LOST, f"Ray: {error!r}")
                self._end_when_forgotten(bool(active))

    def _end_when_forgotten(self, active: bool) -> None:
        """End this actor if its suite was killed and is not resumed."""
        unnoted = any(job.noted != job.state for job in self._jobs.values())
        silent = time.monotonic() - self._last_call
        if not active and silent > (KEPT if unnoted else SOON):
            os._exit(0)

    def submit(self, handle: str, request: RayRequest) -> None:
        """Queue a job."""
        from ray.util.placement_group import placement_group

        machines = len(request.words)
        strategy = "STRICT_SPREAD" if machines > 1 else "PACK"
        where = _labels(request.nodes) if request.nodes else None
        how = {"bundle_label_selector": [where] * machines} if where else {}
        group = placement_group([request.bundle] * machines, strategy=strategy, **how)
        with self._lock:
            self._jobs[handle] = _RayJob(request, group, self._files)

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Keep the content of files, by path, which other nodes need for each job from now on."""
        self._files = files

    def states(self) -> dict[str, dict[str, Any]]:
        """The state of each job, by its handle, as :meth:`_RayJob.described` returns it."""
        self._last_call = time.monotonic()
        with self._lock:
            return {handle: job.described() for handle, job in self._jobs.items()}

    def note(self, handle: str, state: str) -> None:
        """Note that the suite knows of a job's ``state``."""
        with self._lock:
            if handle in self._jobs:
                self._jobs[handle].noted = state

    def start(self, handle: str) -> None:
        """Let a job start, now that its nodes have the files that it needs."""
        with self._lock:
            if handle in self._jobs:
                self._jobs[handle].has_files.set()

    def fail(self, handle: str, why: str) -> None:
        """End a job whose files could not be copied to its nodes."""
        with self._lock:
            if handle in self._jobs and self._jobs[handle].state == PLACED:
                self._jobs[handle].end(LOST, why)

    def signal(self, handle: str, number: int) -> None:
        """Send a signal to the parts of a job; one that does not run yet is cancelled."""
        with self._lock:
            if handle in self._jobs:
                self._jobs[handle].send(number)

    def part(self, handle: str) -> Any:
        """The actor that runs a job's first part; None if it does not run."""
        with self._lock:
            job = self._jobs.get(handle)
            return job.parts[0] if job and job.state == RUNNING else None
