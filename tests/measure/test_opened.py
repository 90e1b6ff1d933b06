"""What a process is in, as somebody else can read it from its file."""

from __future__ import annotations

import os
import threading

import pytest
from spans import read_sites

from injector.bus.writer import Writer
from injector.measure import user
from injector.measure.measures import Measures
from injector.measure.user import region
from injector.store import spans as files

CALLS = """
def call(inner=lambda: None):
    ENTER
    try:
        return inner()
    finally:
        EXIT
"""


def opened(measured):
    """The regions that are open, as the file of spans says."""
    path = measured.writer.path[:-4] + files.SUFFIX
    sites = read_sites(measured.writer.path)
    return sorted(sites[site]["region"] for site in files.opened(path))


@pytest.fixture
def calls(measured):
    """Two functions, both recorded; each has been called, so that there is a file."""
    made = [measured.function(CALLS, name) for name in ("io", "comm")]
    for call in made:
        call()
    return made


def test_a_call_is_open_while_it_goes_on(measured, calls):
    fetch, comm = calls
    assert opened(measured) == []
    assert fetch(lambda: opened(measured)) == ["io"]
    assert fetch(lambda: comm(lambda: opened(measured))) == ["comm", "io"]
    assert opened(measured) == []


def test_a_call_inside_of_its_like_gives_it_back(measured, calls):
    fetch, _ = calls

    def inner():
        fetch()
        return opened(measured)

    assert fetch(inner) == ["io"]


def test_a_call_that_raises_is_over(measured, calls):
    fetch, _ = calls
    with pytest.raises(ZeroDivisionError):
        fetch(lambda: 1 / 0)
    assert opened(measured) == []


def test_an_outermost_call_is_open_until_its_own_end(measured):
    fetch = measured.function(CALLS, "io", outermost=True)
    fetch()
    found = []

    def inner():
        fetch()
        found.append(opened(measured))

    fetch(inner)
    assert found == [["io"]]
    assert opened(measured) == []


def test_other_regions_cost_nothing_and_are_not_seen(measured, calls):
    forward = measured.function(CALLS, "forward")
    assert forward(lambda: opened(measured)) == []


def test_threads_are_kept_apart(measured, calls):
    fetch, comm = calls
    begun, go_on = threading.Event(), threading.Event()

    def waits():
        begun.set()
        go_on.wait(60)

    thread = threading.Thread(target=lambda: comm(waits))
    thread.start()
    assert begun.wait(60)
    assert fetch(lambda: opened(measured)) == ["comm", "io"]
    comm()
    assert opened(measured) == ["comm"], "the end of one thread's call is not another one's"
    go_on.set()
    thread.join()
    assert opened(measured) == []


def test_what_began_before_there_was_a_file_is_open_in_it(measured):
    outer, inner = (measured.function(CALLS, name) for name in ("comm", "io"))

    def once():
        inner()
        return opened(measured)

    assert outer(once) == ["comm"]


def test_a_child_of_a_fork_writes_nothing_into_its_parents_file(measured, calls):
    fetch, comm = calls

    def child():
        measured.spans.renew()
        comm(lambda: None)
        os._exit(0)

    def forked():
        pid = os.fork()
        if not pid:
            child()
        os.waitpid(pid, 0)
        return opened(measured)

    assert fetch(forked) == ["io"]


def test_more_stacks_than_places(measured, calls):
    fetch, comm = calls

    def one():
        comm()

    for _ in range(2 * files.OPEN):
        thread = threading.Thread(target=one)
        thread.start()
        thread.join()
    assert fetch(lambda: opened(measured)) == ["io"]
    thread = threading.Thread(target=lambda: comm(lambda: found.append(opened(measured))))
    found = []
    thread.start()
    thread.join()
    assert found == [[]], "who has no place of its own is not seen, and disturbs nobody"


def test_regions_of_the_program_itself(measured, calls):
    user.record(user.RegionRecorder(measured.spans))
    with region("epoch"):
        assert opened(measured) == ["epoch"]
        with region("load"):
            assert opened(measured) == ["load"]
        assert opened(measured) == ["epoch"]
    assert opened(measured) == []


def test_a_span_that_is_no_call(tmp_path):
    writer = Writer(str(tmp_path))
    measures = Measures(lambda *_, **__: None, writer, lambda error: None, print)
    measures.begin("io")()  # there is a file from its first row on
    path = writer.path[:-4] + files.SUFFIX
    assert files.opened(path) == []
    end = measures.begin("comm", nbytes=8, what="gradients")
    [site] = files.opened(path)
    told = read_sites(writer.path)[site]
    assert (told["region"], told["what"], told["payload"]) == ("comm", "gradients", "bytes")
    end()
    assert files.opened(path) == []
    assert [row[2:] for row in files.read(path)][1] == (8, site)
    user.record(None)
