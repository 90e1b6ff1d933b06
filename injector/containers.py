"""The command lines that run a process in a container of docker, podman or apptainer.

A process in the container finds this machine as a process outside would: the same folders at the same paths,
user, environment, network, process numbers, shared memory and devices. So its run folder, its ranks and its
monitor need nothing special. All devices are handed over, and variables such as ``CUDA_VISIBLE_DEVICES``
choose among them with the same numbers as outside.

Usually: :func:`find_engine`, :func:`image_of` (which builds a Dockerfile), :func:`mounts_of`,
:func:`process_of`, then :func:`command`, which is executed with :func:`client_environment`.
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
"""In place of an engine: run without a container what names an image."""
WITHOUT = "--container-engine none"
"""The words with which a command runs without a container."""
OTHERWISE = "install docker, podman or apptainer, or run without a container"
HOME = "/tmp"
"""The home folder in a container. That of the user is not there, and this one can be written."""

PLACES = {
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "MANPATH"),
    *("BASH_ENV", "ENV", "HOME", "HOSTNAME", "SHELL", "SHLVL", "PWD", "OLDPWD", "_"),
    *("TMPDIR", "TMP", "TEMP", "DISPLAY", "PYTHONHOME", "PYTHONUSERBASE", "VIRTUAL_ENV"),
    *("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH", "XAUTHORITY", "LOADEDMODULES"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
}
"""Variables that say where software and files are on this machine, which an image has in other places."""
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
    """Whether root in a container is the user of this machine, as with rootless docker and podman."""


class ContainerDevices(NamedTuple):
    """The accelerators that a container is given."""

    nvidia: bool = False
    """Whether all devices of NVIDIA are given, by the engine's own option."""
    nodes: tuple[str, ...] = ()
    """Files and folders of the devices of AMD and Intel."""
    groups: tuple[int, ...] = ()
    """The groups that may use those files."""


class Mount(NamedTuple):
    """A folder of this machine, and its path in the container."""

    source: str
    target: str
    only_read: bool = False


class ContainedProcess(NamedTuple):
    """A process to run in a container, and what it is given of this machine."""

    words: Sequence[str]
    folder: str
    """Its current folder."""
    mounts: Sequence[Mount]
    environ: Mapping[str, str]
    """The environment that it would have outside."""
    devices: ContainerDevices = ContainerDevices()
    user: tuple[int, ...] = (0, 0)
    """The numbers of the user, of the group, and of further groups."""
    cores: Sequence[int] = ()
    """The cores that it may use; empty for all."""
    terminal: bool = False
    """Whether its streams are all the same terminal."""


# --- engines and images -----------------------------------------------------------------------------


def find_engine(
    name: str | None, environ: Mapping[str, str], without: str = WITHOUT
) -> ContainerEngine:
    """The engine called ``name``, or the first of :data:`ENGINES` that is installed.

    Raises UserError if there is none, or it does not work; the message ends with words that do ``without``.
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
    """The engine at ``path``. Raises UserError for a docker whose daemon does not answer."""
    if kind != "docker":  # the others have no daemon
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
    """The name of the image to run; if ``image`` is a Dockerfile, it is built now.

    With ``fresh``, it is built on the newest version of its base image. The output of the build goes to
    stderr. Raises UserError.
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
    """Pull the newest image of a name to this machine, or build it, as :func:`image_of`. Raises UserError."""
    if is_recipe(image):
        image_of(engine, image, fresh)
    elif engine.kind != "apptainer":
        _call([engine.path, "pull", image], f"{image} was not pulled")
    elif not os.path.exists(image):
        # apptainer has no command that only fills its cache: running nothing in the image does.
        words = [engine.path, "exec", "--disable-cache", _source(image), "true"]
        _call(words, f"{image} was not pulled")


def _call(words: Sequence[str], problem: str) -> None:
    """Run a command whose output goes to stderr. Raises UserError with ``problem`` if it fails."""
    sys.stderr.flush()
    code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=2).returncode
    if code:
        raise UserError(f"{problem}: exit code {code}: {shlex.join(words)}")


# --- this machine -----------------------------------------------------------------------------------


def mounts_of(paths: Iterable[str], given: Iterable[str] = ()) -> list[Mount]:
    """Mounts of ``paths``, each at its own path, after the mounts that the user has ``given``.

    Of a file, its folder is mounted; a folder within a mounted one needs no mount of its own. ``given`` are
    texts ``SOURCE[:TARGET][:ro]``. Raises UserError for what does not exist or cannot be mounted.
    """
    mounts: list[Mount] = []
    for text in given:
        source, *rest = text.split(":")
        only_read = rest[-1:] == ["ro"]
        target, *more = rest[: len(rest) - only_read] or [os.path.abspath(source)]
        if more or not os.path.isabs(target):
            raise UserError(f"--container-mount {text}: write SOURCE[:TARGET][:ro]")
        if not os.path.exists(source):
            raise UserError(f"--container-mount {text}: there is no {source}")
        mounts.append(Mount(os.path.abspath(source), target, only_read))
    folders = {path if os.path.isdir(path) else os.path.dirname(path) for path in paths}
    # Shorter paths first: a folder comes before those within it.
    for folder in sorted(map(os.path.abspath, folders), key=len):
        if not any(_lies_in(folder, mount) for mount in mounts):
            mounts.append(Mount(folder, folder))
    for source, target, _ in mounts:
        if os.path.normpath(target) == "/":
            raise UserError("the folder / cannot be mounted in a container: work in one below it")
        if set(":,") & set(source + target):
            raise UserError(f"{source}: a path with a colon or a comma cannot be mounted")
    return mounts


