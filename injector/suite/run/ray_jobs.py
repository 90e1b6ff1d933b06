"""The jobs of one suite on a Ray cluster: an actor of its own, which goes on when the suite is killed.

Each job has a placement group, with one bundle for each of its machines. One thread looks after all of them.
As :mod:`.ray_node`, this is handed to Ray by value.
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
"""Seconds in which the other parts of a job that was lost write their records."""
PATIENCE = 60.0
"""Seconds that a job waits although no node could run it any more: a node may be on its way back."""
SOON = 60.0
"""Seconds that this actor waits for more jobs when the suite that made it asks no longer;"""
KEPT = 86400.0
"""or where the suite has not taken note of what has become of some."""


@dataclass
class RayRequest:
    """What a job needs, and is."""

    bundle: dict[str, float]
    """Resources of each machine."""
    words: list[list[str]]
    """By machine, its command."""
    folders: list[str]
    """By machine, where it runs."""
    output: str | None
    """The name of the file there that has what it prints; None: it is kept for :meth:`.RayPart.output`."""
    mark: str
    """A file by which nodes are known that see the suite's folder."""
    journal: dict[str, str] = field(default_factory=dict)
    """By file, the lines that other nodes need in it before it starts."""
    variables: dict[str, str] = field(default_factory=dict)
    meeting: str = ""
    """The file that says where the ranks of several machines meet, and"""
    keys: list[str] = field(default_factory=list)
    """what of them does."""
    secret: str = ""
    """By which machines that meet know each other, for the same file."""
    nodes: list[str] = field(default_factory=list)
    """The nodes that meet what it requires, by their names or numbers; none: all do."""


class _RayJob:
    """What has become of a job; ``step`` takes it a step further where that is possible."""

    def __init__(self, request: RayRequest, group: Any, files: Mapping[str, bytes]) -> None:
        self.request = request
        self.files = files
        """What other nodes need before it starts."""
        self.group = group
        self.state = QUEUED
        self.nodes: list[Mapping[str, Any]] = []
        self.shared: list[bool] = []
        self.parts: list[Any] = []
        self.codes: list[int | None] = [None] * len(request.words)
        self.why = ""
        self.known = ""
        """The last state that the suite has taken note of."""
        self.has_files = threading.Event()
        self._pending: list[Any] = []
        """The answer of each part that is waited for."""
        self._ports: list[int] = []
        self._infeasible: float | None = None
        self._ends_by: float | None = None

    def described(self) -> dict[str, Any]:
        nodes = [{"id": each["NodeID"], "name": name_of(each)} for each in self.nodes]
        facts = {"nodes": nodes, "shared": self.shared, "codes": self.codes, "why": self.why}
        return {"state": self.state, **facts}

    # --- from a queue to the end -------------------------------------------------------------------

    def step(self, table: Mapping[str, Any]) -> None:
        """``table``: all placement groups, by number."""
        if self.state == QUEUED:
            self._wait_for_nodes(table.get(self.group.id.hex(), {}))
        elif self.state == PLACED and self.shared:
            if all(self.shared) or self.has_files.is_set():
                self._start()
        elif self.state == PLACED:
            self._take_answers()
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
            self._infeasible = self._infeasible or now
            if now - self._infeasible > PATIENCE:
                wants = f"{len(self.codes)} nodes with {self.request.bundle}"
                self.end(LOST, f"Ray has no longer {wants}")
        else:
            self._infeasible = None

    def _place(self, by_bundle: Mapping[int, str]) -> None:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        known = {each["NodeID"]: each for each in ray.nodes()}
        self.nodes = [known[by_bundle[n]] for n in range(len(self.codes))]
        self.state = PLACED
        asks = self.request
        part = ray.remote(RayPart)
        bundle = dict(asks.bundle)
        how = {"num_cpus": bundle.pop("CPU", 0), "num_gpus": bundle.pop("GPU", 0)}
        for n in range(len(self.codes)):
            strategy = PlacementGroupSchedulingStrategy(self.group, n)
            options = part.options(
                **how, resources=bundle, scheduling_strategy=strategy, max_concurrency=4
            )
            self.parts.append(options.remote())
        self._pending = [
            each.prepare.remote(asks.mark, self.files, asks.journal, 0 if n else len(asks.keys))
            for n, each in enumerate(self.parts)
        ]

    def _take_answers(self) -> None:
        answers = self._answers()
        if answers is not None:
            self._ports = answers[0]["ports"]
            self.shared = [each["shared"] for each in answers]

    def _answers(self) -> list[Any] | None:
        """What all parts have answered, once they have; where one cannot any more, the job is lost."""
        import ray

        done, waiting = ray.wait(self._pending, num_returns=len(self._pending), timeout=0)
        try:
            found = ray.get(done)
        except Exception as error:
            self.end(LOST, self._reason(error))
            return None
        return None if waiting else found

    def _start(self) -> None:
        asks = self.request
        if not self._pending:
            return
        host = self.nodes[0]["NodeManagerAddress"]
        places = {key: f"{host}:{port}" for key, port in zip(asks.keys, self._ports, strict=True)}
        content = json.dumps({**places, "secret": asks.secret})
        files = {asks.meeting: content.encode()} if places else {}
        starts = [
            each.start.remote(
                asks.words[n],
                asks.folders[n],
                asks.output,
                asks.variables | {NODE: name_of(self.nodes[n])},
                files,
            )
            for n, each in enumerate(self.parts)
        ]
        self._pending = [each.wait.remote() for each in self.parts]
        del starts  # where one fails, so does what waits for it
        self.state = RUNNING

    def _watch(self) -> None:
        import ray

        for n, pending in enumerate(self._pending):
            if self.codes[n] is not None or not ray.wait([pending], timeout=0)[0]:
                continue
            try:
                self.codes[n] = ray.get(pending)
            except ray.exceptions.ActorUnavailableError:
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
        """The other parts get a signal to end, and time to write their records."""
        self.codes[machine] = -signal.SIGKILL
        self.why = self.why or why
        self._ends_by = self._ends_by or time.monotonic() + GRACE
        self.send(signal.SIGTERM)

    def _is_dead(self, machine: int) -> bool:
        import ray

        alive = {each["NodeID"] for each in ray.nodes() if each["Alive"]}
        return self.nodes[machine]["NodeID"] not in alive

    def _death(self, machine: int) -> str:
        import ray

        node = self.nodes[machine]
        found = [each for each in ray.nodes() if each["NodeID"] == node["NodeID"]]
        why = str(found[0].get("DeathReasonMessage") or "") if found else ""
        return f"node {name_of(node)} died" + (f": {why.strip()}" if why else "")

    def _reason(self, error: Exception, machine: int | None = None) -> str:
        for n in range(len(self.nodes)) if machine is None else (machine,):
            if self._is_dead(n):
                return self._death(n)
        cause = getattr(error, "cause", None)
        lines = str(cause or error).strip().splitlines() or [type(error).__name__]
        where = f"on node {name_of(self.nodes[machine])}: " if machine is not None else ""
        return f"{where}{lines[0]}"

    # --- ending ------------------------------------------------------------------------------------

    def send(self, number: int) -> None:
        """Send a signal to its parts that run; one that waits is cancelled."""
        if self.state in (QUEUED, PLACED):
            self.end(CANCELLED, "it was cancelled before it began")
        elif self.state == RUNNING:
            for n, each in enumerate(self.parts):
                if self.codes[n] is None:
                    each.signal.remote(number)

    def end(self, state: str, why: str) -> None:
        """Nothing more will become of it."""
        from ray.util.placement_group import remove_placement_group

        self.state, self.why = state, why
        remove_placement_group(self.group)  # and with it the workers of its parts
        self.parts.clear()


