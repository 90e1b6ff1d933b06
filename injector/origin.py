"""Where code comes from: the program itself, an installed package, or Python's standard library.

Reports name lines of the program and not those of libraries, and code of the program is never called to read
a value; both depend on :func:`origin`. :func:`shipped` finds the files that come with this package.
"""

from __future__ import annotations

import os
import sys

PROGRAM, PACKAGE, LIBRARY = "program", "package", "library"

_SITES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_library = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_own = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""This package's own files, in a checkout too, which is no folder of installed packages."""
_scripts = tuple({os.path.join(prefix, "bin") + os.sep for prefix in (sys.prefix, sys.base_prefix)})

_installed: dict[str, bool] = {}


def origin(file: str) -> str:
    """What the file at the absolute path ``file`` belongs to: ``PROGRAM``, ``PACKAGE`` or ``LIBRARY``.

    Commands in ``bin``, such as ``torchrun``, count as ``LIBRARY``.
    """
    # No generator: this is called for every module that a program imports, and would take twice as long.
    for site in _SITES:
        if site in file:
            return PACKAGE
    if file.startswith(_own):
        return PACKAGE
    if file.startswith((_library, *_scripts)):
        return LIBRARY
    # The first folder is the script's own. All that is in it is the program's, whatever was installed there.
    folders = sys.path if getattr(sys.flags, "safe_path", False) else sys.path[1:]
    packaged = any(_under(file, folder) and _is_installed(folder) for folder in folders)
    return PACKAGE if packaged else PROGRAM


def _under(file: str, folder: str) -> bool:
    return bool(folder) and file.startswith(folder.rstrip(os.sep) + os.sep)


def _is_installed(folder: str) -> bool:
    """Whether packages were installed into ``folder``: by ``pip install --target``, for PYTHONPATH."""
    known = _installed.get(folder)
    if known is None:
        try:
            names = os.listdir(folder)
        except OSError:
            names = []
        known = _installed[folder] = any(name.endswith(".dist-info") for name in names)
    return known


def checkout() -> str | None:
    """The source tree that this package runs from; None if it was installed from a wheel."""
    above = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    return above if os.path.isfile(os.path.join(above, "pyproject.toml")) else None


def shipped(kind: str) -> str:
    """The folder with what is shipped of a kind: ``benchmarks``, ``suites`` or ``voirfiles``. It may be
    missing.

    In a checkout it is beside the package, so that an editable install has what the checkout has; in a wheel
    it is inside the package, where hatch_build.py puts it.
    """
    package = os.path.dirname(os.path.realpath(__file__))
    return os.path.join(checkout() or os.path.join(package, "shipped"), kind)
