"""mpirun over several machines: here all are this one, and mpirun is a double, Open MPI or MPICH."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import pytest
from mpi_here import MPIRUN, OPEN_MPI, mpi_launcher
from slurm_cluster import free_ports
from suite_runs import until

from injector.suite.plan.command_lines import MPI_START
from injector.suite.run import mpi_start
from injector.suite.run.mpi_start import Link, Machines, StartingMachine, signed

RANKS = """\
#!/bin/sh
echo "$FOR: $WHO $INJECT_MPI_SECRET$PMI_RANK$PMIX_MCA_x $*" > "$FOLDER/ranks.$WHO"
%s
"""


class Job:
    """Two machines or more, each a process of its own."""

    def __init__(self, folder, environ):
        self.folder = folder
        self.environ = {
            **environ,
            **OPEN_MPI,
            "INJECT_MPI_MEETING": f"127.0.0.1:{free_ports(1)[0]}",
            "PATH": f"{folder}:{environ['PATH']}",
            "FOLDER": str(folder),
            "PMI_RANK": "7",
            "PMIX_MCA_x": "!",
        }
        self.command("mpirun", MPIRUN)
        self.machines = []

    def command(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def start(self, *names, words, secret="hidden"):
        """Start the machines, each with the name and the variable ``WHO`` of its own."""
        start = [sys.executable, "-I", "-S", MPI_START, "2", str(len(names)), *words]
        for number, name in enumerate(names):
            own = {"MACHINE": str(number), "NAME": name, "SECRET": secret}
            own = {f"INJECT_MPI_{key}": text for key, text in own.items()} | {"WHO": f"m{number}"}
            place = self.folder / own["WHO"]
            place.mkdir()
            # Two daemons of Open MPI 4.1 with one TMPDIR may remove each other's files, and mpirun waits.
            own["TMPDIR"] = str(self.folder / f"tmp{number}")
            os.mkdir(own["TMPDIR"])
            self.machines.append(
                subprocess.Popen(
                    start,
                    cwd=place,
                    env=self.environ | own,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            )

    def ended(self):
        """The exit codes, and what machine 0 printed; nothing is left of what was made for mpirun."""
        printed = [each.communicate(timeout=60) for each in self.machines]
        until(lambda: not list(self.folder.glob("tmp0/inject-mpi-*")), "an end of machine 0")
        self.out, self.message = printed[0]
        return [each.returncode for each in self.machines]

    def ranks(self):
        return {each.name[6:]: each.read_text() for each in self.folder.glob("ranks.*")}


@pytest.fixture
def job(tmp_path, environ):
    made = Job(tmp_path, environ)
    yield made
    for each in made.machines:
        with suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.wait()


def test_each_machine_starts_what_is_its(job):
    job.command("program", RANKS % "")
    job.start("a", "b", "c", words=["mpirun", "-n", "6", "program", "x"])
    assert job.ended() == [0, 0, 0], job.message
    assert job.ranks() == {
        "m0": "a: m0 ! x slots=2\n",
        "m1": "b: m1 ! x slots=2\n",
        "m2": "c: m2 ! x slots=2\n",
    }


def test_machines_of_one_name(job):
    job.command("program", RANKS % "")
    job.start("here", "here", words=["mpirun", "-n", "4", "program", "x"])
    assert job.ended() == [0, 0], job.message
    found = {machine: text.split(":")[0] for machine, text in job.ranks().items()}
    assert found == {"m0": "here", "m1": "here-1"}


def test_an_exit_code_of_another_machine(job):
    job.command("program", RANKS % "test $WHO = m0 || exit 5")
    job.start("a", "b", words=["mpirun", "-n", "4", "program"])
    assert job.ended() == [5, 0]


def test_a_daemon_that_is_not_there_is_named(job):
    job.start("a", "b", words=["mpirun", "-n", "4", "no-such-daemon"])
    assert job.ended() == [127, 0]
    assert "FOR=b on b: exit code 127" in job.message


def test_a_machine_that_is_lost_ends_what_was_started_there(job):
    job.command("program", RANKS % "test $WHO = m0 || exec sleep 600")
    job.start("a", "b", words=["mpirun", "-n", "4", "program"])
    until(lambda: "m1" in job.ranks(), "a rank of b")
    os.killpg(job.machines[1].pid, signal.SIGKILL)
    assert job.ended()[0] == mpi_start.LOST
    assert "on b: the connection to it was lost" in job.message


def test_when_mpirun_ends_so_does_what_runs_elsewhere(job):
    job.command("program", RANKS % "exec sleep 600")
    job.start("a", "b", words=["mpirun", "-n", "4", "program"])
    until(lambda: len(job.ranks()) == 2, "ranks")
    job.machines[0].send_signal(signal.SIGTERM)
    job.machines[0].wait(60)
    job.machines[1].wait(60)
    assert job.machines[1].returncode == 0


def test_no_mpirun(job):
    (job.folder / "mpirun").unlink()
    job.start("a", words=["no-mpirun", "-n", "2", "program"])
    assert job.ended() == [127] and "there is no command no-mpirun on a" in job.message


@pytest.mark.parametrize("which", ["Open MPI", "MPICH"])
def test_the_true_ones(job, which):
    command = mpi_launcher(which)
    job.command("program", '#!/bin/sh\necho $OMPI_COMM_WORLD_RANK$PMI_RANK $WHO "$(pwd -P)"\n')
    job.start("a", "b", words=[command, "-n", "4", "program"])
    assert job.ended() == [0, 0], job.message
    assert sorted(job.out.splitlines()) == [
        *(f"{rank} m0 {job.folder}/m0" for rank in (0, 1)),
        *(f"{rank} m1 {job.folder}/m0" for rank in (2, 3)),  # a folder that both have
    ]


# --- the secret -------------------------------------------------------------------------------------


def test_a_machine_without_the_secret_is_not_taken(monkeypatch):
    monkeypatch.setattr(mpi_start, "TOGETHER", 1.0)
    machines = Machines("hidden", 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        other = socket.create_connection(listener.getsockname())
        sign = signed("guessed", "machine", 1, "b", "mark")
        Link(other).send(machine=1, name="b", mark="mark", signed=sign)
        with pytest.raises(TimeoutError, match="machine 1 did not come within 1 s"):
            machines.gather(listener)
        assert other.recv(1) == b""
        other.close()


@pytest.mark.parametrize("mark", ["", "of another time"])
def test_a_command_of_another_one_is_not_started(monkeypatch, tmp_path, capfd, mark):
    """``mark``: it was signed for an earlier connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = ":".join(map(str, listener.getsockname()))
        monkeypatch.setenv("INJECT_MPI_MEETING", place)
        monkeypatch.setenv("INJECT_MPI_NAME", "b")
        waiting = StartingMachine("hidden", 1)
        sock, _ = listener.accept()
        done, here = f"touch {tmp_path}/done", os.getcwd()
        sign = signed("hidden" if mark else "guessed", "run", mark, "1", done, here)
        Link(sock).send(run="1", command=done, folder=here, signed=sign)
        assert waiting.run() == 1
        sock.close()
    assert "a command that does not come from machine 0" in capfd.readouterr().err
    assert not (tmp_path / "done").exists()
