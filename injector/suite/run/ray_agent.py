"""The process that talks to Ray: ``python -m injector.suite.run.ray_agent OPTIONS``, with OPTIONS as JSON.

Only this, and what it hands to Ray's workers, imports Ray. What is to be done comes as lines of JSON from
standard input, what has become of it goes as such lines to standard output. :mod:`.ray_client` starts it.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...bus.clocks import QUESTIONS
from . import file_copy, ports, ray_jobs, ray_node
from .ray_jobs import CANCELLED, ENDED, LOST, OVER, PLACED, RayJobs, RayRequest, name_of
from .ray_node import RayNode
from .ssh_nodes import LOOK as FACTS
from .ssh_nodes import facts_of

NAMESPACE = "inject"
LOOK = 1.0
"""Seconds between two looks at the jobs."""
PULL = 2.0
"""Seconds between two looks at the files of a node that has its own."""
SHARE = 20
"""Copying what has changed there takes one of so many seconds at most, but for the last time."""
ANSWER = 60.0
"""Seconds within which an actor or a node answers."""
AWAY = 120.0
"""Seconds after which a cluster that does not answer is given up."""
CONNECT = 10.0
"""Seconds within which a cluster has to take a connection."""
AUTHENTICATION = ("RAY_AUTH_MODE",)
HEAD = "node:__internal_head__"


class CannotConnectError(Exception):
    """Why no cluster can be used."""


class NoClusterError(Exception):
    """No cluster runs, and the options name none."""


class RayAgent:
    """A connection to one cluster; ``options`` as :class:`.ray_client.RayClient` gives them."""

    def __init__(self, options: Mapping[str, Any], answers: int) -> None:
        self.options = options
        self._answers = os.fdopen(answers, "w", buffering=1, encoding="utf-8")
        self._writing = threading.Lock()
        self._nodes: dict[str, Any] = {}
        """Actors for the files of nodes, by the node's number."""
        self._requests: dict[str, Mapping[str, Any]] = {}
        self._sent: dict[str, Any] = {}
        """The last answer about each job."""
        self._seen: dict[tuple[str, int], dict[str, Any]] = {}
        """By job and machine, the files as they were when they were last copied."""
        self._pull_at: dict[tuple[str, int], float] = {}
        self._full: set[str] = set()
        """Nodes that have the suite's sources."""
        self._copying = threading.Lock()
        self._being_sent: set[str] = set()
        """Jobs whose nodes are given files at present, or have them."""
        self.closing = threading.Event()
        self.finished = False
        """Whether the suite has ended, and was not killed."""
        self.address = ""
        self.local = False
        self.jobs: Any = None

    def say(self, event: str, **facts: Any) -> None:
        """Write an answer."""
        with self._writing:
            try:
                self._answers.write(json.dumps({"event": event, **facts}) + "\n")
            except OSError:
                pass  # who would read it has died

    # --- the cluster -------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect to the cluster that the options name, or start one. Raises CannotConnectError."""
        os.environ.update(self.options.get("variables") or {})
        import ray

        self.address = self.options.get("address") or os.environ.get("RAY_ADDRESS") or "auto"
        self.local = self.address == "local"
        if not self.local:
            _try_connection(self.address)
        how: dict[str, Any] = {}
        if self.local:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            there = self.options.get("resources") or {}
            how = {"num_cpus": there.get("CPU"), "num_gpus": there.get("GPU")}
            how["include_dashboard"] = False
        try:
            ray.init(
                address=self.address,
                namespace=NAMESPACE,
                logging_level="error",
                log_to_driver=False,
                **how,
            )
        except Exception as error:
            if isinstance(error, ConnectionError) and not self.options.get("address"):
                raise NoClusterError from None
            lines = [line.strip() for line in str(error).strip().splitlines()]
            raise CannotConnectError(" ".join(lines[:6]) or type(error).__name__) from None
        for module in (file_copy, ports, ray_node, ray_jobs):
            ray.cloudpickle.register_pickle_by_value(module)

    def facts(self) -> None:
        """Say which nodes there are, and what each has."""
        import ray

        there = sorted(ray.nodes(), key=name_of)
        alive = [each for each in there if each["Alive"] and each["Resources"].get("CPU")]
        facts = {each["NodeID"]: self._node(each["NodeID"]).runs.remote(FACTS) for each in alive}
        ray.wait(list(facts.values()), num_returns=len(facts), timeout=ANSWER)
        nodes = []
        for each in alive:
            try:
                found = facts_of(ray.get(facts[each["NodeID"]], timeout=0).splitlines())
            except Exception:
                continue  # it does not answer, and would run no job
            described = {"id": each["NodeID"], "name": name_of(each)}
            described["resources"] = each["Resources"]
            nodes.append(described | found._asdict())
        if not self.address.startswith("ray://"):
            self.address = ray.get_runtime_context().gcs_address
        self.say("facts", nodes=nodes, address=self.address)

    def open(self) -> None:
        """Find or make the actor that looks after the suite's jobs."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        name = self.options["name"]
        how: dict[str, Any] = {"num_cpus": 0, "max_concurrency": 8}
        heads = [each["NodeID"] for each in ray.nodes() if each["Resources"].get(HEAD)]
        if heads:  # where it dies with the cluster alone
            how["scheduling_strategy"] = NodeAffinitySchedulingStrategy(heads[0], soft=False)
        if self.options.get("detached"):
            how |= {"name": name, "lifetime": "detached", "get_if_exists": True}
        self.jobs = ray.remote(RayJobs).options(**how).remote()
        states = ray.get(self.jobs.states.remote(), timeout=ANSWER)
        files = {}
        for path in self.options["files"]:
            with open(path, "rb") as file:
                files[path] = file.read()
        ray.get(self.jobs.keep.remote(files), timeout=ANSWER)
        address = ray.get_runtime_context().gcs_address if self.local else ""
        # A cluster that Ray starts may ask for a token, which others find where this says how.
        mode = {name: os.environ[name] for name in AUTHENTICATION if name in os.environ}
        self.say("open", jobs=states, address=address, variables=mode)

    def _node(self, number: str) -> Any:
        """The actor for the files of a node."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if number not in self._nodes:
            strategy = NodeAffinitySchedulingStrategy(number, soft=False)
            how = {"num_cpus": 0, "scheduling_strategy": strategy}
            self._nodes[number] = ray.remote(RayNode).options(**how).remote()
        return self._nodes[number]

    # --- commands ----------------------------------------------------------------------------------

    def obey(self) -> None:
        """Do what standard input says, line by line, until it ends."""
        for line in sys.stdin:
            command = json.loads(line)
            do = command.pop("do")
            try:
                if do == "close":
                    self.finished = True
                    break
                getattr(self, f"do_{do}")(**command)
            except Exception as error:
                self.say("problem", handle=command.get("handle"), text=_first_line(error))
                if do == "submit":
                    self.say("job", handle=command["handle"], state=LOST, nodes=[], why="")
        self.closing.set()

    def do_adopt(self, handle: str, results: Sequence[Sequence[str]]) -> None:
        """Go on with a job that was submitted before."""
        self._requests[handle] = {"results": results}

    def do_submit(
        self, handle: str, request: dict[str, Any], results: Sequence[Sequence[str]]
    ) -> None:
        """Queue a job; ``results``: by machine, the paths that come back from nodes of their own."""
        import ray

        self._requests[handle] = {"results": results}
        ray.get(self.jobs.submit.remote(handle, RayRequest(**request)), timeout=ANSWER)

    def do_signal(self, handle: str, number: int) -> None:
        """Send a signal to a job."""
        self.jobs.signal.remote(handle, number)

    def do_output(self, handle: str) -> None:
        """Pass on what the only part of a job prints, until it is over."""
        threading.Thread(target=self._pass_on, args=(handle,), daemon=True).start()

    def _pass_on(self, handle: str) -> None:
        import ray

        part = None
        while part is None and self._sent.get(handle, {}).get("state") not in OVER:
            part = ray.get(self.jobs.part.remote(handle))
            time.sleep(0.0 if part else 0.1)
        try:
            while part and (pieces := ray.get(part.output.remote())) is not None:
                for number, data in pieces:
                    text = base64.b64encode(data).decode("ascii")
                    self.say("output", handle=handle, stream=number, data=text)
        except ray.exceptions.RayError:
            pass  # what has become of the job says why
        self.say("printed", handle=handle)

    # --- files -------------------------------------------------------------------------------------

    def _send_files(self, handle: str, job: Mapping[str, Any]) -> None:
        """Give the nodes of a job that do not see the suite's folder what it needs; then it starts."""
        if handle not in self._being_sent:
            self._being_sent.add(handle)
            threading.Thread(target=self._send, args=(handle, job), daemon=True).start()

    def _send(self, handle: str, job: Mapping[str, Any]) -> None:
        with self._copying:
            for node, shared in zip(job["nodes"], job["shared"], strict=True):
                if shared or node["id"] in self._full:
                    continue
                try:
                    self._send_sources(self._node(node["id"]))
                except Exception as error:
                    self._nodes.pop(node["id"], None)
                    why = f"node {node['name']} could not be given its files: {_first_line(error)}"
                    self.jobs.fail.remote(handle, why)
                    return
                self._full.add(node["id"])
        self.jobs.start.remote(handle)

    def _send_sources(self, node: Any) -> None:
        import ray

        ours = file_copy.entries(self.options["sources"], self.options["excluded"])
        lacking = ray.get(node.lacking.remote(ours))
        for batch in file_copy.batches({path: ours[path] for path in lacking}):
            ray.get(node.write.remote(file_copy.read(batch)))

    def _bring(self, handle: str, job: Mapping[str, Any], last: bool) -> None:
        """Bring what has changed in the files of a job home from the nodes that have their own."""
        for machine, (node, shared) in enumerate(zip(job["nodes"], job["shared"], strict=False)):
            at = (handle, machine)
            now = time.monotonic()
            if shared or not (last or now >= self._pull_at.get(at, 0.0)):
                continue
            try:
                self._bring_from(self._node(node["id"]), at)
            except Exception as error:
                self._nodes.pop(node["id"], None)
                if last:
                    text = f"node {node['name']}: its records could not be brought home"
                    self.say("problem", handle=handle, text=f"{text}: {_first_line(error)}")
            took = time.monotonic() - now
            self._pull_at[at] = now + max(PULL, SHARE * took)

    def _bring_from(self, node: Any, at: tuple[str, int]) -> None:
        import ray

        paths = self._requests[at[0]]["results"][at[1]]
        theirs = ray.get(node.entries.remote(paths), timeout=ANSWER)
        seen = self._seen.setdefault(at, {})
        changed = {path: entry for path, entry in theirs.items() if seen.get(path) != entry}
        for batch in file_copy.batches(changed):
            file_copy.write(ray.get(node.read.remote(batch), timeout=ANSWER))
            seen |= {path: entry for path, entry, _ in batch}

    # --- looking -----------------------------------------------------------------------------------

    def look(self) -> None:
        """Say what has become of the jobs since the last look."""
        import ray

        states = ray.get(self.jobs.states.remote(), timeout=ANSWER)
        for handle, job in states.items():
            if handle not in self._requests:
                continue
            known = self._sent.get(handle)
            if known is not None and known["state"] in OVER:
                continue
            if job["state"] == PLACED and job["shared"] and not all(job["shared"]):
                self._send_files(handle, job)
            elif job["state"] not in (CANCELLED,) and not all(job["shared"]):
                self._bring(handle, job, job["state"] in (ENDED, LOST))
            if job != known:
                self._sent[handle] = job
                more = {"clocks": self._clocks(job)} if job["state"] == ENDED else {}
                self.say("job", handle=handle, **job, **more)
                if job["state"] in OVER:
                    self.jobs.note.remote(handle, job["state"])

    def _clocks(self, job: Mapping[str, Any]) -> list[tuple[float, float]]:
        """By machine of a job on several, how far its clock is ahead of ours: at least, and at most."""
        import ray

        found = []
        for each in job["nodes"] if len(job["nodes"]) > 1 else ():
            low, high = float("-inf"), float("inf")
            for _ in range(QUESTIONS):
                before = time.time()
                try:
                    theirs = ray.get(self._node(each["id"]).now.remote(), timeout=ANSWER)
                except ray.exceptions.RayError:
                    self._nodes.pop(each["id"], None)
                    return []
                low, high = max(low, theirs - time.time()), min(high, theirs - before)
            found.append((low, high))
        return found

    def look_until_closed(self) -> None:
        """Look again and again; the jobs go on when the suite has died."""
        import ray

        silent_since = None
        while not self.closing.wait(LOOK):
            try:
                self.look()
                silent_since = None
            except ray.exceptions.RayError as error:
                away = (ray.exceptions.GetTimeoutError, ray.exceptions.ActorUnavailableError)
                silent_since = silent_since or time.monotonic()
                if isinstance(error, away) and time.monotonic() - silent_since < AWAY:
                    continue
                self.say("error", text=f"Ray's actor of this suite ended: {_first_line(error)}")
                return

    def close(self) -> None:
        """Leave the cluster, whose jobs go on where the suite was killed."""
        import ray

        try:
            states = ray.get(self.jobs.states.remote(), timeout=ANSWER)
            if self.finished and all(each["state"] in OVER for each in states.values()):
                ray.kill(self.jobs)
            survives = self.local and self.options.get("detached") and not self.finished
            while survives:  # until the last job is over: they live as long as their cluster
                ray.get(self.jobs.part.remote(""))
                time.sleep(LOOK)
        except ray.exceptions.RayError:
            pass
        ray.shutdown()


def _try_connection(address: str) -> None:
    """Raise CannotConnectError where nothing listens: Ray itself takes minutes to find that out."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except OSError as error:
        text = f"no Ray cluster answers at {address}: {error.strerror or error}"
        raise CannotConnectError(text) from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def main(options: str) -> int:
    """Do what standard input says until it ends; 2 where no cluster can be used."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what Ray prints is no answer
    agent = RayAgent(json.loads(options), answers)
    try:
        agent.connect()
        if "name" not in agent.options:
            agent.facts()
            return 0
        agent.open()
    except NoClusterError:
        agent.say("facts", nodes=[], address="local")  # one is started when it is needed
        return 0
    except CannotConnectError as error:
        agent.say("error", text=str(error))
        return 2
    threading.Thread(target=agent.obey, daemon=True).start()
    agent.look_until_closed()
    agent.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
