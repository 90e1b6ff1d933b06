"""``python -m injector`` is ``inject``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path[:1] in ([""], [os.getcwd()]):
    # `-m` put the current folder there, whose modules (a user's `json.py`) would hide those that we import.
    del sys.path[0]

from injector.cli import main

if __name__ == "__main__":
    sys.exit(main())
