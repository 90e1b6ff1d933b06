"""``mpirun`` over the machines of a job: ``python -I -S mpi_start.py DEVICES MACHINES mpirun … PROGRAM …``.

The part of each machine runs that, with DEVICES ranks on each of MACHINES machines. On machine 0 it becomes
``mpirun``; on the others it waits, and starts what mpirun would have ssh start there: a daemon (Open MPI's
``orted``, Hydra's proxy), which starts the ranks. So no machine needs ssh to another, and ranks descend from
the part of their machine and have its variables::

    machine 0                                                         machine 1
    mpirun -- forks --> agent (instead of ssh) -- door --> server --> StartingMachine -- forks --> daemon
                        agent <-- the daemon's exit code -- server <--

``agent`` is this module again, ``door`` a Unix socket of ``server``, a process that machine 0 forks before it
becomes mpirun. Variables make Open MPI and Hydra (MPICH, Intel MPI) use these hosts and this agent.

Machines connect to a port of machine 0. Their first message, and each command, is signed with a secret of the
job and contains a random mark of the machine, so that no other process can take a machine's place or have a
command started. Standard library only: it runs isolated, and is no process of the program.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

MEETS_AT, KEY, MACHINE, NAME = (
    f"INJECT_MPI_{each}" for each in ("MEETING", "SECRET", "MACHINE", "NAME")
)
"""The variables that a machine's part sets for this module."""
AGENT, DOOR = "agent", "door"
TOGETHER = 120.0
"""Seconds that all machines have to connect."""
PATIENCE = 10.0
"""Seconds that a new connection has for its first message."""
GRACE = 5.0
"""Seconds that the processes on a machine have to end by themselves, once mpirun has ended."""
LOOK = 0.1
"""Seconds between two looks whether mpirun still runs."""
LOST = 255
"""The exit code of ssh when it loses its connection."""
SCHEDULERS = "^slurm,tm,lsf,gridengine,alps"
"""The schedulers that Open MPI is not to take hosts from; ``^`` excludes."""


class Link:
    """A connection to another process, for messages of one line of JSON each."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb")
        self._lock = threading.Lock()

    def send(self, **message: object) -> None:
        """Send a message; any thread may. Raises OSError."""
        with self._lock:
            self._sock.sendall(json.dumps(message).encode() + b"\n")

    def messages(self) -> Iterator[dict[str, Any]]:
        """The messages that come, until the connection is closed or lost, or something else comes."""
        with suppress(OSError, ValueError):
            for line in self._file:
                yield json.loads(line)

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def signed(secret: str, *words: object) -> str:
    """A signature of ``words`` that needs the secret: HMAC-SHA256, in hexadecimal."""
    text = json.dumps(words).encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def _keep_alive(sock: socket.socket) -> None:
    """Have the kernel notice within half a minute that the other machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


# --- machine 0 -------------------------------------------------------------------------------------


class Machines:
    """The other machines of a job of ``count``, as machine 0 sees them."""

    def __init__(self, secret: str, count: int) -> None:
        self._secret = secret
        self._count = count
        self.links: dict[int, tuple[str, str, Link]] = {}
        """By machine: its name, its mark, which signed commands to it have to contain, and the connection."""
        self._agents: dict[str, tuple[int, Link]] = {}
        """By the number of a command that runs: its machine, and the agent that waits for its end."""
        self._lock = threading.Lock()
        """Guards ``_agents``."""

    def gather(self, listener: socket.socket) -> list[str]:
        """Wait until all machines have connected; their names, ours first. Raises TimeoutError."""
        end = time.monotonic() + TOGETHER
        while missing := [n for n in range(1, self._count) if n not in self.links]:
            listener.settimeout(max(0.01, end - time.monotonic()))
            try:
                sock, _ = listener.accept()
                self._greet(sock)
            except TimeoutError:
                if time.monotonic() < end:
                    continue
                text = f"machine {', '.join(map(str, missing))} did not come within {TOGETHER:g} s"
                raise TimeoutError(text) from None
        return self._names()

    def _greet(self, sock: socket.socket) -> None:
        """Take a new connection for that of a machine if its first message has the machine's signature."""
        sock.settimeout(PATIENCE)
        link = Link(sock)
        hello = next(link.messages(), {})
        sock.settimeout(None)
        machine, name, mark = (hello.get(each) for each in ("machine", "name", "mark"))
        expected = signed(self._secret, "machine", machine, name, mark)
        if not hmac.compare_digest(expected, str(hello.get("signed"))):
            link.close()
            return
        _keep_alive(sock)
        self.links[int(str(machine))] = str(name), str(mark), link

    def _names(self) -> list[str]:
        """A name for each machine; one that another machine has already gets the machine's number."""
        names = [os.environ[NAME]]
        for machine in range(1, self._count):
            name, mark, link = self.links[machine]
            if name in names:
                name = f"{name}-{machine}"
                self.links[machine] = name, mark, link
            names.append(name)
        return names

    def listen(self) -> None:
        """Answer agents, from now on, when their commands end on the other machines."""
        for machine, (_, _, link) in self.links.items():
            threading.Thread(target=self._listen, args=(machine, link), daemon=True).start()

    def _listen(self, machine: int, link: Link) -> None:
        for message in link.messages():
            self._answer(str(message.get("run")), message.get("code"))
        with self._lock:
            lost = [run for run, (where, _) in self._agents.items() if where == machine]
        for run in lost:
            self._answer(run, LOST)

    def _answer(self, run: str, code: object) -> None:
        """Send the exit code of the command ``run`` to its agent."""
        with self._lock:
            _, agent = self._agents.pop(run, (0, None))
        if agent is not None:
            with suppress(OSError):
                agent.send(code=code)
            agent.close()

    def take(self, agent: Link) -> None:
        """Have the command of an agent started on its host; one for machine 0, the agent runs itself."""
        request = next(agent.messages(), {})
        host, command = str(request.get("host")), str(request.get("command"))
        machines = [n for n, (name, _, _) in self.links.items() if name == host]
        if not machines:
            with suppress(OSError):
                agent.send(here=True)
            agent.close()
            return
        run = os.urandom(8).hex()
        _, mark, link = self.links[machines[0]]
        with self._lock:
            self._agents[run] = machines[0], agent
        try:
            folder = os.getcwd()
            sign = signed(self._secret, "run", mark, run, command, folder)
            link.send(run=run, command=command, folder=folder, signed=sign)
        except OSError:
            self._answer(run, LOST)


