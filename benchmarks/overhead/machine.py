"""The machine and the versions that a table was measured with."""

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
    """What a reader has to know before comparing these figures with others.

    ``peers`` is the interpreter that has voir and ptera, ``profilers`` are those of other peers, by name.
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
    """The name of the processor; ``platform.processor()`` is just an architecture on Linux."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def version(package: str) -> str | None:
    """The installed version of ``package``; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def peer_versions(peers: str | None) -> dict[str, str]:
    """The versions of voir, ptera and giving in the environment of the interpreter ``peers``."""
    if peers is None:
        return {}
    code = "from importlib.metadata import version as v; print(v('voir'), v('ptera'), v('giving'))"
    answer = subprocess.run([peers, "-c", code], capture_output=True, text=True, check=False)
    return dict(zip(("voir", "ptera", "giving"), answer.stdout.split(), strict=False))


def main() -> None:
    """Print the description of this machine and this interpreter."""
    for key, value in describe(sys.executable).items():
        print(f"{key}: {value}")


if __name__ == "__main__":
    main()
