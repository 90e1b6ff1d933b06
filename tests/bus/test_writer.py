from __future__ import annotations

import gc
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from injector.bus import writer as module
from injector.bus.writer import Writer
from injector.store.logs import Damage, read_records

ROOT = str(Path(__file__).parents[2])


def logs(folder: Path) -> list[Path]:
    return sorted((folder / "raw").glob("*.log"))


def records(path: Path | str, torn: int = 0) -> list[dict[str, Any]]:
    """Everything in a raw file but its process and its count of losses."""
    damage = Damage()
    found = list(read_records(str(path), damage))
    assert damage.torn == torn
    assert found[0]["event"] == "process"
    return [record for record in found[1:] if record["event"] != "lost"]


def numbers(path: Path | str, torn: int = 0) -> list[int]:
    return [record["data"] for record in records(path, torn)]


def python(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


def test_first_record_makes_the_file(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path), {"rank": 3, "local_rank": 1})
    assert not os.listdir(tmp_path)
    writer.emit("data", {"loss": 0.5})
    writer.emit_values("train/loss", 123, 0.25)
    [path] = logs(tmp_path)
    assert path.name == f"{os.uname().nodename}.{os.getpid()}.log"
    first = json.loads(path.read_bytes().split(b"\n")[0])
    assert first["event"] == "process"
    assert first["data"]["schema"] == 1 and first["data"]["pid"] == os.getpid()
    assert (first["data"]["rank"], first["data"]["local_rank"]) == (3, 1)
    data, value = records(path)
    assert (data["event"], data["data"]) == ("data", {"loss": 0.5})
    assert value["data"] == {"series": "train/loss", "value": 0.25} and value["t"] == 123
    writer.close()
    assert path.read_bytes().endswith(b"}\n")
    assert writer.lost == 0


