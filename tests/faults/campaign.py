"""``python -m tests.faults.campaign``: a program under inject is killed at a random moment, many times.

Each time it is a run of its own. Every second one is killed before the program is as far as its first
step (while the interpreter starts, or we do), the others among the thousands of steps that follow.
After each: inject has died by the same signal, nothing is left running, the record reads, and it has
every step that the program finished, each once. What is not so is printed. Exit code 1 if there was any.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from injector.analysis.profiling import profile
from injector.store.folder import open_run

from .faulty import PATIENCE, ROOT, STEPS, VOIRFILE, Run

sys.path.append(str(Path(__file__).parents[1] / "launch"))

from supervised import belong

ENDLESS = STEPS.replace(
    "progress = mmap.mmap(-1, 8 * 1024)", "progress = mmap.mmap(os.open('progress', os.O_RDWR), 8)"
)
PROGRAM = ENDLESS + "open('ready', 'w').close()\nsteps(1 << 60)\n"


class Killed:
    """One run whose program is killed; ``wrong`` says what was not right.

    ``seconds`` after its start or, with ``ready``, after it has got to its steps. ``starting`` is how
    long that took, in seconds.
    """

    def __init__(self, folder: Path, seconds: float, ready: bool) -> None:
        self.folder = folder
        self.ready = ready
        (folder / "main.py").write_text(PROGRAM)
        (folder / "x.py").write_text(VOIRFILE)
        (folder / "progress").write_bytes(bytes(8))
        self.mark = f"KILLED_BY_CAMPAIGN={uuid.uuid4()}"
        self.exit = self._run(seconds)
        (self.made,) = struct.unpack("q", (folder / "progress").read_bytes())
        self.wrong = list(self._wrong())

    def _run(self, seconds: float) -> int:
        name, _, value = self.mark.partition("=")
        words = ["run", "--quiet", "--runs", "runs", "--voirfile", "x.py", "main.py"]
        process = subprocess.Popen(
            [sys.executable, "-m", "injector", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), name: value},
        )
        program = _program_of(process)
        began = time.monotonic()
        while self.ready and not (self.folder / "ready").exists():
            time.sleep(0.002)
        self.starting = time.monotonic() - began
        time.sleep(seconds)
        os.kill(program, signal.SIGKILL)
        return process.wait(PATIENCE)

    def _wrong(self):
        if self.exit != -signal.SIGKILL:
            yield f"inject ended with {self.exit}"
        if belong(self.mark):
            yield f"left running: {belong(self.mark)}"
        [folder] = (self.folder / "runs").glob("*")
        found = profile(open_run(str(folder)))
        run = Run(subprocess.CompletedProcess((), self.exit, "", ""), folder)
        steps = sum(process.steps for process in run.processes.values())
        if not self.made <= steps <= self.made + 1:
            yield f"{self.made} steps were made, {steps} are in the record"
        for pid, process in run.processes.items():
            if not process.is_whole():
                yield f"process {pid}: {len(process.values)} values, {process.steps} steps"
        if run.info["lost"] or run.info["torn"]:
            yield f"{run.info['lost']} records lost, {run.info['torn']} torn"
        if steps and found is None:
            yield "there is nothing to report"


def _program_of(process: subprocess.Popen[bytes]) -> int:
    """The number of the program's process, as soon as there is one."""
    due = time.monotonic() + PATIENCE
    while time.monotonic() < due:
        for name in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[-2:-1] == [b"main.py"] and b"injector" not in words:
                return int(name)
    raise AssertionError("the program was not started")


def main() -> int:
    """Kill as often as asked; say how it went."""
    parser = argparse.ArgumentParser(prog="tests.faults.campaign", description=__doc__)
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--within", type=float, default=0.1, help="seconds of steps (0.1)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    chance = random.Random(options.seed)
    began, before, steps, wrong = time.monotonic(), 0, [], 0
    starting = 1.0
    for number in range(options.times):
        with tempfile.TemporaryDirectory(prefix="injector-killed-") as folder:
            ready = number % 2 == 0
            seconds = chance.random() * (options.within if ready else starting)
            killed = Killed(Path(folder), seconds, ready)
        starting = killed.starting if ready else starting
        before += not killed.made
        steps.append(killed.made)
        wrong += bool(killed.wrong)
        for text in killed.wrong:
            print(
                f"{number}: killed after {seconds:.4f} s{' of steps' * ready}: {text}", flush=True
            )
        if (number + 1) % 100 == 0:
            print(f"{number + 1} killed, {wrong} wrong", flush=True)
    print(
        f"seed {options.seed}: {options.times} killed, {before} of them before the first step; "
        f"steps made: {sum(steps)}, at most {max(steps)}; wrong: {wrong}; "
        f"{time.monotonic() - began:.0f} s"
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
