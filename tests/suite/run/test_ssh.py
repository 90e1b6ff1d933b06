"""Suites over ssh: on two network namespaces, each with a sshd and a file system of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
import wrong_clock
from mpi_here import OPEN_MPI, mpi_launcher
from suite_runs import (
    MPI_RANKS,
    PATIENCE,
    RANKS,
    Suites,
    last,
    until,
)

from injector.analysis.profiling import profile
from injector.errors import UserError
from injector.store.folder import open_run
from injector.suite.run.ssh_nodes import SshNode, nodes_of

COMMANDS = ("cc", "ip", "sshd", "ssh", "ssh-keygen", "rsync", "unshare")
NETWORK = "10.77.61"
HOST = """
hostname {name}
mount --bind {own} {far}
mount --bind {folder}/hosts /etc/hosts
exec {sshd} -D -e -f /dev/null -h {folder}/host -o AuthorizedKeysFile={folder}/key.pub \
    -o PidFile=none -o StrictModes=no -o UsePAM=no -o SetEnv="{variables}"
"""


def call(*words):
    subprocess.run(words, check=True, capture_output=True, timeout=60)


def without_network():
    """What is missing for hosts of our own."""
    missing = [
        name for name in COMMANDS if shutil.which(name, path="/usr/sbin:/usr/bin:/bin") is None
    ]
    if missing or os.geteuid() != 0:
        return f"{', '.join(missing)} not installed" if missing else "namespaces are root's"
    made = subprocess.run(["ip", "netns", "add", "inject-test"], capture_output=True)
    subprocess.run(["ip", "netns", "del", "inject-test"], capture_output=True)
    return "" if made.returncode == 0 else made.stderr.decode()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """The folder that each host has for itself, and what its suites need; hosts are a1 and a2."""
    if why := without_network():
        pytest.skip(f"needs two hosts: {why} (apt-get install iproute2 openssh-server rsync)")
    folder = tmp_path_factory.mktemp("ssh")
    far = folder / "far"
    far.mkdir()
    os.makedirs("/run/sshd", exist_ok=True)
    for name in ("key", "host"):
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    addresses = {name: f"{NETWORK}.1{name[1]}" for name in ("a1", "a2")}
    public = (folder / "host.pub").read_text()
    (folder / "known").write_text("".join(f"{each} {public}" for each in addresses.values()))
    (folder / "hosts").write_text("".join(f"{ip} {name}\n" for name, ip in addresses.items()))
    (folder / "bin").mkdir()
    (folder / "bin/ssh").write_text(
        f'#!/bin/sh\nexec /usr/bin/ssh -o UserKnownHostsFile={folder}/known "$@"\n'
    )
    (folder / "bin/ssh").chmod(0o755)
    preload = f" LD_PRELOAD={wrong_clock.build(folder)} CLOCK_FILE={folder}/clock"
    daemons = []
    try:
        call("ip", "link", "add", "injtest", "type", "bridge")
        call("ip", "addr", "add", f"{NETWORK}.1/24", "dev", "injtest")
        call("ip", "link", "set", "injtest", "up")
        for name, address in addresses.items():
            own = folder / name
            own.mkdir()
            inside = ["ip", "netns", "exec", f"inject-{name}"]
            call("ip", "netns", "add", f"inject-{name}")
            peer = ["peer", "name", "eth0", "netns", f"inject-{name}"]
            call("ip", "link", "add", f"injt{name}", "type", "veth", *peer)
            call("ip", "link", "set", f"injt{name}", "master", "injtest", "up")
            call(*inside, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
            for link in ("eth0", "lo"):
                call(*inside, "ip", "link", "set", link, "up")
            sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
            variables = f"HOME={folder} PATH={far}/bin:/usr/local/bin:/usr/bin:/bin"
            variables += preload if name == "a2" else ""  # whose clock is wrong
            script = HOST.format(
                name=name, own=own, far=far, sshd=sshd, folder=folder, variables=variables
            )
            path = folder / f"{name}.log"
            with path.open("w") as log:
                words = [*inside, "unshare", "--mount", "--uts", "sh", "-c", script]
                daemons.append(subprocess.Popen(words, stdout=log, stderr=log))
            until(lambda path=path: "listening" in path.read_text(), "a sshd")
        yield folder, addresses
    finally:
        for daemon in daemons:
            daemon.terminate()
        for name in addresses:
            words = ["ip", "netns", "pids", f"inject-{name}"]
            for pid in subprocess.run(words, capture_output=True, text=True).stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "link", "del", f"injt{name}"], capture_output=True)
            subprocess.run(["ip", "netns", "del", f"inject-{name}"], capture_output=True)
        subprocess.run(["ip", "link", "del", "injtest"], capture_output=True)


@pytest.fixture
def far(hosts, environ, tmp_path):
    """Suites in a folder that no other host sees."""
    folder, addresses = hosts
    place = folder / "far" / tmp_path.name
    place.mkdir()
    made = Suites(place, environ)
    made.environ["PATH"] = f"{folder}/bin:{made.environ['PATH']}"
    made.system = {
        "sshkey": str(folder / "key"),
        "nodes": [{"name": name, "ip": address} for name, address in addresses.items()],
    }
    return made


def written(far, benchmarks, **system):
    path = far.write(benchmarks)
    text = json.dumps({"system": far.system | system})[1:-1]
    path.write_text(f"{text}\n{path.read_text()}")
    return path


pytestmark = pytest.mark.xdist_group("ssh")


@pytest.mark.release
def test_jobs_of_one_node_and_of_two(far):
    shows = "import socket, sys; print(socket.gethostname()); sys.exit(int(sys.argv[1]))"
    program = far.program("shows.py", shows)
    suite = {
        "both": {"run": f"{program} 0", "num_machines": 2},
        "fails": {"run": f"{program} 3"},
        "ranks": {
            "run": far.program("ranks.py", RANKS),
            "num_machines": 2,
            "plan": {"method": "njobs"},
        },
    }
    nodes = [*far.system["nodes"], {"name": "gone", "ip": f"{NETWORK}.99"}]
    done = far.call("run", written(far, suite, nodes=nodes), "--engine", "ssh")
    run = far.run()
    assert done.returncode == 1, done.stderr
    assert f"node gone is left out: {NETWORK}.99: ssh: connect to host" in done.stderr
    states = {key: (each["ok"], each["reason"]) for key, each in last(run).items()}
    assert states == {
        "both.R0": (True, ""),
        "fails.R0": (False, "exit code 3"),
        "ranks.R0": (True, ""),
    }
    assert [(run / f"jobs/both.R0.D{n}/stdout").read_text() for n in (0, 1)] == ["a1\n", "a2\n"]
    info = json.loads((run / "jobs/ranks.R0.D0/run.json").read_text())
    ranks = {(each["rank"], each["host"]) for each in info["processes"] if each["rank"] is not None}
    assert {rank for rank, _ in ranks} == {0, 1} and {host for _, host in ranks} == {"a1", "a2"}


@pytest.mark.release
@pytest.mark.parametrize("which", ["Open MPI", "MPICH"])
def test_mpirun_over_two_hosts(far, which):
    """Neither host has a key for the other."""
    launcher = mpi_launcher(which)
    suite = {
        "ranks": {
            "run": far.program("ranks.py", MPI_RANKS),
            "num_machines": 2,
            "plan": {"method": "njobs", "launcher": launcher},
            "env": OPEN_MPI,
        }
    }
    done = far.call("run", written(far, suite), "--engine", "ssh", devices="cpu:2")
    assert done.returncode == 0, done.stderr
    run = far.run() / "jobs/ranks.R0.D0"
    info = json.loads((run / "run.json").read_text())
    ranks = {(each["rank"], each["world"], each["host"]) for each in info["processes"]}
    assert ranks == {(0, 4, "a1"), (1, 4, "a1"), (2, 4, "a2"), (3, 4, "a2")}
    assert {each.name.partition(".")[0] for each in run.glob("raw/*.monitor")} == {"a1", "a2"}
    [loop] = profile(open_run(str(run))).loops
    assert len(loop.ranks) == 4 and info["problems"] == []
    for rank in range(4):  # which runs in the folder of its own host
        [written_to] = far.run().glob(f"machines/*/D0/out/{rank}")
        assert written_to.parts[-4] == f"ranks.R0.1.m{rank // 2}"


FAILS = """
    optimizer.step()
    if dist.get_rank() == 3:
        sys.exit(7)
    time.sleep(600)
