"""The machines in ``system.nodes`` of a suite: commands and copies over OpenSSH, their hardware and clocks.

Host keys are checked, and no password is prompted for (``BatchMode``): ``ssh NODE true`` has to work by hand.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...bus.clocks import QUESTIONS, ClockBounds
from ...errors import UserError
from ..plan.machine import NodeFacts

CONNECT = 10
"""Seconds that a connection may take to be made."""
OPTIONS = (
    *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT}"),
    *("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"),
)
KEYS = ("name", "ip", "hostname", "user", "port", "main", "sshkey")


@dataclass(frozen=True)
class SshNode:
    """One machine of ``system.nodes``."""

    name: str
    ip: str = ""
    user: str = ""
    port: int | None = None
    main: bool = False
    """Whether the suite is started on it: commands for it need no connection."""
    sshkey: str = ""
    """The path of a private key; empty for those that ssh finds by itself."""

    def ssh(self) -> list[str]:
        """The command for a connection, without its destination."""
        words = ["ssh", *OPTIONS]
        words += ["-p", str(self.port)] if self.port else []
        return words + (["-i", self.sshkey, "-o", "IdentitiesOnly=yes"] if self.sshkey else [])

    @property
    def destination(self) -> str:
        """``HOST`` or ``USER@HOST``."""
        host = self.ip or self.name
        return f"{self.user}@{host}" if self.user else host

    def argv(self, script: str) -> list[str]:
        """The command that runs ``script`` in a shell there."""
        if self.main:
            return ["sh", "-c", script]
        return [*self.ssh(), self.destination, f"exec sh -c {shlex.quote(script)}"]

    def copy_argv(
        self, sources: Iterable[str], back: bool = False, options: Sequence[str] = ()
    ) -> list[str]:
        """The rsync that copies paths to the same paths there, or with ``back`` from there to here."""
        rsync = ["rsync", "-a", "--relative", "--no-implied-dirs", "--protect-args"]
        rsync += ["--rsh", shlex.join(self.ssh()), *options]
        if back:
            return [*rsync, *(f"{self.destination}:{path}" for path in sources), "/"]
        return [*rsync, *sources, f"{self.destination}:/"]


def nodes_of(system: Mapping[str, Any]) -> list[SshNode]:
    """The nodes in ``system.nodes``; those without a key of their own have that of ``system.sshkey``.

    Raises UserError for mistakes in them, and for a key that cannot be used.
    """
    listed = system.get("nodes")
    if not isinstance(listed, list) or not listed:
        raise UserError(
            "--engine ssh needs system.nodes: a list of machines, such as {name: a, ip: 10.0.0.1, user: me}"
        )
    nodes = [_node_of(given, number, system) for number, given in enumerate(listed)]
    names = [node.name for node in nodes]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"system.nodes: two nodes are called {twice[0]}")
    if sum(node.main for node in nodes) > 1:
        raise UserError("system.nodes: main is true of more than one node")
    return nodes


def _node_of(given: Any, number: int, system: Mapping[str, Any]) -> SshNode:
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
    """Raise UserError if ssh would not use the private key ``path``, which ``at`` names."""
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError as error:
        raise UserError(f"{at}: {path}: {error.strerror}") from None
    if mode & 0o077:
        raise UserError(
            f"{at}: {path} can be read by others (its mode is {mode:o}): chmod 600 {shlex.quote(path)}"
        )


# Prints cores, KiB of memory, and for each GPU a line "NAME, MIB"; on stderr what is missing or broken.
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
    """The hardware of each usable node, and for each other node the reason; all nodes at the same time."""
    usable: dict[SshNode, NodeFacts] = {}
    unusable: dict[SshNode, str] = {}
    for node, code, text, problem in _run_all({node: node.argv(LOOK) for node in nodes}):
        lines = text.splitlines()
        # The line about a driver of GPUs that does not work, if there is one.
        driver = next(
            filter(lambda line: line.startswith("nvidia-smi: "), problem.splitlines()), ""
        )
        if code or len(lines) < 2:
            unusable[node] = _last_line(problem) or f"exit code {code}"
        elif "no rsync" in problem and not node.main:
            unusable[node] = "rsync is not installed there"
        elif driver and "No devices were found" not in driver:
            unusable[node] = driver
        else:
            usable[node] = facts_of(lines)
    return usable, unusable


def facts_of(lines: Sequence[str]) -> NodeFacts:
    """The hardware according to the output of :data:`LOOK`."""
    gpus = [line.rpartition(", ") for line in lines[2:]]
    devices = tuple((name, int(size) << 20) for name, _, size in gpus if size.isdecimal())
    return NodeFacts(int(lines[0]), int(lines[1]) << 10, devices)


def clock_of(node: SshNode) -> ClockBounds | None:
    """How far the clock of a node is ahead of ours; None if it cannot be measured.

    For each of several questions over one connection, the node's answer lies between our question and our
    receipt of it; the bounds are the closest of all.
    """
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
                # No number: the connection failed, or this date is not GNU's, and does not know %N.
                if not theirs.replace(".", "", 1).isdecimal():
                    return None
            except OSError:
                return None
            low, high = max(low, float(theirs) - after), min(high, float(theirs) - before)
    return ClockBounds(low, high)


def _start(argv: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command. Raises UserError if there is no such command."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    except FileNotFoundError as error:
        raise UserError(f"there is no command {error.filename} here") from None


def call(argv: Sequence[str]) -> str:
    """What a command prints. Raises UserError, with its last line on stderr, if it fails."""
    process = _start(argv)
    text, problem = process.communicate()
    if process.returncode:
        raise UserError(
            _last_line(problem) or f"{argv[0]} ended with exit code {process.returncode}"
        )
    return text


def call_all(argvs: Mapping[SshNode, Sequence[str]]) -> dict[SshNode, str]:
    """Run a command for each node, all at once; for those where it fails, its last line on stderr."""
    done = _run_all(argvs)
    return {node: _last_line(text) or f"exit code {code}" for node, code, _, text in done if code}


def _run_all(
    argvs: Mapping[SshNode, Sequence[str]],
) -> Iterator[tuple[SshNode, int, str, str]]:
    """Run a command for each node, all at once; yields exit code, stdout and stderr of each."""
    running = {node: _start(argv) for node, argv in argvs.items()}
    for node, process in running.items():
        text, problem = process.communicate()
        yield node, process.returncode, text, problem


def _last_line(text: str) -> str:
    """The last line of ``text``, but ssh's own before rsync's, which only reports that ssh has failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith("rsync")]
    return (own or lines or [""])[-1]
