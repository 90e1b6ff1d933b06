"""The engine of a few machines without a scheduler, over OpenSSH: each runs one job's part at a time.

Parts run on when a connection, or the suite, ends. What they write is copied here every few seconds
with rsync, unless the nodes share the suite's folder.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...bus.clocks import ClockBounds
from ...errors import UserError
from ..plan import jobs as plans
from ..plan.jobs import Job, Plan
from ..plan.machine import Machine, node_devices
from . import journal, ports
from .apart_job import OUTPUT, ApartJob, not_copied, sources_of
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import QUEUED, JobRecord
from .machine_part import folder_of
from .meeting import MEETING, meeting_keys, write_meeting
from .processes import CannotStartError
from .progress import print_through
from .ssh_nodes import SshNode, call, call_all, clock_of, facts, nodes_of

NAME = "ssh"
LOOK = 2.0
"""Seconds between two looks at a node."""
LOST = 60.0
"""Seconds without a connection after which what runs on a node is given up."""
UNCOPIED = 98
"""Exit code of a look at a node that was reached, whose files could not be copied here."""
PID = "pid"
"""The file of a part that has the number of its process."""


def machine_of(system: Mapping[str, Any], option: str | None) -> Machine:
    """The least of the nodes that can be reached, with the devices of ``--devices``.

    Says which cannot be reached. Raises UserError where none can, or none has such devices.
    """
    nodes = nodes_of(system)
    there, lost = facts(nodes)
    for node, why in lost.items():
        text = f"inject suite: node {node.name} is left out: {node.destination}: {why}\n"
        print_through(sys.stderr, text)
    if not there:
        raise UserError(f"none of the {len(nodes)} nodes of system.nodes can be reached")
    cpus = min(each.cpus for each in there.values())
    least = min((each.gpus for each in there.values()), key=len)
    described = [each.as_json() for each in there]
    return Machine(
        node_devices(option, least, "a node"),
        tuple(range(cpus)),
        cpus,
        min(each.memory for each in there.values()),
        ", ".join(each.name for each in there),
        len(there),
        {"name": NAME, "nodes": described},
        {node.name: each for node, each in there.items()},
    )


class SshJob(ApartJob):
    """One job, its machine ``n`` being ``nodes[n]``."""

    def __init__(
        self, queued: QueuedJob, folder: str, nodes: Sequence[SshNode], shared: set[SshNode]
    ) -> None:
        self.nodes = nodes
        self._shared = shared
        self.unreachable: dict[SshNode, str] = {}
        """Nodes that it was lost with, and why."""
        self._signals: list[subprocess.Popen[bytes]] = []
        self._looks: dict[int, subprocess.Popen[bytes]] = {}
        self._whole: set[int] = set()
        """Machines whose parts live no more, and all of whose files are here."""
        self._uncopied: dict[int, float] = {}
        """By machine, since when what it has written cannot be copied here."""
        self._reached = dict.fromkeys(range(len(nodes)), time.monotonic())
        super().__init__(queued, folder)
        self._in(0.0, self._look)

    @property
    def handle(self) -> str:
        return "+".join(node.name for node in self.nodes)

    # --- looking -----------------------------------------------------------------------------------

    def _look(self) -> None:
        """Begin a look at each node that has none under way, and see what came of those that have ended."""
        for machine in range(len(self.nodes)):
            process = self._looks.get(machine)
            if process is None or process.poll() is not None:
                if process is not None:
                    self._looked(machine, process.returncode)
                if not self.over:
                    self._looks[machine] = self._start_look(machine)
        self._in(LOOK, self._look)

    def _start_look(self, machine: int) -> subprocess.Popen[bytes]:
        node = self.nodes[machine]
        script = shlex.join(node.argv(f"{self._living(machine)} && echo lives; true"))
        if node not in self._shared:  # after the look: what ended before it has written all
            paths = [self.part(machine), *self.runs(machine)]
            copy = shlex.join(node.copy_argv(paths, back=True, options=["--ignore-missing-args"]))
            script = f"alive=$({script}) || exit; echo $alive"
            script += (
                f'; problem=$({copy} 2>&1) || {{ echo "$problem" | head -1; exit {UNCOPIED}; }}'
            )
        return _quiet(["sh", "-c", script])

    def has_all(self, machine: int) -> bool:
        return machine in self._whole or self.nodes[machine] in self._shared

    def _living(self, machine: int) -> str:
        """For a shell of the node: whether the part lives, as process ``$pid``."""
        pid = shlex.quote(os.path.join(self.part(machine), PID))
        return f"pid=$(cat {pid} 2> /dev/null) && grep -qs machine_part /proc/$pid/cmdline"

    def _looked(self, machine: int, code: int) -> None:
        process = self._looks[machine]
        assert process.stdout is not None
        text = process.stdout.read().decode(errors="replace")
        alive = text.startswith("lives")
        process.stdout.close()
        node, now = self.nodes[machine], time.monotonic()
        if code in (0, UNCOPIED):
            self._reached[machine] = now
        if code == UNCOPIED and not alive:
            self._not_copied(machine, node, text.strip())
            return
        silent = now - self._reached[machine]
        if silent > LOST:
            self.unreachable[node] = f"{node.destination} could not be reached for {silent:.0f} s"
            self.lost(f"node {node.name}: {self.unreachable[node]}")
            return
        if code == 0 and not alive:
            self._whole.add(machine)
            self.read_parts()
            if not self.over and not self.is_over(machine):
                self.part_lost(machine, node.name)

    def _not_copied(self, machine: int, node: SshNode, why: str) -> None:
        """What a part that has ended has written could not be copied here, where it is tried again."""
        since = self._uncopied.setdefault(machine, time.monotonic())
        if time.monotonic() - since > LOST:
            places = " and ".join([*self.runs(machine), self.part(machine)])
            text = f"node {node.name}: its records could not be copied here: {why}"
            self.lost(f"{text}; they are in {places} there")

    def clock(self, machine: int) -> ClockBounds | None:
        return clock_of(self.nodes[machine])

    def goes_on(self) -> bool:
        """Whether each part lives, has written down its end, or cannot be looked at now."""
        return all(map(self._part_goes_on, range(len(self.nodes))))

    def _part_goes_on(self, machine: int) -> bool:
        text, _ = self._start_look(machine).communicate()
        first = b"lives" in text  # where the process was not known before, one more look is needed
        text, _ = (look := self._start_look(machine)).communicate()
        if look.returncode == 0 and b"lives" not in text:
            self._whole.add(machine)
        self.read_parts()
        return first or b"lives" in text or look.returncode != 0 or self.is_over(machine)

    # --- ending ------------------------------------------------------------------------------------

    def terminate(self) -> None:
        for machine, node in enumerate(self.nodes):
            script = f"{self._living(machine)} && kill -TERM $pid"
            self._signals.append(_quiet(node.argv(script)))

    kill = terminate
    """A second signal ends a part at once."""


class SshEngine(JobEngine):
    """Runs jobs of ``plan``; ``folder``, the suite's, lies at the same path on each node."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.plan = plan
        self.folder = folder
        self.nodes = [SshNode(**each) for each in plan.machine["engine"]["nodes"]]
        self.at_once = len(self.nodes)
        self._shared: set[SshNode] = {node for node in self.nodes if node.main}
        self._active: list[SshJob] = []
        self._down: dict[SshNode, str] = {}

    # --- files -------------------------------------------------------------------------------------

    def open(self) -> None:
        """Copy sources, environments and data to the nodes. Raises UserError where no node took them."""
        self._find_shared()
        apart = [node for node in self.nodes if node not in self._shared]
        sources = sources_of(self.plan)
        options = [f"--exclude={each}" for each in not_copied(self.plan, self.folder)]
        copies = {node: node.copy_argv(sources, options=options) for node in apart}
        for node, why in call_all(copies).items():
            self._is_down(node, f"its files could not be copied: {why}")
        self._try_pythons()
        if len(self._down) == len(self.nodes):
            raise UserError(f"none of the {len(self.nodes)} nodes can be used")

    def _try_pythons(self) -> None:
        """Use no node on which an environment that is installed here does not run."""
        words = [each.command[0] for job in self.plan.jobs for each in job.processes]
        for python in dict.fromkeys(word for word in words if os.access(word, os.X_OK)):
            script = shlex.join(_with_paths([python, "-m", ports.__name__, "0"]))
            left = [node for node in self.nodes if node not in self._down]
            for node, why in call_all({node: node.argv(script) for node in left}).items():
                self._is_down(node, f"{python} does not run inject there: {why}")

    def _find_shared(self) -> None:
        """Which nodes see the suite's folder as it is here."""
        mark = os.path.join(self.folder, f".here.{os.getpid()}")
        with open(mark, "x"):
            pass
        try:
            test = f"test -e {shlex.quote(mark)}"
            missing = call_all({node: node.argv(test) for node in self.nodes})
            self._shared |= {node for node in self.nodes if node not in missing}
        finally:
            os.unlink(mark)

    def _is_down(self, node: SshNode, why: str) -> None:
        if node not in self._down:
            self._down[node] = why
            print_through(sys.stderr, f"inject suite: node {node.name} is no longer used: {why}\n")

    # --- jobs --------------------------------------------------------------------------------------

    def _usable(self, job: Job) -> list[SshNode]:
        """The nodes that meet what a job requires, as far as they can be used."""
        able = [node for node in self.nodes if not job.nodes or node.name in job.nodes]
        return [node for node in able if node not in self._down]

    def _free(self, job: Job) -> list[SshNode]:
        busy = {node for job in self._active if not job.over for node in job.nodes}
        return [node for node in self._usable(job) if node not in busy]

    def has_room(self, job: Job) -> bool:
        while len(free := self._free(job)[: job.machines]) == job.machines:
            lost = call_all({node: node.argv("true") for node in free})
            if not lost:
                return True
            for node, why in lost.items():
                self._is_down(node, why)
        return len(self._usable(job)) < job.machines

    def start(self, queued: QueuedJob, opened: Opened) -> SshJob:
        nodes = self._free(queued.job)[: queued.job.machines]
        if len(nodes) < queued.job.machines:
            down = "; ".join(f"{node.name}: {why}" for node, why in self._down.items())
            raise CannotStartError(
                f"it needs {queued.job.machines} nodes, {len(nodes)} can be used ({down})"
            )
        self._meet(queued, nodes)
        job = SshJob(queued, self.folder, nodes, self._shared)
        opened(QUEUED, handle=job.handle)
        for machine, node in enumerate(nodes):
            self._start_part(job, machine, node)
        self._active.append(job)
        return job

    def _start_part(self, job: SshJob, machine: int, node: SshNode) -> None:
        """Raises CannotStartError."""
        quoted, line = shlex.quote(job.part(machine)), shlex.join(_with_paths(job.words(machine)))
        script = f"mkdir -p {quoted} && cd {quoted} || exit"
        script += f"; setsid {line} >> {OUTPUT} 2>&1 < /dev/null & echo $! > {PID}"
        try:
            if node not in self._shared:
                files = [os.path.join(self.folder, name) for name in (plans.FILE, journal.FILE)]
                place = os.path.join(job.part(0), MEETING)
                files += [place] if os.path.exists(place) else []
                call(node.copy_argv(files))
            call(node.argv(script))
        except UserError as error:
            self._is_down(node, str(error))
            job.terminate()
            raise CannotStartError(f"node {node.name} ({node.destination}): {error}") from None

    def _meet(self, queued: QueuedJob, nodes: Sequence[SshNode]) -> None:
        """Write down where the ranks of several machines meet: at free ports of the first node."""
        if not (keys := meeting_keys(queued.job.processes)):
            return
        words = [queued.job.processes[0].command[0], "-m", ports.__name__, str(len(keys))]
        try:
            free = call(nodes[0].argv(shlex.join(words))).split()
        except UserError as error:
            self._is_down(nodes[0], str(error))
            raise CannotStartError(
                f"node {nodes[0].name} ({nodes[0].destination}): {error}"
            ) from None
        host = nodes[0].ip or (socket.gethostname() if nodes[0].main else nodes[0].name)
        part = folder_of(self.folder, queued.job.key, queued.attempt, 0)
        os.makedirs(part, exist_ok=True)
        write_meeting(os.path.join(part, MEETING), keys, host, free)

    def adopt(self, queued: QueuedJob) -> SshJob:
        job = SshJob(queued, self.folder, self._nodes(queued.handle), self._shared)
        self._active.append(job)
        return job

    def _nodes(self, handle: str) -> list[SshNode]:
        by_name = {node.name: node for node in self.nodes}
        return [by_name[name] for name in handle.split("+")]

    def look(self, active: Sequence[RunningJob]) -> None:
        """Jobs look at their nodes themselves."""
        for job in self._active:
            for node, why in job.unreachable.items():
                self._is_down(node, why)
        self._active = [each for each in self._active if not each.over]

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        tried = QueuedJob(job, before.attempt, before.time, before.handle)
        return SshJob(tried, self.folder, self._nodes(before.handle), self._shared).goes_on()


def _with_paths(words: Sequence[str]) -> list[str]:
    """A command that finds there what it finds here."""
    paths = os.environ.get("PYTHONPATH")
    return [*(["env", f"PYTHONPATH={paths}"] if paths else []), *words]


def _quiet(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(argv, stdin=null, stdout=pipe, stderr=null)