def begin(devices: int, count: int, words: Sequence[str]) -> int:
    """Become the mpirun of ``words``, once the other machines have connected; an exit code if that fails."""
    program = find_command(words[0])
    if program is None:
        print(
            f"inject suite: there is no command {words[0]} on {os.environ[NAME]}", file=sys.stderr
        )
        return 127
    machines = Machines(os.environ[KEY], count)
    port = int(os.environ[MEETS_AT].rpartition(":")[2])
    with socket.create_server(("", port), backlog=count) as listener:
        try:
            names = machines.gather(listener)
        except TimeoutError as error:
            print(f"inject suite: {words[0]} was not started: {error}", file=sys.stderr)
            return 1
    # The path of a Unix socket may have 107 bytes.
    place = "/tmp" if len(tempfile.gettempdir()) > 70 else None
    folder = tempfile.mkdtemp(prefix="inject-mpi-", dir=place)
    variables = variables_for(folder, names, devices)
    door = socket.socket(socket.AF_UNIX)
    door.bind(os.path.join(folder, DOOR))
    door.listen(count)
    mpirun = os.getpid()
    if os.fork() == 0:
        _serve(machines, door, mpirun, folder)
        os._exit(0)
    os.execve(program, [program, *words[1:]], {**variables, **clean_environment()})
    return 127


