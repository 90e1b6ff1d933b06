"""Slurm on this machine: a controller and two virtual nodes, for tests of what runs under it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time

import pytest

DAEMONS = ("munged", "slurmctld", "slurmd")
GPUS = ("/dev/null", "/dev/zero")
"""What Slurm takes for GPUs: it only looks whether they are devices."""
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
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
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0
SlurmdTimeout=10
KillWait=20
"""


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """The environment of a cluster of two nodes of two GPUs each, both on this machine."""
    paths = {name: shutil.which(name, path="/usr/sbin:/sbin:/usr/bin") for name in DAEMONS}
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
    environment = {"SLURM_CONF": str(folder / "slurm.conf")}
    started = []

    def start(*words):
        with open(folder / "daemons.log", "a") as log:
            started.append(
                subprocess.Popen(
                    words,
                    env=os.environ | environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def until(ready):
        deadline = time.monotonic() + 120
        while not ready():
            assert time.monotonic() < deadline, (folder / "daemons.log").read_text()
            time.sleep(0.2)

    def idle():
        done = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format", "%t"],
            env=os.environ | environment,
            capture_output=True,
            text=True,
        )
        return set(done.stdout.split()) == {"idle"}

    try:
        start(paths["munged"], "--foreground", "--force", *munge)
        until((folder / "munge.socket").exists)
        start(paths["slurmctld"], "-D")
        for node in ("n1", "n2"):
            start(paths["slurmd"], "-D", "-N", node)
        until(idle)
        yield environment
    finally:
        for daemon in reversed(started):
            daemon.terminate()
        for daemon in reversed(started):
            daemon.wait(60)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
