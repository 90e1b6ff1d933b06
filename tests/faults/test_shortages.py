"""No room, no folder, no descriptor: the program goes on, and what was lost is counted."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from .faulty import ROOT, STEPS, VOIRFILE, Run, report

MANY = 60_000
"""Steps whose record takes some 3 MB, more than there is room for."""


def counted(process, made):
    """Whether what was kept and what is said to be lost is what was made, and a few words besides."""
    kept = len(process.values) + process.late + process.steps
    return process.lost > 0 and 2 * made <= kept + process.lost <= 2 * made + 20


def test_a_limit_on_the_size_of_files(launch):
    run = launch(f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
steps({MANY})
say(os.getpid())
sys.exit(4)
""").over()
    assert run.exit == 4
    process = run.processes[int(run.out)]
    assert process.values == [float(number) for number in range(len(process.values))]
    assert counted(process, MANY)
    assert process.info["why"] == "File too large"
    assert "records were lost" in run.err or "record" in run.err


def can_mount():
    words = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=4k", "none", "/mnt"]
    try:
        return subprocess.run(words, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="needs leave to mount a file system")
def test_the_disk_is_full(tmp_path):
    """The run folder lies on a tmpfs of 2 MiB, which the program's record fills."""
    (tmp_path / "main.py").write_text(
        STEPS + f"steps({MANY})\nprint('went on', os.getpid())\nsys.exit(4)\n"
    )
    (tmp_path / "x.py").write_text(VOIRFILE)
    (tmp_path / "small").mkdir()
    words = f"{sys.executable} -m injector run --runs small --voirfile x.py main.py"
    script = (
        "mount -t tmpfs -o size=2m none small\n"
        f"{words}; code=$?\n"
        "mkdir runs; cp -a small/* runs/\n"
        "exit $code\n"
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout.split()[:2]) == (4, ["went", "on"]), done.stderr
    [folder] = (tmp_path / "runs").glob("*")
    run = Run(done, folder)
    [process] = run.processes.values()
    assert process.values == [float(number) for number in range(len(process.values))]
    assert counted(process, MANY)
    assert process.info["why"] == "No space left on device"
    told = report(folder, {})
    assert told.startswith("missing  ") and "lost: No space left on device" in told
    assert "throughput" in told  # what there was is told
    assert "could not be written: No space left on device" in " ".join(done.stderr.split())


@pytest.mark.parametrize("what", ["the folder", "what is in it"])
def test_the_run_folder_is_removed(launch, what):
    """As long as the program has room left, it notices nothing; then it cannot have any more."""
    removed = "runs[0]" if what == "the folder" else "os.path.join(runs[0], 'raw')"
    run = launch(f"""
import glob, shutil
steps(100)
runs = glob.glob("runs/*")
shutil.rmtree({removed})
steps({MANY})
print("went on", flush=True)
sys.exit(4)
""")
    out, err = run.process.communicate(timeout=120)
    assert (run.process.returncode, out) == (4, "went on\n"), err
    assert "Traceback" not in err
    assert "inject" in err  # it says what became of the record


def obey_permissions():
    """Have root lose, with the next exec, its leave to write what is read-only (CAP_DAC_OVERRIDE)."""
    if os.geteuid() == 0:
        drop_from_bounding_set, cap_dac_override = 24, 1
        ctypes.CDLL(None).prctl(drop_from_bounding_set, cap_dac_override, 0, 0, 0)


def test_the_run_folder_is_made_read_only(launch, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    run = launch(
        """
import glob
assert not os.access("closed", os.W_OK), "this user may write everywhere"
steps(100)
[run] = glob.glob("runs/*")
os.chmod(run + "/raw", 0o555)
os.chmod(run, 0o555)
if os.fork() == 0:
    steps(100)
    os._exit(0)
os.wait()
print("went on", flush=True)
sys.exit(4)
""",
        preexec_fn=obey_permissions,
    )
    out, err = run.process.communicate(timeout=120)
    [folder] = run.runs.glob("*")
    for path in (folder, folder / "raw"):
        path.chmod(0o755)
    assert (run.process.returncode, out) == (4, "went on\n"), err
    assert "Permission denied" in err


def test_no_descriptor_is_free(launch):
    run = launch(f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError as error:
    say(os.getpid(), error.errno)
steps({MANY})
for file in files:
    file.close()
sys.exit(4)
""").over()
    assert run.exit == 4
    pid, number = map(int, run.out.split())
    assert number == 24
    process = run.processes[pid]
    assert counted(process, MANY)
    assert process.info["why"] == "Too many open files"


def test_a_place_that_cannot_be_written(inject, environ, tmp_path):
    """There the run goes elsewhere, and the program runs in any case."""
    (tmp_path / "file").touch()
    (tmp_path / "main.py").write_text("import sys\nsys.exit(4)\n")
    # Named by --runs it would be bad input.
    environ = {**environ, "INJECT_RUNS": str(tmp_path / "file" / "runs")}
    done = subprocess.run(
        [*inject, "run", "main.py"], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 4
    assert "no run can be recorded in" in done.stderr


def test_there_is_no_proc(tmp_path):
    """What needs it does without: the program starts and ends as always."""
    from injector import reaper

    real, reaper.os = reaper.os, _NoProc()
    try:
        assert reaper.descendants(1) == []
    finally:
        reaper.os = real


class _NoProc:
    def __getattr__(self, name):
        return getattr(os, name)

    def listdir(self, path):
        raise FileNotFoundError(path)
