"""The command lines of container engines. Expected are whole lists of words, and no engine runs here."""

from __future__ import annotations

import itertools
import os
import stat

import pytest

from injector import containers
from injector.containers import (
    ContainedProcess,
    ContainerDevices,
    ContainerEngine,
    Mount,
    mounts_of,
)
from injector.errors import UserError

ENVIRON = {
    "FOO": "a b",
    "CUDA_VISIBLE_DEVICES": "2",
    "PATH": "/bin",
    "HOME": "/home/me",
    "LD_LIBRARY_PATH": "/opt",
    "XDG_RUNTIME_DIR": "/run/user/7",
    "not-a-name": "1",
}
ENGINES = {
    "docker": (ContainerEngine("docker", "/bin/docker"), ["--user", "7:8"]),
    "rootless docker": (ContainerEngine("docker", "/bin/docker", True), ["--user", "0:0"]),
    "podman": (ContainerEngine("podman", "/bin/podman"), ["--user", "7:8"]),
    "rootless podman": (ContainerEngine("podman", "/bin/podman", True), ["--userns", "keep-id"]),
    "apptainer": (ContainerEngine("apptainer", "/bin/apptainer"), []),
}
DEVICES = {
    "none": ContainerDevices(),
    "nvidia": ContainerDevices(nvidia=True),
    "rocm": ContainerDevices(False, ("/dev/kfd", "/dev/dri"), (44, 109)),
    "xpu": ContainerDevices(False, ("/dev/dri",), (44,)),
}
USERS = {"alone": (7, 8), "in groups": (7, 8, 44, 50)}
MOUNTS = {
    "one": ([Mount("/w", "/w")], ["/w:/w"]),
    "given": ([Mount("/w", "/w"), Mount("/data", "/d", True)], ["/w:/w", "/data:/d:ro"]),
}
AS_OUTSIDE = ["--network", "host", "--ipc", "host", "--pid", "host"]


def expected(name, devices, user, mounts):
    engine, words = ENGINES[name]
    rocm = "/dev/kfd" in devices.nodes
    if name == "apptainer":
        made = ["/bin/apptainer", "exec", "--cleanenv", "--writable-tmpfs", "--pwd", "/w"]
        made += ["--nv"] * devices.nvidia + ["--rocm"] * rocm
        made += [word for each in mounts for word in ("--bind", each)]
        return [*made, "docker://image:1", "inject", "run", "x.py"]
    made = [engine.path, "run", "--rm", "--name", "NAME", "--interactive", *AS_OUTSIDE]
    made += ["--security-opt", "label=disable", *words]
    if name in ("docker", "podman"):
        groups = dict.fromkeys([*user[2:], *devices.groups])
        made += [word for each in groups for word in ("--group-add", str(each))]
    if name == "rootless podman" and user[2:]:
        made += ["--group-add", "keep-groups"]
    if devices.nvidia:
        made += ["--gpus", "all"] if "docker" in name else ["--device", "nvidia.com/gpu=all"]
    made += [word for each in devices.nodes for word in ("--device", each)]
    made += ["--security-opt", "seccomp=unconfined"] * rocm
    made += ["--pids-limit", "-1"] if "podman" in name else ["--cpuset-cpus", "0,1"]
    made += [word for each in mounts for word in ("--volume", each)]
    made += ["--workdir", "/w", "--env", "HOME=/tmp"]
    made += ["--env", "CUDA_VISIBLE_DEVICES", "--env", "FOO"]
    return [*made, "image:1", "inject", "run", "x.py"]


@pytest.mark.parametrize("name", ENGINES)
def test_command_lines(name):
    for devices, user, (mounts, texts) in itertools.product(
        DEVICES.values(), USERS.values(), MOUNTS.values()
    ):
        process = ContainedProcess(
            ["inject", "run", "x.py"], "/w", mounts, ENVIRON, devices, user, cores=(0, 1)
        )
        found = containers.command(ENGINES[name][0], "image:1", process, "NAME")
        assert found == expected(name, devices, user, texts)


def test_a_terminal_is_one_in_the_container():
    process = ContainedProcess(["id"], "/w", [], {}, terminal=True)
    assert "--tty" in containers.command(ENGINES["docker"][0], "image", process, "NAME")


def test_no_value_of_a_variable_stands_in_a_command_line():
    for engine, _ in ENGINES.values():
        made = containers.client_environment(engine, ENVIRON)
        words = containers.command(
            engine, "image", ContainedProcess(["id"], "/w", [], made), "NAME"
        )
        assert "a b" not in " ".join(words) and made["FOO"] == "a b"
        assert made["USER"]


def test_apptainer_is_given_variables_by_its_own_environment():
    made = containers.client_environment(ENGINES["apptainer"][0], ENVIRON)
    given = {name for name in made if name.startswith("APPTAINERENV_")}
    names = {"FOO", "CUDA_VISIBLE_DEVICES", "USER", "PYTHONNOUSERSITE"}
    assert given == {f"APPTAINERENV_{name}" for name in names}


