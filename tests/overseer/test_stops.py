"""Ends on purpose: as under voir, for the program, its threads and the processes that it has started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAMS = {
    "a loop": "for i in range(99):\n    give(x=i)\n    print(i)",
    "a loop in a function that cleans up": """
def f():
    try:
        for i in range(99):
            give(x=i)
            print(i)
    except Exception:
        print("an error")
    finally:
        print("cleaned")
f()
print("never")
""",
    "a generator": """
def f():
    with contextlib.closing(open(os.devnull)) as file:
        for i in range(99):
            give(x=i)
            yield i
print(list(f()))
""",
    "voir's iterate": "for i in iterate('t', range(99)):\n    print(i)\n    give(x=i)",
    "a thread": """
def f():
    while True:
        give(x=1)
        time.sleep(0.01)
threading.Thread(target=f, daemon=True).start()
while True:
    time.sleep(0.01)
""",
}
HEAD = "import contextlib, os, threading, time\nfrom voir import give, iterate\n"
STOPS = {
    "early_stop": "ov.require(early_stop(key='x', n=4))",
    "early_stop of what a handler gave": """
    ov.given.where("x").subscribe(lambda d: ov.give(y=d["x"]))
    ov.require(early_stop(key="y", n=4))
""",
    "ov.stop": "ov.given.where('x').skip(4).subscribe(lambda _: ov.stop())",
    "ov.abort": "ov.given.where('x').skip(4).subscribe(lambda _: ov.abort(ValueError('x')))",
}
VOIRFILE = """
from voir.instruments import early_stop
from voir.phase import StopProgram
def instrument_it(ov):
    yield ov.phases.init
    {}
    try:
        yield ov.phases.run_script
    except StopProgram:
        print("told")
"""


def under_voir(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "voir", *words],
        cwd=folder,
        env={**os.environ, "VOIRFILE": "x.py", "DATA_FD": "99"},
        capture_output=True,
        text=True,
        timeout=120,
    )


CLEANS = "a loop in a function that cleans up"
FEW = [*((program, "early_stop") for program in PROGRAMS), *((CLEANS, stop) for stop in STOPS)]
ALL = [(program, stop) for program in PROGRAMS for stop in STOPS]


def ends_as_under_voir(inject, folder, program, stop):
    run = inject(HEAD + PROGRAMS[program], VOIRFILE.format(STOPS[stop].strip()))
    if program != "a thread":  # voir ends the thread, and goes on
        voir = under_voir(folder, "main.py")
        assert (run.exit, run.out) == (voir.returncode, voir.stdout)
        assert ("Traceback" in run.err) == ("Traceback" in voir.stderr)
    if stop != "ov.abort":
        assert (run.exit, run.record["stopped"]) == (0, True)
        assert run.out.splitlines()[-1] == "told"
        assert "Traceback" not in run.err and run.record["failures"] == []


@pytest.mark.parametrize(("program", "stop"), dict.fromkeys(FEW))
def test_the_program_ends_as_under_voir(inject, tmp_path, program, stop):
    ends_as_under_voir(inject, tmp_path, program, stop)


@pytest.mark.release
@pytest.mark.parametrize(("program", "stop"), [pair for pair in ALL if pair not in FEW])
def test_every_program_ends_as_under_voir(inject, tmp_path, program, stop):
    if (program, stop) != ("a thread", "ov.abort"):
        ends_as_under_voir(inject, tmp_path, program, stop)


OFTEN = ("init", "run_script")
PHASES = [
    pytest.param(phase, marks=[] if phase in OFTEN else pytest.mark.release)
    for phase in ("init", "parse_args", "load_script", "run_script", "finalize")
]


@pytest.mark.parametrize("phase", PHASES)
def test_a_stop_of_an_instrument_ends_what_was_to_come(inject, tmp_path, phase):
    voirfile = f"""
        from voir.phase import StopProgram
        def instrument_a(ov):
            try:
                yield ov.phases.run_script
            except StopProgram:
                print("told")
        def instrument_b(ov):
            yield ov.phases.{phase}
            ov.stop()
    """
    run = inject("print('ran')", voirfile)
    voir = under_voir(tmp_path, "main.py")
    assert (run.exit, run.out) == (0, voir.stdout)
    assert "Traceback" not in run.err and run.record["failures"] == []


JOB = """
import json, multiprocessing, os, signal, subprocess, sys, time
def work():
    from voir import give
    for i in range(10**6):
        give(x=i)
        time.sleep(0.01)
