"""``python -m injector`` is ``inject``."""

from __future__ import annotations

import sys

from injector.cli import main

if __name__ == "__main__":
    sys.exit(main())
