"""Where a file of code comes from: the program, a package that was installed, the standard library."""

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
