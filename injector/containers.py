"""The command lines that run something in a container of docker, podman or apptainer.

What runs in the container finds this machine as a program outside would: the same folders at the same paths,
user, environment, network, process numbers, shared memory and devices. All devices are handed over, and
variables such as ``CUDA_VISIBLE_DEVICES`` choose among them as they do outside, with the same numbers.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from injector.errors import UserError

ENGINES = ("docker", "podman", "apptainer")
NONE = "none"
"""As an engine: what names an image runs without a container."""
WITHOUT = "--container-engine none"
"""What runs a command without a container."""
OTHERWISE = "install docker, podman or apptainer, or run without a container"
HOME = "/tmp"
"""The home folder in a container, where that of the user is not: one that can be written."""

PLACES = {
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "MANPATH"),
    *("BASH_ENV", "ENV", "HOME", "HOSTNAME", "SHELL", "SHLVL", "PWD", "OLDPWD", "_"),
    *("TMPDIR", "TMP", "TEMP", "DISPLAY", "PYTHONHOME", "PYTHONUSERBASE", "VIRTUAL_ENV"),
    *("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH", "XAUTHORITY", "LOADEDMODULES"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
}
"""Variables that say where software and files of this machine lie, which an image has elsewhere."""
PLACES_BEGIN = (
    *("CONDA_", "XDG_RUNTIME", "XDG_SESSION", "XDG_DATA_D", "XDG_CONFIG_D", "DBUS_"),
    *("SSH_", "DOCKER_", "CONTAINER", "APPTAINER", "SINGULARITY", "NVIDIA_", "LMOD_"),
    *("MODULE", "BASH_FUNC_"),
)


class ContainerEngine(NamedTuple):
    """A program that runs containers."""

    kind: str
    """One of :data:`ENGINES`."""
    path: str
    maps_user: bool = False
    """Whether its root is the user of this machine, as under rootless docker and podman."""


class ContainerDevices(NamedTuple):
    """The accelerators that a container is handed."""

    nvidia: bool = False
    nodes: tuple[str, ...] = ()
    """Files of devices: of AMD, of Intel."""
    groups: tuple[int, ...] = ()
    """The groups that may use those files."""


class Mount(NamedTuple):
    """A folder of this machine, and where it is in the container."""

    source: str
    target: str
    only_read: bool = False


class ContainedProcess(NamedTuple):
    """What runs in a container, and how it sees this machine."""

    words: Sequence[str]
    folder: str
    """Its current folder."""
    mounts: Sequence[Mount]
    environ: Mapping[str, str]
    """As it is outside."""
    devices: ContainerDevices = ContainerDevices()
    user: tuple[int, ...] = (0, 0)
    """The user's number, the group's, those of further groups."""
    cores: Sequence[int] = ()
    """Those that it may use; nothing for all."""
    terminal: bool = False
    """Whether all its streams are one."""


# --- engines and images -----------------------------------------------------------------------------


def find_engine(
    name: str | None, environ: Mapping[str, str], without: str = WITHOUT
) -> ContainerEngine:
    """The engine of that name, or the first that is installed.

    Raises UserError where there is none, with the words that do ``without``.
    """
    if name not in (None, *ENGINES):
        raise UserError(
            f"no container engine is called {name!r}: there are {', '.join(ENGINES)} and {NONE}"
        )
    for kind in (name,) if name else ENGINES:
        if path := shutil.which(kind, path=environ.get("PATH", os.defpath)):
            return _usable(kind, path, without)
    raise UserError(f"there is no {name or ', '.join(ENGINES)} on the PATH: {OTHERWISE}: {without}")


def _usable(kind: str, path: str, without: str) -> ContainerEngine:
    """Raises UserError for a docker whose daemon does not answer."""
    if kind != "docker":
        return ContainerEngine(kind, path, kind == "podman" and os.geteuid() != 0)
    words = [path, "info", "--format", "{{json .SecurityOptions}}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=60)
        code, printed, why = done.returncode, done.stdout, done.stderr.strip()
    except subprocess.TimeoutExpired:
        code, printed, why = 1, "", "no answer within 60 s"
    if code:
        last = why.splitlines()[-1] if why else f"exit code {code}"
        raise UserError(
            f"docker cannot run containers: {last}; start its daemon, {OTHERWISE}: {without}"
        )
    return ContainerEngine(kind, path, "name=rootless" in printed)


def is_recipe(image: str) -> bool:
    """Whether an image is named by the Dockerfile that it is built from."""
    return os.path.isfile(image) and not image.endswith(".sif")


def image_of(engine: ContainerEngine, image: str, fresh: bool = False) -> str:
    """The image to run: what was named, or what is built now from the Dockerfile that was named.

    ``fresh``: from the newest base image. What the build says goes to stderr. Raises UserError.
    """
    if not is_recipe(image):
        return image
    if engine.kind == "apptainer":
        raise UserError(
            f"apptainer cannot build {image}: build an image of it, and name that one (FILE.sif)"
        )
    with tempfile.TemporaryDirectory(prefix="inject-") as folder:
        name = os.path.join(folder, "image")
        words = [engine.path, "build", "--iidfile", name, "--file", image]
        words += ["--pull"] if fresh else []
        _call([*words, os.path.dirname(os.path.abspath(image))], f"{image} was not built")
        with open(name, encoding="ascii") as file:
            return file.read().strip()


def provide(engine: ContainerEngine, image: str, fresh: bool = True) -> None:
    """Have an image on this machine, the newest one of its name. ``fresh`` as above. Raises UserError."""
    if is_recipe(image):
        image_of(engine, image, fresh)
    elif engine.kind != "apptainer":
        _call([engine.path, "pull", image], f"{image} was not pulled")
    elif not os.path.exists(image):
        words = [engine.path, "exec", "--disable-cache", _source(image), "true"]
        _call(words, f"{image} was not pulled")


def _call(words: Sequence[str], problem: str) -> None:
    """Raises UserError where a command fails; what it prints goes to stderr."""
    sys.stderr.flush()
    code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=2).returncode
    if code:
        raise UserError(f"{problem}: exit code {code}: {shlex.join(words)}")


# --- this machine -----------------------------------------------------------------------------------


def mounts_of(paths: Iterable[str], given: Iterable[str] = ()) -> list[Mount]:
    """Mounts of folders (or of the folders of files), each at its own path, and those that were ``given``.

    ``given`` are ``SOURCE[:TARGET][:ro]``. What lies in a folder that is mounted needs no mount of its own.
    Raises UserError for what is not there or cannot be mounted.
    """
    found: list[Mount] = []
    for text in given:
        source, *rest = text.split(":")
        only_read = rest[-1:] == ["ro"]
        target, *more = rest[: len(rest) - only_read] or [os.path.abspath(source)]
        if more or not os.path.isabs(target):
            raise UserError(f"--container-mount {text}: write SOURCE[:TARGET][:ro]")
        if not os.path.exists(source):
            raise UserError(f"--container-mount {text}: there is no {source}")
        found.append(Mount(os.path.abspath(source), target, only_read))
    folders = {path if os.path.isdir(path) else os.path.dirname(path) for path in paths}
    for folder in sorted(map(os.path.abspath, folders), key=len):
        if not any(_lies_in(folder, mount) for mount in found):
            found.append(Mount(folder, folder))
    for source, target, _ in found:
        if os.path.normpath(target) == "/":
            raise UserError("the folder / cannot be mounted in a container: work in one below it")
        if set(":,") & set(source + target):
            raise UserError(f"{source}: a path with a colon or a comma cannot be mounted")
    return found


def _lies_in(folder: str, mount: Mount) -> bool:
    """Whether a mount shows a folder at its own path, and lets it be written."""
    same = mount.source == mount.target and not mount.only_read
    return same and (folder + "/").startswith(mount.target.rstrip("/") + "/")


def devices_of(root: str = "/dev") -> ContainerDevices:
    """The accelerators of this machine."""
    there = [os.path.join(root, name) for name in ("kfd", "dri")]
    nodes = tuple(path for path in there if os.path.exists(path))
    nvidia = os.path.exists(os.path.join(root, "nvidiactl"))
    if nvidia and len(nodes) < 2:
        nodes = ()  # the screen's
    files = [node for node in nodes if not os.path.isdir(node)]
    for folder in filter(os.path.isdir, nodes):
        names = sorted(os.listdir(folder))
        files += [
            os.path.join(folder, each) for each in names if each.startswith(("render", "card"))
        ]
    groups = sorted({os.stat(path).st_gid for path in files} - {0})
    return ContainerDevices(nvidia, nodes, tuple(groups))


def passed(environ: Mapping[str, str]) -> list[str]:
    """The names of variables that mean in a container what they mean outside."""
    return sorted(
        name
        for name in environ
        if name not in PLACES and not name.startswith(PLACES_BEGIN) and name.isidentifier()
    )


def process_of(
    words: Sequence[str],
    folder: str,
    mounts: Sequence[Mount],
    environ: Mapping[str, str],
    *,
    cores: Sequence[int] = (),
    terminal: bool = False,
) -> ContainedProcess:
    """A process of this user, with the devices of this machine."""
    user = (os.geteuid(), os.getegid(), *os.getgroups())
    return ContainedProcess(words, folder, mounts, environ, devices_of(), user, cores, terminal)


# --- command lines ----------------------------------------------------------------------------------


def command(engine: ContainerEngine, image: str, process: ContainedProcess, name: str) -> list[str]:
    """The words that run ``process`` in a container called ``name``, which is gone afterwards.

    They are to be executed with :func:`client_environment`.
    """
    if engine.kind == "apptainer":
        return _apptainer(engine, image, process)
    words = [engine.path, "run", "--rm", "--name", name, "--interactive"]
    words += ["--tty"] if process.terminal else []
    words += ["--network", "host", "--ipc", "host", "--pid", "host"]
    words += ["--security-opt", "label=disable"]
    words += _user(engine, process) + _devices(engine, process.devices)
    if engine.kind == "podman":
        words += ["--pids-limit", "-1"]
    elif process.cores:  # podman's containers inherit them
        words += ["--cpuset-cpus", ",".join(map(str, process.cores))]
    for source, target, only_read in process.mounts:
        words += ["--volume", f"{source}:{target}" + ":ro" * only_read]
    words += ["--workdir", process.folder, "--env", f"HOME={HOME}"]
    for variable in passed(process.environ):
        words += ["--env", variable]  # by name alone: values are not for other users' eyes
    return [*words, image, *process.words]


def _user(engine: ContainerEngine, process: ContainedProcess) -> list[str]:
    user, group, *groups = process.user
    if engine.kind == "podman" and engine.maps_user:
        return ["--userns", "keep-id"] + ["--group-add", "keep-groups"] * bool(groups)
    if engine.maps_user:
        return ["--user", "0:0"]
    words = ["--user", f"{user}:{group}"]
    for each in dict.fromkeys([*groups, *process.devices.groups]):
        words += ["--group-add", str(each)]
    return words


def _devices(engine: ContainerEngine, devices: ContainerDevices) -> list[str]:
    words = []
    if devices.nvidia:
        words += (
            ["--gpus", "all"] if engine.kind == "docker" else ["--device", "nvidia.com/gpu=all"]
        )
    for node in devices.nodes:
        words += ["--device", node]
    if any(node.endswith("kfd") for node in devices.nodes):
        words += ["--security-opt", "seccomp=unconfined"]  # as AMD has it, for memory of NUMA nodes
    return words


def _apptainer(engine: ContainerEngine, image: str, process: ContainedProcess) -> list[str]:
    """Its containers share processes, network, user and devices with this machine anyway."""
    words = [engine.path, "exec", "--cleanenv", "--writable-tmpfs", "--pwd", process.folder]
    words += ["--nv"] if process.devices.nvidia else []
    words += ["--rocm"] if any(node.endswith("kfd") for node in process.devices.nodes) else []
    for source, target, only_read in process.mounts:
        words += ["--bind", f"{source}:{target}" + ":ro" * only_read]
    return [*words, _source(image), *process.words]


def _source(image: str) -> str:
    """Where apptainer has an image from: a file, a place that it names, else a registry of docker's."""
    there = os.path.exists(image) or "://" in image
    return image if there else f"docker://{image}"


def client_environment(engine: ContainerEngine, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that the engine itself is given: the variables to pass have their values there."""
    made = {**environ}
    # Programs look for a name there, as the user's number has none in the container.
    made.setdefault("USER", str(os.geteuid()))
    if engine.kind == "apptainer":
        given = {f"APPTAINERENV_{name}": made[name] for name in passed(made)}
        # Packages in the user's home, which is the container's too, are of another Python.
        made |= {**given, "APPTAINERENV_PYTHONNOUSERSITE": "1"}
    return made


def end(engine: ContainerEngine, name: str) -> None:
    """End a container that its client has left running, if it has."""
    if engine.kind != "apptainer":
        words = [engine.path, "rm", "--force", name]
        subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