NODE = "INJECT_NODE"
"""The variable that has the name of the node that a part runs on."""


def name_of(node: Mapping[str, Any]) -> str:
    """What people call a node of ``ray.nodes()``: the name that it was given, else its host's."""
    name, address = str(node.get("NodeName") or ""), node["NodeManagerAddress"]
    return name if name and name != address else str(node["NodeManagerHostname"] or address)


def _is_one(node: Mapping[str, Any], names: list[str]) -> bool:
    """Whether ``names`` have a node, by its name or, where another has the same, by its number."""
    return name_of(node) in names or node["NodeID"] in names


def _labels(names: list[str]) -> dict[str, str]:
    """What nodes of these names, and no others, have as a label."""
    import ray

    numbers = [each["NodeID"] for each in ray.nodes() if each["Alive"] and _is_one(each, names)]
    return {"ray.io/node-id": f"in({','.join(numbers)})"}


def _fits(request: RayRequest, machines: int) -> bool:
    """Whether so many nodes could run a job if nothing else ran there."""
    import ray

    alive = [each for each in ray.nodes() if each["Alive"]]
    allowed = [each for each in alive if not request.nodes or _is_one(each, request.nodes)]
    return sum(holds(each["Resources"], request.bundle) for each in allowed) >= machines


def holds(resources: Mapping[str, float], bundle: Mapping[str, float]) -> bool:
    """Whether a node with ``resources`` could run a bundle."""
    return all(resources.get(name, 0.0) >= amount for name, amount in bundle.items())


class RayJobs:
    """An actor that looks after the jobs of a suite."""

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
                active = [each for each in self._jobs.values() if each.state not in OVER]
                try:
                    table = placement_group_table() if active else {}
                except Exception:
                    continue  # the cluster's control does not answer: it may be started again
                for each in active:
                    try:
                        each.step(table)
                    except Exception as error:
                        each.end(LOST, f"Ray: {error!r}")
                self._end_when_forgotten(bool(active))

    def _end_when_forgotten(self, active: bool) -> None:
        """A suite that was killed, and with which no call goes on, leaves no actor."""
        unknown = any(each.known != each.state for each in self._jobs.values())
        silent = time.monotonic() - self._last_call
        if not active and silent > (KEPT if unknown else SOON):
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
        """Files that other nodes need for each job, as long as this actor lives."""
        self._files = files

    def states(self) -> dict[str, dict[str, Any]]:
        """What has become of each job, by its handle."""
        self._last_call = time.monotonic()
        with self._lock:
            return {handle: each.described() for handle, each in self._jobs.items()}

    def note(self, handle: str, state: str) -> None:
        """The suite has taken note that a job's state is ``state``."""
        with self._lock:
            if handle in self._jobs:
                self._jobs[handle].known = state

    def start(self, handle: str) -> None:
        """The nodes of a job have the files that it needs."""
        with self._lock:
            if handle in self._jobs:
                self._jobs[handle].has_files.set()

    def fail(self, handle: str, why: str) -> None:
        """The nodes of a job cannot be given the files that it needs."""
        with self._lock:
            if handle in self._jobs and self._jobs[handle].state == PLACED:
                self._jobs[handle].end(LOST, why)

    def signal(self, handle: str, number: int) -> None:
        """Send a signal to the parts of a job; one that waits is cancelled."""
        with self._lock:
            if handle in self._jobs:
                self._jobs[handle].send(number)

    def part(self, handle: str) -> Any:
        """The actor that runs a job's first part, once it does."""
        with self._lock:
            found = self._jobs.get(handle)
            return found.parts[0] if found and found.state == RUNNING else None