def test_images_of_apptainer(tmp_path):
    image = tmp_path / "image.sif"
    image.write_text("")
    for name in (str(image), "library://some/image"):
        words = containers.command(
            ENGINES["apptainer"][0], name, ContainedProcess(["id"], "/w", [], {}), "NAME"
        )
        assert words[-2:] == [name, "id"]


def test_folders_are_mounted_once_at_their_own_paths(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "x.py").write_text("")
    paths = [str(tmp_path / name) for name in ("a/b", "ab/x.py", "a")]
    a, ab = str(tmp_path / "a"), str(tmp_path / "ab")
    assert mounts_of(paths) == [Mount(a, a), Mount(ab, ab)]
    # One that can only be read, or lies elsewhere, does not stand for the folder itself.
    assert mounts_of([a], [f"{a}:ro"]) == [Mount(a, a, True), Mount(a, a)]
    assert mounts_of([a], [f"{ab}:/data:ro"]) == [Mount(ab, "/data", True), Mount(a, a)]


@pytest.mark.parametrize(
    ("path", "given", "problem"),
    [
        ("/", [], "the folder / cannot be mounted"),
        ("/tmp", ["/no/such/folder"], "there is no /no/such/folder"),
        ("/tmp", ["/tmp:data"], r"write SOURCE\[:TARGET\]\[:ro\]"),
        ("/tmp", ["/tmp:/a:/b:ro"], r"write SOURCE\[:TARGET\]\[:ro\]"),
        ("/tmp/a,b/x", [], "a path with a colon or a comma"),
    ],
)
def test_what_cannot_be_mounted(path, given, problem):
    with pytest.raises(UserError, match=problem):
        mounts_of([path], given)


def device_files(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
        os.chown(root / name, -1, os.getgid())
    return containers.devices_of(str(root))


def test_devices(tmp_path):
    kfd, dri = str(tmp_path / "a" / "kfd"), str(tmp_path / "a" / "dri")
    assert device_files(tmp_path / "none") == ContainerDevices()
    groups = tuple({os.getgid()} - {0})
    found = device_files(tmp_path / "a", "kfd", "dri/renderD128", "dri/by-path/x")
    assert found == ContainerDevices(False, (kfd, dri), groups)
    assert device_files(tmp_path / "n", "nvidiactl", "dri/card0") == ContainerDevices(nvidia=True)


def engine(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_first_engine_that_is_installed(tmp_path):
    environ = {"PATH": str(tmp_path)}
    with pytest.raises(UserError, match=r"no docker, podman, apptainer on the PATH.*-engine none"):
        containers.find_engine(None, environ)
    path = engine(tmp_path, "apptainer", "exit 0")
    assert containers.find_engine(None, environ) == ContainerEngine("apptainer", path)
    path = engine(tmp_path, "docker", 'echo \'["name=seccomp","name=rootless"]\'')
    assert containers.find_engine(None, environ) == ContainerEngine("docker", path, True)
    assert containers.find_engine("apptainer", environ).kind == "apptainer"
    with pytest.raises(UserError, match="no container engine is called 'dokcer'"):
        containers.find_engine("dokcer", environ)


def test_a_docker_without_a_daemon(tmp_path):
    engine(tmp_path, "docker", "echo 'Is the docker daemon running?' >&2; exit 1")
    with pytest.raises(UserError, match=r"Is the docker daemon running\?; start its daemon.*none"):
        containers.find_engine(None, {"PATH": str(tmp_path)})


def test_an_image_is_built_of_a_dockerfile(tmp_path):
    recipe = tmp_path / "some.Dockerfile"
    recipe.write_text("FROM scratch\n")
    log = tmp_path / "log"
    path = engine(tmp_path, "podman", f'echo "$@" > {log}; [ "$1" = build ] && echo sha256:17 > $3')
    made = ContainerEngine("podman", path)
    assert containers.image_of(made, str(recipe)) == "sha256:17"
    words = log.read_text().split()
    assert words[3:] == ["--file", str(recipe), str(tmp_path)] and words[1] == "--iidfile"
    containers.provide(made, str(recipe))
    assert "--pull" in log.read_text()
    containers.provide(
        made, str(recipe), fresh=False
    )  # of a base that is on this machine alone, too
    assert "--pull" not in log.read_text()
    assert containers.image_of(made, "some/image:1") == "some/image:1"
    engine(tmp_path, "podman", "exit 3")
    with pytest.raises(UserError, match="was not built: exit code 3"):
        containers.image_of(made, str(recipe))
    with pytest.raises(UserError, match="was not pulled: exit code 3"):
        containers.provide(made, "some/image")
    with pytest.raises(UserError, match="apptainer cannot build"):
        containers.image_of(ContainerEngine("apptainer", path), str(recipe))
