"""The file of spans: whole up to wherever its process was ended, and counted where there was no room."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.bus.merge import Merged
from injector.bus.steps import MOST, Steps, Task
from injector.bus.writer import Writer
from injector.probe import plain
from injector.probe.compiled import Rows
from injector.probe.room import OPEN, Room
from injector.store import mapped, spans

ROOT = str(Path(__file__).parents[2])


def room(folder: Path) -> tuple[Writer, Room]:
    writer = Writer(str(folder))
    return writer, Room(spans.SpanFile(writer).grow, writer.lose)


def rows(folder: Path) -> list[tuple[int, int, int, int]]:
    return [row for path in sorted(folder.glob("raw/*.spans")) for row in spans.read(str(path))]


def test_the_layout(tmp_path: Path) -> None:
    writer, made = room(tmp_path)
    made.add(5, 9, 3, 1)
    made.add(6, 8, 1 << 62, 2)
    [path] = tmp_path.glob("raw/*.spans")
    assert path.name == f"{os.uname().nodename}.{os.getpid()}.spans"
    content = path.read_bytes()
    title = json.loads(content[: spans.HEADER].rstrip(b"\0"))
    assert (title["event"], title["data"]) == ("spans", {"version": 1, "row": 32})
    assert len(content) == mapped.FIRST
    found = memoryview(content)[spans.HEADER :].cast("q")
    assert found[:8].tolist() == [5, 9, 3, 1, 6, 8, 1 << 62, 2]
    assert not any(found[8:])
    assert writer.lost == 0


@pytest.mark.parametrize("made", [Rows, plain.Rows])
def test_hooks_store_rows_of_this_layout(made: Any) -> None:
    """What C and its twin store, this module reads; of the memory, only room for whole rows is used."""
    memory, refused = bytearray(2 * spans.ROW + spans.ROW - 1), []
    stored = made(lambda *row: refused.append(row))
    stored.use(memoryview(memory))
    for row in ((5, 9, 3, 1), (6, 8, 1 << 62, 2), (7, 8, 0, 3)):
        stored.add(*row)
    assert list(spans.rows(bytes(memory))) == [(5, 9, 3, 1), (6, 8, 1 << 62, 2)]
    assert refused == [(7, 8, 0, 3)]
    assert spans.OPEN == OPEN  # what the hooks believe to be in the title


def test_it_grows_in_whole_rows(tmp_path: Path) -> None:
    _, made = room(tmp_path)
    count = 100_000
    for n in range(1, count + 1):
        made.add(n, n + 1, 0, 7)
    assert [row[0] for row in rows(tmp_path)] == list(range(1, count + 1))
    [path] = tmp_path.glob("raw/*.spans")
    assert path.stat().st_size % 32 == 0


def test_threads(tmp_path: Path) -> None:
    _, made = room(tmp_path)

    def work(site: int) -> None:
        for n in range(1, 20_001):
            made.add(n, n, 0, site)

    threads = [threading.Thread(target=work, args=(site,)) for site in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = rows(tmp_path)
    for site in range(1, 5):
        assert [row[0] for row in found if row[3] == site] == list(range(1, 20_001))


def test_what_is_no_row_is_counted(tmp_path: Path) -> None:
    writer, made = room(tmp_path)
    made.add(1, 2, 1 << 70, 1)
    made.add(1, 2, 0, 1)
    assert writer.lost == 1
    assert len(rows(tmp_path)) == 1


def test_no_room(tmp_path: Path) -> None:
    lost = []

    def grow() -> memoryview:
        if len(lost) < 3:
            raise OSError(28, "no space")
        return memoryview(bytearray(64))

    made = Room(grow, lambda records, error: lost.append(error))
    for n in range(10):
        made.add(n, n, n, 1)
    assert [getattr(error, "errno", None) for error in lost] == [28] * 3


def test_a_destructor_while_room_is_made() -> None:
    lost: list[Any] = []
    memory = [bytearray(64), bytearray(64)]

    def grow() -> memoryview:
        made.add(9, 9, 9, 9)
        return memoryview(memory.pop())

    made = Room(grow, lambda records, error: lost.append(records))
    made.add(1, 1, 1, 1)
    assert lost == [1]


LIMITED = """
import resource, sys
from injector.store import mapped, spans
from injector.bus.writer import Writer
from injector.probe.room import Room
writer = Writer(sys.argv[1])
writer.emit("data", 1)
made = Room(spans.SpanFile(writer).grow, writer.lose)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for n in range(1, 20_001):
    made.add(n, n, 0, 1)
