"""Machines that OpenSSH reaches, as ``system.nodes`` of a suite has them: looked at, and given files.

Host keys are checked and nothing is typed (``BatchMode``): what ``ssh NODE true`` does by hand has to work.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...bus.clocks import QUESTIONS, ClockBounds
from ...errors import UserError
from ..plan.machine import NodeFacts

PATIENT = 10
"""Seconds in which a connection has to come about."""
OPTIONS = (
    *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={PATIENT}"),
    *("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"),
)
KEYS = ("name", "ip", "hostname", "user", "port", "main", "sshkey")


@dataclass(frozen=True)
class SshNode:
    """One machine; the main one is that which the suite is started on, and needs no connection."""

    name: str
    ip: str = ""
    user: str = ""
    port: int | None = None
    main: bool = False
    sshkey: str = ""

    def ssh(self) -> list[str]:
        """The words of a connection, without its destination."""
        words = ["ssh", *OPTIONS]
        words += ["-p", str(self.port)] if self.port else []
        return words + (["-i", self.sshkey, "-o", "IdentitiesOnly=yes"] if self.sshkey else [])

    @property
    def destination(self) -> str:
        host = self.ip or self.name
        return f"{self.user}@{host}" if self.user else host

    def argv(self, script: str) -> list[str]:
        """What runs a shell's ``script`` there."""
        if self.main:
            return ["sh", "-c", script]
        return [*self.ssh(), self.destination, f"exec sh -c {shlex.quote(script)}"]

    def copy_argv(
        self, sources: Iterable[str], back: bool = False, options: Sequence[str] = ()
    ) -> list[str]:
        """What copies paths there, or back from there, to where they are here."""
        rsync = [
            "rsync",
            "-a",
            "--relative",
            "--no-implied-dirs",
            "--protect-args",
            "--rsh",
            shlex.join(self.ssh()),
            *options,
        ]
        if back:
            return [*rsync, *(f"{self.destination}:{path}" for path in sources), "/"]
        return [*rsync, *sources, f"{self.destination}:/"]

    def as_json(self) -> dict[str, Any]:
        """For a plan."""
        return asdict(self)


def nodes_of(system: Mapping[str, Any]) -> list[SshNode]:
    """``system.nodes``, with the key that ``system.sshkey`` names. Raises UserError for mistakes in them."""
    listed = system.get("nodes")
    if not isinstance(listed, list) or not listed:
        raise UserError(
            "--engine ssh needs system.nodes: a list of machines, such as {name: a, ip: 10.0.0.1, user: me}"
        )
    nodes = [_node(each, number, system) for number, each in enumerate(listed)]
    names = [each.name for each in nodes]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"system.nodes: two nodes are called {twice[0]}")
    if sum(each.main for each in nodes) > 1:
        raise UserError("system.nodes: main is true of more than one node")
    return nodes


def _node(given: Any, number: int, system: Mapping[str, Any]) -> SshNode:
    at = f"system.nodes.{number}"
    if not isinstance(given, dict) or not (given.get("name") or given.get("ip")):
        raise UserError(
            f"{at}: a node has a name, and an ip where its name is no host's; not {given!r}"
        )
    if unknown := [key for key in given if key not in KEYS]:
        raise UserError(f"{at}: no key {unknown[0]!r}; there is {', '.join(KEYS)}")
    port = given.get("port")
    if port is not None and not (isinstance(port, int) and 0 < port < 65536):
        raise UserError(f"{at}.port: a number between 1 and 65535, not {port!r}")
    key = os.path.expanduser(str(given.get("sshkey") or system.get("sshkey") or ""))
    main = bool(given.get("main"))
    if key and not main:
        _check_key(key, f"{at}.sshkey")
    address = str(given.get("ip") or given.get("hostname") or "")
    name = str(given.get("name") or address)
    return SshNode(name, address, str(given.get("user") or ""), port, main, key)


