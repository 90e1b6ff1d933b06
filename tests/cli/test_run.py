"""``inject run`` from a command line, as far as no parity case shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CALLS = {
    "module": ["-m", "injector"],
    "code": ["-c", "import sys\nfrom injector.cli import main\nsys.exit(main())"],
}


@pytest.mark.parametrize("how", CALLS)
def test_however_it_is_called(how, tmp_path):
    (tmp_path / "main.py").write_text("import sys\nprint(sys.argv, sys.orig_argv[1:])\nsys.exit(5)")
    done = subprocess.run(
        [sys.executable, "-X", "dev", *CALLS[how], "run", "--quiet", "main.py", "a"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "INJECT_RUNS": str(tmp_path / "runs")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (5, "")
    assert done.stdout == "['main.py', 'a'] ['-X', 'dev', 'main.py', 'a']\n"
