"""Where code comes from: the program's, a package's, the library's; and what comes with this package."""

from __future__ import annotations

import os
import sys

PROGRAM, PACKAGE, LIBRARY = "program", "package", "library"

_SITES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_library = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_scripts = tuple({os.path.join(prefix, "bin") + os.sep for prefix in (sys.prefix, sys.base_prefix)})


def origin(file: str) -> str:
    """What the file at the absolute path ``file`` belongs to; commands of packages are ``LIBRARY``."""
    if any(site in file for site in _SITES):
        return PACKAGE
    return LIBRARY if file.startswith((_library, *_scripts)) else PROGRAM


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
