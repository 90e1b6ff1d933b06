"""Checkpoints and logging: by their own lines, not as what they call inside."""

from __future__ import annotations

from pathlib import Path

from trained import needs, run

from injector.analysis.profiling import profile
from injector.store.folder import open_run

needs("torch", "safetensors", "tensorboard", "joblib")

PROGRAM = Path(__file__).parents[1] / "programs" / "trainers" / "saving.py"


def test_what_a_program_saves_and_logs(tmp_path):
    ran = run(tmp_path, "trainers/saving.py", "writer", "safetensors", "joblib")
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    process = next(each for each in ran.processes.values() if each.of("checkpoint"))
    lines = PROGRAM.read_text().splitlines()
    marked = [
        (text.rpartition(" ")[2], number) for number, text in enumerate(lines, 1) if "#:" in text
    ]
    for region, calls in (("checkpoint", [2, 1, 1, 1]), ("logging", [16])):
        spans = process.of(region)
        mine = [number for name, number in marked if name == region]
        assert [span.site["place"]["line"] for span in spans] == [
            line for line, times in zip(mine, calls, strict=True) for _ in range(times)
        ]
    found = profile(open_run(str(ran.folder)))
    names = [each.name for each in found.segments]
    assert names.count("checkpoint") >= 2 and "logging" not in names  # that is in steps
