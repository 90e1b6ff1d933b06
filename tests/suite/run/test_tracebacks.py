"""What a program printed when it went wrong, in few words."""

from __future__ import annotations

from injector.suite.run import tracebacks

RANK = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 3, in <module>
[rank1]:     loss.backward()
[rank1]: RuntimeError: out of it
Traceback (most recent call last):
  File "run.py", line 1, in <module>
    launch()
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
====================
train.py FAILED
"""


def test_the_trace_of_a_rank_and_not_of_its_launcher():
    found = tracebacks.find(RANK.splitlines())
    assert found.exception == "RuntimeError: out of it"
    assert found.lines[0] == "Traceback (most recent call last):" and len(found.lines) == 4


RAY = """\
Traceback (most recent call last):
  File "main.py", line 12, in <module>
    ray.get(step.remote())
ray.exceptions.RayTaskError(RuntimeError): \x1b[36mray::step()\x1b[39m (pid=19, ip=192.0.2.2)
  File "main.py", line 9, in step
    raise RuntimeError("no shard")
RuntimeError: no shard
"""


def test_the_exception_that_another_process_raised():
    found = tracebacks.find(RAY.splitlines())
    assert found.exception == "RuntimeError: no shard"
    printed = tracebacks.find([*RAY.splitlines()[:3], "ValueError: bad", "(shut down) Error: no"])
    assert printed.exception == "ValueError: bad"


def test_without_a_trace_the_last_lines():
    found = tracebacks.find([f"line {n}" for n in range(30)])
    assert found.exception == "" and found.lines[-1] == "line 29" and len(found.lines) == 12


def test_a_message_that_begins_with_a_rule():
    told = tracebacks.of_event("ChildFailedError", "\n=====\ntrain.py FAILED\n-----\n", "")
    assert told.exception == "ChildFailedError: train.py FAILED"
    assert tracebacks.of_event(None, "\n====\n", None).exception == "error"


def test_a_long_message_has_an_end():
    assert len(tracebacks.short("x" * 500)) == 200 and tracebacks.short("x" * 500).endswith("…")


def test_the_last_line_is_that_of_a_message_and_not_an_indented_part_of_it(tmp_path):
    file = tmp_path / "stderr"
    file.write_text("step 1\ninject: x.py:3: expected a variable's name\n    //train\n    ^\n")
    assert tracebacks.last_line(str(file)) == "inject: x.py:3: expected a variable's name"
    file.write_text("  all\n  of it\n")
    assert tracebacks.last_line(str(file)) == "of it"
    file.write_text("\n---\n")
    assert tracebacks.last_line(str(file)) == ""


def test_an_exception_is_named_before_what_follows_it(tmp_path):
    file = tmp_path / "stderr"
    head = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n'
    file.write_text(head + "ValueError: of two\nlines\n")
    assert tracebacks.last_line(str(file)) == "ValueError: of two … lines"
    file.write_text(head + "ValueError: of one\n")
    assert tracebacks.last_line(str(file)) == "ValueError: of one"
    file.write_text(RANK)
    assert tracebacks.last_line(str(file)) == "RuntimeError: out of it"
