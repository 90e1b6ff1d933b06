"""The line that says what went wrong, of exceptions that report others."""

from __future__ import annotations

import asyncio
import builtins
import multiprocessing
import traceback

import pytest

from injector.store.exceptions import in_a_line, reported_in

GROUP = getattr(builtins, "ExceptionGroup", None)
RAY = """\
\x1b[36mray::Reader.step()\x1b[39m (pid=19379, ip=192.0.2.2, repr=<actor.Reader object at 0x7f7054d9c090>)
    ~~^^^^^
KeyError: 'k'

The above exception was the direct cause of the following exception:

\x1b[36mray::Reader.step()\x1b[39m (pid=19379, ip=192.0.2.2, repr=<actor.Reader object at 0x7f7054d9c090>)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/me/actor.py", line 9, in step
    raise RuntimeError("no shard\\nof that name") from e
RuntimeError: no shard
of that name"""
WORKERS = """\
Training failed due to worker errors:
[Rank 1 Error Snippet]:
Traceback (most recent call last):
  File "/home/me/train.py", line 6, in loop
    raise Unlucky("learning rate must be positive")
train.Unlucky: learning rate must be positive
"""
SPAWNED = """

-- Process 0 terminated with the following error:
Traceback (most recent call last):
  File "/home/me/x.py", line 3, in f
    raise ValueError("bad")
ValueError: bad
"""
ELASTIC = """
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 7)
  traceback : Traceback (most recent call last):
    File "/home/me/train.py", line 8, in main
      raise RuntimeError("out of it")
  RuntimeError: out of it

============================================================"""
GRAPH = """\
Graph execution error:

Detected at node 'dense/MatMul' defined at (most recent call last):
  File "/home/me/keras.py", line 10, in <module>
    model.fit(x, y)
Node: 'dense/MatMul'
Matrix size-incompatible: In[0]: [32,3], In[1]: [4,1]"""


@pytest.mark.parametrize(
    ("kind", "message", "line"),
    [
        ("RayTaskError(RuntimeError)", RAY, "RuntimeError: no shard"),
        ("WorkerGroupError", WORKERS, "train.Unlucky: learning rate must be positive"),
        ("ProcessRaisedException", SPAWNED, "ValueError: bad"),
        ("ChildFailedError", ELASTIC, "RuntimeError: out of it"),
        ("InvalidArgumentError", GRAPH, "InvalidArgumentError: Graph execution error:"),
        (
            "ChildFailedError",
            "\n====\ntrain.py FAILED\n----\n",
            "ChildFailedError: train.py FAILED",
        ),
        ("ValueError", "no luck\nat all", "ValueError: no luck"),
        ("SystemError", "\x1b[31mred\x1b[0m", "SystemError: red"),
        ("KeyError", "", "KeyError"),
        (None, None, "error"),
    ],
)
def test_the_exception_that_says_what_went_wrong(kind, message, line):
    assert in_a_line(kind, message) == line


def _fails(n):
    raise ValueError(f"worker {n} has no data\nnone")


def test_that_of_a_pool_is_the_workers_own():
    with multiprocessing.Pool(1) as pool, pytest.raises(ValueError, match="no data") as raised:
        pool.map(_fails, [3])
    assert described(raised.value) == "ValueError: worker 3 has no data"
    remote = raised.value.__cause__
    assert described(remote) == "ValueError: worker 3 has no data"


@pytest.mark.skipif(GROUP is None, reason="Python 3.11 brings exception groups")
def test_of_a_group_it_is_the_first_of_its_members():
    async def both():
        async with asyncio.TaskGroup() as group:
            group.create_task(fails("first"))
            group.create_task(fails("second"))

    async def fails(name):
        raise OSError(f"{name} is away\nfor good")

    with pytest.raises(GROUP) as raised:
        asyncio.run(both())
    assert described(raised.value) == "OSError: first is away"
    deep = GROUP("out", [GROUP("in", [KeyError("k"), OSError("o")]), OSError()])
    assert described(deep) == "KeyError: 'k'"
    assert in_a_line("ExceptionGroup", "two things (2 sub-exceptions)") == (
        "ExceptionGroup: two things (2 sub-exceptions)"
    )


def described(error):
    """As the record of a run has it."""
    trace = "".join(traceback.format_exception(error))
    return in_a_line(type(error).__name__, str(error), trace)


def test_lines_without_a_traceback_report_nothing():
    dump = ["Fatal Python error: Aborted", '  File "x.py", line 3 in main', "Extension modules: a"]
    assert reported_in(dump) == reported_in([]) == reported_in(["Error: none"]) == ""
