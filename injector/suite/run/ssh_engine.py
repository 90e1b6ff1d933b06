"""The engine of a few machines without a scheduler, over OpenSSH: each runs the part of one job at a time.

Nodes that see the suite's folder share it; to the others rsync copies what they need, and from them, every
few seconds, what their parts write. A part has its process id in the file ``pid`` of its folder, and goes on
when the connection, or the suite, ends::

    open     find out which nodes share the folder; copy sources; try each environment
    start    copy plan and journal; mkdir, setsid machine_part ... &
    look     ssh: does the part live?  then rsync its files here; every 2 s, one process a node
    end      ssh: kill -TERM
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ...bus.clocks import ClockBounds
from ...errors import UserError
from ..plan import jobs as plans
from ..plan.jobs import Job, Plan
from ..plan.machine import Machine, node_devices
from . import journal, ports
from .engine import JobEngine, Opened, QueuedJob, RunningJob
from .journal import QUEUED, JobRecord
from .machine_part import MEETING, folder_of, meeting_keys, write_meeting
from .processes import CannotStartError
from .progress import print_through
from .remote_job import OUTPUT, ApartJob, not_copied, sources_of
from .ssh_nodes import SshNode, call, call_all, clock_of, facts, nodes_of

NAME = "ssh"
LOOK = 2.0
"""Seconds between two looks at a node."""
LOST = 60.0
"""Seconds without a connection to a node after which the jobs on it are given up."""
UNCOPIED = 98
"""The exit code of a look that reached a node, but could not copy its files here."""
PID = "pid"
"""The file, in the folder of a part, with its process id."""


def machine_of(system: Mapping[str, Any], option: str | None) -> Machine:
    """The machine to plan for: what each usable node has at least, with the devices that ``option`` names.

    ``option`` is the value of ``--devices``. Prints which nodes cannot be used. Raises UserError if none can,
    or none has such devices.
    """
    nodes = nodes_of(system)
    usable, unusable = facts(nodes)
    for node, why in unusable.items():
        text = f"inject suite: node {node.name} is left out: {node.destination}: {why}\n"
        print_through(sys.stderr, text)
    if not usable:
        raise UserError(f"none of the {len(nodes)} nodes of system.nodes can be reached")
    cpus = min(node.cpus for node in usable.values())
    fewest_gpus = min((node.gpus for node in usable.values()), key=len)
    return Machine(
        node_devices(option, fewest_gpus, "a node"),
        tuple(range(cpus)),
        cpus,
        min(node.memory for node in usable.values()),
        ", ".join(node.name for node in usable),
        len(usable),
        {"name": NAME, "nodes": [asdict(node) for node in usable]},
        {node.name: found for node, found in usable.items()},
    )


class SshJob(ApartJob):
    """One job, whose machine ``n`` is ``nodes[n]``; those in ``shared`` see the suite's folder."""

    def __init__(
        self, queued: QueuedJob, folder: str, nodes: Sequence[SshNode], shared: set[SshNode]
    ) -> None:
        self.nodes = nodes
        self._shared = shared
        self.unreachable: dict[SshNode, str] = {}
        """The nodes with which it was lost, and why."""
        self._signals: list[subprocess.Popen[bytes]] = []
        """Keeps the processes that send signals, since Python warns of one that is dropped while it runs."""
        self._looks: dict[int, subprocess.Popen[bytes]] = {}
        """By machine, the look at it that is under way."""
        self._complete: set[int] = set()
        """The machines whose parts have ended and whose files are all here."""
        self._uncopied: dict[int, float] = {}
        """By machine, since when (monotonic) the files of its part, which has ended, cannot be copied."""
        self._reached = dict.fromkeys(range(len(nodes)), time.monotonic())
        """By machine, when (monotonic) it was last reached."""
        super().__init__(queued, folder)
        self._in(0.0, self._look)

    @property
    def handle(self) -> str:
        return "+".join(node.name for node in self.nodes)

    # --- looking -----------------------------------------------------------------------------------

    def _look(self) -> None:
        """Take the results of looks that are done, and start a new look at each node that has none."""
        for machine in range(len(self.nodes)):
            process = self._looks.get(machine)
            if process is None or process.poll() is not None:
                if process is not None:
                    self._looked(machine, process.returncode)
                if not self.over:
                    self._looks[machine] = self._start_look(machine)
        self._in(LOOK, self._look)

    def _start_look(self, machine: int) -> subprocess.Popen[bytes]:
        """Start a process that prints whether a part lives, and then copies its files here.

        In this order, so that all files of a part which was found ended are copied. It exits with 0, with
        :data:`UNCOPIED` and the reason on stdout, or with any other code if the node was not reached.
        """
        node = self.nodes[machine]
        script = shlex.join(node.argv(f"{self._living(machine)} && echo lives; true"))
        if node not in self._shared:
            paths = [self.part(machine), *self.runs(machine)]
            copy = shlex.join(node.copy_argv(paths, back=True, options=["--ignore-missing-args"]))
            script = f"alive=$({script}) || exit; echo $alive"
            script += (
                f'; problem=$({copy} 2>&1) || {{ echo "$problem" | head -1; exit {UNCOPIED}; }}'
            )
        return _start_quiet(["sh", "-c", script])

    def has_all(self, machine: int) -> bool:
        return machine in self._complete or self.nodes[machine] in self._shared

    def _living(self, machine: int) -> str:
        """A shell's condition, for the node: whether the part lives; its process id is then in ``$pid``."""
        # With the command line, since the number may belong to another process by now.
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
            self._complete.add(machine)
            self.read_parts()
            if not self.over and not self.is_over(machine):
                self.part_lost(machine, node.name)

    def _not_copied(self, machine: int, node: SshNode, why: str) -> None:
        """Give the job up if the files of a part that has ended could not be copied for :data:`LOST`."""
        since = self._uncopied.setdefault(machine, time.monotonic())
        if time.monotonic() - since > LOST:
            places = " and ".join([*self.runs(machine), self.part(machine)])
            text = f"node {node.name}: its records could not be copied here: {why}"
            self.lost(f"{text}; they are in {places} there")

    def clock(self, machine: int) -> ClockBounds | None:
        return clock_of(self.nodes[machine])

    def goes_on(self) -> bool:
        """Whether each part lives, has recorded its end, or cannot be looked at now."""
        return all(map(self._part_goes_on, range(len(self.nodes))))

    def _part_goes_on(self, machine: int) -> bool:
        # Twice: a part that was being started when the suite died may have its pid file at the second look.
        text, _ = self._start_look(machine).communicate()
        lived = b"lives" in text
        text, _ = (look := self._start_look(machine)).communicate()
        if look.returncode == 0 and b"lives" not in text:
            self._complete.add(machine)
        self.read_parts()
        return lived or b"lives" in text or look.returncode != 0 or self.is_over(machine)

    # --- ending ------------------------------------------------------------------------------------

    def terminate(self) -> None:
        for machine, node in enumerate(self.nodes):
            script = f"{self._living(machine)} && kill -TERM $pid"
            self._signals.append(_start_quiet(node.argv(script)))

    # Of two signals to a part, the second ends its programs at once.
    kill = terminate


