"""How often the source of a loop is read to find what makes its batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import injector
from injector.overseer import iterators
from injector.overseer.batch_functions import BatchFunctions
from injector.rewrite import batches

PACKAGE = str(Path(injector.__file__).parent)
LOOP = """\
for _ in range(1000):
    model = copy.deepcopy(template)
    x = get_batch()
    loss = model(x)
    loss.backward()
"""


def site(file: Path, region: str, line: int, of: int) -> dict[str, Any]:
    text = LOOP.splitlines()[line - 1].strip() if line <= 5 else ""
    place = {"file": str(file), "line": line, "function": "<module>", "text": text}
    phase = "train" if region == "forward" else None
    return {"region": region, "phase": phase, "place": place, "clock": "host", "of": of}


def test_models_made_anew_in_each_step_are_read_about_once(tmp_path, monkeypatch):
    """A model copied for each task, or wrapped by a solver for each call, is another site each time."""
    file = tmp_path / "train.py"
    file.write_text(LOOP)
    reads = []
    batch_code = batches.batch_code
    monkeypatch.setattr(batches, "batch_code", lambda *args: reads.append(1) or batch_code(*args))
    found = BatchFunctions(lambda function: None)
    for of in range(3):
        found.note(site(file, "forward", 4, of))
        found.note(site(file, "backward", 5, 0))
    first = len(reads)
    assert first
    for of in range(3, 300):
        found.note(site(file, "forward", 4, of))
        found.note(site(file, "backward", 5, of))
    assert len(reads) == first


def test_a_call_of_a_model_after_the_first_backward_is_looked_at_by_itself(tmp_path, monkeypatch):
    """Else what it takes would grow with the square of how many lines call models."""
    reads = []
    monkeypatch.setattr(batches, "batch_code", lambda *args: reads.append(1))
    found = BatchFunctions(lambda function: None)
    found.note(site(tmp_path / "train.py", "backward", 6, 0))
    for line in range(7, 107):
        found.note(site(tmp_path / "train.py", "forward", line, line))
    assert len(reads) == 2 * 100


def test_only_classes_of_the_program_may_give_batches():
    """None of this package, be it a checkout, nor of the interpreter's own modules."""
    for name in ("__next__", "__getitem__"):
        files = {method.__code__.co_filename for method in iterators.candidates(name)}
        assert not any(file.startswith((PACKAGE, "<frozen")) for file in files)