def find_command(name: str) -> str | None:
    """The path of MPI's command ``name``: of our Python's environment, else of the machine."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return shutil.which(beside) or shutil.which(name)


def clean_environment() -> dict[str, str]:
    """Our environment, without this module's variables and those by which a process is a rank of a scheduler.

    With the latter, mpirun or a daemon would take itself for a rank that ``srun`` has started.
    """
    own = (MEETS_AT, KEY, MACHINE, NAME)
    return {
        name: text
        for name, text in os.environ.items()
        if name not in own
        and (not name.startswith(("PMI_", "PMI2_", "PMIX_")) or name.startswith("PMIX_MCA_"))
    }


def variables_for(folder: str, names: Sequence[str], devices: int) -> dict[str, str]:
    """The variables that make mpirun start ranks on the hosts ``names``, with our agent instead of ssh.

    The agent and the lists of hosts, with ``devices`` ranks each, are written into ``folder``.
    """
    agent, hosts, hydra = (os.path.join(folder, name) for name in ("agent", "hosts", "hydra"))
    words = shlex.join([sys.executable, "-I", "-S", os.path.abspath(__file__), AGENT, folder])
    with open(agent, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {words} "$@"\n')
    os.chmod(agent, 0o700)
    for path, form in ((hosts, "{} slots={}\n"), (hydra, "{}:{}\n")):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(form.format(name, devices) for name in names)
    variables = {
        # By default Hydra gives all ranks the variables of machine 0.
        "HYDRA_ENV": "none",
        "HYDRA_HOST_FILE": hydra,
        "I_MPI_HYDRA_HOST_FILE": hydra,
    }
    for prefix in ("HYDRA_LAUNCHER", "I_MPI_HYDRA_BOOTSTRAP"):
        variables |= {prefix: "ssh", f"{prefix}_EXEC": agent}
    if (interface := os.environ.get("GLOO_SOCKET_IFNAME", "lo")) != "lo":
        variables["HYDRA_IFACE"] = interface
    # Open MPI 4, and 5. Without no_tree_spawn, daemons start further daemons, on machines without an agent.
    for prefix, way, base in (("OMPI", "rsh", "orte"), ("PRTE", "ssh", "prte")):
        variables |= {
            f"{prefix}_MCA_plm": way,
            f"{prefix}_MCA_plm_{way}_agent": agent,
            f"{prefix}_MCA_plm_{way}_no_tree_spawn": "1",
            f"{prefix}_MCA_ras": SCHEDULERS,
            f"{prefix}_MCA_{base}_default_hostfile": hosts,
        }
    return {
        **variables,
        # By default each rank is bound to one core, with all of its loaders and threads.
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }


def _serve(machines: Machines, door: socket.socket, mpirun: int, folder: str) -> None:
    """Serve agents until the process ``mpirun``, which has forked this one, has ended."""
    # mpirun gets these signals as well, and ends its ranks; their exit codes still have to reach it.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    machines.listen()
    door.settimeout(LOOK)
    while os.getppid() == mpirun:
        try:
            sock, _ = door.accept()
        except TimeoutError:
            continue
        sock.settimeout(None)
        threading.Thread(target=machines.take, args=(Link(sock),), daemon=True).start()
    for _, _, link in machines.links.values():
        link.close()
    shutil.rmtree(folder, ignore_errors=True)


def agent(folder: str, words: Sequence[str]) -> int:
    """Called as ``ssh [OPTIONS] HOST COMMAND…``: have the command started there; its exit code."""
    words = list(words)
    while words and words[0].startswith("-"):
        words.pop(0)
    host, command = words[0], " ".join(words[1:])
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.path.join(folder, DOOR))
    link = Link(sock)
    link.send(host=host, command=command)
    answer = next(link.messages(), {"code": LOST})
    if "here" in answer:
        os.execv("/bin/sh", ["sh", "-c", command])
    code = int(answer["code"])
    if code in (126, 127, LOST):
        why = "the connection to it was lost" if code == LOST else f"exit code {code}"
        print(f"inject suite: {command.split()[0]} on {host}: {why}", file=sys.stderr)
    return code


# --- the other machines ----------------------------------------------------------------------------


class StartingMachine:
    """A machine other than machine 0: it starts the commands that machine 0 sends."""

    def __init__(self, secret: str, machine: int) -> None:
        self._secret = secret
        self._mark = os.urandom(16).hex()
        """Part of each signature, so that a command of an earlier connection cannot be sent again."""
        self._running: list[subprocess.Popen[bytes]] = []
        host, _, port = os.environ[MEETS_AT].rpartition(":")
        self._link = Link(_connect(host, int(port)))
        name = os.environ[NAME]
        sign = signed(secret, "machine", machine, name, self._mark)
        self._link.send(machine=machine, name=name, mark=self._mark, signed=sign)

    def run(self) -> int:
        """Start commands until the connection is closed, and end them; 1 after one with a false signature."""
        for message in self._link.messages():
            run, command, folder = (str(message.get(key)) for key in ("run", "command", "folder"))
            expected = signed(self._secret, "run", self._mark, run, command, folder)
            if not hmac.compare_digest(expected, str(message.get("signed"))):
                print("inject suite: a command that does not come from machine 0", file=sys.stderr)
                return 1
            # mpirun has its ranks started in the folder of that name on all machines.
            with suppress(OSError):  # it exists here as well
                os.makedirs(os.path.dirname(folder), exist_ok=True)
                os.symlink(os.getcwd(), folder)
            words = ["/bin/sh", "-c", command]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=clean_environment())
            self._running.append(process)
            threading.Thread(target=self._wait, args=(run, process), daemon=True).start()
        self._end()
        return 0

    def _wait(self, run: str, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        with suppress(OSError):
            self._link.send(run=run, code=code if code >= 0 else 128 - code)

    def _end(self) -> None:
        """Wait for the commands, which end by themselves once mpirun has ended; else end them."""
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            for process in self._running:
                if number is not None and process.poll() is None:
                    process.send_signal(number)
            end = time.monotonic() + GRACE
            for process in self._running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end - time.monotonic()))


def _connect(host: str, port: int) -> socket.socket:
    """Connect to machine 0, which may not listen yet. Raises OSError if it does not answer in time."""
    end = time.monotonic() + TOGETHER
    while True:
        try:
            sock = socket.create_connection((host, port), PATIENCE)
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK)
    sock.settimeout(None)
    _keep_alive(sock)
    return sock


def main(words: Sequence[str]) -> int:
    """Run the part of one machine, or the agent that mpirun calls instead of ssh; the exit code."""
    if words[0] == AGENT:
        return agent(words[1], words[2:])
    devices, count, *rest = words
    machine = int(os.environ[MACHINE])
    if machine == 0:
        return begin(int(devices), int(count), rest)
    try:
        return StartingMachine(os.environ[KEY], machine).run()
    except OSError as error:
        text = f"machine 0 of the job does not answer at {os.environ[MEETS_AT]}: {error.strerror}"
        print(f"inject suite: {text}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