def _lies_in(folder: str, mount: Mount) -> bool:
    """Whether ``mount`` has ``folder`` at its own path in the container, and writable."""
    same = mount.source == mount.target and not mount.only_read
    return same and (folder + "/").startswith(mount.target.rstrip("/") + "/")


def devices_of(root: str = "/dev") -> ContainerDevices:
    """The accelerators of this machine, by the files in ``root``.

    ``kfd`` is AMD's driver for computing; ``dri`` has the devices of AMD and Intel, but those of screens too.
    """
    paths = [os.path.join(root, name) for name in ("kfd", "dri")]
    nodes = tuple(path for path in paths if os.path.exists(path))
    nvidia = os.path.exists(os.path.join(root, "nvidiactl"))
    if nvidia and len(nodes) < 2:
        nodes = ()  # beside NVIDIA's devices and without kfd, dri is what drives the screen
    files = [node for node in nodes if not os.path.isdir(node)]
    for folder in filter(os.path.isdir, nodes):
        names = sorted(os.listdir(folder))
        files += [
            os.path.join(folder, name) for name in names if name.startswith(("render", "card"))
        ]
    groups = sorted({os.stat(path).st_gid for path in files} - {0})
    return ContainerDevices(nvidia, nodes, tuple(groups))


def passed(environ: Mapping[str, str]) -> list[str]:
    """The names of variables that mean the same in a container as outside."""
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
    """A process of this user, with all devices of this machine."""
    user = (os.geteuid(), os.getegid(), *os.getgroups())
    return ContainedProcess(words, folder, mounts, environ, devices_of(), user, cores, terminal)


# --- command lines ----------------------------------------------------------------------------------


def command(engine: ContainerEngine, image: str, process: ContainedProcess, name: str) -> list[str]:
    """The command that runs ``process`` in a container called ``name``, which is removed afterwards.

    It is to be executed with :func:`client_environment`.
    """
    if engine.kind == "apptainer":
        return _apptainer_command(engine, image, process)
    words = [engine.path, "run", "--rm", "--name", name, "--interactive"]
    words += ["--tty"] if process.terminal else []
    words += ["--network", "host", "--ipc", "host", "--pid", "host"]
    # With SELinux, mounted folders would otherwise have to be relabelled, which changes them for all others.
    words += ["--security-opt", "label=disable"]
    words += _user_options(engine, process) + _device_options(engine, process.devices)
    if engine.kind == "podman":
        words += ["--pids-limit", "-1"]  # 2048 by default, which loaders of many ranks exceed
    elif process.cores:  # docker's containers are started by its daemon, which may use all cores
        words += ["--cpuset-cpus", ",".join(map(str, process.cores))]
    for source, target, only_read in process.mounts:
        words += ["--volume", f"{source}:{target}" + ":ro" * only_read]
    words += ["--workdir", process.folder, "--env", f"HOME={HOME}"]
    for variable in passed(process.environ):
        words += ["--env", variable]  # without its value, which other users could read in `ps`
    return [*words, image, *process.words]


def _user_options(engine: ContainerEngine, process: ContainedProcess) -> list[str]:
    """Options by which files that the process writes belong to the user of this machine."""
    user, group, *groups = process.user
    if engine.kind == "podman" and engine.maps_user:
        return ["--userns", "keep-id"] + ["--group-add", "keep-groups"] * bool(groups)
    if engine.maps_user:
        return ["--user", "0:0"]
    words = ["--user", f"{user}:{group}"]
    for each in dict.fromkeys([*groups, *process.devices.groups]):
        words += ["--group-add", str(each)]
    return words


def _device_options(engine: ContainerEngine, devices: ContainerDevices) -> list[str]:
    words = []
    if devices.nvidia:
        words += (
            ["--gpus", "all"] if engine.kind == "docker" else ["--device", "nvidia.com/gpu=all"]
        )
    for node in devices.nodes:
        words += ["--device", node]
    if any(node.endswith("kfd") for node in devices.nodes):
        # AMD's documentation has this: ROCm binds memory to NUMA nodes by system calls that are filtered.
        words += ["--security-opt", "seccomp=unconfined"]
    return words


def _apptainer_command(engine: ContainerEngine, image: str, process: ContainedProcess) -> list[str]:
    """As :func:`command`: apptainer shares processes, network and user with this machine anyway."""
    words = [engine.path, "exec", "--cleanenv", "--writable-tmpfs", "--pwd", process.folder]
    words += ["--nv"] if process.devices.nvidia else []
    words += ["--rocm"] if any(node.endswith("kfd") for node in process.devices.nodes) else []
    for source, target, only_read in process.mounts:
        words += ["--bind", f"{source}:{target}" + ":ro" * only_read]
    return [*words, _source(image), *process.words]


def _source(image: str) -> str:
    """The image as apptainer takes it: a file or an address as they are, else a name in docker's registry."""
    complete = os.path.exists(image) or "://" in image
    return image if complete else f"docker://{image}"


def client_environment(engine: ContainerEngine, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for the engine's own command, from which it takes the values of variables to pass."""
    variables = {**environ}
    # The user's number has no name in the image; `getpass.getuser`, which many programs call, would fail.
    variables.setdefault("USER", str(os.geteuid()))
    if engine.kind == "apptainer":
        to_pass = {f"APPTAINERENV_{name}": variables[name] for name in passed(variables)}
        # Apptainer mounts the user's home, whose packages were installed for another Python.
        variables |= {**to_pass, "APPTAINERENV_PYTHONNOUSERSITE": "1"}
    return variables


def end(engine: ContainerEngine, name: str) -> None:
    """Remove a container that is still there after its client was killed."""
    if engine.kind != "apptainer":
        words = [engine.path, "rm", "--force", name]
        subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
