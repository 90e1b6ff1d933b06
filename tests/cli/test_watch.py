"""``inject watch`` on runs that go on and runs that are over."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
import urllib.request

import pytest

MS = 1_000_000


@pytest.fixture
def folder(tmp_path):
    """A run that is going on: three steps, and no run.json."""
    raw = tmp_path / "runs" / "train.2026-01-01_00-00-00.000000" / "raw"
    raw.mkdir(parents=True)
    sites = [
        {"site": 1, "region": "io", "clock": "host", "thread": 0, "of": 1},
        {"site": 2, "region": "optimizer", "clock": "host", "thread": 0, "of": 2},
    ]
    tie = {"pid": 1, "host": "h", "time": time.time(), "monotonic_ns": 0}
    records = [("process", tie), *(("site", site) for site in sites)]
    lines = [json.dumps({"event": e, "data": d, "t": 0}) + "\n" for e, d in records]
    (raw / "h.1.log").write_text("".join(lines))
    rows = b""
    for at in range(4):
        rows += struct.pack("=4q", at * 10 * MS, at * 10 * MS + MS, 0, 1)
        rows += struct.pack("=4q", at * 10 * MS + MS, at * 10 * MS + 9 * MS, 0, 2)
    (raw / "h.1.spans").write_bytes(b"{}\n".ljust(1024, b"\0") + rows)
    return raw.parent


def watch(*words, **more):
    command = [sys.executable, "-m", "injector", "watch", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **more)


def finish(folder):
    (folder / "run.json").write_text(json.dumps({"schema": 1, "name": "train"}))


def test_once(folder):
    done = watch(str(folder), "--once")
    assert done.returncode == 0
    assert done.stdout.startswith("train · training · step 3")


def test_a_run_that_is_over_is_shown_and_left(folder):
    finish(folder)
    done = watch("--runs", str(folder.parent))
    assert done.returncode == 0
    assert "train · ended · step 4" in done.stdout, (
        "as the report counts, which knows the whole run"
    )


def test_lines_for_a_pipe_until_the_run_ends(folder):
    command = [sys.executable, "-u", "-m", "injector", "watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("train · training")
        finish(folder)
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "train · ended" in rest


def test_ctrl_c_is_a_good_end(folder):
    command = [sys.executable, "-u", "-m", "injector", "watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 0


def test_no_such_run(tmp_path):
    done = watch(str(tmp_path / "none"))
    assert done.returncode == 2
    assert "does not exist" in done.stderr


def test_the_page_shows_the_run(folder):
    command = [sys.executable, "-u", "-m", "injector", "watch", str(folder), "--web"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            due = time.monotonic() + 60
            state = {}
            while not state and time.monotonic() < due:
                state = json.loads(opener.open(address + "state", timeout=60).read())["now"]
                time.sleep(0.05)
            assert state["steps"] == 3
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
    assert process.returncode == 0


def test_a_port_that_is_taken(folder):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = watch(str(folder), "--web", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert os.strerror(98) in done.stderr or "in use" in done.stderr


def test_a_packed_run_is_shown_as_it_was(folder):
    from injector.store import seal

    finish(folder)
    before = watch(str(folder)).stdout
    seal.pack(str(folder))
    assert not list(folder.glob("raw/*.spans"))
    done = watch(str(folder))
    assert (done.returncode, done.stdout) == (0, before)
    assert "step 4" in before


def test_a_run_of_another_host_needs_no_process_of_this_one(folder):
    """The process of that number may be anybody here: only the folder is asked."""
    log = folder / "raw" / "h.1.log"
    log.write_text(log.read_text().replace('"pid": 1,', f'"pid": {os.getpid()},'))
    assert watch(str(folder), "--once").stdout.startswith("train · training · step 3")
    with log.open("a") as file:
        file.write(json.dumps({"event": "end", "data": {}, "t": 0}) + "\n")
    assert watch(str(folder), "--once").stdout.startswith("train · ended · step 3")


def test_a_run_whose_json_is_torn_is_an_error(folder):
    (folder / "run.json").write_text('{"schema": 1, "na')
    done = watch(str(folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert "run.json is broken: it is no JSON" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", "99999", "--web"), "up to 65535"),
        (("--port", "x"), "up to 65535"),
        ((), "written by a later injector"),
    ],
)
def test_bad_input(folder, words, message):
    (folder / "run.json").write_text('{"schema": 99}')
    done = watch(str(folder), *words)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