def send():
    with open(int(os.environ["DATA_FD"]), "w") as file:
        print(json.dumps({"$event": "stop"}), file=file)
    time.sleep(600)
if __name__ == "__main__":
    how = sys.argv[1]
    if how == "subprocess":
        subprocess.run([sys.executable, __file__, "here"])
    elif how == "here":
        try:
            work()
        finally:
            print("cleaned", flush=True)
    elif how == "sent":
        send()
    elif how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.run([sys.executable, __file__, "here"])
        time.sleep(600)
    else:
        child = multiprocessing.get_context(how).Process(target=work)
        child.start()
        time.sleep(600)
    print("never")
"""
SIGNAL = """
    from voir.instruments import early_stop
    def instrument_it(ov):
        yield ov.phases.init
        ov.require(early_stop(key="x", n=3, signal="stop"))
"""


@pytest.mark.parametrize("how", ["here", "subprocess", "fork", "spawn", "sent", "deaf"])
def test_the_event_stop_ends_the_job(inject, how):
    """Whichever process says so; milabench ends all processes of the job. One that does not end by itself
    (``deaf``), or takes longer than its grace, as a launcher may on a busy machine, has succeeded, too.
    """
    grace = ("--grace", "0.2s") if how == "deaf" else ()
    run = inject(JOB, SIGNAL, *grace, args=(how,))
    assert (run.exit, run.record["stopped"]) == (0, True), run.err
    assert "never" not in run.out
    assert how != "here" or run.out == "cleaned\n"
    assert run.record["outlived"] == []


RANKS = """
import os, sys, time
import torch
import torch.distributed as dist
from voir import give
dist.init_process_group("gloo")
for i in range(10**6):
    dist.all_reduce(torch.ones(1))
    give(x=i)
    time.sleep(0.01)
    if dist.get_rank() == 1 and i == 4:
        time.sleep(600)
"""


@pytest.mark.release
@pytest.mark.parametrize("rank", ["every rank", "one rank"])
def test_a_stop_ends_all_ranks(inject, rank):
    """The others wait for the rank that stopped, or sleep; the job has succeeded."""
    pytest.importorskip("torch")
    when = "os.environ['RANK'] == '0'" if rank == "one rank" else "True"
    voirfile = f"""
        import os
        from voir.instruments import early_stop
        def instrument_it(ov):
            yield ov.phases.init
            if {when}:
                ov.require(early_stop(key="x", n=3))
    """
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    run = inject(RANKS, voirfile, "--grace", "1s", *launch)
    assert (run.exit, run.record["stopped"], run.record["outlived"]) == (0, True, []), run.err
    assert ("Traceback" in run.err) <= (rank == "one rank")


SENDS = """
import json, os, sys
from voir.smuggle import SmuggleWriter
print("first", "DATA_FD" in dict(os.environ), sys.stdout.isatty())
writer = SmuggleWriter(sys.stdout)
print(json.dumps({"task": "train", "loss": 0.5}), file=writer)
writer.write('{"$event": "mine", "$da')
writer.write('ta": {"a": 1}}\\nno json\\n')
writer.flush()
print(json.dumps({"loss": 9}), file=SmuggleWriter(sys.stderr))
number = int(os.environ.get("DATA_FD", 3))
with open(number, "w", buffering=1) as file:
    print(json.dumps({"task": "train", "rate": 12.5}), file=file)
    print('{"$event": "end", "$data": 3}', file=file)
