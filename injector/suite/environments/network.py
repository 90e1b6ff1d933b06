"""Telling a network that is not there from other failures, by what tools print."""

from __future__ import annotations

import re

_SIGNS = re.compile(
    r"could not resolve host|name or service not known|temporary failure in name resolution"
    r"|nodename nor servname|getaddrinfo failed|network is unreachable|no route to host"
    r"|connection (refused|reset|timed out|aborted)|connecttimeout|connection to \S+ timed out"
    r"|failed to establish a new connection|max retries exceeded|newconnectionerror"
    r"|unable to access '|could not connect|failed to connect|dns error|cannot connect to proxy"
    r"|proxyerror|operation timed out|could not read from remote repository|urlopen error"
    r"|offline mode|couldn't connect to server|error sending request|localentrynotfounderror",
    re.IGNORECASE,
)


def missing(text: str) -> bool:
    """Whether what a tool printed says that it did not reach what it wanted."""
    return _SIGNS.search(text) is not None
