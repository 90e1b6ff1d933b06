"""Installing this package, exactly as it runs now, into other environments."""

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
"""The name of this package in indexes, normalised."""
PACKAGE = Path(origin.__file__).resolve().parent
"""The folder of this package's modules."""


class OwnPackage(NamedTuple):
    """This package as it runs now."""

    requirement: str
    """What an installer is given to install it: ``-e CHECKOUT``, or the path of a wheel."""
    digest: str
    """A digest of its files; for a checkout, which is installed as it is, of the checkout's path."""
    requires: str
    """A digest of the packages that it needs."""
    version: str = __version__

    def provide(self) -> None:
        """Build the wheel, if it is one and is not there yet."""
        file = Path(self.requirement)
        if self.requirement.startswith("-e ") or file.exists():
            return
        with staged(file.parent) as new:
            _pack(_installed(), new / file.name)


def find_own_package(base: Path) -> OwnPackage:
    """This package, as a checkout or a wheel.

    If it runs from a checkout, that is installed elsewhere too, so that what is edited there is what runs.
    Else a wheel is built from its installed files, for which no index and no network is needed. Raises Failed
    if it is neither in a checkout nor properly installed.
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
    # By digest, since two versions of it may use the same base at the same time.
    folder = folders.cache(base) / "wheels" / _digest(record)[:12]
    wheel = folder / f"{NAME.replace('-', '_')}-{installed.version}-py3-none-any.whl"
    return OwnPackage(str(wheel), _digest(record), _digest(requires))


def _installed() -> importlib.metadata.Distribution:
    """This package as it is installed, with the list of its files. Raises Failed."""
    for distribution in importlib.metadata.distributions(name=NAME, path=[str(PACKAGE.parent)]):
        if distribution.files:
            return distribution
    raise Failed(
        f"{PACKAGE} was not installed by pip or uv: no environment can be given the same. "
        "Use --use-current-env"
    )


def _pack(installed: importlib.metadata.Distribution, wheel: Path) -> None:
    """Write a wheel of the installed files, without what an installer adds: commands, ``.pyc`` files."""
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
    """Whether a file in ``RECORD`` came with the package, and not from its installer."""
    parts = name.split("/")
    # Commands lie outside of site-packages: ../../../bin/inject.
    return not (".." in parts or name.endswith(".pyc") or parts[-1] in _OF_INSTALLERS)


_OF_INSTALLERS = ("direct_url.json", "INSTALLER", "REQUESTED", "uv_cache.json")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
