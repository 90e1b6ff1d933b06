"""``python -m injector`` is ``inject``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]  # -m put it there; what lies in the current folder is none of ours

from injector.cli import main

if __name__ == "__main__":
    sys.exit(main())
