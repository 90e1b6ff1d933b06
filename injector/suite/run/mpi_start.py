"""``mpirun`` over the machines of a job: ``python -I -S mpi_start.py DEVICES MACHINES mpirun … PROGRAM …``.

The part of each machine runs that. On machine 0 it becomes ``mpirun``, on each other one it waits. What
mpirun would have ssh start on another machine (its daemon: Open MPI's ``orted``, Hydra's proxy) is started
there by the one that waits: so no machine needs ssh to another, and ranks descend from their machine's part
and have its variables. Variables tell Open MPI and Hydra (MPICH, Intel MPI) which hosts there are, and what
to call instead of ssh.

Machines meet at a port of machine 0. Without their secret no process can have a command started, or take a
machine's place. Standard library only: it runs isolated, and is no process of the program.
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
AGENT, DOOR = "agent", "door"
TOGETHER = 120.0
"""Seconds within which all machines have come."""
PATIENCE = 10.0
"""Seconds for the first words over a connection."""
GRACE = 5.0
"""Seconds that what was started on a machine has for its end, once mpirun has ended."""
LOOK = 0.1
"""Seconds between two looks whether mpirun still runs."""
LOST = 255
"""As ssh ends where it loses its connection."""
SCHEDULERS = "^slurm,tm,lsf,gridengine,alps"
"""What Open MPI would take hosts from, did we not name them."""


class Link:
    """Lines of JSON to and from another process."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb")
        self._lock = threading.Lock()

    def send(self, **message: object) -> None:
        """Raises OSError."""
        with self._lock:
            self._sock.sendall(json.dumps(message).encode() + b"\n")

    def messages(self) -> Iterator[dict[str, Any]]:
        """What comes, until the other end is closed or lost."""
        with suppress(OSError, ValueError):
            for line in self._file:
                yield json.loads(line)

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def signed(secret: str, *words: object) -> str:
    """What only they can make who know the secret."""
    text = json.dumps(words).encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()


def _look_after(sock: socket.socket) -> None:
    """Notice within half a minute that the other machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


# --- machine 0 -------------------------------------------------------------------------------------


class Machines:
    """The other machines of the job, as machine 0 reaches them."""

    def __init__(self, secret: str, count: int) -> None:
        self._secret = secret
        self._count = count
        self.links: dict[int, tuple[str, str, Link]] = {}
        """By machine its name, the mark that answers to it carry, and the way to it."""
        self._waiting: dict[str, tuple[int, Link]] = {}
        """By command, the machine that runs it and who waits for its end."""
        self._lock = threading.Lock()

    def gather(self, listener: socket.socket) -> list[str]:
        """Wait until all have come; their names, ours first. Raises TimeoutError."""
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
        sock.settimeout(PATIENCE)
        link = Link(sock)
        hello = next(link.messages(), {})
        sock.settimeout(None)
        machine, name, mark = (hello.get(each) for each in ("machine", "name", "mark"))
        known = signed(self._secret, "machine", machine, name, mark)
        if not hmac.compare_digest(known, str(hello.get("signed"))):
            link.close()
            return
        _look_after(sock)
        self.links[int(str(machine))] = str(name), str(mark), link

    def _names(self) -> list[str]:
        """One for each machine; of two that have one name the second gets a number."""
        found = [os.environ[NAME]]
        for machine in range(1, self._count):
            name, mark, link = self.links[machine]
            if name in found:
                name = f"{name}-{machine}"
                self.links[machine] = name, mark, link
            found.append(name)
        return found

    def listen(self) -> None:
        """Take note, from now on, of what ends on the other machines."""
        for machine, (_, _, link) in self.links.items():
            threading.Thread(target=self._listen, args=(machine, link), daemon=True).start()

    def _listen(self, machine: int, link: Link) -> None:
        for message in link.messages():
            self._ended(str(message.get("run")), message.get("code"))
        with self._lock:
            lost = [run for run, (where, _) in self._waiting.items() if where == machine]
        for run in lost:
            self._ended(run, LOST)

    def _ended(self, run: str, code: object) -> None:
        with self._lock:
            _, asker = self._waiting.pop(run, (0, None))
        if asker is not None:
            with suppress(OSError):
                asker.send(code=code)
            asker.close()

    def take(self, asker: Link) -> None:
        """Start what mpirun wants started on a host; what is ours, who asks starts itself."""
        asks = next(asker.messages(), {})
        host, command = str(asks.get("host")), str(asks.get("command"))
        found = [n for n, (name, _, _) in self.links.items() if name == host]
        if not found:
            with suppress(OSError):
                asker.send(here=True)
            asker.close()
            return
        run = os.urandom(8).hex()
        _, mark, link = self.links[found[0]]
        with self._lock:
            self._waiting[run] = found[0], asker
        try:
            folder = os.getcwd()
            sign = signed(self._secret, "run", mark, run, command, folder)
            link.send(run=run, command=command, folder=folder, signed=sign)
        except OSError:
            self._ended(run, LOST)


def begin(devices: int, count: int, words: Sequence[str]) -> int:
    """Become mpirun, once the other machines are there."""
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
    # The name of a socket may have 107 bytes.
    place = "/tmp" if len(tempfile.gettempdir()) > 70 else None
    folder = tempfile.mkdtemp(prefix="inject-mpi-", dir=place)
    variables = variables_for(folder, names, devices)
    door = socket.socket(socket.AF_UNIX)
    door.bind(os.path.join(folder, DOOR))
    door.listen(count)
    ours = os.getpid()
    if os.fork() == 0:
        _serve(machines, door, ours, folder)
        os._exit(0)
    os.execve(program, [program, *words[1:]], {**variables, **clean_environment()})
    return 127


def find_command(name: str) -> str | None:
    """MPI's command: of the environment, else of the machine."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return shutil.which(beside) or shutil.which(name)