"""


@pytest.mark.release
def test_a_rank_of_mpirun_that_fails_ends_those_of_both_hosts(hosts, far):
    suite = {
        "ranks": {
            "run": far.program("ranks.py", MPI_RANKS.replace("    optimizer.step()\n", FAILS, 1)),
            "num_machines": 2,
            "plan": {"method": "njobs", "launcher": mpi_launcher("Open MPI")},
            "env": OPEN_MPI,
        }
    }
    done = far.call("run", written(far, suite), "--engine", "ssh", devices="cpu:2")
    assert done.returncode == 1, done.stderr
    assert "exit code 7" in last(far.run())["ranks.R0"]["reason"]
    info = json.loads((far.run() / "jobs/ranks.R0.D0/run.json").read_text())
    assert {(each["rank"], each["host"]) for each in info["processes"]} == {
        *((0, "a1"), (1, "a1"), (2, "a2"), (3, "a2"))
    }


BY_HAND = """
cd {folder}/shared && export {variables} && exec {python} -m injector run --interval 0.1 {launcher} -n 4 \
    --mca plm_rsh_agent '{folder}/bin/ssh -i {folder}/key' --host a1:2,a2:2 {python} ranks.py
"""


@pytest.mark.release
def test_inject_run_of_mpirun_over_two_hosts(hosts, far):
    """Which share a folder, and whose clocks are an hour apart; mpirun itself goes by ssh."""
    folder, addresses = hosts
    launcher = mpi_launcher("Open MPI")
    shared = folder / "shared"
    shared.mkdir()
    (shared / "ranks.py").write_text(MPI_RANKS)
    (folder / "known").open("a").write((folder / "known").read_text().replace(f"{NETWORK}.1", "a"))
    (folder / "clock").write_text("3600")
    variables = OPEN_MPI | {"PYTHONPATH": far.environ["PYTHONPATH"]}
    variables |= {"MASTER_ADDR": "a1", "MASTER_PORT": "29555", "GLOO_SOCKET_IFNAME": "eth0"}
    text = BY_HAND.format(
        folder=folder,
        variables=" ".join(f"{name}={text}" for name, text in variables.items()),
        python=sys.executable,
        launcher=launcher
        + "".join(f" -x {n}" for n in ("MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME")),
    )
    node = SshNode("a1", addresses["a1"], sshkey=str(folder / "key"))
    try:
        done = subprocess.run(
            node.argv(text), env=far.environ, capture_output=True, text=True, timeout=PATIENCE
        )
    finally:
        (folder / "clock").unlink()
    assert done.returncode == 0, done.stderr
    [path] = shared.glob(".inject/runs/*/run.json")
    info = json.loads(path.read_text())
    ranks = {(each["rank"], each["world"], each["host"]) for each in info["processes"]}
    assert ranks == {(0, 4, "a1"), (1, 4, "a1"), (2, 4, "a2"), (3, 4, "a2")}
    assert {each.name.partition(".")[0] for each in path.parent.glob("raw/*.monitor")} == {
        "a1",
        "a2",
    }
    assert info["problems"] == [] and info["ended"] - info["started"] < 600
    assert any(each.startswith("the clock of a2 is moved by -3") for each in info["remarks"])


def entries(hosts, far):
    """The ledgers of both hosts."""
    folder, addresses = hosts
    ledgers = [folder / name / far.folder.name / "ledger" for name in addresses]
    return [line for path in ledgers if path.exists() for line in path.read_text().splitlines()]


def go(hosts, far):
    folder, addresses = hosts
    for name in addresses:
        (folder / name / far.folder.name / "ledger.go").touch()


@pytest.mark.release
def test_a_suite_that_was_killed_goes_on_with_its_jobs(hosts, far):
    suite = written(far, far.counted("a", "b", seconds=600))
    process = far.start(suite, "--engine", "ssh")
    until(lambda: len(entries(hosts, far)) == 2, "a beginning on both hosts")
    process.kill()
    process.wait()
    go(hosts, far)
    done = far.call("run", "--resume")
    assert done.returncode == 0, done.stderr
    assert sorted(entries(hosts, far)) == [
        *("begin a.R0.D0", "begin b.R0.D0"),
        *("end a.R0.D0", "end b.R0.D0"),
    ]


@pytest.mark.release
def test_an_interrupt_ends_what_runs_and_brings_its_record(hosts, far):
    suite = written(far, far.counted("a", seconds=600))
    process = far.start(suite, "--engine", "ssh")
    until(lambda: entries(hosts, far), "a beginning")
    until(lambda: last(far.run())["a.R0"]["state"] == "started", "a line")
    os.killpg(process.pid, signal.SIGINT)
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, message
    assert (far.run() / "jobs/a.R0.D0/run.json").exists()


IMPATIENT = """
import sys; from injector.suite.run import ssh_engine
ssh_engine.LOST = 4.0
from injector.cli import main
sys.exit(main())
"""


def impatient(far, suite):
    """A suite that gives a node up, or files that cannot be copied, after 4 s."""
    words = far.words("run", suite, "--engine", "ssh", "--override", "*.max_duration=900")
    words[1:3] = [far.program("impatient.py", IMPATIENT)]
    return subprocess.Popen(
        words, cwd=far.folder, env=far.environ, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.release
def test_a_link_that_is_down_for_a_while_changes_nothing(hosts, far):
    process = far.start(written(far, far.counted("a", "b", seconds=600)), "--engine", "ssh")
    until(lambda: len(entries(hosts, far)) == 2, "a beginning on both hosts")
    both = {"a.R0": "started", "b.R0": "started"}
    until(lambda: {key: each["state"] for key, each in last(far.run()).items()} == both, "lines")
    link = ["ip", "link", "set", "injta1"]
    try:
        call(*link, "down")
        go(hosts, far)
        until(lambda: last(far.run())["b.R0"]["state"] == "finished", "an end of b")
        assert last(far.run())["a.R0"]["state"] == "started"
    finally:
        call(*link, "up")
    _, message = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, message
    assert (far.run() / "jobs/a.R0.D0/run.json").exists()


@pytest.mark.release
def test_a_full_disk_here_is_not_the_fault_of_a_node(hosts, far):
    """Records that cannot be copied stay where they are, which is named."""
    far.base.mkdir()
    call("mount", "-t", "tmpfs", "-o", "size=2m", "none", str(far.base))
    try:
        process = impatient(far, written(far, far.counted("a", "b", seconds=600)))
        until(lambda: len(entries(hosts, far)) == 2, "a beginning on both hosts")
        until(lambda: len(last(far.run())) == 2, "their lines")
        words = ["dd", "if=/dev/zero", f"of={far.base}/filler", "bs=4096"]
        assert subprocess.run(words, capture_output=True).returncode == 1
        go(hosts, far)
        _, message = process.communicate(timeout=PATIENCE)
        states = {key: each["ok"] for key, each in last(far.run()).items()}
    finally:
        call("umount", "--lazy", str(far.base))
    assert process.returncode == 1 and states == {"a.R0": False, "b.R0": False}, message
    for name, node in (("a", "a1"), ("b", "a2")):
        assert f"node {node}: its records could not be copied here: " in message, message
        [kept] = (hosts[0] / node / far.folder.name).glob(f"base/runs/*/jobs/{name}.R0.D0/run.json")
        assert json.loads(kept.read_text())["exit"]["code"] == 0
    assert "No space left on device" in message and "could not be reached" not in message
    assert "no longer used" not in message


@pytest.mark.release
def test_nodes_that_do_not_fit_are_named_and_not_used(hosts, far):
    """The driver of the one does not work, the other has not the Python of an environment."""
    folder = hosts[0]
    driver = folder / "a1/bin/nvidia-smi"
    driver.parent.mkdir()
    driver.write_text("#!/bin/sh\necho Failed to initialize NVML: Driver mismatch\nexit 18\n")
    driver.chmod(0o755)
    python = os.path.realpath(sys.executable)
    (folder / "far/python").symlink_to(python)
    packages = (
        far.folder / f"env/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    )
    packages.mkdir(parents=True)
    (packages / "all.pth").write_text("\n".join(each for each in sys.path if each))
    (far.folder / "env/pyvenv.cfg").write_text(f"home = {os.path.dirname(python)}\n")
    (far.folder / "env/bin").mkdir()
    (far.folder / "env/bin/python").symlink_to(folder / "far/python")
    words = far.words("run", written(far, far.counted("a")), "--engine", "ssh")
    words[0] = str(far.folder / "env/bin/python")
    try:
        done = subprocess.run(
            words, cwd=far.folder, env=far.environ, capture_output=True, text=True, timeout=PATIENCE
        )
    finally:
        driver.unlink()
    assert done.returncode == 2, done.stderr
    assert f"node a1 is left out: {NETWORK}.11: nvidia-smi: Failed to init" in done.stderr
    assert f"node a2 is no longer used: {words[0]} does not run inject there: " in done.stderr
    assert "none of the 1 nodes can be used" in done.stderr


@pytest.mark.release
def test_a_node_that_is_lost_fails_its_job_and_not_the_suite(hosts, far):
    suite = written(far, far.counted("a", "b", "c", seconds=600))
    process = impatient(far, suite)
    until(lambda: len(entries(hosts, far)) == 2, "a beginning on both hosts")
    link = ["ip", "link", "set", "injta1"]
    try:
        call(*link, "down")
        until(lambda: last(far.run())["a.R0"]["state"] == "finished", "an end of a")
        go(hosts, far)
        _, message = process.communicate(timeout=PATIENCE)
    finally:
        call(*link, "up")
    assert process.returncode == 1
    states = {key: each["ok"] for key, each in last(far.run()).items()}
    assert states == {"a.R0": False, "b.R0": True, "c.R0": True}, message
    assert f"node a1: {NETWORK}.11 could not be reached for" in message


@pytest.mark.parametrize("wrong", [3600, -3600])
@pytest.mark.release
def test_clocks_an_hour_apart(hosts, far, wrong):
    """The ranks are put in order by a measured difference; what took how long is not affected."""
    clock = hosts[0] / "clock"
    clock.write_text(str(wrong))
    try:
        ranks = {"num_machines": 2, "plan": {"method": "njobs"}}
        suite = {
            "ranks": {"run": far.program("ranks.py", RANKS), **ranks},
            "each": {
                "run": far.program("short.py", "import time; time.sleep(1)"),
                "num_machines": 2,
            },
        }
        done = far.call("run", written(far, suite), "--engine", "ssh")
    finally:
        clock.unlink()
    assert done.returncode == 0, done.stderr
    assert all(1 <= each["seconds"] < 100 for each in last(far.run()).values())
    run = far.run() / "jobs/ranks.R0.D0"
    info = json.loads((run / "run.json").read_text())
    [text] = [each for each in info["remarks"] if "clock" in each]
    said = re.fullmatch(
        r"the clock of a2 is moved by (\S+) s to that of a1, by \d barriers? and asking both; "
        r"the error is at most (\S+) ms", text
    )  # fmt: skip
    assert said, text
    error = float(said[2]) / 1e3
    assert 0 < error < 1 and abs(float(said[1]) + wrong) <= error
    assert 0 < info["ended"] - info["started"] < 600


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({}, "--engine ssh needs system.nodes"),
        ({"nodes": ["a"]}, "system.nodes.0: a node has a name"),
        (
            {"nodes": [{"name": "a", "adress": "x"}]},
            "system.nodes.0: no key 'adress'; there is name",
        ),
        (
            {"nodes": [{"name": "a", "port": 0}]},
            "system.nodes.0.port: a number between 1 and 65535",
        ),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "two nodes are called a"),
        ({"nodes": [{"name": n, "main": True} for n in "ab"]}, "main is true of more than one"),
        (
            {"nodes": [{"name": "a", "sshkey": "/no/key"}]},
            "system.nodes.0.sshkey: /no/key: No such",
        ),
    ],
)
def test_mistakes_in_nodes(system, message):
    with pytest.raises(UserError) as error:
        nodes_of(system)
    assert message in str(error.value)


def test_a_key_that_others_can_read_is_a_mistake(tmp_path):
    key = tmp_path / "key"
    key.touch(0o644)
    key.chmod(0o644)
    with pytest.raises(UserError, match=rf"{key} can be read by others .*its mode is 644"):
        nodes_of({"sshkey": str(key), "nodes": [{"name": "a"}]})
    key.chmod(0o600)
    assert nodes_of({"sshkey": str(key), "nodes": [{"name": "a"}]}) == [
        SshNode("a", sshkey=str(key))
    ]


def test_no_node_that_can_be_reached(suites):
    suite = suites.write(suites.counted("a"))
    suite.write_text('system: {nodes: [{name: x, ip: "127.0.0.1", port: 1}]}\n' + suite.read_text())
    done = suites.call("run", suite, "--engine", "ssh")
    assert done.returncode == 2
    assert "node x is left out: 127.0.0.1: ssh: connect to host" in done.stderr
    assert "none of the 1 nodes of system.nodes can be reached" in done.stderr