def _check_key(path: str, at: str) -> None:
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError as error:
        raise UserError(f"{at}: {path}: {error.strerror}") from None
    if mode & 0o077:
        raise UserError(
            f"{at}: {path} can be read by others (its mode is {mode:o}): chmod 600 {shlex.quote(path)}"
        )


LOOK = """
nproc
awk '/^MemTotal/ {print $2}' /proc/meminfo
command -v rsync > /dev/null || echo 'no rsync' >&2
if command -v nvidia-smi > /dev/null; then
    gpus=$(nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits 2>&1) \
        && echo "$gpus" || echo "nvidia-smi: $gpus" >&2
fi
grep -ls 'simd_count [1-9]' /sys/class/kfd/kfd/topology/nodes/*/properties | sed 's/.*/AMD, 0/'
true
"""


def facts(nodes: Sequence[SshNode]) -> tuple[dict[SshNode, NodeFacts], dict[SshNode, str]]:
    """What each node has, and of those that cannot be used why; all are looked at at once."""
    running = {node: _start(node.argv(LOOK)) for node in nodes}
    found: dict[SshNode, NodeFacts] = {}
    lost: dict[SshNode, str] = {}
    for node, process in running.items():
        text, problem = process.communicate()
        lines = text.splitlines()
        if process.returncode or len(lines) < 2:
            lost[node] = _last(problem) or f"exit code {process.returncode}"
        elif "no rsync" in problem and not node.main:
            lost[node] = "rsync is not installed there"
        elif (driver := _of_driver(problem)) and "No devices were found" not in driver:
            lost[node] = driver
        else:
            found[node] = facts_of(lines)
    return found, lost


def _of_driver(problem: str) -> str:
    """What a driver of GPUs that does not work says of itself."""
    return next((line for line in problem.splitlines() if line.startswith("nvidia-smi: ")), "")


def facts_of(lines: Sequence[str]) -> NodeFacts:
    """What :data:`LOOK` has printed."""
    gpus = [line.rpartition(", ") for line in lines[2:]]
    devices = tuple((name, int(size) << 20) for name, _, size in gpus if size.isdecimal())
    return NodeFacts(int(lines[0]), int(lines[1]) << 10, devices)


def clock_of(node: SshNode) -> ClockBounds | None:
    """How far the clock of a node is ahead of ours; None where it does not tell."""
    if node.main:
        return ClockBounds(0.0, 0.0)
    low, high, pipe = float("-inf"), float("inf"), subprocess.PIPE
    script = "while read -r line; do date +%s.%N; done"
    with subprocess.Popen(
        node.argv(script), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(QUESTIONS):
            before = time.time()
            try:
                process.stdin.write("\n")
                theirs = process.stdout.readline().strip()
                after = time.time()
                if not theirs.replace(
                    ".", "", 1
                ).isdecimal():  # %N is GNU's: another date does not know it
                    return None
            except OSError:
                return None
            low, high = max(low, float(theirs) - after), min(high, float(theirs) - before)
    return ClockBounds(low, high)


def _start(argv: Sequence[str]) -> subprocess.Popen[str]:
    """Raises UserError where there is no such command."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    except FileNotFoundError as error:
        raise UserError(f"there is no command {error.filename} here") from None


def call(argv: Sequence[str]) -> str:
    """What a command prints. Raises UserError with its last line where it fails."""
    process = _start(argv)
    text, problem = process.communicate()
    if process.returncode:
        raise UserError(_last(problem) or f"{argv[0]} ended with exit code {process.returncode}")
    return text


def call_all(argvs: Mapping[SshNode, Sequence[str]]) -> dict[SshNode, str]:
    """Run a command for each node, all at once; of those that fail the last line that it printed."""
    running = {node: _start(argv) for node, argv in argvs.items()}
    failed = {}
    for node, process in running.items():
        _, problem = process.communicate()
        if process.returncode:
            failed[node] = _last(problem) or f"exit code {process.returncode}"
    return failed


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("rsync")]  # it repeats that ssh has failed
    return (own or lines or [""])[-1]
