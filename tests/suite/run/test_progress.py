"""What is said while a suite runs."""

from __future__ import annotations

import io
import time

import pytest

from injector.suite.plan.jobs import Job, PlannedProcess
from injector.suite.run.active_job import ActiveJob
from injector.suite.run.engine import QueuedJob
from injector.suite.run.progress import Progress, time_of


def job(name, expected):
    made = PlannedProcess(
        f"{name}.R0.D0", ("cpu:0",), ("x",), {}, "/", f"jobs/{name}", 600.0, expected
    )
    return Job(f"{name}.R0", name, 0, (made,))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def running(name, expected, since):
    active = ActiveJob(QueuedJob(job(name, expected), 1), "/nowhere")
    active.started = time.time() - since
    return active


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(3.21, "3.2 s"), (41, "41 s"), (720, "12 min"), (7500, "2 h 05 min"), (0, "0.0 s")],
)
def test_times(seconds, message):
    assert time_of(seconds) == message


def test_what_is_left_of_a_suite():
    progress = Progress(io.StringIO(), 4)
    active, waiting = (
        [running("a", 100.0, 30)],
        [QueuedJob(job("b", 50.0), 1), QueuedJob(job("c", 10.0), 1)],
    )
    progress.watch(active, waiting)
    assert progress.left() == pytest.approx(130, abs=5)
    both = Progress(io.StringIO(), 4, parallel=2)
    both.watch(active, waiting)
    assert both.left() == pytest.approx(70, abs=5)  # the one that runs is not done before


def test_what_a_job_took_is_what_its_repeats_will_take():
    progress = Progress(io.StringIO(), 2)
    done = running("a", 600.0, 20)
    progress.finished(done, True, "")
    assert progress.expected(job("a", 600.0)) == pytest.approx(20, abs=5)


def test_a_line_for_each_event_where_no_one_looks():
    stream = io.StringIO()
    progress = Progress(stream, 3)
    first = running("a", 100.0, 0)
    progress.watch([first], [QueuedJob(job("b", 50.0), 1)])
    progress.started(first)
    progress.finished(first, False, "exit code 3")
    progress.not_started(job("b", 50.0), "not installed")
    progress.tick()
    begins, failed, lost = stream.getvalue().splitlines()
    assert begins.startswith("inject suite: a.R0 begins on cpu:0, about 2 min; ")
    assert begins.endswith("left of the suite")
    assert failed == "inject suite: [1/3] a.R0 FAILED after 0.0 s: exit code 3"
    assert lost == "inject suite: [2/3] b.R0 FAILED to start: not installed"


def test_one_line_that_changes_on_a_terminal():
    stream = Terminal()
    progress = Progress(stream, 3, done=1)
    first = running("a", 100.0, 30)
    progress.watch([first], [])
    progress.started(first)
    progress.tick()
    progress.tick()  # not due again yet
    shown = stream.getvalue()
    assert shown.count("\r\x1b[K[1/3]") == 1
    assert "\n" not in shown
    assert progress.line().startswith("[1/3] · a.R0 30 s of 2 min · ")
    progress.finished(first, False, "exit code 3")
    assert stream.getvalue().endswith("[2/3] a.R0 FAILED after 30 s: exit code 3\n")
    progress.close()
    assert progress.line().startswith("[2/3, 1 failed]")


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        (1, "interrupted: the job that runs is being ended; once more ends it at once"),
        (2, "interrupted: the 2 jobs that run are being ended; once more ends them at once"),
    ],
)
def test_what_an_interrupt_ends(jobs, sentence):
    stream = io.StringIO()
    progress = Progress(stream, 3)
    progress.stopping(True, jobs)
    progress.stopping(False, jobs)
    assert stream.getvalue() == f"inject suite: {sentence}\n"