if sys.argv[1:] == ["parent"]:
    if os.fork() == 0:
        os.write(int(os.environ.pop("DATA_FD", "3")), b'{"forked": 1}\\n')
        os._exit(0)
    os.wait()
    import subprocess
    sys.stdout.flush()
    subprocess.run([sys.executable, __file__, "child"])
print("last", os.environ.get("NOTHING"))
"""


def test_records_that_a_program_sends_itself(inject, tmp_path):
    run = inject(SENDS, None, args=("child",))
    assert (run.exit, run.out) == (0, "first False False\nlast None\n")
    assert "\033[" in run.err and "Traceback" not in run.err
    assert [d["loss"] for d in run.events("data") if "loss" in d] == [0.5]
    assert [d["rate"] for d in run.events("data") if "rate" in d] == [12.5]
    assert [(d["a"]) for d in run.events("mine")] == [1]
    assert [d["line"] for d in run.events("format_error")] == ["no json"]
    assert [d["name"] for d in run.events("event")] == ["end"]

    for announced in ({}, {"DATA_FD": "9"}):
        program = SENDS.replace("with open(number", "with open(os.dup(number)")
        run = inject(program, None, args=("parent",), env=announced)
        assert run.exit == 0, run.err
        assert run.out.replace("True", "False").splitlines() == [
            *("first False False", "first False False", "last None", "last None")
        ]
        assert len([d for d in run.events("data") if "rate" in d]) == 2
        assert len([d for d in run.events("data") if "forked" in d]) == 1
        assert len([d for d in run.events("data") if "loss" in d]) == 2


def test_a_descriptor_that_another_process_gave_is_theirs(inject, tmp_path):
    """As under milabench, which reads both."""
    (tmp_path / "main.py").write_text(SENDS)
    read, write = os.pipe()
    command = [sys.executable, "-m", "injector", "run", "--quiet", "--runs", "r", "main.py"]
    env = {**os.environ, "PYTHONPATH": os.getcwd(), "DATA_FD": str(write)}
    done = subprocess.run(command, cwd=tmp_path, env=env, pass_fds=[write], capture_output=True)
    os.close(write)
    with open(read) as file:
        assert [line[:10] for line in file] == ['{"task": "', '{"$event":']
    assert done.returncode == 0 and b"\033[" not in done.stdout
    read, write = os.pipe()
    done = subprocess.run(
        command, cwd=tmp_path, env={**env, "DATA_FD": "1"}, stdout=write, stderr=-1, text=True
    )
    os.close(write)
    with open(read) as file:
        assert file.read().count("\033[") == 4


WRAPPED = """
from {module} import StopProgram

class Loader:
    def __init__(self, batches):
        self.batches = batches
    def __iter__(self):
        for number, batch in enumerate(self.batches):
            if number == 3:
                raise StopProgram("enough")
            yield batch

def instrument_loader(ov):
    ov.override("//loader > #value", Loader)
    try:
        yield ov.phases.run_script
    except StopProgram:
        print("told")
"""
LOADED = """
import sys
def loader():
    return range(99)
def main():
    try:
        for batch in loader():
            print(batch)
    finally:
        print("cleaned")
    print("never")
main()
"""


@pytest.mark.parametrize("module", ["voir.phase", "injector"])
def test_an_object_of_a_voirfile_stops_the_program_that_uses_it(inject, tmp_path, module):
    """As milabench's loaders do after so many batches: no hook is there to pass it."""
    run = inject(LOADED, WRAPPED.format(module=module))
    assert run.out.split() == ["0", "1", "2", "cleaned", "told"]
    assert (run.exit, run.record["stopped"], run.record["failures"]) == (0, True, [])
    assert "Traceback" not in run.err
    assert len(run.events("stop")) == 1


def test_a_program_that_catches_such_a_stop_goes_on(inject):
    program = LOADED.replace(
        "    finally:", "    except SystemExit as stop:\n        str(stop.code)"
    )
    run = inject(program + "sys.exit(3)\n", WRAPPED.format(module="injector"))
    assert run.out.split()[:5] == ["0", "1", "2", "cleaned", "never"]
    assert (run.exit, run.record["stopped"]) == (3, False)
