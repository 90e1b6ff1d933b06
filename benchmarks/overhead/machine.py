"""On what machine, and with what versions, a table was measured."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from types import MappingProxyType

from .peers import PROFILERS

About = dict[str, object]


def describe(peers: str | None, profilers: Mapping[str, str] = MappingProxyType({})) -> About:
    """Names and numbers that a reader needs before comparing this run with another.

    ``peers`` is the interpreter that has voir and ptera, ``profilers`` those of other peers by name.
    """
    return {
        "time": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "torch": version("torch"),
        "peers": peer_versions(peers) | {name: PROFILERS[name][0] for name in profilers},
    }


def processor() -> str:
    """The processor's name as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            named = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    except OSError:
        named = []
    return named[0] if named else platform.processor()


def version(package: str) -> str | None:
    """The installed version of ``package``, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def peer_versions(peers: str | None) -> dict[str, str]:
    """Versions of the peers that the interpreter ``peers`` has."""
    if peers is None:
        return {}
    ask = "from importlib.metadata import version as v; print(v('voir'), v('ptera'), v('giving'))"
    answer = subprocess.run([peers, "-c", ask], capture_output=True, text=True, check=False)
    return dict(zip(("voir", "ptera", "giving"), answer.stdout.split(), strict=False))


def main() -> None:
    """Print what :func:`describe` says of this interpreter."""
    for key, value in describe(sys.executable).items():
        print(f"{key}: {value}")


if __name__ == "__main__":
    main()
