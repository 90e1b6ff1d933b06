"""Free TCP ports: ``python -m injector.suite.run.ports COUNT`` prints so many. Standard library only."""

from __future__ import annotations

import socket
import sys


def free_ports(count: int) -> list[int]:
    """So many ports that are free now, all different."""
    # All are open before the first is closed: else the kernel could give the same port twice.
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


if __name__ == "__main__":
    print(*free_ports(int(sys.argv[1])))