writer.close()
print(writer.lost)
"""


def test_a_limit_on_file_sizes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = rows(tmp_path)
    assert [row[0] for row in found] == list(range(1, len(found) + 1))
    lost = int(done.stdout)
    assert lost > 0 and len(found) + lost == 20_000
    merged = Merged(str(tmp_path))
    assert list(merged.entries())
    assert (merged.logs[0].lost, merged.logs[0].why) == (lost, os.strerror(27))


ENDLESS = """
import sys
from injector.store import mapped, spans
from injector.bus.writer import Writer
from injector.probe.room import Room
made = Room(spans.SpanFile(Writer(sys.argv[1])).grow, None)
n = 0
while True:
    n += 1
    made.add(n, n, n, n)
    if n == 5_000:
        print("going", flush=True)
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"going\n"
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stdout.close()
    found = rows(tmp_path)
    assert len(found) >= 5_000
    assert found == [(n, n, n, n) for n in range(1, len(found) + 1)]


def test_a_fork(tmp_path: Path) -> None:
    writer, made = room(tmp_path)
    made.add(1, 1, 0, 1)
    child = os.fork()
    if not child:
        writer.after_fork()
        made.renew()
        made.add(2, 2, 0, 1)
        os._exit(0)
    os.waitpid(child, 0)
    made.add(3, 3, 0, 1)
    files = {path.name.split(".")[-2]: path for path in tmp_path.glob("raw/*.spans")}
    assert {pid: [row[0] for row in spans.read(str(path))] for pid, path in files.items()} == {
        str(os.getpid()): [1, 3],
        str(child): [2],
    }


def test_payloads() -> None:
    assert spans.unpack(spans.pack(7, 9)) == (7, 9)
    assert spans.unpack(spans.pack(-1, -1)) == (0, 0)
    assert spans.unpack(spans.pack(1 << 40, 1 << 40)) == (spans.ITEMS, spans.TOKENS)
    assert spans.pack(1 << 40, 1 << 40) < 1 << 63


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 500)), max_size=300), st.integers(1, 6)
)
def test_sums_are_exact(steps: list[tuple[int, int]], most: int) -> None:
    task = Task(2 * most)
    for n, (elapsed, items) in enumerate(steps):
        task.add(elapsed, elapsed // 2, items, n)
    assert len(task.groups) <= 2 * most
    assert sum(group.count for group in task.groups) == len(steps)
    assert sum(group.elapsed for group in task.groups) == sum(elapsed for elapsed, _ in steps)
    assert sum(group.items for group in task.groups) == sum(items for _, items in steps)
    assert [group.first for group in task.groups] == sorted(group.first for group in task.groups)


def test_a_long_run_has_few_events(tmp_path: Path) -> None:
    writer, made = room(tmp_path)
    site = {"site": 1, "region": "step", "clock": "host", "task": "train", "payload": "items"}
    writer.emit("site", {**site, "thread": 0, "place": None, "of": None})
    count = 3 * MOST
    for n in range(count):
        made.add(1_000 * n + 1, 1_000 * n + 501, 4, 1)
    assert writer.path is not None
    found = Steps(writer.path[:-4] + ".spans", writer.path)
    events = found.events()
    assert found.rows == count
    assert MOST // 2 <= len(events) <= MOST
    assert sum(event.data["of"]["count"] for event in events) == count
    assert sum(event.data["items"] for event in events) == 4 * count
    assert all(event.data["rate"] == pytest.approx(4 / 500e-9) for event in events)
    assert [event.end for event in events] == sorted(event.end for event in events)
