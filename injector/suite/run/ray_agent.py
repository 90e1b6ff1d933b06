"""The process that talks to Ray: ``python -m injector.suite.run.ray_agent OPTIONS``, with OPTIONS as JSON.

::

    suite -- RayClient -- stdin, stdout --> RayAgent -- Ray --> RayJobs        one actor a suite: its jobs
                                                            --> RayNode        one actor a node: its files
                                             RayJobs -- Ray --> RayPart        one actor a part of a job

Only this process, and what it hands to Ray's workers, imports Ray: a fault of Ray then ends neither the suite
nor its journal. One thread reads requests, another looks at the jobs, and further ones copy files and pass
output on. Requests, answers and OPTIONS are those of :mod:`.ray_client`.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...bus.clocks import QUESTIONS
from . import file_copy, ports, ray_jobs, ray_node
from .ray_client import connection_error
from .ray_jobs import CANCELLED, ENDED, LOST, OVER, PLACED, RayJobs, RayRequest, name_of
from .ray_node import RayNode
from .ssh_nodes import LOOK as FACTS
from .ssh_nodes import facts_of

NAMESPACE = "inject"
"""Ray's namespace in which the actors for jobs have their names."""
LOOK = 1.0
"""Seconds between two looks at the jobs."""
PULL = 2.0
"""Seconds between two copies of a part's files from a node with a file system of its own, at least."""
SHARE = 20
"""How many times longer than the last copy that is, at least."""
ANSWER = 60.0
"""Seconds that an actor or a node has to answer."""
AWAY = 120.0
"""Seconds after which a cluster that does not answer is given up."""
AUTHENTICATION = ("RAY_AUTH_MODE",)
"""Variables that others need to connect to a cluster that was started here."""
HEAD = "node:__internal_head__"
"""The resource that only the head node of a cluster has."""


class CannotConnectError(Exception):
    """No cluster can be used; the text says why."""


class NoClusterError(Exception):
    """No cluster runs, and the options name none."""


