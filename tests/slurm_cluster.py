"""Slurm on this machine: a controller and two virtual nodes, for tests of what runs under it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time

import pytest

DAEMONS = ("munged", "slurmctld", "slurmd")
PLACES = "/usr/sbin:/sbin:/usr/bin"
GPUS = ("/dev/null", "/dev/zero")
"""What Slurm takes for GPUs: it only looks whether they are devices."""
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=20
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 Gres=gpu:2 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n[1-2] MaxTime=2 State=UP
PartitionName=urgent Nodes=n[1-2] PriorityTier=9 State=UP
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0
SlurmdTimeout=10
KillWait=20
MaxArraySize=4
"""
"""A job that is requeued waits for ``cred_expire`` seconds before it may begin again: 120 by default."""


class SlurmCluster(dict):
    """Two nodes of two GPUs each, both on this machine; its items are the environment of its commands."""

    def __init__(self, folder):
        super().__init__(SLURM_CONF=str(folder / "slurm.conf"))
        self.folder = folder
        self.nodes = {}
        """The daemon of each."""
        self._others = []

    def start(self, *words):
        """Start a daemon."""
        with open(self.folder / "daemons.log", "a") as log:
            return subprocess.Popen(
                words, env=os.environ | self, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def begin(self, *words):
        """Start a daemon that no node has."""
        self._others.append(self.start(*words))

    def add(self, name):
        """Start the daemon of a node, and wait until it can run jobs."""
        path = shutil.which("slurmd", path=PLACES)
        self.nodes[name] = self.start(path, "-D", "-N", name)
        self.until(lambda: self.state(name) == "idle")

    def lose(self, name):
        """Kill the daemon of a node; what it has started goes on."""
        self.nodes[name].kill()
        self.nodes[name].wait(60)

    def state(self, name):
        """``idle``, ``down``, …"""
        words = [
            "sinfo",
            "--noheader",
            "--Node",
            f"--nodes={name}",
            "--partition=main",
            "--format=%t",
        ]
        done = subprocess.run(words, env=os.environ | self, capture_output=True, text=True)
        return done.stdout.strip()

    def until(self, ready):
        """Wait for something."""
        deadline = time.monotonic() + 120
        while not ready():
            assert time.monotonic() < deadline, (self.folder / "daemons.log").read_text()
            time.sleep(0.2)

    def close(self):
        """End all jobs, whose ends the controller has to hear of, and all daemons."""
        how = {"env": os.environ | self, "capture_output": True, "text": True}
        deadline = time.monotonic() + 30
        subprocess.run(["scancel", "--me"], **how)
        while subprocess.run(["squeue", "--noheader"], **how).stdout:
            if time.monotonic() > deadline:
                break  # of a node that has no daemon any more
            time.sleep(0.2)
        daemons = [*self.nodes.values(), *reversed(self._others)]
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(60)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """The cluster."""
    paths = {name: shutil.which(name, path=PLACES) for name in DAEMONS}
    missing = [name for name, path in paths.items() if path is None]
    if missing or os.geteuid() != 0:
        why = f"{', '.join(missing)} not installed" if missing else "its daemons are root's"
        pytest.skip(f"needs Slurm: {why} (apt-get install slurmd slurmctld slurm-client munge)")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool.n1", "spool.n2"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(64))
    (folder / "munge.key").chmod(0o600)
    text = CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0], folder=folder, ports=free_ports(3)
    )
    (folder / "slurm.conf").write_text(text)
    gpus = "".join(f"NodeName=n[1-2] Name=gpu File={path}\n" for path in GPUS)
    (folder / "gres.conf").write_text(gpus)
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
    munge = [f"--{option}={folder}/munge.{suffix}" for option, suffix in files.items()]
    cluster = SlurmCluster(folder)
    try:
        cluster.begin(paths["munged"], "--foreground", "--force", *munge)
        cluster.until((folder / "munge.socket").exists)
        cluster.begin(paths["slurmctld"], "-D")
        for node in ("n1", "n2"):
            cluster.add(node)
        yield cluster
    finally:
        cluster.close()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
