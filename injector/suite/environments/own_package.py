"""This package, so that an environment can be given the very same."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from ... import origin
from ..._version import __version__
from . import folders
from .commands import Failed, staged

NAME = "overlay-injector"
PACKAGE = Path(origin.__file__).resolve().parent


class OwnPackage(NamedTuple):
    """This package as it runs now."""

    requirement: str
    """How it is installed elsewhere: ``-e CHECKOUT`` or the path of a wheel."""
    digest: str
    """Changes with its files; of a checkout, whose files are used where they are, with its place."""
    requires: str
    """Changes with the packages that it needs."""
    version: str = __version__

    def provide(self) -> None:
        """Make the wheel, if it is one and there is none yet."""
        file = Path(self.requirement)
        if self.requirement.startswith("-e ") or file.exists():
            return
        with staged(file.parent) as new:
            _pack(_installed(), new / file.name)


def find_own_package(base: Path) -> OwnPackage:
    """This package, from where it was itself installed.

    From a checkout: that checkout, so that what is edited there is what runs. Otherwise a wheel
    put together from its installed files: no index is needed for it.

    Raises:
        Failed: it is neither in a checkout nor properly installed.
    """
    checkout = origin.checkout()
    if checkout is not None:
        text = Path(checkout, "pyproject.toml").read_text(encoding="utf-8")
        needs = re.search(r"^dependencies = \[.*?\]$", text, re.M | re.S)
        requires = needs.group() if needs else text
        return OwnPackage(f"-e {checkout}", _digest(checkout), _digest(requires))
    installed = _installed()
    record = installed.read_text("RECORD") or ""
    requires = "\n".join(sorted(installed.requires or ()))
    # Two versions of it may use the same base at the same time.
    home = folders.cache(base) / "wheels" / _digest(record)[:12]
    file = home / f"{NAME.replace('-', '_')}-{installed.version}-py3-none-any.whl"
    return OwnPackage(str(file), _digest(record), _digest(requires))


def _installed() -> importlib.metadata.Distribution:
    for found in importlib.metadata.distributions(name=NAME, path=[str(PACKAGE.parent)]):
        if found.files:
            return found
    raise Failed(
        f"{PACKAGE} was not installed by pip or uv: no environment can be given the same. "
        "Use --use-current-env"
    )


def _pack(installed: importlib.metadata.Distribution, wheel: Path) -> None:
    """A wheel of the installed files; commands are made anew where it is installed."""
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in installed.files or ():
            if not _is_own(str(file)):
                continue
            text = file.read_binary()
            if file.name == "RECORD":
                lines = text.decode().splitlines()
                own = [f"{line}\n" for line in lines if _is_own(line.split(",")[0])]
                text = "".join(own).encode()
            packed.writestr(str(file), text)


def _is_own(name: str) -> bool:
    """Whether a file is the package's, and did not come with its installation."""
    parts = name.split("/")
    return not (".." in parts or name.endswith(".pyc") or parts[-1] in _OF_AN_INSTALLATION)


_OF_AN_INSTALLATION = ("direct_url.json", "INSTALLER", "REQUESTED", "uv_cache.json")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