class RayAgent:
    """A connection to one cluster; ``answers`` is the file descriptor for answers."""

    def __init__(self, options: Mapping[str, Any], answers: int) -> None:
        self.options = options
        self._answers = os.fdopen(answers, "w", buffering=1, encoding="utf-8")
        self._writing = threading.Lock()
        self._nodes: dict[str, Any] = {}
        """By the id of a node, its actor :class:`.RayNode`."""
        self._results: dict[str, Sequence[Sequence[str]]] = {}
        """For each job that this suite follows, by machine, the paths to be copied from its node."""
        self._answered: dict[str, Any] = {}
        """The last answer about each job."""
        self._copied: dict[tuple[str, int], dict[str, Any]] = {}
        """By job and machine, the entries of files as they were last copied."""
        self._pull_at: dict[tuple[str, int], float] = {}
        """By job and machine, the monotonic time of the next copy."""
        self._with_sources: set[str] = set()
        """The ids of nodes that have the suite's sources."""
        self._copying = threading.Lock()
        """Held while sources are copied, so that each node gets them once."""
        self._being_sent: set[str] = set()
        """Jobs to whose nodes sources are being copied, or were."""
        self.closing = threading.Event()
        self.finished = False
        """Whether the suite has ended in order, and was not killed."""
        self.address = ""
        self.local = False
        """Whether this process has started the cluster."""
        self.ray: Any = None
        self.jobs: Any = None
        """The actor :class:`.RayJobs`."""

    def answer(self, event: str, **facts: Any) -> None:
        """Write an answer; any thread may."""
        with self._writing:
            try:
                self._answers.write(json.dumps({"event": event, **facts}) + "\n")
            except OSError:
                pass  # the suite has died

    # --- the cluster -------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect to the cluster that the options name, or start one. Raises CannotConnectError."""
        os.environ.update(self.options.get("variables") or {})
        import ray

        self.ray = ray
        self.address = self.options.get("address") or os.environ.get("RAY_ADDRESS") or "auto"
        self.local = self.address == "local"
        # Ray takes minutes to find out that nothing listens at an address.
        host, _, port = self.address.removeprefix("ray://").rpartition(":")
        if host and port.isdecimal() and (error := connection_error(self.address)):
            raise CannotConnectError(f"no Ray cluster answers at {self.address}: {error}")
        arguments: dict[str, Any] = {}
        if self.local:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            resources = self.options.get("resources") or {}
            arguments = {"num_cpus": resources.get("CPU"), "num_gpus": resources.get("GPU")}
            arguments["include_dashboard"] = False
        try:
            ray.init(
                address=self.address,
                namespace=NAMESPACE,
                logging_level="error",
                log_to_driver=False,
                **arguments,
            )
        except Exception as failure:
            if isinstance(failure, ConnectionError) and not self.options.get("address"):
                raise NoClusterError from None
            lines = [line.strip() for line in str(failure).strip().splitlines()]
            raise CannotConnectError(" ".join(lines[:6]) or type(failure).__name__) from None
        # Workers get these modules with the actors' classes, and need no injector.
        for module in (file_copy, ports, ray_node, ray_jobs):
            ray.cloudpickle.register_pickle_by_value(module)

    def facts(self) -> None:
        """Answer which nodes there are, with the resources and the hardware of each."""
        alive = [
            node
            for node in sorted(self.ray.nodes(), key=name_of)
            if node["Alive"] and node["Resources"].get("CPU")
        ]
        printed = {node["NodeID"]: self._node(node["NodeID"]).runs.remote(FACTS) for node in alive}
        self.ray.wait(list(printed.values()), num_returns=len(printed), timeout=ANSWER)
        nodes = []
        for node in alive:
            try:
                hardware = facts_of(self.ray.get(printed[node["NodeID"]], timeout=0).splitlines())
            except Exception:
                continue  # it does not answer, and would run no job
            described = {"id": node["NodeID"], "name": name_of(node)}
            described["resources"] = node["Resources"]
            nodes.append(described | hardware._asdict())
        if not self.address.startswith("ray://"):
            self.address = self.ray.get_runtime_context().gcs_address
        self.answer("facts", nodes=nodes, address=self.address)

    def open(self) -> None:
        """Find or create the actor for the suite's jobs, and answer which jobs it has."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        name = self.options["name"]
        options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": 8}
        heads = [node["NodeID"] for node in self.ray.nodes() if node["Resources"].get(HEAD)]
        # On the head node it dies only with the cluster.
        if heads:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(heads[0], soft=False)
        if self.options.get("detached"):
            options |= {"name": name, "lifetime": "detached", "get_if_exists": True}
        self.jobs = self.ray.remote(RayJobs).options(**options).remote()
        states = self.ray.get(self.jobs.states.remote(), timeout=ANSWER)
        files = {}
        for path in self.options["files"]:
            with open(path, "rb") as file:
                files[path] = file.read()
        self.ray.get(self.jobs.keep.remote(files), timeout=ANSWER)
        address = self.ray.get_runtime_context().gcs_address if self.local else ""
        # A cluster that Ray starts may require a token, which Ray finds by itself if this variable is set.
        mode = {name: os.environ[name] for name in AUTHENTICATION if name in os.environ}
        self.answer("open", jobs=states, address=address, variables=mode)

    def _node(self, node_id: str) -> Any:
        """The actor on a node, which is created when it is first used."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if node_id not in self._nodes:
            strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
            options = {"num_cpus": 0, "scheduling_strategy": strategy}
            self._nodes[node_id] = self.ray.remote(RayNode).options(**options).remote()
        return self._nodes[node_id]

    # --- requests ----------------------------------------------------------------------------------

    def serve(self) -> None:
        """Fulfil the requests on standard input, until it ends."""
        for line in sys.stdin:
            request = json.loads(line)
            do = request.pop("do")
            try:
                if do == "close":
                    self.finished = True
                    break
                getattr(self, f"do_{do}")(**request)
            except Exception as error:
                self.answer("problem", handle=request.get("handle"), text=_first_line(error))
                if do == "submit":
                    self.answer("job", handle=request["handle"], state=LOST, nodes=[], why="")
        self.closing.set()

    def do_adopt(self, handle: str, results: Sequence[Sequence[str]]) -> None:
        """Follow a job that an earlier agent submitted."""
        self._results[handle] = results

    def do_submit(
        self, handle: str, request: dict[str, Any], results: Sequence[Sequence[str]]
    ) -> None:
        """Queue a job; ``results`` has, by machine, the paths to be copied from its node."""
        self._results[handle] = results
        self.ray.get(self.jobs.submit.remote(handle, RayRequest(**request)), timeout=ANSWER)

    def do_signal(self, handle: str, number: int) -> None:
        """Send a signal to a job."""
        self.jobs.signal.remote(handle, number)

    def do_output(self, handle: str) -> None:
        """Answer what the only part of a job prints, piece by piece, and then that it was all."""
        threading.Thread(target=self._pass_on, args=(handle,), daemon=True).start()

    def _pass_on(self, handle: str) -> None:
        part = None
        while part is None and self._answered.get(handle, {}).get("state") not in OVER:
            part = self.ray.get(self.jobs.part.remote(handle))
            time.sleep(0.0 if part else 0.1)
        try:
            while part and (pieces := self.ray.get(part.output.remote())) is not None:
                for number, data in pieces:
                    text = base64.b64encode(data).decode("ascii")
                    self.answer("output", handle=handle, stream=number, data=text)
        except self.ray.exceptions.RayError:
            pass  # the state of the job will say why
        self.answer("printed", handle=handle)

    # --- files -------------------------------------------------------------------------------------

    def _send(self, handle: str, job: Mapping[str, Any]) -> None:
        """Copy sources to the nodes of a job that lack them, and let the job start; or let it fail."""
        with self._copying:
            for node, shared in zip(job["nodes"], job["shared"], strict=True):
                if shared or node["id"] in self._with_sources:
                    continue
                try:
                    self._send_sources(self._node(node["id"]))
                except Exception as error:
                    self._nodes.pop(node["id"], None)
                    why = f"node {node['name']} could not be given its files: {_first_line(error)}"
                    self.jobs.fail.remote(handle, why)
                    return
                self._with_sources.add(node["id"])
        self.jobs.start.remote(handle)

    def _send_sources(self, node: Any) -> None:
        ours = file_copy.entries(self.options["sources"], self.options["excluded"])
        lacking = self.ray.get(node.files.remote("lacking", ours))
        for batch in file_copy.batches({path: ours[path] for path in lacking}):
            self.ray.get(node.files.remote("write", file_copy.read(batch)))

    def _bring(self, handle: str, job: Mapping[str, Any], last: bool) -> None:
        """Copy the files of a job that have changed from nodes with file systems of their own, if due.

        If it is the ``last`` time, it is due in any case, and a failure is answered.
        """
        # Before the parts are prepared, it is not known which nodes are shared: the second list is empty.
        for machine, (node, shared) in enumerate(zip(job["nodes"], job["shared"], strict=False)):
            key = (handle, machine)
            now = time.monotonic()
            if shared or not (last or now >= self._pull_at.get(key, 0.0)):
                continue
            try:
                self._bring_from(self._node(node["id"]), key)
            except Exception as error:
                self._nodes.pop(node["id"], None)
                if last:
                    text = f"node {node['name']}: its records could not be brought home"
                    self.answer("problem", handle=handle, text=f"{text}: {_first_line(error)}")
            took = time.monotonic() - now
            self._pull_at[key] = now + max(PULL, SHARE * took)

    def _bring_from(self, node: Any, key: tuple[str, int]) -> None:
        handle, machine = key
        paths = self._results[handle][machine]
        theirs = self.ray.get(node.files.remote("entries", paths), timeout=ANSWER)
        copied = self._copied.setdefault(key, {})
        changed = {path: entry for path, entry in theirs.items() if copied.get(path) != entry}
        for batch in file_copy.batches(changed):
            file_copy.write(self.ray.get(node.files.remote("read", batch), timeout=ANSWER))
            copied |= {path: entry for path, entry, _ in batch}

    # --- looking -----------------------------------------------------------------------------------

    def look(self) -> None:
        """Answer which states of jobs have changed since the last look, and copy files that are due."""
        states = self.ray.get(self.jobs.states.remote(), timeout=ANSWER)
        for handle, job in states.items():
            if handle not in self._results:
                continue
            answered = self._answered.get(handle)
            if answered is not None and answered["state"] in OVER:
                continue
            if job["state"] == PLACED and job["shared"] and not all(job["shared"]):
                if handle not in self._being_sent:
                    self._being_sent.add(handle)
                    threading.Thread(target=self._send, args=(handle, job), daemon=True).start()
            elif job["state"] != CANCELLED and not all(job["shared"]):
                self._bring(handle, job, job["state"] in (ENDED, LOST))
            # After the files: who reads this answer expects them to be here.
            if job != answered:
                self._answered[handle] = job
                more = {"clocks": self._clocks(job)} if job["state"] == ENDED else {}
                self.answer("job", handle=handle, **job, **more)
                if job["state"] in OVER:
                    self.jobs.note.remote(handle, job["state"])

    def _clocks(self, job: Mapping[str, Any]) -> list[tuple[float, float]]:
        """By machine, how many seconds its clock is ahead of ours, at least and at most.

        Empty for a job on one machine, and if a node does not answer. See :func:`.ssh_nodes.clock_of`.
        """
        bounds = []
        for node in job["nodes"] if len(job["nodes"]) > 1 else ():
            low, high = float("-inf"), float("inf")
            for _ in range(QUESTIONS):
                before = time.time()
                try:
                    theirs = self.ray.get(self._node(node["id"]).now.remote(), timeout=ANSWER)
                except self.ray.exceptions.RayError:
                    self._nodes.pop(node["id"], None)
                    return []
                low, high = max(low, theirs - time.time()), min(high, theirs - before)
            bounds.append((low, high))
        return bounds

    def look_until_closed(self) -> None:
        """Look again and again, until the suite has ended or died, or the cluster does not answer."""
        errors, silent_since = self.ray.exceptions, None
        while not self.closing.wait(LOOK):
            try:
                self.look()
                silent_since = None
            except errors.RayError as error:
                away = (errors.GetTimeoutError, errors.ActorUnavailableError)
                silent_since = silent_since or time.monotonic()
                if isinstance(error, away) and time.monotonic() - silent_since < AWAY:
                    continue
                self.answer("error", text=f"Ray's actor of this suite ended: {_first_line(error)}")
                return

    def close(self) -> None:
        """Disconnect from the cluster, whose jobs go on if the suite was killed."""
        try:
            states = self.ray.get(self.jobs.states.remote(), timeout=ANSWER)
            if self.finished and all(job["state"] in OVER for job in states.values()):
                self.ray.kill(self.jobs)
            # A cluster that this process started ends with it: so it stays until the actor for the jobs ends.
            survives = self.local and self.options.get("detached") and not self.finished
            while survives:
                self.ray.get(self.jobs.part.remote(""))
                time.sleep(LOOK)
        except self.ray.exceptions.RayError:
            pass
        self.ray.shutdown()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def main(options: str) -> int:
    """Run the agent until its stdin ends; the exit code, 2 if no cluster can be used."""
    # Answers get a file of their own: Ray, and the C++ below it, print to stdout as well.
    answers = os.dup(1)
    os.dup2(2, 1)
    agent = RayAgent(json.loads(options), answers)
    try:
        agent.connect()
        if "name" not in agent.options:
            agent.facts()
            return 0
        agent.open()
    except NoClusterError:
        agent.answer("facts", nodes=[], address="local")  # one is started when it is needed
        return 0
    except CannotConnectError as error:
        agent.answer("error", text=str(error))
        return 2
    threading.Thread(target=agent.serve, daemon=True).start()
    agent.look_until_closed()
    agent.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
