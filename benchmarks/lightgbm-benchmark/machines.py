#!/usr/bin/env python3
"""machines.py [--processes N | --machines HOST:PORT,…] PROGRAM [ARGUMENTS…]

A launcher for LightGBM over sockets: one process of PROGRAM for each machine of a list that is this host, by
default N on this host at ports that are free. In ARGUMENTS and variables, `@machines@`, `@port@` and `@rank@`
stand for the list and for the place of the process in it. lightgbm-benchmark's scripts find both in the
variables of Azure Batch, AZ_BATCH_NODE_LIST and AZ_BATCHAI_NODE_IP, whose nodes are the list's entries.

When one process fails the others are ended, which would wait for it. The exit code is that of the first one.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time


class WrongList(Exception):
    """A list of machines that is none, in words."""


def machines_of(text: str) -> list[tuple[str, int]]:
    """Host and port of each. Raises WrongList."""
    found = []
    for entry in text.split(","):
        host, colon, port = entry.strip().rpartition(":")
        if not (host and colon and port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
            raise WrongList(f"{entry.strip()!r} is no machine: HOST:PORT, as in 10.0.0.4:12345")
        if (host, int(port)) in found:
            raise WrongList(f"{entry.strip()} is there twice: each process has a port of its own")
        found.append((host, int(port)))
    return found


def free_ports(count: int) -> list[int]:
    """Ports that nothing on this host uses at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def is_here(host: str) -> bool:
    """Whether ``host`` is this one: an address can be bound where it is."""
    with socket.socket() as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
        return True


def started_here(machines: list[tuple[str, int]]) -> list[int]:
    """The ranks of this host. Raises WrongList where there is none, or a port is in use."""
    ranks = [rank for rank, (host, _) in enumerate(machines) if is_here(host)]
    if not ranks:
        known = ", ".join(host for host, _ in machines)
        raise WrongList(f"none of {known} is an address of {socket.gethostname()}, this host")
    for rank in ranks:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(machines[rank])
            except OSError as error:
                raise WrongList(f"{':'.join(map(str, machines[rank]))}: {error.strerror}") from None
    return ranks


def start(rank: int, machines: list[tuple[str, int]], words: list[str]) -> subprocess.Popen[bytes]:
    """One process."""
    names = [f"{host}:{port}" for host, port in machines]
    known = {"@machines@": ",".join(names), "@port@": str(machines[rank][1]), "@rank@": str(rank)}

    def filled(text: str) -> str:
        for mark, value in known.items():
            text = text.replace(mark, value)
        return text

    environment = {name: filled(text) for name, text in os.environ.items()}
    batch = {"AZ_BATCH_NODE_LIST": ";".join(names), "AZ_BATCHAI_NODE_IP": names[rank]}
    return subprocess.Popen([sys.executable, *map(filled, words)], env={**environment, **batch})


def wait(processes: list[subprocess.Popen[bytes]]) -> int:
    """The exit code of the first that fails, 0 where none does."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [code for code in codes if code]
        if failed or None not in codes:
            break
        time.sleep(0.05)
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    first = failed[0] if failed else 0
    return first if first >= 0 else 128 - first


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__.splitlines()[0], allow_abbrev=False)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--processes", type=int, default=2)
    how.add_argument("--machines")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.program:
        parser.error("no program to start")
    try:
        if args.machines is not None:
            machines = machines_of(args.machines)
        elif args.processes < 1:
            raise WrongList(f"--processes {args.processes}: at least 1")
        else:
            machines = [("127.0.0.1", port) for port in free_ports(args.processes)]
        ranks = started_here(machines)
    except WrongList as error:
        print(f"machines.py: {error}", file=sys.stderr)
        return 2
    processes: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda *_: [each.terminate() for each in processes])
    processes += [start(rank, machines, args.program) for rank in ranks]
    return wait(processes)


if __name__ == "__main__":
    sys.exit(main())