def test_grows_and_shrinks(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    for number in range(50_000):
        writer.emit("data", number)
    assert os.path.getsize(logs(tmp_path)[0]) > 1_000_000
    writer.close()
    writer.close()
    [path] = logs(tmp_path)
    assert b"\0" not in path.read_bytes()
    writer.emit("data", 50_000)  # a thread that outlives the end
    assert numbers(path) == list(range(50_001))
    writer.close()
    assert numbers(path) == list(range(50_001))


def test_a_record_of_ten_megabytes(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.emit("data", "before")
    writer.emit("data", "x" * 10_000_000)
    writer.emit("data", "after")
    before, large, after = records(logs(tmp_path)[0])
    assert (before["data"], len(large["data"]), after["data"]) == ("before", 10_000_000, "after")


def test_a_record_beyond_all_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORD_LIMIT", 100_000)
    writer = Writer(str(tmp_path))
    writer.emit("data", "x" * 200_000)
    [record] = records(logs(tmp_path)[0])
    assert record["event"] == "too_long" and record["data"]["bytes"] > 200_000


def test_a_process_id_that_came_back(tmp_path: Path) -> None:
    for number in range(3):
        Writer(str(tmp_path)).emit("data", number)
    assert sorted(numbers(path)[0] for path in logs(tmp_path)) == [0, 1, 2]


def test_threads(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))

    def work(start: int) -> None:
        for number in range(start, start + 2_000):
            writer.emit("data", number)

    threads = [threading.Thread(target=work, args=(2_000 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert sorted(numbers(logs(tmp_path)[0])) == list(range(16_000))


def test_a_signal_handler_in_the_middle_of_a_record(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    numbered = itertools.count(1)

    def handler(*_: object) -> None:
        writer.emit("data", -next(numbered))

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for number in range(50_000):
            writer.emit("data", number)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    writer.close()
    found = numbers(logs(tmp_path)[0])
    handled = next(numbered) - 1
    assert handled > 5
    assert [n for n in found if n >= 0] == list(range(50_000))
    # One handler may interrupt another, so their order says nothing.
    assert sorted(-n for n in found if n < 0) == list(range(1, handled + 1))


def test_a_destructor_in_the_middle_of_a_record(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))

    class Told:
        def __repr__(self) -> str:
            writer.emit("data", "repr")
            return "told"

    writer.emit("data", Told())
    assert [r["data"] for r in records(logs(tmp_path)[0])] == ["repr", {"$unserializable": "told"}]


def fork(run: Any) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        run()
    finally:
        os._exit(0)


def test_twenty_forked_children(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.emit("data", -1)

    def child(n: int) -> None:
        if n % 2:
            writer.after_fork()  # told twice is told once
        for number in range(n * 1_000, (n + 1) * 1_000):
            writer.emit("data", number)
        if n % 3:
            writer.close()

    pids = [fork(lambda n=n: child(n)) for n in range(20)]
    for pid in pids:
        os.waitpid(pid, 0)
    writer.emit("data", -2)
    writer.close()
    assert len(logs(tmp_path)) == 21
    found = [numbers(path) for path in logs(tmp_path)]
    assert [-1, -2] in found
    assert sorted(number for each in found for number in each) == [-2, -1, *range(20_000)]


def test_a_child_that_says_nothing_leaves_nothing(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    writer.emit("data", 0)
    os.waitpid(fork(writer.close), 0)
    assert len(logs(tmp_path)) == 1
    writer.emit("data", 1)
    assert numbers(logs(tmp_path)[0]) == [0, 1]


def test_fork_while_a_thread_writes(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    going = True

    def work() -> None:
        while going:
            writer.emit("data", "thread")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            pid = fork(lambda: writer.emit("data", "child"))
            assert os.waitpid(pid, 0)[1] == 0  # it did not wait for a lock that nobody holds
    finally:
        going = False
        thread.join()
    writer.close()
    children = [path for path in logs(tmp_path) if str(path) != writer.path]
    assert len(children) == 20
    for path in children:
        assert [r["data"] for r in records(path)] == ["child"]


@pytest.mark.parametrize("runs", [50, pytest.param(200, marks=pytest.mark.release)])
def test_killed_at_any_moment(tmp_path: Path, runs: int) -> None:
    import mmap
    import random
    import time

    random.seed(1)
    with open(tmp_path / "told", "w+b") as file:
        file.truncate(8)
        shared = mmap.mmap(file.fileno(), 8)
    torn = 0
    for run in range(runs):
        folder = tmp_path / str(run)
        writer = Writer(str(folder))
        shared[:8] = bytes(8)

        def work(writer: Writer = writer) -> None:
            for number in range(1, 10**9):
                writer.emit("data", number)
                shared[:8] = number.to_bytes(8, "little")

        pid = fork(work)
        time.sleep(random.random() * 0.01)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        emitted = int.from_bytes(shared[:8], "little")
        damage, found = Damage(), []
        if emitted or logs(folder):
            found = [r for r in read_records(str(logs(folder)[0]), damage) if r["event"] == "data"]
        kept = [record["data"] for record in found]
        assert kept == list(range(1, len(kept) + 1))
        assert emitted <= len(kept) <= emitted + 1
        assert damage.torn <= 1
        torn += damage.torn
    assert torn <= 20


@pytest.mark.parametrize("end", ["os._exit(5)", "os.kill(os.getpid(), 9)", "os.abort()"])
def test_ends_without_a_goodbye(tmp_path: Path, end: str) -> None:
    code = f"""
        import os, sys
        from injector.bus.writer import Writer
        writer = Writer(sys.argv[1])
        for number in range(1000): writer.emit("data", number)
        {end}
    """
    python(code, str(tmp_path))
    assert numbers(logs(tmp_path)[0]) == list(range(1000))


def test_no_descriptor_stays(tmp_path: Path) -> None:
    # In a process of its own: pytest's other threads open files, too.
    code = """
        import os, sys
        from injector.bus.writer import Writer
        def fds(): return [n for n in range(100) if os.path.exists(f"/proc/self/fd/{n}")]
        before = fds()
        writer = Writer(sys.argv[1])
        for number in range(20000):
            writer.emit("data", number)
            if number % 5000 == 0: assert fds() == before, fds()
        child = os.fork()
        if not child:
            writer.emit("data", 0)
            assert fds() == before
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        writer.close()
        assert fds() == before, fds()
    """
    assert python(code, str(tmp_path)).stderr == ""


@pytest.mark.parametrize("close", [True, False])
def test_a_daemon_that_closes_everything(tmp_path: Path, close: bool) -> None:
    """Files that get the numbers ours had are never closed by us, not even at the very end."""
    code = f"""
        import os, sys
        from injector.bus.writer import Writer
        writer = Writer(sys.argv[1])
        writer.emit("data", 0)
        os.closerange(3, 1000)
        files = [open(f"{{sys.argv[1]}}/{{n}}.txt", "w") for n in range(30)]
        for number in range(1, 20000): writer.emit("data", number)
        if {close}: writer.close()
        for n, file in enumerate(files): print(n, file=file)
        # What was printed is in the files' own buffers until modules are taken down.
    """
    done = python(code, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert numbers(logs(tmp_path)[0]) == list(range(20_000))
    assert [(tmp_path / f"{n}.txt").read_text() for n in range(30)] == [f"{n}\n" for n in range(30)]


def test_memory_is_given_back(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    text = "x" * 1_000
    for _ in range(60_000):
        writer.emit("data", text)
    gc.collect()
    with open("/proc/self/smaps") as file:
        mapped, counting = 0, False
        for line in file:
            if "-" in line.split()[0]:
                counting = str(tmp_path) in line
            elif counting and line.startswith("Rss:"):
                mapped += int(line.split()[1])
    assert mapped <= 2 * module.LARGEST // 1024


FULL = """
    import os, resource, signal, sys
    from injector.bus.writer import Writer
    LIMIT
    writer = Writer(sys.argv[1])
    for number in range(30000): writer.emit("data", number)
    print(writer.lost, writer.why)
    RELIEVE
    import injector.bus.writer as module
    module.RETRY_NS = writer._retry_at = 0
    writer.emit("data", -1)
    writer.close()
"""


def check_full(folder: Path, output: str, why: str) -> None:
    lost, reason = output.split()
    assert reason == why
    found = numbers(logs(folder)[0])
    assert found[-1] == -1 and found[0] == 0
    assert len(found) - 1 + int(lost) == 30_000
    counts = [
        record["data"]
        for record in read_records(str(logs(folder)[0]), Damage())
        if record["event"] == "lost"
    ]
    assert max(count["records"] for count in counts) == int(lost)


def test_file_size_limit(tmp_path: Path) -> None:
    code = FULL.replace(
        "LIMIT", "resource.setrlimit(resource.RLIMIT_FSIZE, (300000, resource.RLIM_INFINITY))"
    ).replace("RELIEVE", "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))")
    done = python(code, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    check_full(tmp_path, done.stdout, "EFBIG")


def test_full_disk(tmp_path: Path) -> None:
    """On a small file system of its own, seen by nobody else and gone with the process."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    script = tmp_path / "script.py"
    code = FULL.replace("LIMIT", "open(sys.argv[1] + '/ballast', 'wb').write(bytes(200000))")
    script.write_text(
        textwrap.dedent(code.replace("RELIEVE", "os.unlink(sys.argv[1] + '/ballast')"))
    )
    shell = (
        'mount -t tmpfs -o size=600k tmpfs "$1" || exit 77; '
        '"$2" "$3" "$1"; code=$?; cp -r "$1" "$4"; exit $code'
    )
    try:
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", shell, "sh", disk, sys.executable, script, kept],
            env={**os.environ, "PYTHONPATH": ROOT},
            capture_output=True,
            text=True,
            timeout=60,
        )
    except FileNotFoundError:
        pytest.skip("no unshare")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("may not mount")
    assert (done.returncode, done.stderr) == (0, "")
    check_full(kept, done.stdout, "ENOSPC")


def test_no_more_descriptors(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        writer.emit("data", 0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (writer.lost, writer.why) == (1, "EMFILE")
    writer._retry_at = 0
    writer.emit("data", 1)
    [count] = [r for r in read_records(str(logs(tmp_path)[0]), Damage()) if r["event"] == "lost"]
    assert count["data"]["records"] == 1
    assert numbers(logs(tmp_path)[0]) == [1]


@pytest.mark.parametrize("folder", [None, "/proc/nothing/here"])
def test_nowhere_to_write(folder: str | None) -> None:
    writer = Writer(folder)
    for _ in range(100):
        writer.emit("data", 1)
        writer.emit_values("loss", 1, 2.0)
    writer.close()
    assert writer.lost == 200 and writer.why == "ENOENT"


def test_a_folder_that_vanishes(tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "run"
    writer = Writer(str(folder))
    writer.emit("data", 0)
    shutil.rmtree(folder)
    for number in range(20_000):
        writer.emit("data", number)
    writer.close()
    assert writer.lost > 0


def test_a_file_system_that_cannot_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(19, "No such device")

    monkeypatch.setattr(module, "Window", refuse)
    writer = Writer(str(tmp_path))
    for number in range(100):
        writer.emit("data", number)
    assert numbers(logs(tmp_path)[0]) == list(range(100))
    writer.close()
    assert writer.lost == 0


def test_a_disk_that_cannot_allocate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    writer = Writer(str(tmp_path))
    for number in range(20_000):
        writer.emit("data", number)
    assert numbers(logs(tmp_path)[0]) == list(range(20_000))
    assert writer.lost == 0


def test_at_the_limit_of_recursion(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path))
    kept = 0

    def deeper() -> None:
        nonlocal kept
        writer.emit("data", {"a": [1]})
        kept += 1
        deeper()

    with pytest.raises(RecursionError):
        deeper()
    writer.emit("data", "after")
    writer.close()
    found = records(logs(tmp_path)[0])
    assert found[-1]["data"] == "after"
    assert len(found) - 1 + writer.lost == kept


def test_light() -> None:
    done = python("import sys; import injector.bus.writer; print(*sys.modules)")
    assert not {"json", "re", "typing", "enum", "collections"} & set(done.stdout.split())