class SshEngine(JobEngine):
    """Runs jobs of ``plan``; ``folder``, the suite's, has the same path on each node."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self.plan = plan
        self.folder = folder
        self.nodes = [SshNode(**each) for each in plan.machine["engine"]["nodes"]]
        self.at_once = len(self.nodes)
        self._shared: set[SshNode] = {node for node in self.nodes if node.main}
        self._active: list[SshJob] = []
        self._down: dict[SshNode, str] = {}
        """The nodes that are no longer used, and why."""

    # --- files -------------------------------------------------------------------------------------

    def open(self) -> None:
        """Copy sources, environments and data to the nodes. Raises UserError if no node can be used."""
        self._find_shared()
        apart = [node for node in self.nodes if node not in self._shared]
        sources = sources_of(self.plan)
        options = [f"--exclude={each}" for each in not_copied(self.plan, self.folder)]
        copies = {node: node.copy_argv(sources, options=options) for node in apart}
        for node, why in call_all(copies).items():
            self._set_down(node, f"its files could not be copied: {why}")
        self._try_pythons()
        if len(self._down) == len(self.nodes):
            raise UserError(f"none of the {len(self.nodes)} nodes can be used")

    def _try_pythons(self) -> None:
        """Set nodes down on which an environment that is installed here does not run."""
        pythons = [process.command[0] for job in self.plan.jobs for process in job.processes]
        for python in dict.fromkeys(path for path in pythons if os.access(path, os.X_OK)):
            # For no port it does nothing, but imports this package.
            script = shlex.join(_with_pythonpath([python, "-m", ports.__name__, "0"]))
            left = [node for node in self.nodes if node not in self._down]
            for node, why in call_all({node: node.argv(script) for node in left}).items():
                self._set_down(node, f"{python} does not run inject there: {why}")

    def _find_shared(self) -> None:
        """Find out which nodes see the suite's folder: those on which a new file in it is there at once."""
        mark = os.path.join(self.folder, f".here.{os.getpid()}")
        with open(mark, "x"):
            pass
        try:
            test = f"test -e {shlex.quote(mark)}"
            missing = call_all({node: node.argv(test) for node in self.nodes})
            self._shared |= {node for node in self.nodes if node not in missing}
        finally:
            os.unlink(mark)

    def _set_down(self, node: SshNode, why: str) -> None:
        if node not in self._down:
            self._down[node] = why
            print_through(sys.stderr, f"inject suite: node {node.name} is no longer used: {why}\n")

    # --- jobs --------------------------------------------------------------------------------------

    def _usable(self, job: Job) -> list[SshNode]:
        """The nodes that have what a job requires and are not down."""
        able = [node for node in self.nodes if not job.nodes or node.name in job.nodes]
        return [node for node in able if node not in self._down]

    def _free(self, job: Job) -> list[SshNode]:
        """Those of them that run no job."""
        busy = {node for job in self._active if not job.over for node in job.nodes}
        return [node for node in self._usable(job) if node not in busy]

    def has_room(self, job: Job) -> bool:
        # Only nodes that answer count. Too few usable ones are "room", too: start then fails with the reason.
        while len(free := self._free(job)[: job.machines]) == job.machines:
            lost = call_all({node: node.argv("true") for node in free})
            if not lost:
                return True
            for node, why in lost.items():
                self._set_down(node, why)
        return len(self._usable(job)) < job.machines

    def start(self, batch: Sequence[QueuedJob], opened: Opened) -> list[SshJob]:
        queued = batch[0]
        nodes = self._free(queued.job)[: queued.job.machines]
        if len(nodes) < queued.job.machines:
            down = "; ".join(f"{node.name}: {why}" for node, why in self._down.items())
            raise CannotStartError(
                f"it needs {queued.job.machines} nodes, {len(nodes)} can be used ({down})"
            )
        self._write_meeting(queued, nodes)
        job = SshJob(queued, self.folder, nodes, self._shared)
        opened(queued, QUEUED, handle=job.handle)
        for machine, node in enumerate(nodes):
            self._start_part(job, machine, node)
        self._active.append(job)
        return [job]

    def _start_part(self, job: SshJob, machine: int, node: SshNode) -> None:
        """Start a machine's part on its node; if that fails, end the others. Raises CannotStartError."""
        part = shlex.quote(job.part(machine))
        command = shlex.join(_with_pythonpath(job.words(machine)))
        script = f"mkdir -p {part} && cd {part} || exit"
        script += f"; setsid {command} >> {OUTPUT} 2>&1 < /dev/null & echo $! > {PID}"
        try:
            if node not in self._shared:
                files = [os.path.join(self.folder, name) for name in (plans.FILE, journal.FILE)]
                meeting = os.path.join(job.part(0), MEETING)
                files += [meeting] if os.path.exists(meeting) else []
                self._call(node, node.copy_argv(files))
            self._call(node, node.argv(script))
        except CannotStartError:
            job.terminate()
            raise

    def _call(self, node: SshNode, argv: Sequence[str]) -> str:
        """What a command for a node prints. Raises CannotStartError if it fails; the node is down then."""
        try:
            return call(argv)
        except UserError as error:
            self._set_down(node, str(error))
            raise CannotStartError(f"node {node.name} ({node.destination}): {error}") from None

    def _write_meeting(self, queued: QueuedJob, nodes: Sequence[SshNode]) -> None:
        """Write where the ranks of several machines meet: at free ports of the first node.

        Raises CannotStartError if that node does not answer.
        """
        if not (keys := meeting_keys(queued.job.processes)):
            return
        words = [queued.job.processes[0].command[0], "-m", ports.__name__, str(len(keys))]
        free = self._call(nodes[0], nodes[0].argv(shlex.join(words))).split()
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
        """Set nodes down that a job was lost with; jobs look at their nodes by themselves."""
        for job in self._active:
            for node, why in job.unreachable.items():
                self._set_down(node, why)
        self._active = [job for job in self._active if not job.over]

    def goes_on(self, job: Job, before: JobRecord, dry: bool) -> bool:
        tried = QueuedJob(job, before.attempt, before.time, before.handle)
        return SshJob(tried, self.folder, self._nodes(before.handle), self._shared).goes_on()


def _with_pythonpath(words: Sequence[str]) -> list[str]:
    """The command ``words`` with our ``PYTHONPATH``, which ssh does not pass on."""
    paths = os.environ.get("PYTHONPATH")
    return [*(["env", f"PYTHONPATH={paths}"] if paths else []), *words]


def _start_quiet(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command whose stdout is kept and whose stderr is not."""
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(argv, stdin=null, stdout=pipe, stderr=null)
