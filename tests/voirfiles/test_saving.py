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


def test_managers_of_checkpoints_are_recorded_by_their_outermost_call(tmp_path):
    """By the names of Orbax, which is imported for nothing else."""
    checkpointers = tmp_path / "orbax" / "checkpoint" / "_src" / "checkpointers"
    checkpointers.mkdir(parents=True)
    (tmp_path / "orbax" / "checkpoint" / "__init__.py").touch()
    (checkpointers / "checkpointer.py").write_text(
        "class Checkpointer:\n    def save(self, path): return path\n"
    )
    (checkpointers.parents[1] / "checkpoint_manager.py").write_text(
        "from ._src.checkpointers.checkpointer import Checkpointer\n"
        "class CheckpointManager:\n    def save(self, step): return Checkpointer().save(step)\n"
    )
    program = tmp_path / "saves.py"
    program.write_text(
        "from orbax.checkpoint.checkpoint_manager import CheckpointManager, Checkpointer\n"
        "CheckpointManager().save(1)\n"
        "Checkpointer().save('a')\n"
    )
    ran = run(tmp_path, str(program))
    assert (ran.exit, ran.wrong()) == (0, []), ran.err
    [process] = ran.all
    saved = [(span.site["what"], span.site["place"]["line"]) for span in process.of("checkpoint")]
    assert saved == [("CheckpointManager.save", 2), ("Checkpointer.save", 3)]
