"""JAX: what can be seen around jitted calls."""

from __future__ import annotations

import sys

import pytest
from boosted import run
from trained import needs

needs("jax")

PROGRAM = "jax_train.py"
STARTING = ("Thread.start" if sys.version_info >= (3, 11) else "start",)
"""Waits of the standard library: JAX begins."""
BATCH = 64 * 8 * 4 + 64 * 4


def lines(found, region):
    """The program's lines that spans of ``region`` belong to, but for what blocks in JAX's threads."""
    spans = [span for span in found.of(region) if span.site["selector"] not in STARTING]
    return [span.site["place"]["text"] for span in spans]


def test_a_jitted_step(tmp_path):
    needs("optax")
    found = run(tmp_path, PROGRAM, "jitted")
    compiled = [line for line in lines(found, "compile") if "= step(" in line]
    assert len(compiled) == 1  # five calls
    assert found.items("h2d") == [BATCH]
    assert lines(found, "sync") == ["loss = jax.block_until_ready(loss)"] * 5 + [
        "return float(loss) > 0"
    ]
    assert found.of("optimizer") == []  # it is a part of what was compiled


def test_what_waits_for_a_value(tmp_path):
    found = run(tmp_path, PROGRAM, "waits")
    assert lines(found, "sync") == [
        "slow(x).block_until_ready()",
        "jax.block_until_ready(slow(x))",
        "float(slow(x))",
        "slow(x).item()",
        "np.asarray(slow(x))",
        "done.block_until_ready()",  # once: it is there the next time
    ]
    assert lines(found, "wait") == []


def test_optax_outside_of_jit(tmp_path):
    needs("optax")
    found = run(tmp_path, PROGRAM, "by_hand")
    assert found.items("h2d") == [BATCH] * 5
    assert len(found.of("optimizer")) == 5
    assert lines(found, "sync") == []


def test_each_shape_is_compiled_once(tmp_path):
    found = run(tmp_path, PROGRAM, "shapes")
    for region in ("trace", "lower", "compile"):
        assert len([line for line in lines(found, region) if "double(" in line]) == 3


def test_a_line_that_compiles_several_functions_is_named_after_none(tmp_path):
    sites = [span.site for span in run(tmp_path, PROGRAM, "functions").of("compile")]
    sites = [site for site in sites if "jax.jit(function)" in site["place"]["text"]]
    assert len(sites) >= 2 and {site["what"] for site in sites} == {None}


@pytest.mark.release
@pytest.mark.parametrize("library", ["flax", "equinox"])
def test_steps_that_a_library_of_modules_compiles(tmp_path, library):
    needs("optax", library)
    found = run(tmp_path, "jax_modules.py", library)
    steps = [span for span in found.of("compiled") if span.site["phase"] == "train"]
    assert steps[0].items in (0, 8)  # a tuple may be weights, as long as there was no other
    assert [span.items for span in steps[1:]] == [*[8] * 4, 2]
    assert {span.site["what"] for span in steps} == {"step"}
    assert [span for span in found.of("compiled") if span.site["phase"] is None] == []
    looks = [(span.site["phase"], span.items) for span in found.of("forward")]
    assert looks == ([("predict", 42)] * 4 if library == "flax" else [])
    assert found.of("optimizer") == []  # it is a part of what was compiled
    # What the device does after a call has returned shows where the program reads a value.
    assert len([line for line in lines(found, "sync") if "float(" in line]) == (
        6 if library == "flax" else 1
    )
