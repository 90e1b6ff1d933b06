"""Ports that are free: ``python -m injector.suite.run.ports COUNT`` prints so many. Standard library only."""

from __future__ import annotations

import socket
import sys


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


if __name__ == "__main__":
    print(*free_ports(int(sys.argv[1])))
