"""Where code comes from: the program's, a package's, the library's; and what comes with this package."""

from __future__ import annotations

import os
import sys

PROGRAM, PACKAGE, LIBRARY = "program", "package", "library"

_SITES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_library = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_scripts = tuple({os.path.join(prefix, "bin") + os.sep for prefix in (sys.prefix, sys.base_prefix)})

_installed: dict[str, bool] = {}


def origin(file: str) -> str:
    """What the file at the absolute path ``file`` belongs to; commands of packages are ``LIBRARY``."""
    # No generator: this is done for every module that a program imports, and would take twice as long.
    for site in _SITES:
        if site in file:
            return PACKAGE
    if file.startswith((_library, *_scripts)):
        return LIBRARY
    # Of the script's own folder all is the program's, whatever was installed into it.
    folders = sys.path if getattr(sys.flags, "safe_path", False) else sys.path[1:]
    return (
        PACKAGE if any(_under(file, each) and _is_installed(each) for each in folders) else PROGRAM
    )


def _under(file: str, folder: str) -> bool:
    return bool(folder) and file.startswith(folder.rstrip(os.sep) + os.sep)


def _is_installed(folder: str) -> bool:
    """Whether packages were installed into ``folder``, as ``pip install --target`` does, for PYTHONPATH."""
    known = _installed.get(folder)
    if known is None:
        try:
            names = os.listdir(folder)
        except OSError:
            names = []
        known = _installed[folder] = any(name.endswith(".dist-info") for name in names)
    return known


def checkout() -> str | None:
    """The source tree that this package runs from; None where it was installed from a wheel."""
    above = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    return above if os.path.isfile(os.path.join(above, "pyproject.toml")) else None


def shipped(kind: str) -> str:
    """The folder of ``kind``: ``benchmarks``, ``suites`` or ``voirfiles``. It may be missing.

    In a checkout they stand beside the package, so that an editable install has what the checkout has;
    in a wheel they lie inside of the package, where hatch_build.py puts them.
    """
    package = os.path.dirname(os.path.realpath(__file__))
    return os.path.join(checkout() or os.path.join(package, "shipped"), kind)