def clean_environment() -> dict[str, str]:
    """Ours without what is for us alone, and what a scheduler gives a process that it takes for a rank."""
    own = (MEETS_AT, KEY, MACHINE, NAME)
    return {
        name: text
        for name, text in os.environ.items()
        if name not in own
        and (not name.startswith(("PMI_", "PMI2_", "PMIX_")) or name.startswith("PMIX_MCA_"))
    }


def variables_for(folder: str, names: Sequence[str], devices: int) -> dict[str, str]:
    """What tells mpirun its hosts, and what to call instead of ssh: files that are made in ``folder``."""
    agent, hosts, hydra = (os.path.join(folder, name) for name in ("agent", "hosts", "hydra"))
    words = shlex.join([sys.executable, "-I", "-S", os.path.abspath(__file__), AGENT, folder])
    with open(agent, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {words} "$@"\n')
    os.chmod(agent, 0o700)
    for path, form in ((hosts, "{} slots={}\n"), (hydra, "{}:{}\n")):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(form.format(name, devices) for name in names)
    found = {
        # Hydra would give all ranks what machine 0 has.
        "HYDRA_ENV": "none",
        "HYDRA_HOST_FILE": hydra,
        "I_MPI_HYDRA_HOST_FILE": hydra,
    }
    for prefix in ("HYDRA_LAUNCHER", "I_MPI_HYDRA_BOOTSTRAP"):
        found |= {prefix: "ssh", f"{prefix}_EXEC": agent}
    if (interface := os.environ.get("GLOO_SOCKET_IFNAME", "lo")) != "lo":
        found["HYDRA_IFACE"] = interface
    # Open MPI 4, and 5; neither is to have one machine ask another, nor to bind ranks to one core each.
    for prefix, way, base in (("OMPI", "rsh", "orte"), ("PRTE", "ssh", "prte")):
        found |= {
            f"{prefix}_MCA_plm": way,
            f"{prefix}_MCA_plm_{way}_agent": agent,
            f"{prefix}_MCA_plm_{way}_no_tree_spawn": "1",
            f"{prefix}_MCA_ras": SCHEDULERS,
            f"{prefix}_MCA_{base}_default_hostfile": hosts,
        }
    return {
        **found,
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }


def _serve(machines: Machines, door: socket.socket, mpirun: int, folder: str) -> None:
    """Until ``mpirun``, which has forked us, has ended: take what it wants started elsewhere."""
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
    """Instead of ``ssh [OPTIONS] HOST COMMAND…``: have the command started there, and end as it does."""
    left = list(words)
    while left and left[0].startswith("-"):
        left.pop(0)
    host, command = left[0], " ".join(left[1:])
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
    """A machine that starts what machine 0 wants started, until that has ended."""

    def __init__(self, secret: str, machine: int) -> None:
        self._secret = secret
        self._mark = os.urandom(16).hex()
        self._running: list[subprocess.Popen[bytes]] = []
        host, _, port = os.environ[MEETS_AT].rpartition(":")
        self._link = Link(_connect(host, int(port)))
        name = os.environ[NAME]
        sign = signed(secret, "machine", machine, name, self._mark)
        self._link.send(machine=machine, name=name, mark=self._mark, signed=sign)

    def run(self) -> int:
        """0, unless someone else than machine 0 answered."""
        for message in self._link.messages():
            run, command, folder = (str(message.get(each)) for each in ("run", "command", "folder"))
            known = signed(self._secret, "run", self._mark, run, command, folder)
            if not hmac.compare_digest(known, str(message.get("signed"))):
                print("inject suite: a command that does not come from machine 0", file=sys.stderr)
                return 1
            _is_here(folder)
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
        """Let what runs here end by itself, as it does once mpirun has ended; else end it."""
        for how in (None, signal.SIGTERM, signal.SIGKILL):
            for process in self._running:
                if how is not None and process.poll() is None:
                    process.send_signal(how)
            end = time.monotonic() + GRACE
            for process in self._running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, end - time.monotonic()))


def _is_here(folder: str) -> None:
    """Have a folder of machine 0 be this one here, unless there is one: ranks are to run in it."""
    with suppress(OSError):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.symlink(os.getcwd(), folder)


def _connect(host: str, port: int) -> socket.socket:
    """Raises OSError where machine 0 does not answer."""
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
    _look_after(sock)
    return sock


def main(words: Sequence[str]) -> int:
    """The part of one machine, or what is called instead of ssh."""
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
